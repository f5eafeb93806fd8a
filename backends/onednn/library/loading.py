"""Finds and binds libdnnl through ctypes: enumerators, structs, prototypes, statuses.

Source of every number and prototype: the C headers of oneDNN 3.2 (`dnnl.h`, `dnnl_types.h`,
`dnnl_common_types.h`); a test compares the numbers with the headers where these are installed.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import platform
import sys
from collections.abc import Generator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from attrs import frozen

from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from .enumerators import Algorithm, CpuIsa
from .prototypes import PROTOTYPES
from .waiting import short_waits

DISTRIBUTION = "onednn-cpu-gomp"
DISTRIBUTION_VERSION = "2023.2.0"
SUPPORTED_VERSION = (3, 2)
MAX_NDIMS = 12
MAX_SPATIAL_RANK = 3
"""Spatial axes that its convolutions have at most."""

DATA_TYPES: dict[DataType, int] = {
    DataType.f16: 1,
    DataType.bf16: 2,
    DataType.f32: 3,
    DataType.s32: 4,
    DataType.s8: 5,
    DataType.u8: 6,
    DataType.f64: 7,
    DataType.boolean: 8,
}
"""`dnnl_data_type_t`."""

STATUSES = (
    "success",
    "out of memory",
    "invalid arguments",
    "unimplemented",
    "last implementation reached",
    "runtime error",
    "not required",
    "invalid graph",
    "invalid graph op",
    "invalid shape",
    "invalid data type",
)
"""`dnnl_status_t`."""

SUCCESS, INVALID_ARGUMENTS, UNIMPLEMENTED, LAST_IMPL_REACHED = 0, 2, 3, 4


CONVOLUTION_DIRECT = Algorithm.convolution_direct
ENGINE_CPU = 1
STREAM_DEFAULT_FLAGS = 1
SCRATCHPAD_USER = 1
FORMAT_TAG_ANY = 1

Dims = c_int64 * MAX_NDIMS


def dims(values: tuple[int, ...]) -> ctypes.Array[c_int64]:
    """`dnnl_dims_t` of the values."""
    return Dims(*values)


class _Version(ctypes.Structure):
    _fields_ = (
        ("major", c_int),
        ("minor", c_int),
        ("patch", c_int),
        ("hash", c_char_p),
        ("cpu_runtime", c_uint),
        ("gpu_runtime", c_uint),
    )


@frozen(eq=False)
class Library:
    """The loaded library.

    Attributes:
        path: file that was loaded.
        version: (major, minor, patch).
        c: the ctypes handle, with prototypes set.
        waiting: in words, how its threads wait for work.
    """

    path: Path
    version: tuple[int, int, int]
    c: Any
    waiting: str = ""

    def check(self, status: int, what: str) -> None:
        """Raises LibraryError unless `status` is success."""
        if status != SUCCESS:
            name = STATUSES[status] if 0 <= status < len(STATUSES) else f"status {status}"
            raise LibraryError(
                f"oneDNN {'.'.join(map(str, self.version))}: {what} failed with '{name}'; "
                "compile with backend='numpy' to go on without it"
            )

    def new(self, function: str, *args: object) -> int:
        """Calls a `…_create` function and returns the handle that it makes."""
        handle = c_void_p()
        self.check(getattr(self.c, function)(ctypes.byref(handle), *args), function)
        return handle.value or 0

    def destroy(self, function: str, handle: int) -> None:
        """Calls a `…_destroy` function, from a finalizer, say: there an error goes to `sys.unraisablehook`.

        Raises:
            LibraryError: the library did not destroy it.
        """
        status = getattr(self.c, function)(handle)
        if status:  # not by the name SUCCESS, which may be gone where the interpreter ends
            self.check(status, function)

    @property
    def threads(self) -> int:
        """How many threads a kernel that is made now will use: GNU OpenMP's setting for the calling thread."""
        return int(self.c.omp_get_max_threads())

    @contextmanager
    def using(self, threads: int) -> Generator[None, None, None]:
        """Within the block, the calling thread's kernels are made for so many threads, and run on them."""
        before = self.threads
        if before == threads:
            yield
            return
        self.c.omp_set_num_threads(threads)
        try:
            yield
        finally:
            self.c.omp_set_num_threads(before)

    @property
    def effective_isa(self) -> str:
        """The instruction set that the library's kernels use, `avx2` or `avx512_core_bf16`, say."""
        value: int = self.c.dnnl_get_effective_cpu_isa()
        return next((isa.name for isa in CpuIsa if isa == value), hex(value))


def find_library() -> Path:
    """The file `libdnnl.so.3` of the installed distribution.

    Raises:
        LibraryError: the platform has none, or the distribution is not installed.
    """
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise LibraryError(
            f"oneDNN's wheel is for Linux x86-64, and this is {sys.platform} {platform.machine()}"
        )
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        raise LibraryError(
            f"the distribution {DISTRIBUTION} is not installed; "
            f"pip install {DISTRIBUTION}=={DISTRIBUTION_VERSION}"
        ) from None
    for file in files:
        if file.name == "libdnnl.so.3":
            path = Path(str(file.locate())).resolve()
            if path.exists():
                return path
    raise LibraryError(
        f"the distribution {DISTRIBUTION} is installed without its libdnnl.so.3; "
        f"pip install --force-reinstall {DISTRIBUTION}=={DISTRIBUTION_VERSION}"
    )


@functools.cache
def load() -> Library:
    """Loads the library once per process.

    Raises:
        LibraryError: it is not there, can't be loaded, or is not version 3.2.
    """
    path = find_library()
    try:
        with short_waits() as waiting:
            c = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(f"{path} can't be loaded: {error}") from error
    c.dnnl_version.restype = POINTER(_Version)
    found = c.dnnl_version().contents
    version = (int(found.major), int(found.minor), int(found.patch))
    if version[:2] != SUPPORTED_VERSION:
        raise LibraryError(
            f"{path} is oneDNN {'.'.join(map(str, version))}, and only 3.2 has been proven here; "
            f"pip install {DISTRIBUTION}=={DISTRIBUTION_VERSION}"
        )
    for name, argtypes in PROTOTYPES.items():
        function = getattr(c, name)
        function.argtypes = argtypes
        function.restype = c_int
    c.dnnl_memory_desc_get_size.argtypes = (c_void_p,)
    c.dnnl_memory_desc_get_size.restype = c_size_t
    c.dnnl_memory_desc_equal.argtypes = (c_void_p, c_void_p)
    c.dnnl_memory_desc_equal.restype = c_int
    c.dnnl_primitive_desc_query_md.argtypes = (c_void_p, c_int, c_int)
    c.dnnl_primitive_desc_query_md.restype = c_void_p
    c.dnnl_get_effective_cpu_isa.restype = c_int
    c.omp_get_max_threads.argtypes = ()
    c.omp_get_max_threads.restype = c_int
    c.omp_set_num_threads.argtypes = (c_int,)
    c.omp_set_num_threads.restype = None
    return Library(path, version, c, waiting)
