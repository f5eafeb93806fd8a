"""Dequantising by scales and zero points for groups: binaries, on axes each of which is of groups or in one.

The library's reorders have one zero point, and scales along one axis; its binaries broadcast, but make real numbers of
real ones alone. So the integers are copied to the result's type, of which each holds 8 bits exactly; (src − zp) · scale
is a difference of that whose post-op is a product, and without zero points a product. Post-ops broadcast less than
binaries do: where they don't, it is both, one after the other, in f32.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

from ....graph.model.logical_tensor import row_major
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.descriptors import Binary
from ..library.enumerators import Algorithm, Arg
from ..library.memory import LARGEST_DIM
from ..library.primitive import PostOp
from ..plan.steps import Buffer
from ..plan.unfit import NoKernel, Unfit
from .collapse import Collapse, collapse, spread_shape
from .lowering import Lowering

SCALES = 1
"""Place among the inputs of a DynamicDequantize; zero points follow, or nothing."""


def has_groups(op: Op) -> bool:
    """Whether a DynamicDequantize has other numbers for other elements than a copy can have."""
    scales, *points = (math.prod(tensor.dims) for tensor in op.inputs[SCALES:])
    grouped = op.attributes.string("qtype") == "per_group" and scales > 1
    return op.kind == "DynamicDequantize" and (grouped or max(points, default=1) > 1)


def dequantized(low: Lowering, op: Op, source: Buffer, target: Buffer) -> Buffer:
    """The real numbers that integers stand for.

    Args:
        source: the integers with the op's axes, in a layout of strides, without gaps.
        target: memory that lies alike, in the result's type.

    Raises:
        Unfit: no kernel takes such groups.
    """
    axes = GroupAxes.of(op, source)
    scales, *points = axes.numbers_of(low, op)
    if not points:
        _binary(low, axes, Algorithm.binary_mul, (source, scales), target)
        return target
    try:
        _binary(low, axes, Algorithm.binary_sub, (source, points[0]), target, scales)
    except NoKernel:
        lies = low.layouts.desc(source.desc.shape, source.desc.strides or (), DataType.f32)
        shifted, made = Buffer(lies), Buffer(lies)
        _binary(low, axes, Algorithm.binary_sub, (source, points[0]), shifted)
        _binary(low, axes, Algorithm.binary_mul, (shifted, scales), made)
        return low.emitter.bring("dequantized", made, target.desc)
    return target


def _binary(
    low: Lowering,
    axes: GroupAxes,
    algorithm: Algorithm,
    operands: tuple[Buffer, Buffer],
    target: Buffer,
    scales: Buffer | None = None,
) -> None:
    """Adds a binary of elements and of numbers of groups; its result times `scales`, if there are any.

    Raises:
        NoKernel: the library has none.
    """
    made, numbers = axes.elements(low, target), operands[1]
    descriptor = Binary(
        algorithm=algorithm,
        src_0=made.desc,
        src_1=numbers.desc,
        dst=made.desc,
        attributes=low.chooser.attributes(
            [] if scales is None else [PostOp(Algorithm.binary_mul, operand=scales.desc)]
        ),
    )
    desc = low.chooser.describe(descriptor)
    first = axes.elements(low, low.emitter.bring("integers", operands[0], target.desc))
    along = [] if scales is None else [(Arg.ATTR_MULTIPLE_POST_OP_BASE | Arg.SRC_1, scales)]
    arguments = [(Arg.SRC, first), (Arg.SRC_1, numbers), *along, (Arg.DST, made)]
    low.emitter.run("dequantize groups", desc, arguments)


@frozen
class GroupAxes:
    """How the binaries see their tensors.

    Attributes:
        shape, strides: of the elements, with two axes for each of the op's: one of its groups, one within a group.
        numbers: for scales, and for zero points if there are any, how many there are along these axes.
        together: which of them are one to the library.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    numbers: tuple[tuple[int, ...], ...]
    together: Collapse

    @classmethod
    def of(cls, op: Op, source: Buffer) -> GroupAxes:
        """The axes of an op whose integers lie so.

        Raises:
            Unfit: they lie in blocks.
        """
        dims, strides = source.desc.shape, source.desc.strides
        if strides is None:
            raise Unfit("groups of a blocked layout")
        counts = [_counts(op, place, len(dims)) for place in range(SCALES, len(op.inputs))]
        sizes = [d // max(along) for d, *along in zip(dims, *counts, strict=True)]
        shape = _in_pairs((d // size, size) for d, size in zip(dims, sizes, strict=True))
        steps = _in_pairs((s * size, s) for s, size in zip(strides, sizes, strict=True))
        numbers = tuple(_in_pairs((n, 1) for n in one) for one in counts)
        together = collapse((shape, steps), [(one, row_major(one)) for one in numbers], LARGEST_DIM)
        return cls(shape, steps, numbers, together)

    def elements(self, low: Lowering, buffer: Buffer) -> Buffer:
        """The integers, or what is made of them."""
        return self._see(low, buffer, self.shape, self.strides)

    def numbers_of(self, low: Lowering, op: Op) -> list[Buffer]:
        """Scales, and zero points if there are any, in f32."""
        given = [low.tensors.dense(tensor, DataType.f32) for tensor in op.inputs[SCALES:]]
        return [
            self._see(low, buffer, one, row_major(one))
            for buffer, one in zip(given, self.numbers, strict=True)
        ]

    def _see(self, low: Lowering, buffer: Buffer, shape: Sequence[int], strides: Sequence[int]) -> Buffer:
        return low.layouts.view(buffer, *self.together.apply((shape, strides)))


def _in_pairs(pairs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(chain.from_iterable(pairs))


def _counts(op: Op, place: int, rank: int) -> tuple[int, ...]:
    """How many scales or zero points there are along each axis."""
    shape = op.inputs[place].dims
    if math.prod(shape) == 1:
        return (1,) * rank
    return (
        shape if len(shape) == rank > 1 else spread_shape(shape, rank, op.attributes.integer("axis") % rank)
    )
