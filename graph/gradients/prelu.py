"""Gradients of PReLU."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.prelu import slope_axis
from ..model.logical_tensor import LogicalTensor
from .arithmetic import dims_of, rank_of
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import Made, rule


@rule("PReLU")
def prelu(ctx: GradientContext) -> Iterator[Made]:
    """The gradient op, which takes every slope of one axis for one of the channels."""
    slope, src = ctx.shape_of("slope"), ctx.shape_of("src")
    if ctx.op.attributes.flag("per_channel_broadcast") or rank_of(slope) != 1 or rank_of(src) < 2:
        yield from by_backward_ops(ctx)
        return
    shape = [1] * (rank_of(src) - 1) + [-1]
    last = ctx.make.op("StaticReshape", ctx.input("slope"), shape=shape, special_zero=False)
    made = ctx.make.ops(
        "PReLUBackward",
        [ctx.input("src"), last, ctx.gradient],
        {"data_format": ctx.attribute("data_format")},
    )
    yield "src", made[0]
    if ctx.wants("slope"):
        yield "slope", ctx.make.reshape_like(made[1], slope)


@rule("PReLUBackward", every_output=True)
def prelu_backward(ctx: GradientContext) -> Iterator[Made]:
    """Of diff_dst where src > 0 and slope · diff_dst elsewhere, and of Σ diff_dst · min(src, 0).

    With u and v the gradients of these, and the sums and products below zero alone: by diff_dst what PReLUBackward
    makes of u, and src · v; by slope Σ u · diff_dst; by src diff_dst · v.
    """
    make, (u, v) = ctx.make, (*ctx.gradients, None)[:2]
    slope, layout = ctx.shape_of("slope"), {"data_format": ctx.attribute("data_format")}

    def below(values: LogicalTensor) -> LogicalTensor:
        above = make.op("ReLUBackward", ctx.input("src"), values, use_dst=False)
        return make.subtract(values, above)

    def channels() -> int | None:
        return slope_axis(ctx.op.attributes, dims_of(ctx.shape_of("src")), dims_of(slope))

    def along(values: LogicalTensor) -> LogicalTensor:
        """Of shape slope, beside the data."""
        axis = channels()
        if axis is None:
            return values
        shape = [-1 if a == axis else 1 for a in range(rank_of(ctx.shape_of("src")))]
        return make.op("StaticReshape", values, shape=shape, special_zero=False)

    beside = None if v is None else along(v)
    if ctx.wants("diff_dst"):
        if u is not None:
            yield (
                "diff_dst",
                make.ops("PReLUBackward", [ctx.input("src"), ctx.input("slope"), u], layout)[0],
            )
        if beside is not None:
            yield "diff_dst", make.multiply(below(ctx.input("src")), beside)
    if ctx.wants("src"):
        yield "src", None if beside is None else make.multiply(below(ctx.input("diff_dst")), beside)
    if ctx.wants("slope"):
        by_slope = None
        if u is not None:
            product = below(make.multiply(u, ctx.input("diff_dst")))
            axis, rank = channels(), rank_of(product)
            sized = [1] * (rank - rank_of(slope)) + list(dims_of(slope))
            alone = [a for a in range(rank) if (a != axis if axis is not None else sized[a] == 1)]
            by_slope = make.reshape_like(make.total(product, alone), slope)
        yield "slope", by_slope
