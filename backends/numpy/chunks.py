"""Elementwise work on long arrays in chunks that stay in a cache, on several threads: NumPy lets go of the GIL."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from ...graph.runtime.locking import Lock
from ...graph.runtime.threads import get_num_threads

CHUNK = 1 << 16
"""Elements that are worked on at a time: few enough for a second-level cache, many enough to forget the calls."""
LEAST_CHUNKS = 4
"""Chunks of a thread for which it is worth waking."""

Work = Callable[[int, int], None]
"""On elements from the first number up to before the second."""


class _Pool:
    """Threads that are started when they are first needed, and again in a forked child, which has none of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: tuple[int, int] | None = None
        self._executor: ThreadPoolExecutor | None = None

    def of(self, threads: int) -> ThreadPoolExecutor:
        """A pool of at least so many threads."""
        with self._lock:
            wanted = (os.getpid(), threads)
            if (
                self._executor is None
                or self._known is None
                or self._known[0] != wanted[0]
                or self._known[1] < threads
            ):
                self._executor = ThreadPoolExecutor(threads, "onednn_graph")
                self._known = wanted
            return self._executor


_POOL = _Pool()


def in_chunks(size: int, make: Callable[[], Work]) -> None:
    """Does some work on all of `size` elements.

    Args:
        make: called once for each thread, for work with scratch memory of its own.
    """
    threads = min(get_num_threads(), size // (LEAST_CHUNKS * CHUNK))
    if threads <= 1:
        _range(make(), 0, size)
        return
    pieces = -(-size // CHUNK)
    bounds = [pieces * number // threads * CHUNK for number in range(threads)] + [size]

    def piece(number: int) -> None:
        _range(make(), bounds[number], bounds[number + 1])

    pool = _POOL.of(threads - 1)
    others: list[Future[None]] = []
    # No pool takes work once the main thread has ended, where other threads go on.
    with suppress(RuntimeError):
        for number in range(1, threads):
            others.append(pool.submit(piece, number))  # noqa: PERF401 -- those before one that is refused count
    try:
        for number in (0, *range(1 + len(others), threads)):
            piece(number)
    finally:
        for other in others:
            other.exception()  # nobody may work on the arrays any more when this returns
    for other in others:
        other.result()


def _range(work: Work, start: int, end: int) -> None:
    for first in range(start, end, CHUNK):
        work(first, min(first + CHUNK, end))
