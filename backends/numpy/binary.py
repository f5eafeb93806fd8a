"""NumPy kernels of the binary family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...ops.formats import axis_positions
from .kernels import Array, along, kernel, register_kernel, store, wide

BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
    "Divide": np.divide,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "SquaredDifference": lambda a, b: np.square(a - b),
}
"""Kind → the function of two arrays that broadcast."""


def binary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src_0, src_1)."""
    with np.errstate(all="ignore"):  # infinities and NaN are results here
        store(outputs[0], BINARY[op.kind](wide(inputs[0]), wide(inputs[1])))


for _kind in BINARY:
    register_kernel(_kind, binary)


@kernel("GreaterEqual")
def greater_equal(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src_0 ≥ src_1."""
    np.copyto(outputs[0], wide(inputs[0]) >= wide(inputs[1]))


@kernel("Select")
def select(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src_0 where cond, src_1 elsewhere."""
    np.copyto(outputs[0], np.where(inputs[0], inputs[1], inputs[2]))


def channel_axis(op: Op, rank: int) -> int:
    """The axis of the channels, by data_format."""
    return axis_positions(op.attributes.string("data_format"), rank - 2)["C"][0]


@kernel("BiasAdd")
def bias_add(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src + bias, per channel."""
    src, bias = wide(inputs[0]), wide(inputs[1])
    store(outputs[0], src + along(bias, channel_axis(op, src.ndim), src.ndim))


@kernel("BiasAddBackward")
def bias_add_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """diff_bias = Σ diff_dst over all axes but the channels."""
    diff_dst = wide(inputs[0])
    channel = channel_axis(op, diff_dst.ndim)
    store(outputs[0], diff_dst.sum(axis=tuple(a for a in range(diff_dst.ndim) if a != channel)))
