"""Arrays between guard bytes, with garbage in whatever is not an element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

GUARD = 512
LINE = 64


class Guarded:
    """An array in a buffer of its own.

    Args:
        dtype, shape: the array's.
        strides: in elements; row-major if None.
        fill: byte of the guards, the gaps and the elements.
        shift: elements by which it lies off a cache line.
    """

    def __init__(
        self, dtype: Any, shape: Sequence[int], strides: Sequence[int] | None, fill: int, shift: int = 0
    ) -> None:
        self.dtype, self.shape, self.fill = np.dtype(dtype), tuple(shape), fill
        if strides is None:
            strides = dense(shape)
        size = self.dtype.itemsize
        reach = 0 if 0 in self.shape else 1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True))
        self.buffer = np.full(reach * size + 2 * GUARD + LINE + shift * size, fill, np.uint8)
        self.start = GUARD + (-(self.buffer.ctypes.data + GUARD)) % LINE + shift * size
        self.stop = self.start + reach * size
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

    def guards_written(self) -> bool:
        """Whether a byte before the first or behind the last element was written."""
        return bool(
            (self.buffer[: self.start] != self.fill).any() or (self.buffer[self.stop :] != self.fill).any()
        )

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
