"""Lowering of batch normalisations, with the ReLU behind them, and of their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor, row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ....ops.formats import data_axes
from ..library.descriptors import BatchNormalizationBackward, BatchNormalizationForward, Binary
from ..library.enumerators import Algorithm, Arg, NormalizationFlags, Propagation, Query
from ..library.loading import load
from ..library.primitive import PrimitiveDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from . import eltwise
from .batch_gradient import gradient_by_columns
from .batch_parts import Statistics, is_last, repeated, statistics_in_parts, widened
from .batch_statistics import restored
from .links import Link
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps
from .tensors import Rectified

F32 = DataType.f32
AFFINE = NormalizationFlags.use_scale | NormalizationFlags.use_shift


def canonical(low: Lowering, op: Op, tensor: LogicalTensor) -> tuple[Buffer, tuple[int, ...]]:
    """Images as (N, C, X), and the tensor's axes in that order."""
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


def _is_old(desc: PrimitiveDesc) -> bool:
    """Whether the kernel is of SSE4.1 on a CPU that has more: it takes channels that are no multiple of eight."""
    return desc.implementation.endswith(":sse41") and load().effective_isa != "sse41"


def batch_inference(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Batch normalisation by given statistics, with the ReLU that follows."""
    src, order = canonical(low, op, op.inputs[0])
    flags = NormalizationFlags.use_global_stats | NormalizationFlags.use_scale | NormalizationFlags.use_shift
    relu = _relu(low, op)
    result = op.outputs[0] if relu is None else relu.outputs[0]
    if relu is not None:
        flags |= NormalizationFlags.fuse_norm_relu
    desc = _forward(low, src, op.attributes.real("epsilon"), flags, Propagation.forward_inference)
    if _is_slow(desc):
        dst = Buffer(src.desc)
        beta, mean = (low.tensors.dense(tensor, F32) for tensor in op.inputs[2:4])
        _by_factors(low, op, src, dst, (mean, _factor(low, op), beta), relu)
        low.tensors.produce(result, dst, order)
    else:
        places = (Arg.SCALE, Arg.SHIFT, Arg.MEAN, Arg.VARIANCE)
        vectors = [(place, low.tensors.dense(t, F32)) for place, t in zip(places, op.inputs[1:], strict=True)]
        low.single("batch normalization", desc, [(Arg.SRC, src), *vectors], result, order)
        if relu is not None:
            low.notes.absorb(op, relu)


def _by_factors(
    low: Lowering, op: Op, src: Buffer, dst: Buffer, vectors: Sequence[Buffer], relu: Op | None
) -> None:
    """A batch normalisation by mean, factor and summand of each channel, with the ReLU behind it."""
    scaled_by_channel(low, op, "batch normalization", src, dst, vectors, rectifies=relu is not None)
    if relu is not None:
        low.notes.absorb(op, relu)


def scaled_by_channel(
    low: Lowering,
    op: Op,
    role: str,
    src: Buffer,
    dst: Buffer,
    vectors: Sequence[Buffer],
    *,
    rectifies: bool = False,
) -> None:
    """A step that takes the mean of each channel off, multiplies and adds on.

    Args:
        src: the data, (N, C, X). dst: of the same layout.
        vectors: mean, factor and summand of each channel.
        rectifies: whether what is below zero becomes zero.
    """
    shape = (1, src.desc.shape[1], *(1 for _ in src.desc.shape[2:]))
    mean, factor, summand = (low.layouts.view(each, shape) for each in vectors)
    post_ops = PostOps(low, OperandView(op.outputs[0]))
    post_ops.add_binary(Algorithm.binary_mul, factor)
    post_ops.add_binary(Algorithm.binary_add, summand)
    if rectifies:
        post_ops.add_eltwise(Algorithm.eltwise_relu)
    away = low.chooser.describe(
        Binary(
            algorithm=Algorithm.binary_sub,
            src_0=src.desc,
            src_1=mean.desc,
            dst=dst.desc,
            attributes=post_ops.attributes(),
        )
    )
    low.emitter.run(role, away, [(Arg.SRC, src), (Arg.SRC_1, mean), *post_ops.arguments, (Arg.DST, dst)])


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
    if users[0].id in low.notes.done:  # it is what reads this
        return None
    return users[0]


def _described(
    low: Lowering, source: Buffer, epsilon: float, flags: NormalizationFlags
) -> tuple[Buffer, PrimitiveDesc]:
    """A batch normalisation by the batch's statistics, and its data in the layout that it takes.

    Images stay as they lie where a kernel takes them so whose sums are to be trusted.
    """
    desc = _forward(low, source, epsilon, flags)
    if _keeps_digits(desc):
        return source, desc
    first = _channels_first(low, source)
    return first, _forward(low, first, epsilon, flags)


def _forward(
    low: Lowering,
    data: Buffer,
    epsilon: float,
    flags: NormalizationFlags,
    propagation: Propagation = Propagation.forward_training,
) -> PrimitiveDesc:
    attributes = low.chooser.attributes()
    return low.chooser.describe(
        BatchNormalizationForward(
            propagation=propagation,
            src=data.desc,
            dst=data.desc,
            epsilon=epsilon,
            flags=flags,
            attributes=attributes,
        )
    )


def batch_training(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Batch normalisation by the batch's statistics, with the ReLU that follows, and the running ones."""
    src, order = canonical(low, op, op.inputs[0])
    relu = _relu(low, op)
    dst = None if src.desc.strides is None else Buffer(src.desc)
    found = None if dst is None else statistics_in_parts(low, op, src, dst)
    if dst is None or found is None:
        statistics = _by_one_sum(low, op, relu, src, order)
    else:
        statistics = [found.mean, found.variance]
        if not is_last(src) or not _normalise_last(low, op, relu, src, found, order):
            _by_factors(low, op, src, dst, (found.mean, found.factor, found.shift), relu)
            low.tensors.produce(op.outputs[0] if relu is None else relu.outputs[0], dst, order)
    momentum = op.attributes.real("momentum") if "momentum" in op.attributes else 0.0
    for index, batch in enumerate(statistics):
        before = low.tensors.dense(op.inputs[1 + index], F32)
        running = low.layouts.temporary((src.desc.shape[1],), F32)
        total = low.chooser.add([before.desc, batch.desc], running.desc, (momentum, 1 - momentum))
        if total is None:
            raise Unfit("the library has no such sum")
        terms = ((Arg.MULTIPLE_SRC, before), (Arg.MULTIPLE_SRC + 1, batch), (Arg.DST, running))
        low.emitter.run("running statistics", total, terms)
        low.tensors.produce(op.outputs[1 + index], running)
        low.tensors.produce(op.outputs[3 + index], batch)


def _affine(low: Lowering, op: Op) -> tuple[NormalizationFlags, list[tuple[int, Buffer]]]:
    """Gamma and beta of a normalisation by the batch's statistics, as far as there are any."""
    flags, vectors = NormalizationFlags.none, list[tuple[int, Buffer]]()
    for place, flag, tensor in zip(
        (Arg.SCALE, Arg.SHIFT),
        (NormalizationFlags.use_scale, NormalizationFlags.use_shift),
        op.inputs[3:],
        strict=False,
    ):
        flags |= flag
        vectors.append((place, low.tensors.dense(tensor, F32)))
    return flags, vectors


def _by_one_sum(low: Lowering, op: Op, relu: Op | None, images: Buffer, order: Sequence[int]) -> list[Buffer]:
    """A normalisation with the statistics that the library makes; returns mean and variance."""
    flags, vectors = _affine(low, op)
    if relu is not None:
        flags |= NormalizationFlags.fuse_norm_relu
    epsilon = op.attributes.real("epsilon")
    src, desc = _described(low, images, epsilon, flags)
    if relu is not None and (_is_slow(desc) or src.desc.has_gaps):  # signs lie as dense data do
        relu, flags = None, flags & ~NormalizationFlags.fuse_norm_relu
        src, desc = _described(low, images, epsilon, flags)
    dst = Buffer(desc.memory_desc(Query.dst_md))
    statistics = [low.layouts.temporary((src.desc.shape[1],), F32) for _ in range(2)]
    given = [*vectors, (Arg.MEAN, statistics[0]), (Arg.VARIANCE, statistics[1])]
    signs = _normalise(low, op, relu, desc, src, dst, given)
    restored(low, op, src, dst, statistics, [buffer for _, buffer in vectors], signs)
    low.tensors.produce(op.outputs[0] if relu is None else relu.outputs[0], dst, order)
    return statistics


def _normalise(
    low: Lowering,
    op: Op,
    relu: Op | None,
    desc: PrimitiveDesc,
    src: Buffer,
    dst: Buffer,
    vectors: Sequence[tuple[int, Buffer]],
) -> Buffer | None:
    """The step that normalises, with the ReLU behind it; returns where it notes what is above zero."""
    arguments, signs = [(Arg.SRC, src), *vectors, (Arg.DST, dst)], None
    if relu is not None:
        signs = Buffer(desc.memory_desc(Query.workspace_md))
        arguments.append((Arg.WORKSPACE, signs))
        low.notes.absorb(op, relu)
        low.tensors.rectified[relu.outputs[0].id] = Rectified(op, src, signs, desc.implementation)
    low.emitter.run("batch normalization", desc, arguments)
    return signs


def _normalise_last(
    low: Lowering, op: Op, relu: Op | None, src: Buffer, found: Statistics, order: Sequence[int]
) -> bool:
    """Images whose channels are adjacent, by statistics; says whether a kernel is fast at it."""
    flags, vectors = _affine(low, op)
    flags |= NormalizationFlags.use_global_stats | NormalizationFlags.use_shift
    vectors = [*vectors[:1], (Arg.SHIFT, found.shift), (Arg.MEAN, found.mean), (Arg.VARIANCE, found.variance)]
    if relu is not None:
        flags |= NormalizationFlags.fuse_norm_relu
    epsilon = op.attributes.real("epsilon")
    desc = _forward(low, src, epsilon, flags)
    if not _is_slow(desc) and not _is_old(desc):
        dst = Buffer(desc.memory_desc(Query.dst_md))
        _normalise(low, op, relu, desc, src, dst, vectors)
    else:  # so many channels are taken one by one; several times as many are not, and each has the same numbers
        seen, times = widened(low, src)
        desc = _forward(low, seen, epsilon, flags, Propagation.forward_inference)
        if _is_slow(desc) or _is_old(desc):
            return False
        dst = Buffer(src.desc)
        places, own = zip(*vectors, strict=True)
        wide = zip(places, repeated(low, own, times), strict=True)
        low.emitter.run(
            "batch normalization",
            desc,
            [(Arg.SRC, seen), *wide, (Arg.DST, low.layouts.look(dst, seen.desc))],
        )
        if relu is not None:
            low.notes.absorb(op, relu)
    low.tensors.produce(op.outputs[0] if relu is None else relu.outputs[0], dst, order)
    return True


def _backward_desc(
    low: Lowering, op: Op, src: Buffer, flags: NormalizationFlags
) -> tuple[Buffer, PrimitiveDesc]:
    """The primitive of a gradient, and its data in the layout that it takes."""
    epsilon = op.attributes.real("epsilon")
    attributes = low.chooser.attributes()

    def described(data: Buffer, hint: PrimitiveDesc) -> PrimitiveDesc:
        return low.chooser.describe(
            BatchNormalizationBackward(
                propagation=Propagation.backward,
                diff_src=data.desc,
                diff_dst=data.desc,
                src=data.desc,
                epsilon=epsilon,
                flags=flags,
                hint=hint,
                attributes=attributes,
            )
        )

    data, hint = _described(low, src, epsilon, flags)
    desc = described(data, hint)
    if _keeps_digits(desc):
        return data, desc
    first = _channels_first(low, data)
    return first, described(first, _described(low, first, epsilon, flags)[1])


def batch_backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Gradients of batch normalisation by the batch's statistics."""
    src, order = canonical(low, op, op.inputs[0])
    if is_last(src):
        desc = _forward(low, src, op.attributes.real("epsilon"), AFFINE)
        if _is_slow(desc) or _is_old(desc):
            with suppress(Unfit), low.attempt(low.tensors.way):
                gradient = low.tensors.images(low.tensors.read(op.inputs[1]), order)
                gradient_by_columns(low, op, src, gradient, order)
                return
    src, desc = _backward_desc(low, op, src, AFFINE)
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
    if normalised.id in low.notes.done:  # it is what reads this
        return False
    given = [t.id for t in (normalised.inputs[0], *normalised.inputs[2:])]
    made = found.op
    if made.attributes.string("data_format") != normalised.attributes.string("data_format"):
        return False  # the signs lie as the channels of the forward one do
    if given != [t.id for t in (made.inputs[0], *made.outputs[3:], *made.inputs[3:4])]:
        return False
    _, order = canonical(low, normalised, normalised.inputs[0])
    src, desc = _backward_desc(low, normalised, found.src, AFFINE | NormalizationFlags.fuse_norm_relu)
    if desc.implementation != found.implementation or src is not found.src:
        return False  # each has its own order of the signs
    _batch_gradient(low, normalised, desc, src, order, op.inputs[1], (Arg.WORKSPACE, found.signs))
    low.notes.absorb(op, normalised)
    return True


LOWERED = {
    "BatchNormInference": Lowered(batch_inference),
    "BatchNormForwardTraining": Lowered(batch_training),
    "BatchNormTrainingBackward": Lowered(batch_backward),
    "ReLUBackward": Lowered(relu_backward),
}
