"""Turns: calls that change the same things come one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import TypeVar

from .locking import Lock

T = TypeVar("T")

_numbers = count()


class Turn(Lock):
    """Whoever holds it may change what has it.

    Attributes:
        number: the order in which those are entered that one call needs, so that no two calls wait for each other.
    """

    def __init__(self) -> None:
        super().__init__()
        self.number = next(_numbers)


def in_order(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Each of them once, as all calls enter them."""
    found = {turn.number: turn for turn in turns}
    return tuple(found[number] for number in sorted(found))


def in_turn(turns: Sequence[Turn], call: Callable[[], T]) -> T:
    """What a call returns that holds these meanwhile.

    They are entered by `with` alone, one in another: Ctrl-C can't come between one and its section.
    """
    if not turns:
        return call()
    with turns[0]:
        return in_turn(turns[1:], call)
