"""Lowering of the binary family."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.op import Op
from ...ops.formats import axis_positions
from .assembly import Unfit
from .enumerators import Algorithm, Arg
from .fusing import BINARY, Link, result_of
from .lowering import Lowered, Lowering
from .plan import Buffer

COMMUTES = ("Add", "Maximum", "Minimum", "Multiply")
SQUARED = "SquaredDifference"


def _emit(
    low: Lowering, op: Op, links: Sequence[Link], algorithm: Algorithm, first: Buffer, second: Buffer
) -> None:
    result = result_of(op, links)
    attributes, more = low.attributes(links, op.outputs[0])
    desc = low.describe(
        "binary", low.engine, algorithm, first.desc, second.desc,
        low.wanted_like(result, first), attributes,
    )  # fmt: skip
    low.single("binary", desc, [(Arg.SRC, first), (Arg.SRC_1, second), *more], result)


def binary(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A binary primitive; the operand that has all of the result's elements comes first where that is free."""
    dims = op.outputs[0].dims
    operands = list(op.inputs)
    if op.kind in COMMUTES and operands[0].dims != dims:
        operands.reverse()
    whole = [t for t in operands if t.dims == dims]
    rank = max(len(dims), 1)
    # A blocked layout goes through where both have it; an operand that broadcasts must be plain.
    buffers = [low.read(t) if t in whole and len(dims) else low.aligned(t, rank) for t in operands]
    if op.kind == SQUARED:
        square = Link(ops=(), result=op.outputs[0], algorithm=Algorithm.eltwise_square)
        _emit(low, op, [square, *links], Algorithm.binary_sub, *buffers)
        return
    _emit(low, op, links, BINARY[op.kind], *buffers)


def bias_add(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A binary primitive with the bias at the channels' axis."""
    rank = len(op.outputs[0].dims)
    axis = axis_positions(op.attributes.string("data_format"), rank - 2)["C"][0]
    src, bias = low.read(op.inputs[0]), low.aligned(op.inputs[1], rank, axis)
    _emit(low, op, links, Algorithm.binary_add, src, bias)


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
        "reduction", low.engine, Algorithm.reduction_sum, diff_dst.desc, target.desc, 0.0,
        0.0, attributes,
    )  # fmt: skip
    low.run("reduction", desc, [(Arg.SRC, diff_dst), (Arg.DST, target)])
    low.produce(op.outputs[0], low.look(target, low.desc((shape[axis],), (1,), target.desc.data_type)))


LOWERED = {kind: Lowered(binary, fuses=True) for kind in (*BINARY, SQUARED)} | {
    "BiasAdd": Lowered(bias_add, fuses=True),
    "BiasAddBackward": Lowered(bias_add_backward),
}
