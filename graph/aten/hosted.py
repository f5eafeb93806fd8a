"""ATen ops that oneDNN Graph has none for: on the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ...ops.attributes import S64_MAX, S64_MIN
from ..importing.expressions import FLOATS, Operand, cast, cut, operands
from ..importing.hosted import TRUTH, any_of, compared, cumulative, extreme, gathered, indexed, logical
from ..importing.tables import Entries
from ..importing.translation import Translation, Value, dtype_of, shape_of, sizes
from .elementwise import divided, of_fractions, promoted, promoted_fractions, rounded
from .schema import Translate, cast_if_asked

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""


COMPARISONS = {
    "eq": "Equal",
    "ne": "NotEqual",
    "gt": "Greater",
    "ge": "GreaterEqual",
    "lt": "Less",
    "le": "LessEqual",
}
LOGICAL = {"and": "And", "or": "Or", "xor": "Xor"}
OF_FRACTIONS = {
    name: f"Host{name.capitalize()}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "expm1"),
        *("log10", "log1p", "log2", "sin", "sinh", "tan"),
    )
}
"""Functions that make floating-point numbers of integers and truths."""
ROUNDINGS = {"ceil": "HostCeil", "floor": "HostFloor", "trunc": "HostTrunc"}
TESTS = {"isinf": "HostIsInf", "isnan": "HostIsNaN"}
"""Of what integers never are."""


def _compared(t: Translation, a: Value, b: Operand, *, kind: str) -> Value:
    return compared(t, kind, *promoted(t, a, b))


def _bits(t: Translation, a: Value, b: Operand, *, kind: str) -> Value:
    return logical(t, kind, *promoted(t, a, b))


def _truths(t: Translation, a: Value, b: Value, *, kind: str) -> Value:
    return logical(t, kind, cast(t, a, TRUTH), cast(t, b, TRUTH))


def _tested(t: Translation, x: Value, *, kind: str) -> Value:
    return t.op(kind, x) if dtype_of(x) in FLOATS else np.zeros(sizes(x), np.bool_)


@OPS.enter("bitwise_not")
def _opposite(t: Translation, x: Value) -> Value:
    return t.op("HostNot", x)


@OPS.enter("sign")
def _sign(t: Translation, x: Value) -> Value:
    return x if dtype_of(x) == TRUTH else t.op("HostSign", x)


for _name, _kind in COMPARISONS.items():
    OPS.add({f"{_name}.{overload}": partial(_compared, kind=_kind) for overload in ("Tensor", "Scalar")})
for _name, _kind in LOGICAL.items():
    for _overload in ("Tensor", "Scalar"):
        OPS.add({f"bitwise_{_name}.{_overload}": partial(_bits, kind=_kind)})
        OPS.add({f"__{_name}__.{_overload}": partial(_bits, kind=_kind)})
    OPS.add({f"logical_{_name}": partial(_truths, kind=_kind)})
OPS.add({name: partial(of_fractions, kind=kind) for name, kind in OF_FRACTIONS.items()})
OPS.add({name: partial(rounded, kind=kind) for name, kind in ROUNDINGS.items()})
OPS.add({name: partial(_tested, kind=kind) for name, kind in TESTS.items()})


@OPS.enter("logical_not")
def _logical_not(t: Translation, x: Value) -> Value:
    return t.op("HostNot", cast(t, x, TRUTH))


def _any_of(
    t: Translation, x: Value, axes: int | Sequence[int] | None = None, keep: bool = False, *, every: bool
) -> Value:
    found = any_of(t, x, [axes] if isinstance(axes, int) else axes or [], keep, every=every)
    return cast(t, found, dtype_of(x)) if dtype_of(x) == np.uint8 else found  # as torch has it of these alone


for _name, _every in (("any", False), ("all", True)):
    for _overload in ("default", "dim", "dims"):
        OPS.add({f"{_name}.{_overload}": partial(_any_of, every=_every)})


@OPS.enter("cumsum")
def _cumsum(t: Translation, x: Value, axis: int, dtype: object = None) -> Value:
    wide = dtype is None and dtype_of(x) not in FLOATS
    x = cast(t, x, np.dtype(np.int64)) if wide else cast_if_asked(t, x, dtype)
    return cumulative(t, x, axis) if shape_of(x) else x


@OPS.enter("atan2")
def _atan2(t: Translation, a: Value, b: Value) -> Value:
    return t.op("HostAtan2", *operands(t, *promoted_fractions(t, a, b)))


@OPS.enter("index.Tensor")
def _index(t: Translation, x: Value, indices: Sequence[Value | None]) -> Value:
    chosen: list[Value | None] = []
    for index in indices:
        if isinstance(index, np.ndarray) and index.dtype == TRUTH:  # constant: the numbers of those that hold
            chosen.extend(np.nonzero(index))
        else:
            chosen.append(index)
    return indexed(t, x, chosen)


@OPS.enter("gather")
def _gather(t: Translation, x: Value, axis: int, indices: Value, *_: object) -> Value:
    return gathered(t, x, axis, indices)


def _extreme(t: Translation, x: Value, axis: int | None = None, keep: bool = False, *, kind: str) -> Value:
    return cast(t, extreme(t, kind, x, axis if shape_of(x) else None, keep), np.dtype(np.int64))


OPS.add({f"arg{word}": partial(_extreme, kind=f"Arg{word.capitalize()}") for word in ("max", "min")})


@OPS.enter("flip")
def _flip(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    for axis in axes:
        x = cut(t, x, axis, S64_MAX, S64_MIN, -1)
    return x


@OPS.enter("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(t: Translation, a: Value, b: Operand, mode: str | None = None) -> Value:
    """A quotient, rounded down or towards zero where there is a mode."""
    if mode is None:
        return divided(t, a, b)
    first, second = promoted(t, a, b)
    # Not the floor of the quotient, which may have been rounded up to the next integer.
    return t.op("HostDivide", *operands(t, first, second), rounding="down" if mode == "floor" else "zero")


@OPS.enter("floor_divide")
def _floor_divide(t: Translation, a: Value, b: Operand) -> Value:
    return div_rounded(t, a, b, "floor")


@OPS.enter("remainder")
def _remainder(t: Translation, a: Operand, b: Operand) -> Value:
    return t.op("HostModulo", *operands(t, *promoted(t, a, b)))


@OPS.enter("fmod.Tensor", "fmod.Scalar")
def _fmod(t: Translation, a: Value, b: Operand) -> Value:
    return t.op("HostModulo", *operands(t, *promoted(t, a, b)), of_dividend=True)
