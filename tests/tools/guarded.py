"""Memory between guard zones: bytes, arrays with strides, and arguments of the library's primitives in any layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from onednn_graph.backends.onednn.library.enumerators import Query
from onednn_graph.backends.onednn.library.loading import LATER_DATA_TYPES
from onednn_graph.graph.runtime.arrays import numpy_type

PAGE, GUARD = 4096, 512
"""Bytes of a guard zone; of one around an array of a graph, which has many."""
LINE = 64
PATTERN, POISON = 0xA5, 0xCD
"""What guard zones hold, and what lies where no element does."""


class Guarded:
    """Bytes between two guard zones.

    Args:
        nbytes: how many.
        fill: byte of the guard zones, and of what is between them at first.
        guard: size of a zone.
        shift: bytes by which they lie off a cache line.
    """

    def __init__(self, nbytes: int, fill: int = PATTERN, guard: int = PAGE, shift: int = 0) -> None:
        self.fill = fill
        self.buffer = np.full(nbytes + 2 * guard + LINE + shift, fill, np.uint8)
        self.start = guard + (-(self.buffer.ctypes.data + guard)) % LINE + shift
        self.stop = self.start + nbytes
        self.inside = self.buffer[self.start : self.stop]
        self.address = self.buffer.ctypes.data + self.start

    def view(self, dtype: Any, shape: Sequence[int]) -> np.ndarray:
        """The bytes as an array."""
        return self.inside.view(dtype).reshape(shape)

    def guards_written(self) -> bool:
        """Whether a byte before the first or behind the last one was written."""
        return bool(
            (self.buffer[: self.start] != self.fill).any() or (self.buffer[self.stop :] != self.fill).any()
        )


class GuardedArray(Guarded):
    """An array in a buffer of its own, with garbage in whatever is not an element.

    Args:
        dtype, shape: the array's.
        strides: in elements; row-major if None.
        fill: byte of the guards, the gaps and the elements.
        shift: elements by which it lies off a cache line.
    """

    def __init__(
        self, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None, fill: int, shift: int = 0
    ) -> None:
        self.dtype, self.shape = np.dtype(dtype), tuple(shape)
        if strides is None:
            strides = dense(shape)
        size = self.dtype.itemsize
        reach = 0 if 0 in self.shape else 1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
        super().__init__(reach * size, fill, GUARD, shift * size)
        self.steps = tuple(s * size for s in strides)
        self.array = np.ndarray(self.shape, self.dtype, self.buffer, self.start, self.steps)
        self.has_gaps = reach != math.prod(self.shape)
        self._before = self.buffer

    def put(self, values: np.ndarray) -> None:
        """Writes the elements; with `changed` it shows later whether anything else did."""
        self.array[...] = values
        self._before = self.buffer.copy()

    def poison(self) -> None:
        self.buffer[...] = self.fill

    def changed(self) -> bool:
        """Whether a byte is another than after `put`."""
        return not np.array_equal(self._before, self.buffer)

    def gaps_written(self) -> bool:
        """Whether a byte between elements was written."""
        if not self.has_gaps:
            return False
        mask = np.zeros(self.buffer.size, np.uint8)
        elements = np.ndarray(
            (*self.shape, self.dtype.itemsize), np.uint8, mask, self.start, (*self.steps, 1)
        )
        elements[...] = 1
        gaps = self.buffer[self.start : self.stop][mask[self.start : self.stop] == 0]
        return bool((gaps != self.fill).any())


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    result, reach = [], 1
    for dim in reversed(shape):
        result.append(reach)
        reach *= max(1, dim)
    return tuple(reversed(result))


def offsets(desc):
    """Place of each element, padding included, in elements; and which of them are padding."""
    rank = desc._query_int(Query.ndims_s32)
    padded = desc._query_dims(Query.padded_dims)[:rank]
    strides = desc._query_dims(Query.strides)[:rank]
    count = desc._query_int(Query.inner_nblks_s32)
    blocks, axes = desc._query_dims(Query.inner_blks)[:count], desc._query_dims(Query.inner_idxs)[:count]
    places, padding = np.zeros((1,) * rank, np.int64), np.zeros((1,) * rank, bool)
    for axis in range(rank):
        at, own, step = np.arange(padded[axis]), np.zeros(padded[axis], np.int64), 1
        for size, of in zip(reversed(blocks), reversed(axes), strict=True):
            if of == axis:
                own += at % size * step
                at = at // size
            step *= size
        own += at * strides[axis]
        along = [-1 if a == axis else 1 for a in range(rank)]
        places = places + own.reshape(along)
        padding = padding | (np.arange(padded[axis]) >= desc.shape[axis]).reshape(along)
    padding = np.broadcast_to(padding, padded)
    return np.broadcast_to(places, padded), padding


def size_of(data_type, count):
    """Bytes of so many elements; two of 4 bits share one."""
    if data_type in LATER_DATA_TYPES:
        return -(-count // 2)
    return count * numpy_type(data_type).itemsize


class GuardedMemory(Guarded):
    """An argument's memory between two guard zones, poisoned where no element lies."""

    def __init__(self, desc, array=None, offset=0):
        self.desc, self.dtype = desc, numpy_type(desc.data_type)
        size = desc.nbytes
        super().__init__(size, shift=offset * self.dtype.itemsize)
        self.elements = self.inside[: size // self.dtype.itemsize * self.dtype.itemsize].view(self.dtype)
        self.places, self.padding = offsets(desc)
        self.array = array
        self.prepare()

    def prepare(self) -> None:
        """As before the primitive runs."""
        self.inside[:] = POISON
        if self.desc.data_type in LATER_DATA_TYPES:
            self._put_halves()
        elif self.array is not None:
            self.elements[self.places[self.padding]] = 0
            with np.errstate(all="ignore"):
                values = self.array.astype(np.float32) if self.dtype.itemsize < 4 else self.array
                self.elements[self.places[~self.padding]] = values.astype(self.dtype).ravel()
        self.before = self.inside.copy()

    def _put_halves(self):
        """Two elements of an input in each byte, the first in the lower half."""
        halves = np.stack([self.inside & 15, self.inside >> 4], -1).ravel()
        halves[self.places[self.padding]] = 0
        halves[self.places[~self.padding]] = self.array.astype(np.int8).ravel().view(np.uint8) & 15
        self.inside[:] = halves[::2] | halves[1::2] << 4

    def read(self):
        return self.elements[self.places[~self.padding]].astype(np.float64).reshape(self.desc.shape)

    def faults(self, written):
        """What else is wrong: guards, gaps, padding, an input that changed."""
        found = []
        if self.guards_written():
            found.append("writes out of bounds")
        if not written:
            if not np.array_equal(self.inside, self.before):
                found.append("an input changed")
            return found
        own = np.zeros(self.inside.size, bool)
        each = (self.places.ravel()[:, None] * self.dtype.itemsize + np.arange(self.dtype.itemsize)).ravel()
        own[each] = True
        if (self.inside[~own] != POISON).any():
            found.append("writes into gaps")
        padding = self.elements[self.places[self.padding]]
        if padding.size and (padding.view(np.uint8) != 0).any():
            found.append("padding is not zero")
        return found
