"""The axes that binaries, eltwise functions and PReLU see in all of their tensors; not those of the ops."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor, row_major
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.enumerators import Query
from ..library.memory import LARGEST_DIM
from ..library.primitive import PrimitiveDesc
from ..plan.layouts import Layouts
from ..plan.steps import Buffer
from .collapse import Collapse, collapse, spread_shape
from .links import Link


@frozen(eq=False)
class CommonAxes:
    """The view of one primitive.

    Attributes:
        first: the operand that has all elements, in the axes of its tensor; without gaps.
        axes: those of the primitive; None for a blocked layout, which has its own.
        layouts: makes the views.
    """

    first: Buffer
    axes: Collapse | None
    layouts: Layouts

    def see(self, buffer: Buffer) -> Buffer:
        """An operand or a result with the primitive's axes."""
        strides = buffer.desc.strides
        if self.axes is None or strides is None:
            return buffer
        shape, steps = self.axes.apply((buffer.desc.shape, strides))
        return self.layouts.view(buffer, shape, steps)

    def like_first(self, data_type: DataType) -> Buffer:
        """New memory that lies as the first operand does.

        A blocked layout has one type; where another is wanted, the primitive chooses, and `chosen` tells what.
        """
        desc = self.first.desc
        if desc.strides is not None:
            desc = self.layouts.desc(desc.shape, desc.strides, data_type)
        elif data_type is not desc.data_type:
            desc = self.layouts.any(desc.shape, data_type)
        return Buffer(desc)

    def chosen(self, made: Buffer, desc: PrimitiveDesc) -> Buffer:
        """What `like_first` gave, once the primitive is known that writes it."""
        is_open = self.axes is None and made.desc.data_type is not self.first.desc.data_type
        return Buffer(desc.memory_desc(Query.dst_md)) if is_open else made


def common_axes(
    layouts: Layouts,
    first: Buffer,
    operands: Sequence[tuple[LogicalTensor, int | None]],
    links: Sequence[Link] = (),
) -> CommonAxes:
    """The view of a primitive.

    Args:
        layouts: makes the views.
        first: the operand that has all elements.
        operands: the others, each with the axis of a vector or None.
        links: what the primitive takes along, with further operands.
    """
    shape, strides = first.desc.shape, first.desc.strides
    if strides is None:
        return CommonAxes(first, None, layouts)
    others = [*operands]
    for link in links:
        others += [(link.operand, link.axis)] if link.operand is not None else []
        others += [(link.normalize.inputs[1], link.axis)] if link.normalize is not None else []
    operands_lie: list[tuple[Sequence[int], Sequence[int]]] = []
    for tensor, axis in others:
        wide = spread_shape(tensor.dims, len(shape), axis)
        operands_lie.append((wide, strides if wide == shape else row_major(wide)))
    return CommonAxes(first, collapse((shape, strides), operands_lie, LARGEST_DIM), layouts)
