"""Gradients of normalisations in ops of oneDNN Graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...importing.expressions import (
    cast,
    reduce,
    reshape,
)
from ...importing.tables import Entries
from ...importing.translation import Translation, Unmapped, Value, dtype_of, sizes
from ..kept import WIDE
from ..schema import Translate
from .by_rules import by_rule

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
    scale = np.ones(sizes(x)[1], WIDE) if gamma is None else cast(t, gamma, WIDE)
    own = dtype_of(mean if gamma is None else gamma)
    made = by_rule(
        t,
        "BatchNormInference",
        cast(t, gradient, WIDE),
        {
            "src": cast(t, x, WIDE),
            "gamma": scale,
            "beta": np.zeros(sizes(x)[1], WIDE),
            "mean": cast(t, mean, WIDE),
            "variance": cast(t, variance, WIDE),
        },
        [name for name, wanted in zip(("src", "gamma", "beta"), mask, strict=True) if wanted],
        epsilon=epsilon,
        data_format="NCX",
    )
    found = [(made.get("src"), dtype_of(x)), (made.get("gamma"), own), (made.get("beta"), own)]
    return [None if one is None else cast(t, one, dtype) for one, dtype in found]


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
    del elements
    mean, inverse = (reshape(t, cast(t, one, WIDE), [batch, groups]) for one in (mean, inverse))
    wanted = any(mask[1:])
    affine: list[Value] = []
    if gamma is not None or wanted:
        affine = [np.ones(channels, WIDE) if gamma is None else cast(t, gamma, WIDE)]
    made = t.ops(
        "GroupNormBackward",
        x,
        gradient,
        mean,
        _variance(t, inverse),
        *affine,
        groups=groups,
        use_affine=bool(affine),
        epsilon=0.0,
        data_format="NCX",
        outputs=3 if wanted else 1,
    )
    own = dtype_of(x if gamma is None else gamma)
    results = [made[0], *(cast(t, one, own) for one in made[1:]), None, None]
    return [value if want else None for value, want in zip(results, mask, strict=False)]
