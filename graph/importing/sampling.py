"""What the importers' tables are made of where ops find places by values: sorting, scattering, sampling, one-hot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.host_sampling import SAMPLINGS
from .expressions import FLOATS, HALVES, axis_of, binary, cast, reduce, reshape, squeeze, unsqueeze, where
from .hosted import TRUTH, compared, logical
from .layers import pooling
from .translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes


def top_k(t: Translation, x: Value, count: int, axis: int, *, largest: bool = True) -> tuple[Value, Value]:
    """The largest or smallest elements in order, and where they are."""
    if not shape_of(x):
        raise Unmapped("an order of the elements of a tensor without axes")
    if dtype_of(x) == TRUTH:
        values, places = top_k(t, cast(t, x, np.dtype(np.uint8)), count, axis, largest=largest)
        return cast(t, values, TRUTH), places
    values, places = t.ops("HostTopK", x, axis=axis_of(x, axis), k=count, largest=largest)
    return values, cast(t, places, np.dtype(np.int64))  # which are of the type of x where that is s32


def scattered(
    t: Translation, x: Value, axis: int, indices: Value, updates: Value, reduction: str = "none"
) -> Value:
    """Other elements at the places along an axis that an index says."""
    if reduction not in ("none", "add", "mul", "max", "min"):
        raise Unmapped(f"a reduction {reduction!r}")
    if dtype_of(x) == TRUTH and reduction != "none":
        raise Unmapped("a reduction of truths")
    return t.op("HostScatterElements", x, indices, updates, axis=axis_of(x, axis), reduction=reduction)


def sampled(t: Translation, x: Value, grid: Value, mode: str, padding: str, corners: bool) -> Value:
    """What lies at the coordinates that a grid names."""
    if mode not in SAMPLINGS or (mode == "cubic" and len(shape_of(x)) != 4):
        raise Unmapped(f"a sampling of mode {mode!r} of {len(shape_of(x))} axes")
    return t.op("HostGridSample", x, grid, mode=mode, padding_mode=padding, align_corners=corners)


def one_hot(t: Translation, indices: Value, depth: int, axis: int) -> Value:
    """Truths along a new axis: whether its number is the index; negative ones count from the end."""
    rank = len(shape_of(indices)) + 1
    place = axis + rank if axis < 0 else axis
    if not 0 <= place < rank:
        raise Unmapped(f"axis {axis} is none of the {rank} axes of its output")
    column = unsqueeze(t, indices, [place])
    t.check_room((depth,), np.dtype(np.int64))
    numbers = (
        np.arange(depth).reshape([-1 if a == place else 1 for a in range(rank)]).astype(dtype_of(indices))
    )
    from_end = (numbers - np.asarray(depth, numbers.dtype)).astype(numbers.dtype)
    return logical(t, "Or", compared(t, "Equal", column, numbers), compared(t, "Equal", column, from_end))


def triangle(t: Translation, x: Value, diagonal: int, *, upper: bool) -> Value:
    """The elements on one side of a diagonal of the last two axes, zeros on the other."""
    rows, columns = sizes(x)[-2:]
    t.check_room((rows, columns), np.dtype(np.bool_))
    below = np.tri(rows, columns, diagonal - 1 if upper else diagonal, dtype=bool)
    kept = ~below if upper else below
    return where(t, kept, x, np.zeros((), dtype_of(x)))


def above(t: Translation, x: Value, bound: float) -> Value:
    """Whether elements are above a number: at least the next one, which oneDNN's own comparison tells."""
    dtype = dtype_of(x)
    if dtype not in FLOATS or dtype.kind == "V":
        return compared(t, "Greater", x, bound)
    number = np.asarray(bound, dtype)
    return t.op("GreaterEqual", x, np.nextafter(number, np.asarray(np.inf, dtype)))


def below(t: Translation, x: Value, bound: float) -> Value:
    """Whether elements are below a number."""
    dtype = dtype_of(x)
    if dtype not in FLOATS or dtype.kind == "V":
        return compared(t, "Less", x, bound)
    number = np.asarray(bound, dtype)
    return t.op("GreaterEqual", np.nextafter(number, np.asarray(-np.inf, dtype)), x)


def log_sum_exp(t: Translation, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """Logarithms of sums of exponentials, about the largest element, so that none overflows."""
    dtype = dtype_of(x)
    if dtype not in FLOATS:
        raise Unmapped(f"logarithms of {dtype}")
    if dtype in HALVES:  # rounded once
        return cast(t, log_sum_exp(t, cast(t, x, np.dtype(np.float32)), axes, keep), dtype)
    counted = [axis_of(x, axis) for axis in axes] or list(range(len(shape_of(x))))
    if not counted:
        return x
    most = float(np.finfo(dtype).max)
    # Rows of one infinity alone: less a finite number, they stay what they are.
    largest = reduce(t, "ReduceMax", x, counted, keep=True)
    finite = t.op("Clamp", largest, min=-most, max=most)
    total = reduce(t, "ReduceSum", t.op("Exp", binary(t, "Subtract", x, finite)), counted, keep=True)
    # Kernels of exponentials and bounds hide NaN, which the largest element is where one of them is.
    result = binary(t, "Add", t.op("Log", total), largest)
    return result if keep else squeeze(t, result, counted)


def local_response(t: Translation, x: Value, size: int, alpha: float, beta: float, bias: float) -> Value:
    """Elements divided by a power of the mean square of their neighbours along the channels."""
    shape = sizes(x)
    if len(shape) < 3:
        raise Unmapped(f"a normalisation over channels of a tensor of {len(shape)} axes")
    rest = int(np.prod(shape[2:]))
    rows = reshape(t, t.op("Square", x), (shape[0], 1, shape[1], rest))
    means = pooling(
        t,
        "AvgPool",
        rows,
        kernel=[size, 1],
        strides=[1, 1],
        begin=[(size - 1) // 2, 0],
        end=[size // 2, 0],
        dilations=[1, 1],
        ceil=False,
    )
    factor = binary(t, "Add", binary(t, "Multiply", means, alpha), bias)
    return binary(t, "Multiply", x, reshape(t, t.op("Pow", factor, beta=-beta), shape))
