"""ATen ops as torch's graphs for autograd have them: with what is kept for the way back, and rounded as torch does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..importing.expressions import (
    FLOATS,
    Operand,
    cast,
    reshape,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of
from .hosted import div_rounded
from .layers import max_pool
from .schema import Translate
from .statistics import inverse_deviation
from .training import batch_norm_moving

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
    del elements
    own = dtype_of(next(one for one in (gamma, beta, x) if one is not None))
    affine: list[Value] = []
    if gamma is not None or beta is not None:
        affine = [
            np.ones(channels, WIDE) if gamma is None else cast(t, gamma, WIDE),
            np.zeros(channels, WIDE) if beta is None else cast(t, beta, WIDE),
        ]
    dst, mean, variance = t.ops(
        "GroupNorm",
        x,
        *affine,
        groups=groups,
        keep_stats=True,
        use_affine=bool(affine),
        epsilon=epsilon,
        data_format="NCX",
    )
    inverse = inverse_deviation(t, variance, epsilon)
    return [dst, *(cast(t, reshape(t, one, [batch, groups]), own) for one in (mean, inverse))]


def _largest_alone(t: Translation, *given: Any, count: int) -> list[Value]:
    """A max pooling; where its elements are is torch's, if somebody reads it."""
    return [max_pool(t, *given, count=count)]


INSTEAD.add({f"max_pool{n}d_with_indices": partial(_largest_alone, count=n) for n in (1, 2, 3)})
