"""What a build of the library runs its kernels on: GNU's or another OpenMP, TBB, or the calling thread alone.

Source of the numbers: `DNNL_RUNTIME_…` of the C headers. TBB's number of threads is asked of TBB, as the library does.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int, c_void_p
from pathlib import Path
from typing import Any

from attrs import frozen

from ....ops.errors import LibraryError

NONE, SEQUENTIAL, OPENMP, TBB, THREAD_POOL, SYCL = 0, 1, 2, 4, 8, 512
GNU_OPENMP = "GNU OpenMP"
LLVM_OPENMP = "Intel's or LLVM's OpenMP"
TBB_NAME = "TBB"
UNFIT = {
    NONE: "runs on GPUs alone",
    THREAD_POOL: "takes its threads from an application's thread pool",
    SYCL: "runs its kernels by SYCL",
}
"""Builds that can't be used, in words."""
WAYS_OUT = "use one that was built with ONEDNN_CPU_RUNTIME=OMP, TBB or SEQ"
TBB_CONCURRENCY = "_ZN3tbb6detail2r115max_concurrencyEPKNS0_2d115task_arena_baseE"
"""`tbb::detail::r1::max_concurrency(task_arena_base const*)`, which takes no arena for the thread's own."""


@frozen(eq=False)
class Runtime:
    """The threads of a build.

    Attributes:
        name: in words, `GNU OpenMP`, say.
        count: how many a kernel that is made now will use.
        set_count: sets it for the calling thread; None where the build has no such setting.
    """

    name: str
    count: Callable[[], int]
    set_count: Callable[[int], object] | None = None


def runtime_of(c: Any, number: int, path: Path) -> Runtime:
    """The threads of a loaded library.

    Args:
        number: `dnnl_version_t::cpu_runtime`.

    Raises:
        LibraryError: it can't be used with such threads.
    """
    if number == OPENMP:
        return _openmp(c)
    if number == TBB:
        count = getattr(c, TBB_CONCURRENCY)
        count.argtypes = (c_void_p,)
        count.restype = c_int
        return Runtime(TBB_NAME, lambda: int(count(None)))
    if number == SEQUENTIAL:
        return Runtime("the calling thread", lambda: 1)
    raise LibraryError(f"{path} {UNFIT.get(number, f'has threads of kind {number}')}; {WAYS_OUT}")


def _openmp(c: Any) -> Runtime:
    count, set_count = c.omp_get_max_threads, c.omp_set_num_threads
    count.argtypes = ()
    count.restype = c_int
    set_count.argtypes = (c_int,)
    set_count.restype = None
    other = hasattr(c, "kmp_get_blocktime")
    return Runtime(LLVM_OPENMP if other else GNU_OPENMP, count, set_count)
