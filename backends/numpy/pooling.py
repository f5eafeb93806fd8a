"""NumPy kernels of the pooling family: a loop over the elements of a window, each a strided slice of the data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.pooling import PoolingAttributes, Windows, pooling_attributes, windows, windows_between
from ...ops.records import frozen
from ...ops.spatial import reached
from .kernels import Array, kernel, store, wide


@frozen
class _Tap:
    """One element of the windows: which windows have it inside the data, and where it lies there."""

    windows: tuple[slice, ...]
    source: tuple[slice, ...]


def _attributes(op: Op, inputs: Sequence[Array]) -> PoolingAttributes:
    return pooling_attributes(op.attributes, inputs[0].ndim - 2)


def _canonical(pooling: PoolingAttributes, array: Array) -> Array:
    """The array as (N, C, X), a view."""
    window = pooling.window
    return array.transpose(window.batch_axis, window.channel_axis, *window.spatial_axes)


def _taps(w: Windows) -> Iterator[_Tap]:
    every = (slice(None), slice(None))
    for tap in itertools.product(*w.reaching):
        positions: list[slice] = []
        source: list[slice] = []
        for axis, k in enumerate(tap):
            offset = k * w.dilations[axis] - w.pads_begin[axis]
            size = w.src[axis] + min(0, w.pads_end[axis])
            found = reached(slice(0, w.dst[axis]), w.strides[axis], offset, size)
            if found is None:
                break
            positions.append(found[0])
            source.append(found[1])
        else:
            yield _Tap((*every, *positions), (*every, *source))


def _counts(pooling: PoolingAttributes, w: Windows, like: Array) -> Array:
    """How many elements each average has: those inside, or the whole window."""
    if pooling.exclude_pad:
        counts = np.ones((1, 1, *w.src), like.dtype)
        for one in w.axis_by_axis():
            inside = np.zeros((1, 1, *one.dst), like.dtype)
            for tap in _taps(one):
                inside[tap.windows] += counts[tap.source]
            counts = inside
        return counts
    return np.full((1, 1, *[1] * len(w.dst)), math.prod(map(float, w.kernel)), like.dtype)


@kernel("AvgPool")
def average(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = Σ window / count."""
    pooling = _attributes(op, inputs)
    src = _canonical(pooling, wide(inputs[0]))
    w = windows(pooling, src.shape[2:])
    total = src
    for one in w.axis_by_axis():
        sums = np.zeros((*src.shape[:2], *one.dst))
        for tap in _taps(one):
            sums[tap.windows] += total[tap.source]
        total = sums
    with np.errstate(all="ignore"):
        store(_canonical(pooling, outputs[0]), total / _counts(pooling, w, src))


@kernel("AvgPoolBackward")
def average_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst / count at each element of a window."""
    pooling = _attributes(op, inputs)
    diff_dst, diff_src = _canonical(pooling, wide(inputs[0])), _canonical(pooling, outputs[0])
    w = windows_between(pooling, diff_src.shape[2:], diff_dst.shape[2:])
    with np.errstate(all="ignore"):
        share = diff_dst / _counts(pooling, w, diff_dst)
    total = np.zeros(diff_src.shape)
    for tap in _taps(w):
        total[tap.source] += share[tap.windows]
    store(diff_src, total)


def _largest(w: Windows, src: Array) -> tuple[Array, Array]:
    """The largest element of each window, and the number of the tap that has it first; -1 for none."""
    best = np.full((*src.shape[:2], *w.dst), -np.inf, src.dtype)
    where = np.full(best.shape, -1, np.int32)
    for number, tap in enumerate(_taps(w)):
        value, so_far = src[tap.source], best[tap.windows]
        better = (value > so_far) | (where[tap.windows] < 0) | (np.isnan(value) & ~np.isnan(so_far))
        so_far[better] = value[better]
        where[tap.windows][better] = number
    return best, where


@kernel("MaxPool")
def largest(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = max of each window."""
    pooling = _attributes(op, inputs)
    src = _canonical(pooling, wide(inputs[0]))
    w = windows(pooling, src.shape[2:])
    best = np.full((*src.shape[:2], *w.dst), -np.inf, src.dtype)
    for tap in _taps(w):
        np.maximum(best[tap.windows], src[tap.source], out=best[tap.windows])
    store(_canonical(pooling, outputs[0]), best)


@kernel("MaxPoolBackward")
def largest_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst at the first largest element of each window."""
    pooling = _attributes(op, inputs)
    src, diff_dst = (_canonical(pooling, wide(array)) for array in inputs)
    w = windows_between(pooling, src.shape[2:], diff_dst.shape[2:])
    _, where = _largest(w, src)
    total = np.zeros(src.shape)
    for number, tap in enumerate(_taps(w)):
        total[tap.source] += np.where(where[tap.windows] == number, diff_dst[tap.windows], 0)
    store(_canonical(pooling, outputs[0]), total)


@kernel("HostMaxPoolGather")
def at_largest(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = values at the first largest element of each window."""
    pooling = _attributes(op, inputs)
    src, values = (_canonical(pooling, wide(array)) for array in inputs)
    w = windows(pooling, src.shape[2:])
    _, where = _largest(w, src)
    found = np.zeros(where.shape, values.dtype)
    for number, tap in enumerate(_taps(w)):
        np.copyto(found[tap.windows], values[tap.source], where=where[tap.windows] == number)
    store(_canonical(pooling, outputs[0]), found)
