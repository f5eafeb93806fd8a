"""Batches that threads make ahead of the steps that take them."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from threading import Condition, Thread, current_thread
from typing import Generic, TypeVar

from ..runtime.locking import Lock

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds that who leaves early waits for a thread to end; one that is stuck in foreign code ends behind its back."""


def ahead(tasks: Iterable[Callable[[], T]], count: int, threads: int = 1) -> Generator[T]:
    """What tasks return, in their order, done by threads up to `count` of them before they are asked for.

    The tasks are drawn from their iterator one at a time, whatever the number of threads, and run beside each other.
    What one raises comes out where its result would, with its traceback, and is the end. The threads begin when the
    first result is asked for, and end when the last is made, or when the generator is closed or given up.

    Args:
        count: 1 or more.
        threads: 1 or more.
    """
    queue = _Queue(iter(tasks), count)
    workers = [Thread(target=queue.work, name="onednn_graph.prefetch", daemon=True) for _ in range(threads)]
    for worker in workers:
        worker.start()
    try:
        yield from queue.results()
    finally:
        if (
            queue.is_own
        ):  # in a fork's child the threads aren't there, nor is anybody who would release their locks
            queue.stop()
            for worker in workers:
                if worker is not current_thread():  # the collector may close this from within a thread
                    worker.join(PATIENCE)
            if not any(worker.is_alive() for worker in workers):
                queue.close()


def each_of(values: Iterable[T]) -> Generator[Callable[[], T]]:
    """Tasks for `ahead` that are done once they are drawn: the values of an iterable, for one thread."""
    iterator = iter(values)
    try:
        for value in iterator:
            yield lambda value=value: value
    finally:
        close(iterator, values)


def close(iterator: Iterator[object], source: object) -> None:
    """Ends an iterator that was made of `source`, if it can be ended; not one that is the user's own."""
    ending = getattr(iterator, "close", None)
    if iterator is not source and callable(ending):
        ending()


class _Queue(Generic[T]):
    """Numbered results, between the threads that make them and the one that takes them."""

    def __init__(self, tasks: Iterator[Callable[[], T]], count: int) -> None:
        self._tasks = tasks
        self._count = count
        self._process = os.getpid()
        self._drawing = Lock()
        self._changed = Condition()
        self._drawn = 0
        self._taken = 0
        self._done: dict[int, tuple[T, None] | tuple[None, BaseException]] = {}
        self._end: int | None = None
        self._closed = False

    @property
    def is_own(self) -> bool:
        """Whether this is the process that the threads are in."""
        return self._process == os.getpid()

    # --- in threads ---

    def work(self) -> None:
        """Makes results until there is nothing more to make, or nobody to take them."""
        while True:
            with self._drawing:
                if not self._wait_for_room():
                    return
                number = self._drawn
                try:
                    task = next(self._tasks)
                except StopIteration:
                    self._finish(number)
                    return
                except BaseException as error:
                    self._give(number, (None, error))
                    self._finish(number + 1)
                    return
                self._drawn += 1
            try:
                result = task(), None
            except BaseException as error:
                result = None, error
            self._give(number, result)
            del task, result  # not kept while this thread waits

    def _wait_for_room(self) -> bool:
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._end is not None or self._drawn - self._taken < self._count
            )
            return not self._closed and self._end is None

    def _give(self, number: int, result: tuple[T, None] | tuple[None, BaseException]) -> None:
        with self._changed:
            self._done[number] = result
            self._changed.notify_all()

    def _finish(self, end: int) -> None:
        with self._changed:
            self._end = end
            self._changed.notify_all()

    # --- where they are taken ---

    def results(self) -> Iterator[T]:
        """The results in order."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._taken in self._done or self._end == self._taken)
                if self._taken not in self._done:
                    return
                result, error = self._done.pop(self._taken)
                self._taken += 1
                self._changed.notify_all()
            if error is not None:
                raise error
            yield result  # pyright: ignore[reportReturnType] -- it is None only beside an error
            del result

    def stop(self) -> None:
        """Has the threads end as soon as they have done what they do now."""
        with self._changed:
            self._closed = True
            self._done.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the iterator of tasks, which no thread draws from any more."""
        close(self._tasks, None)
