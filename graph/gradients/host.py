"""Gradients of the host family: parts go back to their places, and what was repeated is summed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..model.logical_tensor import LogicalTensor
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import NOT_DIFFERENTIABLE, STOPPED_PORTS, STOPS, Made, rule

STOPS.update(
    # Truths and places.
    (
        "HostEqual",
        "HostNotEqual",
        "HostGreater",
        "HostGreaterEqual",
        "HostAnd",
        "HostOr",
        "HostXor",
        "HostNot",
    )
)
STOPS.update(("HostIsNaN", "HostIsInf", "HostArgMax", "HostArgMin"))
STOPS.update(("HostStopGradient", "HostMeanWeight", "HostRankWeight"))
STOPS.update(("HostCeil", "HostDivide", "HostFloor", "HostSign", "HostTrunc"))  # steps
STOPS.update(  # integers alone
    (
        "HostAbs",
        "HostAdd",
        "HostSubtract",
        "HostMultiply",
        "HostMaximum",
        "HostMinimum",
        "HostGcd",
        "HostMatMul",
    )
)
STOPS.update(("HostReduceMax", "HostReduceMin", "HostReduceProd", "HostReduceSum"))
NOT_DIFFERENTIABLE["HostOnnx"] = "it runs by ONNX's reference; replace its node in the model"
NOT_DIFFERENTIABLE.update(
    dict.fromkeys(
        ("HostMeanStart", "HostMeanEnd"),
        "gradients are averaged over processes once they are there; differentiate before, or use HostRankSum",
    )
)
NOT_DIFFERENTIABLE.update(
    dict.fromkeys(
        ("HostSGD", "HostAdam", "HostUpdate", "HostGradientScale"),
        "it is a step of training, which is not differentiated itself",
    )
)
STOPPED_PORTS["HostExpandTo"] = STOPPED_PORTS["HostSumTo"] = frozenset(("like",))


@rule("HostSin", spread=True)
def sine(ctx: GradientContext) -> Iterator[Made]:
    """The cosine."""
    yield "src", ctx.make.multiply(ctx.gradient, ctx.make.op("HostCos", ctx.input("src")))


@rule("HostCos", spread=True)
def cosine(ctx: GradientContext) -> Iterator[Made]:
    """The sine with the other sign."""
    sine = ctx.make.op("HostSin", ctx.input("src"))
    yield "src", ctx.make.negative(ctx.make.multiply(ctx.gradient, sine))


@rule("HostErf", spread=True)
def error_function(ctx: GradientContext) -> Iterator[Made]:
    """2 / √π · exp(−src²)."""
    bell = ctx.make.op("Exp", ctx.make.negative(ctx.make.op("Square", ctx.input("src"))))
    yield "src", ctx.make.scale(ctx.make.multiply(ctx.gradient, bell), 2 / math.sqrt(math.pi))


@rule("HostModulo", spread=True)
def modulo(ctx: GradientContext) -> Iterator[Made]:
    """By the dividend 1, by the divisor how often it is in it, with the other sign."""
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(ctx.gradient, "src_0")
    if ctx.wants("src_1"):
        rounding = "zero" if ctx.op.attributes.flag("of_dividend") else "down"
        times = ctx.make.op("HostDivide", ctx.input("src_0"), ctx.input("src_1"), rounding=rounding)
        yield "src_1", ctx.make.negative(ctx.sum_to(ctx.make.multiply(ctx.gradient, times), "src_1"))


@rule("HostExpand", "HostExpandTo", spread=True)
def expand(ctx: GradientContext) -> Iterator[Made]:
    """The sum over what was repeated."""
    yield "src", ctx.make.sum_to(ctx.gradient, ctx.op.outputs[0], ctx.shape_of("src"))


@rule("HostSumTo", spread=True)
def sum_to(ctx: GradientContext) -> Iterator[Made]:
    """The gradient itself, for each element of the sum."""
    yield "src", ctx.gradient


@rule("HostCumSum")
def cumulative_sum(ctx: GradientContext) -> Iterator[Made]:
    """Sums from the other end."""
    attributes = {**ctx.op.attributes, "reverse": not ctx.op.attributes.flag("reverse")}
    yield "src", ctx.make.ops("HostCumSum", [ctx.gradient], attributes)[0]


@rule("HostScatterND", "HostScatterElements")
def scatter(ctx: GradientContext) -> Iterator[Made]:
    """By the updates what stands in their places, by src the rest. Of two for one place both count as the last one.

    Of extremes all elements that are one share the gradient, as in torch. Of products each has that of the others.
    """
    reduction = ctx.op.attributes.string("reduction")
    if reduction in _SHARES:
        yield from _SHARES[reduction](ctx)
        return
    if ctx.wants("updates"):
        yield "updates", _found(ctx, ctx.gradient)
    if ctx.wants("src") and reduction == "add":
        yield "src", ctx.gradient
    elif ctx.wants("src"):
        zeros = ctx.make.expand(ctx.make.number(0, ctx.gradient), ctx.shape_of("updates"))
        yield "src", _put(ctx, ctx.gradient, zeros, "none")


def _extremes(ctx: GradientContext) -> Iterator[Made]:
    """The gradient, shared out evenly among the elements that are the result."""
    result = ctx.output()
    zero, one = ctx.make.number(0, ctx.gradient), ctx.make.number(1, ctx.gradient)

    def hits(x: LogicalTensor, there: LogicalTensor) -> LogicalTensor:
        return ctx.make.choose(ctx.make.op("HostEqual", x, there), one, zero)

    of_src = hits(ctx.input("src"), result)
    of_updates = hits(ctx.input("updates"), _found(ctx, result))
    share = ctx.make.divide(ctx.gradient, _put(ctx, of_src, of_updates, "add"))
    if ctx.wants("src"):
        yield "src", ctx.make.multiply(share, of_src)
    if ctx.wants("updates"):
        yield "updates", ctx.make.multiply(_found(ctx, share), of_updates)


def _others(ctx: GradientContext) -> Iterator[Made]:
    """The gradient by the product of all other factors, of which one that is 0 leaves nothing."""
    zero, one = ctx.make.number(0, ctx.gradient), ctx.make.number(1, ctx.gradient)
    factors = ctx.input("src"), ctx.input("updates")
    none = [ctx.make.op("HostEqual", x, zero) for x in factors]
    numbers = [ctx.make.choose(is_none, one, x) for is_none, x in zip(none, factors, strict=True)]
    counted = [ctx.make.choose(is_none, one, zero) for is_none in none]
    zeros = _put(ctx, counted[0], counted[1], "add")
    product = ctx.make.multiply(ctx.gradient, _put(ctx, numbers[0], numbers[1], "mul"))
    by_number = ctx.make.choose(ctx.make.op("HostEqual", zeros, zero), product, zero)
    by_zero = ctx.make.choose(ctx.make.op("HostEqual", zeros, one), product, zero)
    if ctx.wants("src"):
        yield "src", ctx.make.choose(none[0], by_zero, ctx.make.divide(by_number, numbers[0]))
    if ctx.wants("updates"):
        there, here = _found(ctx, by_zero), _found(ctx, by_number)
        yield "updates", ctx.make.choose(none[1], there, ctx.make.divide(here, numbers[1]))


_SHARES = {"max": _extremes, "min": _extremes, "mul": _others}
"""Reduction → the gradients by src and by the updates."""


def _put(ctx: GradientContext, x: LogicalTensor, updates: LogicalTensor, reduction: str) -> LogicalTensor:
    """A tensor like src with updates at their places."""
    axis = ctx.op.attributes.integer("axis")
    return ctx.make.op(ctx.op.kind, x, ctx.input("indices"), updates, axis=axis, reduction=reduction)


def _found(ctx: GradientContext, x: LogicalTensor) -> LogicalTensor:
    """What lies in a tensor like src at the places of updates."""
    indices, axis = ctx.input("indices"), ctx.op.attributes.integer("axis")
    if ctx.op.kind == "HostScatterElements":
        return ctx.make.op("HostGatherElements", x, indices, axis=axis)
    return _of_places(ctx, x, indices, axis)


def _of_places(ctx: GradientContext, x: LogicalTensor, indices: LogicalTensor, axis: int) -> LogicalTensor:
    """Parts of a tensor like src by their places, which are named from an axis on."""
    if axis == 0:
        return ctx.make.op("HostGatherND", x, indices)
    src, updates = ctx.shape_of("src").shape, ctx.shape_of("updates").shape
    if src is None or updates is None:
        raise ctx.error("the gradient by 'updates' needs a known number of axes where 'axis' is not 0")
    rank, axis = len(src), axis % len(src)
    # What is named comes first, and goes back afterwards.
    found = ctx.make.op("HostGatherND", ctx.make.transpose(x, [*range(axis, rank), *range(axis)]), indices)
    behind = len(updates) - axis
    return ctx.make.transpose(found, [*range(behind, len(updates)), *range(behind)])


@rule("HostGatherElements")
def gather_elements(ctx: GradientContext) -> Iterator[Made]:
    """Back to where the elements were taken; of sizes that are not known, added to zeros of them."""
    if ctx.shape_of("src").is_concrete:
        yield from by_backward_ops(ctx)
        return
    indices, axis = ctx.input("indices"), ctx.op.attributes.integer("axis")
    zeros = ctx.make.expand(ctx.make.number(0, ctx.gradient), ctx.shape_of("src"))
    yield (
        "src",
        ctx.make.op("HostScatterElements", zeros, indices, ctx.gradient, axis=axis, reduction="add"),
    )


@rule("HostTopK")
def top_k(ctx: GradientContext) -> Iterator[Made]:
    """Back to where the elements were taken."""
    axis, shape = ctx.op.attributes.integer("axis"), ctx.shape_of("src").dims
    indices = ctx.output("indices")
    yield (
        "src",
        ctx.make.op("HostGatherElementsBackward", ctx.gradient, indices, axis=axis, src_shape=list(shape)),
    )


@rule("HostGroupedMatMul")
def grouped_product(ctx: GradientContext) -> Iterator[Made]:
    """By the rows those of the gradient by each matrix transposed, by the matrices their product."""
    ends = ctx.input("ends")
    if ctx.wants("src"):
        turned = ctx.make.transpose(ctx.input("weights"), [0, 2, 1])
        yield "src", ctx.make.op("HostGroupedMatMul", ctx.gradient, turned, ends)
    if ctx.wants("weights"):
        yield "weights", ctx.make.op("HostGroupedMatMulWeights", ctx.input("src"), ctx.gradient, ends)


@rule("HostGroupedMatMulWeights")
def grouped_outer_product(ctx: GradientContext) -> Iterator[Made]:
    """By either factor the other one by the gradient of its group."""
    ends = ctx.input("ends")
    if ctx.wants("src"):
        turned = ctx.make.transpose(ctx.gradient, [0, 2, 1])
        yield "src", ctx.make.op("HostGroupedMatMul", ctx.input("diff_dst"), turned, ends)
    if ctx.wants("diff_dst"):
        yield "diff_dst", ctx.make.op("HostGroupedMatMul", ctx.input("src"), ctx.gradient, ends)
