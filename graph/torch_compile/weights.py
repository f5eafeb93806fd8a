"""Weights as the library wants them, made once and again when torch says that they have changed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

KEPT = 64
"""Sets of weights that are kept for one region: layers of one kind share it."""


@frozen(eq=False)
class _Set:
    """What was made of some weights.

    Attributes:
        tensors: weak, so that a model can go.
        memory: keeps their storage, so that its address stands for them as long as this is kept.
        versions: torch's counts of changes in place.
        made: of them.
    """

    tensors: tuple[weakref.ref[Any], ...]
    memory: tuple[Any, ...]
    versions: tuple[int, ...]
    made: tuple[object, ...]

    def is_of(self, tensors: Sequence[Any], versions: tuple[int, ...]) -> bool:
        """Whether it was made of these very tensors, as they are now."""
        same = all(ref() is tensor for ref, tensor in zip(self.tensors, tensors, strict=True))
        return same and versions == self.versions


class Weights:
    """What was made of sets of weights, by their addresses.

    Changes by `tensor.data` are none that torch counts.
    """

    def __init__(self) -> None:
        self._sets: dict[tuple[int, ...], _Set] = {}

    def of(self, tensors: Sequence[Any], make: Callable[[], tuple[object, ...]]) -> tuple[object, ...]:
        """What `make` makes of these tensors, or has made."""
        if not tensors:
            return make()
        try:
            versions = tuple(tensor._version for tensor in tensors)
        except RuntimeError:  # tensors that were made in inference mode have none
            return make()
        key = tuple(tensor.data_ptr() for tensor in tensors)
        known = self._sets.get(key)
        if known is not None and known.is_of(tensors, versions):
            return known.made
        made = make()
        while len(self._sets) >= KEPT:
            self._sets.pop(next(iter(self._sets), key), None)

        def forget(ref: object) -> None:
            self._sets.pop(key, None)

        self._sets[key] = _Set(
            tuple(weakref.ref(tensor, forget) for tensor in tensors),
            tuple(tensor.detach() for tensor in tensors),
            versions,
            made,
        )
        return made
