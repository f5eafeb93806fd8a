"""ONNX's products of 8-bit integers whose scales are known at execution only, in ops of oneDNN Graph.

The sums are those of f32, in which they are exact as long as none can leave 24 bits: an inner axis that is too long for
that is cut into parts, and their sums are added as integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce as reduce_by

import numpy as np

from ...ops.records import frozen
from ..importing.expressions import binary, cast, clamp, cut, matmul, negative, reduce, reshape, where
from ..importing.hosted import compared
from ..importing.layers import convolution
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from ..runtime.arrays import Array
from .layers import convolution_attributes
from .node import Node, Translate

OPS = Entries[Translate]()
"""ONNX op → its translation."""

F32, S32 = np.dtype(np.float32), np.dtype(np.int32)
EIGHT_BITS = (np.dtype(np.uint8), np.dtype(np.int8))
LARGEST = 255
"""An 8-bit integer less its zero point."""
WIDTH = 256
"""How many 8-bit integers there are: sums with weights of one sign are bounded by it, with both by the larger bound."""
EXACT = 1 << 24
"""Sums up to which f32 has all integers."""
PARTS = 64
"""Parts of an inner axis that are taken apart at most."""


@OPS.enter("DynamicQuantizeLinear")
def _dynamically_quantized(t: Translation, node: Node) -> Sequence[Value]:
    x = node[0]
    if dtype_of(x) != F32 or 0 in sizes(x):
        raise Unmapped(f"a dynamic quantisation of {dtype_of(x)} with the shape {list(shape_of(x))}")
    low = binary(t, "Minimum", reduce(t, "ReduceMin", x, [], False), 0.0)
    high = binary(t, "Maximum", reduce(t, "ReduceMax", x, [], False), 0.0)
    scale: Value = binary(t, "Divide", binary(t, "Subtract", high, low), 255.0)
    scale = where(t, compared(t, "Equal", scale, 0.0), 1.0, scale)
    zero = clamp(t, t.op("Round", binary(t, "Divide", negative(t, low), scale)), 0, LARGEST)
    placed = binary(t, "Add", t.op("Round", binary(t, "Divide", x, scale)), zero)
    unsigned = np.dtype(np.uint8)
    return [cast(t, clamp(t, placed, 0, LARGEST), unsigned), scale, cast(t, zero, unsigned)]


@OPS.enter("MatMulInteger")
def _integer_product(t: Translation, node: Node) -> Value:
    weights, zero = _signed(node[1], node.optional(3)), node.optional(2)
    of_matrices = zero is None or len(shape_of(zero)) < 2 or (weights is not None and weights.values.ndim > 1)
    if weights is not None and of_matrices and dtype_of(node[0]) in EIGHT_BITS and shape_of(node[0]):
        return _product_with_weights(t, node[0], zero, weights)
    a, b = (_from_zero(t, node[place], node.optional(2 + place), place == 0) for place in (0, 1))
    if not shape_of(a) or not shape_of(b):
        raise Unmapped("a product with a scalar")
    axis = max(len(shape_of(b)) - 2, 0)

    def product(start: int, stop: int) -> Value:
        whole = (start, stop) == (0, sizes(b)[axis])
        first = a if whole else cut(t, a, len(shape_of(a)) - 1, start, stop)
        return matmul(t, first, b if whole else cut(t, b, axis, start, stop))

    return _summed(t, _parts(b, axis), product)


@frozen
class _Signed:
    """Constant weights as integers that kernels take.

    Attributes:
        values: in s8. more: what is to be added to each to make it the weight: a number, or one for each column.
    """

    values: Array
    more: Array

    def sums(self, axis: int) -> Array:
        """Of the weights along an axis, in f32, of which nobody asks more digits than it has."""
        count = self.values.shape[axis]
        added = self.values.sum(
            axis, keepdims=self.values.ndim > 1, dtype=np.int64
        ) + count * self.more.astype(np.int64)
        return added.astype(F32)

    def part(self, axis: int, start: int, stop: int) -> _Signed:
        """Those from one on to another along an axis."""
        return _Signed(np.ascontiguousarray(self.values.take(range(start, stop), axis)), self.more)


def _product_with_weights(t: Translation, x: Value, zero: Value | None, weights: _Signed) -> Value:
    """A product with constant weights as kernels of integers make it, all of it exact.

    (x − z) · (w + m) = x · w + m · Σ x − z · Σ (w + m)

    Args:
        zero: of x, if any; where it is known, x is read with it.
    """
    known = 0
    if isinstance(zero, np.ndarray) and (zero.size == 1 or not zero.any()):
        known, zero = int(zero.reshape(-1)[0]), None
    real = t.op("Dequantize", x, scales=[1.0], zps=[known])
    rank = weights.values.ndim
    axis = max(rank - 2, 0)
    parts = _parts(weights.values, axis, int(np.abs(weights.more).max()))
    points = None if zero is None else cast(t, _beside(t, zero, rows=rank > 1), F32)
    of_vector = len(shape_of(real)) == 1 and rank > 1

    def product(start: int, stop: int) -> Value:
        first = real if len(parts) == 1 else cut(t, real, len(shape_of(real)) - 1, start, stop)
        part = weights.part(axis, start, stop)
        made: Value = matmul(t, first, t.op("Dequantize", part.values, scales=[1.0], zps=[0]))
        if part.more.any():
            sums = reduce(t, "ReduceSum", first, [-1], keep=rank > 1 and not of_vector)
            made = binary(t, "Add", made, binary(t, "Multiply", sums, part.more.astype(F32)))
        if points is None:
            return made
        sums = part.sums(axis).squeeze(axis) if of_vector else part.sums(axis)
        return binary(t, "Subtract", made, binary(t, "Multiply", points, sums))

    return _summed(t, parts, product)


def _signed(weights: Value, zero: Value | None) -> _Signed | None:
    """Constant weights less their zero points; None where they are no such."""
    if not isinstance(weights, np.ndarray) or weights.dtype not in EIGHT_BITS or weights.ndim == 0:
        return None
    if not weights.size or (zero is not None and not isinstance(zero, np.ndarray)):
        return None
    none = np.zeros((), np.int16)
    points = none if zero is None else zero.astype(np.int16)
    real: Array = weights.astype(np.int16) - points
    if real.min() >= -128 and real.max() <= 127:
        return _Signed(real.astype(np.int8), none)
    if points.ndim > 1 or (points.size > 1 and weights.ndim < 2):
        return None
    middle = 128 if weights.dtype == np.uint8 else 0
    return _Signed((weights.astype(np.int16) - middle).astype(np.int8), middle - points)


@OPS.enter("ConvInteger")
def _integer_convolution(t: Translation, node: Node) -> Value:
    x, w = _from_zero(t, node[0], node.optional(2), False), node[1]
    zeros = node.optional(3)
    if zeros is not None and len(shape_of(zeros)) == 1 and sizes(zeros)[0] > 1:
        zeros = reshape(t, zeros, (-1, *[1] * (len(shape_of(w)) - 1)))
    w = _from_zero(t, w, zeros, False)
    attributes = convolution_attributes(node)
    parts = _parts(w, 1)
    if len(parts) > 1 and attributes["groups"] != 1:
        raise Unmapped("groups of so many channels")

    def convolved(start: int, stop: int) -> Value:
        whole = len(parts) == 1
        first, second = (value if whole else cut(t, value, 1, start, stop) for value in (x, w))
        return convolution(t, first, second, None, **attributes)

    return _summed(t, parts, convolved, "a convolution of no channels")


def _summed(
    t: Translation,
    parts: Sequence[tuple[int, int]],
    made: Callable[[int, int], Value],
    nothing: str = "a product over no elements",
) -> Value:
    """The sum, as integers, of what is made of each part of an inner axis.

    Raises:
        Unmapped: there is no part, which is `nothing`.
    """
    totals = [cast(t, made(start, stop), S32) for start, stop in parts]
    if not totals:
        raise Unmapped(nothing)
    return reduce_by(lambda total, one: binary(t, "Add", total, one), totals)


def _from_zero(t: Translation, x: Value, zero: Value | None, rows: bool) -> Value:
    """8-bit integers less their zero points, which may be one for each row or column, in f32."""
    if dtype_of(x) not in EIGHT_BITS:
        raise Unmapped(f"a tensor of {dtype_of(x)}; s8 and u8 can be done")
    wide = cast(t, x, F32)
    if zero is None or (isinstance(zero, np.ndarray) and not zero.any()):
        return wide
    zero = _beside(t, zero, rows=rows)
    if isinstance(wide, np.ndarray) and isinstance(zero, np.ndarray):
        return wide - zero.astype(F32)
    return binary(t, "Subtract", wide, cast(t, zero, F32))


def _beside(t: Translation, zero: Value, *, rows: bool) -> Value:
    """Zero points, one or one for each row or column, as they broadcast to what they are of."""
    if len(shape_of(zero)) != 1:
        return zero
    return reshape(t, zero, (-1, 1) if rows and sizes(zero)[0] > 1 else (-1,) if sizes(zero)[0] > 1 else ())


def _parts(weight: Value, axis: int, more: int = 0) -> list[tuple[int, int]]:
    """Parts of an inner axis over which no sum can leave what f32 has exactly.

    Args:
        more: what is added to constant weights at most.
    """
    size = sizes(weight)[axis]
    others = tuple(a for a in range(len(shape_of(weight))) if a != axis)
    if isinstance(weight, np.ndarray):
        # The sums of each output's weights: one for each column of a matrix, or each output channel.
        taps = tuple(a for a in others if a > 1) if axis == 1 and weight.ndim > 2 else ()
        wide = weight.astype(np.int16)  # vocabularies have hundreds of megabytes
        signs = (np.maximum(one, 0).sum(taps, np.int32, keepdims=True) for one in (wide, -wide))
        grown = [np.cumsum(one, axis, dtype=np.int32) for one in signs]
        reach: Array = np.concatenate([np.moveaxis(one, axis, -1).reshape(-1, size) for one in grown])
        if more:
            reach += more * np.arange(1, size + 1, dtype=np.int32)
    else:
        reach = np.arange(1, size + 1, dtype=np.int64)[None] * LARGEST
        if axis == 1 and len(others) > 1:
            reach = reach * math.prod(sizes(weight)[a] for a in others if a > 1)
    parts: list[tuple[int, int]] = []
    start = 0
    while start < size:
        before = reach[:, start - 1 : start] if start else np.zeros((1, 1), reach.dtype)
        fits: Array = np.asarray((reach[:, start:] - before <= EXACT // WIDTH).all(0))
        count = int(fits.argmin()) if not fits.all() else len(fits)
        if not count or len(parts) == PARTS:
            raise Unmapped("an inner axis of so many elements")
        parts.append((start, start + count))
        start += count
    return parts
