"""Gradients of the reduction family: one value goes back to all elements that it came from."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.schema import UNKNOWN_DIM
from ..model.logical_tensor import LogicalTensor
from .arithmetic import Arithmetic, count, dims_of, rank_of
from .context import GradientContext
from .rules import Made, rule


def reduced(ctx: GradientContext) -> tuple[int, ...]:
    """The axes, counted from the front.

    Raises:
        UnsupportedError: they are an input whose value is known only at execution.
    """
    axes = ctx.op.attributes.integers("axes")
    if ctx.has_input("axes"):
        held = ctx.make.graph.held_constants.get(ctx.op.inputs[1].id)
        if held is None:
            raise ctx.error(
                "its gradient needs the value of 'axes'; give the attribute or a constant of the graph"
            )
        axes = tuple(int(axis) for axis in held)
    rank = rank_of(ctx.shape_of("src"))
    return tuple(axis % rank for axis in axes)


def kept(ctx: GradientContext, tensor: LogicalTensor) -> LogicalTensor:
    """A reduced tensor with one element along each reduced axis."""
    axes = reduced(ctx)
    if ctx.op.attributes.flag("keep_dims") or not axes:
        return tensor
    have = dims_of(ctx.shape_of("src"))
    shape = [1 if axis in axes else size for axis, size in enumerate(have)]
    if shape.count(UNKNOWN_DIM) > 1:
        # Zeros stand for the sizes that are there, so the axes of one element come behind them first.
        left = [axis for axis in range(len(have)) if axis not in axes]
        ones = [*[0] * len(left), *[1] * len(axes)]
        last = ctx.make.op("StaticReshape", tensor, shape=ones, special_zero=True)
        places = [*left, *sorted(axes)]
        return ctx.make.transpose(last, [places.index(axis) for axis in range(len(have))])
    return ctx.make.reshape(tensor, shape, ctx.shape_of("src"))


@rule("ReduceSum")
def sum_(ctx: GradientContext) -> Iterator[Made]:
    """The gradient itself, for each element."""
    yield "src", kept(ctx, ctx.gradient)


@rule("ReduceMean")
def mean(ctx: GradientContext) -> Iterator[Made]:
    """Shared out evenly."""
    src, axes = ctx.shape_of("src"), reduced(ctx)
    elements = count(dims_of(src), axes)
    gradient = kept(ctx, ctx.gradient)
    if all(dims_of(src)[axis] != UNKNOWN_DIM for axis in axes):
        yield "src", ctx.make.scale(gradient, 1 / elements if elements else 0)
    else:
        ones = ctx.make.expand(ctx.make.number(1, gradient), src)
        yield "src", ctx.make.divide(gradient, ctx.make.total(ones, axes))


@rule("ReduceMax", "ReduceMin")
def extreme(ctx: GradientContext) -> Iterator[Made]:
    """To the elements that are the result, evenly where there are several."""
    make, src, result = ctx.make, ctx.input("src"), kept(ctx, ctx.output())
    largest = ctx.op.kind == "ReduceMax"
    one, zero = make.number(1, src), make.number(0, src)
    at = make.choose(make.at_least(src, result) if largest else make.at_least(result, src), one, zero)
    share = make.divide(kept(ctx, ctx.gradient), make.total(at, reduced(ctx)))
    yield "src", make.multiply(at, share)


@rule("ReduceProd")
def product(ctx: GradientContext) -> Iterator[Made]:
    """The product of the other elements; made of products alone, it has derivatives of its own also at zeros."""
    make, src, axes = ctx.make, ctx.input("src"), reduced(ctx)
    shape = dims_of(src)
    gradient = kept(ctx, ctx.gradient)
    if any(shape[axis] == UNKNOWN_DIM for axis in axes):
        yield "src", _by_quotients(ctx, src, axes, gradient)
        return
    if count(shape, axes) == 1:
        yield "src", gradient
        return
    order = [axis for axis in range(len(shape)) if axis not in axes]
    lead = [shape[axis] for axis in order]
    moved = make.transpose(src, [*order, *axes])
    row = make.reshape(moved, [*lead, count(shape, axes)], src)
    back = make.reshape(_others(make, row), [*lead, *(shape[axis] for axis in axes)], src)
    inverse = [[*order, *axes].index(axis) for axis in range(len(shape))]
    yield "src", make.multiply(make.transpose(back, inverse), gradient)


def _others(make: Arithmetic, row: LogicalTensor) -> LogicalTensor:
    """For each element along the last axis the product of the others there, by halves."""
    axis, size = rank_of(row) - 1, dims_of(row)[-1]
    if size < 2:
        return make.expand(make.number(1, row), row)

    def part(tensor: LogicalTensor, start: int, stop: int) -> LogicalTensor:
        return make.op("HostSlice", tensor, axes=[axis], starts=[start], stops=[stop], steps=[1])

    half = size // 2
    first, second = part(row, 0, half), part(row, half, 2 * half)
    if size == 2:
        return make.op("Concat", second, first, axis=axis)
    pairs = make.multiply(first, second)
    odd = [part(row, 2 * half, size)] if size % 2 else []
    others = _others(make, make.op("Concat", pairs, *odd, axis=axis) if odd else pairs)
    of_pairs = part(others, 0, half) if odd else others
    rest = [part(others, half, half + 1)] if odd else []
    products = (make.multiply(of_pairs, second), make.multiply(of_pairs, first))
    return make.op("Concat", *products, *rest, axis=axis)


def _by_quotients(
    ctx: GradientContext, src: LogicalTensor, axes: tuple[int, ...], gradient: LogicalTensor
) -> LogicalTensor:
    """The same of any number: none where another one is zero, and else without dividing by zero."""
    make = ctx.make
    one, zero = make.number(1, src), make.number(0, src)
    size = make.op("Abs", src)
    zeros = make.choose(make.at_least(zero, size), one, zero)
    elsewhere = make.subtract(make.total(zeros, axes), zeros)
    nonzero = make.add(src, zeros)  # with ones in the place of zeros
    others = make.divide(
        make.op("ReduceProd", nonzero, axes=list(axes), keep_dims=True) if axes else nonzero, nonzero
    )
    return make.choose(make.at_least(zero, elsewhere), make.multiply(others, gradient), zero)


@rule("ReduceL1")
def l1(ctx: GradientContext) -> Iterator[Made]:
    """The sign, 0 at zero."""
    src = ctx.input("src")
    yield "src", ctx.make.op("AbsBackward", src, ctx.make.expand(kept(ctx, ctx.gradient), src))


@rule("ReduceL2")
def l2(ctx: GradientContext) -> Iterator[Made]:
    """Src / dst; zeros where all elements are zero."""
    make, src, norm = ctx.make, ctx.input("src"), kept(ctx, ctx.output())
    safe = make.choose(make.at_least(make.number(0, norm), norm), make.number(1, norm), norm)
    yield "src", make.multiply(src, make.divide(kept(ctx, ctx.gradient), safe))
