"""ATen's normalisations by the statistics of the batch where nothing is trained, in ops that other formats have."""

from __future__ import annotations

import math

import numpy as np

from ..importing.expressions import HALVES, binary, cast, reduce, reshape
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .schema import Translate

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""
_FLOAT = np.dtype(np.float32)


def inverse_deviation(t: Translation, variance: Value, epsilon: float) -> Value:
    """1 / √(variance + epsilon)."""
    return t.op("Pow", binary(t, "Add", variance, epsilon), beta=-0.5)


def by_batch(
    t: Translation, x: Value, gamma: Value | None, beta: Value | None, epsilon: float
) -> tuple[Value, Value, Value, Value]:
    """The data, each channel by its own statistics, and these: mean, variance, and one by the deviation.

    Of halves the statistics are in single precision.
    """
    own = dtype_of(x)
    if own in HALVES:  # rounded once
        x = cast(t, x, _FLOAT)
        gamma, beta = (None if one is None else cast(t, one, _FLOAT) for one in (gamma, beta))
    rank = len(shape_of(x))
    others, row = [axis for axis in range(rank) if axis != 1], [1, -1, *[1] * (rank - 2)]
    mean = reduce(t, "ReduceMean", x, others, keep=True)
    variance = reduce(t, "ReduceMean", binary(t, "SquaredDifference", x, mean), others, keep=True)
    inverse = inverse_deviation(t, variance, epsilon)
    scale = inverse if gamma is None else binary(t, "Multiply", inverse, reshape(t, gamma, row))
    made: Value = binary(t, "Multiply", binary(t, "Subtract", x, mean), scale)
    if beta is not None:
        made = binary(t, "Add", made, reshape(t, beta, row))
    mean, variance, inverse = (reshape(t, one, [-1]) for one in (mean, variance, inverse))
    return cast(t, made, own), mean, variance, inverse


@OPS.enter("_native_batch_norm_legit.no_stats")
def _alone(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> list[Value]:
    made, mean, _, inverse = by_batch(t, x, gamma, beta, epsilon)
    kept = dtype_of(x if gamma is None else gamma)
    return [made, cast(t, mean, kept), cast(t, inverse, kept)]


@OPS.enter("_native_batch_norm_legit_functional")
def _moving(
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
    """What a function does that is told to train: running statistics move, and are state of the graph."""
    if not training:
        raise Unmapped("a batch normalisation by given statistics that is to return them too")
    shape = sizes(x)
    count = math.prod(shape) // max(shape[1], 1)
    if count < 2:
        raise Unmapped("a variance of too few elements")
    made, batch_mean, batch_variance, inverse = by_batch(t, x, gamma, beta, epsilon)

    def moved(old: Value, new: Value, share: float) -> Value:
        rest = binary(t, "Multiply", cast(t, old, dtype_of(new)), 1 - momentum)
        return cast(t, binary(t, "Add", rest, binary(t, "Multiply", new, share)), dtype_of(old))

    new_mean = moved(mean, batch_mean, momentum)
    return [
        made,
        cast(t, batch_mean, dtype_of(mean)),
        cast(t, inverse, dtype_of(mean)),
        new_mean,
        moved(variance, batch_variance, momentum * count / (count - 1)),
    ]
