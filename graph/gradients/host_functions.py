"""Gradients of functions of one or two tensors that the host has and oneDNN Graph has not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from ..model.logical_tensor import LogicalTensor
from .arithmetic import Arithmetic
from .context import GradientContext
from .rules import Made, rule


def _one_and(make: Arithmetic, x: LogicalTensor, sign: float) -> LogicalTensor:
    """1 + sign · x²."""
    square = make.op("Square", x)
    return make.add(make.number(1, x), square if sign > 0 else make.negative(square))


def _over(make: Arithmetic, x: LogicalTensor) -> LogicalTensor:
    return make.op("Reciprocal", x)


def _over_root(make: Arithmetic, x: LogicalTensor) -> LogicalTensor:
    return make.op("Reciprocal", make.op("Sqrt", x))


def _over_bell(make: Arithmetic, x: LogicalTensor) -> LogicalTensor:
    """√π / 2 · exp(y²), y the inverse of the error function at x."""
    bell = make.op("Exp", make.op("Square", make.op("HostErfInv", x)))
    return make.scale(bell, math.sqrt(math.pi) / 2)


DERIVATIVES: dict[str, Callable[[Arithmetic, LogicalTensor], LogicalTensor]] = {
    "HostAcos": lambda make, x: make.negative(_over_root(make, _one_and(make, x, -1))),
    "HostAcosh": lambda make, x: _over_root(make, make.subtract(make.op("Square", x), make.number(1, x))),
    "HostAsin": lambda make, x: _over_root(make, _one_and(make, x, -1)),
    "HostAsinh": lambda make, x: _over_root(make, _one_and(make, x, 1)),
    "HostAtan": lambda make, x: _over(make, _one_and(make, x, 1)),
    "HostAtanh": lambda make, x: _over(make, _one_and(make, x, -1)),
    "HostCosh": lambda make, x: make.op("HostSinh", x),
    "HostExpm1": lambda make, x: make.op("Exp", x),
    "HostErfInv": _over_bell,
    "HostLog10": lambda make, x: make.scale(_over(make, x), 1 / math.log(10)),
    "HostLog2": lambda make, x: make.scale(_over(make, x), 1 / math.log(2)),
    "HostLog1p": lambda make, x: _over(make, make.add(make.number(1, x), x)),
    "HostLogGamma": lambda make, x: make.op("HostPolygamma", x),
    "HostSinh": lambda make, x: make.op("HostCosh", x),
    "HostTan": lambda make, x: _over(make, make.op("Square", make.op("HostCos", x))),
}
"""Kind → its derivative at x."""


@rule(*DERIVATIVES, spread=True)
def function(ctx: GradientContext) -> Iterator[Made]:
    """The gradient times the derivative."""
    derivative = DERIVATIVES[ctx.op.kind](ctx.make, ctx.input("src"))
    yield "src", ctx.make.multiply(ctx.gradient, derivative)


@rule("HostPolygamma", spread=True)
def polygamma(ctx: GradientContext) -> Iterator[Made]:
    """The next order."""
    order = ctx.op.attributes.integer("order") + 1
    yield "src", ctx.make.multiply(ctx.gradient, ctx.make.op("HostPolygamma", ctx.input("src"), order=order))


@rule("HostPower", spread=True)
def power(ctx: GradientContext) -> Iterator[Made]:
    """Y · x^(y − 1) by the base, 0 where y is 0; x^y · log x by the exponent, 0 where 0 ≤ y and the base is 0.

    Torch has it so, too.
    """
    x, y = ctx.input("src_0"), ctx.input("src_1")
    if ctx.wants("src_0"):
        slope = ctx.make.multiply(y, ctx.make.op("HostPower", x, ctx.make.subtract(y, ctx.make.number(1, y))))
        none = ctx.make.number(0, y)
        slope = ctx.make.choose(ctx.make.op("HostEqual", y, none), none, slope)
        yield "src_0", ctx.sum_to(ctx.make.multiply(ctx.gradient, slope), "src_0")
    if ctx.wants("src_1"):
        zero = ctx.make.number(0, x)
        of_zero = ctx.make.op("HostEqual", x, zero)
        size = ctx.make.choose(
            of_zero, ctx.make.choose(ctx.make.at_least(y, zero), ctx.make.number(1, x), zero), x
        )
        logarithm = ctx.make.op("Log", size)
        yield (
            "src_1",
            ctx.sum_to(ctx.make.multiply(ctx.gradient, ctx.make.multiply(ctx.output(), logarithm)), "src_1"),
        )


@rule("HostAtan2", spread=True)
def angle(ctx: GradientContext) -> Iterator[Made]:
    """By src_0 src_1 over the squared distance, by src_1 the negative of src_0 over it; 0 at 0, as in torch."""
    x, y = ctx.input("src_1"), ctx.input("src_0")
    apart = ctx.make.add(ctx.make.op("Square", x), ctx.make.op("Square", y))
    apart = ctx.make.choose(
        ctx.make.op("HostEqual", apart, ctx.make.number(0, x)), ctx.make.number(1, x), apart
    )
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(ctx.make.multiply(ctx.gradient, ctx.make.divide(x, apart)), "src_0")
    if ctx.wants("src_1"):
        slope = ctx.make.negative(ctx.make.divide(y, apart))
        yield "src_1", ctx.sum_to(ctx.make.multiply(ctx.gradient, slope), "src_1")
