"""NumPy kernels of the PReLU family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.op import Op
from .binary import channel_axis
from .kernels import Array, kernel, store, wide


def _aligned(op: Op, src: Array, slope: Array) -> Array:
    """The slope with an axis for each of src's; a single axis is that of the channels where it fits."""
    if slope.ndim == 1 and slope.size > 1 and src.ndim > 1:
        axis = channel_axis(op, src.ndim)
        if op.attributes.get("per_channel_broadcast", True) and src.shape[axis] == slope.size:
            return slope.reshape(tuple(-1 if a == axis else 1 for a in range(src.ndim)))
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
    total = (diff_dst * np.minimum(src, 0)).sum(axis=axes, keepdims=True)
    store(outputs[1], total.reshape(slope.shape))
