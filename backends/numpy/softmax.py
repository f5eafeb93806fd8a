"""NumPy kernels of the softmax family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from .kernels import Array, kernel, store, wide


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
        total = exponentials.sum(axis=axis, keepdims=True)
        result = exponentials / (total if empty is None else np.where(empty, 1, total))
        if len(outputs) > 1:
            logarithm = largest + np.log(total)
            store(outputs[1], logarithm if empty is None else np.where(empty, 0, logarithm))
    store(outputs[0], result)


@kernel("SoftMaxBackward")
def softmax_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src = dst · (diff_dst − Σ diff_dst · dst)."""
    diff_dst, dst = map(wide, inputs)
    total = (diff_dst * dst).sum(axis=op.attributes.integer("axis"), keepdims=True)
    store(outputs[0], dst * (diff_dst - total))


@kernel("LogSoftmax")
def log_softmax(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src − max − log Σ exp(src − max)."""
    src = wide(inputs[0])
    axis = op.attributes.integer("axis")
    with np.errstate(all="ignore"):
        shifted = src - src.max(axis=axis, keepdims=True, initial=-np.inf)
        store(outputs[0], shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True)))


@kernel("LogSoftmaxBackward")
def log_softmax_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_src = diff_dst − exp(dst) · Σ diff_dst."""
    diff_dst, dst = map(wide, inputs)
    total = diff_dst.sum(axis=op.attributes.integer("axis"), keepdims=True)
    store(outputs[0], diff_dst - np.exp(dst) * total)
