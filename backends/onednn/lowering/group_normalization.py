"""Lowering of group normalisations: of images as they lie where the library has a primitive, else by rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
from .batch_parts import LANES, far_from_zero, made_again, moments_of_rows, of_all
from .links import Link
from .long_sums import part_of
from .lowering import Lowered, Lowering

F32 = DataType.f32


def group(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Group normalisation."""
    if GROUP_NORMALIZATION in load().capabilities.later:
        with suppress(Unfit):
            _by_primitive(low, op)
            return
    _by_rows(low, op)


def _affine(low: Lowering, op: Op) -> list[Buffer]:
    """Gamma and beta, if they are used."""
    if not op.attributes.flag("use_affine"):
        return []
    return [low.tensors.dense(tensor, F32) for tensor in op.inputs[1:]]


def _by_primitive(low: Lowering, op: Op) -> None:
    """The library's own, of images as they lie."""
    src, order = canonical(low, op, op.inputs[0])
    flags = NormalizationFlags.none
    affine = _affine(low, op)
    if affine:
        flags = AFFINE
    vectors = list(zip((Arg.SCALE, Arg.SHIFT), affine, strict=False))
    keeps, groups = len(op.outputs) > 1, op.attributes.integer("groups")
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        GroupNormalizationForward(
            propagation=Propagation.forward_training if keeps else Propagation.forward_inference,
            src=src.desc,
            dst=src.desc,
            groups=groups,
            epsilon=op.attributes.real("epsilon"),
            flags=flags,
            attributes=attributes,
        )
    )
    statistics = [low.layouts.temporary((src.desc.shape[0], groups), F32) for _ in op.outputs[1:]]
    made = list(zip((Arg.MEAN, Arg.VARIANCE), statistics, strict=False))
    dst = Buffer(desc.memory_desc(Query.dst_md))
    low.emitter.run("group normalization", desc, [(Arg.SRC, src), *vectors, (Arg.DST, dst), *made])
    low.tensors.produce(op.outputs[0], dst, order)
    for tensor, buffer in zip(op.outputs[1:], statistics, strict=True):
        low.tensors.produce(tensor, buffer)


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
    epsilon, affine = op.attributes.real("epsilon"), _affine(low, op)
    dst, each = Buffer(rows), batch * channels
    moments = moments_of_rows(low, op, src, dst, part)
    far = far_from_zero(part)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            mean, variance = of_all(inputs[1], inputs[2], (1,))
            made_again(mean, variance, mean * mean > far * (variance + epsilon), lambda row: inputs[0][row])
            outputs[0][...], outputs[1][...] = mean, variance
            gamma, beta = inputs[3:] if affine else (np.float64(1), np.float64(0))
            by_group = (batch, groups, channels // groups)
            middle, factor = outputs[2].reshape(by_group), outputs[3].reshape(by_group)
            middle[...] = outputs[0].reshape(batch, groups, 1)
            inverse = (1 / np.sqrt(variance + epsilon)).reshape(batch, groups, 1)
            slope = gamma.reshape(by_group[1:]) * inverse if affine else inverse
            factor[...] = slope
            missed = (mean - outputs[0]).reshape(batch, groups, 1) * slope
            outputs[4].reshape(by_group)[...] = (beta.reshape(by_group[1:]) if affine else beta) - missed

    statistics = [low.layouts.temporary((batch * groups,), F32) for _ in range(2)]
    vectors = [low.layouts.temporary((each,), F32) for _ in range(3)]
    by_part = [low.layouts.view(one, (batch * groups, length // part)) for one in moments]
    data = low.layouts.view(src, (batch * groups, length))
    low.emitter.on_host("group statistics", run, (data, *by_part, *affine), (*statistics, *vectors))
    flat = [low.layouts.view(one, (1, each, positions)) for one in (src, dst)]
    scaled_by_channel(low, op, "group normalization", flat[0], flat[1], vectors)
    low.tensors.produce(op.outputs[0], dst, order)
    for tensor, made in zip(op.outputs[1:], statistics, strict=False):
        low.tensors.produce(tensor, low.layouts.view(made, tensor.dims))


LOWERED = {"GroupNorm": Lowered(group)}
