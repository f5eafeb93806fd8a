"""ATen ops in ops of oneDNN Graph: element by element, and products.

A translation takes the op's arguments in the order of ATen's schema, with defaults filled in, and returns its output or
its outputs; `TABLE` has one for each op, by its name with the overload or without.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import overload

import numpy as np

from ..importing.expressions import (
    FLOATS,
    HALVES,
    Operand,
    binary,
    cast,
    cut,
    expand,
    linear,
    matmul,
    multiplied,
    negative,
    operands,
    power,
    reduce,
    reshape,
    silu,
    uniform,
    where,
)
from ..importing.expressions import (
    clamp as clamped,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .schema import Translate, cast_if_asked, numpy_type_of

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""
_FLOAT = np.dtype(np.float32)


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
    if isinstance(a, int | float) or isinstance(b, int | float) or first == 0:
        return a, b
    # Of two kinds of integers or of floats, one without axes adapts to the other.
    wide = [dtype_of(x) for x in (a, b) if shape_of(x)] or [dtype_of(a), dtype_of(b)]
    if first == 2 and len(wide) == 2:
        return a, b
    dtype = np.promote_types(wide[0], wide[-1])
    return cast(t, a, dtype), cast(t, b, dtype)


def _raised(t: Translation, x: Operand, other: Operand, rank: int) -> Operand:
    """An operand in the type of the other one, or torch's default where that is a number."""
    if isinstance(x, int | float):
        return x
    default = np.dtype(np.int64 if rank == 1 else np.float32)
    return cast(t, x, default if isinstance(other, int | float) else dtype_of(other))


@overload
def fractions(t: Translation, x: Value) -> Value: ...
@overload
def fractions(t: Translation, x: Operand) -> Operand: ...
def fractions(t: Translation, x: Operand) -> Operand:
    """An operand of floating-point numbers: integers and truths become torch's default."""
    return _raised(t, x, 1.0, 2) if _rank_of(x) < 2 else x


def promoted_fractions(t: Translation, a: Operand, b: Operand) -> tuple[Operand, Operand]:
    """Both operands, converted as torch does, as floating-point numbers."""
    first, second = promoted(t, a, b)
    return fractions(t, first), fractions(t, second)


def alike(t: Translation, values: Sequence[Value]) -> list[Value]:
    """Values of which one becomes, as of cat and stack, in the one type that torch gives them."""
    most = max(map(_rank_of, values))
    dtypes = [dtype_of(value) for value in values if _rank_of(value) == most]
    if set(dtypes) == set(HALVES):  # of which NumPy knows no common type
        dtypes = [_FLOAT]
    common = functools.reduce(np.promote_types, dtypes)
    return [cast(t, value, common) for value in values]


def unrounded(function: Callable[..., Value]) -> Callable[..., Value]:
    """Products and quotients of halves by a tensor without axes, which torch rounds in the result alone."""

    @functools.wraps(function)
    def made(t: Translation, a: Operand, b: Operand) -> Value:
        if isinstance(a, int | float) or isinstance(b, int | float) or shape_of(b):
            return function(t, a, b)
        own = dtype_of(a)
        if own not in HALVES or not shape_of(a) or dtype_of(b) == own:
            return function(t, a, b)
        return cast(t, function(t, cast(t, a, _FLOAT), cast(t, b, _FLOAT)), own)

    return made


# --- element by element ----------------------------------------------------------------------------------

SAME = {"abs": "Abs", "mish": "Mish", "hardswish": "HardSwish"}
"""Ops of one input that are called something else at most."""
OF_FRACTIONS = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "reciprocal": "Reciprocal",
}
"""The same, which make floating-point numbers of integers and truths."""
BINARY = {"maximum": "Maximum", "minimum": "Minimum"}
MOST_FACTORS = 8
"""Factors of a power of integers."""


def _same(t: Translation, x: Value, *_: object, kind: str) -> Value:
    return t.op(kind, x)


def of_fractions(t: Translation, x: Value, *_: object, kind: str) -> Value:
    """A function of floating-point numbers, in which integers and truths become such."""
    return t.op(kind, fractions(t, x))


def rounded(t: Translation, x: Value, *_: object, kind: str) -> Value:
    """A whole number near each; whole ones stay as they are."""
    return t.op(kind, x) if _rank_of(x) == 2 else x


def _binary(t: Translation, a: Value, b: Operand, *_: object, kind: str) -> Value:
    first, second = promoted(t, a, b)
    if _rank_of(first) == 0:
        kind = {"Maximum": "HostOr", "Minimum": "HostAnd"}[kind]
    return binary(t, kind, first, second)


OPS.add({name: partial(_same, kind=kind) for name, kind in SAME.items()})
OPS.add({name: partial(of_fractions, kind=kind) for name, kind in OF_FRACTIONS.items()})
OPS.add({name: partial(_binary, kind=kind) for name, kind in BINARY.items()})
OPS.add({"silu": silu, "linear": linear, "round.default": partial(rounded, kind="Round")})


@OPS.enter("neg")
def _negative(t: Translation, x: Value) -> Value:
    return binary(t, "Subtract", 0, x) if dtype_of(x) == np.uint8 else negative(t, x)


@OPS.enter("relu")
def _relu(t: Translation, x: Value) -> Value:
    return clamped(t, x, 0.0, None)


@OPS.enter("square")
def _square(t: Translation, x: Value) -> Value:
    return t.op("Square", x) if _rank_of(x) == 2 else _power(t, x, 2)


@OPS.enter("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _power(t: Translation, x: Operand, exponent: Operand) -> Value:
    first, second = promoted(t, x, exponent)
    number = None if isinstance(second, np.ndarray) and second.ndim else uniform(second)
    if not isinstance(first, int | float) and _rank_of(first) == 1 and number in range(2, MOST_FACTORS + 1):
        return functools.reduce(partial(binary, t, "Multiply"), [first] * int(number or 0))
    return power(t, first, second)


@OPS.enter("mul")
@unrounded
def multiply(t: Translation, a: Value, b: Operand) -> Value:
    """A product; of truths, whether both hold."""
    first, second = promoted(t, a, b)
    if _rank_of(first) == _rank_of(second) == 0:
        return t.op("HostAnd", *operands(t, first, second))
    return binary(t, "Multiply", first, second)


@OPS.enter("add")
def add(t: Translation, a: Value, b: Operand, alpha: float = 1) -> Value:
    """A sum, with a factor for the second operand; of truths, whether one holds."""
    first, second = promoted(t, a, b)
    if _rank_of(first) == _rank_of(second) == 0 and alpha == 1:
        return t.op("HostOr", *operands(t, first, second))
    return binary(t, "Add", first, _scaled(t, second, alpha, first))


@OPS.enter("sub")
def _sub(t: Translation, a: Value, b: Operand, alpha: float = 1) -> Value:
    first, second = promoted(t, a, b)
    return binary(t, "Subtract", first, _scaled(t, second, alpha, first))


@OPS.enter("rsub")
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


@OPS.enter("div.Tensor", "div.Scalar", "true_divide")
@unrounded
def divided(t: Translation, a: Value, b: Operand) -> Value:
    """A quotient; of integers it is in f32."""
    return binary(t, "Divide", *promoted_fractions(t, a, b))


@OPS.enter("rsqrt")
def _rsqrt(t: Translation, x: Value) -> Value:
    return t.op("Reciprocal", t.op("Sqrt", fractions(t, x)))


@OPS.enter("gelu")
def _gelu(t: Translation, x: Value, approximate: str = "none") -> Value:
    return t.op("GELU", x, mode="gelu_tanh" if approximate == "tanh" else "gelu_erf")


@OPS.enter("clamp.default", "clamp_min.default", "hardtanh")
def clamp(t: Translation, x: Value, low: float | None = None, high: float | None = None) -> Value:
    """Numbers between bounds that are numbers."""
    if low is not None and high is not None and low > high:
        raise Unmapped(f"its bounds are {low} and {high}; the first must not be above the second")
    if isinstance(low, float) or isinstance(high, float):
        x = fractions(t, x)
    return clamped(t, x, low, high)


@OPS.enter("clamp.Tensor")
def clamp_between(t: Translation, x: Value, low: Value | None = None, high: Value | None = None) -> Value:
    """Numbers between bounds that are tensors."""
    if low is not None:
        x = binary(t, "Maximum", *promoted(t, x, low))
    return x if high is None else binary(t, "Minimum", *promoted(t, x, high))


@OPS.enter("relu6")
def _relu6(t: Translation, x: Value) -> Value:
    return clamped(t, x, 0.0, 6.0)


@OPS.enter("clamp_max.default")
def _clamp_max(t: Translation, x: Value, high: float) -> Value:
    return clamped(t, x, None, high)


@OPS.enter("hardsigmoid")
def _hardsigmoid(t: Translation, x: Value) -> Value:
    return t.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@OPS.enter("leaky_relu")
def _leaky_relu(t: Translation, x: Value, slope: float = 0.01) -> Value:
    return t.op("LeakyReLU", x, alpha=slope)


@OPS.enter("elu")
def _elu(t: Translation, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Value:
    if input_scale != 1:
        raise Unmapped(f"an input scale of {input_scale}")
    result = t.op("Elu", x, alpha=float(alpha))
    return result if scale == 1 else binary(t, "Multiply", result, scale)


@OPS.enter("celu")
def _celu(t: Translation, x: Value, alpha: float = 1) -> Value:
    if alpha < 0:
        raise Unmapped(f"an alpha of {alpha}; it must be above 0")
    scaled = x if alpha == 1 else binary(t, "Divide", x, alpha)
    result = t.op("Elu", scaled, alpha=1.0)
    return result if alpha == 1 else binary(t, "Multiply", result, alpha)


@OPS.enter("log_sigmoid")
def _log_sigmoid(t: Translation, x: Value) -> Value:
    return negative(t, t.op("SoftPlus", negative(t, x), beta=1.0))


@OPS.enter("exp2")
def _exp2(t: Translation, x: Value) -> Value:
    return power(t, 2.0, fractions(t, x))


@OPS.enter("softplus")
def _softplus(t: Translation, x: Value, beta: float = 1, threshold: float = 20) -> Value:
    if threshold < 20:
        raise Unmapped(f"a threshold of {threshold}; only from 20 on does it make no difference")
    return t.op("SoftPlus", x, beta=float(beta))


@OPS.enter("prelu")
def _prelu(t: Translation, x: Value, slope: Value) -> Value:
    return t.op("PReLU", x, slope, data_format="NCX", per_channel_broadcast=True)


@OPS.enter("_prelu_kernel")
def _prelu_by_channel(t: Translation, x: Value, slope: Value) -> Value:
    return t.op("PReLU", x, slopes_of(t, x, slope), data_format="NCX", per_channel_broadcast=True)


def slopes_of(t: Translation, x: Value, slope: Value) -> Value:
    """A slope for each channel, from those with as many axes as the data, all of one element but the channels'."""
    count = math.prod(sizes(slope))
    if count > 1 and (len(shape_of(x)) < 2 or sizes(slope)[1] != count):
        raise Unmapped(f"slopes of shape {list(sizes(slope))}")
    return reshape(t, slope, [count])


def halves(t: Translation, x: Value, axis: int) -> tuple[Value, Value]:
    """The first and the second half along an axis."""
    size = sizes(x)[axis]
    return cut(t, x, axis, 0, size // 2), cut(t, x, axis, size // 2, size)


@OPS.enter("glu")
def _glu(t: Translation, x: Value, axis: int = -1) -> Value:
    data, gate = halves(t, x, axis)
    return binary(t, "Multiply", data, t.op("Sigmoid", gate))


def _add_part(t: Translation, x: Value, a: Value, b: Value, factor: float = 1, *, kind: str) -> Value:
    """A sum with a product or a quotient; of halves it is rounded once, as torch does."""
    given = (x, a, b)
    floats = {dtype_of(one) for one in given if shape_of(one)} or {dtype_of(one) for one in given}
    floats &= set(FLOATS)
    own = floats.pop() if len(floats) == 1 else np.dtype(np.float32) if floats else None
    if own is not None:
        wide = np.dtype(np.float32) if own in HALVES else own
        x, a, b = (cast(t, one, wide) for one in given)
    part: Operand = binary(t, kind, *promoted(t, a, b))
    if factor != 1:
        part = multiply(t, part, factor)
    made = binary(t, "Add", *promoted(t, x, part))
    return made if own is None else cast(t, made, own)


OPS.add({"addcmul": partial(_add_part, kind="Multiply"), "addcdiv": partial(_add_part, kind="Divide")})


@OPS.enter("fill.Scalar")
def _filled(t: Translation, x: Value, value: float) -> Value:
    return np.full(sizes(x), value, dtype_of(x))


@OPS.enter("fill.Tensor")
def _filled_with(t: Translation, x: Value, value: Value) -> Value:
    return expand(t, cast(t, value, dtype_of(x)), sizes(x))


@OPS.enter("new_full")
def _new_full(
    t: Translation, x: Value, shape: Sequence[int], value: float, dtype: object = None, *_: object
) -> Value:
    return np.full(shape, value, dtype_of(x) if dtype is None else numpy_type_of(dtype))


@OPS.enter("new_zeros")
def _new_zeros(t: Translation, x: Value, shape: Sequence[int], dtype: object = None, *_: object) -> Value:
    return _new_full(t, x, shape, 0, dtype)


@OPS.enter("new_ones")
def _new_ones(t: Translation, x: Value, shape: Sequence[int], dtype: object = None, *_: object) -> Value:
    return _new_full(t, x, shape, 1, dtype)


@OPS.enter("mse_loss")
def _mean_squares(t: Translation, x: Value, target: Value, reduction: int = 1) -> Value:
    made = binary(t, "SquaredDifference", x, target)
    if reduction == 0:
        return made
    return reduce(t, "ReduceMean" if reduction == 1 else "ReduceSum", made, [], keep=False)


@OPS.enter("where.self", "where.ScalarOther", "where.ScalarSelf")
def _where(t: Translation, condition: Value, a: Operand, b: Operand) -> Value:
    return where(t, condition, *promoted(t, a, b))


@OPS.enter("masked_fill")
def _masked_fill(t: Translation, x: Value, mask: Value, value: Operand) -> Value:
    if not isinstance(value, int | float):  # it has the type of x, not the other way round
        value = cast(t, value, dtype_of(x))
    return where(t, mask, value, x)


@OPS.enter("clone", "contiguous", "detach", "detach_copy", "alias", "lift_fresh_copy", "positive")
def _unchanged(t: Translation, x: Value, *_: object) -> Value:
    return x


@OPS.enter("dropout", "feature_dropout", "alpha_dropout")
def _dropout(t: Translation, x: Value, p: float, train: bool) -> Value:
    if train and p:
        raise Unmapped("a dropout in training mode")
    return x


@OPS.enter("_to_copy", "to.dtype")
def _to(t: Translation, x: Value, dtype: object = None, *_: object) -> Value:
    return cast_if_asked(t, x, dtype)


@OPS.enter("type_as")
def _type_as(t: Translation, x: Value, other: Value) -> Value:
    return cast(t, x, dtype_of(other))


@OPS.enter("full_like")
def _full_like(t: Translation, x: Value, value: float, dtype: object = None, *_: object) -> Value:
    return np.full(sizes(x), value, dtype_of(x) if dtype is None else numpy_type_of(dtype))


@OPS.enter("zeros_like")
def _zeros_like(t: Translation, x: Value, dtype: object = None, *_: object) -> Value:
    return _full_like(t, x, 0, dtype)


@OPS.enter("ones_like")
def _ones_like(t: Translation, x: Value, dtype: object = None, *_: object) -> Value:
    return _full_like(t, x, 1, dtype)


# --- products --------------------------------------------------------------------------------------------


@OPS.enter("mm", "bmm", "matmul", "mv")
def _matmul(t: Translation, a: Value, b: Value) -> Value:
    return matmul(t, a, b)


@OPS.enter("_int_mm")
def _product_of_bytes(t: Translation, a: Value, b: Value) -> Value:
    return matmul(t, cast(t, a, np.dtype(np.int32)), cast(t, b, np.dtype(np.int32)))


@OPS.enter("addmm", "baddbmm")
def _addmm(t: Translation, bias: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    columns = shape_of(b)[-1]
    if beta == 1 and alpha == 1 and shape_of(bias) == (columns,):
        return matmul(t, a, b, bias)
    return add_product(t, bias, matmul(t, a, b), beta, alpha)


def add_product(t: Translation, x: Value, product: Value, beta: float, alpha: float) -> Value:
    """`beta` times a tensor, which is not looked at where that is 0, and `alpha` times a product."""
    if alpha != 1:
        product = binary(t, "Multiply", product, alpha)
    return binary(t, "Add", product, _scaled(t, x, beta, product)) if beta else product
