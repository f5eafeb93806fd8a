"""Gradients of the eltwise family: functions without a gradient op, and the second derivatives of those with one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ..model.logical_tensor import LogicalTensor
from .arithmetic import Arithmetic
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import STOPPED_PORTS, STOPS, Made, rule

STOPS.add("Round")
for _kind, _port in (
    ("AbsBackward", "src"),
    ("ClampBackward", "src_or_dst"),
    ("HardSigmoidBackward", "src"),
    ("ReLUBackward", "src_or_dst"),
):
    STOPPED_PORTS[_kind] = frozenset((_port,))  # slopes that change by steps only


@rule("Exp", spread=True)
def exp(ctx: GradientContext) -> Iterator[Made]:
    """The slope is the result."""
    yield "src", ctx.make.multiply(ctx.gradient, ctx.output())


@rule("Log", spread=True)
def log(ctx: GradientContext) -> Iterator[Made]:
    """1 / src."""
    yield "src", ctx.make.divide(ctx.gradient, ctx.input("src"))


@rule("Reciprocal", spread=True)
def reciprocal(ctx: GradientContext) -> Iterator[Made]:
    """−1 / src²."""
    square = ctx.make.op("Square", ctx.output())
    yield "src", ctx.make.negative(ctx.make.multiply(ctx.gradient, square))


@rule("Square", spread=True)
def square(ctx: GradientContext) -> Iterator[Made]:
    """2 · src."""
    yield "src", ctx.make.multiply(ctx.make.scale(ctx.gradient, 2), ctx.input("src"))


@rule("Pow", spread=True)
def power(ctx: GradientContext) -> Iterator[Made]:
    """Beta · src ^ (beta − 1)."""
    beta = ctx.op.attributes.real("beta")
    if beta == 0:
        yield "src", None
    elif beta == 1:
        yield "src", ctx.gradient
    else:
        src = ctx.input("src")
        slope = src if beta == 2 else ctx.make.op("Pow", src, beta=beta - 1)
        yield "src", ctx.make.multiply(ctx.make.scale(ctx.gradient, beta), slope)


@rule("LeakyReLU")
def leaky_relu(ctx: GradientContext) -> Iterator[Made]:
    """The gradient above zero, alpha times it elsewhere: what ReLUBackward leaves, and alpha times the rest."""
    above = ctx.make.op("ReLUBackward", ctx.input("src"), ctx.gradient, use_dst=False)
    rest = ctx.make.subtract(ctx.gradient, above)
    yield "src", ctx.make.add(above, ctx.make.scale(rest, ctx.op.attributes.real("alpha")))


@rule("Elu")
def elu(ctx: GradientContext) -> Iterator[Made]:
    """From the output, whose sign tells that of the input but where alpha is negative."""
    if ctx.op.attributes.real("alpha") >= 0:
        yield from by_backward_ops(ctx)
    else:
        alpha = ctx.op.attributes.real("alpha")
        yield "src", ctx.make.op("EluBackward", ctx.input("src"), ctx.gradient, alpha=alpha, use_dst=False)


@rule("Round", spread=True)
def round_(ctx: GradientContext) -> Iterator[Made]:
    """Straight through; nothing flows otherwise."""
    yield "src", ctx.gradient


# --- second derivatives ----------------------------------------------------------------------------------


def _of_sigmoid(ctx: GradientContext, dst: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    twice = ctx.make.scale(ctx.make.multiply(both, dst), 2)
    return ctx.make.subtract(both, twice)


def _of_tanh(ctx: GradientContext, dst: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    return ctx.make.scale(ctx.make.multiply(both, dst), -2)


def _of_sqrt(ctx: GradientContext, dst: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    square = ctx.make.op("Square", dst)
    return ctx.make.scale(ctx.make.divide(both, square), -0.5)


def _of_elu(ctx: GradientContext, dst: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    above = ctx.make.op("ReLUBackward", dst, both, use_dst=True)
    return ctx.make.subtract(both, above)


OF_DST: dict[str, Callable[[GradientContext, LogicalTensor, LogicalTensor], LogicalTensor]] = {
    "SigmoidBackward": _of_sigmoid,
    "TanhBackward": _of_tanh,
    "SqrtBackward": _of_sqrt,
    "EluBackward": _of_elu,
}
"""Kind → from the forward op's output, and the product of both gradients, to the gradient by that output."""


@rule(*OF_DST)
def of_dst(ctx: GradientContext) -> Iterator[Made]:
    """By the gradient, and by the output, or through it by the input."""
    yield from by_backward_ops(ctx)
    if not ctx.wants("src_or_dst"):
        return
    attributes = {name: value for name, value in ctx.op.attributes.items() if name != "use_dst"}
    given = ctx.input("src_or_dst")
    both = ctx.make.multiply(ctx.gradient, ctx.input("diff_dst"))
    of_output = ctx.op.attributes.flag("use_dst")
    if ctx.op.kind == "EluBackward" and not of_output:  # alpha may be negative, and the output's sign another
        alpha = ctx.op.attributes.real("alpha")
        slope = ctx.make.op("EluBackward", given, both, alpha=alpha, use_dst=False)
        above = ctx.make.op("ReLUBackward", given, both, use_dst=False)
        yield "src_or_dst", ctx.make.subtract(slope, above)
        return
    dst = given if of_output else ctx.make.ops(ctx.op.kind.removesuffix("Backward"), [given], attributes)[0]
    made = OF_DST[ctx.op.kind](ctx, dst, both)
    if not of_output:
        (made,) = ctx.make.ops(ctx.op.kind, [dst, made], {**attributes, "use_dst": True})
    yield "src_or_dst", made


def _curve_of_softplus(ctx: GradientContext, src: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    beta = ctx.op.attributes.real("beta")
    sigmoid = ctx.make.op("Sigmoid", ctx.make.scale(src, beta))
    return ctx.make.scale(ctx.make.op("SigmoidBackward", sigmoid, both, use_dst=True), beta)


def _curve_of_hard_swish(ctx: GradientContext, src: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    return ctx.make.scale(ctx.make.op("ClampBackward", src, both, min=-3.0, max=3.0, use_dst=False), 1 / 3)


def _curve_of_gelu(ctx: GradientContext, src: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    if ctx.op.attributes.string("mode") == "gelu_tanh":
        return ctx.make.multiply(_curve_of_gelu_by_tanh(ctx.make, src), both)
    make: Arithmetic = ctx.make
    square = make.op("Square", src)
    bell = make.scale(make.op("Exp", make.scale(square, -0.5)), 1 / math.sqrt(2 * math.pi))
    return make.multiply(make.multiply(make.subtract(make.number(2, src), square), bell), both)


def _curve_of_gelu_by_tanh(make: Arithmetic, src: LogicalTensor) -> LogicalTensor:
    """With t = tanh(u), u = a · (src + b · src³): (1 − t²) · (u' + src · (u'' / 2 − t · u'²))."""
    a, b = math.sqrt(2 / math.pi), 0.044715
    square = make.op("Square", src)
    inner = make.multiply(src, make.add(make.scale(square, a * b), make.number(a, src)))
    tanh = make.op("Tanh", inner)
    first = make.add(make.scale(square, 3 * a * b), make.number(a, src))  # u'
    bend = make.subtract(make.scale(src, 3 * a * b), make.multiply(tanh, make.op("Square", first)))
    whole = make.add(first, make.multiply(src, bend))
    return make.op("TanhBackward", tanh, whole, use_dst=True)


def _curve_of_mish(ctx: GradientContext, src: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    """With s the sigmoid and t the tanh of SoftPlus: (1 − t²) · s · (2 + src · (1 − s − 2 · t · s))."""
    make = ctx.make
    sigmoid, tanh = make.op("Sigmoid", src), make.op("Tanh", make.op("SoftPlus", src, beta=1.0))
    rest = make.subtract(make.number(1, src), sigmoid)
    bend = make.subtract(rest, make.scale(make.multiply(tanh, sigmoid), 2))
    inner = make.add(make.multiply(src, bend), make.number(2, src))
    return make.op("TanhBackward", tanh, make.multiply(make.multiply(inner, sigmoid), both), use_dst=True)


def _curve_of_swish(ctx: GradientContext, src: LogicalTensor, both: LogicalTensor) -> LogicalTensor:
    """With s the sigmoid: s · (1 − s) · (2 + src · (1 − 2 · s))."""
    make, sigmoid = ctx.make, ctx.make.op("Sigmoid", src)
    bend = make.subtract(make.number(1, src), make.scale(sigmoid, 2))
    inner = make.add(make.multiply(src, bend), make.number(2, src))
    return make.op("SigmoidBackward", sigmoid, make.multiply(inner, both), use_dst=True)


OF_SRC: dict[str, Callable[[GradientContext, LogicalTensor, LogicalTensor], LogicalTensor]] = {
    "SoftPlusBackward": _curve_of_softplus,
    "HardSwishBackward": _curve_of_hard_swish,
    "GELUBackward": _curve_of_gelu,
    "MishBackward": _curve_of_mish,
    "SwishBackward": _curve_of_swish,
}
"""Kind → from the forward op's input, and the product of both gradients, to the gradient by that input."""


@rule(*OF_SRC)
def of_src(ctx: GradientContext) -> Iterator[Made]:
    """By the gradient, and by the input."""
    yield from by_backward_ops(ctx)
    if ctx.wants("src"):
        both = ctx.make.multiply(ctx.gradient, ctx.input("diff_dst"))
        yield "src", OF_SRC[ctx.op.kind](ctx, ctx.input("src"), both)
