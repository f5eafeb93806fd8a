"""Weights as the library wants them, made once and again when they have changed.

Torch counts most changes, and a weight with other memory has another address. What is written behind torch's back,
`parameter.data[…] = 0` or through an array of NumPy's, is found by looking: at some words of each weight at each call,
and at all of it piece by piece, call after call, against checksums. That takes a small part of the time that passes.
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Collection, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from attrs import define

from ..runtime.arrays import Array
from ..runtime.locking import Lock
from .tensors import as_bytes

KEPT = 64
"""Sets of weights that are kept for one region: layers of one kind share it."""
SAMPLES = 32
"""Words of a weight that are looked at before each call."""
PIECE = 1 << 14
"""Bytes that have one checksum; before each call at least one such piece is looked at."""
SHARE = 1 / 64
"""Part of the time since the last look that the next one may take."""
LONGEST = 0.005
"""Seconds that a look takes at most, however long nobody has called."""


@define(eq=False)
class _Set:
    """What was made of some weights.

    Attributes:
        tensors: weak, so that a model can go.
        memory: keeps their storage, so that its address stands for them as long as this is kept.
        versions: torch's counts of changes in place.
        samples: some of their elements, where they lie; and what these were.
        pieces: all of their elements, where they lie; and the checksum of each piece.
        made: of them.
    """

    tensors: tuple[weakref.ref[Any], ...]
    memory: tuple[Any, ...]
    versions: tuple[int, ...]
    samples: tuple[Array, ...]
    sampled: bytes
    pieces: tuple[memoryview, ...]
    checksums: tuple[int, ...]
    made: tuple[object, ...] = ()
    next: int = 0
    looked: float = 0.0

    def is_of(self, tensors: Sequence[Any]) -> bool:
        """Whether it was made of these very tensors."""
        return all(ref() is tensor for ref, tensor in zip(self.tensors, tensors, strict=True))

    def is_fresh(self, versions: tuple[int, ...]) -> bool:
        """Whether they are as they were, as far as torch counts, and samples and the next pieces tell."""
        return versions == self.versions and _read(self.samples) == self.sampled and self._pieces_are()

    def _pieces_are(self) -> bool:
        """Whether the next pieces are as they were: as many as there is time for, one at least."""
        now = perf_counter()
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

    def __len__(self) -> int:
        return len(self._sets)

    def of(self, tensors: Sequence[Any], make: Callable[[], tuple[object, ...]]) -> tuple[object, ...]:
        """What `make` makes of these tensors, or has made."""
        if not tensors:
            return make()
        try:
            versions = tuple([tensor._version for tensor in tensors])
        except RuntimeError:  # tensors that were made in inference mode have none
            return make()
        key = tuple([tensor.data_ptr() for tensor in tensors])
        known = self._sets.get(key)
        if known is not None and known.is_of(tensors) and known.is_fresh(versions):
            return known.made

        def forget(ref: object) -> None:
            self._sets.pop(key, None)

        samples = tuple(_samples(tensor) for tensor in tensors)
        pieces = tuple(piece for tensor in tensors for piece in _pieces(tensor))
        found = _Set(
            tensors=tuple(weakref.ref(tensor, forget) for tensor in tensors),
            memory=tuple(tensor.detach() for tensor in tensors),
            versions=versions,
            samples=samples,
            sampled=_read(samples),
            pieces=pieces,
            checksums=tuple([zlib.crc32(piece) for piece in pieces]),
        )
        found.made = make()  # after the checksums: what changes meanwhile is seen later
        found.looked = perf_counter()
        with self._lock:
            for other, one in list(self._sets.items()):
                if one.is_of(tensors):  # it has other memory now
                    self._sets.pop(other, None)
            while len(self._sets) >= KEPT:
                self._sets.pop(next(iter(self._sets)), None)
            self._sets[key] = found
        return found.made

    def forget(self, ids: Collection[int] | None) -> None:
        """Has what was made of any of these tensors, or of all, be made anew.

        Args:
            ids: Python's, of the tensors; None for all.
        """
        with self._lock:
            for key, one in list(self._sets.items()):
                if ids is None or any(id(ref()) in ids for ref in one.tensors):
                    self._sets.pop(key, None)


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


def _read(samples: Sequence[Array]) -> bytes:
    return b"".join([one.tobytes() for one in samples])
