"""Collections that remember how they were, so that a failed attempt costs what it has changed and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, MutableSet, Sequence
from functools import partial
from typing import TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")


class Journal:
    """What would undo the changes since the beginning, the latest last."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []

    def mark(self) -> int:
        """The present state, for `go_back`."""
        return len(self._undo)

    def note(self, undo: Callable[[], object]) -> None:
        """Adds what undoes a change that is about to be made."""
        self._undo.append(undo)

    def go_back(self, mark: int) -> None:
        """Undoes every change since `mark`."""
        while len(self._undo) > mark:
            self._undo.pop()()


class JournalledDict(MutableMapping[K, V]):
    """A dict whose changes a journal can undo; the order of keys is not restored."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._items: dict[K, V] = {}

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._note(key)
        self._items[key] = value

    def __delitem__(self, key: K) -> None:
        self._note(key)
        del self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def _note(self, key: K) -> None:
        if key in self._items:
            self._journal.note(partial(self._items.__setitem__, key, self._items[key]))
        else:
            self._journal.note(partial(self._items.pop, key, None))


class JournalledSet(MutableSet[K]):
    """A set whose changes a journal can undo."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._items: set[K] = set()

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, value: K) -> None:
        """Adds an item."""
        if value not in self._items:
            self._journal.note(partial(self._items.discard, value))
            self._items.add(value)

    def update(self, values: Iterable[K]) -> None:
        """Adds several."""
        for value in values:
            self.add(value)

    def discard(self, value: K) -> None:
        """Removes an item, if it is there."""
        if value in self._items:
            self._journal.note(partial(self._items.add, value))
            self._items.discard(value)


class JournalledList(Sequence[V]):
    """A list whose changes a journal can undo."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._items: list[V] = []

    @overload
    def __getitem__(self, index: int) -> V: ...

    @overload
    def __getitem__(self, index: slice) -> list[V]: ...

    def __getitem__(self, index: int | slice) -> V | list[V]:
        return self._items[index]

    def __setitem__(self, index: int, value: V) -> None:
        self._journal.note(partial(self._items.__setitem__, index, self._items[index]))
        self._items[index] = value

    def __len__(self) -> int:
        return len(self._items)

    def append(self, value: V) -> None:
        """Adds an item."""
        self._journal.note(self._items.pop)
        self._items.append(value)

    def extend(self, values: Iterable[V]) -> None:
        """Adds several."""
        for value in values:
            self.append(value)

    def assign(self, values: Iterable[V]) -> None:
        """Has these items in the place of all."""
        before = self._items[:]
        self._journal.note(lambda: self._items.__setitem__(slice(None), before))
        self._items[:] = values
