"""Sums of each channel of each image, in parts of some hundred numbers that f64 puts together.

channels first   rows (N·C·k, X/k): the product, and a reduction of it and of the factor
channels last    (1, C·g, X/g) of each image: the gradients of a depthwise convolution's weights and bias, of kernel
                 1, in one pass and without the product in memory
"""

from __future__ import annotations

import math

import numpy as np

from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.descriptors import Binary, Reduction
from ..library.enumerators import Algorithm, Arg
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .batch_parts import CERTAIN, WIDTH, parts_of, products_of
from .long_sums import LANES, part_of
from .lowering import Lowering

F32 = DataType.f32
MOST_IMAGES = 64
"""Images that are taken one after another."""
LEAST_IMAGE = 1 << 12
"""Numbers of an image from which on a step of its own is worth it."""


@frozen
class ImageSums:
    """Sums of a factor, and of data times that factor, of each channel of images (N, C, X).

    Attributes:
        totals, products: of parts, (N, C, k), or (N, k, C) where channels are adjacent.
        axis: of the parts.
        rest: how many positions at the end are in none.
        far: a mean's square in variances from which on sums of products have lost digits.
    """

    totals: Buffer
    products: Buffer
    axis: int
    rest: int
    far: float

    def together(self, totals: Array, products: Array, data: Array, factor: Array) -> tuple[Array, Array]:
        """The sums (N, C) in f64, of parts and of the images, (N, C, X)."""
        both = [one.sum(self.axis, dtype=np.float64) for one in (totals, products)]
        if self.rest:
            x, times = (one[:, :, -self.rest :].astype(np.float64) for one in (data, factor))
            both[0] += times.sum(2)
            both[1] += (x * times).sum(2)
        return both[0], both[1]


def worth_single_steps(shape: tuple[int, ...]) -> bool:
    """Whether images (N, C, X) are few and large enough for a step for each."""
    return shape[0] <= MOST_IMAGES and math.prod(shape[1:]) >= LEAST_IMAGE


def image(low: Lowering, buffer: Buffer, number: int) -> Buffer:
    """One of several images whose channels are adjacent, (1, C, X)."""
    _, channels, *spatial = buffer.desc.shape
    positions = math.prod(spatial)
    desc = low.layouts.desc(
        (1, channels, positions), (channels * positions, 1, channels), buffer.desc.data_type
    )
    offset = number * channels * positions * desc.itemsize
    return Buffer(desc, buffer.root.argument, base=buffer, offset=offset)


def sums_of_columns(low: Lowering, src: Buffer, factor: Buffer) -> ImageSums:
    """Sums of images whose channels are adjacent, image by image.

    Raises:
        Unfit: there is no kernel.
    """
    batch, channels, *spatial = src.desc.shape
    count = math.prod(spatial)
    part, many = parts_of(count, channels)
    if not many:
        raise Unfit("images of too few positions for sums by columns")
    made = [low.layouts.temporary((batch, many, channels), F32) for _ in range(2)]
    for number in range(batch):
        targets = [
            Buffer(low.layouts.rows((many * channels,), F32), base=one, offset=4 * number * many * channels)
            for one in made
        ]
        seen = [image(low, one, number) for one in (src, factor)]
        if not products_of(low, seen[0], seen[1], channels * many, part // WIDTH, targets):
            raise Unfit("no kernel for sums by columns")
    return ImageSums(made[0], made[1], 1, count - part * many, CERTAIN * 2**25 / part)


def sums_of_rows(low: Lowering, src: Buffer, factor: Buffer) -> ImageSums:
    """Sums of images whose positions are adjacent.

    Raises:
        Unfit: positions that fall into no parts of the same length, or no kernel.
    """
    batch, channels, *spatial = src.desc.shape
    positions = math.prod(spatial)
    part = positions if positions < LANES else part_of(positions, LANES)
    if part is None:
        raise Unfit("images that fall into no parts of the same length")
    rows = batch * channels * positions // part
    x, times = (low.layouts.view(one, (rows, part)) for one in (src, factor))
    both = low.layouts.temporary((rows, part), F32)
    desc = low.chooser.describe(
        Binary(
            algorithm=Algorithm.binary_mul,
            src_0=x.desc,
            src_1=times.desc,
            dst=both.desc,
            attributes=low.chooser.attributes(),
        )
    )
    low.emitter.run("products", desc, [(Arg.SRC, x), (Arg.SRC_1, times), (Arg.DST, both)])
    made = [_sums(low, one) for one in (times, both)]
    views = [low.layouts.view(one, (batch, channels, positions // part)) for one in made]
    return ImageSums(views[0], views[1], 2, 0, (CERTAIN * 2**25 * LANES / part) ** 2)


def _sums(low: Lowering, src: Buffer) -> Buffer:
    rows, length = src.desc.shape
    if length == 1:
        return low.emitter.bring("sums of parts", src, low.layouts.rows((rows, 1), F32))
    made = low.layouts.temporary((rows, 1), F32)
    desc = low.chooser.describe(
        Reduction(
            algorithm=Algorithm.reduction_sum,
            src=src.desc,
            dst=made.desc,
            p=0.0,
            epsilon=0.0,
            attributes=low.chooser.attributes(),
        )
    )
    low.emitter.run("sums of parts", desc, [(Arg.SRC, src), (Arg.DST, made)])
    return made
