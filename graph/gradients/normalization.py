"""Gradients of the normalisations that have no gradient op: by given statistics, and by the mean square."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.formats import axis_positions
from ..model.logical_tensor import LogicalTensor
from .arithmetic import dims_of, rank_of, sizes
from .context import GradientContext
from .rules import Made, rule


def _inverse_root(ctx: GradientContext, variance: LogicalTensor) -> LogicalTensor:
    """1 / √(variance + epsilon)."""
    epsilon = ctx.make.number(ctx.op.attributes.real("epsilon"), variance)
    return ctx.make.op("Pow", ctx.make.add(variance, epsilon), beta=-0.5)


def _channel(ctx: GradientContext) -> int:
    rank = rank_of(ctx.shape_of("src"))
    return axis_positions(ctx.op.attributes.string("data_format"), rank - 2)["C"][0]


def _along(ctx: GradientContext, vector: LogicalTensor) -> LogicalTensor:
    """One value per channel, with an axis for each of the data's."""
    channel, rank = _channel(ctx), rank_of(ctx.shape_of("src"))
    shape = [-1 if axis == channel else 1 for axis in range(rank)]
    return ctx.make.op("StaticReshape", vector, shape=shape, special_zero=False)


def _per_channel(ctx: GradientContext, values: LogicalTensor) -> LogicalTensor:
    """Sums over all but the channels."""
    return ctx.make.op("BiasAddBackward", values, data_format=ctx.attribute("data_format"))


@rule("BatchNormInference")
def batch_norm_inference(ctx: GradientContext) -> Iterator[Made]:
    """With r = 1 / √(variance + epsilon), s = Σ g and t = Σ g · (src − mean) per channel.

    By src g · gamma · r; by beta s; by gamma t · r; by the mean −s · gamma · r; by the variance −t · gamma · r³ / 2.
    """
    make, own = ctx.make, ctx.shape_of("variance").data_type  # the parameters', in which sums are made
    wide = make.cast(ctx.gradient, own)
    scaled = any(map(ctx.wants, ("src", "mean", "variance")))
    if scaled or ctx.wants("gamma"):
        inverse = _inverse_root(ctx, ctx.input("variance"))
        factor = make.multiply(inverse, ctx.input("gamma")) if scaled else inverse
        if ctx.wants("src"):
            yield "src", make.multiply(wide, _along(ctx, factor))
        if ctx.wants("mean"):
            yield "mean", make.negative(make.multiply(_per_channel(ctx, wide), factor))
        if ctx.wants("gamma") or ctx.wants("variance"):
            away = make.subtract(make.cast(ctx.input("src"), own), _along(ctx, ctx.input("mean")))
            product = _per_channel(ctx, make.multiply(wide, away))
            if ctx.wants("gamma"):
                yield "gamma", make.multiply(product, inverse)
            if ctx.wants("variance"):
                cube = make.multiply(make.op("Square", inverse), factor)
                yield "variance", make.scale(make.multiply(product, cube), -0.5)
    if ctx.wants("beta"):
        yield "beta", _per_channel(ctx, wide)


@rule("RMSNorm")
def rms_norm(ctx: GradientContext) -> Iterator[Made]:
    """With r = 1 / √(mean(src²) + epsilon) and h = g · gamma: by src r · (h − src · r² · mean(h · src)).

    By gamma Σ g · src · r over the axes that are not normalised.
    """
    make, rank = ctx.make, rank_of(ctx.shape_of("src"))
    first = ctx.op.attributes.integer("begin_norm_axis") % rank
    axes = list(range(first, rank))
    own = ctx.shape_of("gamma").data_type if ctx.has_input("gamma") else ctx.gradient.data_type
    src, gradient = make.cast(ctx.input("src"), own), make.cast(ctx.gradient, own)
    inverse = _inverse_root(ctx, make.op("ReduceMean", make.op("Square", src), axes=axes, keep_dims=True))
    normalised = make.multiply(src, inverse)
    if ctx.wants("src"):
        values = gradient
        if ctx.has_input("gamma"):
            shape = sizes(ctx.shape_of("gamma"))
            part = dims_of(ctx.shape_of("src"))[first:]
            scale = (
                ctx.input("gamma") if len(shape) == len(part) else make.reshape(ctx.input("gamma"), part, src)
            )
            values = make.multiply(gradient, scale)
        along = make.op("ReduceMean", make.multiply(values, normalised), axes=axes, keep_dims=True)
        rest = make.subtract(values, make.multiply(normalised, along))
        yield "src", make.multiply(rest, inverse)
    if ctx.has_input("gamma") and ctx.wants("gamma"):
        total = make.total(make.multiply(gradient, normalised), list(range(first)), keep=False)
        yield "gamma", make.reshape_like(total, ctx.shape_of("gamma"))
