"""Parameter: an array that a graph holds and that changes from run to run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from .arrays import Array, address, aligned_bytes
from .locking import Lock
from .turns import Turn, in_order, in_turn

T = TypeVar("T")

_giving = Lock()


class Parameter:
    """Memory that belongs to one parameter alone, shared by all graphs and models that hold it.

    Attributes:
        array: dense, row-major, aligned, writable. Whoever writes to it calls `changed` afterwards.
        version: grows with each change, so that what was made of the content can be made again.
        turn: what calls of models that assign it hold; None before there is such a model, see `turns_of`.
    """

    def __init__(self, content: Array, dtype: np.dtype[Any]) -> None:
        own = aligned_bytes(content.size * dtype.itemsize).view(dtype)
        self.array: Array = own.reshape(content.shape)
        self.version = 0
        self.turn: Turn | None = None
        self._lock = Lock()
        np.copyto(self.array, content)

    def __reduce__(self) -> tuple[type[Parameter], tuple[Array, np.dtype[Any]]]:
        """A copy, or what is unpickled, has memory of its own with the value of now."""
        return Parameter, (self.array.copy(), self.array.dtype)

    @property
    def view(self) -> Array:
        """The same memory, read-only."""
        seen = self.array.view()
        seen.flags.writeable = False
        return seen

    def changed(self) -> None:
        """Says that the content is another one."""
        with self._lock:
            self.version += 1

    def write(self, content: Array) -> None:
        """Another content, of the same type and shape."""
        try:
            np.copyto(self.array, content)
        finally:
            self.changed()


def write_all(contents: Sequence[tuple[Parameter, Array]]) -> None:
    """Writes each content as it is before the first one is written, between calls of models that assign them.

    One may be what another parameter of them holds, as `graph.parameters` shows it: two change places so. Within a call
    that assigns some, others would keep what is written, or parts of them.
    """
    turns = in_order(one.turn for one, _ in contents if one.turn is not None)
    in_turn(turns, lambda: _write_all(contents))


def _write_all(contents: Sequence[tuple[Parameter, Array]]) -> None:
    places = sorted((address(one.array), number) for number, (one, _) in enumerate(contents))
    starts = [start for start, _ in places]
    arrays: list[Array] = []
    for parameter, array in contents:
        place = bisect_right(starts, address(array)) - 1
        held = contents[places[place][1]][0] if place >= 0 else parameter
        is_others = held is not parameter and np.may_share_memory(held.array, array)
        arrays.append(array.copy() if is_others else array)
    for (parameter, _), array in zip(contents, arrays, strict=True):
        parameter.write(array)


def turns_of(parameters: Iterable[Parameter]) -> tuple[Turn, ...]:
    """What calls that change these hold: one turn for all of them, but for those that had others before.

    So calls of two models that assign a parameter come one after another, whatever else they assign.
    """
    with _giving:
        changed = list(parameters)
        known = [one.turn for one in changed if one.turn is not None]
        if len(known) < len(changed):
            turn = known[0] if known else Turn()
            for parameter in changed:
                parameter.turn = turn if parameter.turn is None else parameter.turn
        return in_order(one.turn for one in changed if one.turn is not None)


def changing(parameters: Collection[Parameter], turns: Sequence[Turn], call: Callable[[], T]) -> T:
    """What a call returns that may write to parameters, in its turn."""

    def called() -> T:
        try:
            return call()
        finally:
            for parameter in parameters:
                parameter.changed()

    return in_turn(turns, called)
