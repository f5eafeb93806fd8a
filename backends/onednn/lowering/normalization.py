"""Lowering of the normalisation family: of layers; those of batches and of groups have files of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.data_types import DataType
from ..library.descriptors import (
    Binary,
    LayerNormalizationBackward,
    LayerNormalizationForward,
    Reduction,
)
from ..library.enumerators import Algorithm, Arg, NormalizationFlags, Propagation
from ..library.primitive import PostOp, PrimitiveDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from . import batch_normalization, group_normalization
from .links import Link, result_of
from .long_sums import LANES as PARALLEL
from .long_sums import stages
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps

F32 = DataType.f32


def _rows(low: Lowering, op: Op, tensor: LogicalTensor) -> tuple[Buffer, int, int]:
    """The tensor as (rows, normalised elements)."""
    first = op.attributes.integer("begin_norm_axis") % len(tensor.dims)
    rows, inner = math.prod(tensor.dims[:first]), math.prod(tensor.dims[first:])
    whole = low.tensors.dense(tensor)
    return low.layouts.view(whole, (rows, inner)), rows, inner


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
        LayerNormalizationForward(
            propagation=Propagation.forward_training if keeps else Propagation.forward_inference,
            src=src.desc,
            dst=target.desc,
            statistics=statistics,
            epsilon=op.attributes.real("epsilon"),
            flags=flags,
            attributes=post_ops.attributes(),
        )
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
        LayerNormalizationForward(
            propagation=Propagation.forward_training,
            src=src.desc,
            dst=src.desc,
            statistics=statistics,
            epsilon=epsilon,
            flags=flags,
            attributes=attributes,
        )
    )
    diff_src = low.layouts.temporary((rows, inner), src.desc.data_type)
    desc = low.chooser.describe(
        LayerNormalizationBackward(
            propagation=Propagation.backward if flags else Propagation.backward_data,
            diff_src=diff_src.desc,
            diff_dst=diff_dst.desc,
            src=src.desc,
            statistics=statistics,
            epsilon=epsilon,
            flags=flags,
            hint=hint,
            attributes=attributes,
        )
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


def root_mean_square(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """RMS normalisation, on rows: by one primitive where the library has one, as 3.13; else
    the squares, their means, which become factors, and the rows by these.

    Raises:
        Unfit: rows that are too long for one sum, and have no parts of the same length; there are no kernels.
    """
    del links
    src, rows, inner = _rows(low, op, op.inputs[0])
    parts = stages(inner, PARALLEL)
    if parts is None:
        raise Unfit(f"sums of {inner} numbers in one f32 lose digits")
    if len(parts) == 1 and _by_one_primitive(low, op, src):
        return
    squares = low.layouts.temporary((rows, inner), F32)
    low.emitter.run("squares", _product(low, src, src, squares), [*_pair(src, src), (Arg.DST, squares)])
    factor, count = squares, rows * inner
    inverse_root = (
        PostOp(Algorithm.eltwise_linear, 1.0, op.attributes.real("epsilon")),
        PostOp(Algorithm.eltwise_sqrt),
        PostOp(Algorithm.eltwise_pow, 1.0, -1.0),
    )
    for number, part in enumerate(parts):
        count //= part
        seen = low.layouts.view(factor, (count, part))
        factor = low.layouts.temporary((count, 1), F32)
        desc = low.chooser.describe(
            Reduction(
                algorithm=Algorithm.reduction_mean,
                src=seen.desc,
                dst=factor.desc,
                p=0.0,
                epsilon=0.0,
                attributes=low.chooser.attributes(inverse_root if number == len(parts) - 1 else ()),
            )
        )
        low.emitter.run("mean square, its inverse root", desc, [(Arg.SRC, seen), (Arg.DST, factor)])
    made = low.layouts.temporary((rows, inner), low.tensors.type_of(op.outputs[0]))
    gamma = [low.layouts.view(_vector(low, one, inner), (1, inner)) for one in op.inputs[1:]]
    arguments = [*_pair(src, factor), *((Arg.ATTR_MULTIPLE_POST_OP_BASE | Arg.SRC_1, one) for one in gamma)]
    scaled = _product(low, src, factor, made, gamma)
    low.emitter.run("root mean square normalization", scaled, [*arguments, (Arg.DST, made)])
    _shaped(low, made, op.outputs[0])


def _by_one_primitive(low: Lowering, op: Op, src: Buffer) -> bool:
    """The library's own RMS normalisation; whether it has one."""
    rows, inner = src.desc.shape
    gamma = [_vector(low, one, inner) for one in op.inputs[1:]]
    dst = low.layouts.temporary((rows, inner), low.tensors.type_of(op.outputs[0]))
    scale = NormalizationFlags.use_scale if gamma else NormalizationFlags.none
    desc = low.chooser.find(
        LayerNormalizationForward(
            propagation=Propagation.forward_inference,
            src=src.desc,
            dst=dst.desc,
            statistics=low.layouts.desc((rows,), (1,), F32),
            epsilon=op.attributes.real("epsilon"),
            flags=NormalizationFlags.rms_norm | scale,
            attributes=low.chooser.attributes(),
        )
    ).desc
    if desc is None or not desc.implementation.startswith("jit"):
        return False
    scales = [(Arg.SCALE, one) for one in gamma]
    low.emitter.run("root mean square normalization", desc, [(Arg.SRC, src), *scales, (Arg.DST, dst)])
    _shaped(low, dst, op.outputs[0])
    return True


def _pair(first: Buffer, second: Buffer) -> list[tuple[int, Buffer]]:
    return [(Arg.SRC, first), (Arg.SRC_1, second)]


def _product(
    low: Lowering, first: Buffer, second: Buffer, made: Buffer, columns: Sequence[Buffer] = ()
) -> PrimitiveDesc:
    """A product of matrices, element by element, and with a row that all of them have if there is one."""
    return low.chooser.describe(
        Binary(
            algorithm=Algorithm.binary_mul,
            src_0=first.desc,
            src_1=second.desc,
            dst=made.desc,
            attributes=low.chooser.attributes(
                [PostOp(Algorithm.binary_mul, operand=one.desc) for one in columns]
            ),
        )
    )


LOWERED = {
    **batch_normalization.LOWERED,
    **group_normalization.LOWERED,
    "LayerNorm": Lowered(layer),
    "LayerNormBackward": Lowered(layer_backward),
    "RMSNorm": Lowered(root_mean_square),
}
