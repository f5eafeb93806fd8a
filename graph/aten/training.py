"""ATen ops as they are in training: normalisation by the statistics of the batch, and what is dropped at random."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from ..importing.expressions import FLOATS, Operand, binary, cast, where
from ..importing.hosted import compared
from ..importing.tables import Entries
from ..importing.translation import Drawn, Translation, Unmapped, Value, dtype_of, sizes
from ..model.logical_tensor import LogicalTensor
from .elementwise import add, clamp, clamp_between, divided, multiply, promoted
from .layers import attended
from .places import bags
from .recurrent import KINDS, recurrent
from .schema import Translate
from .shapes import embedding
from .statistics import inverse_deviation

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""
INSTEAD = Entries[Translate]("aten.")
"""The same for ops that are others in inference mode."""
SINCE_2_14 = Entries[Translate]("aten.")
"""The same for ops whose gradients torch 2.14 has changed."""
STOP = "detach_copy"
"""ATen's op that stands for the end of a gradient."""
SATURATION = 1.7580993408473766
"""Minus the least value of SELU, which an alpha dropout puts in the place of what is dropped."""
BY_FREQUENCY = (
    "scale_grad_by_freq=True has no counterpart; leave it out, or train the module by torch.compile"
)
"""What is said of an embedding whose gradients are divided by counts."""
_FLOAT = np.dtype(np.float32)


# --- statistics of the batch -----------------------------------------------------------------------------


def _normalised(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    running: tuple[Value, Value] | None,
    momentum: float,
    epsilon: float,
) -> tuple[Value, list[Value]]:
    """The data, each channel by its statistics, and these: running mean and variance, those of the batch.

    Of the running statistics `momentum` is the share of the batch in torch, and what stays in oneDNN Graph. Torch
    divides the variance that it keeps by count − 1, and that by which it normalises by the count, as the op does both.
    """
    shape = sizes(x)
    own = _FLOAT if dtype_of(x) == np.float16 else dtype_of(x)
    count = math.prod(shape) // max(shape[1], 1)
    if running is not None:
        own = dtype_of(running[0])
    elif gamma is not None:
        own = dtype_of(gamma)
    mean, variance = running or (np.zeros(shape[1], own), np.ones(shape[1], own))
    affine: list[Value] = []
    if gamma is not None or beta is not None:
        affine = [
            np.ones(shape[1], own) if gamma is None else gamma,
            np.zeros(shape[1], own) if beta is None else beta,
        ]
    made = t.ops(
        "BatchNormForwardTraining",
        x,
        mean,
        variance,
        *affine,
        epsilon=epsilon,
        momentum=1 - momentum,
        data_format="NCX",
    )
    dst, running_mean, running_variance, batch_mean, batch_variance = made
    if running is not None:
        if count < 2:
            raise Unmapped(
                "the variance of one value of each channel, as of a batch of one example, which there is not; leave "
                "such a batch out, as Loader(…, drop_last=True) does"
            )
        rest = binary(t, "Multiply", batch_variance, momentum / (count - 1))
        running_variance = binary(t, "Add", running_variance, rest)
    return dst, [running_mean, running_variance, batch_mean, batch_variance]


@INSTEAD.enter("_native_batch_norm_legit_functional")
def batch_norm_moving(
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
    """The data, mean and inverse deviation of the batch, and what the running statistics become."""
    if not training:
        raise Unmapped("a batch normalisation by given statistics that is to return them too")
    dst, (new_mean, new_variance, batch_mean, batch_variance) = _normalised(
        t, x, gamma, beta, (mean, variance), momentum, epsilon
    )
    return [dst, batch_mean, inverse_deviation(t, batch_variance, epsilon), new_mean, new_variance]


@INSTEAD.enter("_native_batch_norm_legit.no_stats")
def _batch_norm_alone(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> list[Value]:
    dst, (_, _, batch_mean, batch_variance) = _normalised(t, x, gamma, beta, None, momentum, epsilon)
    return [dst, batch_mean, inverse_deviation(t, batch_variance, epsilon)]


# --- what gradients don't flow through ---------------------------------------------------------------------


@INSTEAD.enter(STOP)
def _stopped(t: Translation, x: Value) -> Value:
    """The same numbers as a constant; integers and what is constant have no gradient anyway."""
    return x if isinstance(x, np.ndarray) or dtype_of(x) not in FLOATS else t.op("HostStopGradient", x)


@INSTEAD.enter("embedding")
def _embedding(
    t: Translation, table: Value, indices: Value, padding: int = -1, by_frequency: bool = False, *_: object
) -> Value:
    """Rows of a table, of which one has no gradient where there is a padding."""
    if by_frequency:
        raise Unmapped(BY_FREQUENCY)
    rows = embedding(t, table, indices)
    if padding < 0:
        return rows
    padded = compared(t, "Equal", indices, padding)
    column = t.op("HostReshape", padded, shape=[*sizes(indices), 1], special_zero=False)
    return where(t, column, _stopped(t, rows), rows)


@INSTEAD.enter("_embedding_bag")
def _embedding_bag(
    t: Translation, table: Value, indices: Value, offsets: Value, by_frequency: bool = False, *more: Any
) -> list[Value]:
    if by_frequency:
        raise Unmapped(BY_FREQUENCY)
    return bags(t, table, indices, offsets, False, *more)


# --- what gradients flow through at a bound -----------------------------------------------------------------


def _bounded(
    t: Translation, x: Value, low: Operand | None, high: Operand | None, beyond: str = "Greater"
) -> Value:
    """Bounds of floating-point numbers, at which the gradient is still that of x, unlike Clamp's and ReLU's.

    With "GreaterEqual" for `beyond` it is that of the bound.
    """
    if low is not None and not _is_number(low, -math.inf):
        x = where(t, compared(t, beyond, low, x), *promoted(t, low, x))
    if high is not None and not _is_number(high, math.inf):
        x = where(t, compared(t, beyond, x, high), *promoted(t, high, x))
    return x


def _is_number(value: Operand, number: float) -> bool:
    return isinstance(value, int | float) and value == number


@INSTEAD.enter("clamp.default", "clamp.Tensor", "clamp_min.default")
def _clamp(t: Translation, x: Value, low: Operand | None = None, high: Operand | None = None) -> Value:
    if dtype_of(x) in FLOATS:
        return _bounded(t, x, low, high)
    number = all(bound is None or isinstance(bound, int | float) for bound in (low, high))
    clamped: Callable[..., Value] = clamp if number else clamp_between
    return clamped(t, x, low, high)


@INSTEAD.enter("clamp_max.default")
def _clamp_max(t: Translation, x: Value, high: float) -> Value:
    return _clamp(t, x, None, high)


@SINCE_2_14.enter("clamp.default", "clamp_min.default")
def _clamp_apart(t: Translation, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """Between numbers, at which there is no gradient."""
    if dtype_of(x) in FLOATS and (low is None or high is None or low > high):
        return _bounded(t, x, low, high, "GreaterEqual")
    return clamp(t, x, low, high)


@SINCE_2_14.enter("clamp_max.default")
def _clamp_max_apart(t: Translation, x: Value, high: float) -> Value:
    return _clamp_apart(t, x, None, high)


@SINCE_2_14.enter("clamp.Tensor")
def _clamp_halved(t: Translation, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """Between tensors, which at a bound have half of the gradient, but none where both are equal."""
    made = clamp_between(t, x, low, high)
    if low is None or high is None or dtype_of(x) not in FLOATS:
        return made
    return where(t, compared(t, "Equal", low, high), *promoted(t, _bounded(t, x, low, high), made))


# --- what is dropped at random ---------------------------------------------------------------------------


def _drawn(t: Translation, x: Value, p: float) -> tuple[LogicalTensor, LogicalTensor]:
    """Elements of x with the probability 1 − p, scaled up, and 0 else; and 1 where they stay.

    Each comes from an op of its own, of the same numbers, of which that goes away that nobody reads.
    """
    seed, offset = t.draw()
    given = (x, seed, offset, np.asarray(p, np.float32))
    return t.op("Dropout", *given, outputs=1), t.ops("Dropout", *given, outputs=2)[1]


def _dropped(t: Translation, x: Value, p: float) -> Value:
    return _drawn(t, x, p)[0] if p else x


@OPS.enter("native_dropout")
def _native_dropout(t: Translation, x: Value, p: float, train: bool | None = None) -> list[Value]:
    if not p or train is False:
        return [x, np.ones(sizes(x), np.bool_)]
    dst, mask = _drawn(t, x, p)
    return [dst, cast(t, mask, np.dtype(np.bool_))]


@INSTEAD.enter("dropout")
def _dropout(t: Translation, x: Value, p: float, train: bool) -> Value:
    return _dropped(t, x, p if train else 0.0)


INSTEAD.add({f"{op}.input": partial(recurrent, op=op, drop=_dropped) for op in KINDS})


@OPS.enter("bernoulli.p")
def _bernoulli(t: Translation, x: Value, p: float, *_: object) -> Value:
    """Ones with the probability p; of x there is only the shape."""
    shape, dtype = sizes(x), dtype_of(x)
    if p in (0, 1):
        return np.full(shape, p, dtype)
    scaled, mask = _drawn(t, np.ones(shape, dtype), 1 - p)
    made = t.tensor(cast(t, mask, dtype))
    t.drawn[made.id] = Drawn(p, scaled)
    return made


@INSTEAD.enter("div.Scalar")
def _divided(t: Translation, a: Value, b: float) -> Value:
    """A quotient; of what is drawn, by its probability, it is a Dropout, which goes away where a model is evaluated."""
    drawn = _as_drawn(t, a)
    if drawn is None or drawn.of is not None or (drawn.p, drawn.factor, drawn.shift) != (b, 1, 0):
        return divided(t, a, b)
    return drawn.scaled


def _as_drawn(t: Translation, value: Value) -> Drawn | None:
    return t.drawn.get(value.id) if isinstance(value, LogicalTensor) else None


def _noted(t: Translation, made: Value, drawn: Drawn | None) -> Value:
    if drawn is not None and isinstance(made, LogicalTensor):
        t.drawn[made.id] = drawn
    return made


@OPS.enter("mul.Scalar")
def _scaled(t: Translation, a: Value, b: float) -> Value:
    drawn = _as_drawn(t, a)
    if drawn is not None:
        drawn = evolve(drawn, factor=drawn.factor * b, shift=drawn.shift * b)
    return _noted(t, multiply(t, a, b), drawn)


@OPS.enter("add.Scalar")
def _shifted(t: Translation, a: Value, b: float, alpha: float = 1) -> Value:
    drawn = _as_drawn(t, a)
    if drawn is not None:
        drawn = evolve(drawn, shift=drawn.shift + b * alpha)
    return _noted(t, add(t, a, b, alpha), drawn)


@OPS.enter("mul.Tensor")
def _product(t: Translation, a: Value, b: Value) -> Value:
    """A product; the part of an alpha dropout that stays."""
    drawn = None if isinstance(b, int | float) else _as_drawn(t, b)
    if drawn is not None:
        drawn = None if drawn.of is not None or drawn.shift else evolve(drawn, of=a)
    return _noted(t, multiply(t, a, b), drawn)


@OPS.enter("add.Tensor")
def _sum(t: Translation, a: Value, b: Value, alpha: float = 1) -> Value:
    """A sum; of what torch makes of an alpha dropout, it is x itself where a model is evaluated."""
    drawn, other = _as_drawn(t, a), None if isinstance(b, int | float) else _as_drawn(t, b)
    if drawn is None or other is None or not _is_alpha_dropout(drawn, other) or drawn.of is None:
        return add(t, a, b, alpha)
    kept, p = drawn.scaled, drawn.p
    factor, shift = (binary(t, "Multiply", kept, p * one) for one in (drawn.factor, other.factor))
    dropped = binary(t, "Add", binary(t, "Multiply", drawn.of, factor), binary(t, "Add", shift, other.shift))
    every = t.op("HostEqual", kept, np.ones((), dtype_of(kept)))
    return where(t, every, drawn.of, dropped)


def _is_alpha_dropout(product: Drawn, rest: Drawn) -> bool:
    """Whether x · a · ones + (b · ones + c) has torch's numbers, for which mean and variance stay as they are.

    Source: Klambauer et al., Self-Normalizing Neural Networks (2017), section 3.
    """
    dropped = 1 - product.p
    a = ((SATURATION**2 * dropped + 1) * (1 - dropped)) ** -0.5
    wanted = (a, SATURATION * a, SATURATION * a * (dropped - 1))
    return (
        product.scaled is rest.scaled
        and rest.of is None
        and np.allclose((product.factor, rest.factor, rest.shift), wanted, rtol=1e-9)
    )


INSTEAD.add({"scaled_dot_product_attention": partial(attended, drop=_dropped)})
