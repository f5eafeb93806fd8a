"""Python's collector of cycles at rest while very many objects are made that all stay."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from contextlib import contextmanager

from .locking import Lock


class _Rest:
    """Who is within a block now.

    Attributes:
        blocks: how many, of all threads.
        works: whether the first of them has found the collector at work.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self.works = False
        self.lock = Lock()

    def begin(self) -> None:
        with self.lock:
            if not self.blocks:
                self.works = gc.isenabled()
            self.blocks += 1
            gc.disable()

    def end(self) -> None:
        with self.lock:
            self.blocks = max(0, self.blocks - 1)
            if not self.blocks and self.works:
                gc.enable()

    def in_child(self) -> None:
        """Has it work again: the threads that were at it are not there, and who forks goes on to something else."""
        if self.blocks and self.works:
            gc.enable()
        self.blocks = 0


_rest = _Rest()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rest.in_child)


@contextmanager
def at_rest() -> Generator[None]:
    """Has nothing looked for cycles within the block, which is to take seconds at most.

    The collector looks at all that is alive, again and again as that grows: a third of what compiling 20,000 ops
    takes, with nothing to find. It is the process's: what other threads leave behind waits for the end of the block.
    """
    _rest.begin()
    try:
        yield
    finally:
        _rest.end()
