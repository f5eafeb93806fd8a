"""What a build of the library runs its kernels on: GNU's or another OpenMP, TBB, or the calling thread alone.

Source of the numbers: `DNNL_RUNTIME_…` of the C headers. TBB's number of threads is asked of TBB, as the library does.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from ctypes import CFUNCTYPE, c_int, c_uint, c_void_p
from pathlib import Path
from typing import Any, Protocol, cast

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


Held = tuple[int, int, int]
"""What a thread's setting was: its threads, whether they are dynamic, levels of parallel regions."""


class Runtime(Protocol):
    """The threads of a build."""

    @property
    def name(self) -> str:
        """In words, `GNU OpenMP`, say."""
        ...

    def count(self) -> int:
        """How many a kernel is described for that is described now, on the calling thread."""
        ...

    def granted(self, threads: int) -> int:
        """How many a kernel really gets, on the calling thread, where so many are asked for."""
        ...

    @property
    def getter(self) -> int:
        """Address of a C function that tells the calling thread's number of threads; 0 where it can't be set."""
        ...

    @property
    def setter(self) -> int:
        """Address of a C function that sets the number of threads within `hold`; 0 where that can't be."""
        ...

    def hold(self, threads: int) -> Held | None:
        """Sees to it that the calling thread's kernels are described for so many threads, and run on them.

        Args:
            threads: as many as were granted.

        Returns:
            What `release` takes; None where nothing was changed.
        """
        ...

    def release(self, held: Held) -> None:
        """Puts back what `hold` has changed."""
        ...

    def everywhere(self, threads: int, function: Callable[[object], object]) -> None:
        """Calls a function once on each thread of the calling one's team; on none where that is not known."""
        ...

    def is_foreign(self) -> bool:
        """Whether the calling thread is not its own master here, and kernels have to run on another: see `fork.run`."""
        ...


def runtime_of(c: Any, number: int, path: Path) -> Runtime:
    """The threads of a loaded library.

    Args:
        number: `dnnl_version_t::cpu_runtime`.

    Raises:
        LibraryError: it can't be used with such threads.
    """
    if number == OPENMP:
        return OpenMP(c)
    if number == TBB:
        return ThreadingBuildingBlocks(c)
    if number == SEQUENTIAL:
        return CallingThread()
    raise LibraryError(f"{path} {UNFIT.get(number, f'has threads of kind {number}')}; {WAYS_OUT}")


class OpenMP:
    """GNU's, or Intel's and LLVM's.

    A region gets fewer threads than are asked for by `OMP_THREAD_LIMIT`, by `OMP_DYNAMIC` on a busy machine, by
    `OMP_MAX_ACTIVE_LEVELS=0`, and within another region. A kernel that was described for more computes a part of its
    result, or waits for ever at a barrier.
    """

    def __init__(self, c: Any) -> None:
        self.name = LLVM_OPENMP if hasattr(c, "kmp_get_blocktime") else GNU_OPENMP
        self.count = _function(c.omp_get_max_threads)
        self._set_count = _function(c.omp_set_num_threads, c_int)
        self._limit = _function(c.omp_get_thread_limit)
        self._dynamic = _function(c.omp_get_dynamic)
        self._set_dynamic = _function(c.omp_set_dynamic, c_int)
        self._levels = _function(c.omp_get_max_active_levels)
        self._set_levels = _function(c.omp_set_max_active_levels, c_int)
        self._in_region = _function(c.omp_in_parallel)
        self._parallel = getattr(c, "GOMP_parallel", None)
        if self._parallel is not None:
            self._parallel.argtypes = (c_void_p, c_void_p, c_uint, c_uint)
            self._parallel.restype = None
        self._seen: dict[int, int] = {}

    def granted(self, threads: int) -> int:
        if threads == 1 or self._in_region() or self._levels() < 1:
            return 1
        threads = min(threads, self._limit())
        if threads == 1:
            return 1
        if threads not in self._seen:
            self._seen[threads] = min(threads, _elsewhere(lambda: self._team(threads), threads))
        return self._seen[threads]

    def _team(self, threads: int) -> int:
        """How many threads come to a region that is tried."""
        if self._parallel is None:
            return threads
        came: list[object] = []
        self.everywhere(threads, came.append)
        return len(came)

    def everywhere(self, threads: int, function: Callable[[object], object]) -> None:
        if self._parallel is None:
            return
        each = CFUNCTYPE(None, c_void_p)(function)
        held = self.hold(threads)
        try:
            self._parallel(each, None, threads, 0)
        finally:
            if held is not None:
                self.release(held)

    @property
    def getter(self) -> int:
        return ctypes.cast(cast("Any", self.count), c_void_p).value or 0

    @property
    def setter(self) -> int:
        return ctypes.cast(cast("Any", self._set_count), c_void_p).value or 0

    def hold(self, threads: int) -> Held | None:
        before = self.count()
        if threads == 1:  # needs no team
            if before == 1:
                return None
            self._set_count(1)
            return before, 0, 1
        dynamic, levels = self._dynamic(), self._levels()
        if before == threads and not dynamic and levels:
            return None
        self._set_count(threads)
        if dynamic:
            self._set_dynamic(0)
        if not levels:
            self._set_levels(1)
        return before, dynamic, levels

    def release(self, held: Held) -> None:
        before, dynamic, levels = held
        self._set_count(before)
        if dynamic:
            self._set_dynamic(dynamic)
        if not levels:
            self._set_levels(levels)

    def is_foreign(self) -> bool:
        return bool(self._in_region())


class _Unsettable:
    """Threads whose number nobody sets."""

    getter = 0
    setter = 0

    def __init__(self, count: Callable[[], int]) -> None:
        self.count = count

    def granted(self, threads: int) -> int:
        del threads
        return self.count()

    def hold(self, threads: int) -> None:
        del threads

    def release(self, held: Held) -> None:
        del held

    def everywhere(self, threads: int, function: Callable[[object], object]) -> None:
        del threads, function


class ThreadingBuildingBlocks(_Unsettable):
    """TBB's, whose number is that of the calling thread's arena and can't be set.

    A kernel that was described in a small arena has too little memory in a larger one, so that threads which somebody
    has put into an arena of another size are foreign.
    """

    name = TBB_NAME

    def __init__(self, c: Any) -> None:
        concurrency = _function(getattr(c, TBB_CONCURRENCY), c_void_p)
        super().__init__(lambda: concurrency(None))
        self._own = _elsewhere(self.count, 1)

    def is_foreign(self) -> bool:
        return self.count() != self._own


class CallingThread(_Unsettable):
    """No threads but the one that calls."""

    name = "the calling thread"

    def __init__(self) -> None:
        super().__init__(lambda: 1)

    def is_foreign(self) -> bool:
        return False


def _function(function: Any, *arguments: Any) -> Callable[..., int]:
    function.argtypes = arguments
    function.restype = c_int
    return function


def _elsewhere(function: Callable[[], int], otherwise: int) -> int:
    """What a function says on a thread of its own, of which nobody has changed the settings, and which has been through
    no fork; something else where no thread can be started.
    """
    said: list[int] = []
    thread = threading.Thread(target=lambda: said.append(function()), name="onednn-threads")
    with suppress(RuntimeError):
        thread.start()
        thread.join()
    return said[0] if said else otherwise
