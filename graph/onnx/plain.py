"""NumPy for nodes that move, choose or compare elements, and for arithmetic of integers: their results are exact.

Between the stages of a model, and among constants, there are hundreds of them on a few numbers each: sizes, indices,
masks. A kernel here gives None for what it does not take, and others have the node then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...ops.movement import resized
from ..importing.translation import TooLarge, Unmapped, check_room
from ..runtime.arrays import Array
from .calls import Call
from .own import pieces
from .types import is_array, numpy_type_of

Outputs = list[Array] | None
MANY_ROWS = 64
"""Rows from which on sorting all of each is quicker than looking for the first of one after the other."""


def _axes(call: Call) -> list[int] | None:
    """The attribute that became an input in opset 13."""
    given = call.get("axes") if call.optional(1) is None else call[1]
    return None if given is None else [int(axis) for axis in np.ravel(given)]


def _transposed(call: Call) -> Outputs:
    return [np.transpose(call[0], call.get("perm"))]


def _squeezed(call: Call) -> Outputs:
    axes = _axes(call)
    return [np.squeeze(call[0], None if axes is None else tuple(axes))]


def _unsqueezed(call: Call) -> Outputs:
    axes = _axes(call)
    return None if axes is None else [np.expand_dims(call[0], tuple(axes))]


def _reshaped(call: Call) -> Outputs:
    x, wanted = call[0], [int(size) for size in np.ravel(call[1])]
    return [x.reshape(resized(x.shape, wanted, zeros=not call.get("allowzero", 0)) or wanted)]


def _same(call: Call) -> Outputs:
    return [call[0]]


def _constant(call: Call) -> Outputs:
    """A node in a loop's body, say; text and sparse ones are left to others."""
    value = call.get("value")
    if value is not None:
        return [value]
    for name, dtype in (
        ("value_float", "f4"),
        ("value_floats", "f4"),
        ("value_int", "i8"),
        ("value_ints", "i8"),
    ):
        if name in call.attributes:
            return [np.asarray(call.attributes[name], dtype)]
    return None


def _shape(call: Call) -> Outputs:
    return [np.asarray(call[0].shape[call.get("start", 0) : call.get("end")], np.int64)]


def _size(call: Call) -> Outputs:
    return [np.asarray(call[0].size, np.int64)]


def _concatenated(call: Call) -> Outputs:
    parts: list[Array] = [call[place] for place in range(len(call.inputs))]
    if len({a.dtype for a in parts}) != 1:
        return None
    check_room([sum(a.size for a in parts)], parts[0].dtype, call.limit)
    return [np.concatenate(parts, call.get("axis", 1))]


def _gathered(call: Call) -> Outputs:
    return [np.take(call[0], call[1], int(call.get("axis", 0)))]


def _gathered_elements(call: Call) -> Outputs:
    axis = int(call.get("axis", 0))
    data, index = np.moveaxis(call[0], axis, -1), np.moveaxis(call[1], axis, -1)
    if data.shape[:-1] != index.shape[:-1]:
        return None
    return [np.moveaxis(np.take_along_axis(data, index, -1), -1, axis)]


def _sliced(call: Call) -> Outputs:
    x = call[0]
    if call.opset < 10:
        starts, ends, axes, steps = call.get("starts"), call.get("ends"), call.get("axes"), None
    else:
        starts, ends, axes, steps = call[1], call[2], call.optional(3), call.optional(4)
    starts, ends = np.ravel(starts), np.ravel(ends)
    places = range(len(starts)) if axes is None else np.ravel(axes)
    strides = np.ones(len(starts), np.int64) if steps is None else np.ravel(steps)
    cuts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(places, starts, ends, strides, strict=True):
        if step < 0 and start < -x.shape[axis]:
            return None  # which NumPy takes for no element, and ONNX for the first
        cuts[axis] = slice(int(start), int(end), int(step))
    return [x[tuple(cuts)]]


def _expanded(call: Call) -> Outputs:
    shape = np.broadcast_shapes(call[0].shape, tuple(int(size) for size in np.ravel(call[1])))
    check_room(shape, call[0].dtype, call.limit)
    return [np.broadcast_to(call[0], shape)]


def _tiled(call: Call) -> Outputs:
    counts = [int(count) for count in np.ravel(call[1])]
    if call.opset < 6 or len(counts) != call[0].ndim or min(counts, default=0) < 0:
        return None
    check_room([a * b for a, b in zip(call[0].shape, counts, strict=True)], call[0].dtype, call.limit)
    return [np.tile(call[0], counts)]


def _filled(call: Call) -> Outputs:
    value = call.get("value")
    fill = np.zeros(1, np.float32) if value is None else value
    shape = [int(size) for size in np.ravel(call[0])]
    check_room(shape, fill.dtype, call.limit)
    return [np.full(shape, fill.reshape(-1)[0], fill.dtype)]


def _range(call: Call) -> Outputs:
    start, limit, delta = (np.reshape(call[place], ()) for place in range(3))
    if start.dtype.kind not in "iu" or not delta:
        return None
    count = max(0, -((int(start) - int(limit)) // int(delta)))
    check_room([count], start.dtype, call.limit)
    return [int(start) + np.arange(count, dtype=start.dtype) * delta]


def _chosen(call: Call) -> Outputs:
    if call[1].dtype != call[2].dtype:
        return None
    check_room(np.broadcast_shapes(*(call[n].shape for n in range(3))), call[1].dtype, call.limit)
    return [np.where(call[0], call[1], call[2])]


def _places(call: Call) -> Outputs:
    """NonZero, whose scalars have one place of no coordinates."""
    if not call[0].ndim:
        return None
    return [np.stack(np.nonzero(call[0])).astype(np.int64, copy=False)]


def _compressed(call: Call) -> Outputs:
    axis = call.get("axis")
    places = np.flatnonzero(call[1])
    size = call[0].size if axis is None else call[0].shape[axis]
    return [np.take(call[0], places[places < size], axis)]


def _cast(call: Call) -> Outputs:
    x = call[0]
    to = numpy_type_of(call.get("to"))
    exact = x.dtype.kind in "biu" and to.kind in "biuf"
    return [x.astype(to)] if exact or (x.dtype.kind == "f" and to.kind in "fb") else None


def _of_two(
    call: Call, function: Callable[..., Array], kinds: str, dtype: np.dtype[Any] | None = None
) -> Outputs:
    """A function of two inputs of one type; its results have another type if one is given."""
    a, b = call[0], call[1]
    if a.dtype != b.dtype or a.dtype.kind not in kinds or len(call.inputs) > 2:
        return None
    check_room(np.broadcast_shapes(a.shape, b.shape), dtype or a.dtype, call.limit)
    return [np.asarray(function(a, b))]


def _of_one(call: Call, function: Callable[..., Array], kinds: str) -> Outputs:
    return [np.asarray(function(call[0]))] if call[0].dtype.kind in kinds else None


def _clipped(call: Call) -> Outputs:
    x, low, high = call[0], call.optional(1), call.optional(2)
    if call.opset < 11 or x.dtype.kind not in "iuf":
        return None
    x = x if low is None else np.maximum(x, np.reshape(low, ()))
    return [x if high is None else np.minimum(x, np.reshape(high, ()))]


def _extreme(call: Call, function: Callable[..., Array]) -> Outputs:
    """ReduceMax and ReduceMin."""
    x, axes = call[0], _axes(call)
    if x.dtype.kind not in "iuf" or not x.size or (not axes and call.get("noop_with_empty_axes", 0)):
        return None
    return [np.asarray(function(x, tuple(axes) if axes else None, keepdims=bool(call.get("keepdims", 1))))]


def _flattened(call: Call) -> Outputs:
    shape, axis = call[0].shape, int(call.get("axis", 1))
    if not -len(shape) <= axis <= len(shape):
        return None
    axis = axis + len(shape) if axis < 0 else axis
    return [call[0].reshape(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def _scattered_elements(call: Call) -> Outputs:
    """ScatterElements, without a reduction."""
    data, index, updates, axis = call[0], call[1], call[2], int(call.get("axis", 0))
    if call.get("reduction", "none") != "none" or not index.size or data.dtype != updates.dtype:
        return None
    axis += data.ndim * (axis < 0)
    outer = index.shape[:axis] + index.shape[axis + 1 :]
    if outer != data.shape[:axis] + data.shape[axis + 1 :] or index.shape != updates.shape:
        return None
    made = data.copy()
    if all(stride == 0 for a, stride in enumerate(index.strides) if a != axis):  # whole parts, by an Expand
        places = index[tuple(slice(None) if a == axis else 0 for a in range(index.ndim))]
        made[(*[slice(None)] * axis, places)] = updates
    else:
        np.put_along_axis(made, index, updates, axis)
    return [made]


def _scattered(call: Call) -> Outputs:
    """ScatterND, without a reduction."""
    data, index, updates = call[0], call[1], call[2]
    if call.get("reduction", "none") != "none" or not index.shape[-1] or data.dtype != updates.dtype:
        return None
    if updates.shape != (*index.shape[:-1], *data.shape[index.shape[-1] :]):
        return None
    made = data.copy()
    made[tuple(np.moveaxis(index, -1, 0))] = updates
    return [made]


def _gathered_places(call: Call) -> Outputs:
    """GatherND, without axes of batches."""
    if call.get("batch_dims", 0) or not call[1].shape[-1]:
        return None
    return [np.asarray(call[0][tuple(np.moveaxis(call[1], -1, 0))])]


def _largest(call: Call) -> Outputs:
    """TopK: what is equal comes in the order of its places."""
    x, axis = call[0], int(call.get("axis", -1))
    if call.optional(1) is None or not call.get("sorted", 1) or x.dtype.kind not in "fiu" or not x.ndim:
        return None
    k = int(np.reshape(call[1], ()))
    if not 0 <= k <= x.shape[axis] or (x.dtype.kind == "f" and np.isnan(x).any()):
        return None
    rows = np.moveaxis(x, axis, -1)
    keys = (-rows if x.dtype.kind == "f" else ~rows) if call.get("largest", 1) else rows
    size = keys.shape[-1]
    if 0 < k < size // 4 and keys.size // size <= MANY_ROWS:
        order = np.stack([_first(row, k) for row in keys.reshape(-1, size)]).reshape(*keys.shape[:-1], k)
    else:
        order = np.argsort(keys, -1, kind="stable")[..., :k]
    values = np.take_along_axis(rows, order, -1)
    return [np.moveaxis(values, -1, axis), np.moveaxis(order, -1, axis).astype(np.int64, copy=False)]


def _first(keys: Array, k: int) -> Array:
    """Places of the k least, in order."""
    limit = np.partition(keys, k - 1)[k - 1]
    below = np.flatnonzero(keys < limit)
    places = np.concatenate((below, np.flatnonzero(keys == limit)[: k - below.size]))
    places.sort()
    return places[np.argsort(keys[places], kind="stable")]


TRUTH = np.dtype(np.bool_)
PLAIN: Mapping[str, Callable[[Call], Outputs]] = {
    **{
        kind: partial(_of_two, function=function, kinds=kinds, dtype=dtype)
        for kind, function, kinds, dtype in (
            ("Add", np.add, "iuf", None),
            ("Div", np.divide, "f", None),
            ("Max", np.maximum, "iuf", None),
            ("Min", np.minimum, "iuf", None),
            ("Mul", np.multiply, "iuf", None),
            ("Sub", np.subtract, "iuf", None),
            ("Equal", np.equal, "biuf", TRUTH),
            ("Greater", np.greater, "biuf", TRUTH),
            ("GreaterOrEqual", np.greater_equal, "biuf", TRUTH),
            ("Less", np.less, "biuf", TRUTH),
            ("LessOrEqual", np.less_equal, "biuf", TRUTH),
            ("And", np.logical_and, "b", TRUTH),
            ("Or", np.logical_or, "b", TRUTH),
            ("Xor", np.logical_xor, "b", TRUTH),
        )
    },
    **{
        kind: partial(_of_one, function=function, kinds=kinds)
        for kind, function, kinds in (
            ("Abs", np.abs, "if"),
            ("Ceil", np.ceil, "f"),
            ("Floor", np.floor, "f"),
            ("Neg", np.negative, "if"),
            ("Not", np.logical_not, "b"),
            ("Sqrt", np.sqrt, "f"),
        )
    },
    "Cast": _cast,
    "Clip": _clipped,
    "Compress": _compressed,
    "Concat": _concatenated,
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Expand": _expanded,
    "Flatten": _flattened,
    "Gather": _gathered,
    "GatherElements": _gathered_elements,
    "GatherND": _gathered_places,
    "Identity": _same,
    "NonZero": _places,
    "Range": _range,
    "ReduceMax": partial(_extreme, function=np.max),
    "ReduceMin": partial(_extreme, function=np.min),
    "Reshape": _reshaped,
    "ScatterElements": _scattered_elements,
    "ScatterND": _scattered,
    "Shape": _shape,
    "Size": _size,
    "Slice": _sliced,
    "Split": pieces,
    "Squeeze": _squeezed,
    "Tile": _tiled,
    "TopK": _largest,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
    "Where": _chosen,
}
"""ONNX op → its outputs."""

NEAR: Mapping[str, Callable[..., Array]] = {"Exp": np.exp, "Log": np.log}
"""Functions whose last bit depends on who computes them, which constants are not computed by."""

SMALL = 1 << 22
"""Bytes of inputs up to which arithmetic of floats is done before a graph for it would be made."""


ARITHMETIC = frozenset(
    (
        *("Abs", "Add", "Ceil", "Clip", "Concat", "Div", "Floor", "Max", "Min", "Mul", "Neg"),
        *("ReduceMax", "ReduceMin", "Sqrt", "Sub", "Tile", "Transpose"),
    )
)
"""What graphs do by more than NumPy."""


def is_plain(kind: str) -> bool:
    """Whether there is a kernel here for an op."""
    return kind in PLAIN or kind in NEAR


def at_once(kind: str, inputs: Sequence[Any]) -> bool:
    """Whether a node whose inputs are there is better computed now than by a graph: nothing is gained by fusing it.

    A graph is made for the sizes of its inputs, which come from values here, and are others at the next call.
    """
    if not is_plain(kind):
        return False
    if kind in ARITHMETIC or kind in NEAR:
        return sum(value.nbytes for value in inputs if is_array(value)) <= SMALL
    return True


def plainly(call: Call, *, near: bool = False) -> Outputs:
    """A node's outputs; None where it is none of these, or its inputs are none that they take.

    They may be views of its inputs, and not to be written to.

    Args:
        call: the node with the values of its inputs, which are arrays or None.
        near: whether functions are computed whose last bit may be another than that of a graph's op.

    Raises:
        TooLarge: an output would take more memory than it may.
    """
    kernel = PLAIN.get(call.kind)
    if kernel is None and near and call.kind in NEAR:
        kernel = partial(_of_one, function=NEAR[call.kind], kinds="f")
    if kernel is None or any(
        value is not None and not isinstance(value, np.ndarray) for value in call.inputs
    ):
        return None
    try:
        with np.errstate(all="ignore"):
            made = kernel(call)
    except TooLarge:
        raise
    except (ArithmeticError, IndexError, TypeError, ValueError, Unmapped):
        return None  # it breaks a rule: what has the node then says so
    return None if made is None else [np.asarray(value) for value in made]  # of NumPy's scalars, too
