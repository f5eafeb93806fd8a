"""Gradients of the matmul family: products of matrices, summed over broadcast batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...ops.schema import UNKNOWN_DIM
from ..model.logical_tensor import LogicalTensor
from .arithmetic import dims_of, rank_of
from .context import GradientContext
from .rules import Made, rule


@rule("MatMul")
def matmul(ctx: GradientContext) -> Iterator[Made]:
    """Diff · weightsᵀ and srcᵀ · diff; where an operand is stored transposed, so is its gradient."""
    make, src, weights = ctx.make, ctx.shape_of("src"), ctx.shape_of("weights")
    if ctx.has_input("bias") and ctx.wants("bias"):
        yield (
            "bias",
            make.sum_to(ctx.gradient, ctx.shape_of("dst"), ctx.shape_of("bias"), [ctx.shape_of("dst").shape]),
        )
    if not ctx.wants("src") and not ctx.wants("weights"):
        return
    row, column = rank_of(src) == 1, rank_of(weights) == 1
    transpose_a = ctx.op.attributes.flag("transpose_a") and not row
    transpose_b = ctx.op.attributes.flag("transpose_b") and not column
    diff = _as_matrix(ctx, make.cast(ctx.gradient, src.data_type), row, column)
    if ctx.wants("src"):
        b = _as_column(ctx, ctx.input("weights")) if column else ctx.input("weights")
        if transpose_a:
            made = _product(ctx, b, diff, transpose_b, True)
        else:
            made = _product(ctx, diff, b, False, not transpose_b)
        yield "src", _own(ctx, made, src, weights, row)
    if ctx.wants("weights"):
        a = _as_row(ctx, ctx.input("src")) if row else ctx.input("src")
        if _is_shared(a, diff, weights) and not transpose_a:
            # The sum over the batches is that of one product of longer matrices.
            a, diff = _all_rows(ctx, a), _all_rows(ctx, diff)
        if transpose_b:
            made = _product(ctx, diff, a, True, transpose_a)
        else:
            made = _product(ctx, a, diff, not transpose_a, False)
        yield "weights", _own(ctx, made, weights, src, column)


def _product(
    ctx: GradientContext, a: LogicalTensor, b: LogicalTensor, transpose_a: bool, transpose_b: bool
) -> LogicalTensor:
    return ctx.make.op(
        "MatMul", a, b, transpose_a=transpose_a, transpose_b=transpose_b, wanted=ctx.op.inputs[0].data_type
    )


def _as_row(ctx: GradientContext, vector: LogicalTensor) -> LogicalTensor:
    return ctx.make.op("StaticReshape", vector, shape=[1, -1], special_zero=False)


def _as_column(ctx: GradientContext, vector: LogicalTensor) -> LogicalTensor:
    return ctx.make.op("StaticReshape", vector, shape=[-1, 1], special_zero=False)


def _as_matrix(ctx: GradientContext, diff: LogicalTensor, row: bool, column: bool) -> LogicalTensor:
    """The gradient with the axes of one element that a vector stands for."""
    if not row and not column:
        return diff
    shape = list(dims_of(ctx.shape_of("dst")))
    if column:
        shape.append(1)
    if row:
        shape.insert(len(shape) - 1, 1)
    return ctx.make.reshape(diff, shape, ctx.shape_of("dst"))


def _is_shared(a: LogicalTensor, diff: LogicalTensor, weights: LogicalTensor) -> bool:
    """Whether one matrix of weights was used for all batches, and each batch of `a` once."""
    rank = rank_of(diff)
    if not rank > 2 == rank_of(weights) or rank_of(a) != rank:
        return False
    return a.is_concrete or UNKNOWN_DIM not in (dims_of(a)[-1], dims_of(diff)[-1])


def _all_rows(ctx: GradientContext, tensor: LogicalTensor) -> LogicalTensor:
    """The rows of all batches as one matrix."""
    shape = dims_of(tensor)
    rows = math.prod(shape[:-1]) if tensor.is_concrete else UNKNOWN_DIM
    return ctx.make.op("StaticReshape", tensor, shape=[rows, shape[-1]], special_zero=False)


def _own(
    ctx: GradientContext, made: LogicalTensor, to: LogicalTensor, other: LogicalTensor, vector: bool
) -> LogicalTensor:
    """Summed over the batches that an operand was broadcast to; a vector with its one axis."""
    if vector:
        batches = tuple(range(rank_of(made) - 2))
        return ctx.make.reshape_like(ctx.make.total(made, batches), to)
    batches_alone = (*dims_of(other)[:-2], 1, 1)  # its matrices are not broadcast
    return ctx.make.sum_to(made, made, to, [batches_alone])
