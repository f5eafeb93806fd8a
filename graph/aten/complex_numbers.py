"""ATen's ops on complex numbers, as two real tensors each: rotary embeddings and Fourier transforms have them.

What only moves elements or sums them is done to both parts as to real numbers. What becomes of a transform is a product
with a matrix of cosines and sines.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...ops.records import frozen
from ..importing.expressions import (
    binary,
    concat,
    expand,
    matmul,
    negative,
    select,
    transpose,
    unsqueeze,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .elementwise import fractions
from .schema import Translate, cast_if_asked
from .shapes import constant_pad, padded
from .spelled import larger, length

OPS = Entries[Translate]("aten.")
"""Op → its translation where an argument or the result is complex, by its name with the overload or without."""
LONGEST = 4096
"""Numbers that are transformed at most: a product with a matrix takes the square of them."""


@frozen(eq=False)
class Complex:
    """A tensor of complex numbers.

    Attributes:
        real, imaginary: of one shape and type; the second is None for zeros.
    """

    real: Value | float
    imaginary: Value | float | None


BY_PARTS = (
    *("alias", "clone", "contiguous", "detach", "lift_fresh_copy", "positive", "neg"),
    *(
        "_reshape_alias",
        "_unsafe_view",
        "expand",
        "flatten",
        "permute",
        "reshape",
        "squeeze",
        "t",
        "transpose",
    ),
    *("unflatten", "unsqueeze", "view", "cat", "chunk", "flip", "gather", "index"),
    *("index_select", "narrow", "repeat", "roll", "select", "slice", "split", "split_with_sizes", "stack"),
    *("unbind", "cumsum", "mean", "sum", "tril", "triu"),
)
"""Ops that do to either part what they do to real numbers."""


def translation_of_parts(op: str, translate: Translate | None) -> Translate | None:
    """The translation of an op by the one that it has for real numbers; None where it takes its parts together."""
    if translate is None or op.split(".")[1] not in BY_PARTS:
        return None

    def translated(t: Translation, *arguments: Any) -> Any:
        first, second = (translate(t, *_part(arguments, name)) for name in ("real", "imaginary"))
        if isinstance(first, list | tuple):
            pairs = zip(cast("Sequence[Any]", first), cast("Sequence[Any]", second), strict=True)
            return [Complex(*pair) for pair in pairs]
        return Complex(first, second)

    return translated


def _part(argument: Any, name: str) -> Any:
    if isinstance(argument, Complex):
        return getattr(argument, name)
    if isinstance(argument, list | tuple):
        several = cast("Sequence[Any]", argument)
        like = next((one for one in several if isinstance(one, Complex)), None)
        # Tensors of one result, of which some may be real.
        if like is not None and isinstance(argument, list):
            dtype = dtype_of(_both(like)[0])
            several = [one if isinstance(one, Complex) else _widened(one, dtype) for one in several]
        return [_part(one, name) for one in several]
    return argument


def _widened(x: Value, dtype: np.dtype[Any]) -> Complex:
    """Real numbers as complex ones."""
    return Complex(x, np.zeros(sizes(x), dtype))


# --- between real and complex numbers --------------------------------------------------------------------


@OPS.enter("view_as_complex", "view_as_complex_copy")
def _as_complex(t: Translation, x: Value) -> Complex:
    return Complex(select(t, x, -1, 0), select(t, x, -1, 1))


@OPS.enter("view_as_real", "view_as_real_copy")
def _as_real(t: Translation, x: Complex) -> Value:
    real, imaginary = _both(x)
    rank = len(shape_of(real))
    return concat(t, [unsqueeze(t, one, [rank]) for one in (real, imaginary)], rank)


@OPS.enter("_to_copy")
def _cast(t: Translation, x: Any, dtype: Any = None, *_: object) -> Complex | Value:
    """To complex numbers, of which there is one type here, or to real ones, of which torch takes the real part."""
    if dtype is not None and not dtype.is_complex:
        return cast_if_asked(t, _both(x)[0], dtype)
    if isinstance(x, Complex):
        return x
    real = x if dtype is None else cast_if_asked(t, x, dtype.to_real())
    return _widened(real, dtype_of(real))


@OPS.enter("complex")
def _of_parts(t: Translation, real: Value, imaginary: Value) -> Complex:
    return _alike(t, real, imaginary)


@OPS.enter("polar")
def _polar(t: Translation, length: Value, angle: Value) -> Complex:
    return Complex(*(binary(t, "Multiply", length, t.op(kind, angle)) for kind in ("HostCos", "HostSin")))


@OPS.enter("real")
def _real(t: Translation, x: Complex) -> Value:
    return _both(x)[0]


@OPS.enter("imag")
def _imaginary(t: Translation, x: Complex) -> Value:
    return _both(x)[1]


@OPS.enter("abs")
def _length(t: Translation, x: Complex) -> Value:
    return length(t, *_both(x))


@OPS.enter("angle")
def _angle(t: Translation, x: Complex) -> Value:
    real, imaginary = _both(x)
    return t.op("HostAtan2", imaginary, real)


# --- shapes ----------------------------------------------------------------------------------------------


@OPS.enter("constant_pad_nd")
def _padded(t: Translation, x: Complex, pads: Sequence[int], value: complex = 0) -> Complex:
    """A number around, of which either part gets its own."""
    real, imaginary = _both(x)
    return Complex(constant_pad(t, real, pads, value.real), constant_pad(t, imaginary, pads, value.imag))


@OPS.enter("pad")
def _bordered(
    t: Translation, x: Complex, pads: Sequence[int], mode: str = "constant", value: complex | None = None
) -> Complex:
    if mode == "constant":
        return _padded(t, x, pads, value or 0)
    return Complex(*(padded(t, one, pads, mode) for one in _both(x)))


# --- arithmetic ------------------------------------------------------------------------------------------


@OPS.enter("_conj", "_conj_physical", "conj", "conj_physical")
def _conjugate(t: Translation, x: Complex) -> Complex:
    real, imaginary = _both(x)
    return Complex(real, negative(t, imaginary))


@OPS.enter("exp")
def _exponential(t: Translation, x: Complex) -> Complex:
    real, imaginary = _both(x)
    return _polar(t, t.op("Exp", real), imaginary)


@OPS.enter("add.Tensor", "add.Scalar")
def _sum(t: Translation, a: Any, b: Any, times: float = 1) -> Complex:
    return _added(t, "Add", a, b, times)


@OPS.enter("sub.Tensor", "sub.Scalar")
def _difference(t: Translation, a: Any, b: Any, times: float = 1) -> Complex:
    return _added(t, "Subtract", a, b, times)


@OPS.enter("rsub.Scalar", "rsub.Tensor")
def _turned_difference(t: Translation, a: Any, b: Any, times: float = 1) -> Complex:
    return _added(t, "Subtract", b, a, times)


def _added(t: Translation, kind: str, a: Any, b: Any, times: float) -> Complex:
    if times != 1:
        raise Unmapped(f"a sum of complex numbers of which one is taken {times} times")
    first, second = _complex(t, a), _complex(t, b)
    real = binary(t, kind, first.real, second.real)
    if second.imaginary is None:
        return _alike(t, real, first.imaginary)
    if first.imaginary is None:
        one = second.imaginary
        if kind == "Subtract":
            one = -one if isinstance(one, int | float) else negative(t, one)
        return _alike(t, real, one)
    return _alike(t, real, binary(t, kind, first.imaginary, second.imaginary))


@OPS.enter("mul.Tensor", "mul.Scalar")
def _product(t: Translation, a: Any, b: Any) -> Complex:
    return _multiplied(t, a, b, partial(binary, t, "Multiply"))


@OPS.enter("mm", "bmm", "matmul")
def _matrix_product(t: Translation, a: Any, b: Any) -> Complex:
    return _multiplied(t, a, b, partial(matmul, t))


def _multiplied(t: Translation, a: Any, b: Any, times: Any) -> Complex:
    """A product that is linear in both factors."""
    first, second = _complex(t, a), _complex(t, b)
    real = times(first.real, second.real)
    if second.imaginary is None:
        return Complex(real, times(first.imaginary, second.real))
    if first.imaginary is None:
        return Complex(real, times(first.real, second.imaginary))
    both = times(first.imaginary, second.imaginary)
    crossed = (times(first.real, second.imaginary), times(first.imaginary, second.real))
    return Complex(binary(t, "Subtract", real, both), binary(t, "Add", *crossed))


@OPS.enter("div.Tensor", "div.Scalar")
def _quotient(t: Translation, a: Any, b: Any) -> Complex:
    divisor = _complex(t, b)
    if divisor.imaginary is None:
        real, imaginary = _both(a)
        return Complex(*(binary(t, "Divide", one, divisor.real) for one in (real, imaginary)))
    # Both are divided by the larger part first, as torch does: the square of a length would overflow, or vanish.
    if isinstance(b, complex):
        if not b:
            raise Unmapped("a quotient by a complex zero")
        return _product(t, a, 1 / b)
    unit = larger(t, *_both(divisor))
    real, imaginary = (binary(t, "Divide", one, unit) for one in _both(divisor))
    size = binary(t, "Add", t.op("Square", real), t.op("Square", imaginary))
    whole = _complex(t, a)
    parts = (one if one is None else binary(t, "Divide", one, unit) for one in (whole.real, whole.imaginary))
    made = _product(t, Complex(*cast("Any", parts)), Complex(real, negative(t, imaginary)))
    return Complex(*(binary(t, "Divide", one, size) for one in _both(made)))


def _complex(t: Translation, x: Any) -> Complex:
    """An operand; a real one has no imaginary part, and integers become the numbers that parts are."""
    if isinstance(x, Complex):
        return x
    return Complex(x.real, x.imag) if isinstance(x, complex) else Complex(fractions(t, x), None)


def _both(x: Any) -> tuple[Value, Value]:
    """The two tensors of a complex one.

    Raises:
        Unmapped: it is real.
    """
    if not isinstance(x, Complex) or x.imaginary is None:
        raise Unmapped("a real tensor in the place of a complex one")
    return cast("Value", x.real), cast("Value", x.imaginary)


def _alike(t: Translation, real: Value, imaginary: Value | float | None) -> Complex:
    """Both parts in one shape."""
    imaginary = np.asarray(imaginary, dtype_of(real)) if isinstance(imaginary, int | float) else imaginary
    if imaginary is None:
        raise Unmapped("a sum of real numbers in the place of complex ones")
    whole = np.broadcast_shapes(sizes(real), sizes(imaginary))
    return Complex(*(one if sizes(one) == whole else expand(t, one, whole) for one in (real, imaginary)))


# --- Fourier transforms ----------------------------------------------------------------------------------


@OPS.enter("_fft_r2c")
def _of_real(t: Translation, x: Value, axes: Sequence[int], scaling: int, half: bool) -> Complex:
    """Of real numbers; of the last axis the first half alone, for the other one mirrors it."""
    *others, last = axes
    size = sizes(x)[last]
    made = Complex(*_waves(t, (x, None), last, size, size // 2 + 1 if half else size, -1))
    return _scaled(t, _turned(t, made, others, -1), [sizes(x)[axis] for axis in axes], scaling)


@OPS.enter("_fft_c2c")
def _of_complex(t: Translation, x: Complex, axes: Sequence[int], scaling: int, forward: bool) -> Complex:
    real, _ = _both(x)
    return _scaled(
        t, _turned(t, x, axes, -1 if forward else 1), [sizes(real)[axis] for axis in axes], scaling
    )


@OPS.enter("_fft_c2r")
def _to_real(t: Translation, x: Complex, axes: Sequence[int], scaling: int, size: int) -> Value:
    """Of the first half of what is mirrored along the last axis, to real numbers."""
    *others, last = axes
    real, imaginary = _both(_turned(t, x, others, 1))
    kept = size // 2 + 1
    have = sizes(real)[last]
    if have < kept:
        raise Unmapped(f"{have} of the {kept} numbers that a transform to {size} real ones is of")
    counts = np.full(have, 2.0)
    counts[0], counts[kept:] = 1, 0
    counts[size // 2] = 1 if size % 2 == 0 else counts[size // 2]
    made, _ = _waves(t, (real, imaginary), last, size, size, 1, counts)
    lengths = [size if axis == last else sizes(real)[axis] for axis in axes]
    return cast("Value", _scaled(t, Complex(made, made), lengths, scaling).real)


def _turned(t: Translation, x: Complex, axes: Sequence[int], sign: int) -> Complex:
    """Transforms along axes, one after the other."""
    for axis in axes:
        size = sizes(_both(x)[0])[axis]
        x = Complex(*_waves(t, _both(x), axis, size, size, sign))
    return x


def _waves(
    t: Translation,
    x: tuple[Value, Value | None],
    axis: int,
    period: int,
    count: int,
    sign: int,
    shares: np.ndarray[Any, Any] | None = None,
) -> tuple[Value, Value]:
    """Σ x[j] · shares[j] · exp(sign · 2πi · j · k / period) along an axis, for k below count: both parts of it."""
    real, imaginary = x
    size, rank = sizes(real)[axis], len(shape_of(real))
    if max(size, count) > LONGEST:
        raise Unmapped(f"a Fourier transform of {max(size, count)} numbers; {LONGEST} can be done")
    # The angles of whole turns are taken away before they are rounded.
    angles = sign * 2 * math.pi * (np.outer(np.arange(size), np.arange(count)) % period) / period
    factors = np.ones((size, 1)) if shares is None else shares[:, None]
    cosines, sines = ((factors * _exact(made(angles))).astype(dtype_of(real)) for made in (np.cos, np.sin))
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]

    def product(one: Value, by: np.ndarray[Any, Any]) -> Value:
        return matmul(t, transpose(t, one, order), by)

    first, second = product(real, cosines), product(real, sines)
    if imaginary is not None:
        first = binary(t, "Subtract", first, product(imaginary, sines))
        second = binary(t, "Add", second, product(imaginary, cosines))
    return transpose(t, first, order), transpose(t, second, order)


def _exact(waves: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """With zeros at whole quarters of turns: the next to nothing that π leaves there would give an angle its sign."""
    return np.where(np.abs(waves) < 1e-12, 0.0, waves)


def _scaled(t: Translation, x: Complex, lengths: Sequence[int], scaling: int) -> Complex:
    """Divided by the number of what was summed, or the root of it, or by nothing."""
    count = math.prod(lengths)
    share = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[scaling]
    return x if share == 1 else _product(t, x, share)
