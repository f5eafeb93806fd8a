"""ATen ops in ops of oneDNN Graph: element by element, and products.

A translation takes the op's arguments in the order of ATen's schema, with defaults filled in, and returns its output or
its outputs; `TABLE` has one for each op, by its name with the overload or without.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from ..importing.expressions import (
    FLOATS,
    Operand,
    binary,
    cast,
    clamp,
    linear,
    matmul,
    multiplied,
    negative,
    operands,
    power,
    silu,
    where,
)
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes

Translate = Callable[..., "Value | Sequence[Value] | int"]
F = TypeVar("F", bound=Translate)
TABLE: dict[str, Translate] = {}
"""`aten.relu`, or `aten.mean.dim` where overloads differ → its translation."""
NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    f"torch.{name}": np.dtype(kind)
    for name, kind in {
        "float32": np.float32,
        "float64": np.float64,
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
        "int64": np.int64,
        "int32": np.int32,
        "int8": np.int8,
        "uint8": np.uint8,
        "bool": np.bool_,
    }.items()
}
"""NumPy's type of torch's, by the name of the latter."""


def aten(*names: str) -> Callable[[F], F]:
    """Enters a translation."""

    def enter(function: F) -> F:
        TABLE.update({f"aten.{name}": function for name in names})
        return function

    return enter


def numpy_type_of(dtype: object) -> np.dtype[Any]:
    """NumPy's type of a `torch.dtype`.

    Raises:
        Unmapped: there is none.
    """
    if str(dtype) not in NUMPY_TYPES:
        raise Unmapped(f"element type {dtype} has no counterpart")
    return NUMPY_TYPES[str(dtype)]


def typed(t: Translation, x: Value, dtype: object) -> Value:
    """The value in a `torch.dtype`; as it is for None."""
    return x if dtype is None else cast(t, x, numpy_type_of(dtype))


def _rank_of(value: Operand) -> int:
    """Truths, integers, floating point: the kind of numbers that an operand has."""
    if isinstance(value, bool):
        return 0
    if isinstance(value, int | float):
        return 1 if isinstance(value, int) else 2
    return 2 if dtype_of(value) in FLOATS else 0 if dtype_of(value) == np.bool_ else 1


def promoted(t: Translation, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Both operands, converted as torch does where their kinds of numbers, or their integers, differ."""
    first, second = _rank_of(a), _rank_of(b)
    if first < second:
        return _raised(t, a, b, second), b
    if second < first:
        return a, _raised(t, b, a, first)
    if isinstance(a, int | float) or isinstance(b, int | float) or first != 1:
        return a, b
    # Of two kinds of integers, one without axes adapts to the other.
    wide = [dtype_of(x) for x in (a, b) if shape_of(x)] or [dtype_of(a), dtype_of(b)]
    dtype = np.promote_types(wide[0], wide[-1])
    return cast(t, a, dtype), cast(t, b, dtype)


def _raised(t: Translation, x: Operand, other: Operand, rank: int) -> Operand:
    """An operand in the type of the other one, or torch's default where that is a number."""
    if isinstance(x, int | float):
        return x
    default = np.dtype(np.int64 if rank == 1 else np.float32)
    return cast(t, x, default if isinstance(other, int | float) else dtype_of(other))


# --- element by element ----------------------------------------------------------------------------------

SAME = {
    "relu": "ReLU",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "abs": "Abs",
    "reciprocal": "Reciprocal",
    "round.default": "Round",
    "square": "Square",
    "mish": "Mish",
    "hardswish": "HardSwish",
}
"""Ops of one input that are called something else at most."""
BINARY = {"mul": "Multiply", "maximum": "Maximum", "minimum": "Minimum"}


def _same(t: Translation, x: Value, *_: object, kind: str) -> Value:
    return t.op(kind, x)


def _binary(t: Translation, a: Value, b: Operand, *_: object, kind: str) -> Value:
    first, second = promoted(t, a, b)
    if kind == "Multiply" and _rank_of(first) == _rank_of(second) == 0:  # both truths hold
        return t.op("HostAnd", *operands(t, first, second))
    return binary(t, kind, first, second)


TABLE.update({f"aten.{name}": partial(_same, kind=kind) for name, kind in SAME.items()})
TABLE.update({f"aten.{name}": partial(_binary, kind=kind) for name, kind in BINARY.items()})


@aten("add")
def _add(t: Translation, a: Value, b: Operand, alpha: float = 1) -> Value:
    first, second = promoted(t, a, b)
    return binary(t, "Add", first, _scaled(t, second, alpha, first))


@aten("sub")
def _sub(t: Translation, a: Value, b: Operand, alpha: float = 1) -> Value:
    first, second = promoted(t, a, b)
    return binary(t, "Subtract", first, _scaled(t, second, alpha, first))


@aten("rsub")
def _rsub(t: Translation, a: Value, b: Operand, alpha: float = 1) -> Value:
    first, second = promoted(t, a, b)
    return binary(t, "Subtract", second, _scaled(t, first, alpha, second))


def _scaled(t: Translation, x: Operand, factor: float, other: Operand) -> Operand:
    """One operand times a factor, in the type that the other one gives it."""
    if factor == 1:
        return x
    if isinstance(x, int | float):
        return x * factor
    return multiplied(x, factor, other) if isinstance(x, np.ndarray) else binary(t, "Multiply", x, factor)


@aten("div.Tensor", "div.Scalar", "true_divide")
def divided(t: Translation, a: Value, b: Operand) -> Value:
    """A quotient; of integers it is in f32."""
    first, second = promoted(t, a, b)
    if _rank_of(first) < 2:  # the quotient of integers is none
        first, second = _raised(t, first, 1.0, 2), _raised(t, second, 1.0, 2)
    return binary(t, "Divide", first, second)


@aten("rsqrt")
def _rsqrt(t: Translation, x: Value) -> Value:
    return t.op("Reciprocal", t.op("Sqrt", x))


@aten("neg")
def _neg(t: Translation, x: Value) -> Value:
    return negative(t, x)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _pow(t: Translation, x: Operand, exponent: Operand) -> Value:
    return power(t, x, exponent)


@aten("silu")
def _silu(t: Translation, x: Value) -> Value:
    return silu(t, x)


@aten("gelu")
def _gelu(t: Translation, x: Value, approximate: str = "none") -> Value:
    return t.op("GELU", x, mode="gelu_tanh" if approximate == "tanh" else "gelu_erf")


@aten("clamp.default", "hardtanh")
def _clamp(t: Translation, x: Value, low: float | None = None, high: float | None = None) -> Value:
    if low is not None and high is not None and low > high:
        raise Unmapped(f"its bounds are {low} and {high}; the first must not be above the second")
    return clamp(t, x, low, high)


@aten("clamp.Tensor")
def _clamp_between(t: Translation, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    if low is not None:
        x = binary(t, "Maximum", *promoted(t, x, low))
    return x if high is None else binary(t, "Minimum", *promoted(t, x, high))


@aten("relu6")
def _relu6(t: Translation, x: Value) -> Value:
    return clamp(t, x, 0.0, 6.0)


@aten("clamp_min.default")
def _clamp_min(t: Translation, x: Value, low: float) -> Value:
    return clamp(t, x, low, None)


@aten("clamp_max.default")
def _clamp_max(t: Translation, x: Value, high: float) -> Value:
    return clamp(t, x, None, high)


@aten("hardsigmoid")
def _hardsigmoid(t: Translation, x: Value) -> Value:
    return t.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@aten("leaky_relu")
def _leaky_relu(t: Translation, x: Value, slope: float = 0.01) -> Value:
    return t.op("LeakyReLU", x, alpha=slope)


@aten("elu")
def _elu(t: Translation, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    if input_scale != 1:
        raise Unmapped(f"an input scale of {input_scale}")
    result = t.op("Elu", x, alpha=float(alpha))
    return result if scale == 1 else binary(t, "Multiply", result, scale)


@aten("celu")
def _celu(t: Translation, x: Value, alpha: float = 1) -> Value:
    if alpha < 0:
        raise Unmapped(f"an alpha of {alpha}; it must be above 0")
    scaled = x if alpha == 1 else binary(t, "Divide", x, alpha)
    result = t.op("Elu", scaled, alpha=1.0)
    return result if alpha == 1 else binary(t, "Multiply", result, alpha)


@aten("log_sigmoid")
def _log_sigmoid(t: Translation, x: Value) -> Value:
    return negative(t, t.op("SoftPlus", negative(t, x), beta=1.0))


_LOGARITHMS = {"log2": 1 / math.log(2), "log10": 1 / math.log(10)}


def _logarithm(t: Translation, x: Value, *, factor: float) -> Value:
    return binary(t, "Multiply", t.op("Log", x), factor)


TABLE.update({f"aten.{name}": partial(_logarithm, factor=factor) for name, factor in _LOGARITHMS.items()})


@aten("exp2")
def _exp2(t: Translation, x: Value) -> Value:
    return power(t, 2.0, x)


@aten("softplus")
def _softplus(t: Translation, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    if threshold < 20:
        raise Unmapped(f"a threshold of {threshold}; only from 20 on does it make no difference")
    return t.op("SoftPlus", x, beta=float(beta))


@aten("prelu")
def _prelu(t: Translation, x: Value, slope: Value) -> Value:
    return t.op("PReLU", x, slope, data_format="NCX", per_channel_broadcast=True)


@aten("where.self", "where.ScalarOther", "where.ScalarSelf")
def _where(t: Translation, condition: Value, a: Operand, b: Operand) -> Value:
    return where(t, condition, *promoted(t, a, b))


@aten("masked_fill")
def _masked_fill(t: Translation, x: Value, mask: Value, value: Operand) -> Value:
    if not isinstance(value, int | float):  # it has the type of x, not the other way round
        value = cast(t, value, dtype_of(x))
    return where(t, mask, value, x)


@aten("clone", "contiguous", "detach", "detach_copy", "alias", "lift_fresh_copy", "positive")
def _unchanged(t: Translation, x: Value, *_: object) -> Value:
    return x


@aten("dropout", "feature_dropout", "alpha_dropout")
def _dropout(t: Translation, x: Value, p: float, train: bool) -> Value:
    if train and p:
        raise Unmapped("a dropout in training mode")
    return x


@aten("_to_copy", "to.dtype")
def _to(t: Translation, x: Value, dtype: object = None, *_: object) -> Value:
    return typed(t, x, dtype)


@aten("type_as")
def _type_as(t: Translation, x: Value, other: Value) -> Value:
    return cast(t, x, dtype_of(other))


@aten("full_like")
def _full_like(t: Translation, x: Value, value: float, dtype: object = None, *_: object) -> Value:
    return np.full(sizes(x), value, dtype_of(x) if dtype is None else numpy_type_of(dtype))


@aten("zeros_like")
def _zeros_like(t: Translation, x: Value, dtype: object = None, *_: object) -> Value:
    return _full_like(t, x, 0, dtype)


@aten("ones_like")
def _ones_like(t: Translation, x: Value, dtype: object = None, *_: object) -> Value:
    return _full_like(t, x, 1, dtype)


# --- products --------------------------------------------------------------------------------------------


@aten("mm", "bmm", "matmul", "mv")
def _matmul(t: Translation, a: Value, b: Value) -> Value:
    return matmul(t, a, b)


@aten("linear")
def _linear(t: Translation, x: Value, weight: Value, bias: Value | None = None) -> Value:
    return linear(t, x, weight, bias)


@aten("addmm", "baddbmm")
def _addmm(t: Translation, bias: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    columns = shape_of(b)[-1]
    if beta == 1 and alpha == 1 and shape_of(bias) == (columns,):
        return matmul(t, a, b, bias)
    product: Value = matmul(t, a, b)
    if alpha != 1:
        product = binary(t, "Multiply", product, alpha)
    return binary(t, "Add", product, _scaled(t, bias, beta, product)) if beta else product
