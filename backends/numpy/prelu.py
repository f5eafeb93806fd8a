"""NumPy kernels of the PReLU family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.prelu import slope_axis
from .kernels import Array, along, kernel, store, total, wide


def _aligned(op: Op, src: Array, slope: Array) -> Array:
    """The slope with an axis for each of src's; a single axis is that of the channels where it fits."""
    axis = slope_axis(op.attributes, src.shape, slope.shape)
    if axis is not None:
        return along(slope, axis, src.ndim)
    return slope.reshape((1,) * (src.ndim - slope.ndim) + slope.shape)


@kernel("PReLU")
def prelu(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src where src ≥ 0, slope · src elsewhere."""
    src, slope = wide(inputs[0]), wide(inputs[1])
    store(outputs[0], np.where(src >= 0, src, _aligned(op, src, slope) * src))


@kernel("PReLUBackward")
def prelu_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Both gradients; that of the slope is summed over what the slope was broadcast along."""
    src, slope, diff_dst = map(wide, inputs)
    aligned = _aligned(op, src, slope)
    store(outputs[0], np.where(src > 0, diff_dst, aligned * diff_dst))
    axes = tuple(a for a in range(src.ndim) if aligned.shape[a] == 1)
    store(outputs[1], total(diff_dst * np.minimum(src, 0), axes, keepdims=True).reshape(slope.shape))
