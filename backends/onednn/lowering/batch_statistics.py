"""Batch normalisation of channels whose mean is far from zero, seen by their deviation: made again on the host.

The library adds up a channel in f32. What that loses grows with the sum, and where it comes near the deviation, the
result is none: by 4 of deviations for 240,000 numbers around 10000 with a deviation of 1. Such channels are rare, and
the statistics tell them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....graph.model.op import Op
from ....graph.runtime.arrays import Array, numpy_type
from ..library.memory import MemoryDesc
from ..plan.steps import Buffer, HostArray
from .lowering import Lowering

FEW = 256
"""Numbers of a channel up to which f32 loses next to nothing."""
LOST = 2.0**-22
"""Four times what an addition in f32 may lose, of the sum."""


def by_channel(desc: MemoryDesc) -> HostArray:
    """Images as (N, blocks of channels, X…, channels of a block); plain ones have blocks of one."""
    dtype, block = numpy_type(desc.data_type), math.prod(desc.blocks)
    outer = desc.outer_strides
    shape = (desc.shape[0], -(-desc.shape[1] // block), *desc.shape[2:], block)
    return HostArray(dtype, shape, tuple(step * dtype.itemsize for step in (*outer, 1)))


def lost(mean: Array, variance: Array, count: int, epsilon: float) -> Array:
    """Numbers of the channels whose mean the library may have missed by a part of the deviation that counts."""
    with np.errstate(all="ignore"):
        return np.flatnonzero(count * LOST * np.abs(mean) > np.sqrt(variance + epsilon))


def restored(
    low: Lowering,
    op: Op,
    src: Buffer,
    dst: Buffer,
    statistics: Sequence[Buffer],
    affine: Sequence[Buffer],
    signs: Buffer | None,
) -> None:
    """Adds a step that makes channels again of which the library has lost digits.

    Args:
        op: the normalisation. src, dst: its data and what the primitive made of them.
        statistics: mean and variance. affine: gamma and beta, as far as there are any.
        signs: where the result is above zero, if the primitive did the ReLU behind it.
    """
    count = math.prod(src.desc.shape) // max(src.desc.shape[1], 1)
    if count <= FEW:
        return
    epsilon = op.attributes.real("epsilon")

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        mean, variance = outputs[1:3]
        channels = lost(mean, variance, count, epsilon)
        for channel in channels:
            data = inputs[0]
            place = (slice(None), channel // data.shape[-1], ..., channel % data.shape[-1])
            values = data[place].astype(np.float64)
            mean[channel], variance[channel] = values.mean(), values.var()
            result = (values - values.mean()) / np.sqrt(values.var() + epsilon)
            for vector, function in zip(inputs[1:], (np.multiply, np.add), strict=False):
                result = function(result, vector[channel])
            if signs is not None:
                mark(outputs[3], data, place, result > 0)
                result = np.maximum(result, 0)
            outputs[0][place] = result

    written = [dst, *statistics, *([] if signs is None else [signs])]
    seen = {src: by_channel(src.desc), dst: by_channel(dst.desc)}
    low.emitter.on_host("batch statistics", run, (src, *affine), written, updates=True, seen=seen)


def mark(signs: Array, data: Array, place: tuple[Any, ...], positive: Array) -> None:
    """Notes which elements of a channel are above zero, in bits or bytes that lie as the data do."""
    elements = sum((d - 1) * s for d, s in zip(data.shape, data.strides, strict=True)) // data.itemsize + 1
    in_bits = signs.size < elements
    marks = np.unpackbits(signs.view(np.uint8), bitorder="little") if in_bits else signs
    steps = [step // data.itemsize * marks.itemsize for step in data.strides]
    np.ndarray(data.shape, marks.dtype, marks, 0, steps)[place] = positive
    if in_bits:
        signs.view(np.uint8)[...] = np.packbits(marks, bitorder="little")
