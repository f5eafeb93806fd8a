"""Lowering of group normalisations and of their gradients: of images as they lie where that can be, else by rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from ....graph.model.logical_tensor import row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ..library.capabilities import GROUP_NORMALIZATION
from ..library.descriptors import GroupNormalizationForward
from ..library.enumerators import Arg, NormalizationFlags, Propagation, Query
from ..library.loading import load
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .batch_normalization import AFFINE, canonical, scaled_by_channel
from .batch_parts import LANES, far_from_zero, is_last, made_again, moments_of_rows, of_all
from .group_gradient import GradientOfGroups, data_gradient
from .group_sums import image, sums_of_columns, sums_of_rows, worth_single_steps
from .links import Link
from .long_sums import part_of
from .lowering import Lowered, Lowering

F32 = DataType.f32


def group(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Group normalisation.

    The library's own sums up means in f32. That is near enough for the result, and too far for what a gradient makes of
    kept ones, far from zero.
    """
    if GROUP_NORMALIZATION in load().capabilities.later and len(op.outputs) == 1:
        with suppress(Unfit):
            _by_primitive(low, op)
            return
    with suppress(Unfit), low.attempt(low.tensors.way):
        _by_columns(low, op)
        return
    _by_rows(low, op)


def _affine(low: Lowering, op: Op) -> list[Buffer]:
    """Gamma and beta, if they are used."""
    if not op.attributes.flag("use_affine"):
        return []
    return [low.tensors.dense(tensor, F32) for tensor in op.inputs[1:]]


def _by_primitive(low: Lowering, op: Op) -> None:
    """The library's own, of images as they lie, without statistics."""
    src, order = canonical(low, op, op.inputs[0])
    flags = NormalizationFlags.none
    affine = _affine(low, op)
    if affine:
        flags = AFFINE
    vectors = list(zip((Arg.SCALE, Arg.SHIFT), affine, strict=False))
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        GroupNormalizationForward(
            propagation=Propagation.forward_inference,
            src=src.desc,
            dst=src.desc,
            groups=op.attributes.integer("groups"),
            epsilon=op.attributes.real("epsilon"),
            flags=flags,
            attributes=attributes,
        )
    )
    dst = Buffer(desc.memory_desc(Query.dst_md))
    low.emitter.run("group normalization", desc, [(Arg.SRC, src), *vectors, (Arg.DST, dst)])
    low.tensors.produce(op.outputs[0], dst, order)


def _by_columns(low: Lowering, op: Op) -> None:
    """Images whose channels are adjacent, as they lie: sums of each channel of each, then each by its numbers.

    Raises:
        Unfit: they lie otherwise, or are too small for steps of their own.
    """
    src, order = canonical(low, op, op.inputs[0])
    if not is_last(src) or not worth_single_steps(src.desc.shape):
        raise Unfit("images that lie channels-first, or are many and small")
    sums = sums_of_columns(low, src, src)
    batch, channels, *spatial = src.desc.shape
    groups, positions = op.attributes.integer("groups"), math.prod(spatial)
    by_group, count = (batch, groups, channels // groups), channels // groups * positions
    epsilon = op.attributes.real("epsilon")

    def moments(inputs: Sequence[Array]) -> tuple[Array, Array]:
        data, totals, squares = inputs[:3]
        total, square = sums.together(totals, squares, data, data)
        mean = (total.reshape(by_group).sum(2) / count).ravel()
        variance = np.maximum((square.reshape(by_group).sum(2) / count).ravel() - mean * mean, 0)
        grouped = data.reshape(*by_group, positions)
        lost = mean * mean > sums.far * (variance + epsilon)
        made_again(mean, variance, lost, lambda number: grouped[divmod(number, groups)])
        return mean, variance

    data = _positions(low, src)
    vectors, statistics = _vectors(low, op, (data, sums.totals, sums.products), moments, by_group)
    dst = Buffer(src.desc)
    for number in range(batch):
        one, made = (image(low, each, number) for each in (src, dst))
        scaled_by_channel(
            low,
            op,
            "group normalization",
            one,
            made,
            _of_image(low, vectors, number),
        )
    low.tensors.produce(op.outputs[0], dst, order)
    for tensor, buffer in zip(op.outputs[1:], statistics, strict=False):
        low.tensors.produce(tensor, buffer)


def _positions(low: Lowering, images: Buffer) -> Buffer:
    """Dense images as (N, C, X), for the host."""
    batch, channels, *spatial = images.desc.shape
    positions = math.prod(spatial)
    size = channels * positions
    strides = (size, 1, channels) if is_last(images) else (size, positions, 1)
    return low.layouts.view(images, (batch, channels, positions), strides)


def _of_image(low: Lowering, vectors: Sequence[Buffer], number: int) -> list[Buffer]:
    """The rows of one image, of vectors (N, C)."""
    channels = vectors[0].desc.shape[1]
    row = low.layouts.rows((channels,), F32)
    return [Buffer(row, base=one, offset=4 * number * channels) for one in vectors]


def _vectors(
    low: Lowering,
    op: Op,
    given: Sequence[Buffer],
    moments: Callable[[Sequence[Array]], tuple[Array, Array]],
    by_group: tuple[int, int, int],
) -> tuple[list[Buffer], list[Buffer]]:
    """The step that makes statistics, (N, groups), and mean, factor and summand of each channel, (N, C).

    Args:
        given: what `moments` makes mean and variance of each group from, in f64.
    """
    epsilon, affine, first = op.attributes.real("epsilon"), _affine(low, op), len(given)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            mean, variance = (one.reshape(by_group[:2]) for one in moments(inputs))
            outputs[0][...], outputs[1][...] = mean, variance
            gamma, beta = inputs[first:] if affine else (np.float64(1), np.float64(0))
            middle, factor, summand = (one.reshape(by_group) for one in outputs[2:])
            middle[...] = outputs[0][..., None]
            inverse = (1 / np.sqrt(variance + epsilon))[..., None]
            slope = gamma.reshape(by_group[1:]) * inverse if affine else inverse
            factor[...] = slope
            missed = (mean - outputs[0])[..., None] * slope
            summand[...] = (beta.reshape(by_group[1:]) if affine else beta) - missed

    batch, groups, each = by_group
    statistics = [low.layouts.temporary((batch, groups), F32) for _ in range(2)]
    vectors = [low.layouts.temporary((batch, groups * each), F32) for _ in range(3)]
    low.emitter.on_host("group statistics", run, (*given, *affine), (*statistics, *vectors))
    return vectors, statistics


def _by_rows(low: Lowering, op: Op) -> None:
    """Statistics of the rows of each group, by a layer normalisation, and each channel of each image by its numbers.

    Raises:
        Unfit: groups that fall into no rows of the same length.
    """
    source, order = canonical(low, op, op.inputs[0])
    batch, channels, *spatial = shape = source.desc.shape
    rows = low.layouts.desc(shape, row_major(shape), source.desc.data_type)
    src = low.emitter.bring("data", source, rows)
    groups, positions = op.attributes.integer("groups"), math.prod(spatial)
    length = channels // groups * positions
    part = length if length < LANES else part_of(length, LANES)
    if part is None:
        raise Unfit("groups that fall into no rows of the same length")
    epsilon = op.attributes.real("epsilon")
    dst, each = Buffer(rows), batch * channels
    parts = moments_of_rows(low, op, src, dst, part)
    far = far_from_zero(part)

    def moments(inputs: Sequence[Array]) -> tuple[Array, Array]:
        mean, variance = of_all(inputs[1], inputs[2], (1,))
        made_again(mean, variance, mean * mean > far * (variance + epsilon), lambda row: inputs[0][row])
        return mean, variance

    by_part = [low.layouts.view(one, (batch * groups, length // part)) for one in parts]
    data = low.layouts.view(src, (batch * groups, length))
    by_group = (batch, groups, channels // groups)
    vectors, statistics = _vectors(low, op, (data, *by_part), moments, by_group)
    flat = [low.layouts.view(one, (1, each, positions)) for one in (src, dst)]
    rows_of = [low.layouts.view(one, (each,)) for one in vectors]
    scaled_by_channel(low, op, "group normalization", flat[0], flat[1], rows_of)
    low.tensors.produce(op.outputs[0], dst, order)
    for tensor, made in zip(op.outputs[1:], statistics, strict=False):
        low.tensors.produce(tensor, made)


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Gradients of group normalisation, by sums of each channel of each image, of images as they lie."""
    src, order = canonical(low, op, op.inputs[0])
    diff, _ = canonical(low, op, op.inputs[1])
    if worth_single_steps(src.desc.shape) and (src.desc.strides is None or is_last(src) or is_last(diff)):
        with suppress(Unfit), low.attempt(low.tensors.way):
            _gradient(low, op, src, diff, order, last=True)
            return
    _gradient(low, op, src, diff, order, last=False)


def _gradient(
    low: Lowering, op: Op, source: Buffer, gradient: Buffer, order: Sequence[int], *, last: bool
) -> None:
    """The gradients, of images (N, C, X) that are brought to one of two layouts: channels last or first."""
    shape, data_type = source.desc.shape, source.desc.data_type
    lies = (
        low.layouts.channels_last(shape, data_type)
        if last
        else low.layouts.desc(shape, row_major(shape), data_type)
    )
    src, diff = (low.emitter.bring("data", one, lies) for one in (source, gradient))
    batch, channels, *spatial = lies.shape
    sums = (sums_of_columns if last else sums_of_rows)(low, src, diff)
    groups = op.attributes.integer("groups")
    of_groups = GradientOfGroups(
        (batch, groups, channels // groups), math.prod(spatial), op.attributes.real("epsilon"), sums
    )
    statistics = [low.tensors.dense(one, F32) for one in op.inputs[2:4]]
    gamma = [low.tensors.dense(one, F32) for one in op.inputs[4:5] if op.attributes.flag("use_affine")]
    images = [_positions(low, one) for one in (src, diff)]
    given = (*images, sums.totals, sums.products, *statistics, *gamma)
    vectors = [low.layouts.temporary((batch, channels), F32) for _ in range(4)]
    own = [low.layouts.temporary((channels,), F32) for _ in range(2)]
    low.emitter.on_host("group normalization gradient, its factors", of_groups.run, given, (*vectors, *own))
    made = Buffer(lies)
    if last:
        for number in range(batch):
            one, times, target = (image(low, each, number) for each in (src, diff, made))
            data_gradient(
                low, op, "group normalization gradient", one, times, target, _of_image(low, vectors, number)
            )
    else:
        flat = (1, batch * channels, math.prod(spatial))
        one, times, target = (low.layouts.view(each, flat) for each in (src, diff, made))
        data_gradient(
            low,
            op,
            "group normalization gradient",
            one,
            times,
            target,
            [low.layouts.view(each, flat[1:2]) for each in vectors],
        )
    low.tensors.produce(op.outputs[0], made, order)
    for tensor, buffer in zip(op.outputs[1:], own, strict=False):
        low.tensors.produce(tensor, buffer)


LOWERED = {"GroupNorm": Lowered(group), "GroupNormBackward": Lowered(backward)}
