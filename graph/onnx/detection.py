"""NonMaxSuppression of ONNX in NumPy."""

from __future__ import annotations

import numpy as np

from ..runtime.arrays import Array


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
    kept: list[tuple[int, int, int]] = []
    for batch, corners in enumerate(_corners(boxes, centers=centers)):
        areas = (corners[2] - corners[0]) * (corners[3] - corners[1])
        for kind, row in enumerate(scores[batch]):
            order = np.argsort(-row, kind="stable")
            if least is not None:
                order = order[row[order] > np.float32(least)]
            count = 0
            while order.size and count < most:
                best, order = int(order[0]), order[1:]
                kept.append((batch, kind, best))
                count += 1
                low = np.maximum(corners[:2, best, None], corners[:2, order])
                high = np.minimum(corners[2:, best, None], corners[2:, order])
                sizes = np.maximum(high - low, 0)
                shared = sizes[0] * sizes[1]
                union = areas[best] + areas[order] - shared
                real = (areas[best] > 0) & (areas[order] > 0) & (union > 0)
                with np.errstate(all="ignore"):
                    over = np.where(real, shared / union > np.float32(overlap), False)
                order = order[~over]
    return np.asarray(kept, np.int64).reshape(-1, 3)


def _corners(boxes: Array, *, centers: bool) -> Array:
    """Of each batch the least and greatest coordinates, (4, boxes)."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centers:
        half = second / np.float32(2)
        first, second = first - half, first + half
    corners = np.concatenate((np.minimum(first, second), np.maximum(first, second)), -1)
    return np.moveaxis(corners, -1, 1)
