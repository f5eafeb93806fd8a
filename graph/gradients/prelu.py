"""Gradients of PReLU."""

from __future__ import annotations

from collections.abc import Iterator

from .arithmetic import rank_of
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import NOT_DIFFERENTIABLE, Made, rule

NOT_DIFFERENTIABLE["PReLUBackward"] = "second derivatives of PReLU are not written"


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
