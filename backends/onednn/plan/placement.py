"""Where temporaries lie in an arena, and which of its bytes are free while they come and go."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence

from ....ops.records import frozen
from .arena import aligned


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


@frozen(kw_only=True)
class Life:
    """Something that needs memory of an arena for a while.

    Attributes:
        nbytes: how much.
        first, last: numbers of the first and the last step that need it; -1 is before all steps.
        heir_of: numbers of earlier lives whose memory it may have if they end with the step that it begins with.
    """

    nbytes: int
    first: int
    last: int
    heir_of: tuple[int, ...] = ()


@frozen
class Placement:
    """Where lives lie in an arena.

    Attributes:
        lives: in the order in which they begin.
        offsets: of each, its first byte: at a cache line.
        nbytes: size of the arena.
    """

    lives: tuple[Life, ...]
    offsets: tuple[int, ...]
    nbytes: int

    def dead(self, steps: int) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each of so many steps, the bytes that hold nothing of use before it: beginning and end."""
        held: list[list[tuple[int, int]]] = [[] for _ in range(steps)]
        for life, offset in zip(self.lives, self.offsets, strict=True):
            for number in range(life.first + 1, min(life.last + 1, steps)):
                held[number].append((offset, offset + life.nbytes))
        return tuple(map(self._gaps, held))

    def _gaps(self, held: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        """What is left of the arena by parts that may overlap."""
        held.sort()
        starts = [0, *itertools.accumulate((end for _, end in held), max)]
        ends = [*(start for start, _ in held), self.nbytes]
        return tuple((a, b) for a, b in zip(starts, ends, strict=True) if a < b)


def place(lives: Sequence[Life]) -> Placement:
    """Gives each life the first bytes that are free from its first step to its last, or those of one that it inherits.

    Args:
        lives: in the order in which they begin.
    """
    free = FreeBytes()
    offsets: list[int] = []
    ending: dict[int, set[int]] = {}  # step → lives whose bytes are free after it
    now = -1
    for number, life in enumerate(lives):
        for step in range(now, life.first):
            for ended in ending.pop(step, ()):
                free.give(offsets[ended], aligned(lives[ended].nbytes))
        now = life.first
        heirless = ending.get(now, set())
        taken = next((one for one in life.heir_of if one in heirless and _fits(life, lives[one])), None)
        if taken is None:
            offsets.append(free.take(aligned(life.nbytes)))
        else:
            heirless.remove(taken)
            offsets.append(offsets[taken])
        ending.setdefault(life.last, set()).add(number)
    return Placement(tuple(lives), tuple(offsets), free.total)


def _fits(life: Life, other: Life) -> bool:
    """Whether one needs as many cache lines as another."""
    return aligned(life.nbytes) == aligned(other.nbytes)
