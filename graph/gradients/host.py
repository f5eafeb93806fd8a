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
    ("HostAbs", "HostAdd", "HostSubtract", "HostMultiply", "HostMaximum", "HostMinimum")
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
    """By the dividend 1, by the divisor −⌊src_0 / src_1⌋."""
    if ctx.wants("src_0"):
        yield "src_0", ctx.sum_to(ctx.gradient, "src_0")
    if ctx.wants("src_1"):
        if ctx.op.attributes.flag("of_dividend"):
            raise ctx.error("the gradient by 'src_1' with of_dividend=True has no rule")
        times = ctx.make.op("HostFloor", ctx.make.divide(ctx.input("src_0"), ctx.input("src_1")))
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


@rule("HostScatterND")
def scatter_nd(ctx: GradientContext) -> Iterator[Made]:
    """By the updates what stands in their places, by src the rest. Of two for one place both count as the last one."""
    indices, axis = ctx.input("indices"), ctx.op.attributes.integer("axis")
    summed = _is_sum(ctx)
    if ctx.wants("updates"):
        yield "updates", _replaced(ctx, indices, axis)
    if ctx.wants("src") and summed:
        yield "src", ctx.gradient
    elif ctx.wants("src"):
        zeros = ctx.make.expand(ctx.make.number(0, ctx.gradient), ctx.shape_of("updates"))
        yield "src", ctx.make.op("HostScatterND", ctx.gradient, indices, zeros, axis=axis)


def _replaced(ctx: GradientContext, indices: LogicalTensor, axis: int) -> LogicalTensor:
    """What lies in the gradient at the places that updates were put to."""
    if axis == 0:
        return ctx.make.op("HostGatherND", ctx.gradient, indices)
    src, updates = ctx.shape_of("src").shape, ctx.shape_of("updates").shape
    if src is None or updates is None:
        raise ctx.error("the gradient by 'updates' needs a known number of axes where 'axis' is not 0")
    rank, axis = len(src), axis % len(src)
    # What is named comes first, and goes back afterwards.
    found = ctx.make.op(
        "HostGatherND", ctx.make.transpose(ctx.gradient, [*range(axis, rank), *range(axis)]), indices
    )
    behind = len(updates) - axis
    return ctx.make.transpose(found, [*range(behind, len(updates)), *range(behind)])


@rule("HostScatterElements")
def scatter_elements(ctx: GradientContext) -> Iterator[Made]:
    """As of HostScatterND."""
    indices, axis = ctx.input("indices"), ctx.op.attributes.integer("axis")
    summed = _is_sum(ctx)
    if ctx.wants("updates"):
        yield "updates", ctx.make.op("HostGatherElements", ctx.gradient, indices, axis=axis)
    if ctx.wants("src") and summed:
        yield "src", ctx.gradient
    elif ctx.wants("src"):
        zeros = ctx.make.expand(ctx.make.number(0, ctx.gradient), ctx.shape_of("updates"))
        yield "src", ctx.make.op("HostScatterElements", ctx.gradient, indices, zeros, axis=axis)


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


def _is_sum(ctx: GradientContext) -> bool:
    """Whether updates are added to what is there, not put in its place.

    Raises:
        UnsupportedError: another reduction.
    """
    reduction = ctx.op.attributes.string("reduction")
    if reduction not in ("none", "add"):
        raise ctx.error(f"the gradient with reduction={reduction!r} has no rule")
    return reduction == "add"
