"""ATen ops in ops of oneDNN Graph: images and rows of other sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..importing.expressions import HALVES, binary, cast, take
from ..importing.layers import interpolate, nearest_agrees
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, sizes
from ..runtime.arrays import Array
from .schema import Translate

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""


def distance(size: int, wanted: int, scale: float | None) -> np.float32:
    """How far apart torch's coordinates of neighbours are: in single precision, and by the scale where one is given."""
    if scale is not None and scale > 0:
        return np.float32(1 / scale)
    return np.float32(size) / np.float32(wanted)


def by_sizes(size: int, wanted: int, scale: float | None) -> bool:
    """Whether the coordinates of a linear resizing are those that the sizes alone give, as Interpolate has them."""
    return size == wanted or distance(size, wanted, scale) == distance(size, wanted, None)


def nearest_places(size: int, wanted: int, scale: float | None) -> Array:
    """Which elements torch takes as the nearest: rounded in single precision, so that of 2 for 82 number 41 is 0."""
    at = np.arange(wanted, dtype=np.float32) * distance(size, wanted, scale)
    return np.minimum(np.floor(at).astype(np.int64), size - 1)


def _wanted(
    x: Value, given: Sequence[int] | None, scales: Sequence[float | None] | None
) -> tuple[list[int], list[float | None]]:
    """Spatial sizes of the output, and the scale of each axis or None."""
    have = sizes(x)[2:]
    factors = list(scales or [None] * len(have))
    if given:
        return list(given), factors
    return [math.floor(d * (s or 1.0)) for d, s in zip(have, factors, strict=True)], factors


def _along(t: Translation, x: Value, axis: int, wanted: int, scale: float) -> Value:
    """One axis between neighbours, at coordinates that a scale says: it leaves a part of an element over."""
    size = sizes(x)[axis]
    apart = distance(size, wanted, scale)
    half = np.float32(0.5)
    at = np.maximum((np.arange(wanted, dtype=np.float32) + half) * apart - half, 0)
    before = np.minimum(np.floor(at).astype(np.int64), size - 1)
    behind = np.minimum(before + 1, size - 1)
    share = np.clip(at - before.astype(np.float32), 0, 1)
    column = [-1 if a == axis else 1 for a in range(len(sizes(x)))]
    own = dtype_of(x)
    parts = [
        binary(t, "Multiply", take(t, x, axis, places), weights.reshape(column).astype(own))
        for places, weights in ((before, 1 - share), (behind, share))
    ]
    return binary(t, "Add", *parts)


@OPS.enter("upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec")
def _nearest(
    t: Translation, x: Value, given: Sequence[int] | None, scales: Sequence[float | None] | None
) -> Value:
    target, factors = _wanted(x, given, scales)
    agreeing = list(sizes(x)[2:])
    others: list[tuple[int, Array]] = []
    for number, (size, want, factor) in enumerate(zip(sizes(x)[2:], target, factors, strict=True)):
        places = nearest_places(size, want, factor)
        if size == want:
            if not np.array_equal(places, np.arange(size)):
                raise Unmapped(
                    f"a resizing by {factor} that leaves {size} elements as many, of which torch takes the nearest "
                    "or all in order, by their layout"
                )
            continue
        if nearest_agrees(size, want, places.tolist()):
            agreeing[number] = want
        else:
            others.append((2 + number, places))
    x = interpolate(t, x, agreeing, "nearest")
    for axis, places in others:
        x = take(t, x, axis, places)
    return x


@OPS.enter("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def _linear(
    t: Translation, x: Value, given: Sequence[int] | None, align: bool, scales: Sequence[float | None] | None
) -> Value:
    target, factors = _wanted(x, given, scales)
    if align:  # coordinates are those of the sizes, whatever the scale
        return interpolate(t, x, target, "linear", "align_corners")
    agreeing = list(sizes(x)[2:])
    others: list[tuple[int, int, float]] = []
    for number, (size, want, factor) in enumerate(zip(sizes(x)[2:], target, factors, strict=True)):
        if factor is None or by_sizes(size, want, factor):
            agreeing[number] = want
        else:
            others.append((2 + number, want, factor))
    own = dtype_of(x)
    if others and own in HALVES:  # axis by axis, but rounded once
        x = cast(t, x, np.dtype(np.float32))
    x = interpolate(t, x, agreeing, "linear", "half_pixel")
    for axis, want, factor in others:
        x = _along(t, x, axis, want, factor)
    return cast(t, x, own)


@OPS.enter("upsample_nearest1d.default", "upsample_nearest2d.default", "upsample_nearest3d.default")
def _nearest_default(t: Translation, x: Value, given: Sequence[int], *scales: float | None) -> Value:
    return _nearest(t, x, given, scales)


@OPS.enter("upsample_linear1d.default", "upsample_bilinear2d.default", "upsample_trilinear3d.default")
def _linear_default(
    t: Translation, x: Value, given: Sequence[int], align: bool, *scales: float | None
) -> Value:
    return _linear(t, x, given, align, scales)
