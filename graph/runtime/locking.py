"""A lock that a forked child finds free."""

from __future__ import annotations

import os
from threading import RLock
from weakref import WeakSet


class Lock:
    """A re-entrant lock for short sections.

    A fork leaves the child without the threads that hold locks, so that nobody would ever release them: in the child
    every such lock is made anew. What it guards must bear that a section was left half-way.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        _locks.add(self)

    def renew(self) -> None:
        """Makes it free, whoever holds it."""
        self._lock = RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()


_locks: WeakSet[Lock] = WeakSet()


def _in_child() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
