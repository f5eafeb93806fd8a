"""Gradients of the binary family: each operand's, summed over what it was broadcast along."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.formats import axis_positions
from .arithmetic import rank_of
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import STOPS, Made, rule

STOPS.add("GreaterEqual")


@rule("Add", spread=True)
def add(ctx: GradientContext) -> Iterator[Made]:
    """Both operands have the gradient of the sum."""
    for port in ("src_0", "src_1"):
        if ctx.wants(port):
            yield port, ctx.sum_to(ctx.gradient, port)


@rule("Subtract", spread=True)
def subtract(ctx: GradientContext) -> Iterator[Made]:
    """The second operand's gradient has the other sign."""
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(ctx.gradient, "src_0")
    if ctx.wants("src_1"):
        yield "src_1", ctx.make.negative(ctx.sum_to(ctx.gradient, "src_1"))


@rule("Multiply", spread=True)
def multiply(ctx: GradientContext) -> Iterator[Made]:
    """Each operand's gradient is that of the product times the other operand."""
    for port, other in (("src_0", "src_1"), ("src_1", "src_0")):
        if ctx.wants(port):
            yield port, ctx.sum_to(ctx.make.multiply(ctx.gradient, ctx.input(other)), port)


@rule("Divide", spread=True)
def divide(ctx: GradientContext) -> Iterator[Made]:
    """1 / src_1, and −dst / src_1."""
    by_dividend = ctx.make.divide(ctx.gradient, ctx.input("src_1"))
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(by_dividend, "src_0")
    if ctx.wants("src_1"):
        by_divisor = ctx.make.multiply(ctx.output(), by_dividend)
        yield "src_1", ctx.make.negative(ctx.sum_to(by_divisor, "src_1"))


@rule("Maximum", "Minimum")
def extreme(ctx: GradientContext) -> Iterator[Made]:
    """The gradient goes to the operand that is the result, and in halves to two that are equal."""
    make, gradient = ctx.make, ctx.gradient
    a, b = ctx.input("src_0"), ctx.input("src_1")
    first, second = make.at_least(a, b), make.at_least(b, a)
    if ctx.op.kind == "Minimum":
        first, second = second, first
    zero, half = make.number(0, gradient), make.scale(gradient, 0.5)
    for port, own, other in (("src_0", first, second), ("src_1", second, first)):
        if ctx.wants(port):
            yield port, ctx.sum_to(make.choose(own, make.choose(other, half, gradient), zero), port)


@rule("SquaredDifference", spread=True)
def squared_difference(ctx: GradientContext) -> Iterator[Made]:
    """2 · (src_0 − src_1), and its contrary."""
    difference = ctx.make.subtract(ctx.input("src_0"), ctx.input("src_1"))
    made = ctx.make.multiply(difference, ctx.make.scale(ctx.gradient, 2))
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(made, "src_0")
    if ctx.wants("src_1"):
        yield "src_1", ctx.make.negative(ctx.sum_to(made, "src_1"))


@rule("Select", "HostSelect", spread=True)
def select(ctx: GradientContext) -> Iterator[Made]:
    """Each operand has the gradient where it was taken, and zeros elsewhere."""
    condition, gradient = ctx.input("cond"), ctx.gradient
    zero = ctx.make.number(0, gradient)
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(ctx.make.choose(condition, gradient, zero), "src_0")
    if ctx.wants("src_1"):
        yield "src_1", ctx.sum_to(ctx.make.choose(condition, zero, gradient), "src_1")


@rule("BiasAdd")
def bias_add(ctx: GradientContext) -> Iterator[Made]:
    """The data have the gradient of the sum; the bias, its sum over all else."""
    if ctx.wants("src"):
        yield "src", ctx.gradient
    yield from by_backward_ops(ctx)


@rule("BiasAddBackward")
def bias_add_backward(ctx: GradientContext) -> Iterator[Made]:
    """Each element of a channel counts once in the sum."""
    rank = rank_of(ctx.shape_of("diff_dst"))
    channel = axis_positions(str(ctx.attribute("data_format")), rank - 2)["C"][0]
    shape = [-1 if axis == channel else 1 for axis in range(rank)]
    yield (
        "diff_dst",
        ctx.make.expand(
            ctx.make.op("StaticReshape", ctx.gradient, shape=shape, special_zero=False),
            ctx.shape_of("diff_dst"),
        ),
    )
