"""Layouts as the library describes them, and buffers that lie so. Nothing here keeps anything."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import row_major
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from ..library.loading import Library
from ..library.memory import LARGEST_DIM, MemoryDesc, canonical_strides
from .steps import Buffer
from .unfit import Unfit

ROW_OF_BYTES = 1 << 20
"""How bytes lie that are more than an axis can have."""


class Layouts:
    """Makes descriptors and buffers.

    Args:
        lib: the library.
        canonical: whether strides of axes of one element, which mean nothing, become those that the library takes;
            else they are as they are given.
    """

    def __init__(self, lib: Library, *, canonical: bool = True) -> None:
        self.lib = lib
        self._canonical = canonical

    # --- descriptors ---------------------------------------------------------------------------------

    def desc(self, shape: Sequence[int], strides: Sequence[int], data_type: DataType) -> MemoryDesc:
        """A plain layout; strides in elements.

        Raises:
            Unfit: strides that the library does not take.
        """
        steps = canonical_strides(shape, strides) if self._canonical else strides
        try:
            return MemoryDesc.strided(self.lib, shape, data_type, steps)
        except LibraryError as error:
            raise Unfit(str(error)) from error

    def rows(self, shape: Sequence[int], data_type: DataType) -> MemoryDesc:
        """The row-major layout."""
        return self.desc(shape, row_major(tuple(shape)), data_type)

    def any(self, shape: Sequence[int], data_type: DataType) -> MemoryDesc:
        """A layout that the primitive chooses.

        Raises:
            Unfit: an axis that is too large for it.
        """
        try:
            return MemoryDesc.any(self.lib, shape, data_type)
        except LibraryError as error:
            raise Unfit(str(error)) from error

    def channels_last(self, shape: Sequence[int], data_type: DataType) -> MemoryDesc:
        """Images (N, C, X) with the channels adjacent."""
        lying = row_major((shape[0], *shape[2:], shape[1]))
        strides = (lying[0], lying[-1], *lying[1:-1])
        return self.desc(shape, strides, data_type).canonical(channels_last=True)

    def bytes(self, count: int) -> MemoryDesc:
        """Memory that only steps on the host look at."""
        rows = -(-count // ROW_OF_BYTES) if count > LARGEST_DIM else 1
        columns = max(count, 1) if rows == 1 else ROW_OF_BYTES
        return self.desc((rows, columns), (columns, 1), DataType.u8)

    # --- buffers -------------------------------------------------------------------------------------

    def temporary(
        self,
        shape: Sequence[int],
        data_type: DataType,
        strides: Sequence[int] | None = None,
        *,
        zeroed: bool = False,
    ) -> Buffer:
        """Memory of the plan's own, row-major unless strides are given."""
        own = row_major(tuple(shape)) if strides is None else strides
        return Buffer(self.desc(shape, own, data_type), zeroed=zeroed)

    def constant(self, values: Array) -> Buffer:
        """Numbers that the plan brings along: s32 where they are such, else f32."""
        data_type = DataType.s32 if values.dtype == np.int32 else DataType.f32
        return Buffer(self.rows(values.shape, data_type), constant=values)

    def ones(self, count: int) -> Buffer:
        """A vector of ones."""
        return self.constant(np.ones(count, np.float32))

    def look(self, buffer: Buffer, desc: MemoryDesc) -> Buffer:
        """The same memory under another descriptor."""
        return Buffer(desc, buffer.root.argument, base=buffer)

    def view(self, buffer: Buffer, shape: Sequence[int], strides: Sequence[int] | None = None) -> Buffer:
        """The same memory with another shape and these strides, row-major without any."""
        steps = row_major(tuple(shape)) if strides is None else strides
        return self.look(buffer, self.desc(shape, steps, buffer.desc.data_type))

    def ordered(self, buffer: Buffer, order: Sequence[int]) -> Buffer:
        """The same memory with its axes in another order."""
        if tuple(order) == tuple(range(len(order))):
            return buffer
        return self.look(buffer, buffer.desc.permuted(order).canonical())
