"""NumPy kernels of products of integers, and of groups of rows by a matrix each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...graph.model.op import Op
from ...ops.errors import ArgumentError
from .kernels import Array, kernel, store, wide
from .matmul import LONG


@kernel("HostMatMul")
def matmul(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src · weights + bias, in the type of all; vectors are not transposed."""
    factors = [
        x.swapaxes(-1, -2) if op.attributes.flag(flag) and x.ndim > 1 else x
        for x, flag in zip(inputs[:2], ("transpose_a", "transpose_b"), strict=True)
    ]
    made = np.matmul(*factors)
    np.copyto(outputs[0], made + inputs[2] if len(inputs) > 2 else made)


def _groups(op: Op, ends: Array, rows: int) -> Iterator[tuple[int, slice]]:
    """The number of each group that has rows, and these.

    Raises:
        ArgumentError: an end before another's, or beyond the rows.
    """
    start = 0
    for number, end in enumerate(ends.tolist()):
        if not start <= end <= rows:
            raise ArgumentError(
                f"{op}: 'ends' must not fall and lie between 0 and {rows}, the rows of 'src', got {end} behind "
                f"{start}; give the sums of how many rows each group has"
            )
        if end > start:
            yield number, slice(start, end)
        start = end


def _product(a: Array, b: Array) -> Array:
    """A product of two matrices; of long sums in f64, as MatMul's."""
    a, b = wide(a), wide(b)
    return np.matmul(a, b, dtype=np.float64) if a.shape[1] > LONG else np.matmul(a, b)


@kernel("HostGroupedMatMul")
def grouped(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The rows of each group by its matrix."""
    src, weights, ends = inputs
    last = 0
    with np.errstate(all="ignore"):
        for number, rows in _groups(op, ends, src.shape[0]):
            store(outputs[0][rows], _product(src[rows], weights[number]))
            last = rows.stop
    outputs[0][last:] = 0


@kernel("HostGroupedMatMulWeights")
def grouped_weights(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The product of both over the rows of each group."""
    src, diff_dst, ends = inputs
    outputs[0][...] = 0
    with np.errstate(all="ignore"):
        for number, rows in _groups(op, ends, src.shape[0]):
            store(outputs[0][number], _product(src[rows].T, diff_dst[rows]))
