"""Finds and binds libdnnl through ctypes: enumerators, structs, prototypes, statuses.

Source of every number and prototype: the C headers of oneDNN 3.2 (`dnnl.h`, `dnnl_types.h`,
`dnnl_common_types.h`), which later versions only add to; a test compares the numbers with the headers where these are
installed.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Generator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any

from ....ops.data_types import DataType
from ....ops.errors import ArgumentTypeError, LibraryError
from ....ops.records import frozen
from ....ops.values import format_value
from .capabilities import Capabilities, capabilities_of
from .cpu import cpu_kind
from .enumerators import CpuIsa
from .finding import DISTRIBUTION, DISTRIBUTION_VERSION, VARIABLE, Found, find_library, name_library
from .prototypes import LATER_PROTOTYPES, PROTOTYPES
from .runtimes import GNU_OPENMP, Held, Runtime, runtime_of
from .signals import shelter
from .waiting import short_waits

Version = tuple[int, int]
"""Major and minor: what one of them does, its patches do."""
OLDEST, TOO_NEW = (3, 2), (4, 0)
"""Versions that can be used: from the first on, and before the second."""
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
LATER_DATA_TYPES: dict[DataType, int] = {DataType.s4: 11, DataType.u4: 12}
"""Those that came after 3.2; two elements share a byte, the first in the lower half."""

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


ENGINE_CPU = 1
STREAM_DEFAULT_FLAGS = 1
SCRATCHPAD_USER = 1
FORMAT_TAG_ANY = 1

WHOLE = "name a libdnnl.so of a whole installation"
OTHERS = (
    "dnnl_memory_desc_get_size",
    "dnnl_memory_desc_equal",
    "dnnl_primitive_desc_query_md",
    "dnnl_get_effective_cpu_isa",
)
"""Functions that return no status, and so are not among `PROTOTYPES`."""

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
        runtime: its threads.
        capabilities: what it has beside what 3.2 has.
        source: who named the file, in words.
        build: what remembered times belong to: the version, and of another build than the wheel's the commit and the
            threads.
        waiting: in words, how its threads wait for work.
    """

    path: Path
    version: tuple[int, int, int]
    c: Any
    runtime: Runtime
    capabilities: Capabilities
    source: str
    build: tuple[int | str, ...]
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
        """How many threads a kernel that is made now will use, by the setting of the calling thread."""
        return int(self.runtime.count())

    def granted(self, threads: int) -> int:
        """How many a kernel that is described now may count on where so many are asked for: OpenMP may give fewer."""
        return self.runtime.granted(threads)

    @contextmanager
    def using(self, threads: int) -> Generator[None, None, None]:
        """Within the block, the calling thread's kernels are made for so many threads, and run on them.

        Builds whose threads have no such setting run on all of theirs.

        Args:
            threads: as many as `granted` has said, if only once: what other code sets later must not part a kernel from
                the threads that it was described for.
        """
        held = self.hold(threads)
        try:
            yield
        finally:
            if held is not None:
                self.runtime.release(held)

    def hold(self, threads: int) -> Held | None:
        """The beginning of `using`, for what is called often; what it returns is for `runtime.release`, unless None."""
        shelter(self.runtime, threads)
        return self.runtime.hold(threads)

    @property
    def machine(self) -> dict[str, Any]:
        """What times depend on that are measured here, whatever is timed: part of each key of the tuning cache."""
        return {
            "machine": cpu_kind(),
            "isa": self.effective_isa,
            "threads": self.threads,
            "library": list(self.build),
        }

    @property
    def effective_isa(self) -> str:
        """The instruction set that the library's kernels use, `avx2` or `avx512_core_bf16`, say."""
        value: int = self.c.dnnl_get_effective_cpu_isa()
        return next((isa.name for isa in CpuIsa if isa == value), hex(value))


@functools.cache
def load() -> Library:
    """Loads the library once per process.

    Raises:
        LibraryError: it is not there, can't be loaded, or is not of version 3.2 or a later 3.x.
    """
    found = find_library()
    try:
        return _loaded(found)
    except LibraryError as error:
        if not found.way_out:
            raise
        raise LibraryError(f"{error}; {found.way_out}") from error


def _loaded(found: Found) -> Library:
    """The library of a file.

    Raises:
        LibraryError: see `load`.
    """
    try:
        with short_waits(gnu=found.is_wheel) as waiting:
            c = ctypes.CDLL(str(found.path))
    except OSError as error:
        raise LibraryError(f"{found.path} can't be loaded: {error}{_hint(str(error))}") from error
    told = _version(c, found.path)
    lacking = next((name for name in (*PROTOTYPES, *OTHERS) if not hasattr(c, name)), None)
    if lacking is not None:
        raise LibraryError(f"{found.path} is no whole libdnnl: it has no function {lacking}; {WHOLE}")
    version = (int(told.major), int(told.minor), int(told.patch))
    runtime = runtime_of(c, int(told.cpu_runtime), found.path)
    for name, argtypes in PROTOTYPES.items():
        function = getattr(c, name)
        function.argtypes = argtypes
        function.restype = c_int
    capabilities = capabilities_of(c)
    for name, argtypes in LATER_PROTOTYPES.items():
        if hasattr(c, name):
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
    words = waiting if runtime.name == GNU_OPENMP else f"as {runtime.name} has it"
    build = () if found.is_wheel else ((told.hash or b"").decode(), runtime.name)
    return Library(found.path, version, c, runtime, capabilities, found.source, (*version, *build), words)


def loaded_library() -> str:
    """The library in a message: `library 3.2`, say.

    Raises:
        LibraryError: see `load`.
    """
    return "library {}.{}".format(*load().version)


def _hint(error: str) -> str:
    """What may help where a library that the library needs is not found."""
    if "cannot open shared object file" in error and "libdnnl" not in error.partition(":")[0]:
        return "; put the folder of that file on LD_LIBRARY_PATH before Python starts"
    return ""


def _version(c: Any, path: Path) -> _Version:
    """The version of a loaded library.

    Raises:
        LibraryError: it has none, or one that can't be used.
    """
    try:
        function = c.dnnl_version
    except AttributeError:
        raise LibraryError(f"{path} is no libdnnl: it has no function dnnl_version") from None
    function.restype = POINTER(_Version)
    try:
        told = function().contents
    except ValueError:  # a null pointer
        raise LibraryError(f"{path} is no libdnnl: its dnnl_version tells none; {WHOLE}") from None
    version = (int(told.major), int(told.minor))
    if not OLDEST <= version < TOO_NEW:
        age = "old" if version < OLDEST else "new"
        raise LibraryError(
            f"{path} is oneDNN {told.major}.{told.minor}.{told.patch}, which is too {age}; use one from "
            f"{OLDEST[0]}.{OLDEST[1]} to any {OLDEST[0]}.x, or none but the wheel's: pip install "
            f"{DISTRIBUTION}=={DISTRIBUTION_VERSION}"
        )
    return told


def use_library(path: str | os.PathLike[str]) -> None:
    """Loads another libdnnl than the wheel's, 3.2 to any 3.x, for all that this process runs on oneDNN.

    It is to be called before anything is compiled or asked of the backends; the environment variable
    `ONEDNN_GRAPH_LIBRARY` does the same without a call.

    Args:
        path: of the file, `libdnnl.so`.

    Raises:
        ArgumentTypeError: no path.
        LibraryError: another one is loaded already, or this one can't be used; nothing has changed then.
    """
    if not isinstance(path, str | os.PathLike) or "\0" in os.fsdecode(path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(f"use_library takes the path of a libdnnl.so, got {format_value(path)}")
    wanted = Path(path).expanduser()
    if load.cache_info().currsize:
        loaded = load()
        if wanted.exists() and wanted.resolve() == loaded.path:
            return
        raise LibraryError(
            f"{loaded.path} is loaded already, and a process has one oneDNN: call og.use_library({str(path)!r}) "
            f"before anything else of onednn_graph, or set {VARIABLE}"
        )
    before = name_library(wanted)
    try:
        load()
    except LibraryError:
        name_library(before)
        raise
