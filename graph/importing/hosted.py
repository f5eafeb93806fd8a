"""What the importers' tables are made of where oneDNN Graph has no op: ops on the host, for whole models to run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..runtime.arrays import Array
from .expressions import FLOATS, Operand, axis_of, cast, concat, expand, operands, reshape, unsqueeze
from .translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes

TRUTH = np.dtype(np.bool_)


def compared(t: Translation, kind: str, a: Operand, b: Operand) -> Value:
    """A comparison; the smaller ones are the larger ones with their operands exchanged."""
    opposite = {"Less": "Greater", "LessEqual": "GreaterEqual"}
    if kind in opposite:
        kind, a, b = opposite[kind], b, a
    first, second = operands(t, a, b)
    return t.op("GreaterEqual" if kind == "GreaterEqual" else f"Host{kind}", first, second)


def logical(t: Translation, kind: str, a: Operand, b: Operand) -> Value:
    """And, Or, Xor: of truths, or of the bits of integers."""
    first, second = operands(t, a, b)
    if dtype_of(first) in FLOATS:
        raise Unmapped(f"{kind.lower()} of {dtype_of(first)}")
    return t.op(f"Host{kind}", first, second)


def any_of(t: Translation, x: Value, axes: Sequence[int], keep: bool, *, every: bool) -> Value:
    """Whether one element, or every one, is true along axes; all axes if none is given."""
    if not shape_of(x):
        return cast(t, x, TRUTH)
    counted = sorted({axis_of(x, axis) for axis in axes}) or list(range(len(shape_of(x))))
    if any(shape_of(x)[axis] == 0 for axis in counted):
        kept = [1 if axis in counted else d for axis, d in enumerate(sizes(x)) if keep or axis not in counted]
        return np.full(kept, every)
    bits = cast(t, cast(t, x, TRUTH), np.dtype(np.uint8))
    found = t.op("HostReduceMin" if every else "HostReduceMax", bits, axes=counted, keep_dims=keep)
    return cast(t, found, TRUTH)


def gathered(t: Translation, x: Value, axis: int, indices: Value) -> Value:
    """Elements whose place along an axis an index says."""
    return t.op("HostGatherElements", x, indices, axis=axis_of(x, axis))


def indexed(t: Translation, x: Value, indices: Sequence[Value | None]) -> Value:
    """`x[indices]` as NumPy has it, with integers or nothing for each axis."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    found = [index for index in indices if index is not None]
    if any(dtype_of(index) == TRUTH for index in found):
        raise Unmapped("a choice by truths, whose number of elements is known at execution only")
    kept = _all_in_order(x, axes, found)
    if kept is not None:
        return reshape(t, x, kept)
    if len(found) == 1:
        return t.op("HostGather", x, found[0], axis=axes[0])
    whole = np.broadcast_shapes(*(sizes(index) for index in found))
    columns = [unsqueeze(t, expand(t, index, whole), [len(whole)]) for index in found]
    places = concat(t, [cast(t, column, np.dtype(np.int64)) for column in columns], len(whole))
    rank = len(shape_of(x))
    order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
    made = t.op(
        "HostGatherND", x if order == list(range(rank)) else t.op("StaticTranspose", x, order=order), places
    )
    if not axes[0] or axes != list(range(axes[0], axes[0] + len(axes))):
        return made
    # The axes before those that are indexed come first again.
    front = [len(whole) + axis for axis in range(axes[0])]
    behind = range(len(whole) + axes[0], len(shape_of(made)))
    return t.op("StaticTranspose", made, order=[*front, *range(len(whole)), *behind])


def _all_in_order(x: Value, axes: Sequence[int], indices: Sequence[Value]) -> tuple[int, ...] | None:
    """The shape of what indices take, where that is every element in its order, as of `x[arange(rows)[:, None], …]`."""
    shape, first, behind = shape_of(x), axes[0], axes[0] + len(axes)
    if list(axes) != list(range(first, behind)) or min(shape, default=0) < 1:
        return None
    places = [index for index in indices if isinstance(index, np.ndarray)]
    taken = shape[first:behind]
    if len(places) < len(axes) or np.broadcast(*places).size != math.prod(taken):
        return None
    counted = [np.where(place < 0, place + size, place) for place, size in zip(places, taken, strict=True)]
    if any(place.min() < 0 or place.max() >= size for place, size in zip(counted, taken, strict=True)):
        return None
    whole = np.broadcast(*counted).shape
    order = np.ravel_multi_index(tuple(np.broadcast_arrays(*counted)), taken).reshape(-1)
    return (*shape[:first], *whole, *shape[behind:]) if np.array_equal(order, np.arange(order.size)) else None


def cumulative(
    t: Translation, x: Value, axis: int, *, exclusive: bool = False, reverse: bool = False
) -> Value:
    """Sums of all elements up to each one."""
    wanted = cast(t, x, np.dtype(np.int64)) if dtype_of(x) == TRUTH else x
    return t.op("HostCumSum", wanted, axis=axis_of(x, axis), exclusive=exclusive, reverse=reverse)


def extreme(
    t: Translation, kind: str, x: Value, axis: int | None, keep: bool, *, last: bool = False
) -> Value:
    """Where the largest or smallest element is, by `ArgMax` or `ArgMin`; of all elements if no axis is given.

    In s64 whatever x is: indices have that type in other frameworks.
    """
    if axis is None:
        flat = reshape(t, x, [-1])
        found = t.op(f"Host{kind}", flat, axis=0, keep_dims=False, last=last, output_type="s64")
        return reshape(t, found, [1] * len(shape_of(x))) if keep else found
    return t.op(f"Host{kind}", x, axis=axis_of(x, axis), keep_dims=keep, last=last, output_type="s64")


def bordered(t: Translation, x: Value, begin: Sequence[int], end: Sequence[int], mode: str) -> Value:
    """A tensor with itself around it: its outermost element, or mirrored, or repeated."""
    if min((*begin, *end), default=0) < 0:
        raise Unmapped(f"pads of {list(begin)} and {list(end)} with mode {mode!r}; they must not be negative")
    return t.op("HostPad", x, pads_begin=list(begin), pads_end=list(end), mode=mode)


def take_along(data: Array, indices: Array, axis: int) -> Array:
    """What `gathered` is of constants."""
    axis %= data.ndim
    part = tuple(slice(None) if a == axis else slice(0, d) for a, d in enumerate(indices.shape))
    return np.take_along_axis(data[part], indices, axis)
