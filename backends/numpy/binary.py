"""NumPy kernels of the binary family."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.model.op import Op
from ...ops.formats import axis_positions
from .kernels import Array, along, kernel, register_kernel, store, total, wide

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
LEAST_BY_BITS = 1 << 13
"""Elements of a choice from which it is worth its preparations to make it by arithmetic on bits."""
BITS_AT_A_TIME = 1 << 15
"""Elements of a choice that are worked on at a time, which stay in a second-level cache."""


def binary(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = f(src_0, src_1)."""
    with np.errstate(all="ignore"):  # infinities and NaN are results here
        store(outputs[0], BINARY[op.kind](wide(inputs[0]), wide(inputs[1])))


for _kind in BINARY:
    register_kernel(_kind, binary)


@kernel("GreaterEqual")
def greater_equal(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src_0 ≥ src_1."""
    np.greater_equal(wide(inputs[0]), wide(inputs[1]), out=outputs[0])


@kernel("Select", "HostSelect")
def select(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = src_0 where cond, src_1 elsewhere."""
    dst = outputs[0]
    if dst.size < LEAST_BY_BITS:
        np.copyto(dst, np.where(*inputs))
    else:
        _select_bits(inputs[0], inputs[1], inputs[2], dst)


def _select_bits(condition: Array, a: Array, b: Array, dst: Array) -> None:
    """The same by arithmetic on bits: a branch for each element costs ten times as much where it can't be foreseen."""
    bits = np.dtype(f"i{dst.itemsize}")
    masks, not_taken = np.empty(BITS_AT_A_TIME, bits), np.empty(BITS_AT_A_TIME, np.bool_)
    walk = np.nditer(
        [condition, a.view(bits), b.view(bits), dst.view(bits)],
        ["external_loop", "buffered", "copy_if_overlap"],
        [["readonly"], ["readonly"], ["readonly"], ["writeonly"]],
        buffersize=BITS_AT_A_TIME,
    )
    with walk:
        for taken, ours, others, result in walk:
            # All bits of what is taken; a truth that was not made by NumPy may be another byte than 1.
            left = np.logical_not(taken, out=not_taken[: taken.size])
            mask = np.subtract(left.view(np.int8), 1, out=masks[: taken.size], dtype=bits)
            np.bitwise_xor(ours, others, out=result)
            np.bitwise_and(result, mask, out=result)
            np.bitwise_xor(result, others, out=result)


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
    store(outputs[0], total(diff_dst, tuple(a for a in range(diff_dst.ndim) if a != channel)))
