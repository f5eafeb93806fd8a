"""ONNX's products of 8-bit integers whose scales are known at execution only, in ops of oneDNN Graph.

The sums are those of f32, in which they are exact as long as none can leave 24 bits: an inner axis that is too long for
that is cut into parts, and their sums are added as integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
LARGEST = 255
"""An 8-bit integer less its zero point."""
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
    a, b = (_from_zero(t, node[place], node.optional(2 + place), place == 0) for place in (0, 1))
    if not shape_of(a) or not shape_of(b):
        raise Unmapped("a product with a scalar")
    axis = max(len(shape_of(b)) - 2, 0)
    total: Value | None = None
    for start, stop in _parts(b, axis):
        whole = (start, stop) == (0, sizes(b)[axis])
        first = a if whole else cut(t, a, len(shape_of(a)) - 1, start, stop)
        made = cast(t, matmul(t, first, b if whole else cut(t, b, axis, start, stop)), S32)
        total = made if total is None else binary(t, "Add", total, made)
    if total is None:
        raise Unmapped("a product over no elements")
    return total


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
    total: Value | None = None
    for start, stop in parts:
        whole = len(parts) == 1
        first, second = (value if whole else cut(t, value, 1, start, stop) for value in (x, w))
        made = cast(t, convolution(t, first, second, None, **attributes), S32)
        total = made if total is None else binary(t, "Add", total, made)
    if total is None:
        raise Unmapped("a convolution of no channels")
    return total


def _from_zero(t: Translation, x: Value, zero: Value | None, rows: bool) -> Value:
    """8-bit integers less their zero points, which may be one for each row or column, in f32."""
    if dtype_of(x) not in (np.dtype(np.uint8), np.dtype(np.int8)):
        raise Unmapped(f"a tensor of {dtype_of(x)}; s8 and u8 can be done")
    wide = cast(t, x, F32)
    if zero is None or (isinstance(zero, np.ndarray) and not zero.any()):
        return wide
    if len(shape_of(zero)) == 1:
        zero = reshape(
            t, zero, (-1, 1) if rows and sizes(zero)[0] > 1 else (-1,) if sizes(zero)[0] > 1 else ()
        )
    if isinstance(wide, np.ndarray) and isinstance(zero, np.ndarray):
        return wide - zero.astype(F32)
    return binary(t, "Subtract", wide, cast(t, zero, F32))


def _parts(weight: Value, axis: int) -> list[tuple[int, int]]:
    """Parts of an inner axis over which no sum can leave what f32 has exactly."""
    size = sizes(weight)[axis]
    others = tuple(a for a in range(len(shape_of(weight))) if a != axis)
    if isinstance(weight, np.ndarray):
        # The sums of each output's weights: one for each column of a matrix, or each output channel.
        taps = tuple(a for a in others if a > 1) if axis == 1 and weight.ndim > 2 else ()
        grown = np.cumsum(np.abs(weight).sum(taps, keepdims=True), axis, dtype=np.float64)
        reach = np.moveaxis(grown, axis, -1).reshape(-1, size)
    else:
        reach = np.arange(1, size + 1, dtype=np.float64)[None] * LARGEST
        if axis == 1 and len(others) > 1:
            reach = reach * np.prod([sizes(weight)[a] for a in others if a > 1])
    parts: list[tuple[int, int]] = []
    start = 0
    while start < size:
        before = reach[:, start - 1 : start] if start else np.zeros((1, 1))
        fits: Array = np.asarray(((reach[:, start:] - before) * LARGEST <= EXACT).all(0))
        count = int(fits.argmin()) if not fits.all() else len(fits)
        if not count or len(parts) == PARTS:
            raise Unmapped("an inner axis of so many elements")
        parts.append((start, start + count))
        start += count
    return parts
