"""The gradient of what a grid samples, of ops that have gradients themselves: looked up, weighted and put back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from ...ops.data_types import DataType
from ...ops.records import frozen
from ..model.logical_tensor import LogicalTensor
from .arithmetic import Arithmetic, sizes
from .context import GradientContext
from .rules import Made, rule

_CUBIC = -0.75
"""The parameter of cubic convolution."""
_POWERS = {
    True: (_CUBIC + 2, -(_CUBIC + 3), 0.0, 1.0),
    False: (_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC),
}
"""Whether an element is one of the two that are near → its weight by its distance, from the highest power on."""
_HALVES = (DataType.f16, DataType.bf16)


@frozen
class _Tap:
    """One of the elements of an axis that each place is made of, in a column."""

    place: LogicalTensor
    """Which one, in s64; one that is there."""
    weight: LogicalTensor | None
    """What it counts, 0 where there is none; where that is wanted."""
    slope: LogicalTensor | None
    """The derivative of the weight by the coordinate, where that is wanted."""


@rule("HostGridSample")
def grid_sample(ctx: GradientContext) -> Iterator[Made]:
    """Back to the elements what each counted, and to the coordinates how that changes with them."""
    sloped = ctx.wants("grid") and ctx.op.attributes.string("mode") != "nearest"
    if ctx.wants("grid") and not sloped:
        grid = ctx.input("grid")
        yield "grid", ctx.make.expand(ctx.make.number(0, grid), grid)
    if not sloped and not ctx.wants("src"):
        return
    make, shape, places = ctx.make, sizes(ctx.shape_of("src")), sizes(ctx.shape_of("grid"))[1:-1]
    batch, channels, *spatial = shape
    rank, count = len(spatial), math.prod(places)
    own = ctx.gradient.data_type
    wide = DataType.f32 if own in _HALVES else own
    above = make.transpose(make.cast(ctx.gradient, wide), [0, *range(2, rank + 2), 1])
    above = _reshaped(make, above, [batch * count, channels])
    order = [0, *range(2, rank + 2), 1]
    rows = [batch * math.prod(spatial), channels]
    src = None
    if sloped:
        src = _reshaped(make, make.transpose(make.cast(ctx.input("src"), wide), order), rows)
    grid = _reshaped(make, make.cast(ctx.input("grid"), wide), [batch * count, rank])
    # The coordinates of one place begin with the last axis.
    weighed = ctx.wants("src") or rank > 1
    axes = [
        _taps(ctx, _column(make, grid, rank - 1 - axis), size, weighed=weighed, sloped=sloped)
        for axis, size in enumerate(spatial)
    ]
    images = np.repeat(np.arange(batch), count)[:, None]
    by_src: LogicalTensor | None = None
    by_grid: list[LogicalTensor | None] = [None] * rank
    for taps in itertools.product(*axes):
        number = make.graph.constant(images)
        for tap, size in zip(taps, spatial, strict=True):
            stride = make.graph.constant(np.asarray(size))
            number = make.op("HostAdd", make.op("HostMultiply", number, stride), tap.place)
        index = _reshaped(make, number, [batch * count])
        if ctx.wants("src"):
            counted = above
            for tap in taps:
                counted = counted if tap.weight is None else make.multiply(counted, tap.weight)
            part = make.op("HostGatherBackward", counted, index, axis=0, src_shape=rows)
            by_src = part if by_src is None else make.add(by_src, part)
        if src is None:
            continue
        together = make.total(make.multiply(make.op("HostGather", src, index, axis=0), above), [1])
        for axis in range(rank):
            slope = together
            for place, tap in enumerate(taps):
                factor = tap.slope if place == axis else tap.weight
                slope = slope if factor is None else make.multiply(slope, factor)
            before = by_grid[rank - 1 - axis]
            by_grid[rank - 1 - axis] = slope if before is None else make.add(before, slope)
    if by_src is not None:
        lying = _reshaped(make, by_src, [batch, *spatial, channels])
        yield "src", make.cast(make.transpose(lying, [0, rank + 1, *range(1, rank + 1)]), own)
    columns = [column for column in by_grid if column is not None]
    if columns:
        joined = make.op("Concat", *columns, axis=1) if rank > 1 else columns[0]
        yield "grid", make.cast(_reshaped(make, joined, [batch, *places, rank]), own)


def _reshaped(make: Arithmetic, x: LogicalTensor, shape: list[int]) -> LogicalTensor:
    """Elements under another shape, whatever they are."""
    return make.op("HostReshape", x, shape=shape, special_zero=False)


def _column(make: Arithmetic, grid: LogicalTensor, number: int) -> LogicalTensor:
    return make.op("HostSlice", grid, axes=[1], starts=[number], stops=[number + 1], steps=[1])


def _taps(
    ctx: GradientContext, coordinate: LogicalTensor, size: int, *, weighed: bool, sloped: bool
) -> list[_Tap]:
    """The elements of an axis that coordinates from −1 to 1 lie between."""
    make, a = ctx.make, ctx.op.attributes
    corners, border, mode = a.flag("align_corners"), a.string("padding_mode"), a.string("mode")
    factor, edge = ((size - 1) / 2, (size - 1) / 2) if corners else (size / 2, (size - 1) / 2)
    at = make.add(make.scale(coordinate, factor), make.number(edge, coordinate))

    def tap(
        place: LogicalTensor, weight: Callable[[], LogicalTensor], slope: Callable[[], LogicalTensor]
    ) -> _Tap:
        zero = make.number(0, place)
        inside = make.op(
            "HostAnd",
            make.op("HostGreaterEqual", place, zero),
            make.op("HostGreater", make.number(size, place), place),
        )
        return _Tap(
            make.op("HostCast", make.choose(inside, place, zero), wanted=DataType.s64),
            make.choose(inside, weight(), zero) if weighed else None,
            make.choose(inside, slope(), zero) if sloped else None,
        )

    if mode == "cubic":  # what is beyond is another element, and weighs as it would there
        low = make.op("HostFloor", at)
        taps: list[_Tap] = []
        for step in (-1, 0, 1, 2):
            place = make.add(low, make.number(step, low))
            apart = make.subtract(place, at)
            x, turn = (apart, -1.0) if step > 0 else (make.negative(apart), 1.0)
            powers = _POWERS[step in (0, 1)]
            slopes = [p * turn * factor * power for p, power in zip(powers, (3, 2, 1), strict=False)]
            taps.append(
                tap(
                    make.op("Round", _placed(make, place, size, corners, border)),
                    partial(_polynomial, make, x, powers),
                    partial(_polynomial, make, x, slopes),
                )
            )
        return taps
    there = _placed(make, at, size, corners, border)
    one = make.number(1, there)
    if mode == "nearest":
        ones = partial(make.expand, one, there)
        return [tap(make.op("Round", there), ones, ones)]
    low = make.op("HostFloor", there)
    part = make.subtract(there, low) if weighed else one
    up = make.scale(_turn(make, at, size, corners, border), factor) if sloped else one
    return [
        tap(low, lambda: make.subtract(one, part), lambda: make.negative(up)),
        tap(make.add(low, one), lambda: part, lambda: up),
    ]


def _placed(make: Arithmetic, at: LogicalTensor, size: int, corners: bool, border: str) -> LogicalTensor:
    """Places, counted in elements of an axis, with what the border makes of those beyond."""
    if border == "reflection":
        at = _mirrored(make, at, size, corners)
    return at if border == "zeros" else make.op("Clamp", at, min=0.0, max=float(size - 1))


def _turn(make: Arithmetic, at: LogicalTensor, size: int, corners: bool, border: str) -> LogicalTensor:
    """The derivative of a place by what it was before the border was looked at: 1, −1 or 0."""
    turn, zero = make.expand(make.number(1, at), at), make.number(0, at)
    if border == "zeros":
        return turn
    if border == "reflection":
        low, span = _mirrors(size, corners)
        if span:
            turn = make.choose(_returning(make, at, low, span), make.negative(turn), turn)
        at = _mirrored(make, at, size, corners)
    inner = make.op(
        "HostAnd",
        make.op("HostGreater", at, zero),
        make.op("HostGreater", make.number(size - 1, at), at),
    )
    return make.choose(inner, turn, zero)


def _mirrored(make: Arithmetic, at: LogicalTensor, size: int, corners: bool) -> LogicalTensor:
    """Places between the two mirrors of an axis."""
    low, span = _mirrors(size, corners)
    if span == 0:
        return make.scale(at, 0)
    there = _on_the_way(make, at, low, span)
    back = make.subtract(make.number(2 * span, at), there)
    return make.add(make.op("Minimum", there, back), make.number(low, at))


def _returning(make: Arithmetic, at: LogicalTensor, low: float, span: float) -> LogicalTensor:
    """Whether what is seen at a place runs back."""
    below = make.op("HostGreater", make.number(low, at), at)
    back = make.at_least(_on_the_way(make, at, low, span), make.number(span, at))
    return make.op("HostXor", below, back)


def _mirrors(size: int, corners: bool) -> tuple[float, float]:
    """Where the first mirror of an axis stands, and how far it is to the second one."""
    return (0.0, size - 1.0) if corners else (-0.5, float(size))


def _on_the_way(make: Arithmetic, at: LogicalTensor, low: float, span: float) -> LogicalTensor:
    """How far a place is on the way from the first mirror to the second one and back."""
    apart = make.op("Abs", make.subtract(at, make.number(low, at)))
    return make.op("HostModulo", apart, make.number(2 * span, at))


def _polynomial(make: Arithmetic, x: LogicalTensor, powers: Sequence[float]) -> LogicalTensor:
    """From the highest power on."""
    made = make.scale(x, powers[0])
    for factor in powers[1:-1]:
        made = make.multiply(make.add(made, make.number(factor, x)), x)
    return make.add(made, make.number(powers[-1], x))
