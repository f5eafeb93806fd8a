"""NumPy kernel of the matmul family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from .kernels import Array, kernel, store, wide

LONG = 1 << 12
"""Products of one sum from which on it is made in f64: those of BLAS in f32 lose digits with their number."""


@kernel("MatMul")
def matmul(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src · weights + bias; vectors are not transposed."""
    src, weights = wide(inputs[0]), wide(inputs[1])
    if src.shape[-1 if not op.attributes.flag("transpose_a") or src.ndim == 1 else -2] > LONG:
        src, weights = src.astype(np.float64), weights.astype(np.float64)
    if op.attributes.flag("transpose_a") and src.ndim > 1:
        src = src.swapaxes(-1, -2)
    if op.attributes.flag("transpose_b") and weights.ndim > 1:
        weights = weights.swapaxes(-1, -2)
    with np.errstate(all="ignore"):
        result = np.matmul(src, weights)
        store(outputs[0], result + wide(inputs[2]) if len(inputs) > 2 else result)
