"""RoiAlign of ONNX in NumPy."""

from __future__ import annotations

import numpy as np

from ..importing.translation import Unmapped
from ..runtime.arrays import Array
from .calls import Call


def region_averages(call: Call) -> list[Array] | None:
    """Averages of samples in the cells of regions; None for maxima.

    Bilinear samples weigh rows and columns independently of each other, and so do their averages: a region is its
    part of the image between two matrices.
    """
    x, regions, batches = call[0], call[1], call[2]
    if call.get("mode", "avg") != "avg" or x.dtype.kind != "f":
        return None
    if x.ndim != 4 or regions.shape != (len(batches), 4):
        raise Unmapped(f"regions of shape {list(regions.shape)} in images of shape {list(x.shape)}")
    count, channels, *sizes = x.shape
    if batches.size and not 0 <= int(batches.min()) <= int(batches.max()) < count:
        raise Unmapped(f"regions of an image beyond the {count} that are there")
    cells = int(call.get("output_height", 1)), int(call.get("output_width", 1))
    mode = call.get(
        "coordinate_transformation_mode", "half_pixel" if call.opset > 15 else "output_half_pixel"
    )
    dtype = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    offset, least = (0.5, 0.0) if mode == "half_pixel" else (0.0, 1.0)
    scaled = regions.astype(dtype) * dtype.type(call.get("spatial_scale", 1.0)) - dtype.type(offset)
    samples = int(call.get("sampling_ratio", 0))
    rows, columns = (
        _weights(scaled[:, axis], scaled[:, axis + 2], sizes[1 - axis], cells[1 - axis], samples, least)
        for axis in (1, 0)
    )
    # Channels last, so that the rows of a part are as long as they can be for one product.
    images = np.moveaxis(x.astype(dtype, copy=False), 1, -1).reshape(count, sizes[0], sizes[1] * channels)
    made = np.zeros((len(regions), *cells, channels), dtype)
    spans = zip(batches.tolist(), _spans(rows), _spans(columns), strict=True)
    for number, (batch, (top, bottom), (left, right)) in enumerate(spans):
        if top < bottom and left < right:
            part = images[batch, top:bottom, left * channels : right * channels]
            across = (rows[number, :, top:bottom] @ part).reshape(cells[0], right - left, channels)
            np.matmul(columns[number, :, left:right], across, out=made[number])
    return [np.ascontiguousarray(np.moveaxis(made, -1, 1)).astype(x.dtype, copy=False)]


def _weights(start: Array, end: Array, size: int, cells: int, samples: int, least: float) -> Array:
    """What each element along an axis counts in each cell of each region, (regions, cells, size)."""
    dtype = start.dtype
    extent = np.maximum(end - start, dtype.type(least)) if least else end - start
    cell = extent / dtype.type(cells)
    counts = np.full(len(start), samples) if samples > 0 else np.ceil(cell).astype(np.int64)
    made = np.zeros((len(start), cells, size), dtype)
    for count in np.unique(counts[counts > 0]).tolist():
        own = np.flatnonzero(counts == count)
        step = cell[own, None, None] / dtype.type(count)
        at = start[own, None, None] + np.arange(cells, dtype=dtype)[:, None] * cell[own, None, None]
        at = at + (np.arange(count, dtype=dtype) + dtype.type(0.5)) * step
        inside = (at >= -1) & (at <= size)
        at = np.clip(at, 0, size - 1)
        low = at.astype(np.int64)
        high = np.minimum(low + 1, size - 1)
        share = at - low
        places = (
            np.broadcast_to(own[:, None, None], at.shape),
            np.broadcast_to(np.arange(cells)[:, None], at.shape),
        )
        np.add.at(made, (*places, low), np.where(inside, (1 - share) / count, 0))
        np.add.at(made, (*places, high), np.where(inside, share / count, 0))
    return made


def _spans(weights: Array) -> list[tuple[int, int]]:
    """Of each region the first element that counts and the one behind the last."""
    used: Array = np.asarray(weights.any(1))
    first = used.argmax(1)
    last = used.shape[1] - used[:, ::-1].argmax(1)
    return [
        (int(a), int(b) if some else int(a))
        for a, b, some in zip(first, last, np.asarray(used.any(1)), strict=True)
    ]
