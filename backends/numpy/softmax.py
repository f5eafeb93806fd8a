"""NumPy kernels of the softmax family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from .kernels import Array, kernel, store, total, wide


def _sum(values: Array, axis: int) -> Array:
    """The sum along an axis, which stays, rounded to the type of the values."""
    return total(values, axis, keepdims=True).astype(values.dtype, copy=False)


@kernel("SoftMax")
def softmax(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = exp(src − max) / Σ, and the log of the sum where it is wanted."""
    src = wide(inputs[0])
    axis = op.attributes.integer("axis")
    largest: Array = src.max(axis=axis, keepdims=True, initial=-np.inf)
    empty: Array | None = np.isneginf(largest) if op.attributes.string("mode") == "inf_as_zero" else None
    if empty is not None:
        largest = np.where(empty, 0, largest)
    with np.errstate(all="ignore"):
        exponentials = np.exp(src - largest)
        whole = _sum(exponentials, axis)
        result = exponentials / (whole if empty is None else np.where(empty, 1, whole))
        if len(outputs) > 1:
            logarithm = largest + np.log(whole)
            store(outputs[1], logarithm if empty is None else np.where(empty, 0, logarithm))
    store(outputs[0], result)


@kernel("SoftMaxBackward")
def softmax_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src = dst · (diff_dst − Σ diff_dst · dst)."""
    diff_dst, dst = map(wide, inputs)
    whole = _sum(diff_dst * dst, op.attributes.integer("axis"))
    store(outputs[0], dst * (diff_dst - whole))


@kernel("LogSoftmax")
def log_softmax(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src − max − log Σ exp(src − max)."""
    src = wide(inputs[0])
    axis = op.attributes.integer("axis")
    with np.errstate(all="ignore"):
        shifted = src - src.max(axis=axis, keepdims=True, initial=-np.inf)
        store(outputs[0], shifted - np.log(_sum(np.exp(shifted), axis)))


@kernel("LogSoftmaxBackward")
def log_softmax_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src = diff_dst − exp(dst) · Σ diff_dst."""
    diff_dst, dst = map(wide, inputs)
    whole = _sum(diff_dst, op.attributes.integer("axis"))
    store(outputs[0], diff_dst - np.exp(dst) * whole)
