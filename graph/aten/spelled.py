"""ATen's ops for which torch has one kernel, and we have several ops or NumPy: shifts, signs, order, rare functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ..importing.expressions import (
    FLOATS,
    HALVES,
    Operand,
    axis_of,
    binary,
    cast,
    concat,
    cut,
    matmul,
    negative,
    operands,
    power,
    reduce,
    reshape,
    select,
    unsqueeze,
    where,
)
from ..importing.hosted import TRUTH, any_of, compared, extreme, gathered, logical
from ..importing.sampling import top_k
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .elementwise import add_product, alike, fractions, of_fractions, promoted, promoted_fractions
from .schema import Translate, cast_if_asked

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""
_FLOAT, _INTEGER = np.dtype(np.float32), np.dtype(np.int64)


# --- bits ------------------------------------------------------------------------------------------------


def _shifted(t: Translation, x: Value, count: Operand, *, left: bool) -> Value:
    """Bits moved by constant numbers of places: a product with a power of two, or a quotient that is rounded down."""
    if not isinstance(count, int | np.ndarray):
        raise Unmapped("a shift by numbers that are known in a call only")
    x, count = promoted(t, x, count)  # pyright: ignore[reportAssignmentType] -- both are no floats
    counts = np.asarray(count)
    dtype = dtype_of(x)
    if dtype.kind not in "iu" or counts.dtype.kind not in "iu":
        raise Unmapped(f"a shift of {dtype} by {counts.dtype}")
    most = np.iinfo(dtype).bits - (2 if dtype.kind == "i" else 1)
    if counts.size and (counts.min() < 0 or counts.max() > most):
        raise Unmapped(f"a shift of {dtype} by less than 0 or more than {most} places")
    factors = np.left_shift(np.ones((), dtype), counts.astype(dtype))
    if left:
        return binary(t, "Multiply", x, factors)
    return t.op("HostDivide", x, factors, rounding="down")


for _left, _word in ((True, "left"), (False, "right")):
    _translate = partial(_shifted, left=_left)
    for _overload in ("Tensor", "Scalar"):
        OPS.add({f"__{_word[0]}shift__.{_overload}": _translate})
    for _overload in ("Tensor", "Tensor_Scalar"):
        OPS.add({f"bitwise_{_word}_shift.{_overload}": _translate})


# --- signs, lengths and angles ---------------------------------------------------------------------------


@OPS.enter("signbit")
def _is_negative(t: Translation, x: Value) -> Value:
    """Whether a sign is a minus, that of zero, too, which only an angle tells apart."""
    if dtype_of(x) not in FLOATS:
        return compared(t, "Less", *promoted(t, x, 0))
    angle = t.op("HostAtan2", x, np.full((), -1, dtype_of(x)))
    return compared(t, "Less", angle, 0.0)


@OPS.enter("copysign.Tensor", "copysign.Scalar")
def _with_sign(t: Translation, x: Value, sign: Operand) -> Value:
    x, sign = promoted_fractions(t, x, sign)  # pyright: ignore[reportAssignmentType] -- it was no number
    if not isinstance(sign, int | float) and shape_of(x) and shape_of(sign):  # in the type that holds both
        x, sign = alike(t, [x, sign])
    size = t.op("Abs", x)
    if isinstance(sign, int | float):
        return negative(t, size) if math.copysign(1, sign) < 0 else size
    return where(t, _is_negative(t, sign), negative(t, size), size)


@OPS.enter("angle")
def _angle(t: Translation, x: Value) -> Value:
    """Of real numbers: a half turn of those below zero."""
    x = fractions(t, x)
    angle = where(
        t, compared(t, "Less", x, 0.0), np.full((), math.pi, dtype_of(x)), np.zeros((), dtype_of(x))
    )
    return where(t, t.op("HostIsNaN", x), x, angle)


@OPS.enter("hypot")
def _hypotenuse(t: Translation, a: Value, b: Value) -> Value:
    first, second = operands(t, *promoted(t, a, b))
    own = dtype_of(first)
    if own in HALVES:
        first, second = cast(t, first, _FLOAT), cast(t, second, _FLOAT)
    # Whatever the other one is, NaN too, a side without end leaves none.
    endless = logical(t, "Or", t.op("HostIsInf", first), t.op("HostIsInf", second))
    made = length(t, first, second)
    return cast(t, where(t, endless, np.full((), math.inf, dtype_of(made)), made), own)


def length(t: Translation, a: Value, b: Value) -> Value:
    """The root of the sum of both squares, which are of parts of the larger one: others would overflow, or vanish."""
    unit = larger(t, a, b)
    squares = (t.op("Square", binary(t, "Divide", one, unit)) for one in (a, b))
    return binary(t, "Multiply", unit, t.op("Sqrt", binary(t, "Add", *squares)))


def larger(t: Translation, a: Value, b: Value) -> Value:
    """The larger size of two numbers, kept where it can be divided by and gives no NaN of its own."""
    size = binary(t, "Maximum", t.op("Abs", a), t.op("Abs", b))
    limits = np.finfo(dtype_of(size))
    return t.op("Clamp", size, min=float(limits.tiny), max=float(limits.max))


def _extreme(t: Translation, a: Value, b: Value, *, kind: str) -> Value:
    """The larger or the smaller number; of a number and NaN the number."""
    first, second = operands(t, *promoted(t, a, b))
    made: Value = binary(t, kind, first, second)
    if dtype_of(made) not in FLOATS:
        return made
    made = where(t, t.op("HostIsNaN", second), first, made)
    return where(t, t.op("HostIsNaN", first), second, made)


OPS.add({"fmax": partial(_extreme, kind="Maximum"), "fmin": partial(_extreme, kind="Minimum")})


# --- arithmetic ------------------------------------------------------------------------------------------


@OPS.enter("round.decimals")
def _rounded(t: Translation, x: Value, decimals: int = 0) -> Value:
    if dtype_of(x) not in FLOATS:
        raise Unmapped(f"a rounding of {dtype_of(x)} to {decimals} decimals")
    there, back = ("Multiply", "Divide") if decimals >= 0 else ("Divide", "Multiply")
    unit = 10.0 ** abs(decimals)
    return binary(t, back, t.op("Round", binary(t, there, x, unit)), unit)


@OPS.enter("ldexp.Tensor")
def _times_power(t: Translation, x: Value, exponent: Value) -> Value:
    """By thirds of a whole exponent: from the smallest number to the largest is farther than a power reaches."""
    whole = dtype_of(exponent) not in FLOATS
    x, exponent = promoted_fractions(t, x, exponent)  # pyright: ignore[reportAssignmentType] -- it was no number
    if not whole:
        return binary(t, "Multiply", x, power(t, 2.0, exponent))
    own = dtype_of(x)
    if own in HALVES:
        x, exponent = cast(t, x, _FLOAT), cast(t, exponent, _FLOAT)
    most = 3.0 * (np.finfo(dtype_of(x)).maxexp - 1)
    exponent = t.op("Clamp", exponent, min=-most, max=most)
    third = t.op("HostFloor", binary(t, "Divide", exponent, 3.0))
    step = power(t, 2.0, third)
    rest = power(t, 2.0, binary(t, "Subtract", exponent, binary(t, "Multiply", third, 2.0)))
    for factor in (step, step, rest):
        x = binary(t, "Multiply", x, factor)
    return cast(t, x, own)


@OPS.enter("addmv")
def _add_vector(t: Translation, x: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    return add_product(t, x, matmul(t, a, b), beta, alpha)


@OPS.enter("addbmm")
def _add_sum(t: Translation, x: Value, a: Value, b: Value, beta: float = 1, alpha: float = 1) -> Value:
    """A sum over the products of a batch."""
    return add_product(t, x, reduce(t, "ReduceSum", matmul(t, a, b), [0], keep=False), beta, alpha)


@OPS.enter("cumprod")
def _products(t: Translation, x: Value, axis: int, dtype: object = None) -> Value:
    """Products of all elements up to each one: of 2 at first, then of twice as many at each step."""
    x = cast(t, x, _INTEGER) if dtype is None and dtype_of(x) not in FLOATS else cast_if_asked(t, x, dtype)
    if not shape_of(x):
        return x
    axis, shape = axis_of(x, axis), sizes(x)
    reach = 1
    while reach < shape[axis]:
        before = np.ones([*shape[:axis], reach, *shape[axis + 1 :]], dtype_of(x))
        earlier = concat(t, [before, cut(t, x, axis, 0, shape[axis] - reach)], axis)
        x, reach = binary(t, "Multiply", x, earlier), 2 * reach
    return x


@OPS.enter("gcd")
def _common_divisor(t: Translation, a: Value, b: Value) -> Value:
    return t.op("HostGcd", *operands(t, *promoted(t, a, b)))


@OPS.enter("lcm")
def _common_multiple(t: Translation, a: Value, b: Value) -> Value:
    """By the divisor that both have, which is 0 for zeros alone."""
    a, b = (t.tensor(one) for one in operands(t, *promoted(t, a, b)))
    divisor = binary(t, "Maximum", _common_divisor(t, a, b), 1)
    part = t.op("HostDivide", *operands(t, a, divisor), rounding="zero")
    return t.op("HostAbs", binary(t, "Multiply", part, b))


# --- functions -------------------------------------------------------------------------------------------


@OPS.enter("polygamma")
def _polygamma(t: Translation, order: int, x: Value) -> Value:
    return t.op("HostPolygamma", fractions(t, x), order=order)


@OPS.enter("digamma")
def _digamma(t: Translation, x: Value) -> Value:
    return _polygamma(t, 0, x)


OPS.add(
    {"erfinv": partial(of_fractions, kind="HostErfInv"), "lgamma": partial(of_fractions, kind="HostLogGamma")}
)


# --- order -----------------------------------------------------------------------------------------------


@OPS.enter("kthvalue.default")
def _kth(t: Translation, x: Value, count: int, axis: int = -1, keep: bool = False) -> list[Value]:
    if not shape_of(x):
        return [x, np.zeros((), _INTEGER)]
    return [_last(t, one, axis, keep) for one in top_k(t, x, count, axis, largest=False)]


def _last(t: Translation, x: Value, axis: int, keep: bool) -> Value:
    axis = axis_of(x, axis)
    made = select(t, x, axis, sizes(x)[axis] - 1)
    return unsqueeze(t, made, [axis]) if keep else made


@OPS.enter("median.dim")
def _medians(t: Translation, x: Value, axis: int = -1, keep: bool = False) -> list[Value]:
    """The lower one of the two in the middle; where there is a NaN, that one."""
    if not shape_of(x):
        return _kth(t, x, 1)
    value, place = _kth(t, x, (sizes(x)[axis] + 1) // 2, axis, keep)
    if dtype_of(x) not in FLOATS:
        return [value, place]
    odd = t.op("HostIsNaN", x)
    some = any_of(t, odd, [axis], keep, every=False)
    first = extreme(t, "ArgMax", cast(t, odd, _FLOAT), axis, keep)
    return [where(t, some, np.full((), math.nan, dtype_of(x)), value), where(t, some, first, place)]


@OPS.enter("median.default")
def _median(t: Translation, x: Value) -> Value:
    return _medians(t, reshape(t, x, [-1]), 0)[0]


def _extremes_so_far(t: Translation, x: Value, axis: int, *, kind: str) -> Sequence[Value]:
    """The largest or smallest element up to each one, and where the last such is: of 2 at first, then of twice as many.

    NaN stays from where it is found.
    """
    if not shape_of(x):
        return [x, np.zeros((), _INTEGER)]
    axis, shape = axis_of(x, axis), sizes(x)
    row = [-1 if a == axis else 1 for a in range(len(shape))]
    place: Value = np.array(np.broadcast_to(np.arange(shape[axis]).reshape(row), shape))
    made = cast(t, x, np.dtype(np.uint8)) if dtype_of(x) == TRUTH else x
    reach = 1
    while reach < shape[axis]:
        # The first ones have none before them, and stand for themselves.
        before, place_before = (
            concat(t, [cut(t, one, axis, 0, reach), cut(t, one, axis, 0, shape[axis] - reach)], axis)
            for one in (made, place)
        )
        own = compared(t, kind, made, before)
        if dtype_of(made) in FLOATS:
            own = logical(t, "Or", own, t.op("HostIsNaN", made))
        made, place = where(t, own, made, before), where(t, own, place, place_before)
        reach *= 2
    return [gathered(t, x, axis, place), place]


OPS.add(
    {
        "cummax": partial(_extremes_so_far, kind="GreaterEqual"),
        "cummin": partial(_extremes_so_far, kind="LessEqual"),
    }
)


# --- activations -----------------------------------------------------------------------------------------


@OPS.enter("rrelu_with_noise_functional")
def _random_slope(
    t: Translation,
    x: Value,
    noise: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    *_: object,
) -> list[Value]:
    """In inference the slope is the mean of its bounds, and nothing is drawn."""
    if training:
        raise Unmapped("slopes that are drawn")
    return [t.op("LeakyReLU", x, alpha=(lower + upper) / 2), noise]
