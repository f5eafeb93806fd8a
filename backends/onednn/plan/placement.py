"""Which bytes of an arena are free while temporaries come and go."""

from __future__ import annotations

import math
from bisect import bisect_left


class FreeBytes:
    """Bytes from 0 on without an end; whoever asks gets the first that are free.

    Attributes:
        total: one more than the highest byte that was ever taken.
    """

    def __init__(self) -> None:
        self.total = 0
        self._gaps: list[tuple[int, float]] = [(0, math.inf)]
        """Beginning and end of what is free, in order; no two of them touch."""

    def take(self, size: int) -> int:
        """The beginning of so many bytes, which are not free from now on."""
        number = next(n for n, (start, end) in enumerate(self._gaps) if end - start >= size)
        start, end = self._gaps[number]
        rest = [(start + size, end)] if start + size < end else []
        self._gaps[number : number + 1] = rest
        self.total = max(self.total, start + size)
        return start

    def give(self, start: int, size: int) -> None:
        """Makes bytes free again that were taken."""
        if not size:
            return
        first: int = start
        last: float = start + size
        number = bisect_left(self._gaps, (start, 0))
        before = number
        if number < len(self._gaps) and self._gaps[number][0] == last:
            last = self._gaps[number][1]
            number += 1
        if before and self._gaps[before - 1][1] == start:
            before -= 1
            first = self._gaps[before][0]
        self._gaps[before:number] = [(first, last)]
