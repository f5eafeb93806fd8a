"""Locks across a fork: ours, which a child finds free, and those of foreign code, within which nobody forks."""

from __future__ import annotations

import os
from _thread import RLock
from threading import Condition, get_ident
from weakref import WeakSet


class Lock(RLock):  # pyright: ignore[reportGeneralTypeIssues] -- it is final in typeshed alone
    """A re-entrant lock for short sections.

    A fork leaves the child without the threads that hold locks, so that nobody would ever release them: in the child
    every such lock is made anew. What it guards must bear that a section was left half-way.

    It is entered and left by no code of Python's, in which Ctrl-C could come between the lock and its section: the lock
    would be held for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        _locks.add(self)

    def renew(self) -> None:
        """Makes it free, whoever holds it."""
        self._at_fork_reinit()  # pyright: ignore -- which typeshed lacks, and `threading` calls on its own locks

    def is_free(self) -> bool:
        """Whether this thread could enter at once."""
        free = self.acquire(blocking=False)
        if free:
            self.release()
        return free


class ForeignLocks:
    """Calls into code that takes locks of its own, which a child that is forked meanwhile would never find free.

    `with foreign_locks:` around such a call has forks wait for its end, and the call for a fork that is on its way.
    """

    PATIENCE = 10.0
    """Seconds that a fork waits for calls, before it takes place nevertheless."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._calls: dict[int, int] = {}
        self._forking = False

    def __enter__(self) -> None:
        own = get_ident()
        with self._changed:
            while self._forking and own not in self._calls:
                self._changed.wait()
            self._calls[own] = self._calls.get(own, 0) + 1

    def __exit__(self, *exc: object) -> None:
        own = get_ident()
        with self._changed:
            self._calls[own] -= 1
            if not self._calls[own]:
                del self._calls[own]
                if self._forking:
                    self._changed.notify_all()

    def before(self) -> None:
        """Waits until no other thread is within a call; one that this thread prepares can't have begun."""
        self._changed.acquire()
        self._forking = True
        self._changed.wait_for(lambda: not self._calls.keys() - {get_ident()}, self.PATIENCE)

    def in_parent(self) -> None:
        """Lets the calls go on."""
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    def in_child(self) -> None:
        """Forgets the threads that the child does not have."""
        own = get_ident()
        self._calls = {own: self._calls[own]} if own in self._calls else {}
        self._forking = False
        self._changed = Condition()


foreign_locks = ForeignLocks()
"""Of the libraries that we call."""
_locks: WeakSet[Lock] = WeakSet()


def _in_child() -> None:
    foreign_locks.in_child()
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=foreign_locks.before, after_in_parent=foreign_locks.in_parent, after_in_child=_in_child
    )
