"""Gradients of normalisations in ops of oneDNN Graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...importing.expressions import (
    binary,
    cast,
    matmul,
    reduce,
    reshape,
)
from ...importing.tables import Entries
from ...importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from ..kept import WIDE, along_channels, rows_of_groups
from ..schema import Translate
from ..training import inverse_deviation

OPS = Entries[Translate]("aten.")
"""Op → its translation."""
Mask = Sequence[bool]
"""Which gradients are wanted."""
# --- normalisation ---------------------------------------------------------------------------------------


def _variance(t: Translation, inverse: Value) -> Value:
    """The variance with epsilon, of which `inverse` is 1 / √: gradient ops are given it with an epsilon of 0."""
    return t.op("Pow", inverse, beta=-2.0)


@OPS.enter("native_batch_norm_backward")
def _batch_norm(
    t: Translation,
    gradient: Value,
    x: Value,
    gamma: Value | None,
    mean: Value | None,
    variance: Value | None,
    batch_mean: Value | None,
    batch_inverse: Value | None,
    train: bool,
    epsilon: float,
    mask: Mask,
) -> list[Value | None]:
    if not train:
        return _batch_norm_by_statistics(t, gradient, x, gamma, mean, variance, epsilon, mask)
    if batch_mean is None or batch_inverse is None:
        raise Unmapped("statistics of the batch are missing")
    scale = np.ones(sizes(x)[1], WIDE) if gamma is None else cast(t, gamma, WIDE)
    data, *rest = t.ops(
        "BatchNormTrainingBackward",
        x,
        gradient,
        cast(t, batch_mean, WIDE),
        _variance(t, cast(t, batch_inverse, WIDE)),
        scale,
        epsilon=0.0,
        data_format="NCX",
    )
    kept = dtype_of(batch_mean if gamma is None else gamma)
    made = [data, *(cast(t, one, kept) for one in rest)]
    return [value if wanted else None for value, wanted in zip(made, mask, strict=True)]


def _batch_norm_by_statistics(
    t: Translation,
    gradient: Value,
    x: Value,
    gamma: Value | None,
    mean: Value | None,
    variance: Value | None,
    epsilon: float,
    mask: Mask,
) -> list[Value | None]:
    """Of a normalisation by statistics that are given, and so constant."""
    if mean is None or variance is None:
        raise Unmapped("running statistics are missing")
    kept, rank = dtype_of(mean if gamma is None else gamma), len(shape_of(x))
    wide = cast(t, gradient, WIDE)
    inverse = inverse_deviation(t, cast(t, variance, WIDE), epsilon)
    data: Value | None = None
    scale: Value | None = None
    if mask[0]:
        factor = inverse if gamma is None else t.op("Multiply", inverse, cast(t, gamma, WIDE))
        data = cast(t, t.op("Multiply", wide, along_channels(t, factor, rank)), dtype_of(x))
    if mask[1]:
        away = t.op("Subtract", cast(t, x, WIDE), along_channels(t, cast(t, mean, WIDE), rank))
        total = t.op("BiasAddBackward", t.op("Multiply", wide, away), data_format="NCX")
        scale = cast(t, t.op("Multiply", total, inverse), kept)
    shift = cast(t, t.op("BiasAddBackward", wide, data_format="NCX"), kept) if mask[2] else None
    return [data, scale, shift]


@OPS.enter("native_layer_norm_backward")
def _layer_norm(
    t: Translation,
    gradient: Value,
    x: Value,
    normalised: Sequence[int],
    mean: Value,
    inverse: Value,
    gamma: Value | None,
    beta: Value | None,
    mask: Mask,
) -> list[Value | None]:
    shape = sizes(x)
    axis = len(shape) - len(normalised)
    row = list(shape[:axis])
    affine: list[Value] = []
    if gamma is not None:
        affine = [cast(t, gamma, WIDE), np.zeros(normalised, WIDE)]
    wanted = any(mask[1:]) and bool(affine)
    made = t.ops(
        "LayerNormBackward",
        x,
        gradient,
        reshape(t, cast(t, mean, WIDE), row),
        _variance(t, reshape(t, cast(t, inverse, WIDE), row)),
        *affine,
        begin_norm_axis=axis,
        use_affine=bool(affine),
        epsilon=0.0,
        outputs=3 if wanted else 1,
    )
    results: list[Value | None] = [made[0], None, None]
    if wanted and gamma is not None:
        results[1:] = [cast(t, one, dtype_of(gamma)) for one in made[1:]]
    if mask[2] and not wanted and beta is not None:
        total = reduce(t, "ReduceSum", cast(t, gradient, WIDE), range(axis), keep=False)
        results[2] = cast(t, total, dtype_of(beta))
    return [value if want else None for value, want in zip(results, mask, strict=True)]


@OPS.enter("native_group_norm_backward")
def _group_norm(
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
    mask: Mask,
) -> list[Value | None]:
    rows = rows_of_groups(x, groups)
    results: list[Value | None] = [None, None, None]
    mean, inverse = (cast(t, one, WIDE) for one in (mean, inverse))
    if mask[0]:
        scaled = cast(t, gradient, WIDE)
        if gamma is not None:
            scaled = binary(t, "Multiply", scaled, along_channels(t, cast(t, gamma, WIDE), len(shape_of(x))))
        made = t.ops(
            "LayerNormBackward",
            reshape(t, cast(t, x, WIDE), rows),
            reshape(t, scaled, rows),
            reshape(t, mean, rows[:1]),
            _variance(t, reshape(t, inverse, rows[:1])),
            begin_norm_axis=1,
            use_affine=False,
            epsilon=0.0,
            outputs=1,
        )
        results[0] = cast(t, reshape(t, made[0], shape_of(x)), dtype_of(x))
    if not any(mask[1:]):
        return results
    own = dtype_of(x if gamma is None else gamma)
    images, ones = [batch * channels, elements], np.ones((elements, 1), WIDE)
    given = reshape(t, cast(t, gradient, WIDE), images)
    parts = [batch, groups, channels // groups]
    shifted = reshape(t, matmul(t, given, ones), parts)
    if mask[1]:
        # Σ dy·(x − mean) as Σ dy·x − mean · Σ dy, as torch has it: products with ones, and no image that is shifted.
        both = binary(t, "Multiply", given, reshape(t, cast(t, x, WIDE), images))
        scaled = reshape(t, matmul(t, both, ones), parts)
        away = binary(t, "Multiply", shifted, reshape(t, mean, [batch, groups, 1]))
        total = binary(
            t, "Multiply", binary(t, "Subtract", scaled, away), reshape(t, inverse, [batch, groups, 1])
        )
        results[1] = cast(t, reshape(t, reduce(t, "ReduceSum", total, [0], keep=False), [channels]), own)
    if mask[2]:
        results[2] = cast(t, reshape(t, reduce(t, "ReduceSum", shifted, [0], keep=False), [channels]), own)
    return results
