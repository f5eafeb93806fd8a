"""Gradients of batch normalisations of images whose channels are adjacent, by sums that are put together in f64.

For channels that are no multiple of a register the library has no fast kernel, and what it has adds up a channel in one
f32 for each thread, which loses digits as its statistics do (`batch_parts.py`): 8e-5 of 400,000 gradients that are
alike. To a group normalisation, a batch is one image, and each of its channels a group. Where the library is fast, this
would take up to twice as long.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .batch_parts import widened
from .batch_statistics import FEW
from .group_gradient import GradientOfGroups, data_gradient
from .group_sums import sums_of_columns
from .lowering import Lowering

F32 = DataType.f32


def gradient_by_columns(low: Lowering, op: Op, src: Buffer, gradient: Buffer, order: Sequence[int]) -> None:
    """The gradients of a batch (N, C, X) that lies with its channels adjacent.

    Raises:
        Unfit: they are few, or there is no kernel for their sums.
    """
    if math.prod(src.desc.shape) // src.desc.shape[1] <= FEW:
        raise Unfit("a batch of few numbers")
    diff = low.emitter.bring("diff_dst", gradient, src.desc)
    made, channels = Buffer(src.desc), src.desc.shape[1]
    count = math.prod(src.desc.shape) // channels
    seen = [
        low.layouts.view(one, (1, channels, count), (channels * count, 1, channels)) for one in (src, diff)
    ]
    sums = sums_of_columns(low, *seen)
    of_channels = GradientOfGroups((1, channels, 1), count, op.attributes.real("epsilon"), sums)
    _, times = widened(low, src)
    shape = (1, channels * times, count // times)
    strides = (channels * count, 1, channels * times)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        own = np.empty((4, 1, channels), np.float32)
        of_channels.run(inputs, (*own, *outputs[4:]))
        for target, values in zip(outputs[:4], own, strict=True):
            target[...] = values

    vectors = [low.layouts.temporary((times, channels), F32) for _ in range(4)]
    own = [low.layouts.temporary((channels,), F32) for _ in range(2)]
    given = (*seen, sums.totals, sums.products, *(low.tensors.dense(one, F32) for one in op.inputs[2:]))
    low.emitter.on_host("batch normalization gradient, its factors", run, given, (*vectors, *own))
    flat = [low.layouts.view(one, shape, strides) for one in (src, diff, made)]
    rows = [low.layouts.view(one, (channels * times,)) for one in vectors]
    data_gradient(low, op, "batch normalization gradient", flat[0], flat[1], flat[2], rows)
    low.tensors.produce(op.outputs[0], made, order)
    for tensor, buffer in zip(op.outputs[1:], own, strict=False):
        low.tensors.produce(tensor, buffer)
