"""The memory of a plan's temporaries, and the guards that tests and fuzzers put around it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

import numpy as np

from ....graph.runtime.arrays import Array, address
from ....ops.errors import OutOfMemoryError, ResourceError
from ....ops.records import frozen

ALIGNMENT = 64
"""Temporaries start at a cache line."""
ZONE_BYTE = 0xA5
"""What guard zones hold."""
NAN_BYTE = 0xFF
"""Repeated, it is NaN in every floating-point type, and -1 in integers."""


def aligned(size: int) -> int:
    """So many bytes, up to the next cache line."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@frozen(eq=False)
class Arena:
    """Bytes from a cache line on.

    Attributes:
        memory: what was allocated.
        start: address of the first byte.
        size: how many there are.
        zone: bytes of the guard zones before and behind them; 0 without guards.
        fill: what poisoned bytes hold.
    """

    memory: Array
    start: int
    size: int
    zone: int
    fill: int

    @property
    def inside(self) -> Array:
        """The bytes themselves."""
        before = self.start - address(self.memory)
        return self.memory[before : before + self.size]

    def poison(self, parts: Iterable[tuple[int, int]]) -> None:
        """Fills parts of it with what it held at first; `GUARDS` says when.

        Args:
            parts: first byte and the one behind the last.
        """
        for start, end in parts:
            self.inside[start:end] = self.fill

    def intact(self) -> bool:
        """Whether nobody has written to the guard zones.

        Raises:
            ResourceError: it has none.
        """
        if not self.zone:
            raise ResourceError(
                "this arena was made without guards; switch GUARDS on before, which frames look at"
            )
        before = self.start - address(self.memory)
        return bool(
            (self.memory[:before] == ZONE_BYTE).all()
            and (self.memory[before + self.size :] == ZONE_BYTE).all()
        )


class Guards:
    """A switch for tests and fuzzers: guard zones around arenas, and poison in them. It is off in all other use.

        GUARDS.switch_on()
        ...  # frames that are made from now on have guards; those that plans have pooled before don't
        assert frame.intact()

    Guards cost a pass over the memory for each step. Before each one, whatever holds nothing that a later step reads is
    poisoned: a temporary that is read before it is written, or after its life, shows.
    """

    def __init__(self) -> None:
        self._zone = 0
        self._fill = NAN_BYTE

    def switch_on(self, zone: int = 256, fill: int = NAN_BYTE) -> None:
        """Guards for arenas that are made from now on.

        Args:
            zone: bytes before and behind.
            fill: what each byte between holds at first.
        """
        self._zone, self._fill = zone, fill

    @contextmanager
    def on(self, zone: int = 256, fill: int = NAN_BYTE) -> Generator[None, None, None]:
        """`switch_on` for a block."""
        before = self._zone, self._fill
        self.switch_on(zone, fill)
        try:
            yield
        finally:
            self._zone, self._fill = before

    def arena(self, size: int) -> Arena:
        """Memory, with guards where they are on.

        Raises:
            OutOfMemoryError: there is not so much.
        """
        zone = self._zone
        try:
            memory = np.empty(size + ALIGNMENT + 2 * zone, np.uint8)
        except (MemoryError, ValueError) as error:  # the latter for sizes that no array has
            raise OutOfMemoryError(
                f"what a plan computes in between takes {size} bytes of memory, more than there is; use smaller inputs"
            ) from error
        arena = Arena(memory, aligned(address(memory) + zone), size, zone, self._fill)
        if zone:
            memory.fill(ZONE_BYTE)
            arena.inside.fill(self._fill)
        return arena


GUARDS = Guards()
"""The switch of this process."""
