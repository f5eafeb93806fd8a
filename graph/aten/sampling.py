"""ATen ops that find places by values, or put elements at places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ..importing.expressions import (
    FLOATS,
    HALVES,
    axis_of,
    binary,
    cast,
    concat,
    cut,
    expand,
    pad,
    reshape,
    take,
    transpose,
    unsqueeze,
)
from ..importing.hosted import TRUTH, extreme, gathered
from ..importing.sampling import log_sum_exp, sampled, scattered, top_k, triangle
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from ..model.logical_tensor import LogicalTensor
from .layers import max_pool, spread
from .places import put_where_true
from .schema import Translate

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""


REDUCTIONS = {"sum": "add", "add": "add", "prod": "mul", "multiply": "mul", "amax": "max", "amin": "min"}
"""torch's word → HostScatterElements'."""
NEUTRAL = {"add": 0.0, "mul": 1.0, "max": -math.inf, "min": math.inf}
"""What changes no result of a reduction, by HostScatterElements' word."""
MODES = ("linear", "nearest", "cubic")
BORDERS = ("zeros", "border", "reflection")


@OPS.enter("topk")
def _top_k(
    t: Translation, x: Value, count: int, axis: int = -1, largest: bool = True, in_order: bool = True
) -> Sequence[Value]:
    del in_order  # in order always
    if not shape_of(x):
        return [reshape(t, one, []) for one in top_k(t, reshape(t, x, [1]), count, 0, largest=largest)]
    return top_k(t, x, count, axis, largest=largest)


@OPS.enter("sort.default")
def _sort(t: Translation, x: Value, axis: int = -1, descending: bool = False) -> Sequence[Value]:
    return _top_k(t, x, sizes(x)[axis] if shape_of(x) else 1, axis, descending)


@OPS.enter("sort.stable")
def _stable_sort(
    t: Translation, x: Value, stable: bool | None = None, axis: int = -1, descending: bool = False
) -> Sequence[Value]:
    del stable
    return _sort(t, x, axis, descending)


@OPS.enter("scatter.src")
def _scatter(t: Translation, x: Value, axis: int, indices: Value, updates: Value) -> Value:
    return scattered(t, x, axis, indices, _part_for(t, updates, indices))


@OPS.enter("scatter.value")
def _scatter_value(t: Translation, x: Value, axis: int, indices: Value, value: float) -> Value:
    return scattered(t, x, axis, indices, np.full(sizes(indices), value, dtype_of(x)))


@OPS.enter("scatter_add")
def _scatter_add(t: Translation, x: Value, axis: int, indices: Value, updates: Value) -> Value:
    return scattered(t, x, axis, indices, _part_for(t, updates, indices), "add")


@OPS.enter("scatter_reduce.two")
def _scatter_reduce(
    t: Translation, x: Value, axis: int, indices: Value, updates: Value, reduction: str, with_own: bool = True
) -> Value:
    part = _part_for(t, updates, indices)
    own = dtype_of(x)
    if reduction == "mean":
        if own not in FLOATS or own in HALVES:
            raise Unmapped(f"a mean of {own}")
        total = _scatter_reduce(t, x, axis, indices, part, "sum", with_own)
        ones = np.ones(sizes(indices), own)
        counts = scattered(t, np.full(sizes(x), int(with_own), own), axis, indices, ones, "add")
        return binary(t, "Divide", total, counts if with_own else binary(t, "Maximum", counts, 1))
    if reduction not in REDUCTIONS:
        raise Unmapped(f"a reduction {reduction!r}")
    if not with_own:  # what changes nothing stands where something will be put
        if own not in FLOATS or own in HALVES:
            raise Unmapped(f"a reduction {reduction!r} of {own} that leaves out what was there")
        neutral = np.full(sizes(indices), NEUTRAL[REDUCTIONS[reduction]], own)
        x = scattered(t, x, axis, indices, neutral)
    return scattered(t, x, axis, indices, part, REDUCTIONS[reduction])


@OPS.enter("scatter.reduce")
def _scatter_by(t: Translation, x: Value, axis: int, indices: Value, updates: Value, reduction: str) -> Value:
    return _scatter_reduce(t, x, axis, indices, updates, reduction)


@OPS.enter("scatter.value_reduce")
def _scatter_value_by(
    t: Translation, x: Value, axis: int, indices: Value, value: float, reduction: str
) -> Value:
    return _scatter_reduce(t, x, axis, indices, np.full(sizes(indices), value, dtype_of(x)), reduction)


def _part_for(t: Translation, updates: Value, indices: Value) -> Value:
    """The elements that have an index: torch leaves out those beyond on any axis."""
    for axis, (have, count) in enumerate(zip(sizes(updates), sizes(indices), strict=True)):
        if have != count:
            updates = cut(t, updates, axis, 0, count)
    return updates


@OPS.enter("index_put")
def _index_put(
    t: Translation, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False
) -> Value:
    """Other parts, or sums, at places along neighbouring axes."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    found = [index for index in indices if index is not None]
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise Unmapped("indices of axes that are not neighbours")
    if len(found) == 1 and dtype_of(found[0]) == TRUTH:
        return put_where_true(t, x, axes[0], found[0], values, accumulate)
    if any(dtype_of(index) == TRUTH for index in found):
        raise Unmapped("a choice by truths, whose number of elements is known at execution only")
    shape, first = sizes(x), axes[0]
    whole = np.broadcast_shapes(*(sizes(index) for index in found))
    columns = [
        unsqueeze(t, expand(t, cast(t, index, np.dtype(np.int64)), whole), [len(whole)]) for index in found
    ]
    places = concat(t, columns, len(whole))
    behind = shape[first + len(axes) :]
    updates = expand(t, values, (*shape[:first], *whole, *behind))
    return t.op("HostScatterND", x, places, updates, axis=first, reduction="add" if accumulate else "none")


@OPS.enter("slice_scatter")
def _slice_scatter(
    t: Translation,
    x: Value,
    part: Value,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:
    """A tensor with another part: what is before, the part, and what is behind."""
    size = sizes(x)[axis]
    rows = range(size)[slice(start, end, step)]
    if len(rows) == size:
        return part
    if step != 1:
        places = np.asarray(rows).reshape([-1 if a == axis_of(x, axis) else 1 for a in range(len(sizes(x)))])
        return scattered(t, x, axis, np.array(np.broadcast_to(places, sizes(part))), part)
    if not rows:
        return x
    if any(x is one for one in t.graph.parameter_tensors):  # its memory can be written to
        places = np.arange(rows.start, rows.stop)[:, None]
        return t.op("HostScatterND", x, places, part, axis=axis_of(x, axis))
    around = [(0, rows.start), None, (rows.stop, size)]
    parts = [
        part if ends is None else cut(t, x, axis, *ends)
        for ends in around
        if ends is None or ends[0] < ends[1]
    ]
    return concat(t, parts, axis)


@OPS.enter("select_scatter")
def _select_scatter(t: Translation, x: Value, part: Value, axis: int, place: int | LogicalTensor) -> Value:
    """A tensor with another part of one row along the axis; its place may be known in a call only."""
    axis = axis_of(x, axis)
    if isinstance(place, LogicalTensor):
        row = unsqueeze(t, part, [axis])
        return t.op("HostScatterND", x, reshape(t, place, [1, 1]), row, axis=axis)
    row = place + sizes(x)[axis] if place < 0 else place
    return _slice_scatter(t, x, unsqueeze(t, part, [axis]), axis, row, row + 1)


@OPS.enter("diagonal", "diagonal_copy")
def _diagonal(t: Translation, x: Value, offset: int = 0, first: int = 0, second: int = 1) -> Value:
    """Every so many elements of the last two axes in one row."""
    order, shape = _with_last(x, first, second)
    rows = _of_diagonal(shape, offset)
    flat = reshape(t, transpose(t, x, order), (*shape[:-2], shape[-2] * shape[-1]))
    return cut(t, flat, -1, rows.start, rows.stop, rows.step)


@OPS.enter("diagonal_scatter")
def _diagonal_scatter(
    t: Translation, x: Value, part: Value, offset: int = 0, first: int = 0, second: int = 1
) -> Value:
    order, shape = _with_last(x, first, second)
    rows = _of_diagonal(shape, offset)
    if not rows:
        return x
    flat = reshape(t, transpose(t, x, order), (*shape[:-2], shape[-2] * shape[-1]))
    made = _slice_scatter(t, flat, part, len(shape) - 2, rows.start, rows.stop, rows.step)
    return transpose(t, reshape(t, made, shape), [order.index(axis) for axis in range(len(order))])


def _with_last(x: Value, first: int, second: int) -> tuple[list[int], tuple[int, ...]]:
    """An order of axes with these two at the end, and the shape in it."""
    first, second = axis_of(x, first), axis_of(x, second)
    order = [*(a for a in range(len(shape_of(x))) if a not in (first, second)), first, second]
    return order, tuple(sizes(x)[axis] for axis in order)


def _of_diagonal(shape: Sequence[int], offset: int) -> range:
    """Which elements of the last two axes, in one row, a diagonal has."""
    rows, columns = shape[-2:]
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    start = offset if offset >= 0 else -offset * columns
    return range(start, start + (count - 1) * (columns + 1) + 1 if count else start, columns + 1)


@OPS.enter("unfold.default")
def _windows(t: Translation, x: Value, axis: int, size: int, step: int) -> Value:
    """Windows along an axis, their elements along a new last one."""
    axis = axis_of(x, axis)
    count = (sizes(x)[axis] - size) // step + 1
    found = take(t, x, axis, np.arange(count)[:, None] * step + np.arange(size))
    rank = len(shape_of(x))
    return transpose(t, found, [*(a for a in range(rank + 1) if a != axis + 1), axis + 1])


def _pooled_with_places(
    t: Translation,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil: bool = False,
    *,
    count: int,
) -> list[Value]:
    """A max pooling, and where in its image each of the largest elements is, the first of several."""
    made = max_pool(t, x, kernel, stride, padding, dilation, ceil, count=count)
    window, pads, apart = (spread(one, count) for one in (kernel, padding, dilation))
    steps = spread(stride or window, count)
    have, wanted = sizes(x)[-count:], sizes(made)[-count:]
    lead = len(sizes(x)) - count
    reaches = [
        (number - 1) * step + gap * (taps - 1) + 1
        for number, step, gap, taps in zip(wanted, steps, apart, window, strict=True)
    ]
    after = [max(0, far - size - first) for far, size, first in zip(reaches, have, pads, strict=True)]
    found = pad(t, x, [*[0] * lead, *pads], [*[0] * lead, *after], -math.inf)
    for number in range(count):
        taps = np.arange(window[number]) * apart[number]
        found = take(t, found, lead + 2 * number, np.arange(wanted[number])[:, None] * steps[number] + taps)
    outer = range(lead, lead + 2 * count, 2)
    found = transpose(t, found, [*range(lead), *outer, *(axis + 1 for axis in outer)])
    found = reshape(t, found, [*sizes(found)[: lead + count], math.prod(window)])
    tap = extreme(t, "ArgMax", found, -1, keep=False)
    place: Value = np.zeros((), np.int64)
    for number, of_taps in enumerate(np.indices(window).reshape(count, -1)):
        row = [-1 if axis == number else 1 for axis in range(count)]
        first = (np.arange(wanted[number]) * steps[number] - pads[number]).reshape(row)
        at = binary(t, "Add", take(t, of_taps * apart[number], 0, tap), first)
        if pads[number]:  # where all of a window is minus infinity, its first element is meant, no padding
            at = binary(t, "Maximum", at, 0)
        place = at if number == 0 else binary(t, "Add", binary(t, "Multiply", place, have[number]), at)
    return [made, place]


OPS.add({f"max_pool{n}d_with_indices": partial(_pooled_with_places, count=n) for n in (1, 2, 3)})


@OPS.enter("copy")
def _copy(t: Translation, x: Value, other: Value, *_: object) -> Value:
    return expand(t, cast(t, other, dtype_of(x)), sizes(x))


@OPS.enter("grid_sampler_2d", "grid_sampler_3d", "grid_sampler")
def _grid_sampler(t: Translation, x: Value, grid: Value, mode: int, border: int, corners: bool) -> Value:
    return sampled(t, x, grid, MODES[mode], BORDERS[border], corners)


def _extreme_along(
    t: Translation, x: Value, axis: int, keep: bool = False, *, largest: bool
) -> Sequence[Value]:
    """The largest or smallest element along an axis, and where it is; NaN is both."""
    if not shape_of(x):
        return [reshape(t, one, []) for one in _extreme_along(t, reshape(t, x, [1]), 0, largest=largest)]
    numbers = cast(t, x, np.dtype(np.uint8)) if dtype_of(x) == TRUTH else x
    place = extreme(t, "ArgMax" if largest else "ArgMin", numbers, axis, keep=True)
    made = gathered(t, x, axis, place), place
    shape = [d for a, d in enumerate(shape_of(x)) if a != axis_of(x, axis)]
    return made if keep else [reshape(t, one, shape) for one in made]


OPS.add(
    {
        "logsumexp": log_sum_exp,
        "tril": partial(triangle, upper=False),
        "triu": partial(triangle, upper=True),
        "max.dim": partial(_extreme_along, largest=True),
        "min.dim": partial(_extreme_along, largest=False),
    }
)
