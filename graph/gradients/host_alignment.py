"""Second derivatives of alignments."""

from __future__ import annotations

from collections.abc import Iterator

from .context import GradientContext
from .rules import Made, rule


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


@rule("HostCTCCurvature")
def ctc_curvature(ctx: GradientContext) -> Iterator[Made]:
    """It is linear in both: along the Hessian, which is symmetric, again; and what it makes of each example.

    Raises:
        UnsupportedError: by src, which would be a third derivative.
    """
    if ctx.wants("src"):
        raise ctx.error("third derivatives of alignments are not written; leave out what hangs on it")
    given = [ctx.input(name) for name in ("src", "labels", "src_lengths", "label_lengths")]
    attributes = dict(ctx.op.attributes)
    if ctx.wants("diff_dst"):
        ones = ctx.make.expand(ctx.make.number(1, ctx.gradient), ctx.shape_of("diff_dst"))
        whole = ctx.make.ops("HostCTCCurvature", [ones, ctx.input("along"), *given], attributes)[0]
        yield "diff_dst", ctx.make.total(ctx.make.multiply(whole, ctx.gradient), (1, 2), keep=False)
    if ctx.wants("along"):
        inputs = [ctx.input("diff_dst"), ctx.gradient, *given]
        yield "along", ctx.make.ops("HostCTCCurvature", inputs, attributes)[0]
