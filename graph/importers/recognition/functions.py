"""What function a cone is: by its values at many points, not by its spelling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from attrs import frozen

from ....ops.attributes import Attributes
from .cones import Structure, constants_of
from .evaluation import EVALUATED, Array, erf, sigmoid, softplus

CLOSE = 1e-6
"""How far values may be off, as a part of themselves or of what they were made from: a few roundings of f32."""
HALF: Mapping[str, float] = {"f16": 2.0**-9, "bf16": 2.0**-6}
"""The same for a function without parameters whose constants are given in these types."""
FINITE_UP_TO = 100.0
"""Where every spelling has a value; beyond it the exponentials of some overflow, and the function itself does not."""
NARROW: Mapping[str, int] = {"bf16": 0, "f16": 1, "f32": 2, "f64": 3}
"""Data types by how exactly they tell numbers apart."""


@frozen
class Function:
    """An op of one tensor.

    Attributes:
        kind: of the op.
        attributes: by name.
    """

    kind: str
    attributes: tuple[tuple[str, float | str], ...] = ()


def function_of(structure: Structure) -> Function | None:
    """The op that computes what a cone does, or None."""
    types = [node.data_type for node in structure.nodes]
    if types[0] not in NARROW or any(t not in NARROW and t != "boolean" for t in types):
        return None
    if any(NARROW[t] < NARROW[types[0]] for t in types if t != "boolean"):
        return None  # an inner rounding that the model asks for
    constants = constants_of(structure)
    if not all(math.isfinite(number) for number, _ in constants):
        return None
    coarse = max((HALF[t] for _, t in constants if t in HALF), default=CLOSE)
    points = _points([number for number, _ in constants])
    with np.errstate(all="ignore"):
        values = _values(structure, points)
        known = np.isfinite(values)
        if not known[np.abs(points) <= FINITE_UP_TO].all():
            return None
        x, y = points[known], values[known]
        best: tuple[float, Function] | None = None
        for function, made, close in _candidates(x, y, coarse):
            scale = np.maximum(np.abs(made), np.minimum(np.abs(x), 1))
            distance = float(np.max(np.abs(y - made) - close * scale))
            if distance <= 0:
                error = float(np.max(np.abs(y - made)))
                if best is None or error < best[0]:
                    best = error, function
    return None if best is None else best[1]


def _points(constants: list[float]) -> Array:
    """Numbers of both signs from small to large, and what is around the constants."""
    sizes = np.logspace(-6, 6, 481)
    own = np.unique(np.abs(np.asarray(constants, np.float64)))
    near = [own * factor for factor in (0.5, 0.999, 1, 1.001, 2)] + [own + 1e-3, np.abs(own - 1e-3)]
    positive = np.unique(np.concatenate([sizes, *near]))
    positive = positive[positive > 0]
    return np.concatenate([-positive[::-1], [0.0], positive])


def _values(structure: Structure, points: Array) -> Array:
    """The cone at these points."""
    made: dict[int, Array] = {structure.source: points}
    for node in reversed(structure.nodes):
        operands = [made[o] if isinstance(o, int) else np.asarray(o[0], np.float64) for o in node.operands]
        made[node.made] = EVALUATED[node.kind](operands, Attributes(dict(node.attributes)))
    return np.broadcast_to(np.asarray(made[0], np.float64), points.shape)


Candidate = tuple[Function, Array, float]
"""A function, its values, and how close the cone's must be."""


def _candidates(x: Array, y: Array, coarse: float) -> Iterator[Candidate]:
    for kind, attributes, function in PLAIN:
        yield Function(kind, attributes), function(x), coarse
    for derive in (_clamp, _hard_sigmoid, _leaky_relu, _elu, _softplus):
        found = derive(x, y)
        if found is not None:
            yield (*found, CLOSE)


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


PLAIN: tuple[tuple[str, tuple[tuple[str, float | str], ...], Callable[[Array], Array]], ...] = (
    ("GELU", (("mode", "gelu_erf"),), lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2)))),
    ("GELU", (("mode", "gelu_tanh"),), _gelu_tanh),
    ("HardSwish", (), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("Mish", (), lambda x: x * np.tanh(softplus(x))),
    ("Sigmoid", (), sigmoid),
    ("Tanh", (), np.tanh),
    ("ReLU", (), lambda x: np.maximum(x, 0)),
    ("Square", (), np.square),
    ("Abs", (), np.abs),
)
"""Functions without a parameter."""


def _f32(number: Any) -> float:
    return float(np.float32(number))


def _saturates(y: Array) -> bool:
    """Whether nothing changes any more at both ends."""
    return bool(y[0] == y[1] and y[-1] == y[-2])


def _clamp(x: Array, y: Array) -> tuple[Function, Array] | None:
    low, high = float(y[0]), float(y[-1])
    if not _saturates(y) or not low < high:
        return None
    return Function("Clamp", (("min", _f32(low)), ("max", _f32(high)))), np.clip(x, low, high)


def _hard_sigmoid(x: Array, y: Array) -> tuple[Function, Array] | None:
    between = np.flatnonzero((y > 0) & (y < 1))
    if not _saturates(y) or sorted((y[0], y[-1])) != [0, 1] or len(between) < 2:
        return None
    first, last = between[0], between[-1]
    alpha = (y[last] - y[first]) / (x[last] - x[first])
    beta = y[first] - alpha * x[first]
    function = Function("HardSigmoid", (("alpha", _f32(alpha)), ("beta", _f32(beta))))
    return function, np.clip(_f32(alpha) * x + _f32(beta), 0, 1)


def _leaky_relu(x: Array, y: Array) -> tuple[Function, Array] | None:
    alpha = _f32(y[0] / x[0])
    if not 0 < alpha < 1:
        return None
    return Function("LeakyReLU", (("alpha", alpha),)), np.where(x >= 0, x, alpha * x)


def _elu(x: Array, y: Array) -> tuple[Function, Array] | None:
    alpha = _f32(-y[0])
    if not alpha > 0 or y[0] != y[1]:
        return None
    return Function("Elu", (("alpha", alpha),)), np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _softplus(x: Array, y: Array) -> tuple[Function, Array] | None:
    at_zero = float(y[np.searchsorted(x, 0.0)])
    if not at_zero > 0:
        return None
    beta = _f32(math.log(2) / at_zero)
    return Function("SoftPlus", (("beta", beta),)), softplus(beta * x) / beta
