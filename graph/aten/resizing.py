"""ATen ops in ops of oneDNN Graph: images and rows of other sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..importing.expressions import HALVES, binary, cast, matmul, take, transpose
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


# --- with a wider filter where it gets smaller -----------------------------------------------------------


def _triangle(at: Array) -> Array:
    return np.maximum(1 - np.abs(at), 0)


def _cubic(at: Array) -> Array:
    """Keys' kernel with a slope of -0.5, as torch has it here alone; its cubic resizing without this has -0.75."""
    size = np.abs(at)
    near, far = (1.5 * size - 2.5) * size**2 + 1, ((-0.5 * size + 2.5) * size - 4) * size + 2
    return np.where(size < 1, near, np.where(size < 2, far, 0))


FILTERS: dict[str, tuple[Callable[[Array], Array], int]] = {
    "bilinear": (_triangle, 1),
    "bicubic": (_cubic, 2),
}
"""Mode → its filter, and how far it reaches."""


def filtered_shares(mode: str, size: int, wanted: int, align: bool, scale: float | None) -> Array:
    """How much of each element there is in each wanted one: a matrix of the first by the second."""
    kernel, reach = FILTERS[mode]
    if align:
        apart = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    else:
        apart = 1 / scale if scale is not None and scale > 0 else size / wanted
    wider = max(apart, 1.0)
    centers = apart * (np.arange(wanted) + 0.5)
    first = np.maximum((centers - reach * wider + 0.5).astype(np.int64), 0)
    behind = np.minimum((centers + reach * wider + 0.5).astype(np.int64), size)
    places = np.arange(size)[:, None]
    shares = np.where((places >= first) & (places < behind), kernel((places - centers + 0.5) / wider), 0.0)
    total = shares.sum(0)
    return shares / np.where(total == 0, 1, total)


def _filtered(
    t: Translation,
    x: Value,
    given: Sequence[int] | None,
    align: bool,
    scales: Sequence[float | None] | None,
    *,
    mode: str,
) -> Value:
    """Axis by axis a product with a matrix, for all sizes are known."""
    target, factors = _wanted(x, given, scales)
    own = dtype_of(x)
    if own in HALVES:  # rounded once
        x = cast(t, x, np.dtype(np.float32))
    elif own.kind != "f":
        raise Unmapped(f"a resizing of {own}")
    turned = [0, 1, 3, 2]
    for axis, order in ((3, None), (2, turned)):  # as torch, the last one first
        size, want, factor = sizes(x)[axis], target[axis - 2], factors[axis - 2]
        if size == want:  # torch leaves it as it is, whatever the scale
            continue
        shares = filtered_shares(mode, size, want, align, factor).astype(dtype_of(x))
        x = (
            matmul(t, x, shares)
            if order is None
            else transpose(t, matmul(t, transpose(t, x, order), shares), order)
        )
    return cast(t, x, own)


def _filtered_default(
    t: Translation, x: Value, given: Sequence[int], align: bool, *scales: float | None, mode: str
) -> Value:
    return _filtered(t, x, given, align, scales, mode=mode)


for _mode in FILTERS:
    OPS.add({f"_upsample_{_mode}2d_aa.vec": partial(_filtered, mode=_mode)})
    OPS.add({f"_upsample_{_mode}2d_aa.default": partial(_filtered_default, mode=_mode)})
