"""Which positions of a sliding window reach inside the data with one of its elements."""

from __future__ import annotations


def reached(positions: slice, stride: int, offset: int, size: int) -> tuple[slice, slice] | None:
    """The positions that reach inside, and what they reach, along one axis; None where none does.

    Args:
        positions: from start to stop; the result counts from start.
        stride: from one position to the next.
        offset: of what position 0 reaches, negative in the padding.
        size: of the data.
    """
    first = max(positions.start, -(offset // stride))
    last = min(positions.stop, (size - 1 - offset) // stride + 1)
    if last <= first:
        return None
    start = first * stride + offset
    inside = slice(first - positions.start, last - positions.start)
    return inside, slice(start, start + (last - first - 1) * stride + 1, stride)
