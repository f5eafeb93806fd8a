"""NumPy kernels of the reduction family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from .kernels import Array, mean, register_kernel, store, total, wide


def _l1(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    return total(np.abs(x), axis, keepdims)


def _l2(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.sqrt(total(np.square(x), axis, keepdims))


SHORT = 32
"""Elements of a row below which NumPy's call for each row costs more than copying the rows to columns."""
BLOCK = 1 << 16
"""Elements that are copied at a time, which stay in a cache."""


def _by_columns(function: np.ufunc) -> Callable[..., Any]:
    """The reduction by a function whose order doesn't matter, of short rows column by column."""

    def reduced(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
        gone = {a % x.ndim for a in axis}
        length = math.prod(x.shape[a] for a in gone)
        if (
            not 1 < length <= SHORT
            or gone != set(range(x.ndim - len(gone), x.ndim))
            or not x.flags.c_contiguous
        ):
            return function.reduce(x, axis=axis, keepdims=keepdims)
        rows = x.reshape(-1, length)
        made, step = np.empty(len(rows), x.dtype), BLOCK // length
        for start in range(0, len(rows), step):
            columns = np.ascontiguousarray(rows[start : start + step].T)
            function.reduce(columns, axis=0, out=made[start : start + step])
        kept = x.shape[: x.ndim - len(gone)]
        return made.reshape((*kept, *(1 for _ in gone)) if keepdims else kept)

    return reduced


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceMax": _by_columns(np.maximum),
    "ReduceMean": mean,
    "ReduceMin": _by_columns(np.minimum),
    "ReduceProd": np.prod,
    "ReduceSum": total,
}
"""Kind → the function of an array and axes."""


def reduce(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src) along the axes, which an input gives or the attribute."""
    axes = tuple(int(a) for a in inputs[1]) if len(inputs) > 1 else op.attributes.integers("axes")
    with np.errstate(all="ignore"):
        result = REDUCTIONS[op.kind](wide(inputs[0]), axis=axes, keepdims=op.attributes.flag("keep_dims"))
    store(outputs[0], result)


for _kind in REDUCTIONS:
    register_kernel(_kind, reduce)
