"""Makes something that shows a finding smaller, as long as it shows it."""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def smallest(found: T, smaller: Callable[[T], Iterable[T]], shows: Callable[[T], bool], seconds: float) -> T:
    """The smallest that was found to show the same.

    Args:
        smaller: what may be tried in the place of one, the boldest cuts first.
        shows: whether one does; it runs it.
        seconds: after which the best so far is taken.
    """
    until = time.monotonic() + seconds
    improved = True
    while improved and time.monotonic() < until:
        improved = False
        for one in smaller(found):
            if time.monotonic() > until:
                break
            if shows(one):
                found, improved = one, True
                break
    return found
