"""NumPy kernels of the reduction family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from .kernels import Array, mean, register_kernel, store, total, wide


def _l1(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    return total(np.abs(x), axis, keepdims)


def _l2(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    return np.sqrt(total(np.square(x), axis, keepdims))


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceMax": np.max,
    "ReduceMean": mean,
    "ReduceMin": np.min,
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
