"""NumPy kernels of the host family: elements are moved, compared and counted as they are, integers exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...ops.errors import ArgumentError
from . import movement
from .eltwise import erf
from .kernels import Array, along, kernel, register_kernel, store, total, wide

# --- element by element ----------------------------------------------------------------------------------


def _plain(array: Array) -> Array:
    """The array, in f32 where NumPy has no functions for its type."""
    return wide(array) if array.dtype.kind == "V" else array


BINARY: dict[str, Callable[..., Any]] = {
    "HostAdd": np.add,
    "HostSubtract": np.subtract,
    "HostMultiply": np.multiply,
    "HostMaximum": np.maximum,
    "HostMinimum": np.minimum,
    "HostEqual": np.equal,
    "HostNotEqual": np.not_equal,
    "HostGreater": np.greater,
    "HostGreaterEqual": np.greater_equal,
    "HostAnd": np.bitwise_and,
    "HostOr": np.bitwise_or,
    "HostXor": np.bitwise_xor,
}
"""Kind → the function of two arrays that broadcast."""


def binary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src_0, src_1)."""
    np.copyto(outputs[0], BINARY[op.kind](_plain(inputs[0]), _plain(inputs[1])))


UNARY: dict[str, Callable[..., Any]] = {
    "HostAbs": np.abs,
    "HostNot": np.invert,
    "HostIsNaN": np.isnan,
    "HostIsInf": np.isinf,
}
"""Kind → the function of one array, in its type."""
ROUNDED: dict[str, Callable[..., Any]] = {
    "HostAcos": np.arccos,
    "HostAcosh": np.arccosh,
    "HostAsin": np.arcsin,
    "HostAsinh": np.arcsinh,
    "HostAtan": np.arctan,
    "HostAtanh": np.arctanh,
    "HostCeil": np.ceil,
    "HostCos": np.cos,
    "HostCosh": np.cosh,
    "HostErf": erf,
    "HostExpm1": np.expm1,
    "HostFloor": np.floor,
    "HostLog1p": np.log1p,
    "HostSign": np.sign,
    "HostSin": np.sin,
    "HostSinh": np.sinh,
    "HostTan": np.tan,
    "HostTrunc": np.trunc,
}
"""Kind → the function of one array, computed in f32 at least."""


def unary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src)."""
    np.copyto(outputs[0], UNARY[op.kind](_plain(inputs[0])))


def rounded(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src), rounded once."""
    store(outputs[0], ROUNDED[op.kind](wide(inputs[0])))


for _kinds, _function in ((BINARY, binary), (UNARY, unary), (ROUNDED, rounded)):
    for _kind in _kinds:
        register_kernel(_kind, _function)


@kernel("HostDivide")
def divide(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A quotient without its fraction; of integers 0 where the divisor is."""
    down = op.attributes.string("rounding") == "down"
    if inputs[0].dtype.kind not in "iu":
        a, b = map(wide, inputs)
        store(outputs[0], a // b if down else np.trunc(a / b))
        return
    a, b = np.broadcast_arrays(*inputs)
    lower = a // b
    if down:
        np.copyto(outputs[0], lower)
    else:
        np.copyto(
            outputs[0], lower + ((a - lower * b != 0) & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)
        )


@kernel("HostModulo")
def modulo(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A remainder."""
    function = np.fmod if op.attributes.flag("of_dividend") else np.mod
    np.copyto(outputs[0], function(_plain(inputs[0]), _plain(inputs[1])), casting="same_kind")


@kernel("HostPower", "HostAtan2")
def rounded_binary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src_0, src_1), rounded once."""
    function = np.power if op.kind == "HostPower" else np.arctan2
    store(outputs[0], function(wide(inputs[0]), wide(inputs[1])))


@kernel("HostCast")
def cast(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Numbers in another type. Integers and f64 reach bf16 with one rounding."""
    src, dst = inputs[0], outputs[0]
    if dst.dtype.kind == "V":
        store(dst, wide(src))
    else:
        np.copyto(dst, src, casting="unsafe")


# --- parts and places ------------------------------------------------------------------------------------

register_kernel("HostReshape", movement.static_reshape)
register_kernel("HostTranspose", movement.static_transpose)
register_kernel("HostConcat", movement.concat)


def from_front(op: Op, indices: Array, size: int, *, strict: bool = False) -> Array:
    """Indices counted from the front; with `strict` they must be so already.

    Raises:
        ArgumentError: one is beyond the elements.
    """
    if not indices.size:
        return indices
    low, high = int(indices.min()), int(indices.max())
    least = 0 if strict else -size
    if low < least or high >= size:
        raise ArgumentError(
            f"{op}: 'indices' must be between {least} and {size - 1} for {size} elements, got "
            f"{low if low < least else high}"
        )
    return indices if low >= 0 else np.where(indices < 0, indices + size, indices)


@kernel("HostGather")
def gather(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Parts along the axis."""
    src, indices = inputs
    axis = op.attributes.integer("axis") % src.ndim
    counted = from_front(op, indices, src.shape[axis])
    if not src.size:  # NumPy takes nothing out of nothing
        return
    src.take(counted, axis, out=outputs[0], mode="clip")  # checked already; else NumPy makes a copy


@kernel("HostGatherElements")
def gather_elements(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Elements by their place along the axis."""
    src, indices = inputs
    axis = op.attributes.integer("axis") % src.ndim
    counted = from_front(op, indices, src.shape[axis], strict=op.attributes.flag("strict"))
    part = tuple(slice(None) if a == axis else slice(0, d) for a, d in enumerate(indices.shape))
    np.copyto(outputs[0], np.take_along_axis(src[part], counted, axis))


def _places(op: Op, indices: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """An array of indices for each axis that the last axis of `indices` names."""
    return tuple(from_front(op, indices[..., axis], shape[axis]) for axis in range(indices.shape[-1]))


def counting(size: int) -> Array:
    """The numbers of so many elements."""
    return np.arange(size)


@kernel("HostGatherND")
def gather_nd(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Parts by their places."""
    src, indices = inputs
    batch = op.attributes.integer("batch_dims")
    rank = indices.ndim - 1
    own = [along(counting(src.shape[axis]), axis, rank) for axis in range(batch)]
    places = (*own, *_places(op, indices, src.shape[batch:]))
    np.copyto(outputs[0], src[places] if places else np.broadcast_to(src, outputs[0].shape))


SCATTERED: dict[str, Callable[..., Any]] = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}
"""Reduction → the function that does it one after another where places repeat."""


def scatter(op: Op, src: Array, places: tuple[Array, ...], updates: Array, target: Array) -> None:
    """Writes src, with `updates` at these places, into the target."""
    reduction = op.attributes.string("reduction")
    if reduction == "none":
        np.copyto(target, src)
        target[places] = updates
        return
    whole = src.dtype.kind in "iub"
    result = src.copy() if whole else np.array(wide(src), np.float64)
    SCATTERED[reduction](result, places, updates if whole else wide(updates))
    if whole:
        np.copyto(target, result)
    else:
        store(target, result)


@kernel("HostScatterND")
def scatter_nd(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Other parts at these places."""
    src, indices, updates = inputs
    scatter(op, src, _places(op, indices, src.shape), updates, outputs[0])


def _taken(op: Op, rank: int) -> tuple[slice, ...]:
    """What a slice takes of each axis."""
    taken = [slice(None)] * rank
    names = ("axes", "starts", "stops", "steps")
    for axis, start, stop, step in zip(*(op.attributes.integers(name) for name in names), strict=True):
        taken[axis] = slice(start, stop, step)
    return tuple(taken)


@kernel("HostSlice")
def part(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A part along axes."""
    np.copyto(outputs[0], inputs[0][_taken(op, inputs[0].ndim)])


@kernel("HostPad")
def pad(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Elements around."""
    src, a = inputs[0], op.attributes
    widths = list(zip(a.integers("pads_begin"), a.integers("pads_end"), strict=True))
    mode = a.string("mode")
    if mode != "constant":
        around: Callable[..., Array] = np.pad
        np.copyto(outputs[0], around(src, widths, mode=mode))
        return
    outputs[0][...] = np.asarray(a.real("value")).astype(src.dtype)
    inside = tuple(slice(begin, begin + d) for (begin, _), d in zip(widths, src.shape, strict=True))
    outputs[0][inside] = src


@kernel("HostExpand")
def expand(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Repeated along axes of one element."""
    np.copyto(outputs[0], np.broadcast_to(inputs[0], outputs[0].shape))


# --- sums ------------------------------------------------------------------------------------------------


@kernel("HostCumSum")
def cumulative_sum(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Sums up to each element."""
    src, a = inputs[0], op.attributes
    axis = a.integer("axis") % src.ndim
    values = src if src.dtype.kind in "iu" else wide(src)
    values = np.flip(values, axis) if a.flag("reverse") else values
    sums = np.cumsum(values, axis, dtype=values.dtype if src.dtype.kind in "iu" else np.float64)
    if a.flag("exclusive"):
        sums = np.roll(sums, 1, axis)
        sums[tuple(0 if i == axis else slice(None) for i in range(src.ndim))] = 0
    sums = np.flip(sums, axis) if a.flag("reverse") else sums
    if src.dtype.kind in "iu":
        np.copyto(outputs[0], sums)
    else:
        store(outputs[0], sums)


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "HostReduceMax": np.max,
    "HostReduceMin": np.min,
    "HostReduceProd": np.prod,
    "HostReduceSum": np.sum,
}
"""Kind → the function of an array of integers and axes."""


def reduce(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src) along the axes, which an input gives or the attribute."""
    axes = tuple(int(a) for a in inputs[1]) if len(inputs) > 1 else op.attributes.integers("axes")
    made = REDUCTIONS[op.kind](inputs[0], axis=axes, keepdims=op.attributes.flag("keep_dims"))
    np.copyto(outputs[0], np.asarray(made).astype(outputs[0].dtype, copy=False))


for _kind in REDUCTIONS:
    register_kernel(_kind, reduce)


@kernel("HostArgMax", "HostArgMin")
def extreme(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Where the largest or smallest element is."""
    src, a = inputs[0], op.attributes
    axis = a.integer("axis") % src.ndim
    function: Callable[..., Any] = np.argmax if op.kind == "HostArgMax" else np.argmin
    values = _plain(src)
    found = function(
        np.flip(values, axis) if a.flag("last") else values, axis=axis, keepdims=a.flag("keep_dims")
    )
    np.copyto(outputs[0], src.shape[axis] - 1 - found if a.flag("last") else found, casting="same_kind")


# --- gradients -------------------------------------------------------------------------------------------


def _added(values: Array, numbers: Array, axis: int, size: int) -> Array:
    """Parts along an axis added up by their numbers, in an array of `size` of them; the order is always the same."""
    shape = values.shape
    sums = np.zeros((*shape[:axis], size, *shape[axis + 1 :]))
    if values.size:
        order = np.argsort(numbers, kind="stable")
        found, starts = np.unique(numbers[order], return_index=True)
        sums[(*[slice(None)] * axis, found)] = np.add.reduceat(
            values.take(order, axis), starts, axis, dtype=np.float64
        )
    return sums.astype(values.dtype, copy=False)


@kernel("HostGatherBackward")
def gather_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst at the parts that were taken."""
    diff_dst, indices = wide(inputs[0]), inputs[1]
    shape = outputs[0].shape
    axis = op.attributes.integer("axis") % len(shape)
    numbers = from_front(op, indices, shape[axis]).reshape(-1)
    parts = diff_dst.reshape((*shape[:axis], numbers.size, *shape[axis + 1 :]))
    store(outputs[0], _added(parts, numbers, axis, shape[axis]))


@kernel("HostGatherElementsBackward")
def gather_elements_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst at the elements that were taken."""
    diff_dst, indices = wide(inputs[0]), inputs[1]
    axis = op.attributes.integer("axis") % diff_dst.ndim
    places = list(np.ogrid[tuple(slice(d) for d in indices.shape)])
    places[axis] = from_front(op, indices, outputs[0].shape[axis])
    sums = np.zeros(outputs[0].shape)
    np.add.at(sums, tuple(places), diff_dst)
    store(outputs[0], sums)


@kernel("HostGatherNDBackward")
def gather_nd_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst at the parts that were taken."""
    diff_dst, indices = wide(inputs[0]), inputs[1]
    shape = outputs[0].shape
    batch, rank = op.attributes.integer("batch_dims"), indices.ndim - 1
    own = [along(counting(shape[axis]), axis, rank) for axis in range(batch)]
    sums = np.zeros(shape)
    places = (*own, *_places(op, indices, shape[batch:]))
    if places:
        np.add.at(sums, places, diff_dst)
    else:
        sums += total(diff_dst, tuple(range(rank)))
    store(outputs[0], sums)


@kernel("HostSliceBackward")
def part_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_dst in its place, and zeros elsewhere."""
    outputs[0][...] = 0
    outputs[0][_taken(op, outputs[0].ndim)] = inputs[0]


@kernel("HostPadBackward")
def pad_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src += diff_dst wherever an element went."""
    a, sums = op.attributes, wide(inputs[0])
    around: Callable[..., Array] = np.pad
    for axis, (begin, end) in enumerate(zip(a.integers("pads_begin"), a.integers("pads_end"), strict=True)):
        size = outputs[0].shape[axis]
        if a.string("mode") == "constant":
            sums = sums.take(begin + counting(size), axis)
        elif begin or end:
            sums = _added(sums, around(counting(size), (begin, end), mode=a.string("mode")), axis, size)
    store(outputs[0], sums)


register_kernel("HostExpandTo", expand)


@kernel("HostSumTo")
def sum_to(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = Σ src over what like has one element along."""
    src, target = wide(inputs[0]), outputs[0]
    lead = src.ndim - target.ndim
    kept = (1,) * lead + target.shape
    axes = tuple(axis for axis, d in enumerate(kept) if d == 1 and src.shape[axis] != 1)
    store(target, total(src, axes, keepdims=True).reshape(target.shape))
