"""NonMaxSuppression of ONNX in NumPy."""

from __future__ import annotations

import numpy as np

from ..runtime.arrays import Array

BLOCK = 128
"""Boxes that are held against others at once."""


def suppressed(
    boxes: Array, scores: Array, most: int, overlap: float, least: float | None, *, centers: bool
) -> Array:
    """The boxes that are kept, as rows of batch, class and box: the best first, and none that overlaps a better one.

    Args:
        boxes: (batches, boxes, 4), f32: two corners, y before x, or the center, width and height.
        scores: (batches, classes, boxes).
        most: how many of a class are kept.
        overlap: the share, intersection by union, above which a box goes.
        least: the score that a box must be above; None for any.
        centers: whether boxes are centers with sizes.
    """
    kept: list[Array] = []
    for batch, corners in enumerate(_corners(boxes, centers=centers)):
        rows = scores[batch]
        able = np.ones(rows.shape, np.bool_) if least is None else rows > np.float32(least)
        kinds, places = np.nonzero(able)
        order = np.lexsort((-rows[kinds, places], kinds))  # what is equal stays in the order of the boxes
        kinds, places = kinds[order], places[order]
        chosen = _best(kinds, corners[:, places], most, overlap)
        kept.append(np.stack((np.full(len(chosen), batch), kinds[chosen], places[chosen]), 1))
    return np.concatenate(kept or [np.empty((0, 3))]).astype(np.int64)


def _best(kinds: Array, corners: Array, most: int, overlap: float) -> list[int]:
    """Places of the boxes that are kept, of boxes in the order of their classes and scores.

    A block of boxes is held against all of their classes that were kept before, and then against each other: few calls
    of NumPy, and none for boxes of a class behind the last that is kept.
    """
    areas = (corners[2] - corners[0]) * (corners[3] - corners[1])
    ends = np.searchsorted(kinds, kinds, "right").tolist()
    count = len(ends)
    kept: list[int] = []
    start = first = 0  # among those that were kept, where the class of the next box begins
    while start < count and most > 0:
        if ends[start - 1] == start:
            first = len(kept)
        elif len(kept) - first >= most:
            start = ends[start]
            continue
        block = np.arange(start, min(start + BLOCK, count))
        start += len(block)
        if first < len(kept):
            rivals, _ = _overlapping(kinds, corners, areas, block, np.asarray(kept[first:]), overlap)
            block = np.delete(block, rivals)
            if not block.size:
                continue
        better, worse = _overlapping(kinds, corners, areas, block, block, overlap)
        bits: dict[int, int] = {}
        for row, column in zip(better.tolist(), worse.tolist(), strict=True):
            bits[row] = bits.get(row, 0) | 1 << column
        gone, past = 0, -1  # a bit for each box of the block that a better one overlaps too much
        for number, place in enumerate(block.tolist()):
            if gone >> number & 1 or place < past:
                continue
            if ends[place - 1] == place:
                first = len(kept)
            kept.append(place)
            gone |= bits.get(number, 0)
            if len(kept) - first >= most:
                past = ends[place]
        if past >= start:
            start = past
    return kept


def _overlapping(
    kinds: Array, corners: Array, areas: Array, some: Array, others: Array, overlap: float
) -> tuple[Array, Array]:
    """Of boxes and others, of the same class, the pairs that share more than they may, as numbers of both."""
    left, top, right, bottom = corners[:, some, None]
    left2, top2, right2, bottom2 = corners[:, others]
    touching = left < right2
    touching &= right > left2
    touching &= top < bottom2
    touching &= bottom > top2
    rows, columns = np.divmod(np.flatnonzero(touching), len(others))
    one, two = some[rows], others[columns]
    first, second = corners[:, one], corners[:, two]
    sides = np.minimum(first[2:], second[2:]) - np.maximum(first[:2], second[:2])
    shared = sides[0] * sides[1]
    with np.errstate(all="ignore"):
        over = (shared > 0) & (shared / (areas[one] + areas[two] - shared) > np.float32(overlap))
    over &= (kinds[one] == kinds[two]) & (one != two)
    return rows[over], columns[over]


def _corners(boxes: Array, *, centers: bool) -> Array:
    """Of each batch the least and greatest coordinates, (4, boxes)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centers:
        half = second / np.float32(2)
        first, second = first - half, first + half
    corners = np.concatenate((np.minimum(first, second), np.maximum(first, second)), -1)
    return np.moveaxis(corners, -1, 1)
