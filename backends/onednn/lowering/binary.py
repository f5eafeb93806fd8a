"""Lowering of the binary family."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.formats import axis_positions
from ..library.enumerators import Algorithm, Arg
from ..library.memory import packed
from ..plan.assembly import Unfit
from .elementwise import elementwise, takes
from .fusing import BINARY, Link, result_of
from .lowering import Lowered, Lowering
from .tensors import Quantized, label_of

SQUARED = "SquaredDifference"
SUMS = {"Add": 1, "Subtract": -1}
"""Kind → sign of the second operand."""


def _emit(
    low: Lowering,
    op: Op,
    links: Sequence[Link],
    algorithm: Algorithm,
    operands: tuple[LogicalTensor, LogicalTensor],
    axis: int | None = None,
) -> None:
    """A binary primitive on the tensor that has all elements and one that broadcasts to it.

    A vector stands at `axis`.
    """
    result = result_of(op, links)
    first = low.elementwise(operands[0])
    view = elementwise(first, [(operands[1], axis)], links)
    seen = view.see(low, first), view.see(low, low.beside(operands[1], first, axis))
    attributes, more = low.attributes(links, op.outputs[0], elementwise=view, scales_result=False)
    made = view.like_first(low, low.type_of(result))
    target = view.see(low, made)
    desc = low.describe("binary", low.engine, algorithm, seen[0].desc, seen[1].desc, target.desc, attributes)
    low.run("binary", desc, [(Arg.SRC, seen[0]), (Arg.SRC_1, seen[1]), *more, (Arg.DST, target)])
    low.produce(result, made)


def _on_integers(low: Lowering, op: Op, links: Sequence[Link], integers: Sequence[Quantized]) -> None:
    """A binary primitive on two tensors as they were before they were dequantised, with their scales.

    What zero points add to a sum, a constant, is taken off by a post-op.

    Raises:
        Unfit: tensors of different shapes, scales per channel, zero points where nothing is summed.
    """
    a, b = integers
    if op.inputs[0].dims != op.inputs[1].dims or len(a.scales) > 1 or len(b.scales) > 1:
        raise Unfit("the integers broadcast, or have a scale per channel")
    before: list[Link] = []
    if a.zero_point or b.zero_point:
        if op.kind not in SUMS:
            raise Unfit("zero points go through sums only")
        offset = a.scales[0] * a.zero_point + SUMS[op.kind] * b.scales[0] * b.zero_point
        linear = Algorithm.eltwise_linear
        before = [Link(ops=(), result=op.outputs[0], algorithm=linear, alpha=1, beta=-offset)]
    result = result_of(op, links)
    first = a.buffer
    strides = first.desc.strides
    if strides is not None:
        dense = low.desc(first.desc.shape, packed(first.desc.shape, strides), first.desc.data_type)
        first = low.bring(label_of(op.inputs[0]), first, dense)
    lies = first.desc
    if lies.strides is not None:
        lies = low.desc(lies.shape, lies.strides, b.buffer.desc.data_type)
    second = low.bring(label_of(op.inputs[1]), b.buffer, lies)
    view = elementwise(first, [(op.inputs[1], None)], links)
    seen = view.see(low, first), view.see(low, second)
    scales = {Arg.SRC: (0, a.scales), Arg.SRC_1: (0, b.scales)}
    attributes, more = low.attributes(
        [*before, *links], op.outputs[0], scales=scales, elementwise=view, scales_result=False
    )
    made = view.like_first(low, low.type_of(result))
    target = view.see(low, made)
    desc = low.describe(
        "binary", low.engine, BINARY[op.kind], seen[0].desc, seen[1].desc, target.desc, attributes
    )
    low.run("binary", desc, [(Arg.SRC, seen[0]), (Arg.SRC_1, seen[1]), *more, (Arg.DST, target)])
    low.produce(result, made)


def binary(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A binary primitive.

    Raises:
        Unfit: no operand has all elements of the result, or only the second one of a Divide.
    """
    dims = op.outputs[0].dims
    integers = [found for found in map(low.quantized, op.inputs) if found is not None]
    if len(integers) == 2 and op.kind in BINARY:
        _on_integers(low, op, links, integers)
        return
    first, second = op.inputs
    before: list[Link] = []
    if op.kind == SQUARED:
        before = [Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_square)]
    if first.dims != dims:
        if second.dims != dims:
            raise Unfit("both operands broadcast")
        if op.kind == "Subtract":  # a - b = -(b - a)
            before = [Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_linear, alpha=-1)]
        elif op.kind == "Divide":
            raise Unfit("the dividend broadcasts")
        first, second = second, first
    algorithm = Algorithm.binary_sub if op.kind == SQUARED else BINARY[op.kind]
    _emit(low, op, [*before, *links], algorithm, (first, second))


def bias_add(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A binary primitive with the bias at the channels' axis."""
    rank = len(op.outputs[0].dims)
    axis = axis_positions(op.attributes.string("data_format"), rank - 2)["C"][0]
    _emit(low, op, links, Algorithm.binary_add, (op.inputs[0], op.inputs[1]), axis)


def bias_add_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A reduction over all axes but the channels."""
    diff_dst = low.read(op.inputs[0])
    shape = diff_dst.desc.shape
    axis = axis_positions(op.attributes.string("data_format"), len(shape) - 2)["C"][0]
    kept = tuple(d if a == axis else 1 for a, d in enumerate(shape))
    if kept == shape:
        raise Unfit("nothing is summed")
    target = low.temporary(kept, low.type_of(op.outputs[0]))
    attributes, _ = low.attributes((), op.outputs[0])
    desc = low.describe(
        "reduction",
        low.engine,
        Algorithm.reduction_sum,
        diff_dst.desc,
        target.desc,
        0.0,
        0.0,
        attributes,
    )
    low.run("reduction", desc, [(Arg.SRC, diff_dst), (Arg.DST, target)])
    low.produce(op.outputs[0], low.look(target, low.desc((shape[axis],), (1,), target.desc.data_type)))


LOWERED = {kind: Lowered(binary, fuses=True, takes=takes) for kind in (*BINARY, SQUARED)} | {
    "BiasAdd": Lowered(bias_add, fuses=True, takes=takes),
    "BiasAddBackward": Lowered(bias_add_backward),
}
