"""Elementwise ops in double precision: the meaning of what a model wrote, at single points."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....ops.attributes import Attributes

Array = NDArray[Any]
Evaluate = Callable[[Sequence[Array], Attributes], Array]

_ERF = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(−x)), without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def softplus(x: Array) -> Array:
    """Log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def erf(x: Array) -> Array:
    """The error function."""
    return np.asarray(_ERF(x))


def _unary(function: Callable[[Array], Array]) -> Evaluate:
    return lambda values, _: function(values[0])


def _binary(function: Callable[[Array, Array], Any]) -> Evaluate:
    return lambda values, _: np.asarray(function(values[0], values[1]))


EVALUATED: Mapping[str, Evaluate] = {
    "Abs": _unary(np.abs),
    "Clamp": lambda v, a: np.clip(v[0], a.real("min"), a.real("max")),
    "Exp": _unary(np.exp),
    "HardSigmoid": lambda v, a: np.clip(a.real("alpha") * v[0] + a.real("beta"), 0, 1),
    "HostErf": _unary(erf),
    "HostSign": _unary(np.sign),
    "LeakyReLU": lambda v, a: np.where(v[0] >= 0, v[0], a.real("alpha") * v[0]),
    "Log": _unary(np.log),
    "Pow": lambda v, a: np.power(v[0], a.real("beta")),
    "ReLU": _unary(lambda x: np.maximum(x, 0)),
    "Reciprocal": _unary(lambda x: 1 / x),
    "Sigmoid": _unary(sigmoid),
    "SoftPlus": lambda v, a: softplus(a.real("beta") * v[0]) / a.real("beta"),
    "Sqrt": _unary(np.sqrt),
    "Square": _unary(np.square),
    "Tanh": _unary(np.tanh),
    "TypeCast": _unary(lambda x: x),
    "Add": _binary(np.add),
    "Divide": _binary(np.divide),
    "Maximum": _binary(np.maximum),
    "Minimum": _binary(np.minimum),
    "Multiply": _binary(np.multiply),
    "SquaredDifference": _binary(lambda a, b: np.square(a - b)),
    "Subtract": _binary(np.subtract),
    "GreaterEqual": _binary(np.greater_equal),
    "HostGreater": _binary(np.greater),
    "Select": lambda v, _: np.where(v[0], v[1], v[2]),
}
"""Kind → the function, of arrays in f64, or of truths."""
