"""A bounded cache that makes what it lacks."""

from __future__ import annotations

import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Event, get_ident
from typing import Generic, TypeVar

from ...ops.errors import CompiledAgainWarning, ResourceError
from .callers import outside
from .locking import Lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


MOST_LEFT = 10_000
"""Keys of values that have left that are remembered."""
PATIENCE = 1.0
"""Seconds after which who waits for a value looks whether it is still being made."""


class _Build(Generic[V]):
    """A value in the making.

    Attributes:
        made: the value, once it is there; empty if making it failed.
        done: set at the end, either way.
        process, thread: who makes it.
    """

    def __init__(self) -> None:
        self.made: list[V] = []
        self.done = Event()
        self.process = os.getpid()
        self.thread = get_ident()

    @property
    def is_mine(self) -> bool:
        """Whether the calling thread makes it."""
        return self.thread == get_ident()

    def goes_on(self) -> bool:
        """Whether the thread is at it: Ctrl-C may have come before it began, or at the end, where nobody heeds it."""
        frame = sys._current_frames().get(self.thread)  # pyright: ignore[reportPrivateUsage] -- its name, and documented
        while frame is not None:
            if frame.f_code.co_name == "_made" and frame.f_locals.get("build") is self:
                return True
            frame = frame.f_back
        return False


class BoundedCache(Generic[K, V]):
    """Keeps the `limit` most recently used values. Thread-safe.

    A value is made once for its key and outside the lock: who asks for the same key waits for it, all others go on.

    Args:
        limit: how many.
        again: said once, as a CompiledAgainWarning, when a value is made that had left; nothing is if None.
    """

    def __init__(self, limit: int, again: str | None = None) -> None:
        self._limit = limit
        self._again = again
        self._left: set[int] = set()
        """Hashes of the keys of values that have left."""
        self._values: OrderedDict[K, V] = OrderedDict()
        self._builds: dict[K, _Build[V]] = {}
        self._lock = Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, made if it is not there; the least recently used one leaves.

        What `make` raises goes to the caller whose `make` it was. Of those who were waiting, one tries with its own.

        Raises:
            ResourceError: `make` asks for the key that it is to make.
        """
        while True:
            build: _Build[V] | None
            with self._lock:
                if key in self._values:
                    self._values.move_to_end(key)
                    return self._values[key]
                build = self._builds.get(key)
                # A fork leaves the child without the thread that was at it, and Ctrl-C may have come before it began.
                mine = (
                    build is None or build.process != os.getpid() or (build.is_mine and not build.goes_on())
                )
                if build is None or mine:
                    build = self._builds[key] = _Build()
            if mine:
                return self._made(key, build, make)
            if build.is_mine:
                raise ResourceError("a value that is kept was asked for by what makes it")
            while not build.done.wait(PATIENCE):
                if not build.goes_on():
                    self._forget(key, build)
                    break
            if build.made:
                return build.made[0]

    def _made(self, key: K, build: _Build[V], make: Callable[[], V]) -> V:
        try:
            self._say(key)
            value = make()
            build.made.append(value)
            return value
        finally:
            with self._lock:
                if self._builds.get(key) is build:
                    del self._builds[key]
                if build.made:
                    self._values[key] = build.made[0]
                    self._values.move_to_end(key)
                if len(self._values) > self._limit:
                    left, _ = self._values.popitem(last=False)
                    if self._again is not None and len(self._left) < MOST_LEFT:
                        self._left.add(hash(left))
            build.done.set()

    def _forget(self, key: K, build: _Build[V]) -> None:
        """Has the next one that asks make the value."""
        with self._lock:
            if self._builds.get(key) is build:
                del self._builds[key]

    def _say(self, key: K) -> None:
        """Says, once, that a value is made again."""
        with self._lock:
            text = self._again if hash(key) in self._left else None
            if text is None:
                return
            self._again = None
            self._left.clear()
        warnings.warn(text, CompiledAgainWarning, stacklevel=outside())

    def values(self) -> dict[K, V]:
        """What is kept now, the least recently used first."""
        with self._lock:
            return dict(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __len__(self) -> int:
        return len(self._values)
