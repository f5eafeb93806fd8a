"""Resize and GridSample of ONNX in NumPy: all modes, by a matrix of weights for each axis, or by points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..importing.translation import Unmapped, check_room
from ..runtime.arrays import Array


def resized(
    x: Array,
    roi: Array | None,
    scales: Array | None,
    sizes: Array | None,
    attributes: Mapping[str, Any],
    limit: int,
) -> Array:
    """Resize: x with other sizes.

    Args:
        x: any type.
        roi: starts and ends of a region, for tf_crop_and_resize.
        scales, sizes: of the axes; the other one is None or empty.
        attributes: of the node.
        limit: bytes that the result may take.

    Raises:
        Unmapped: no sizes, too many, or attributes that ONNX has not.
    """
    axes = [axis % x.ndim for axis in attributes.get("axes", range(x.ndim))]
    scales = None if scales is None or not scales.size else scales
    sizes = None if sizes is None or not sizes.size else sizes
    if (scales is None) == (sizes is None):
        raise Unmapped("it must have scales or sizes, and not both")
    given = scales if scales is not None else sizes
    if given is None or given.size != len(axes):
        raise Unmapped(f"it must have a scale or size for each of the {len(axes)} axes")
    lengths = [x.shape[axis] for axis in axes]
    if scales is not None:
        factors = [float(scale) for scale in scales]
        wanted = [math.floor(length * factor) for length, factor in zip(lengths, factors, strict=True)]
    else:
        wanted = [int(size) for size in given]
        factors = [size / length for size, length in zip(wanted, lengths, strict=True)]
        policy = attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(axes)
            wanted = [math.floor(length * factor + 0.5) for length in lengths]
    shape = list(x.shape)
    for axis, size in zip(axes, wanted, strict=True):
        shape[axis] = size
    if not x.size or min(shape, default=1) < 1:
        raise Unmapped(f"no elements to resize, or to make: {list(x.shape)} to {shape}")
    check_room(shape, np.dtype(np.float64), limit)
    regions = [(0.0, 1.0)] * len(axes)
    if roi is not None and roi.size == 2 * len(axes):
        regions = [(float(roi[i]), float(roi[i + len(axes)])) for i in range(len(axes))]
    y = x if attributes.get("mode", "nearest") == "nearest" else x.astype(np.float64)
    outside: list[tuple[int, Array]] = []
    for axis, length, size, factor, region in zip(axes, lengths, wanted, factors, regions, strict=True):
        if (
            attributes.get("coordinate_transformation_mode") != "tf_crop_and_resize"
            and size == length
            and factor == 1
        ):
            continue
        at = _coordinates(length, size, factor, region, attributes)
        if attributes.get("mode", "nearest") == "nearest":
            narrow = _coordinates(length, size, factor, region, attributes, np.float32)
            if not np.array_equal(_rounded(at, attributes), _rounded(narrow, attributes)):
                raise Unmapped(
                    "places of its result lie half-way between two elements, as near as f32 can tell"
                )
        if attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
            # In f32, as those who crop by it have it: a box may end a rounding error behind the last element.
            narrow = _coordinates(length, size, factor, region, attributes, np.float32)
            outside.append((axis, (narrow < 0) | (narrow > length - 1)))
        y = _along(y, axis, at, min(factor, 1.0), attributes)
    for axis, mask in outside:
        shape = [1] * x.ndim
        shape[axis] = -1
        y = np.where(mask.reshape(shape), attributes.get("extrapolation_value", 0.0), y)
    if x.dtype.kind in "iu" and y.dtype != x.dtype:
        limits = np.iinfo(x.dtype)
        y = np.clip(np.trunc(y), limits.min, limits.max)
    return y.astype(x.dtype)


def _coordinates(
    length: int,
    size: int,
    scale: float,
    region: tuple[float, float],
    attributes: Mapping[str, Any],
    dtype: type[np.floating[Any]] = np.float64,
) -> Array:
    """Where the elements of an axis of the result lie in the axis that is resized, computed in a type."""
    at, factor = np.arange(size, dtype=dtype), dtype(scale)
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    if mode == "half_pixel":
        return (at + 0.5) / factor - 0.5
    if mode == "half_pixel_symmetric":
        exact = length * factor
        return length / 2 * (1 - size / exact) + (at + 0.5) / factor - 0.5
    if mode == "tf_half_pixel_for_nn":  # of opset 11 and 12, which tf2onnx writes for later ones, too
        return (at + 0.5) / factor
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / factor - 0.5 if size > 1 else np.zeros(size)
    if mode == "align_corners":
        exact = length * factor
        return at * (length - 1) / (exact - 1) if size > 1 and exact != 1 else np.zeros(size)
    if mode == "asymmetric":
        return at / factor
    if mode == "tf_crop_and_resize":
        start, end = dtype(region[0]), dtype(region[1])
        if size > 1:
            return start * (length - 1) + at * (end - start) * (length - 1) / (size - 1)
        return np.full(size, (start + end) * (length - 1) / 2)
    raise Unmapped(f"a coordinate_transformation_mode {mode!r}")


def _along(x: Array, axis: int, at: Array, shrink: float, attributes: Mapping[str, Any]) -> Array:
    """X with other elements along an axis, from these coordinates."""
    mode, length = attributes.get("mode", "nearest"), x.shape[axis]
    if mode == "nearest":
        return x.take(np.clip(_rounded(at, attributes), 0, length - 1), axis)
    if mode not in ("linear", "cubic"):
        raise Unmapped(f"a mode {mode!r}")
    stretch = shrink if attributes.get("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    first = np.floor(at - reach).astype(np.int64)
    places = first[:, None] + np.arange(2 * math.ceil(reach) + 2)
    distance = np.abs(places - at[:, None]) * stretch
    if mode == "linear":
        weights = np.maximum(0, 1 - distance)
    else:
        weights = _cubic(distance, attributes.get("cubic_coeff_a", -0.75))
    if attributes.get("exclude_outside", 0):
        weights = np.where((places < 0) | (places >= length), 0, weights)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    matrix = np.zeros((len(at), length))
    np.add.at(matrix, (np.arange(len(at))[:, None], np.clip(places, 0, length - 1)), weights)
    return np.moveaxis(np.tensordot(x, matrix, (axis, 1)), -1, axis)


def _rounded(at: Array, attributes: Mapping[str, Any]) -> Array:
    mode = attributes.get("nearest_mode", "round_prefer_floor")
    if mode == "round_prefer_floor":
        return np.ceil(at - 0.5).astype(np.int64)
    if mode == "round_prefer_ceil":
        return np.floor(at + 0.5).astype(np.int64)
    if mode in ("floor", "ceil"):
        return (np.floor(at) if mode == "floor" else np.ceil(at)).astype(np.int64)
    raise Unmapped(f"a nearest_mode {mode!r}")


def _cubic(distance: Array, a: float) -> Array:
    """Weights of cubic convolution."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


# --- at points -------------------------------------------------------------------------------------------


def sampled(x: Array, grid: Array, attributes: Mapping[str, Any]) -> Array:
    """GridSample of mode cubic for images.

    Args:
        x: (N, C, H, W).
        grid: (N, h, w, 2), x before y, from −1 to 1.
        attributes: of the node.

    Raises:
        Unmapped: another mode, or other axes.
    """
    mode = attributes.get("mode", "linear")
    if mode not in ("cubic", "bicubic") or x.ndim != 4:
        raise Unmapped(f"samples of mode {mode!r} of {x.ndim} axes")
    if not x.size:
        raise Unmapped("no elements to take samples of")
    corners, padding = bool(attributes.get("align_corners", 0)), attributes.get("padding_mode", "zeros")
    y = np.zeros((x.shape[0], x.shape[1], *grid.shape[1:3]))
    weights: list[Array] = []
    places: list[Array] = []
    for number, size in enumerate(x.shape[:1:-1]):  # columns first, as the grid has them
        at = grid[..., number].astype(np.float64)
        at = (at + 1) / 2 * (size - 1) if corners else ((at + 1) * size - 1) / 2
        first = np.floor(at)[..., None] - 1 + np.arange(4)
        weights.append(_cubic(np.abs(first - at[..., None]), -0.75))
        places.append(first)
    images = np.arange(len(x))[:, None, None]
    wide = x.astype(np.float64)
    for i in range(4):
        rows, in_rows = _inside(places[1][..., i], x.shape[2], padding, corners)
        for j in range(4):
            columns, in_columns = _inside(places[0][..., j], x.shape[3], padding, corners)
            found = np.moveaxis(wide[images, :, rows, columns], -1, 1)
            weight = weights[1][..., i] * weights[0][..., j] * in_rows * in_columns
            y += found * weight[:, None]
    return y.astype(x.dtype)


def _inside(at: Array, size: int, padding: str, corners: bool) -> tuple[Array, Array]:
    """Places in an axis, and 1 for those that are in it or taken from it."""
    if padding == "zeros":
        inside = (at >= 0) & (at < size)
        return np.clip(at, 0, size - 1).astype(np.int64), inside.astype(np.float64)
    if padding == "reflection":
        low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
        if span:
            turns = np.abs(at - low) % (2 * span)
            at = np.where(turns > span, 2 * span - turns, turns) + low
        else:
            at = np.zeros_like(at)
    elif padding != "border":
        raise Unmapped(f"a padding_mode {padding!r}")
    return np.clip(np.rint(at), 0, size - 1).astype(np.int64), np.ones(at.shape)
