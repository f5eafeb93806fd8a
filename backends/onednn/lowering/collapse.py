"""The axes of an elementwise problem taken together, so that the library sees as few of them as the operands allow.

The library tells where the channels lie by comparing strides, and kernel and post-ops compare in two ways. They agree
on dense tensors whose axes stand in the order in which they lie, without axes of one element; and fewer axes are
faster too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....ops.records import frozen

ROW = 1024
"""Elements that one call of a kernel should have at least, where a tensor may be cut into rows for the threads."""

Layout = tuple[Sequence[int], Sequence[int]]
"""Sizes and strides of an operand's axes."""


def spread_shape(dims: Sequence[int], rank: int, axis: int | None = None) -> tuple[int, ...]:
    """A shape with `rank` axes: ones in front, or around a vector that stands at `axis`."""
    if axis is not None and len(dims) == 1:
        return tuple(dims[0] if a == axis else 1 for a in range(rank))
    return (1,) * (rank - len(dims)) + tuple(dims)


@frozen
class Collapse:
    """Which axes of a tensor each axis of the primitive stands for.

    Attributes:
        groups: for each axis of the primitive, the tensor's axes from outermost to innermost; none for an axis of
            one element.
    """

    groups: tuple[tuple[int, ...], ...]

    def apply(self, layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides of an operand that broadcasts to the tensor, with these axes."""
        dims, strides = layout
        shape = tuple(math.prod(dims[a] for a in group) for group in self.groups)
        steps = tuple(next((strides[a] for a in reversed(group) if dims[a] != 1), 1) for group in self.groups)
        return shape, steps


def collapse(tensor: Layout, operands: Sequence[Layout], most: int) -> Collapse:
    """The fewest axes for a dense tensor and the operands that broadcast to it.

    Args:
        tensor: sizes and strides.
        operands: the same for each operand, with as many axes.
        most: how large an axis may become.
    """
    dims, strides = tensor
    groups: list[list[int]] = []
    for axis in sorted((a for a, d in enumerate(dims) if d != 1), key=lambda a: (-strides[a], a)):
        joins = groups and all(_join(one, groups[-1][-1], axis) for one in (tensor, *operands))
        if joins and math.prod(dims[a] for a in (*groups[-1], axis)) <= most:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if len(groups) == 1 and any(math.prod(sizes) == 1 for sizes, _ in operands):
        groups = _rows(groups[0], dims)
    if len(groups) > 1 and any(_has(one, groups[0]) and not _has(one, *groups[1:]) for one in operands):
        groups.insert(
            0, []
        )  # an operand along one axis is one per channel to the library, and these stand second
    return Collapse(tuple(tuple(group) for group in groups) or ((),))


def _join(layout: Layout, outer: int, inner: int) -> bool:
    """Whether two axes of an operand can be one: both broadcast, or the elements follow each other."""
    dims, strides = layout
    if dims[outer] == 1 or dims[inner] == 1:
        return dims[outer] == dims[inner]
    return strides[outer] == strides[inner] * dims[inner]


def _has(layout: Layout, *groups: Sequence[int]) -> bool:
    return any(layout[0][axis] != 1 for group in groups for axis in group)


def _rows(group: Sequence[int], dims: Sequence[int]) -> list[list[int]]:
    """All elements in rows, which the library shares out to threads; it would not share out a single one."""
    inner = len(group) - 1
    while inner > 0 and math.prod(dims[a] for a in group[inner:]) < ROW:
        inner -= 1
    return [list(part) for part in (group[:inner], group[inner:]) if part]
