"""Lowering of the normalisation family."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor, row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ....ops.formats import data_axes
from ..library.capabilities import GROUP_NORMALIZATION
from ..library.enumerators import Algorithm, Arg, NormalizationFlags, Propagation, Query
from ..library.primitive import PrimitiveDesc
from ..plan.steps import Buffer, Step
from ..plan.unfit import Unfit
from . import eltwise
from .batch_statistics import restored
from .fusing import Link, result_of
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps
from .tensors import Rectified

F32 = DataType.f32
_AFFINE = NormalizationFlags.use_scale | NormalizationFlags.use_shift


def _canonical(low: Lowering, op: Op, tensor: LogicalTensor) -> tuple[Buffer, tuple[int, ...]]:
    order = data_axes(op.attributes.string("data_format"), len(tensor.dims) - 2).order
    return low.tensors.images(low.tensors.read(tensor), order), order


def _channels_first(low: Lowering, source: Buffer) -> Buffer:
    """The images (N, C, X) with the positions adjacent."""
    shape, strides = source.desc.shape, source.desc.strides
    if strides is None or strides[1] != 1 or shape[1] == 1:
        return source
    return low.emitter.bring("data", source, low.layouts.desc(shape, row_major(shape), source.desc.data_type))


def _keeps_digits(desc: PrimitiveDesc) -> bool:
    """Whether sums over images that lie as they do are to be trusted: those of `nspc_bnorm:any` lose digits.

    Variances of ten thousand numbers were off by 1e-4; it is slower than a copy and the other kernel, too.
    """
    return not desc.implementation.startswith("nspc_bnorm")


def _is_slow(desc: PrimitiveDesc) -> bool:
    """Whether the kernel is one for any number of channels.

    They go through single elements where they have a ReLU or the channels are adjacent, four to ten times slower.
    """
    return desc.implementation.startswith(("ncsp_bnorm", "nspc_bnorm"))


def batch_inference(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Batch normalisation by given statistics, with the ReLU that follows."""
    src, order = _canonical(low, op, op.inputs[0])
    flags = NormalizationFlags.use_global_stats | NormalizationFlags.use_scale | NormalizationFlags.use_shift
    result = op.outputs[0]
    relu = _relu(low, op)
    if relu is not None:
        flags |= NormalizationFlags.fuse_norm_relu
        result = relu.outputs[0]
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        "batch_normalization_forward",
        low.engine,
        Propagation.forward_inference,
        src.desc,
        src.desc,
        op.attributes.real("epsilon"),
        flags,
        attributes,
    )
    if _is_slow(desc):
        _by_factors(low, op, src, result, order)
    else:
        places = (Arg.SCALE, Arg.SHIFT, Arg.MEAN, Arg.VARIANCE)
        vectors = [(place, low.tensors.dense(t, F32)) for place, t in zip(places, op.inputs[1:], strict=True)]
        low.single("batch normalization", desc, [(Arg.SRC, src), *vectors], result, order)
    if relu is not None:
        low.notes.absorb(op, relu)


def _by_factors(low: Lowering, op: Op, src: Buffer, result: LogicalTensor, order: Sequence[int]) -> None:
    """A batch normalisation by given statistics: for each channel the mean off, times a factor, and a summand on.

    Args:
        src: its data, of axes in `order`. result: the op's, or that of the ReLU behind it.
    """
    shape = (1, src.desc.shape[1], *(1 for _ in src.desc.shape[2:]))
    beta, mean = (low.tensors.dense(tensor, F32) for tensor in op.inputs[2:4])
    desc = low.layouts.desc(shape, row_major(shape), F32)
    mean, factor, beta = (low.layouts.look(each, desc) for each in (mean, _factor(low, op), beta))
    post_ops = PostOps(low, OperandView(op.outputs[0]))
    post_ops.add_binary(Algorithm.binary_mul, factor)
    post_ops.add_binary(Algorithm.binary_add, beta)
    if result.id != op.outputs[0].id:
        post_ops.add_eltwise(Algorithm.eltwise_relu)
    away = low.chooser.describe(
        "binary", low.engine, Algorithm.binary_sub, src.desc, mean.desc, src.desc, post_ops.attributes()
    )
    arguments = [(Arg.SRC, src), (Arg.SRC_1, mean), *post_ops.arguments]
    low.single("batch normalization", away, arguments, result, order)


def _factor(low: Lowering, op: Op) -> Buffer:
    """Gamma / √(variance + epsilon), made on the host."""
    gamma, variance = (low.tensors.dense(op.inputs[place], F32) for place in (1, 4))
    made = low.layouts.temporary(gamma.desc.shape, F32)
    epsilon = np.float32(op.attributes.real("epsilon"))

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):  # negative variances give NaN, as in the library
            np.divide(inputs[0], np.sqrt(inputs[1] + epsilon), out=outputs[0])

    low.emitter.on_host("batch normalization, its factors", run, (gamma, variance), (made,))
    return made


def _relu(low: Lowering, op: Op) -> Op | None:
    output = op.outputs[0]
    users = low.edges.users(output)
    if low.edges.is_port(output) or len(users) != 1 or users[0].kind != "ReLU":
        return None
    return users[0]


def _described(
    low: Lowering, source: Buffer, epsilon: float, flags: NormalizationFlags
) -> tuple[Buffer, PrimitiveDesc]:
    """A batch normalisation by the batch's statistics, and its data in the layout that it takes.

    Images stay as they lie where a kernel takes them so whose sums are to be trusted.
    """
    attributes = low.chooser.attributes()

    def described(data: Buffer) -> PrimitiveDesc:
        return low.chooser.describe(
            "batch_normalization_forward",
            low.engine,
            Propagation.forward_training,
            data.desc,
            data.desc,
            epsilon,
            flags,
            attributes,
        )

    desc = described(source)
    if _keeps_digits(desc):
        return source, desc
    first = _channels_first(low, source)
    return first, described(first)


def batch_training(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Batch normalisation by the batch's statistics, with the ReLU that follows, and the running ones."""
    src, order = _canonical(low, op, op.inputs[0])
    flags = NormalizationFlags.none
    vectors: list[tuple[int, Buffer]] = []
    for place, flag, index in (
        (Arg.SCALE, NormalizationFlags.use_scale, 3),
        (Arg.SHIFT, NormalizationFlags.use_shift, 4),
    ):
        if len(op.inputs) > index:
            flags |= flag
            vectors.append((place, low.tensors.dense(op.inputs[index], F32)))
    relu = _relu(low, op)
    if relu is not None:
        flags |= NormalizationFlags.fuse_norm_relu
    epsilon, images = op.attributes.real("epsilon"), src
    src, desc = _described(low, images, epsilon, flags)
    if relu is not None and (_is_slow(desc) or src.desc.has_gaps):  # signs lie as dense data do
        relu, flags = None, flags & ~NormalizationFlags.fuse_norm_relu
        src, desc = _described(low, images, epsilon, flags)
    channels = src.desc.shape[1]
    dst = Buffer(desc.memory_desc(Query.dst_md))
    statistics = [low.layouts.temporary((channels,), F32) for _ in range(2)]
    arguments = [
        (Arg.SRC, src),
        *vectors,
        (Arg.DST, dst),
        (Arg.MEAN, statistics[0]),
        (Arg.VARIANCE, statistics[1]),
    ]
    signs: Buffer | None = None
    if relu is not None:
        signs = Buffer(desc.memory_desc(Query.workspace_md))
        arguments.append((Arg.WORKSPACE, signs))
        low.notes.absorb(op, relu)
        low.tensors.rectified[relu.outputs[0].id] = Rectified(op, src, signs, desc.implementation)
    low.emitter.run("batch normalization", desc, arguments)
    restored(low, op, src, dst, statistics, [buffer for _, buffer in vectors], signs)
    low.tensors.produce(op.outputs[0] if relu is None else relu.outputs[0], dst, order)
    momentum = op.attributes.real("momentum") if "momentum" in op.attributes else 0.0
    for index, batch in enumerate(statistics):
        before = low.tensors.dense(op.inputs[1 + index], F32)
        running = low.layouts.temporary((channels,), F32)
        total = low.chooser.add([before.desc, batch.desc], running.desc, (momentum, 1 - momentum))
        if total is None:
            raise Unfit("the library has no such sum")
        terms = ((Arg.MULTIPLE_SRC, before), (Arg.MULTIPLE_SRC + 1, batch), (Arg.DST, running))
        low.emitter.steps.append(Step("running statistics", total, terms))
        low.tensors.produce(op.outputs[1 + index], running)
        low.tensors.produce(op.outputs[3 + index], batch)


def _backward_desc(
    low: Lowering, op: Op, src: Buffer, flags: NormalizationFlags
) -> tuple[Buffer, PrimitiveDesc]:
    """The primitive of a gradient, and its data in the layout that it takes."""
    epsilon = op.attributes.real("epsilon")
    attributes = low.chooser.attributes()

    def described(data: Buffer, hint: PrimitiveDesc) -> PrimitiveDesc:
        return low.chooser.describe(
            "batch_normalization_backward",
            low.engine,
            Propagation.backward,
            data.desc,
            data.desc,
            data.desc,
            epsilon,
            flags,
            hint,
            attributes,
        )

    data, hint = _described(low, src, epsilon, flags)
    desc = described(data, hint)
    if _keeps_digits(desc):
        return data, desc
    first = _channels_first(low, data)
    return first, described(first, _described(low, first, epsilon, flags)[1])


def batch_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Gradients of batch normalisation by the batch's statistics."""
    src, order = _canonical(low, op, op.inputs[0])
    src, desc = _backward_desc(low, op, src, _AFFINE)
    _batch_gradient(low, op, desc, src, order, op.inputs[1])


def _batch_gradient(
    low: Lowering,
    op: Op,
    desc: PrimitiveDesc,
    src: Buffer,
    order: Sequence[int],
    gradient: LogicalTensor,
    *more: tuple[int, Buffer],
) -> None:
    """The step of a gradient of batch normalisation.

    Args:
        desc: the primitive. src: its data, of axes in `order`.
        gradient: of what the primitive made, or the ReLU that it has done.
        more: further arguments.
    """
    channels = src.desc.shape[1]
    scaled = len(op.inputs) > 4
    gamma = low.tensors.dense(op.inputs[4], F32) if scaled else low.layouts.ones(channels)
    diff_src = Buffer(desc.memory_desc(Query.diff_src_md))
    diff_gamma, diff_beta = (low.layouts.temporary((channels,), F32) for _ in range(2))
    low.emitter.run(
        "batch normalization gradient",
        desc,
        [
            (Arg.SRC, src),
            (
                Arg.DIFF_DST,
                low.emitter.bring(
                    "diff_dst", low.tensors.images(low.tensors.read(gradient), order), src.desc
                ),
            ),
            (Arg.MEAN, low.tensors.dense(op.inputs[2], F32)),
            (Arg.VARIANCE, low.tensors.dense(op.inputs[3], F32)),
            (Arg.SCALE, gamma),
            *more,
            (Arg.DIFF_SRC, diff_src),
            (Arg.DIFF_SCALE, diff_gamma),
            (Arg.DIFF_SHIFT, diff_beta),
        ],
    )
    low.tensors.produce(op.outputs[0], diff_src, order)
    for tensor, made in zip(op.outputs[1:], (diff_gamma, diff_beta), strict=False):
        low.tensors.produce(tensor, made)


def relu_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """The gradient of a ReLU; that of the batch normalisation before it goes along where both went forward in one."""
    if not _through_both(low, op):
        eltwise.backward(low, op, links)


def _through_both(low: Lowering, op: Op) -> bool:
    """Lowers both gradients as one primitive, by the signs that the forward one left. Says whether there is one."""
    found, users = low.tensors.rectified.get(op.inputs[0].id), low.edges.users(op.outputs[0])
    if (
        found is None
        or not op.attributes.flag("use_dst")
        or low.edges.is_port(op.outputs[0])
        or len(users) != 1
    ):
        return False
    (normalised,) = users
    if normalised.kind != "BatchNormTrainingBackward" or normalised.inputs[1].id != op.outputs[0].id:
        return False
    given = [t.id for t in (normalised.inputs[0], *normalised.inputs[2:])]
    made = found.op
    if made.attributes.string("data_format") != normalised.attributes.string("data_format"):
        return False  # the signs lie as the channels of the forward one do
    if given != [t.id for t in (made.inputs[0], *made.outputs[3:], *made.inputs[3:4])]:
        return False
    _, order = _canonical(low, normalised, normalised.inputs[0])
    src, desc = _backward_desc(low, normalised, found.src, _AFFINE | NormalizationFlags.fuse_norm_relu)
    if desc.implementation != found.implementation or src is not found.src:
        return False  # each has its own order of the signs
    _batch_gradient(low, normalised, desc, src, order, op.inputs[1], (Arg.WORKSPACE, found.signs))
    low.notes.absorb(op, normalised)
    return True


def _rows(low: Lowering, op: Op, tensor: LogicalTensor) -> tuple[Buffer, int, int]:
    """The tensor as (rows, normalised elements)."""
    first = op.attributes.integer("begin_norm_axis") % len(tensor.dims)
    rows, inner = math.prod(tensor.dims[:first]), math.prod(tensor.dims[first:])
    whole = low.tensors.dense(tensor)
    return (
        low.layouts.view(whole, (rows, inner)),
        rows,
        inner,
    )


def _vector(low: Lowering, tensor: LogicalTensor, size: int) -> Buffer:
    whole = low.tensors.dense(tensor, F32)
    return low.layouts.view(whole, (size,))


def _shaped(low: Lowering, made: Buffer, tensor: LogicalTensor) -> None:
    low.tensors.produce(tensor, low.layouts.view(made, tensor.dims or (1,)))


def layer(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Layer normalisation, on rows."""
    src, rows, inner = _rows(low, op, op.inputs[0])
    gamma, beta = (*op.inputs, None, None)[1:3]
    flags = NormalizationFlags.none
    vectors: list[tuple[int, Buffer]] = []
    if op.attributes.flag("use_affine") and gamma is not None and beta is not None:
        flags = NormalizationFlags.use_scale | NormalizationFlags.use_shift
        vectors = [(Arg.SCALE, _vector(low, gamma, inner)), (Arg.SHIFT, _vector(low, beta, inner))]
    keeps = len(op.outputs) > 1
    result = result_of(op, links)
    post_ops = PostOps(low, OperandView(op.outputs[0]))
    post_ops.add_links(links)
    target = low.layouts.temporary((rows, inner), low.tensors.type_of(result))
    statistics = low.layouts.desc((rows,), (1,), F32)
    desc = low.chooser.describe(
        "layer_normalization_forward",
        low.engine,
        Propagation.forward_training if keeps else Propagation.forward_inference,
        src.desc,
        target.desc,
        statistics,
        op.attributes.real("epsilon"),
        flags,
        post_ops.attributes(),
    )
    arguments: list[tuple[int, Buffer]] = [
        (Arg.SRC, src),
        (Arg.DST, target),
        *vectors,
        *post_ops.arguments,
    ]
    made = [Buffer(statistics), Buffer(statistics)] if keeps else []
    arguments += list(zip((Arg.MEAN, Arg.VARIANCE), made, strict=False))
    low.emitter.run("layer normalization", desc, arguments)
    for tensor, buffer in zip((result, *op.outputs[1:]), (target, *made), strict=True):
        _shaped(low, buffer, tensor)


def layer_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Gradients of layer normalisation, on rows."""
    src, rows, inner = _rows(low, op, op.inputs[0])
    diff_dst, _, _ = _rows(low, op, op.inputs[1])
    mean, variance = (_vector(low, tensor, rows) for tensor in (*op.inputs,)[2:4])
    scale = next(iter((*op.inputs,)[4:5]), None) if op.attributes.flag("use_affine") else None
    wants = len(op.outputs) > 1
    flags = NormalizationFlags.none
    if scale is not None or wants:
        flags = NormalizationFlags.use_scale | NormalizationFlags.use_shift
    epsilon = op.attributes.real("epsilon")
    statistics = low.layouts.desc((rows,), (1,), F32)
    attributes = low.chooser.attributes()
    hint = low.chooser.describe(
        "layer_normalization_forward",
        low.engine,
        Propagation.forward_training,
        src.desc,
        src.desc,
        statistics,
        epsilon,
        flags,
        attributes,
    )
    diff_src = low.layouts.temporary((rows, inner), src.desc.data_type)
    desc = low.chooser.describe(
        "layer_normalization_backward",
        low.engine,
        Propagation.backward if flags else Propagation.backward_data,
        diff_src.desc,
        diff_dst.desc,
        src.desc,
        statistics,
        epsilon,
        flags,
        hint,
        attributes,
    )
    arguments: list[tuple[int, Buffer]] = [
        (Arg.SRC, src),
        (Arg.DIFF_DST, diff_dst),
        (Arg.MEAN, mean),
        (Arg.VARIANCE, variance),
        (Arg.DIFF_SRC, diff_src),
    ]
    made = [low.layouts.temporary((inner,), F32) for _ in range(2)] if flags else []
    if flags:  # the shift's value does not matter, but the library asks for it
        gamma = _vector(low, scale, inner) if scale is not None else low.layouts.ones(inner)
        arguments += [
            (Arg.SCALE, gamma),
            (Arg.SHIFT, gamma),
            (Arg.DIFF_SCALE, made[0]),
            (Arg.DIFF_SHIFT, made[1]),
        ]
    low.emitter.run("layer normalization gradient", desc, arguments)
    for tensor, buffer in zip(op.outputs, (diff_src, *made), strict=False):
        _shaped(low, buffer, tensor)


def group(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Group normalisation, of images as they lie."""
    src, order = _canonical(low, op, op.inputs[0])
    flags = NormalizationFlags.none
    vectors: list[tuple[int, Buffer]] = []
    if op.attributes.flag("use_affine") and len(op.inputs) > 2:
        flags = _AFFINE
        places = (Arg.SCALE, Arg.SHIFT)
        vectors = [(place, low.tensors.dense(t, F32)) for place, t in zip(places, op.inputs[1:], strict=True)]
    keeps, groups = len(op.outputs) > 1, op.attributes.integer("groups")
    attributes = low.chooser.attributes()
    desc = low.chooser.describe(
        "group_normalization_forward",
        low.engine,
        Propagation.forward_training if keeps else Propagation.forward_inference,
        src.desc,
        src.desc,
        groups,
        op.attributes.real("epsilon"),
        flags,
        attributes,
    )
    statistics = [low.layouts.temporary((src.desc.shape[0], groups), F32) for _ in op.outputs[1:]]
    made = list(zip((Arg.MEAN, Arg.VARIANCE), statistics, strict=False))
    dst = Buffer(desc.memory_desc(Query.dst_md))
    low.emitter.run("group normalization", desc, [(Arg.SRC, src), *vectors, (Arg.DST, dst), *made])
    low.tensors.produce(op.outputs[0], dst, order)
    for tensor, buffer in zip(op.outputs[1:], statistics, strict=True):
        low.tensors.produce(tensor, buffer)


def takes(op: Op, link: Link) -> bool:
    """What a layer normalisation takes along: another type of its result, scaled or not."""
    return link.algorithm is None and link.normalize is None


LOWERED = {
    "BatchNormInference": Lowered(batch_inference),
    "BatchNormForwardTraining": Lowered(batch_training),
    "BatchNormTrainingBackward": Lowered(batch_backward),
    "ReLUBackward": Lowered(relu_backward),
    "LayerNorm": Lowered(layer, fuses=True, takes=takes),
    "LayerNormBackward": Lowered(layer_backward),
    "GroupNorm": Lowered(group, needs=GROUP_NORMALIZATION),
}
