"""A bounded cache that makes what it lacks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Keeps the `limit` most recently used values. Thread-safe; a value is made once, under the lock."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = RLock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, made if it is not there; the least recently used one leaves."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            value = self._values[key] = make()
            if len(self._values) > self._limit:
                self._values.popitem(last=False)
            return value

    def __len__(self) -> int:
        return len(self._values)
