"""Elementwise ops on integers as they were before a Dequantize: scales of the operands, and post-ops for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ..library.enumerators import Algorithm, Arg
from ..library.memory import packed
from ..plan.assembly import Unfit
from ..plan.plan import Buffer
from .elementwise import elementwise
from .fusing import BINARY, Link, result_of
from .lowering import Lowering
from .tensors import Quantized, label_of

SUMS = {"Add": 1, "Subtract": -1}
"""Kind → sign of the second operand."""
SCALAR = LogicalTensor(0, DataType.f32, ())


def function(low: Lowering, op: Op, links: Sequence[Link], found: Quantized, applied: Link) -> None:
    """An eltwise op: a binary primitive takes the zero point off, and the function is its post-op.

    Args:
        found: the integers of its input.
        applied: the op as a post-op.
    """
    (scale, *more) = found.scales
    if more:
        raise Unfit("a scale per channel")
    first = _without_gaps(low, found.buffer, op.inputs[0])
    offset = np.full((1,) * len(first.desc.shape), -scale * found.zero_point, np.float32)
    _emit(low, op, links, (first, low.constant(offset)), SCALAR, Algorithm.binary_add, (scale,), (applied,))


def binary(low: Lowering, op: Op, links: Sequence[Link], a: Quantized, b: Quantized) -> None:
    """A binary op on two tensors of one shape.

    What zero points add to a sum, a constant, is taken off by a post-op.

    Raises:
        Unfit: tensors of different shapes, scales per channel, zero points where nothing is summed.
    """
    if op.inputs[0].dims != op.inputs[1].dims or max(len(a.scales), len(b.scales)) > 1:
        raise Unfit("the integers broadcast, or have a scale per channel")
    before: list[Link] = []
    if a.zero_point or b.zero_point:
        if op.kind not in SUMS:
            _product(low, op, links, (a, b))
            return
        offset = a.scales[0] * a.zero_point + SUMS[op.kind] * b.scales[0] * b.zero_point
        before = [
            Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_linear, alpha=1.0, beta=-offset)
        ]
    first = _without_gaps(low, a.buffer, op.inputs[0])
    lies = first.desc
    if lies.strides is not None:
        lies = low.desc(lies.shape, lies.strides, b.buffer.desc.data_type)
    second = low.bring(label_of(op.inputs[1]), b.buffer, lies)
    scales = (a.scales[0], b.scales[0])
    _emit(low, op, links, (first, second), op.inputs[1], BINARY[op.kind], scales, before)


def _product(low: Lowering, op: Op, links: Sequence[Link], factors: tuple[Quantized, Quantized]) -> None:
    """A product of two tensors, one of them without zero point: a post-op of the sum that takes the other's off.

    Raises:
        Unfit: another op, two zero points, or integers that were moved since.
    """
    place = next((number for number, factor in enumerate(factors) if not factor.zero_point), None)
    source = None if place is None else low.producer(op.inputs[place])
    if op.kind != "Multiply" or place is None or source is None or source.kind != "Dequantize":
        raise Unfit("zero points go through sums, and one through a product")
    factor, other = factors[place], factors[1 - place]
    first = _without_gaps(low, other.buffer, op.inputs[1 - place])
    offset = np.full((1,) * len(first.desc.shape), -other.scales[0] * other.zero_point, np.float32)
    then = (
        Link(ops=(), result=op.outputs[0], algorithm=Algorithm.binary_mul, operand=source.inputs[0]),
        Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_linear, alpha=factor.scales[0]),
    )
    operands = first, low.constant(offset)
    _emit(low, op, links, operands, SCALAR, Algorithm.binary_add, (other.scales[0],), then)


def _emit(
    low: Lowering,
    op: Op,
    links: Sequence[Link],
    operands: tuple[Buffer, Buffer],
    second: LogicalTensor,
    algorithm: Algorithm,
    scales: Sequence[float],
    before: Sequence[Link],
) -> None:
    """The primitive.

    Args:
        second: the second operand as a tensor.
        scales: of the operands, one each from the first on.
        before: post-ops before those of `links`.
    """
    result = result_of(op, links)
    view = elementwise(operands[0], [(second, None)], [*before, *links])
    seen = [view.see(low, operand) for operand in operands]
    attributes, more = low.attributes(
        [*before, *links],
        op.outputs[0],
        scales={place: (0, (scale,)) for place, scale in zip((Arg.SRC, Arg.SRC_1), scales, strict=False)},
        elementwise=view,
        scales_result=False,
    )
    made = view.like_first(low, low.type_of(result))
    target = view.see(low, made)
    desc = low.describe("binary", low.engine, algorithm, seen[0].desc, seen[1].desc, target.desc, attributes)
    low.run("binary", desc, [(Arg.SRC, seen[0]), (Arg.SRC_1, seen[1]), *more, (Arg.DST, target)])
    low.produce(result, made)


def _without_gaps(low: Lowering, buffer: Buffer, tensor: LogicalTensor) -> Buffer:
    """The integers with nothing between the elements."""
    desc = buffer.desc
    if desc.strides is None:
        return buffer
    dense = low.desc(desc.shape, packed(desc.shape, desc.strides), desc.data_type)
    return low.bring(label_of(tensor), buffer, dense)
