"""NumPy kernels of the host family's look-ups; sums of gradients have one order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...graph.runtime.arrays import address
from ...ops.errors import ArgumentError
from .kernels import Array, along, kernel, store, total, wide


def from_front(op: Op, indices: Array, size: int, *, strict: bool = False) -> Array:
    """Indices counted from the front; with `strict` they must be so already.

    Raises:
        ArgumentError: one is beyond the elements.
    """
    if not indices.size:
        return indices
    # What decodes token by token has one index, of which NumPy would look for the least as long as all else takes.
    low, high = (int(indices.item()),) * 2 if indices.size == 1 else (int(indices.min()), int(indices.max()))
    least = 0 if strict else -size
    if low < least or high >= size:
        raise _beyond(op, low if low < least else high, least, size)
    return indices if low >= 0 else np.where(indices < 0, indices + size, indices)


def _beyond(op: Op, wrong: int, least: int, size: int) -> ArgumentError:
    """The error of an index that is below the least one, or not below `size`."""
    labels = op.attributes.string("classes_of") if "classes_of" in op.attributes else ""
    if labels:
        return ArgumentError(
            f"{labels} must be between 0 and {size - 1} for {size} classes, got {wrong}; count classes from 0, or "
            f"leave out what has no class by ignore_index={wrong}"
        )
    return ArgumentError(
        f"{op}: 'indices' must be between {least} and {size - 1} for {size} elements, got {wrong}"
    )


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


def scatter(op: Op, src: Array, places: tuple[Array | slice, ...], updates: Array, target: Array) -> None:
    """Writes src, with `updates` at these places, into the target; where that is src's memory, the updates alone."""
    reduction = op.attributes.string("reduction")
    if reduction == "none":
        if address(src) != address(target) or src.strides != target.strides:
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
    axis = op.attributes.integer("axis") % src.ndim
    places: list[Array | slice] = [slice(None)] * axis
    # One part, as of a cache that takes tokens, needs no lists of places.
    if indices.size == indices.shape[-1] > 0:
        shape = list(src.shape)
        for index in indices.ravel().tolist():
            size = shape[len(places)]
            if not -size <= index < size:
                raise _beyond(op, index, -size, size)
            shape[len(places)] = 1
            places.append(slice(index % size, index % size + 1))
        updates = updates.reshape(shape)
    else:
        places += _places(op, indices, src.shape[axis:])
    scatter(op, src, tuple(places), updates, outputs[0])


def added(values: Array, numbers: Array, axis: int, size: int) -> Array:
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
    store(outputs[0], added(parts, numbers, axis, shape[axis]))


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
