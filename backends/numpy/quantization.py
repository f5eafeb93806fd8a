"""NumPy kernels of the quantisation family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.quantization import group_axis
from .kernels import Array, along, kernel, store, wide


def _static(op: Op, name: str, src: Array) -> Array:
    """Scales or zero points of the attributes, so that they broadcast."""
    array = np.asarray(op.attributes.get(name) or (0,), np.float32)
    if op.attributes.string("qtype") != "per_channel" or array.size == 1:
        return array.reshape(-1)[:1].reshape((1,) * src.ndim)
    axis = op.attributes.integer("axis") % src.ndim
    if array.size == src.shape[axis]:
        return along(array, axis, src.ndim)
    grouped = group_axis(axis, src.ndim) or 0
    groups = array.size // src.shape[axis]
    shape = [1] * src.ndim
    shape[axis], shape[grouped] = src.shape[axis], groups
    by_group = array.reshape(groups, -1) if grouped < axis else array.reshape(groups, -1).T
    return by_group.reshape(shape).repeat(src.shape[grouped] // groups, grouped)


def _dynamic(op: Op, values: Array, src: Array) -> Array:
    """Scales or zero points of an input, so that they broadcast."""
    if op.attributes.string("qtype") == "per_group" and values.ndim == src.ndim:
        for axis, (size, groups) in enumerate(zip(src.shape, values.shape, strict=True)):
            if groups not in (size, 1):
                values = values.repeat(size // groups, axis)
        return wide(values)
    if values.size > 1:
        return along(wide(values).reshape(-1), op.attributes.integer("axis") % src.ndim, src.ndim)
    return wide(values).reshape((1,) * src.ndim)


@kernel("Quantize")
def quantize(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = round(src / scale + zp)."""
    src = wide(inputs[0])
    scales, zps = _static(op, "scales", src), _static(op, "zps", src)
    with np.errstate(all="ignore"):
        store(outputs[0], src / scales + zps)


@kernel("Dequantize")
def dequantize(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = (src − zp) · scale."""
    src = wide(inputs[0])
    store(outputs[0], (src - _static(op, "zps", src)) * _static(op, "scales", src))


@kernel("DynamicQuantize")
def dynamic_quantize(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = round(src / scale + zp), with scales and zero points as inputs."""
    src = wide(inputs[0])
    with np.errstate(all="ignore"):
        result = src / _dynamic(op, inputs[1], src)
        store(outputs[0], result + _dynamic(op, inputs[2], src) if len(inputs) > 2 else result)


@kernel("DynamicDequantize")
def dynamic_dequantize(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = (src − zp) · scale, with scales and zero points as inputs."""
    src = wide(inputs[0])
    shifted = src - _dynamic(op, inputs[2], src) if len(inputs) > 2 else src
    store(outputs[0], shifted * _dynamic(op, inputs[1], src))


@kernel("TypeCast")
def type_cast(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The same numbers in another type."""
    store(outputs[0], wide(inputs[0]))
