"""Second derivatives of the softmax family."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.logical_tensor import LogicalTensor
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import Made, rule


def _total(ctx: GradientContext, values: LogicalTensor) -> LogicalTensor:
    return ctx.make.total(values, [ctx.op.attributes.integer("axis")])


@rule("SoftMaxBackward")
def softmax_backward(ctx: GradientContext) -> Iterator[Made]:
    """Of dst · (d − Σ d · dst): by d the same op, which is symmetric; by dst g · (d − Σ d · dst) − d · Σ g · dst."""
    yield from by_backward_ops(ctx)
    if ctx.wants("dst"):
        make, gradient, dst, diff = ctx.make, ctx.gradient, ctx.input("dst"), ctx.input("diff_dst")
        away = make.subtract(diff, _total(ctx, make.multiply(diff, dst)))
        along = make.multiply(diff, _total(ctx, make.multiply(gradient, dst)))
        yield "dst", make.subtract(make.multiply(gradient, away), along)


@rule("LogSoftmaxBackward")
def log_softmax_backward(ctx: GradientContext) -> Iterator[Made]:
    """Of d − exp(dst) · Σ d: by d g − Σ g · exp(dst); by dst −g · exp(dst) · Σ d."""
    make, gradient = ctx.make, ctx.gradient
    weighted = make.multiply(gradient, make.op("Exp", ctx.input("dst")))
    if ctx.wants("diff_dst"):
        yield "diff_dst", make.subtract(gradient, _total(ctx, weighted))
    if ctx.wants("dst"):
        yield "dst", make.negative(make.multiply(weighted, _total(ctx, ctx.input("diff_dst"))))
