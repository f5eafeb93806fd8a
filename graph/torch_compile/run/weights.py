"""Weights as the library wants them, made once and again when they have changed.

Torch counts most changes, and a weight with other memory has another address. What is written behind torch's back,
`parameter.data[…] = 0` or through an array of NumPy's, is found by looking: at some words of each weight at each call,
and at all of it piece by piece, one after another, against checksums. That takes a small part of the time that passes.
"""

from __future__ import annotations

import gc
import operator
import weakref
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import Any

import numpy as np

from ....ops.records import define
from ...runtime.arrays import Array
from ...runtime.locking import Lock
from ...runtime.words import Words
from ..tensors import KnownMemory, as_bytes, data_ptr, expired

KEPT = 64
"""Sets of weights that are kept for one region: layers of one kind share it."""
SAMPLES = 32
"""Words of a weight that are looked at before each call."""
PIECE = 1 << 14
"""Bytes that have one checksum."""
PAUSE = 0.0002
"""Seconds after a look at pieces in which there is no other: one takes as long as a small model."""
SHARE = 1 / 64
"""Part of the time since the last look that the next one may take."""
LONGEST = 0.005
"""Seconds that a look takes at most, however long nobody has called."""


@define(eq=False)
class _Set:
    """What was made of some weights.

    Attributes:
        memory: theirs, which is not kept, so that a model can go. numbers: by which it is known.
        versions: torch's counts of changes in place.
        samples: some of their elements, and what these were.
        pieces: all of their elements, where they lie; and the checksum of each piece.
        made: of them.
    """

    memory: tuple[KnownMemory, ...]
    versions: tuple[int, ...]
    samples: Words
    pieces: tuple[memoryview, ...]
    checksums: tuple[int, ...]
    numbers: tuple[int, ...]
    made: tuple[object, ...] = ()
    next: int = 0
    looked: float = 0.0

    def is_gone(self) -> bool:
        """Whether some of their memory was given back, so that other tensors may lie there."""
        return any(map(expired, self.numbers))

    def is_fresh(self, versions: tuple[int, ...]) -> bool:
        """Whether they are as they were, as far as torch counts, and samples and the next pieces tell."""
        return versions == self.versions and self.samples.are() and self._pieces_are()

    def _pieces_are(self) -> bool:
        """Whether the next pieces are as they were: as many as there is time for, one at least after a pause."""
        now = perf_counter()
        if now - self.looked < PAUSE:
            return True
        until = now + min((now - self.looked) * SHARE, LONGEST)
        place, count = self.next, len(self.pieces)
        for _ in range(count):
            if zlib.crc32(self.pieces[place]) != self.checksums[place]:
                return False
            place = (place + 1) % count
            if perf_counter() >= until:
                break
        self.next, self.looked = place, perf_counter()
        return True


class Weights:
    """What was made of sets of weights, by their addresses."""

    def __init__(self) -> None:
        self._sets: dict[tuple[int, ...], _Set] = {}
        self._lock = Lock()
        _everywhere.append(weakref.ref(self, _everywhere.remove))

    def __len__(self) -> int:
        return len(self._sets)

    def known(self, key: tuple[int, ...], tensors: Sequence[Any]) -> tuple[object, ...] | None:
        """What was made of these tensors, if they are as they were; None if not.

        Args:
            key: their addresses.
        """
        known = self._sets.get(key)
        if known is None or known.is_gone():
            return None
        try:
            versions = tuple(map(_version, tensors))
        except RuntimeError:
            return None
        return known.made if known.is_fresh(versions) else None

    def of(self, tensors: Sequence[Any], make: Callable[[], tuple[object, ...]]) -> tuple[object, ...]:
        """What `make` makes of these tensors, or has made."""
        if not tensors:
            return make()
        try:
            versions = tuple(map(_version, tensors))
        except RuntimeError:  # tensors that were made in inference mode have none
            return make()
        key = tuple(map(data_ptr, tensors))
        known = self.known(key, tensors)
        if known is not None:
            return known
        sweep()
        pieces = tuple(piece for tensor in tensors for piece in _pieces(tensor))
        memory = tuple(KnownMemory(tensor) for tensor in tensors)
        found = _Set(
            memory=memory,
            numbers=tuple(one.number for one in memory),
            versions=versions,
            samples=Words([_samples(tensor) for tensor in tensors]),
            pieces=pieces,
            checksums=tuple([zlib.crc32(piece) for piece in pieces]),
        )
        found.made = make()  # after the checksums: what changes meanwhile is seen later
        found.looked = perf_counter()
        with self._lock:
            while len(self._sets) >= KEPT:
                self._sets.pop(next(iter(self._sets)), None)
            self._sets[key] = found
        return found.made

    def forget(self, memory: Collection[int] | None) -> None:
        """Has what was made of tensors with memory of these numbers, or of all, be made anew."""
        with self._lock:
            for key, one in list(self._sets.items()):
                if memory is None or any(held.number in memory for held in one.memory):
                    self._sets.pop(key, None)

    def sweep(self) -> None:
        """Leaves out what was made of tensors that are gone. It takes no lock: the garbage collector calls it."""
        for key, one in list(self._sets.items()):
            if one.is_gone():
                self._sets.pop(key, None)


_version: Callable[[Any], int] = operator.attrgetter("_version")
_everywhere: list[weakref.ref[Weights]] = []


def sweep(phase: str = "stop", info: Mapping[str, int] = MappingProxyType({"generation": 2})) -> None:
    """Gives back what was made of weights that are gone: before more is made, and when Python collects all garbage."""
    if phase == "stop" and info["generation"] == 2:
        for reference in _everywhere:
            weights = reference()
            if weights is not None:
                weights.sweep()


gc.callbacks.append(sweep)


def _pieces(tensor: Any) -> list[memoryview]:
    """All elements of a dense tensor, where they lie, in pieces."""
    memory = as_bytes(tensor).data
    return [memory[start : start + PIECE] for start in range(0, len(memory), PIECE)]


def _samples(tensor: Any) -> Array:
    """Elements all over a dense tensor, where they lie; all of them of a small one.

    By them what changes a weight as a whole, `parameter.data.mul_(2)`, is seen at the next call.
    """
    memory = as_bytes(tensor)
    words = memory if memory.size % 4 else memory.view(np.uint32)
    return words[:: max(len(words) // SAMPLES | 1, 1)] if len(words) > 2 * SAMPLES else words
