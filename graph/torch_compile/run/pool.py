"""Memory for tensors that come and go at every step: fresh pages cost more than many a kernel that writes them.

A tensor of torch over a block keeps a view of it alive, and the block comes back once that view dies. What is free is
never more than what was in use at most, so that a training loop finds its memory again and other sizes push out the
old.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Any

from ...runtime.arrays import Array, aligned_bytes
from ...runtime.locking import Lock
from ..framework import torch
from ..tensors import empty

LEAST = 1 << 16
"""Bytes from which on a block is worth it."""


class Pool:
    """Blocks of memory by their size."""

    def __init__(self) -> None:
        self._free: OrderedDict[int, list[Array]] = OrderedDict()
        self._free_bytes = 0
        self._used_bytes = 0
        self._most_used = 0
        self._lock = Lock()  # a block may come back while another one is taken: the collector runs anywhere

    def tensor(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, nbytes: int) -> Any:
        """An uninitialised dense tensor."""
        if nbytes < LEAST:
            return empty(shape, strides, dtype)
        block = self._taken(nbytes)
        view = block[:nbytes]
        weakref.finalize(view, self._returned, block).atexit = False
        return torch.frombuffer(view, dtype=dtype).as_strided(shape, strides)

    def _taken(self, nbytes: int) -> Array:
        with self._lock:
            self._used_bytes += nbytes
            self._most_used = max(self._most_used, self._used_bytes)
            blocks = self._free.get(nbytes)
            if blocks:
                self._free_bytes -= nbytes
                return blocks.pop()
        return aligned_bytes(nbytes)

    def _returned(self, block: Array) -> None:
        with self._lock:
            nbytes = block.size
            self._used_bytes -= nbytes
            self._free.setdefault(nbytes, []).append(block)
            self._free.move_to_end(nbytes)
            self._free_bytes += nbytes
            while self._free_bytes > self._most_used:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        size, blocks = next(iter(self._free.items()))
        if blocks:
            blocks.pop()
            self._free_bytes -= size
        else:
            del self._free[size]

    def empty(self) -> None:
        """Gives what is free back to the system."""
        with self._lock:
            self._free.clear()
            self._free_bytes = 0
            self._most_used = self._used_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that are kept and that nobody uses."""
        return self._free_bytes


POOL = Pool()
"""Of the process."""
