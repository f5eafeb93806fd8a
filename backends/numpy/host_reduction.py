"""NumPy kernels of the host family's reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from .host_eltwise import plain
from .kernels import Array, kernel, register_kernel, store, wide


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
    values = plain(src)
    found = function(
        np.flip(values, axis) if a.flag("last") else values, axis=axis, keepdims=a.flag("keep_dims")
    )
    np.copyto(outputs[0], src.shape[axis] - 1 - found if a.flag("last") else found, casting="same_kind")
