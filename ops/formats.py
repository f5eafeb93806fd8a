"""Formats as permutations.

A format such as `NXC` or `XIO` says which axis of an array means what; `X` stands for all spatial axes.
An `AxisMap` turns the shape and strides of an array in a format into those of one canonical view, so
that every later layer knows one layout only. It never copies: splitting and permuting axes of a
strided array is always a view.
"""

from __future__ import annotations

from collections.abc import Sequence

from .records import frozen

DATA_FORMATS = ("NXC", "NCX")


def axis_positions(fmt: str, spatial_rank: int) -> dict[str, tuple[int, ...]]:
    """Letter of `fmt` → the axes it stands for, with `X` covering `spatial_rank` axes.

    >>> axis_positions("XIO", 2)
    {'X': (0, 1), 'I': (2,), 'O': (3,)}
    """
    positions: dict[str, tuple[int, ...]] = {}
    axis = 0
    for letter in fmt:
        width = spatial_rank if letter == "X" else 1
        positions[letter] = tuple(range(axis, axis + width))
        axis += width
    return positions


@frozen
class AxisMap:
    """First split one axis in two, then permute.

    Attributes:
        order: the permutation, over the axes after the split.
        split: the axis to split, or None.
        parts: sizes of the two axes that it becomes.
    """

    order: tuple[int, ...]
    split: int | None = None
    parts: tuple[int, int] = (1, 1)

    def apply(self, shape: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shape and strides of the canonical view. Strides may be in elements or bytes."""
        dims, steps = list(shape), list(strides)
        if self.split is not None:
            axis, step = self.split, steps[self.split]
            dims[axis : axis + 1] = self.parts
            steps[axis : axis + 1] = (step * self.parts[1], step)
        return tuple(dims[a] for a in self.order), tuple(steps[a] for a in self.order)


def data_axes(fmt: str, spatial_rank: int) -> AxisMap:
    """From `NXC` or `NCX` to (N, C, X)."""
    at = axis_positions(fmt, spatial_rank)
    return AxisMap((*at["N"], *at["C"], *at["X"]))


def weights_axes(
    fmt: str, spatial_rank: int, *, rows: str, columns: str, carrier: str, parts: tuple[int, int]
) -> AxisMap:
    """From a weights format to (G, rows, columns, X).

    Args:
        fmt: `OIX`, `XIO`, `IOX` or `XOI`.
        spatial_rank: number of spatial axes.
        rows, columns: letters that become the second and third axis.
        carrier: the letter whose axis holds all groups one after another.
        parts: (groups, size of one group) of the carrier's axis.
    """
    at = axis_positions(fmt, spatial_rank)
    split = at[carrier][0]

    def after(axis: int) -> int:
        return axis if axis < split else axis + 1

    whole = {letter: tuple(after(a) for a in axes) for letter, axes in at.items()}
    whole[carrier] = (split + 1,)
    return AxisMap((split, *whole[rows], *whole[columns], *whole["X"]), split, parts)
