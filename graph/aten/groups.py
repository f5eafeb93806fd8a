"""ATen ops that count what falls between bounds, and products of groups of rows, as of the experts of a mixture."""

from __future__ import annotations

import math

import numpy as np

from ..importing.expressions import binary, cast, cut, operands, reduce, reshape, unsqueeze, where
from ..importing.hosted import compared, logical
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .elementwise import promoted
from .schema import Translate, numpy_type_of

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""
_WHOLE = np.dtype(np.int64)
MOST_COMPARED = 1 << 24
"""Comparisons of elements with bounds, of which there is one for each pair."""


def _grouped(
    t: Translation,
    x: Value,
    weights: Value,
    ends: Value | None = None,
    bias: Value | None = None,
    dtype: object = None,
) -> Value:
    """Rows in groups by a matrix each."""
    if ends is None or (len(shape_of(x)), len(shape_of(weights))) != (2, 3):
        raise Unmapped("groups that are not of rows; only rows in groups by a matrix each are known")
    if bias is not None:
        raise Unmapped("a bias, which torch does not take either")
    made: Value = t.op("HostGroupedMatMul", x, weights, ends)
    return made if dtype is None else cast(t, made, numpy_type_of(dtype))


OPS.add({"_grouped_mm": _grouped})
OTHERS: dict[str, Translate] = {"transformers.grouped_mm_fallback": _grouped}
"""Ops that libraries have registered with torch: transformers' stands for the one before where torch can't run it."""


@OPS.enter("histc")
def _histogram(t: Translation, x: Value, bins: int = 100, low: float = 0, high: float = 0) -> Value:
    """How many elements fall into each of equal parts of a range; those outside, and NaN, are left out."""
    if not low < high or not math.isfinite(high - low):
        raise Unmapped(f"a histogram from {low} to {high}; name a range, for that of the data is not known")
    flat = reshape(t, x, [-1])
    share = binary(t, "Multiply", _over(t, flat, low, high), bins)
    inside = logical(t, "And", compared(t, "GreaterEqual", flat, low), compared(t, "LessEqual", flat, high))
    # What is left out is counted behind the last part.
    at = binary(t, "Minimum", cast(t, where(t, inside, share, 0.0), _WHOLE), bins - 1)
    places = reshape(t, where(t, inside, at, bins), [-1, 1])
    own = dtype_of(x)
    updates = np.ones(sizes(flat), own)
    counts = t.op("HostScatterND", t.constant(np.zeros(bins + 1, own)), places, updates, reduction="add")
    return cut(t, counts, 0, 0, bins)


def _over(t: Translation, x: Value, low: float, high: float) -> Value:
    """Where in the range each element is, from 0 to 1, in the order in which torch rounds."""
    return binary(t, "Divide", binary(t, "Subtract", x, low), high - low)


@OPS.enter("bucketize.Tensor")
def _bucket(t: Translation, x: Value, bounds: Value, narrow: bool = False, right: bool = False) -> Value:
    """How many bounds each element is beyond, which is the number of the bucket that it falls into."""
    return beyond(t, bounds, x, narrow, right)


@OPS.enter("searchsorted.Tensor")
def _sorted_place(
    t: Translation,
    row: Value,
    x: Value,
    narrow: bool = False,
    right: bool = False,
    side: str | None = None,
    order: Value | None = None,
) -> Value:
    """The same in rows that are sorted, one for all elements or one for each row of them."""
    if order is not None:
        raise Unmapped("rows that another tensor sorts; sort them before")
    return beyond(t, row, x, narrow, right or side == "right")


def beyond(t: Translation, bounds: Value, x: Value, narrow: bool = False, right: bool = False) -> Value:
    """How many of the bounds are below each element, or not above it; NaN is beyond all."""
    shape, rows = shape_of(x), shape_of(bounds)
    if math.prod(sizes(x)) * rows[-1] > MOST_COMPARED:
        raise Unmapped(f"{math.prod(sizes(x))} elements among {rows[-1]} bounds, each of which is compared")
    first, second = map(t.tensor, operands(t, *promoted(t, x, bounds)))
    beside = (
        second if len(rows) == 1 else unsqueeze(t, second, [len(rows) - 1])
    )  # those of an element's own row
    kind = "Less" if right else "LessEqual"
    within = compared(t, kind, unsqueeze(t, first, [len(shape)]), beside)
    counted = cast(t, t.op("HostNot", within), np.dtype(np.int32))
    found = reduce(t, "HostReduceSum", counted, [len(shape)], keep=False)
    return found if narrow else cast(t, found, _WHOLE)
