"""Times of a call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from .records import Timed


def times_of(call: Callable[[], object], seconds: float) -> list[float]:
    """The seconds that each of several calls takes, one of them at least, for so long."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while not found or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return found


def timed(times: Sequence[float]) -> Timed | None:
    """The times together; None of none."""
    return Timed(least=min(times), median=statistics.median(times), runs=len(times)) if times else None
