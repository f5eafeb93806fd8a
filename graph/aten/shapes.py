"""ATen ops in ops of oneDNN Graph: shapes, parts, reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from ..importing.expressions import (
    FLOATS,
    HALVES,
    axis_of,
    binary,
    cast,
    concat,
    cut,
    expand,
    pad,
    power,
    reduce,
    repeat,
    reshape,
    select,
    squeeze,
    take,
    transpose,
    unsqueeze,
)
from ..importing.hosted import TRUTH, any_of, bordered
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .elementwise import alike
from .schema import Translate, cast_if_asked

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""
_FLOAT = np.dtype(np.float32)


# --- shapes ----------------------------------------------------------------------------------------------


OPS.add(dict.fromkeys(("view.default", "reshape", "_unsafe_view"), reshape))
OPS.add({"permute": transpose, "select.int": select})


@OPS.enter("sym_size.int")
def _size(t: Translation, x: Value, axis: int) -> int:
    return sizes(x)[axis]


@OPS.enter("sym_numel.default")
def _count(t: Translation, x: Value) -> int:
    return math.prod(sizes(x))


@OPS.enter("flatten.using_ints")
def _flatten(t: Translation, x: Value, start: int = 0, end: int = -1) -> Value:
    shape = sizes(x)
    if not shape:
        return reshape(t, x, [1])
    start, end = axis_of(x, start), axis_of(x, end)
    return reshape(t, x, (*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]))


@OPS.enter("unflatten.int")
def _unflatten(t: Translation, x: Value, axis: int, parts: Sequence[int]) -> Value:
    axis = axis_of(x, axis)
    shape = shape_of(x)
    return reshape(t, x, (*shape[:axis], *parts, *shape[axis + 1 :]))


@OPS.enter("transpose.int")
def _transpose(t: Translation, x: Value, first: int, second: int) -> Value:
    order = list(range(len(shape_of(x))))
    if order:
        first, second = axis_of(x, first), axis_of(x, second)
        order[first], order[second] = order[second], order[first]
    return transpose(t, x, order)


@OPS.enter("t", "numpy_T")
def _t(t: Translation, x: Value) -> Value:
    return transpose(t, x, list(reversed(range(len(shape_of(x))))))


@OPS.enter("unsqueeze")
def _unsqueeze(t: Translation, x: Value, axis: int) -> Value:
    return unsqueeze(t, x, [axis])


@OPS.enter("squeeze")
def _squeeze(t: Translation, x: Value, axes: int | Sequence[int] | None = None) -> Value:
    shape = sizes(x)
    wanted = range(len(shape)) if axes is None else [axes] if isinstance(axes, int) else axes
    return squeeze(t, x, [axis for axis in wanted if shape and shape[axis] == 1])


@OPS.enter("expand")
def _expand(t: Translation, x: Value, shape: Sequence[int], *_: object) -> Value:
    have = sizes(x)
    old = (1,) * (len(shape) - len(have)) + have
    return expand(t, x, [o if d == -1 else d for d, o in zip(shape, old, strict=True)])


@OPS.enter("repeat")
def _repeat(t: Translation, x: Value, counts: Sequence[int]) -> Value:
    shape = sizes(x)
    return repeat(t, reshape(t, x, (1,) * (len(counts) - len(shape)) + shape), counts)


@OPS.enter("cat")
def _cat(t: Translation, values: Sequence[Value], axis: int = 0) -> Value:
    # torch leaves out tensors of shape [0], whatever the others have; their type counts.
    values = alike(t, values)
    kept = [value for value in values if shape_of(value) != (0,)]
    return concat(t, kept or values, axis)


@OPS.enter("stack")
def _stack(t: Translation, values: Sequence[Value], axis: int = 0) -> Value:
    return concat(t, [unsqueeze(t, value, [axis]) for value in alike(t, values)], axis)


@OPS.enter("slice.Tensor")
def _slice(
    t: Translation, x: Value, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    size = shape_of(x)[axis]
    return cut(t, x, axis, 0 if start is None else start, size if end is None else end, step)


@OPS.enter("roll")
def _roll(t: Translation, x: Value, shifts: Sequence[int], axes: Sequence[int] = ()) -> Value:
    """The last elements along each axis before the first ones; with no axes, of all elements in a row."""
    if not axes:
        return reshape(t, _roll(t, reshape(t, x, [-1]), shifts, [0]), sizes(x))
    for axis, shift in zip(axes, shifts, strict=True):
        size = sizes(x)[axis]
        start = -shift % size if size else 0
        if start:
            x = concat(t, [cut(t, x, axis, start, size), cut(t, x, axis, 0, start)], axis)
    return x


@OPS.enter("narrow")
def _narrow(t: Translation, x: Value, axis: int, start: int, length: int) -> Value:
    start = start + shape_of(x)[axis] if start < 0 else start
    return cut(t, x, axis, start, start + length)


@OPS.enter("unbind.int")
def _unbind(t: Translation, x: Value, axis: int = 0) -> list[Value]:
    return [select(t, x, axis, index) for index in range(shape_of(x)[axis])]


@OPS.enter("split_with_sizes")
def _split_with_sizes(t: Translation, x: Value, counts: Sequence[int], axis: int = 0) -> list[Value]:
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return [cut(t, x, axis, start, start + count) for start, count in zip(starts, counts, strict=True)]


@OPS.enter("split.Tensor")
def _split(t: Translation, x: Value, size: int, axis: int = 0) -> list[Value]:
    total = shape_of(x)[axis]
    return [cut(t, x, axis, start, min(start + size, total)) for start in range(0, total, size)]


@OPS.enter("chunk")
def _chunk(t: Translation, x: Value, count: int, axis: int = 0) -> list[Value]:
    return _split(t, x, -(-shape_of(x)[axis] // count), axis)


@OPS.enter("index_select")
def _index_select(t: Translation, x: Value, axis: int, indices: Value) -> Value:
    return take(t, x, axis, reshape(t, indices, [-1]))


@OPS.enter("embedding")
def embedding(t: Translation, table: Value, indices: Value, *_: object) -> Value:
    """Rows of a table."""
    return take(t, table, 0, indices)


@OPS.enter("constant_pad_nd")
def constant_pad(t: Translation, x: Value, pads: Sequence[int], value: float = 0) -> Value:
    """A number around, so many times before and behind each axis from the last one on."""
    return pad(t, x, *_pads(x, pads), float(value))


def _pads(x: Value, pads: Sequence[int]) -> tuple[list[int], list[int]]:
    """How many before and behind each axis."""
    rank = len(shape_of(x))
    begin, end = [0] * rank, [0] * rank
    for place in range(len(pads) // 2):  # from the last axis on
        begin[rank - 1 - place], end[rank - 1 - place] = pads[2 * place], pads[2 * place + 1]
    return begin, end


@OPS.enter("pad")
def padded(
    t: Translation, x: Value, pads: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    """Elements around, a number or what the mode takes of the tensor, counted as for `constant_pad`."""
    if mode == "constant":
        return constant_pad(t, x, pads, value or 0.0)
    begin, end = _pads(x, pads)
    return bordered(t, x, begin, end, {"replicate": "edge", "circular": "wrap"}.get(mode, mode))


def _bordered(t: Translation, x: Value, pads: Sequence[int], *, mode: str) -> Value:
    return bordered(t, x, *_pads(x, pads), mode)


for _axes_padded in (1, 2, 3):
    OPS.add({f"reflection_pad{_axes_padded}d": partial(_bordered, mode="reflect")})
    OPS.add({f"replication_pad{_axes_padded}d": partial(_bordered, mode="edge")})


@OPS.enter("pixel_shuffle")
def _pixel_shuffle(t: Translation, x: Value, factor: int) -> Value:
    *batch, c, h, w = sizes(x)
    n, r = len(batch), factor
    parts = reshape(t, x, (*batch, c // r**2, r, r, h, w))
    parts = transpose(t, parts, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(t, parts, (*batch, c // r**2, h * r, w * r))


# --- reductions ------------------------------------------------------------------------------------------


def _axes(axes: int | Sequence[int] | None) -> Sequence[int]:
    return [] if axes is None else [axes] if isinstance(axes, int) else axes


def _reduce_dims(
    t: Translation,
    x: Value,
    axes: int | Sequence[int] | None,
    keep: bool = False,
    dtype: object = None,
    *,
    kind: str,
) -> Value:
    if dtype_of(x) == TRUTH and kind in ("ReduceMax", "ReduceMin"):
        return any_of(t, x, _axes(axes), keep, every=kind == "ReduceMin")
    return reduce(t, kind, _summand(t, x, dtype, kind), _axes(axes), keep)


def _reduce_all(t: Translation, x: Value, dtype: object = None, *, kind: str) -> Value:
    return _reduce_dims(t, x, None, dtype=dtype, kind=kind)


def _summand(t: Translation, x: Value, dtype: object, kind: str) -> Value:
    """What is reduced: integers and truths are added up as s64, as torch does."""
    wide = dtype is None and kind in ("ReduceSum", "ReduceProd") and dtype_of(x) not in FLOATS
    return cast(t, x, np.dtype(np.int64)) if wide else cast_if_asked(t, x, dtype)


for _names, _kind in (
    ("mean.dim", "ReduceMean"),
    ("sum.dim_IntList", "ReduceSum"),
    ("amax", "ReduceMax"),
    ("amin", "ReduceMin"),
    ("prod.dim_int", "ReduceProd"),
):
    OPS.add({f"{_names}": partial(_reduce_dims, kind=_kind)})
for _names, _kind in (
    ("mean.default", "ReduceMean"),
    ("sum.default", "ReduceSum"),
    ("max.default", "ReduceMax"),
    ("min.default", "ReduceMin"),
    ("prod.default", "ReduceProd"),
):
    OPS.add({f"{_names}": partial(_reduce_all, kind=_kind)})


@OPS.enter("linalg_vector_norm")
def vector_norm(
    t: Translation,
    x: Value,
    order: float = 2,
    axes: Sequence[int] | None = None,
    keep: bool = False,
    dtype: object = None,
) -> Value:
    """The norm of some order along axes."""
    kinds = {1: "ReduceL1", 2: "ReduceL2"}
    given = cast_if_asked(t, x, dtype)
    own = dtype_of(given)
    if own in HALVES and order not in kinds:  # rounded once
        wide = vector_norm(t, cast(t, given, _FLOAT), order, axes, keep)
        return cast(t, wide, own)
    if order in kinds:
        return reduce(t, kinds[int(order)], given, _axes(axes), keep)
    size = t.op("Abs", given)
    if math.isinf(order):
        return reduce(t, "ReduceMax" if order > 0 else "ReduceMin", size, _axes(axes), keep)
    if order <= 0:
        raise Unmapped(f"a norm of order {order}")
    return power(t, reduce(t, "ReduceSum", power(t, size, order), _axes(axes), keep), 1 / order)


@OPS.enter("var.correction")
def _var(
    t: Translation,
    x: Value,
    axes: Sequence[int] | None = None,
    correction: float | None = None,
    keep: bool = False,
) -> Value:
    own = dtype_of(x)
    if own in HALVES:  # rounded once
        return cast(t, _var(t, cast(t, x, _FLOAT), axes, correction, keep), own)
    shape = sizes(x)
    counted = [axis_of(x, axis) for axis in _axes(axes)] or list(range(len(shape)))
    mean = reduce(t, "ReduceMean", x, counted, keep=True)
    total = reduce(t, "ReduceSum", binary(t, "SquaredDifference", x, mean), counted, keep)
    rest = math.prod(shape[axis] for axis in counted) - (1 if correction is None else correction)
    if rest <= 0:
        raise Unmapped("a variance of too few elements")
    return binary(t, "Multiply", total, 1 / rest)


@OPS.enter("var_mean.correction")
def _var_mean(
    t: Translation,
    x: Value,
    axes: Sequence[int] | None = None,
    correction: float | None = None,
    keep: bool = False,
) -> list[Value]:
    return [_var(t, x, axes, correction, keep), reduce(t, "ReduceMean", x, _axes(axes), keep)]


@OPS.enter("_softmax")
def _softmax_core(
    t: Translation, x: Value, axis: int, half_to_float: bool, *, kind: str = "SoftMax"
) -> Value:
    if half_to_float:
        raise Unmapped("a softmax from half precision to f32")
    return _softmax(t, x, axis, kind=kind)


def _softmax(t: Translation, x: Value, axis: int, dtype: object = None, *, kind: str = "SoftMax") -> Value:
    x = cast_if_asked(t, x, dtype)
    if not shape_of(x):
        return reshape(t, t.op(kind, reshape(t, x, [1]), axis=0), [])
    return t.op(kind, x, axis=axis_of(x, axis))


OPS.add({"_log_softmax": partial(_softmax_core, kind="LogSoftmax")})
OPS.add({"softmax.int": _softmax})
OPS.add({"log_softmax.int": partial(_softmax, kind="LogSoftmax")})


@OPS.enter("_safe_softmax")
def _safe_softmax(t: Translation, x: Value, axis: int, dtype: object = None) -> Value:
    return t.op("SoftMax", cast_if_asked(t, x, dtype), axis=axis_of(x, axis), mode="inf_as_zero")
