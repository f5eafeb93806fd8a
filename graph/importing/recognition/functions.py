"""What function a cone is: by its form, however it is spelled, and by its constants.

A cone becomes a sum (`terms`), which is held against those of the functions that there are ops for. Numbers are what
they are, or, where a function has a number that no type holds, as √2, the one nearest to it in their type: what is
off by 1 ‰, or has 10⁻⁷ added to it as a guard, is another function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ....ops.attributes import Attributes
from ....ops.data_types import DataType
from ....ops.records import frozen
from ...runtime.arrays import numpy_type
from .cones import Operand, Structure, constants_of
from .terms import (
    ONE,
    Product,
    Sum,
    Unreadable,
    X,
    added,
    alike,
    applied,
    chosen,
    clipped,
    inverse,
    larger,
    logarithm,
    negative,
    number,
    powers,
    same,
)

NARROW: Mapping[str, int] = {"bf16": 0, "f16": 1, "f32": 2, "f64": 3}
"""Data types by how exactly they tell numbers apart."""
ROUNDING: Mapping[str, float] = {"f32": 2.0**-23, "f64": 1e-9}
"""How far a constant of a type may be from the number that is meant, beside the nearest one: exporters compute
1 / √2 in f32, and write ten digits."""
ROOT, SCALE, CUBE = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715


@frozen
class FunctionOp:
    """An op of one tensor.

    Attributes:
        kind: of the op.
        attributes: by name.
    """

    kind: str
    attributes: tuple[tuple[str, float | str], ...] = ()


def function_of(structure: Structure) -> FunctionOp | None:
    """The op that computes what a cone does, or None."""
    types = [node.data_type for node in structure.nodes]
    if types[0] not in NARROW or any(t not in NARROW and t != "boolean" for t in types):
        return None
    if any(NARROW[t] < NARROW[types[0]] for t in types if t != "boolean"):
        return None  # an inner rounding that the model asks for
    if not all(math.isfinite(value) for value, _ in constants_of(structure)):
        return None
    for meant, matches in MATCHES:
        try:
            total = _Reading(meant).sum_of(structure)
        except Unreadable:
            continue
        found = next((one for match in matches if (one := match(total)) is not None), None)
        if found is not None:
            return found
    return None


# --- from a cone to a sum ----------------------------------------------------------------------------------

Read = Callable[[Sequence[Sum], Attributes], Sum]

UNARY: Mapping[str, Read] = {
    "Abs": lambda v, _: applied("abs", v[0]),
    "Clamp": lambda v, a: clipped(v[0], a.real("min"), a.real("max")),
    "Exp": lambda v, _: applied("exp", v[0]),
    "HostErf": lambda v, _: applied("erf", v[0]),
    "Log": lambda v, _: logarithm(v[0]),
    "Pow": lambda v, a: powers(v[0], a.real("beta")),
    "ReLU": lambda v, _: clipped(v[0], 0.0, math.inf),
    "Reciprocal": lambda v, _: inverse(v[0]),
    "Sigmoid": lambda v, _: applied("sigmoid", v[0]),
    "Square": lambda v, _: v[0] * v[0],
    "Tanh": lambda v, _: applied("tanh", v[0]),
    "TypeCast": lambda v, _: v[0],
}
BINARY: Mapping[str, Read] = {
    "Add": lambda v, _: added(v[0], v[1]),
    "Divide": lambda v, _: v[0] * inverse(v[1]),
    "Maximum": lambda v, _: larger(v),
    "Multiply": lambda v, _: v[0] * v[1],
    "Subtract": lambda v, _: added(v[0], negative(v[1])),
}
BOUNDS = ("Maximum", "Minimum")
CONDITIONS = ("GreaterEqual", "HostGreater")
READ = frozenset({*UNARY, *BINARY, *BOUNDS, *CONDITIONS, "HardSigmoid", "SoftPlus", "Select"})
"""Kinds that a known function may be written in."""


class _Reading:
    """A cone as a sum.

    Args:
        meant: numbers that constants may stand for, with any power of two as a factor.
    """

    def __init__(self, meant: Sequence[float]) -> None:
        self._meant = meant
        self._sums: dict[int, Sum] = {}
        self._positive: set[int] = set()

    def sum_of(self, structure: Structure) -> Sum:
        """What the cone makes of x.

        Raises:
            Unreadable: no known function is written so.
        """
        self._sums[structure.source] = X
        for node in reversed(structure.nodes):
            attributes = Attributes(dict(node.attributes))
            if node.kind in CONDITIONS:
                self._condition(node.operands, node.made)
            else:
                self._sums[node.made] = self._made(node.kind, node.operands, attributes)
        return self._sums[0]

    def _made(self, kind: str, operands: Sequence[Operand], attributes: Attributes) -> Sum:
        if kind == "Select":
            if operands[0] not in self._positive:
                raise Unreadable
            return chosen(*map(self._operand, operands[1:]))
        if kind in BOUNDS:
            for one, other in (operands, operands[::-1]):
                if isinstance(one, int) and not isinstance(other, int):
                    low, high = (other[0], math.inf) if kind == "Maximum" else (-math.inf, other[0])
                    return clipped(self._operand(one), low, high)
        values = [self._operand(one) for one in operands]
        if kind == "HardSigmoid":
            line = values[0] * self._number(attributes.real("alpha"), "f32")
            return clipped(line + self._number(attributes.real("beta"), "f32"), 0.0, 1.0)
        if kind == "SoftPlus":
            beta = attributes.real("beta")
            steep = applied("softplus", values[0] * number(beta))
            return steep * number(1 / beta)
        read = UNARY.get(kind) or BINARY.get(kind)
        if read is None:
            raise Unreadable
        return read(values, attributes)

    def _condition(self, operands: Sequence[Operand], made: int) -> None:
        """X > 0, or x ≥ 0."""
        first, second = operands
        if isinstance(second, int) or second[0] != 0 or self._operand(first) != X:
            raise Unreadable
        self._positive.add(made)

    def _operand(self, operand: Operand) -> Sum:
        if not isinstance(operand, int):
            return self._number(*operand)
        if operand not in self._sums:
            raise Unreadable
        return self._sums[operand]

    def _number(self, value: float, data_type: str) -> Sum:
        return number(next((m for one in self._meant if (m := _meant(value, data_type, one))), value))


def _meant(value: float, data_type: str, exact: float) -> float | None:
    """A number times the power of two by which it is nearest to a constant, if it is the number that is meant."""
    if value == 0 or data_type not in NARROW:
        return None
    near = math.copysign(math.ldexp(math.frexp(exact)[0], math.frexp(value)[1]), value)
    if float(np.asarray(near, numpy_type(DataType(data_type)))) == value:
        return near
    return near if abs(value - near) <= ROUNDING.get(data_type, 0.0) * abs(near) else None


# --- from a sum to a function ------------------------------------------------------------------------------


def _f32(value: float) -> float:
    return float(np.float32(value))


def _written(kind: str, *spellings: Sum, **attributes: str) -> Callable[[Sum], FunctionOp | None]:
    """A function without numbers to choose, by all its spellings that are different sums."""
    function = FunctionOp(kind, tuple(attributes.items()))
    return lambda total: function if any(alike(total, one) for one in spellings) else None


def _clip(total: Sum) -> FunctionOp | None:
    found = total.function
    if found is None or found[1] != 1 or found[0].name != "clip" or found[0].of != X:
        return None
    low, high = found[0].numbers
    if (low, high) == (0, math.inf):
        return FunctionOp("ReLU")
    bounded = math.isfinite(low) and math.isfinite(high) and low < high
    return FunctionOp("Clamp", (("min", low), ("max", high))) if bounded else None


def _from_zero_to_one(term: Product, coefficient: float) -> tuple[float, float] | None:
    """A and b of a term c · clip(a·x + b, 0, 1 / c), as if c were 1."""
    (function,) = term.functions if len(term.functions) == 1 else (None,)
    if function is None or function.name != "clip" or function.numbers[0] != 0:
        return None
    line = function.of.line
    if line is None or not same(function.numbers[1] * coefficient, 1):
        return None
    return line[0] * coefficient, line[1] * coefficient


def _hard(total: Sum) -> FunctionOp | None:
    """HardSigmoid, and x · HardSigmoid with α = 1/6 and β = 1/2, which is HardSwish."""
    ((term, coefficient), *more) = total.terms
    line = None if more else _from_zero_to_one(term, coefficient)
    if line is None:
        return None
    if term.power == 0:
        return FunctionOp("HardSigmoid", (("alpha", _f32(line[0])), ("beta", _f32(line[1]))))
    swish = term.power == 1 and same(line[0], 1 / 6) and same(line[1], 1 / 2)
    return FunctionOp("HardSwish") if swish else None


def _softplus(total: Sum) -> FunctionOp | None:
    found = total.function
    line = found[0].of.line if found is not None and found[0].name == "softplus" else None
    if found is None or line is None or line[1] or line[0] <= 0 or not same(line[0] * found[1], 1):
        return None
    return FunctionOp("SoftPlus", (("beta", _f32(line[0])),))


RELU, BELOW = applied("clip", X, 0.0, math.inf), applied("clip", X, -math.inf, 0.0)


def _leaky_relu(total: Sum) -> FunctionOp | None:
    """LeakyReLU, also as max(x, 0) + α · min(x, 0)."""
    found, terms = total.function, dict(total.terms)
    if found is not None and found[0].name == "leaky" and found[1] == 1:
        return FunctionOp("LeakyReLU", (("alpha", found[0].numbers[0]),))
    if len(terms) == 2 and terms.pop(RELU.terms[0][0], None) == 1:
        ((term, alpha),) = terms.items()
        if term == BELOW.terms[0][0] and 0 < alpha < 1:
            return FunctionOp("LeakyReLU", (("alpha", alpha),))
    return None


def _elu(total: Sum) -> FunctionOp | None:
    """Elu, also as max(x, 0) + α · (exp(min(x, 0)) − 1) and max(x, 0) + min(α · (exp(x) − 1), 0)."""
    found, terms = total.function, dict(total.terms)
    if found is not None and found[0].name == "elu" and found[1] == 1:
        return FunctionOp("Elu", (("alpha", found[0].numbers[0]),))
    alpha = -terms.get(Product(), 0.0)
    if terms.pop(RELU.terms[0][0], None) != 1 or not terms:
        return None
    if alpha > 0 and alike(Sum.of(terms), (applied("exp", BELOW) + number(-1.0)) * number(alpha)):
        return FunctionOp("Elu", (("alpha", alpha),))
    inner = Sum.of(terms).function
    if inner is None or inner[1] != 1 or inner[0].name != "clip" or inner[0].numbers != (-math.inf, 0):
        return None
    alpha = -dict(inner[0].of.terms).get(Product(), 0.0)
    if alpha > 0 and alike(inner[0].of, (applied("exp", X) + number(-1.0)) * number(alpha)):
        return FunctionOp("Elu", (("alpha", alpha),))
    return None


HALF, TWO = number(0.5), number(2.0)
INNER = number(SCALE) * (X + number(CUBE) * X * X * X)

Match = Callable[[Sum], FunctionOp | None]
MATCHES: tuple[tuple[tuple[float, ...], tuple[Match, ...]], ...] = (
    (
        (),
        (
            _clip,
            _hard,
            _softplus,
            _leaky_relu,
            _elu,
            _written("Mish", X * applied("tanh", applied("softplus", X))),
            _written("Sigmoid", applied("sigmoid", X)),
            _written("Tanh", applied("tanh", X), TWO * applied("sigmoid", TWO * X) + number(-1.0)),
            _written("Square", X * X),
            _written("Abs", applied("abs", X)),
        ),
    ),
    ((ROOT,), (_written("GELU", HALF * X * (ONE + applied("erf", X * number(1 / ROOT))), mode="gelu_erf"),)),
    (
        (SCALE, CUBE, SCALE * CUBE),
        (
            _written(
                "GELU",
                HALF * X * (ONE + applied("tanh", INNER)),
                X * applied("sigmoid", TWO * INNER),
                mode="gelu_tanh",
            ),
        ),
    ),
    ((1 / 3,), (_hard,)),
)
"""What constants may stand for, and the functions that have such."""
