"""Statistics of a batch from sums of parts of each channel, which no single f32 adds up.

The library's batch normalisation adds up a channel in one f32 for each thread. Of what is alike, as behind a ReLU, each
addition loses the same: variances of 25,000 numbers were off by 1e-4, of 400,000 by 3e-3. So each channel is taken in
parts of some hundred numbers, by views that cost nothing, and the parts are put together in f64:

    channels first   rows (N·C·k, X/k), whose means and variances a layer normalisation makes
    channels last    (1, C·g, X/g), whose sums and sums of squares are the gradients of a depthwise convolution's bias
                     and weights, of kernel 1

Then the library normalises by what is given. That takes less memory traffic than its own statistics, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ....graph.model.logical_tensor import row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.descriptors import (
    ConvolutionBackwardWeights,
    LayerNormalizationForward,
)
from ..library.enumerators import Algorithm, Arg, NormalizationFlags, Propagation, Query
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .batch_statistics import FEW
from .long_sums import PART, part_of
from .lowering import Lowering

F32 = DataType.f32
Combine = Callable[[Array, Array, Array], tuple[Array, Array]]
"""From the numbers and what is known of their parts to mean and variance of each channel, in f64."""
LANES = 16
"""Channels, and numbers of a row, that kernels take at once."""
WIDTH = 8
"""Positions of a part that stand side by side."""
PAGE = 1 << 10
"""Numbers of f32 in a page."""
CERTAIN = 2.0**-10
"""What may be missed of a mean, in deviations, or of a variance; a channel of more is made again on the host."""


@frozen
class Statistics:
    """What a batch is normalised by: one number for each channel, in f32.

    Attributes:
        mean, variance: of the batch.
        factor: gamma / √(variance + epsilon).
        shift: beta, less what f32 misses of the mean.
    """

    mean: Buffer
    variance: Buffer
    factor: Buffer
    shift: Buffer


def is_last(src: Buffer) -> bool:
    """Whether images (N, C, X) lie densely with their channels adjacent."""
    shape, strides = src.desc.shape, src.desc.strides
    if strides is None or shape[1] == 1:
        return False
    lying = row_major((shape[0], *shape[2:], shape[1]))
    return _lies(src, (lying[0], lying[-1], *lying[1:-1]))


def is_first(src: Buffer) -> bool:
    """Whether images (N, C, X) lie densely with their positions adjacent."""
    return _lies(src, row_major(src.desc.shape))


def _lies(src: Buffer, strides: Sequence[int]) -> bool:
    shape, own = src.desc.shape, src.desc.strides
    return own is not None and all(d == 1 or a == b for d, a, b in zip(shape, own, strides, strict=True))


def widened(low: Lowering, src: Buffer) -> tuple[Buffer, int]:
    """Images with adjacent channels as if there were several times as many, so that kernels take them at once.

    Returns:
        The view, and how many times; once where that can't be.
    """
    channels = src.desc.shape[1]
    count = math.prod(src.desc.shape) // channels
    times = LANES // math.gcd(LANES, channels)
    if count % times:
        times = 1
    return _last(low, src, channels * times, count // times), times


def _last(low: Lowering, src: Buffer, channels: int, height: int, width: int = 1) -> Buffer:
    """The elements as one image with so many adjacent channels."""
    strides = (channels * height * width, 1, channels * width, channels)
    return low.layouts.view(src, (1, channels, height, width), strides)


def repeated(low: Lowering, vectors: Sequence[Buffer], times: int) -> list[Buffer]:
    """Vectors one behind the other, several times each."""
    (size,) = vectors[0].desc.shape
    made = [low.layouts.temporary((times * size,), F32) for _ in vectors]

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        for one, many in zip(inputs, outputs, strict=True):
            many.reshape(times, size)[...] = one

    low.emitter.on_host("batch statistics, repeated", run, vectors, made)
    return made


def statistics_in_parts(low: Lowering, op: Op, src: Buffer, dst: Buffer) -> Statistics | None:
    """Statistics of each channel; None of few numbers, or where no kernel makes them so.

    Args:
        op: the normalisation. src: its data, (N, C, X).
        dst: memory of as many elements that lie alike, which is written over.
    """
    shape = src.desc.shape
    if math.prod(shape) // max(shape[1], 1) <= FEW:
        return None
    try:
        if is_last(src):
            return _of_columns(low, op, src)
        return _of_rows(low, op, src, dst) if is_first(src) else None
    except Unfit:
        return None


def moments_of_rows(low: Lowering, op: Op, src: Buffer, dst: Buffer, part: int) -> list[Buffer]:
    """Means and variances of so many numbers each, which lie one behind the other, by a layer normalisation into `dst`.

    Raises:
        Unfit: there is no kernel.
    """
    rows = math.prod(src.desc.shape) // part
    seen, target = (low.layouts.view(one, (rows, part)) for one in (src, dst))
    statistics = low.layouts.desc((rows,), (1,), F32)
    desc = low.chooser.describe(
        LayerNormalizationForward(
            propagation=Propagation.forward_training,
            src=seen.desc,
            dst=target.desc,
            statistics=statistics,
            epsilon=op.attributes.real("epsilon"),
            flags=NormalizationFlags.none,
            attributes=low.chooser.attributes(),
        )
    )
    made = [Buffer(statistics), Buffer(statistics)]
    places = zip((Arg.MEAN, Arg.VARIANCE), made, strict=True)
    low.emitter.run("statistics of parts", desc, [(Arg.SRC, seen), (Arg.DST, target), *places])
    return made


def far_from_zero(part: int) -> float:
    """A mean's square in variances from which on sums of so many numbers of a row have lost digits."""
    return (CERTAIN * 2**25 * LANES / part) ** 2


def of_all(means: Array, variances: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Mean and variance, in f64, of what has these of its parts, along axes."""
    own = means.astype(np.float64)
    mean = own.mean(axes, keepdims=True)
    total = variances.mean(axes, dtype=np.float64) + np.square(own - mean).mean(axes)
    return mean.reshape(total.shape), total


def made_again(mean: Array, variance: Array, lost: Array, numbers: Callable[[int], Array]) -> None:
    """Replaces the mean and the variance of what has lost digits by those of its numbers, in f64.

    Args:
        mean, variance: in f64; written to.
        lost: of each, whether it has.
        numbers: gives those of one.
    """
    for place in np.flatnonzero(lost).tolist():
        values = numbers(place).astype(np.float64)
        mean[place], variance[place] = values.mean(), values.var()


def _of_rows(low: Lowering, op: Op, src: Buffer, dst: Buffer) -> Statistics | None:
    shape = src.desc.shape
    positions = math.prod(shape[2:])
    part = part_of(positions, LANES)
    if part is None:
        return None
    made = moments_of_rows(low, op, src, dst, part)
    of_parts = (shape[0], shape[1], positions // part)

    def combine(data: Array, means: Array, variances: Array) -> tuple[Array, Array]:
        return of_all(means, variances, (0, 2))

    views = [low.layouts.view(one, of_parts) for one in made]
    return _put_together(low, op, src, views, combine, far_from_zero(part))


def _of_columns(low: Lowering, op: Op, src: Buffer) -> Statistics | None:
    channels = src.desc.shape[1]
    count = math.prod(src.desc.shape) // channels
    part, many = parts_of(count, channels)
    if not many:
        return None
    sums = _products(low, src, src, channels * many, part // WIDTH)
    if sums is None:
        return None
    rest = count - part * many

    def combine(data: Array, totals: Array, squares: Array) -> tuple[Array, Array]:
        left = data[count - rest :].astype(np.float64)
        mean = (totals.sum(0, dtype=np.float64) + left.sum(0)) / count
        square = squares.sum(0, dtype=np.float64) + np.square(left).sum(0)
        return mean, np.maximum(square / count - mean * mean, 0)

    views = [low.layouts.view(one, (many, channels)) for one in sums]
    data = low.layouts.view(src, (count, channels))
    return _put_together(low, op, data, views, combine, CERTAIN * 2**25 / part)


def parts_of(count: int, channels: int) -> tuple[int, int]:
    """Of how many numbers each part is, and of how many parts: few numbers are left, and kernels take all at once.

    Columns whose elements lie pages apart are slow.
    """
    times = LANES // math.gcd(LANES, channels)
    found = [(part, count // part // times * times) for part in range(PART, WIDTH, -WIDTH)]

    def badness(one: tuple[int, int]) -> tuple[bool, bool, int]:
        part, many = one
        return not many, many * channels % PAGE == 0, count - part * many

    return min(found, key=badness)


def _products(low: Lowering, src: Buffer, factor: Buffer, channels: int, height: int) -> list[Buffer] | None:
    """Sums of `factor` and of src · factor, of channels that are adjacent, over all positions; in f32."""
    made = [low.layouts.temporary((channels,), F32) for _ in range(2)]
    return made if products_of(low, src, factor, channels, height, made) else None


def products_of(
    low: Lowering, src: Buffer, factor: Buffer, channels: int, height: int, sums: Sequence[Buffer]
) -> bool:
    """Adds the step that writes sums of `factor` and of src · factor, of channels that are adjacent.

    Args:
        height: so many times `WIDTH` positions.
        sums: vectors of f32.

    Returns:
        Whether there is a kernel for it.
    """
    seen, times = (_last(low, one, channels, height, WIDTH) for one in (src, factor))
    attributes = low.chooser.attributes()
    weights, bias = low.layouts.any((channels, 1, 1, 1, 1), F32), low.layouts.rows((channels,), F32)
    desc = low.chooser.describe(
        ConvolutionBackwardWeights(
            algorithm=Algorithm.convolution_direct,
            src=seen.desc,
            diff_weights=weights,
            diff_bias=bias,
            diff_dst=times.desc,
            strides=(1, 1),
            dilates=(0, 0),
            pads_begin=(0, 0),
            pads_end=(0, 0),
            hint=None,
            attributes=attributes,
        )
    )
    made = desc.memory_desc(Query.diff_weights_md)
    if not desc.implementation.startswith("jit_dw") or made.nbytes != 4 * channels:
        return False
    total, product = sums
    arguments = [
        (Arg.SRC, seen),
        (Arg.DIFF_DST, times),
        (Arg.DIFF_WEIGHTS, low.layouts.look(product, made)),
        (Arg.DIFF_BIAS, total),
    ]
    low.emitter.run("sums of parts", desc, arguments)
    return True


def _put_together(
    low: Lowering, op: Op, data: Buffer, parts: Sequence[Buffer], combine: Combine, far: float
) -> Statistics:
    """Adds the step that makes statistics of channels from those of parts, and of `data` where these lost digits.

    Args:
        data: with the channels on the second axis.
        far: a mean's square in variances from which on they have.
    """
    epsilon, count = op.attributes.real("epsilon"), len(op.inputs[3:])

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        gamma, beta = (*inputs[3:], 1.0, 0.0)[:2] if count != 1 else (inputs[3], 0.0)
        with np.errstate(all="ignore"):
            mean, variance = combine(*inputs[:3])
            lost = mean * mean > far * (variance + epsilon)
            made_again(mean, variance, lost, lambda channel: inputs[0][:, channel])
            factor = gamma / np.sqrt(variance + epsilon)
            outputs[0][...], outputs[1][...], outputs[2][...] = mean, variance, factor
            outputs[3][...] = beta - (mean - outputs[0]) * factor

    made = [low.layouts.temporary((data.desc.shape[1],), F32) for _ in range(4)]
    affine = [low.tensors.dense(tensor, F32) for tensor in op.inputs[3:]]
    low.emitter.on_host("batch statistics", run, (data, *parts, *affine), made)
    return Statistics(*made)
