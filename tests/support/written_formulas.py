"""Formulas of many ops, drawn at random, for ONNX, for torch, and for numbers of 120 digits: what they mean exactly.

A formula is a function of `m`, that has the ops, and of x. Numbers in it go through `m.number`, which makes them what
the type can hold: what is compared afterwards has the same constants. Beside the known spellings of functions there are
guards, and numbers that are a little off.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import mpmath
import numpy as np
from mpmath import mpf

mpmath.mp.dps = 120
ROOT, SCALE, CUBE = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715
FAR = mpf(10) ** 5
"""Where exponentials are 0, or nothing that is looked at."""
TAILS = (1e-45, 1e-38, 1e-7, 1e-3, 0.3, 1.0, 2.9, 6.5, 17.0, 110.0, 700.0, 1e10, 3e38)
POINTS = (*(-x for x in TAILS[::-1]), 0.0, *TAILS)


def exponential(x):
    if x > FAR:
        raise OverflowError
    return mpmath.exp(x) if x > -FAR else mpf(0)


def sigmoid(x):
    small = exponential(-abs(x))
    return (1 if x >= 0 else small) / (1 + small)


def softplus(x):
    return mpmath.log1p(exponential(x)) if x < FAR else x


def tanh(x):
    return mpmath.tanh(x) if abs(x) < 1e4 else mpmath.sign(x)


def erf(x):
    """Near −1 without the digits that 1 takes."""
    return mpmath.erf(x) if abs(x) < 50 else mpmath.sign(x)


def logarithm(x):
    if x <= 0:
        raise ValueError(f"the logarithm of {x}")
    return mpmath.log(x)


def clip(x, low, high):
    return min(max(x, mpf(low)), mpf(high))


class Exact:
    """The ops on numbers of 120 digits."""

    exp, sigmoid, softplus, tanh, erf = map(staticmethod, (exponential, sigmoid, softplus, tanh, erf))
    log, sqrt, absolute = map(staticmethod, (logarithm, mpmath.sqrt, abs))
    larger, smaller = map(staticmethod, (max, min))

    def __init__(self, rounded, off=0.0):
        self.rounded, self.off = rounded, off

    def number(self, value, meant=False):
        """Args: meant: whether it stands for a number that the type does not hold."""
        value = mpf(float(self.rounded(value)))
        return value * (1 + mpf(self.off)) if meant else value

    def clip(self, x, low, high):
        return clip(x, self.number(low), self.number(high))

    def positive(self, x, a, b):
        return a if x > 0 else b


@dataclass(frozen=True)
class Known:
    """A spelling of a function.

    Attributes:
        formula: of `m`, x, and a function that each of its constants goes through, by its number.
        constants: how many there are.
    """

    formula: Callable[..., object]
    constants: int = field(default=0)


def meant(m, value):
    return m.number(value, meant=True)


KNOWN = {
    "gelu": Known(lambda m, x, c: x * (m.erf(x / c(0, ROOT, True)) + c(1, 1)) * c(2, 0.5), 3),
    "gelu, half inside": Known(
        lambda m, x, c: x * (c(0, 0.5) + c(1, 0.5) * m.erf(x * c(2, 1 / ROOT, True))), 3
    ),
    "gelu, tanh": Known(
        lambda m, x, c: (
            c(0, 0.5) * x * (c(1, 1) + m.tanh(c(2, SCALE, True) * (x + c(3, CUBE, True) * x * x * x)))
        ),
        4,
    ),
    "gelu, factored": Known(
        lambda m, x, c: (
            c(0, 0.5)
            * (x * (c(1, 1) + m.tanh(x * c(2, SCALE, True) * (c(1, 1) + c(3, CUBE, True) * (x * x)))))
        ),
        4,
    ),
    "hard swish": Known(lambda m, x, c: x * m.clip(x + c(0, 3), 0, 6) / c(1, 6), 2),
    "hard swish, times": Known(lambda m, x, c: x * m.clip(x + c(0, 3), 0, 6) * c(1, 1 / 6, True), 2),
    "hard sigmoid": Known(lambda m, x, c: m.clip(x + c(0, 3), 0, 6) / c(1, 6), 2),
    "mish": Known(lambda m, x, c: x * m.tanh(m.log(c(0, 1) + m.exp(x))), 1),
    "mish, of softplus": Known(lambda m, x, c: x * m.tanh(m.softplus(x)) * c(0, 1), 1),
    "softplus": Known(lambda m, x, c: m.log(m.exp(x) + c(0, 1)), 1),
    "softplus, steep": Known(lambda m, x, c: m.log(c(0, 1) + m.exp(c(1, 3) * x)) / c(2, 3), 3),
    "sigmoid": Known(lambda m, x, c: c(0, 1) / (c(1, 1) + m.exp(-x)), 2),
    "sigmoid, op": Known(lambda m, x, c: m.sigmoid(c(0, 1) * x), 1),
    "tanh": Known(lambda m, x, c: c(0, 2) * m.sigmoid(c(1, 2) * x) - c(2, 1), 3),
    "leaky": Known(lambda m, x, c: m.larger(x, c(0, 0.125) * x), 1),
    "elu": Known(lambda m, x, c: m.positive(x, x, c(0, 0.5) * (m.exp(x) - c(1, 1))), 2),
    "absolute": Known(lambda m, x, c: m.absolute(x) * c(0, 1), 1),
    "square": Known(lambda m, x, c: (x * c(0, 1)) * x, 1),
    "clamp": Known(lambda m, x, c: m.clip(x, -2, 4), 0),
    "as it is": Known(lambda m, x, c: x, 0),
}
"""What is recognised where its constants are what they should be."""

GUARDS = {
    "nothing": lambda m, y: y,
    "plus 1e-7": lambda m, y: y + m.number(1e-7),
    "plus 1e-8": lambda m, y: m.number(1e-8) + y,
    "plus 1e-6": lambda m, y: y + m.number(1e-6),
    "plus 1e-30": lambda m, y: y + m.number(1e-30),
    "less 1e-7": lambda m, y: y - m.number(1e-7),
    "within 1e-7": lambda m, y: m.clip(y, 1e-7, 1 - 1e-7),
    "within 1e-2": lambda m, y: m.clip(y, 0.01, 0.99),
    "at least 1e-12": lambda m, y: m.larger(y, m.number(1e-12)),
    "at most 3e4": lambda m, y: m.smaller(y, m.number(3e4)),
    "times 0.99": lambda m, y: y * m.number(0.99),
    "one less": lambda m, y: m.number(1) - y,
    "times 1 + 1e-3": lambda m, y: y * m.number(1.001),
}
OUTER = {
    "nothing": lambda m, y: y,
    "log": lambda m, y: m.log(y),
    "inverse": lambda m, y: m.number(1) / y,
    "root": lambda m, y: m.sqrt(m.absolute(y)),
    "product": lambda m, y: y * y,
}
AWAY = ("not", "1 %", "0.1 %", "1 ulp")


@dataclass(frozen=True)
class Drawn:
    """A formula.

    Attributes:
        layers: names from `KNOWN`, the number of a constant that is off in each, and how; guards; what is around.
        ulp: of the type.
    """

    layers: tuple[tuple[str, int, str, str, str], ...]
    ulp: float

    def __call__(self, m, x):
        for known, place, away, guard, outer in self.layers:
            x = self._known(m, x, known, place, away)
            x = OUTER[outer](m, GUARDS[guard](m, x))
        return x

    def _known(self, m, x, known, place, away):
        def constant(number, value, meant=False):
            factor = {"1 %": 1.01, "0.1 %": 1.001, "1 ulp": 1 + self.ulp}.get(away, 1.0)
            return m.number(value * factor if number == place else value, meant=meant)

        return KNOWN[known].formula(m, x, constant)


def drawn(random, ulp):
    """One or two functions, with guards and what amplifies them."""
    layers = []
    for _ in range(random.choice((1, 1, 2))):
        known = random.choice(sorted(KNOWN))
        place = random.randrange(max(KNOWN[known].constants, 1))
        away = random.choice(AWAY)
        layers.append((known, place, away, random.choice(sorted(GUARDS)), random.choice(sorted(OUTER))))
    return Drawn(tuple(layers), ulp)


def value_of(function, *arguments):
    """A number, or None where there is none."""
    try:
        found = function(*arguments)
    except (ZeroDivisionError, ValueError, OverflowError):
        return None
    return found if isinstance(found, mpf) and mpmath.isfinite(found) else None


# --- what a graph means --------------------------------------------------------------------------------------


def _gelu(x, a):
    if a["mode"] == "gelu_erf":
        return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2 if abs(x) < 1e4 else max(x, mpf(0))
    inner = mpmath.sqrt(2 / mpmath.pi) * (x + mpf(CUBE) * x**3)
    return x * sigmoid(2 * inner)


FUNCTIONS = {
    "Abs": lambda v, a: abs(v[0]),
    "Add": lambda v, a: v[0] + v[1],
    "Clamp": lambda v, a: clip(v[0], a["min"], a["max"]),
    "Divide": lambda v, a: v[0] / v[1],
    "Elu": lambda v, a: v[0] if v[0] > 0 else mpf(a["alpha"]) * mpmath.expm1(max(v[0], -FAR)),
    "Exp": lambda v, a: exponential(v[0]),
    "GELU": lambda v, a: _gelu(v[0], a),
    "GreaterEqual": lambda v, a: v[0] >= v[1],
    "HardSigmoid": lambda v, a: clip(mpf(a["alpha"]) * v[0] + mpf(a["beta"]) * (1 + mpf(a["off"])), 0, 1),
    "HardSwish": lambda v, a: v[0] * clip(v[0] / 6 + mpf(0.5), 0, 1),
    "HostErf": lambda v, a: erf(v[0]),
    "HostGreater": lambda v, a: v[0] > v[1],
    "LeakyReLU": lambda v, a: v[0] if v[0] >= 0 else mpf(a["alpha"]) * v[0],
    "Log": lambda v, a: logarithm(v[0]),
    "Maximum": lambda v, a: max(v),
    "Minimum": lambda v, a: min(v),
    "Mish": lambda v, a: v[0] * tanh(softplus(v[0])),
    "Multiply": lambda v, a: v[0] * v[1],
    "Pow": lambda v, a: v[0] ** mpf(a["beta"]),
    "ReLU": lambda v, a: max(v[0], mpf(0)),
    "Reciprocal": lambda v, a: 1 / v[0],
    "Select": lambda v, a: v[1] if v[0] else v[2],
    "Sigmoid": lambda v, a: sigmoid(v[0]),
    "SoftPlus": lambda v, a: softplus(mpf(a["beta"]) * v[0]) / mpf(a["beta"]),
    "Sqrt": lambda v, a: mpmath.sqrt(v[0]),
    "Square": lambda v, a: v[0] ** 2,
    "Subtract": lambda v, a: v[0] - v[1],
    "Tanh": lambda v, a: tanh(v[0]),
    "TypeCast": lambda v, a: v[0],
}


def meaning_of(graph, x, off=0.0):
    """The one output of an imported graph at a number, without any rounding.

    Args:
        off: by which part of themselves offsets of lines are moved.
    """
    known = {graph.inputs[0].id: x}
    for tensor, array in zip(graph.constant_tensors, graph.constants.values(), strict=True):
        known[tensor.id] = mpf(float(np.asarray(array).astype(np.float64).reshape(-1)[0]))
    for op in graph.ops:
        known[op.outputs[0].id] = FUNCTIONS[op.kind](
            [known[t.id] for t in op.inputs], {**op.attributes, "off": off}
        )
    return known[graph.outputs[0].id]
