"""Second derivatives of alignments."""

from __future__ import annotations

from collections.abc import Iterator

from .context import GradientContext
from .rules import NOT_DIFFERENTIABLE, Made, rule

NOT_DIFFERENTIABLE["HostCTCCurvature"] = "third derivatives of alignments are not written"


@rule("HostCTCBackward")
def ctc_backward(ctx: GradientContext) -> Iterator[Made]:
    """By diff_dst the slopes along the gradient, by src the curvature along it."""
    given = [ctx.input(name) for name in ("src", "labels", "src_lengths", "label_lengths")]
    attributes = dict(ctx.op.attributes)
    if ctx.wants("diff_dst"):
        ones = ctx.make.expand(ctx.make.number(1, ctx.gradient), ctx.shape_of("diff_dst"))
        slopes = ctx.make.ops("HostCTCBackward", [ones, *given], attributes)[0]
        yield "diff_dst", ctx.make.total(ctx.make.multiply(slopes, ctx.gradient), (1, 2), keep=False)
    if ctx.wants("src"):
        yield (
            "src",
            ctx.make.ops("HostCTCCurvature", [ctx.input("diff_dst"), ctx.gradient, *given], attributes)[0],
        )
