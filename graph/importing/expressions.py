"""What the importers' tables are made of: operations of frameworks in ops of oneDNN Graph.

Data are NCX and weights OIX (IOX of transposed convolutions), as all frameworks here have them. Each function takes
the `Translation` first; values are tensors of the graph, or arrays where they are constant, and at least one of an op's
operands is a tensor: what is constant altogether was computed before. What can't be said raises `Unmapped`.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array, data_type_of
from .translation import (
    Padded,
    Repeated,
    Reshaped,
    Translation,
    Unmapped,
    Value,
    dtype_of,
    shape_of,
    sizes,
)

PARTS = ("slice", "split", "select", "unbind", "chunk", "narrow", "gather")
"""Words in the names of nodes that take parts."""
MOST_PARTS = 64
"""Inputs that Concat takes at most."""
MOST_COPIES = 8
"""Copies behind each other that are better than a product: of keys and values that heads share, say."""
MOST_ONES = 1 << 20
"""Ones that a tensor may be multiplied by to be broadcast."""
MOST_ROWS = 256
"""Parts that a look-up may fall into: each is an op."""
FLOATS = (np.dtype(np.float32), np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16), np.dtype(np.float64))
HALVES = FLOATS[1:3]
"""Floating-point types of 16 bits."""

Operand = Value | float
"""A value, or a Python number, which takes the type of the other operand."""


def axis_of(value: Value, axis: int) -> int:
    """The axis counted from the front."""
    rank = len(shape_of(value))
    if not -rank <= axis < max(rank, 1):
        raise Unmapped(f"axis {axis} is none of the {rank} axes of its input")
    return axis % rank if rank else 0


def uniform(value: object) -> float | None:
    """The number that all elements of a constant are, or None."""
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, np.ndarray):
        return None
    array = typing.cast("Array", value)
    if array.size == 0:
        return None
    first = array.reshape(-1)[0]
    return float(first) if array.size == 1 or bool((array == first).all()) else None


# --- element by element ----------------------------------------------------------------------------------


def _common_type(a: Value, b: Value) -> np.dtype[Any]:
    """The type that both operands get: a constant scalar adapts, other types go to the wider one."""
    first, second = dtype_of(a), dtype_of(b)
    if first == second:
        return first
    for constant, other in ((a, second), (b, first)):
        if isinstance(constant, np.ndarray) and (constant.ndim == 0 or constant.dtype not in FLOATS):
            if other not in FLOATS and constant.dtype in FLOATS:
                raise Unmapped(f"it mixes {other} with {constant.dtype}")
            return other
    if first not in FLOATS or second not in FLOATS:
        raise Unmapped(f"it mixes {first} with {second}")
    return np.dtype(np.float64) if np.dtype(np.float64) in (first, second) else np.dtype(np.float32)


def cast(t: Translation, x: Value, dtype: np.dtype[Any]) -> Value:
    """The value in another type: by TypeCast between floating-point ones, by HostCast where integers or truths are."""
    if dtype_of(x) == dtype:
        return x
    if isinstance(x, np.ndarray) and x.dtype.kind not in "cOSU":
        return x.astype(dtype)
    kind = "TypeCast" if dtype in FLOATS and dtype_of(x) in FLOATS else "HostCast"
    return t.op(kind, x, output_type=data_type_of(np.empty(0, dtype)))


def operands(t: Translation, a: Operand, b: Operand) -> tuple[Value, Value]:
    """Both operands in one type."""
    if isinstance(a, int | float):
        if isinstance(b, int | float):
            raise Unmapped("both operands are numbers")
        return _number(a, b), b
    if isinstance(b, int | float):
        return a, _number(b, a)
    dtype = _common_type(a, b)
    return cast(t, a, dtype), cast(t, b, dtype)


def _number(value: float, like: Value) -> Array:
    dtype = dtype_of(like)
    if dtype not in FLOATS and value != np.asarray(value).astype(dtype):
        raise Unmapped(f"it mixes {dtype} with the number {value}")
    return np.asarray(value, dtype)


def binary(t: Translation, kind: str, a: Operand, b: Operand) -> LogicalTensor:
    """A binary op, broadcast as NumPy does. By a number that halves don't have it is done in f32, and rounded."""
    for number, value in ((a, b), (b, a)):
        if isinstance(number, int | float) and not isinstance(value, int | float):
            dtype = dtype_of(value)
            if dtype in HALVES and math.isfinite(number) and float(np.asarray(number, dtype)) != number:
                wide = t.op(kind, *(cast_operand(t, one, np.dtype(np.float32)) for one in (a, b)))
                return t.op("TypeCast", wide, output_type=data_type_of(np.empty(0, dtype)))
    return t.op(kind, *operands(t, a, b))


def cast_operand(t: Translation, x: Operand, dtype: np.dtype[Any]) -> Value:
    """A value or a number in a type."""
    return np.asarray(x, dtype) if isinstance(x, int | float) else cast(t, x, dtype)


def multiplied(constant: Array, factor: float, like: Operand) -> Array:
    """A constant times a number, in the floating-point type that it has, or that `like` gives it."""
    other = dtype_of(like) if not isinstance(like, int | float) else constant.dtype
    dtype = constant.dtype if constant.dtype in FLOATS or other not in FLOATS else other
    if dtype not in FLOATS:
        if float(factor) != int(factor):
            raise Unmapped(f"it mixes {dtype} with the number {factor}")
        return constant * dtype.type(factor)
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    return (constant.astype(wide) * wide.type(factor)).astype(dtype)


def chain(t: Translation, kind: str, values: Sequence[Operand]) -> Value:
    """`a ∘ b ∘ c ∘ …` with a binary op; constants among them are operands like others."""
    result = values[0]
    for value in values[1:]:
        result = binary(t, kind, result, value)
    if isinstance(result, int | float):
        raise Unmapped("its operands are all numbers")
    return result


def negative(t: Translation, x: Value) -> Value:
    """−x."""
    return binary(t, "Multiply", x, -1.0)


def silu(t: Translation, x: Value) -> Value:
    """X · sigmoid(x)."""
    return t.op("Multiply", x, t.op("Sigmoid", x))


def clamp(t: Translation, x: Value, low: float | None, high: float | None) -> Value:
    """Bounds on both sides, on one, or on none."""
    low = None if low is not None and math.isinf(low) and low < 0 else low
    high = None if high is not None and math.isinf(high) and high > 0 else high
    floats = dtype_of(x) in FLOATS
    if floats and low is not None and high is not None:
        return t.op("Clamp", x, min=low, max=high)
    if floats and low == 0:
        return t.op("ReLU", x)
    if low is not None:
        x = binary(t, "Maximum", x, low)
    return binary(t, "Minimum", x, high) if high is not None else x


def power(t: Translation, x: Operand, exponent: Operand) -> Value:
    """X to a power; one that is no constant number is taken on the host."""
    number = uniform(exponent)
    if isinstance(x, int | float) or number is None:
        return t.op("HostPower", *_powers(t, x, exponent))
    if isinstance(exponent, np.ndarray) and exponent.size > 1:
        x = expand(t, x, np.broadcast_shapes(exponent.shape, sizes(x)))
    if number == 1:
        return x
    simple = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal"}.get(number)
    return t.op(simple, x) if simple else t.op("Pow", x, beta=number)


def _powers(t: Translation, x: Operand, exponent: Operand) -> tuple[Value, Value]:
    """A base and an exponent in one type of floating-point numbers."""
    first, second = operands(t, x, exponent)
    if dtype_of(first) not in FLOATS:
        raise Unmapped(f"powers of {dtype_of(first)}")
    return first, second


def where(t: Translation, condition: Value, a: Operand, b: Operand) -> Value:
    """Elements of a where the condition holds, of b elsewhere; b as it is where a constant says so everywhere."""
    if dtype_of(condition) != np.bool_:
        raise Unmapped(f"a condition of {dtype_of(condition)}; Select takes booleans")
    if isinstance(condition, np.ndarray) and not condition.any() and not isinstance(b, int | float):
        others = () if isinstance(a, int | float) else shape_of(a)
        same_type = isinstance(a, int | float) or dtype_of(a) == dtype_of(b)
        known = -1 not in (*others, *shape_of(b))
        if same_type and known and np.broadcast_shapes(condition.shape, others, shape_of(b)) == shape_of(b):
            return b
    if isinstance(a, int | float) and isinstance(b, int | float):
        a = np.asarray(a, np.float32)
    return t.op("Select", condition, *operands(t, a, b))


# --- shapes ----------------------------------------------------------------------------------------------


def reshape(t: Translation, x: Value, dims: Sequence[int]) -> Value:
    """The same elements under a shape of which one size may be -1."""
    if any(d < -1 for d in dims):
        raise Unmapped(f"a reshape to {list(dims)}; only -1 has a meaning below 0")
    if isinstance(x, np.ndarray):
        return x.reshape(dims)
    if tuple(dims) == shape_of(x) and -1 not in dims:
        return x
    if list(dims).count(-1) > 1:
        sizes(x)  # says what is missing
    if -1 in shape_of(x) or isinstance(x, Padded):
        return t.op("StaticReshape", x, shape=list(dims), special_zero=False)
    shape = list(dims)
    if -1 in shape:
        rest, total = math.prod(d for d in shape if d != -1), math.prod(sizes(x))
        shape[shape.index(-1)] = total // rest if rest else 0
    if math.prod(shape) != math.prod(sizes(x)):
        raise Unmapped(f"a reshape of {list(sizes(x))} to {list(dims)}, which has another number of elements")
    base = x.base if isinstance(x, Reshaped) else x
    return base if tuple(shape) == base.shape else Reshaped(base, tuple(shape))


def transpose(t: Translation, x: Value, order: Sequence[int]) -> Value:
    """The axes in another order."""
    shape = shape_of(x)
    order = [axis_of(x, axis) for axis in order]
    if sorted(order) != list(range(len(shape))):
        raise Unmapped(f"an order {order} that does not have each of its {len(shape)} axes once")
    if isinstance(x, np.ndarray):
        return x.transpose(order)
    if order == list(range(len(shape))):
        return x
    moving = [axis for axis in order if shape[axis] != 1]
    if moving == sorted(moving) and -1 not in shape:
        return reshape(t, x, [shape[axis] for axis in order])
    return t.op("StaticTranspose", x, order=order)


def squeeze(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    """Without these axes of one element."""
    shape = shape_of(x)
    gone = {axis_of(x, axis) for axis in axes}
    return reshape(t, x, [d for axis, d in enumerate(shape) if axis not in gone])


def unsqueeze(t: Translation, x: Value, axes: Sequence[int]) -> Value:
    """With new axes of one element at these places of the result."""
    rank = len(shape_of(x)) + len(axes)
    places = {axis % rank for axis in axes}
    if len(places) < len(axes) or any(not -rank <= axis < rank for axis in axes):
        raise Unmapped(f"new axes {list(axes)}, which are not each one of the {rank} axes of its output")
    rest = iter(shape_of(x))
    return reshape(t, x, [1 if axis in places else next(rest) for axis in range(rank)])


def expand(t: Translation, x: Value, shape: Sequence[int]) -> Value:
    """Broadcast to a shape: by a product with ones, which changes no number, or as a few copies along one axis."""
    if isinstance(x, np.ndarray):
        return np.broadcast_to(x, shape)
    have = shape_of(x)
    if tuple(shape) == have:
        return x
    if dtype_of(x) not in FLOATS:
        return t.op("HostExpand", x, shape=list(shape))
    padded = (1,) * (len(shape) - len(have)) + have
    ones = [want if want != old else 1 for want, old in zip(shape, padded, strict=True)]
    if all(d == 1 for d in ones):
        return reshape(t, x, shape)
    wider = [axis for axis, d in enumerate(ones) if d != 1]
    once = reshape(t, x, padded)
    if len(wider) == 1 and 1 < ones[wider[0]] <= MOST_COPIES and any(d != 1 for d in padded):
        result = concat(t, [once] * ones[wider[0]], wider[0])
    elif math.prod(ones) > MOST_ONES:
        result = t.op("HostExpand", x, shape=list(shape))
    else:
        result = t.op("Multiply", x, np.ones(ones, dtype_of(x)))
    if len(wider) == 1 and isinstance(result, LogicalTensor):
        t.repeated[result.id] = Repeated(once, wider[0])
    return result


def concat(t: Translation, values: Sequence[Value], axis: int) -> Value:
    """Values behind each other."""
    if len(values) == 1:
        return values[0]
    axis = axis_of(values[0], axis)
    if len(values) > MOST_PARTS:
        parts = [concat(t, values[i : i + MOST_PARTS], axis) for i in range(0, len(values), MOST_PARTS)]
        return concat(t, parts, axis)
    if all(isinstance(value, np.ndarray) for value in values):
        return np.concatenate([value for value in values if isinstance(value, np.ndarray)], axis)
    return t.op("Concat", *values, axis=axis)


def repeat(t: Translation, x: Value, counts: Sequence[int]) -> Value:
    """The whole several times along each axis."""
    if len(counts) != len(shape_of(x)):
        raise Unmapped(
            f"repetitions {list(counts)} of a tensor of {len(shape_of(x))} axes; each axis takes one number"
        )
    if min(counts, default=1) < 1:
        raise Unmapped(f"repetitions {list(counts)}, which leave no elements")
    for axis, count in enumerate(counts):
        shape = shape_of(x)
        if count <= MOST_PARTS or -1 in shape:
            t.check_ops(count)
            x = concat(t, [x] * count, axis)
        else:
            many = expand(t, unsqueeze(t, x, [axis]), [*shape[:axis], count, *shape[axis:]])
            x = reshape(t, many, [*shape[:axis], count * shape[axis], *shape[axis + 1 :]])
    return x


def pad(t: Translation, x: Value, begin: Sequence[int], end: Sequence[int], value: float) -> Value:
    """Elements around; negative counts cut off. Zeros wait for a convolution to take them."""
    for axis, (first, last) in enumerate(zip(begin, end, strict=True)):
        if first < 0 or last < 0:
            size = sizes(x)[axis]
            x = cut(t, x, axis, max(0, -first), size - max(0, -last))
    begin, end = [max(0, b) for b in begin], [max(0, e) for e in end]
    if not any((*begin, *end)):
        return x
    base = t.tensor(x)
    if value == 0 and dtype_of(base) in FLOATS:
        return Padded(base, tuple(begin), tuple(end))
    if dtype_of(base) not in FLOATS or -1 in shape_of(base):
        return t.op("HostPad", base, pads_begin=begin, pads_end=end, value=value)
    return t.padded(base, begin, end, value)


def cut(t: Translation, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """`x[…, start:stop:step, …]`; bounds count from the end where negative, as Python's do.

    oneDNN Graph has no such op. A MaxPool does it, with windows of one element and negative padding: it copies
    exactly the elements that are wanted, NaN and infinities included. What it can't do is done on the host: backwards,
    of integers, of sizes that are not known.
    """
    axis = axis_of(x, axis)
    shape = shape_of(x)
    size = shape[axis]
    if step == 0:
        raise Unmapped("a step of 0")
    chosen = range(max(size, 0))[start:stop:step]
    if isinstance(x, np.ndarray):
        return x.take(chosen, axis)
    if len(chosen) == size and step > 0:
        return x
    wide = len(shape) >= 3 and axis >= 1
    backwards = step < 0 and len(chosen) > 1
    if not chosen or 0 in shape or backwards or dtype_of(x) not in FLOATS or not (wide or -1 not in shape):
        bounds = {"starts": [start], "stops": [stop], "steps": [step]}
        return t.titled(_part_name(t.label), "HostSlice", x, axes=[axis], **bounds)
    seen = x if wide else reshape(t, x, _around(sizes(x), axis))
    # Spatial axes are those behind the channels or, for a part of what would be the channels, those before them.
    first = 1 if wide and axis == 1 else 2
    spatial, place = (len(shape) - 2, axis - first) if wide else (2, 0)
    begin, end, strides = [0] * spatial, [0] * spatial, [1] * spatial
    begin[place], end[place] = -chosen[0], -(size - 1 - chosen[-1])
    strides[place] = step if step > 0 else 1
    part = t.titled(
        _part_name(t.label),
        "MaxPool",
        seen,
        kernel=[1] * spatial,
        strides=strides,
        pads_begin=begin,
        pads_end=end,
        data_format="NXC" if first == 1 else "NCX",
    )
    return part if wide else reshape(t, part, (*shape[:axis], len(chosen), *shape[axis + 1 :]))


def _part_name(label: str) -> str:
    """A name that says what the MaxPool is, in the module of the node."""
    if any(word in label.lower() for word in PARTS):
        return label
    start = max(label.rfind("."), label.rfind("/")) + 1
    return f"{label[:start]}slice_{label[start:]}"


def _around(shape: Sequence[int], axis: int) -> tuple[int, int, int, int]:
    """The shape as (1, what is before the axis, the axis, what is behind)."""
    return 1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def select(t: Translation, x: Value, axis: int, index: int | LogicalTensor) -> Value:
    """`x[…, index, …]`, without the axis; the index may be a tensor without axes."""
    axis = axis_of(x, axis)
    if isinstance(index, LogicalTensor):
        return t.op("HostGather", x, index, axis=axis)
    size = shape_of(x)[axis]
    if size < 0:
        return t.op("HostGather", x, np.asarray(index), axis=axis)
    if not -size <= index < size:
        raise Unmapped(f"index {index} is beyond the {size} elements of axis {axis}")
    return squeeze(t, cut(t, x, axis, index % size, index % size + 1), [axis])


def take(t: Translation, x: Value, axis: int, indices: Value) -> Value:
    """Elements along an axis by indices; the axis becomes those of the indices.

    oneDNN Graph has no such op: by few constant indices, each ascending row with equal distances is cut out, and the
    parts are joined. Else it is a look-up on the host.
    """
    axis = axis_of(x, axis)
    if not isinstance(indices, np.ndarray) or -1 in shape_of(x) or dtype_of(x) not in FLOATS:
        return t.op("HostGather", x, indices, axis=axis)
    size = sizes(x)[axis]
    if isinstance(x, np.ndarray):
        return x.take(indices, axis)
    given = [int(i) for i in indices.reshape(-1)]
    beyond = next((i for i in given if not -size <= i < size), None)
    if beyond is not None:
        raise Unmapped(f"index {beyond} is beyond the {size} elements")
    if not given:
        return t.op("HostGather", x, indices, axis=axis)
    rows = list(ascending_rows([i % size for i in given]))
    if len(rows) > MOST_ROWS:
        return t.op("HostGather", x, indices, axis=axis)
    parts = [cut(t, x, axis, row.start, row.stop, row.step) for row in rows]
    part = parts[0] if len(parts) == 1 else concat(t, parts, axis)
    shape = shape_of(x)
    return reshape(t, part, (*shape[:axis], *indices.shape, *shape[axis + 1 :]))


def ascending_rows(indices: Sequence[int]) -> Iterator[range]:
    """The indices as rows that ascend by equal steps, each as long as it can be."""
    start = 0
    while start < len(indices):
        first, stop = indices[start], start + 1
        step = indices[stop] - first if stop < len(indices) else 0
        if step > 0:
            while stop < len(indices) and indices[stop] - indices[stop - 1] == step:
                stop += 1
        yield range(first, indices[stop - 1] + 1, max(step, 1))
        start = stop


# --- reductions and softmax ------------------------------------------------------------------------------


def reduce(t: Translation, kind: str, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """A reduction; over all axes if none is given."""
    rank = len(shape_of(x))
    counted = sorted({axis_of(x, axis) for axis in axes}) if axes and rank else list(range(rank))
    if not counted:
        return unreduced(t, kind, x)
    return t.op(kind, x, axes=counted, keep_dims=keep)


def unreduced(t: Translation, kind: str, x: Value) -> Value:
    """What a reduction makes of single elements: a norm still takes away the sign."""
    return t.op("Abs", x) if kind in ("ReduceL1", "ReduceL2") else x


def matmul(t: Translation, a: Value, b: Value, bias: Value | None = None) -> Value:
    """A product of matrices. A constant that lies transposed is taken as it lies, and what is repeated once.

    Torch repeats the matrix of a `Linear` for each of the batches of what does not lie row after row.
    """
    a, b = _not_repeated(t, a, b), _not_repeated(t, b, a)
    more: dict[str, Any] = {}
    if isinstance(a, np.ndarray) and _lies_transposed(a):
        a, more["transpose_a"] = t.renamed(a.T, a), True
    if isinstance(b, np.ndarray) and _lies_transposed(b):
        b, more["transpose_b"] = t.renamed(b.T, b), True
    return t.op("MatMul", a, b, *(() if bias is None else (bias,)), **more)


def _not_repeated(t: Translation, x: Value, other: Value) -> Value:
    """A factor as it was before it was repeated for each of the other one's batches."""
    found = t.repeated.get(x.id) if isinstance(x, LogicalTensor) else None
    if found is None or (isinstance(other, LogicalTensor) and other.id in t.repeated):
        return x
    rank, whole = len(shape_of(x)), shape_of(other)
    along = (
        found.axis < rank - 2 and len(whole) == rank and whole[found.axis] == shape_of(x)[found.axis] != -1
    )
    return found.of if along else x


def _lies_transposed(array: Array) -> bool:
    return array.ndim == 2 and array.flags.f_contiguous and not array.flags.c_contiguous


def linear(t: Translation, x: Value, weight: Value, bias: Value | None) -> Value:
    """X · weightᵀ + bias."""
    return t.op("MatMul", x, weight, *(() if bias is None else (bias,)), transpose_b=True)
