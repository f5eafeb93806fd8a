"""ATen ops that put elements where truths hold, and those that look rows up and sum them, on ops that are there."""

from __future__ import annotations

import math

import numpy as np

from ..importing.expressions import FLOATS, binary, cast, cut, expand, reduce, reshape, take, unsqueeze, where
from ..importing.hosted import TRUTH, compared, cumulative
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .groups import beyond
from .schema import Translate
from .shapes import vector_norm

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""


@OPS.enter("masked_scatter")
def _masked_scatter(t: Translation, x: Value, mask: Value, source: Value) -> Value:
    """The elements of the source one after another, where the mask holds: the n-th truth gets the n-th element."""
    if dtype_of(mask) != TRUTH:
        raise Unmapped(f"a mask of {dtype_of(mask)}; it must be of truths")
    shape = sizes(x)
    whole = np.broadcast_shapes(shape, sizes(mask))
    if not math.prod(sizes(source)) or not math.prod(whole):
        raise Unmapped("no elements to put in")
    chosen = reshape(t, expand(t, mask, whole), [-1])
    counts = cumulative(t, chosen, 0)
    number = binary(
        t, "Maximum", binary(t, "Subtract", counts, 1), 0
    )  # too few elements are an error of the look-up
    put = take(t, reshape(t, source, [-1]), 0, number)
    return reshape(t, where(t, chosen, put, reshape(t, expand(t, x, whole), [-1])), whole)


@OPS.enter("_cdist_forward")
def _distances(t: Translation, a: Value, b: Value, order: float, how: int | None = None) -> Value:
    """The norm of each difference of a row of a and a row of b."""
    del how  # by a product or by differences: these are what is meant
    rank = max(len(shape_of(a)), len(shape_of(b)))
    a, b = (reshape(t, one, (1,) * (rank - len(shape_of(one))) + sizes(one)) for one in (a, b))
    apart = binary(t, "Subtract", unsqueeze(t, a, [rank - 1]), unsqueeze(t, b, [rank - 2]))
    return vector_norm(t, apart, order, [-1])


@OPS.enter("_embedding_bag", "_embedding_bag_forward_only")
def bags(
    t: Translation,
    table: Value,
    indices: Value,
    offsets: Value,
    by_frequency: bool = False,
    mode: int = 0,
    sparse: bool = False,
    weights: Value | None = None,
    to_the_end: bool = False,
    padding: int = -1,
) -> list[Value]:
    """Rows of a table, summed, averaged or compared in bags that begin at offsets.

    The other results, which only a gradient reads, are left out.
    """
    del by_frequency, sparse
    total = sizes(indices)[0]
    rows: Value = take(t, table, 0, indices)
    if weights is not None:
        rows = binary(t, "Multiply", rows, unsqueeze(t, weights, [1]))
    chosen = None if padding < 0 else unsqueeze(t, compared(t, "NotEqual", indices, padding), [1])
    if chosen is not None:
        rows = where(t, chosen, rows, -math.inf if mode == 2 else 0.0)
    equal = _equal_bags(offsets, total, to_the_end)
    if equal is not None and chosen is None:
        rows = reshape(t, rows, [equal, total // equal, sizes(table)[1]])
        return [reduce(t, ("ReduceSum", "ReduceMean", "ReduceMax")[mode], rows, [1], keep=False)]
    own, count = dtype_of(rows), sizes(offsets)[0] - to_the_end
    # In which bag each row is; in what comes before and behind all of them there is none.
    number = beyond(t, offsets, np.arange(total), right=True)
    found = t.tensor(reshape(t, number, [total, 1]))
    width = sizes(table)[1]

    def summed(x: Value, begin: float = 0.0, reduction: str = "add") -> Value:
        there = np.full((sizes(offsets)[0] + 1, sizes(x)[1]), begin, own)
        return cut(t, t.op("HostScatterND", there, found, x, reduction=reduction), 0, 1, count + 1)

    made = summed(rows, -math.inf, "max") if mode == 2 else summed(rows)
    if mode == 0:
        return [made]
    ones = np.ones((total, 1), own) if chosen is None else cast(t, chosen, own)
    counts = summed(ones)
    if mode == 1:
        return [binary(t, "Divide", made, binary(t, "Maximum", counts, 1.0))]
    return [where(t, expand(t, compared(t, "Greater", counts, 0.0), (count, width)), made, 0.0)]


def _equal_bags(offsets: Value, total: int, to_the_end: bool) -> int | None:
    """How many bags there are, where it is known that they hold all rows and equally many, at least one."""
    if not isinstance(offsets, np.ndarray):
        return None
    bounds = offsets if to_the_end else np.append(offsets, total)
    lengths = set(np.diff(bounds).tolist())
    filled = bounds[0] == 0 and bounds[-1] == total and len(lengths) == 1 and 0 not in lengths
    return len(bounds) - 1 if filled else None


@OPS.enter("_pdist_forward")
def _pair_distances(t: Translation, x: Value, order: float = 2) -> Value:
    """The norm of the difference of each row and each later one."""
    first, second = np.triu_indices(sizes(x)[0], 1)
    apart = binary(t, "Subtract", take(t, x, 0, first), take(t, x, 0, second))
    return vector_norm(t, apart, order, [-1])


def put_where_true(
    t: Translation, x: Value, before: int, mask: Value, values: Value, accumulate: bool
) -> Value:
    """`x[:, …, mask] = values` with the mask behind so many axes, where all of its truths get the same."""
    shape, of_mask, given = sizes(x), sizes(mask), sizes(values)
    behind = shape[before + len(of_mask) :]
    if len(given) > len(behind):
        place = len(given) - len(behind) - 1  # the axis of the elements that are chosen
        if given[place] != 1:
            raise Unmapped(
                "elements of their own for each truth of a mask, whose number is known at execution only"
            )
        values = reshape(t, values, (*given[:place], *(1 for _ in of_mask), *given[place + 1 :]))
    put: Value = cast(t, values, dtype_of(x))
    if accumulate:
        if dtype_of(x) not in FLOATS:
            raise Unmapped(f"a sum of {dtype_of(x)} by a mask")
        put = binary(t, "Add", x, put)
    chosen = reshape(t, mask, (*(1 for _ in range(before)), *of_mask, *(1 for _ in behind)))
    return expand(t, where(t, chosen, put, x), shape)
