"""ATen ops as torch's graphs for autograd have them: with what is kept for the way back, and rounded as torch does."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..importing.expressions import (
    FLOATS,
    Operand,
    binary,
    cast,
    reshape,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .hosted import div_rounded
from .schema import Translate
from .training import batch_norm_moving, inverse_deviation

INSTEAD = Entries[Translate]("aten.")
"""Op → its translation."""
WIDE = np.dtype(np.float32)
"""In which statistics are computed: those of halves are rounded once, as torch does."""


@INSTEAD.enter("div.Tensor_mode", "div.Scalar_mode")
def _rounded_quotient(t: Translation, a: Value, b: Operand, mode: str | None = None) -> Value:
    if mode is not None and any(
        dtype_of(one) in FLOATS for one in (a, b) if not isinstance(one, int | float)
    ):
        raise Unmapped("a rounded quotient, which a rounding before that would change")
    if mode is not None and isinstance(b, float):
        raise Unmapped(f"integers divided by {b}")
    return div_rounded(t, a, b, mode)


@INSTEAD.enter("floor_divide")
def _floor_divide(t: Translation, a: Value, b: Operand) -> Value:
    return _rounded_quotient(t, a, b, "floor")


@INSTEAD.enter("_native_batch_norm_legit_functional")
def _batch_norm_wide(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value,
    variance: Value,
    training: bool,
    momentum: float,
    epsilon: float,
) -> list[Value]:
    """With statistics in f32, also where weights and running statistics are half."""
    scale, shift = (None if one is None else cast(t, one, WIDE) for one in (gamma, beta))
    mean, variance = (cast(t, one, WIDE) for one in (mean, variance))
    return batch_norm_moving(t, x, scale, shift, mean, variance, training, momentum, epsilon)


@INSTEAD.enter("native_layer_norm")
def _layer_norm_kept(
    t: Translation,
    x: Value,
    normalised: Sequence[int],
    gamma: Value | None,
    beta: Value | None,
    epsilon: float,
) -> list[Value]:
    axis = len(shape_of(x)) - len(normalised)
    kept = dtype_of(next(one for one in (gamma, beta, x) if one is not None))
    affine: list[Value] = []
    if gamma is not None or beta is not None:
        affine = [
            np.ones(normalised, WIDE) if gamma is None else cast(t, gamma, WIDE),
            np.zeros(normalised, WIDE) if beta is None else cast(t, beta, WIDE),
        ]
    dst, mean, variance = t.ops(
        "LayerNorm",
        x,
        *affine,
        begin_norm_axis=axis,
        keep_stats=True,
        use_affine=bool(affine),
        epsilon=epsilon,
    )
    column = [*shape_of(x)[:axis], *[1] * len(normalised)]
    inverse = inverse_deviation(t, variance, epsilon)
    return [dst, *(cast(t, reshape(t, one, column), kept) for one in (mean, inverse))]


def along_channels(t: Translation, vector: Value, rank: int) -> Value:
    """One value per channel, with as many axes as the data."""
    return reshape(t, vector, [1, -1, *[1] * (rank - 2)])


def rows_of_groups(x: Value, groups: int) -> list[int]:
    """The shape with one row for each group of channels of each sample."""
    shape = sizes(x)
    return [shape[0] * groups, math.prod(shape) // (shape[0] * groups)]


@INSTEAD.enter("native_group_norm")
def _group_norm_kept(
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
    """Each group of channels is a row of a layer normalisation."""
    own = dtype_of(x if gamma is None else gamma)
    made, mean, variance = t.ops(
        "LayerNorm",
        reshape(t, cast(t, x, WIDE), rows_of_groups(x, groups)),
        begin_norm_axis=1,
        keep_stats=True,
        use_affine=False,
        epsilon=epsilon,
    )
    dst = reshape(t, made, shape_of(x))
    for kind, vector in (("Multiply", gamma), ("Add", beta)):
        if vector is not None:
            dst = binary(t, kind, dst, along_channels(t, cast(t, vector, WIDE), len(shape_of(x))))
    inverse = inverse_deviation(t, variance, epsilon)
    kept = [cast(t, reshape(t, one, [batch, groups]), own) for one in (mean, inverse)]
    return [cast(t, dst, dtype_of(x)), *kept]
