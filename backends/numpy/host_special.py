"""NumPy kernels of the host family: functions that NumPy lacks, inverse of the error function and log of gamma."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from .kernels import Array, kernel, store, wide

_MIDDLE = (
    (
        *(2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987),
        *(13731.69376550946, 1971.5909503065513, 133.14166789178438, 3.3871328727963665),
    ),
    (
        *(5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597),
        *(5394.196021424751, 687.1870074920579, 42.31333070160091, 1.0),
    ),
)
_NEAR = (
    (
        *(0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684),
        *(3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835),
    ),
    (
        *(1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008),
        *(0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0),
    ),
)
_FURTHER = (
    (
        *(2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124),
        *(0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103),
    ),
    (
        *(2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133),
        *(0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0),
    ),
)
"""Wichura's algorithm AS 241: numerator and denominator, from the highest power on, in the middle, near it and far."""
_MIDDLE_END, _NEAR_END = 0.425, 5.0
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""Bernoulli's numbers B₂, B₄, … by 2, 4, …: what a sum by Euler and Maclaurin has behind its integral."""
_FAR = 15
"""From where on the series is right to the last digit."""


def _quotient(by: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    return np.polyval(by[0], x) / np.polyval(by[1], x)


def erf_inv(y: Array) -> Array:
    """The inverse of the error function, in f64."""
    half = y / 2
    middle = half * _quotient(_MIDDLE, _MIDDLE_END**2 - np.minimum(half**2, _MIDDLE_END**2))
    away = np.sqrt(-np.log((1 - np.minimum(np.abs(y), 1)) / 2))
    away = np.where(np.isinf(away), _NEAR_END, away)
    tail = np.where(away <= _NEAR_END, _quotient(_NEAR, away - 1.6), _quotient(_FURTHER, away - _NEAR_END))
    found = np.where(np.abs(half) <= _MIDDLE_END, middle, np.copysign(tail, y)) / math.sqrt(2)
    found = np.where(np.abs(y) == 1, np.copysign(np.inf, y), found)
    return np.where(np.abs(y) <= 1, found, np.nan)


def _log_gamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):  # at a pole, and beyond all numbers
        return math.inf


_LOG_GAMMA = np.vectorize(_log_gamma, otypes=[np.float64])
"""One by one: formulas lose digits where the logarithm is near 0."""


def polygamma(order: int, x: Array) -> Array:
    """A derivative of the digamma function, in f64."""
    low = x < 0.5  # by the function on the other side, and the derivative of π·cot(π·x)
    right = _polygamma_right(order, np.where(low, 1 - x, x))
    with np.errstate(all="ignore"):
        turn = np.where(low, x - np.rint(x), 0.25) * math.pi
        cot = 1 / np.tan(turn)
        slopes = np.polynomial.Polynomial([0.0, 1.0])
        for _ in range(order):
            slopes = slopes.deriv() * np.polynomial.Polynomial([-1.0, 0.0, -1.0])
        reflected = (-1) ** order * right - math.pi ** (order + 1) * slopes(cot)
    found = np.where(low, reflected, right)
    pole = (x <= 0) & (x == np.floor(x))
    at_pole = np.copysign(np.inf, -x) if order == 0 else np.full_like(x, np.inf if order % 2 else -np.inf)
    return np.where(pole, np.where((x != 0) & (order == 0), np.nan, at_pole), found)


def _polygamma_right(order: int, x: Array) -> Array:
    """The same from 1/2 on: a sum of the first terms, and a series behind them."""
    power, found = order + 1, np.zeros_like(x)
    for _ in range(_FAR):
        near = x < _FAR
        found = found + np.where(near, x**-power, 0)
        x = np.where(near, x + 1, x)
    if order == 0:
        rest = sum((b * x ** (-2 * n) for n, b in enumerate(_SERIES, 1)), 0.5 / x)
        return np.log(x) - rest - found
    rest = x ** (1 - power) / (power - 1) + 0.5 * x**-power
    for n, b in enumerate(_SERIES, 1):  # B₂ₙ / (2n)! · p · (p + 1) · … · (p + 2n − 2)
        rest = rest + b / math.factorial(2 * n - 1) * math.prod(range(power, power + 2 * n - 1)) * x ** (
            1 - power - 2 * n
        )
    return (-1) ** power * math.factorial(order) * (found + rest)


@kernel("HostErfInv", "HostLogGamma", "HostPolygamma")
def special(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src), in f64, rounded once."""
    x = wide(inputs[0]).astype(np.float64)
    if not x.size:
        return
    with np.errstate(all="ignore"):
        if op.kind == "HostErfInv":
            made = erf_inv(x)
        elif op.kind == "HostLogGamma":
            made = np.asarray(_LOG_GAMMA(x))
        else:
            made = polygamma(op.attributes.integer("order"), x)
        store(outputs[0], made)
