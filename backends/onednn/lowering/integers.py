"""Elementwise ops on integers as they were before a Dequantize: scales of the operands, and post-ops for the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ..library.enumerators import Algorithm
from ..plan.assembly import Unfit
from .binary_primitive import binary_primitive
from .fusing import BINARY, Link
from .lowering import Lowering
from .tensors import Quantized, label_of

SUMS = {"Add": 1, "Subtract": -1}
"""Kind → sign of the second operand."""
SCALAR = (LogicalTensor(0, DataType.f32, ()), None)


def function(low: Lowering, op: Op, links: Sequence[Link], found: Quantized, applied: Link) -> None:
    """An eltwise op: a binary primitive takes the zero point off, and the function is its post-op.

    Args:
        found: the integers of its input.
        applied: the op as a post-op.
    """
    (scale, *more) = found.scales
    if more:
        raise Unfit("a scale per channel")
    first = low.without_gaps(op.inputs[0], found.buffer)
    offset = np.full((1,) * len(first.desc.shape), -scale * found.zero_point, np.float32)
    operands = first, low.constant(offset)
    binary_primitive(low, op, [applied, *links], Algorithm.binary_add, operands, SCALAR, (scale,))


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
    first = low.without_gaps(op.inputs[0], a.buffer)
    lies = first.desc
    if lies.strides is not None:
        lies = low.desc(lies.shape, lies.strides, b.buffer.desc.data_type)
    second = low.bring(label_of(op.inputs[1]), b.buffer, lies)
    scales = (a.scales[0], b.scales[0])
    operands, beside = (first, second), (op.inputs[1], None)
    binary_primitive(low, op, [*before, *links], BINARY[op.kind], operands, beside, scales)


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
    first = low.without_gaps(op.inputs[1 - place], other.buffer)
    offset = np.full((1,) * len(first.desc.shape), -other.scales[0] * other.zero_point, np.float32)
    then = (
        Link(ops=(), result=op.outputs[0], algorithm=Algorithm.binary_mul, operand=source.inputs[0]),
        Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_linear, alpha=factor.scales[0]),
    )
    operands = first, low.constant(offset)
    scales = (other.scales[0],)
    binary_primitive(low, op, [*then, *links], Algorithm.binary_add, operands, SCALAR, scales)
