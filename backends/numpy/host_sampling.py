"""NumPy kernels of the host family, continued: sorting, scattering, sampling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from .host_gather import counting, from_front, scatter
from .kernels import Array, along, kernel, store, wide

_CUBIC = -0.75
"""The parameter of cubic convolution that torch and ONNX have."""


@kernel("HostTopK")
def top_k(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The first elements of a stable sort; NaN lies above everything, as NumPy sorts it."""
    src, a = inputs[0], op.attributes
    axis, count = a.integer("axis") % src.ndim, a.integer("k")
    values = wide(src) if src.dtype.kind == "V" else src
    if a.flag("largest"):  # from behind, so that of equal elements the first one stays first
        order = src.shape[axis] - 1 - np.flip(np.argsort(np.flip(values, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(values, axis, kind="stable")
    places = np.take(order, np.arange(count), axis)
    np.copyto(outputs[0], np.take_along_axis(src, places, axis))
    np.copyto(outputs[1], places, casting="same_kind")


@kernel("HostScatterElements")
def scatter_elements(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Other elements at places along the axis."""
    src, indices, updates = inputs
    axis, rank = op.attributes.integer("axis") % src.ndim, src.ndim
    places = tuple(
        from_front(op, indices, src.shape[axis]) if a == axis else along(counting(size), a, rank)
        for a, size in enumerate(indices.shape)
    )
    scatter(op, src, tuple(np.broadcast_arrays(*places)), updates, outputs[0])


@kernel("HostGridSample")
def grid_sample(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Elements at coordinates, each weighted by how near it is."""
    src, a = wide(inputs[0]), op.attributes
    grid = wide(inputs[1])
    shape, rank = src.shape[2:], src.ndim - 2
    # The coordinates of one place begin with the last axis.
    axes = [
        _taps(
            grid[..., rank - 1 - i], size, a.string("mode"), a.string("padding_mode"), a.flag("align_corners")
        )
        for i, size in enumerate(shape)
    ]
    total = np.zeros((src.shape[0], *grid.shape[1:-1], src.shape[1]), src.dtype)
    batch = along(counting(src.shape[0]), 0, rank + 1)
    for taps in itertools.product(*axes):
        weight = np.ones((), src.dtype)
        inside = np.ones((), bool)
        places: list[Array] = []
        for (index, factor), size in zip(taps, shape, strict=True):
            weight = weight * factor
            inside = inside & (index >= 0) & (index < size)
            places.append(np.nan_to_num(np.clip(index, 0, size - 1)).astype(np.intp))
        # Behind the batch and the places come the channels: the advanced indices stand on both sides of a slice.
        found = src[(batch, slice(None), *places)]
        total += np.where(inside[..., None], found * np.broadcast_to(weight, inside.shape)[..., None], 0)
    store(outputs[0], np.moveaxis(total, -1, 1))


def _taps(coordinate: Array, size: int, mode: str, border: str, corners: bool) -> list[tuple[Array, Array]]:
    """The elements of an axis that coordinates from −1 to 1 lie between, and what each counts."""
    at = (coordinate + 1) / 2 * (size - 1) if corners else ((coordinate + 1) * size - 1) / 2
    if mode == "cubic":  # what is beyond is another element, and weighs as it would there
        low = np.floor(at)
        steps = [low + step for step in (-1, 0, 1, 2)]
        return [(np.rint(_placed(x, size, corners, border)), _cubic(np.abs(x - at))) for x in steps]
    at = _placed(at, size, corners, border)
    if mode == "nearest":
        return [(np.rint(at), np.ones((), at.dtype))]
    low = np.floor(at)
    return [(low, 1 - (at - low)), (low + 1, at - low)]


def _cubic(x: Array) -> Array:
    """The weight of an element so far away, at most 2."""
    near = ((_CUBIC + 2) * x - (_CUBIC + 3)) * x**2 + 1
    return np.where(x <= 1, near, ((x - 5) * x + 8) * x * _CUBIC - 4 * _CUBIC)


def _placed(at: Array, size: int, corners: bool, border: str) -> Array:
    """Places, counted in elements of an axis, with what the border makes of those beyond."""
    if border == "border":
        return np.clip(at, 0, size - 1)
    if border == "reflection":
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        span = high - low
        if span == 0:
            return np.zeros_like(at)
        there = np.mod(np.abs(at - low), 2 * span)
        return np.clip(np.minimum(there, 2 * span - there) + low, 0, size - 1)
    return at
