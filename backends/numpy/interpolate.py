"""NumPy kernels of the interpolation family: one spatial axis after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from ...graph.model.op import Op
from ...ops.data_types import DataType
from ...ops.formats import axis_positions
from ...ops.records import frozen
from .kernels import Array, kernel, store, wide


@frozen
class _Axis:
    """For each position of the output, two elements of the input and the weight of the second.

    Attributes:
        axis: of the array.
        left, right: indices.
        weight: between 0 and 1; all zeros for nearest.
    """

    axis: int
    left: Array
    right: Array
    weight: Array


def _axes(op: Op, small: tuple[int, ...], large: tuple[int, ...]) -> Iterator[_Axis]:
    """From the forward op's input shape to its output shape."""
    double = op.inputs[0].data_type is DataType.f64
    align = op.attributes.string("coordinate_transformation_mode") == "align_corners"
    nearest = op.attributes.string("mode") == "nearest"
    for axis in axis_positions(op.attributes.string("data_format"), len(small) - 2)["X"]:
        yield _Axis(axis, *_places(small[axis], large[axis], double, align, nearest))


@lru_cache(maxsize=64)
def _places(source: int, target: int, double: bool, align: bool, nearest: bool) -> tuple[Array, Array, Array]:
    """The indices and the weights of an axis, for all who ask for the same."""
    # The coordinates are part of the op, in f32 as the library has them; f64 is for f64 tensors only.
    dtype = np.float64 if double else np.float32
    position = np.arange(target, dtype=dtype)
    if align:
        at = position * dtype(source - 1) / dtype(max(target - 1, 1))
    else:
        at = (position + dtype(0.5)) * dtype(source) / dtype(target) - dtype(0.5)
    if nearest:
        place = np.clip(np.floor(at + 0.5), 0, source - 1).astype(np.intp)
        return place, place, np.zeros(target, dtype)
    low = np.floor(at)
    left, right = (np.clip(i, 0, source - 1).astype(np.intp) for i in (low, low + 1))
    return left, right, at - low


def _weights(axis: _Axis, like: Array) -> tuple[Array, Array]:
    shape = tuple(-1 if a == axis.axis else 1 for a in range(like.ndim))
    weight = axis.weight.astype(like.dtype).reshape(shape)
    return 1 - weight, weight


@kernel("Interpolate")
def interpolate(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Elements, or weighted means of neighbours, along each spatial axis."""
    result = wide(inputs[0])
    for axis in _axes(op, inputs[0].shape, outputs[0].shape):
        if not axis.weight.any():
            result = result.take(axis.left, axis.axis)
            continue
        first, second = _weights(axis, result)
        result = result.take(axis.left, axis.axis) * first + result.take(axis.right, axis.axis) * second
    store(outputs[0], result)


@kernel("InterpolateBackward")
def interpolate_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Each gradient goes to the elements that its output was made of."""
    result = wide(inputs[1])
    for axis in _axes(op, inputs[0].shape, inputs[1].shape):
        first, second = _weights(axis, result)
        shape = list(result.shape)
        shape[axis.axis] = inputs[0].shape[axis.axis]
        total = np.zeros(shape)
        by_position = np.moveaxis(total, axis.axis, 0)
        parts = [(axis.left, result * first)]
        if axis.weight.any():
            parts.append((axis.right, result * second))
        for indices, part in parts:
            for index, values in zip(indices, np.moveaxis(part, axis.axis, 0), strict=True):
                by_position[index] += values
        result = total.astype(result.dtype, copy=False)
    store(outputs[0], result)
