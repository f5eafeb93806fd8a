"""Normalisation of groups of channels, with what its gradient keeps, in layer normalisations: a group is a row.

There is no primitive for the op GroupNorm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..importers.expressions import binary, cast, reduce, reshape
from ..importers.translation import Translation, Value, dtype_of, shape_of, sizes

__all__ = ["GROUPS"]

WIDE = np.dtype(np.float32)
"""What half numbers are computed in: a result is rounded once."""


def _along(t: Translation, vector: Value, rank: int) -> Value:
    """One value per channel, with as many axes as the data."""
    return reshape(t, cast(t, vector, WIDE), [1, -1, *[1] * (rank - 2)])


def _forward(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    batch: int,
    channels: int,
    elements: int,
    groups: int,
    epsilon: float,
) -> list[Value]:
    """The data, and mean and inverse deviation of each group."""
    shape = sizes(x)
    rows = reshape(t, cast(t, x, WIDE), [batch, groups, channels // groups * elements])
    made, mean, variance = t.ops(
        "LayerNorm", rows, begin_norm_axis=2, keep_stats=True, use_affine=False, epsilon=epsilon
    )
    dst: Value = reshape(t, made, shape)
    if gamma is not None:
        dst = t.op("Multiply", dst, _along(t, gamma, len(shape)))
    if beta is not None:
        dst = t.op("Add", dst, _along(t, beta, len(shape)))
    inverse = t.op("Pow", binary(t, "Add", variance, epsilon), beta=-0.5)
    mixed = gamma is not None and dtype_of(gamma) == WIDE
    kept = WIDE if mixed else dtype_of(x)
    statistics = (cast(t, reshape(t, one, [batch, groups]), kept) for one in (mean, inverse))
    return [cast(t, dst, dtype_of(x)), *statistics]


def _backward(
    t: Translation,
    gradient: Value,
    x: Value,
    mean: Value,
    inverse: Value,
    gamma: Value | None,
    batch: int,
    channels: int,
    elements: int,
    groups: int,
    mask: Sequence[bool],
) -> list[Value | None]:
    """The gradients of data, scale and shift. That of the data is of the type in which torch says that it is."""
    shape, rank = sizes(x), len(shape_of(x))
    narrow = dtype_of(x) if gamma is None else dtype_of(gamma)
    given, wide = cast(t, x, WIDE), cast(t, gradient, WIDE)
    mean, inverse = (reshape(t, cast(t, one, WIDE), [batch, groups]) for one in (mean, inverse))
    results: list[Value | None] = [None, None, None]
    if mask[0]:
        scaled = wide if gamma is None else t.op("Multiply", wide, _along(t, gamma, rank))
        rows = [batch, groups, channels // groups * elements]
        data = t.op(
            "LayerNormBackward",
            reshape(t, given, rows),
            reshape(t, scaled, rows),
            mean,
            t.op("Pow", inverse, beta=-2.0),
            begin_norm_axis=2,
            use_affine=False,
            epsilon=0.0,
            outputs=1,
        )
        results[0] = cast(t, reshape(t, data, shape), narrow)
    if mask[1] or mask[2]:
        parts = [batch, groups, channels // groups]
        pixels = [batch, channels, elements]
        sums = reduce(t, "ReduceSum", reshape(t, wide, pixels), [2], keep=False)
        if mask[2]:
            results[2] = cast(t, reduce(t, "ReduceSum", sums, [0], keep=False), narrow)
        if mask[1]:
            product = reshape(t, t.op("Multiply", wide, given), pixels)
            with_data = reshape(t, reduce(t, "ReduceSum", product, [2], keep=False), parts)
            centre = t.op("Multiply", reshape(t, sums, parts), reshape(t, mean, [batch, groups, 1]))
            away = t.op("Subtract", with_data, centre)
            scale = t.op("Multiply", away, reshape(t, inverse, [batch, groups, 1]))
            results[1] = cast(
                t, reshape(t, reduce(t, "ReduceSum", scale, [0], keep=False), [channels]), narrow
            )
    return results


GROUPS: dict[str, Callable[..., Any]] = {
    "aten.native_group_norm": _forward,
    "aten.native_group_norm_backward": _backward,
}
"""Name → translation, in the manner of the importers' tables."""
