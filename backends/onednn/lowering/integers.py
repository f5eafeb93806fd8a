"""Elementwise ops on integers as they were before a Dequantize: scales of the operands, and post-ops for the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from ..library.descriptors import Binary
from ..library.enumerators import Algorithm, Arg
from ..library.memory import LARGEST_DIM, packed
from ..library.primitive import PostOp
from ..plan.steps import Buffer, Step
from ..plan.unfit import Unfit
from .binary_primitive import binary_primitive
from .links import BINARY, TURNED, Link, OneScale, Turned
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
    if len(found.scales) > 1:
        raise Unfit("a scale per channel")
    _applied(low, op, [applied, *links], op.inputs[0], found)


def rescaled(low: Lowering, what: str, found: Quantized, wanted: OneScale, data_type: DataType) -> Buffer:
    """Integers of one scale in another one and another type, in one copy; as they are where they have both.

    Args:
        what: for the step's name.
    """
    if found.has(wanted) and found.buffer.desc.data_type is data_type:
        return found.buffer
    desc = found.buffer.desc
    strides = None if desc.strides is None else packed(desc.shape, desc.strides)
    target = low.layouts.temporary(desc.shape, data_type, strides)
    if quantized_by_binary(low, what, found.buffer, target, wanted, (found.scales[0], found.zero_point)):
        return target
    scales: dict[int, tuple[int, Buffer]] = {
        place: (0, low.layouts.constant(np.asarray([value], np.float32)))
        for place, value in ((Arg.SRC, found.scales[0]), (Arg.DST, wanted.scale))
    }
    points: dict[int, Buffer] = {
        place: low.layouts.constant(np.asarray([value], np.int32))
        for place, value in ((Arg.SRC, found.zero_point), (Arg.DST, wanted.zero_point))
        if value
    }
    low.emitter.copy_scaled(what, found.buffer, target, scales, points)
    return target


def quantized_by_binary(
    low: Lowering,
    what: str,
    source: Buffer,
    target: Buffer,
    wanted: OneScale,
    given: tuple[float, int] = (1.0, 0),
) -> bool:
    """Adds a copy of f32 or 8-bit integers to 8-bit integers by a binary primitive, in a quarter of the time of
    a reorder: whether there is one for them, without gaps and in one order.

    Args:
        what: for the step's name.
        given: the scale and the zero point of what is copied.
    """
    count, scale, point = math.prod(source.desc.shape), *given
    lies = source.desc.strides
    if lies is None or lies != target.desc.strides or source.desc.has_gaps or count > LARGEST_DIM:
        return False
    ratio = float(scale) / float(wanted.scale)
    if ratio > float(np.finfo(np.float32).max):  # times zero it would be NaN
        return False
    seen = [low.layouts.view(one, (count,)) for one in (source, target)]
    first = low.layouts.constant(np.full(1, -point, np.float32))
    descriptor = Binary(
        algorithm=Algorithm.binary_add,
        src_0=seen[0].desc,
        src_1=first.desc,
        dst=seen[1].desc,
        attributes=low.chooser.attributes([PostOp(Algorithm.eltwise_linear, ratio, wanted.zero_point)]),
    )
    desc = low.chooser.find(descriptor).desc
    if desc is None or not desc.implementation.startswith("jit"):
        return False
    arguments = ((Arg.SRC, seen[0]), (Arg.SRC_1, first), (Arg.DST, seen[1]))
    low.emitter.steps.append(Step(what, desc, arguments, is_copy=True))
    return True


def binary(low: Lowering, op: Op, links: Sequence[Link], a: Quantized, b: Quantized) -> None:
    """A binary op on two tensors of one shape, which are both integers.

    What zero points add to a sum, a constant, is taken off by a post-op.

    Raises:
        Unfit: scales per channel, zero points where nothing is summed.
    """
    if max(len(a.scales), len(b.scales)) > 1:
        raise Unfit("the integers have a scale per channel")
    before: list[Link] = []
    if a.zero_point or b.zero_point:
        if op.kind not in SUMS:
            place = 0 if b.zero_point == 0 else 1
            _product(low, op, links, place, (a, b)[place], (a, b)[1 - place])
            return
        offset = a.scales[0] * a.zero_point + SUMS[op.kind] * b.scales[0] * b.zero_point
        before = [
            Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_linear, alpha=1.0, beta=-offset)
        ]
    first = low.tensors.without_gaps(op.inputs[0], a.buffer)
    lies = first.desc
    if lies.strides is not None:
        lies = low.layouts.desc(lies.shape, lies.strides, b.buffer.desc.data_type)
    second = low.emitter.bring(label_of(op.inputs[1]), b.buffer, lies)
    scales = (a.scales[0], b.scales[0])
    operands, beside = (first, second), (op.inputs[1], None)
    binary_primitive(low, op, [*before, *links], BINARY[op.kind], operands, beside, scales)


def with_real(low: Lowering, op: Op, links: Sequence[Link]) -> bool:
    """A binary op on integers and a tensor in f32, done as a function of the integers where the result is rounded.

    Returns:
        Whether it was: the result is quantised, and the integers have its shape and one scale.
    """
    if not links or links[-1].quantize is None:
        return False
    dims = op.outputs[0].dims
    place = next(
        (n for n, t in enumerate(op.inputs) if t.dims == dims and low.tensors.quantized(t) is not None), None
    )
    found = None if place is None else low.tensors.quantized(op.inputs[place])
    if place is None or found is None or len(found.scales) > 1:
        return False
    if _multiplied(low, op, links, place, found):
        return True
    real = op.inputs[1 - place]
    turned = TURNED.get(op.kind) if place == 1 else None
    done = Turned(algorithm=BINARY[op.kind]) if turned is None else turned
    applied = Link(
        ops=(),
        result=op.outputs[0],
        before=done.before,
        algorithm=done.algorithm,
        after=done.after,
        operand=real,
    )
    _applied(low, op, [applied, *links], op.inputs[place], found)
    return True


def _applied(low: Lowering, op: Op, links: Sequence[Link], tensor: LogicalTensor, found: Quantized) -> None:
    """What `links` say, done to a tensor of one scale: a binary primitive takes the zero point off first."""
    (scale,) = found.scales
    first = low.tensors.without_gaps(tensor, found.buffer)
    offset = np.full((1,) * len(first.desc.shape), -scale * found.zero_point, np.float32)
    operands = first, low.layouts.constant(offset)
    binary_primitive(low, op, links, Algorithm.binary_add, operands, SCALAR, (scale,))


def _multiplied(low: Lowering, op: Op, links: Sequence[Link], place: int, found: Quantized) -> bool:
    """A product of integers and such that broadcast to them, as a gate for each channel; whether it is one.

    Args:
        place: of the factor that has all elements. found: its integers.
    """
    gate = low.tensors.quantized(op.inputs[1 - place])
    if gate is None or len(gate.scales) > 1:
        return False
    try:
        with low.attempt(low.tensors.way):
            _product(low, op, links, place, found, gate)
    except (Unfit, LibraryError):
        return False
    return True


def _product(
    low: Lowering, op: Op, links: Sequence[Link], place: int, found: Quantized, factor: Quantized
) -> None:
    """A product of two tensors, one of them without zero point: a post-op of the sum that takes the other's off.

    Args:
        place: of the other among the op's inputs. found: its integers.
        factor: those without zero point.

    Raises:
        Unfit: another op, two zero points, or integers that were moved since.
    """
    source = low.edges.producer(op.inputs[1 - place])
    if op.kind != "Multiply" or factor.zero_point or source is None or source.kind != "Dequantize":
        raise Unfit("zero points go through sums, and one through a product")
    then = (
        Link(ops=(), result=op.outputs[0], algorithm=Algorithm.binary_mul, operand=source.inputs[0]),
        Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_linear, alpha=factor.scales[0]),
    )
    _applied(low, op, [*then, *links], op.inputs[place], found)
