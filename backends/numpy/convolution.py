"""The NumPy kernel of convolutions and of gradients of their data: a matmul for each kernel tap and block of images.

A convolution gathers: the smaller tensor is Σ over taps of weights · windows of the larger. A gradient by the data
scatters: weightsᵀ · the smaller tensor is added to the windows of the larger.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...graph.model.op import Op
from ...ops.convolution_geometry import ConvolutionGeometry, geometry, scatters
from ...ops.formats import AxisMap
from ...ops.records import frozen
from ...ops.spatial import reached
from .kernels import Array, along, kernel, store, wide

BLOCK_BYTES = 1 << 22
"""Size that a block of images aims at, so that a tap's product stays in the cache."""


def view(array: Array, axes: AxisMap) -> Array:
    """The array under its canonical axes, without a copy."""
    shape, strides = axes.apply(array.shape, array.strides)
    return as_strided(array, shape, strides)


def grouped(array: Array, groups: int) -> Array:
    """(N, G·C, X) → (N, G, C, X), a view."""
    channels = array.shape[1] // groups
    step = array.strides[1]
    return as_strided(
        array,
        (array.shape[0], groups, channels, *array.shape[2:]),
        (array.strides[0], step * channels, step, *array.strides[2:]),
    )


@frozen
class _Tap:
    """One kernel element: its index, the small tensor's positions that reach inside, and what they reach."""

    index: tuple[int, ...]
    small: tuple[slice, ...]
    large: tuple[slice, ...]


def _taps(p: ConvolutionGeometry, large: tuple[int, ...]) -> Iterator[_Tap]:
    every = (slice(None),) * 3
    for index in itertools.product(*map(range, p.kernel)):
        small: list[slice] = []
        source: list[slice] = []
        for axis, k in enumerate(index):
            offset = k * p.dilations[axis] - p.pads_begin[axis]
            found = reached(slice(0, p.dst_spatial[axis]), p.strides[axis], offset, large[axis])
            if found is None:
                break
            small.append(found[0])
            source.append(found[1])
        else:
            yield _Tap(index, (*every, *small), (*every, *source))


def _product(weights: Array, data: Array) -> Array:
    """(G, A, B) · (N, G, B, P…) → (N, G, A, P…)."""
    if weights.shape[1:] == (1, 1):  # depthwise
        return data * weights.reshape(1, -1, 1, *[1] * (data.ndim - 3))
    flat = np.ascontiguousarray(data).reshape(*data.shape[:3], -1)
    return np.matmul(weights, flat).reshape(*data.shape[:2], weights.shape[1], *data.shape[3:])


def _blocks(array: Array, more: Array) -> Iterator[slice]:
    batch = array.shape[0]
    each = 8 * max(1, math.prod(array.shape[1:]), math.prod(more.shape[1:]))
    step = max(1, BLOCK_BYTES // each)
    for start in range(0, batch, step):
        yield slice(start, start + step)


@kernel("Convolution", "ConvTranspose", "ConvolutionBackwardData", "ConvTransposeBackwardData")
def convolution(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Both directions, of both convolutions."""
    p = geometry(op.kind, op.attributes, inputs[0].shape, inputs[1].shape, outputs[0].shape)
    source = grouped(view(inputs[0], p.src_axes), p.groups)
    target = grouped(view(outputs[0], p.src_axes), p.groups)
    weights = wide(np.ascontiguousarray(view(inputs[1], p.weights_axes)))  # (G, O, I, K)
    bias = _bias(op, inputs, p)
    for block in _blocks(source, target):
        data = wide(source[block])
        total = np.zeros(target[block].shape, data.dtype)
        large = total if scatters(op.kind) else data
        for tap in _taps(p, large.shape[3:]):
            matrix = weights[(slice(None),) * 3 + tap.index]
            if scatters(op.kind):
                total[tap.large] += _product(matrix.swapaxes(1, 2), data[tap.small])
            else:
                total[tap.small] += _product(matrix, data[tap.large])
        store(target[block], total if bias is None else total + bias)


def _bias(op: Op, inputs: Sequence[Array], p: ConvolutionGeometry) -> Array | None:
    """The bias as (1, G, C, 1…), or None where there is none."""
    if not any(port.name == "bias" for port in op.input_ports[2:]):
        return None
    bias = wide(inputs[2])
    return along(bias, 0, 1 + p.spatial_rank).reshape(1, p.groups, -1, *[1] * p.spatial_rank)
