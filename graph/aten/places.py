"""ATen ops that put elements where truths hold, and those that look rows up and sum them, on ops that are there."""

from __future__ import annotations

import math

import numpy as np

from ..importing.expressions import FLOATS, binary, cast, expand, reduce, reshape, take, unsqueeze, where
from ..importing.hosted import TRUTH, cumulative
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
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
def _bags(
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
    """Rows of a table, summed, averaged or compared in bags that begin at offsets; of equal bags that are known.

    The other results, which only a gradient reads, are left out.
    """
    del by_frequency, sparse
    if not isinstance(offsets, np.ndarray):
        raise Unmapped(
            "bags whose offsets are known at execution only; give rows of equal length, without offsets"
        )
    if padding >= 0:
        raise Unmapped(f"a padding index {padding}, whose rows no bag has")
    starts = [int(one) for one in offsets]
    total = sizes(indices)[0]
    ends = starts[1:] if to_the_end else [*starts[1:], total]
    starts = starts[: len(ends)]
    counts = {end - start for start, end in zip(starts, ends, strict=True)}
    if len(counts) != 1 or 0 in counts or starts[0] or ends[-1] != total:
        raise Unmapped(f"bags that begin at {starts} of {total} rows; give bags of equal length")
    rows = take(t, table, 0, indices)
    if weights is not None:
        rows = binary(t, "Multiply", rows, unsqueeze(t, weights, [1]))
    bags = reshape(t, rows, [len(starts), counts.pop(), sizes(table)[1]])
    return [reduce(t, ("ReduceSum", "ReduceMean", "ReduceMax")[mode], bags, [1], keep=False)]


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
