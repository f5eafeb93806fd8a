"""Lowering of the binary family."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.formats import axis_positions
from ..library.descriptors import Reduction
from ..library.enumerators import Algorithm, Arg
from ..plan.unfit import Unfit
from . import integers as on_integers
from .binary_primitive import binary_primitive
from .links import BINARY, Link
from .long_sums import check_length
from .lowering import Lowered, Lowering
from .sums_of_rows import sum_of_rows

SQUARED = "SquaredDifference"


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
    first = low.tensors.elementwise(operands[0])
    second = low.tensors.beside(operands[1], first, axis)
    binary_primitive(low, op, links, algorithm, (first, second), (operands[1], axis))


def binary(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A binary primitive.

    Raises:
        Unfit: no operand has all elements of the result, or only the second one of a Divide.
    """
    dims = op.outputs[0].dims
    integers = [found for found in map(low.tensors.quantized, op.inputs) if found is not None]
    if op.kind in BINARY and integers:
        if len(integers) == 2 and op.inputs[0].dims == op.inputs[1].dims:
            on_integers.binary(low, op, links, integers[0], integers[1])
            return
        if on_integers.with_real(low, op, links):
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
    """A sum of rows where the channels are last, or a reduction over all axes but theirs."""
    diff_dst = low.tensors.read(op.inputs[0])
    shape = diff_dst.desc.shape
    axis = axis_positions(op.attributes.string("data_format"), len(shape) - 2)["C"][0]
    kept = tuple(d if a == axis else 1 for a, d in enumerate(shape))
    if kept == shape:
        raise Unfit("nothing is summed")
    others = [a for a in range(len(shape)) if a != axis]
    made = sum_of_rows(low, diff_dst, others, low.tensors.type_of(op.outputs[0]))
    if made is not None:
        low.tensors.produce(op.outputs[0], low.layouts.view(made, (shape[axis],)))
        return
    check_length(math.prod(shape[a] for a in others))
    target = low.layouts.temporary(kept, low.tensors.type_of(op.outputs[0]))
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        Reduction(
            algorithm=Algorithm.reduction_sum,
            src=diff_dst.desc,
            dst=target.desc,
            p=0.0,
            epsilon=0.0,
            attributes=attributes,
        )
    )
    low.emitter.run("reduction", desc, [(Arg.SRC, diff_dst), (Arg.DST, target)])
    low.tensors.produce(op.outputs[0], low.layouts.view(target, (shape[axis],)))


LOWERED = {kind: Lowered(binary) for kind in (*BINARY, SQUARED)} | {
    "BiasAdd": Lowered(bias_add),
    "BiasAddBackward": Lowered(bias_add_backward),
}
