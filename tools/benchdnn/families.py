"""The data of each family of ops: values with which its functions are worth running."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import evolve

from ...graph.model.op import Op
from ...graph.runtime.arrays import Array
from ...ops.records import frozen

FACTORS = (0.25, 0.5, 1.0)
DIVISORS = (2.0, 4.0, 8.0)
SCALES = (0.0625, 0.125, 0.25)
VARIANCES = (0.25, 1.0, 4.0)
WEIGHTS = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Values without digits to lose, by what they are used for."""

POSITIVE = frozenset({"Log", "Pow", "Sqrt", "SqrtBackward"})
"""Functions of positive numbers."""
OVERFLOWING = 88.0
"""About where exp overflows f32."""


@frozen
class Use:
    """Where an input's values are computed with.

    Attributes:
        op: the op.
        port: which of its inputs.
        via: the ops between.
    """

    op: Op
    port: int
    via: tuple[Op, ...]

    @property
    def name(self) -> str:
        """The port's name."""
        return self.op.input_ports[self.port].name


@frozen
class Wanted:
    """What data is wanted, and the random numbers that it is made of.

    Attributes:
        random: where it comes from.
        shape: of the input.
        use: where its values are computed with.
        alone: whether the graph is about that op alone.
        inner: whether the op computes with a result of the graph too.
    """

    random: np.random.Generator
    shape: tuple[int, ...]
    use: Use
    alone: bool
    inner: bool

    def uniform(self) -> Array:
        """Numbers from 0 to 1."""
        return self.random.random(self.shape)

    def integers(self, low: int, high: int) -> Array:
        """Whole numbers from `low` to `high`, both included."""
        return self.random.integers(low, high, self.shape, endpoint=True).astype(np.float64)

    def halves(self, limit: int) -> Array:
        """Multiples of a half from -limit to limit."""
        return self.integers(-2 * limit, 2 * limit) / 2

    def choice(self, values: Sequence[float]) -> Array:
        """Some of these values."""
        return np.asarray(values, np.float64)[self.random.integers(0, len(values), self.shape)]


Family = Callable[[Wanted], Array]


def number(op: Op, name: str, default: float) -> float:
    """An attribute as a float; the default where the op has none of that name."""
    value = op.attributes.get(name)
    return float(value) if isinstance(value, int | float) else default


def small(wanted: Wanted) -> Array:
    """Small integers, negative ones too."""
    return wanted.integers(-8, 7)


def _eltwise(wanted: Wanted) -> Array:
    op = wanted.use.op
    if wanted.use.port == 1:
        return wanted.halves(4)
    if op.attributes.get("use_dst"):
        return _results(wanted, op)
    values = _domain(wanted, op) if wanted.alone else wanted.integers(-16, 16) / 4
    if op.kind in POSITIVE:
        values = np.abs(values)
        return np.where(values == 0, 0.5, values)
    if op.kind == "Reciprocal":
        return np.where(np.abs(values) < 1 / 16, 0.5, values)
    return values


def _domain(wanted: Wanted, op: Op) -> Array:
    """Values from every part of a function's domain: small, large, tiny, near overflow, and its own corners."""
    corners = [number(op, name, 0.0) for name in ("alpha", "beta", "min", "max")]
    largest = 10.0 if op.kind in ("Exp", "Pow") else OVERFLOWING
    tiny = wanted.uniform() * 0.09
    parts = [
        wanted.integers(-10, 10),
        tiny,
        -tiny,
        10 * tiny,
        -10 * tiny,
        10 * wanted.integers(-10, 10 if largest > 10 else 0),
        largest / wanted.choice((1.0, 2.0, 4.0)) + 10 * tiny,
        wanted.choice(corners),
    ]
    return np.choose(wanted.random.integers(0, len(parts), wanted.shape), parts)


def _results(wanted: Wanted, op: Op) -> Array:
    """Values that the forward op can have returned."""
    steps = wanted.integers(1, 31) / 32
    match op.kind:
        case "SigmoidBackward":
            return steps
        case "TanhBackward":
            return steps * 2 - 1
        case "SqrtBackward":
            return steps * 8
        case "EluBackward":
            alpha = number(op, "alpha", 1.0)
            return np.where(wanted.uniform() < 0.5, steps * 4, -alpha * steps)
        case "ClampBackward":
            low, high = number(op, "min", -1.0), number(op, "max", 1.0)
            return np.clip(wanted.halves(8), low, high)
        case _:
            return np.maximum(wanted.halves(4), 0.0)


def _binary(wanted: Wanted) -> Array:
    op = wanted.use.op
    if op.kind == "Divide":
        return wanted.choice(DIVISORS) if wanted.use.port else wanted.halves(4)
    if op.kind == "Multiply" and wanted.inner:
        return wanted.choice(FACTORS)
    if wanted.use.port == 0:
        return wanted.halves(4)
    return wanted.integers(-8, 8)


def _softmax(wanted: Wanted) -> Array:
    if wanted.use.op.kind.endswith("Backward"):
        # Signs with which nothing cancels in the sum over the axis.
        values = wanted.integers(0, 7)
        gradient = wanted.use.name == "diff_dst"
        negative = gradient == wanted.use.op.kind.startswith("Log")
        return (-values if negative else values) / (1 if gradient else 8)
    values = wanted.integers(-6, 2)
    axis = int(number(wanted.use.op, "axis", 1.0))
    if wanted.alone and wanted.shape:
        rows = [1 if a == axis % len(wanted.shape) else d for a, d in enumerate(wanted.shape)]
        values = values + evolve(wanted, shape=tuple(rows)).choice((-OVERFLOWING, 0.0, OVERFLOWING))
    return values


def _normalization(wanted: Wanted) -> Array:
    if wanted.use.name == "diff_dst":
        return np.where(wanted.uniform() < 0.5, wanted.integers(-2, 2), 0.0)
    if wanted.use.port == 0 and not wanted.use.op.kind.endswith("Backward"):
        return _balanced(wanted)
    return wanted.halves(4)


def _balanced(wanted: Wanted) -> Array:
    """Data whose mean is a multiple of a half wherever the op takes one, so that means and variances are exact."""
    op, shape = wanted.use.op, list(wanted.shape)
    if not shape or 0 in shape:
        return wanted.halves(4)
    axes = list(range(len(shape)))
    channel = axes[1 if op.attributes.get("data_format") == "NCX" and len(shape) > 1 else -1]
    match op.kind:
        case "LayerNorm" | "RMSNorm":
            order, rows = axes, math.prod(shape[: axes[int(number(op, "begin_norm_axis", -1.0))]])
        case "GroupNorm":
            order = [0, channel, *(a for a in axes if a not in (0, channel))]
            rows = shape[0] * int(number(op, "groups", 1.0))
        case _:
            order = [channel, *(a for a in axes if a != channel)]
            rows = shape[channel]
    count = math.prod(shape) // rows
    half = evolve(wanted, shape=(rows, count // 2)).halves(4)
    values = np.concatenate([half, np.zeros((rows, count % 2)), -half[:, ::-1]], axis=1)
    values = values + evolve(wanted, shape=(rows, 1)).halves(1)
    return values.reshape([shape[a] for a in order]).transpose(np.argsort(order))


def _pooling(wanted: Wanted) -> Array:
    return wanted.integers(-32, 32)


def _reduction(wanted: Wanted) -> Array:
    if wanted.use.op.kind in ("ReduceMax", "ReduceMin"):
        return wanted.integers(-256, 256)
    if wanted.use.op.kind != "ReduceProd":
        return wanted.integers(-8, 8)
    # A product of many: powers of two that stay within the range of any type, and ones.
    terms = math.prod(wanted.shape) // max(1, math.prod(wanted.use.op.outputs[0].dims))
    rare = wanted.uniform() < min(1.0, 10 / max(1, terms))
    return np.where(rare, wanted.choice((-2.0, -0.5, 0.5, 2.0)), 1.0)


def _interpolate(wanted: Wanted) -> Array:
    return wanted.integers(0, 16) / 4


def _prelu(wanted: Wanted) -> Array:
    return wanted.choice((-1.0, *FACTORS, 2.0)) if wanted.use.name == "slope" else wanted.halves(4)


FAMILIES: dict[str, Family] = {
    "binary": _binary,
    "eltwise": _eltwise,
    "interpolate": _interpolate,
    "normalization": _normalization,
    "pooling": _pooling,
    "prelu": _prelu,
    "reduction": _reduction,
    "softmax": _softmax,
}
"""How the data of each family is made; small integers elsewhere."""
