"""Gradients of the movement family: elements go back where they came from."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.movement import permutation
from .arithmetic import rank_of, sizes
from .context import GradientContext
from .rules import STOPS, Made, rule

STOPS.update(("End", "GenIndex"))


@rule("StaticReshape", "HostReshape")
def reshape(ctx: GradientContext) -> Iterator[Made]:
    """The shape before."""
    yield "src", ctx.make.reshape_like(ctx.gradient, ctx.shape_of("src"))


@rule("StaticTranspose", "HostTranspose")
def transpose(ctx: GradientContext) -> Iterator[Made]:
    """The order before."""
    order = permutation(ctx.op.attributes, rank_of(ctx.shape_of("src"))) or ()
    yield "src", ctx.make.transpose(ctx.gradient, [order.index(axis) for axis in range(len(order))])


@rule("Reorder", "TypeCast", "HostCast", spread=True)
def same_numbers(ctx: GradientContext) -> Iterator[Made]:
    """The gradient itself, in the type of the input."""
    yield "src", ctx.gradient


@rule("Wildcard", every_output=True)
def wildcard(ctx: GradientContext) -> Iterator[Made]:
    """It passes its inputs on, one to one."""
    for place, (tensor, result) in enumerate(zip(ctx.op.inputs, ctx.op.outputs, strict=False)):
        if tensor.shape != result.shape:
            raise ctx.error("it has a gradient only where it passes on what it takes, and the shapes differ")
        if ctx.wants(place):
            yield place, ctx.gradients[place]


@rule("Concat", "HostConcat")
def concat(ctx: GradientContext) -> Iterator[Made]:
    """Each part its part."""
    axis = ctx.op.attributes.integer("axis") % rank_of(ctx.op.outputs[0])
    start = 0
    for place, tensor in enumerate(ctx.op.inputs):
        stop = start + sizes(tensor)[axis]
        if ctx.wants(place):
            yield (
                place,
                ctx.make.op("HostSlice", ctx.gradient, axes=[axis], starts=[start], stops=[stop], steps=[1]),
            )
        start = stop
