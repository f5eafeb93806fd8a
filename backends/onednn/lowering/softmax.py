"""Lowering of the softmax family."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array
from ....ops.data_types import DataType
from ..library.descriptors import SoftmaxBackward, SoftmaxForward
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.memory import MemoryDesc
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .extremes import mended, shares_of_rows
from .links import Link, result_of
from .long_sums import check_row
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps
from .tensors import HALVES, label_of
from .views import in_order, order_of

FLOATS = (DataType.f32, *HALVES)


FEW = 1 << 12
"""Elements of rows whose logarithm of the sum is so small that what the library's lacks in digits is seen in a loss."""
AT_ONCE = 1 << 14
"""Elements that the mending of logarithms reads again while they are near."""


def _algorithm(op: Op) -> Algorithm:
    return Algorithm.softmax_log if op.kind.startswith("Log") else Algorithm.softmax_accurate


def _along(low: Lowering, op: Op, tensor: LogicalTensor) -> tuple[Buffer, int]:
    """A tensor with the elements along the op's axis one behind the other, as the library's kernels want it."""
    source = low.tensors.plain(tensor)
    shape, strides = source.desc.shape, source.desc.strides
    axis = op.attributes.integer("axis") % len(shape)
    if strides is None or shape[axis] == 1 or strides[axis] == 1:
        return source, axis
    order = (*(a for a in order_of(shape, strides) if a != axis), axis)
    lies = low.layouts.desc(shape, in_order(shape, order), source.desc.data_type)
    return low.emitter.bring(label_of(tensor), source, lies), axis


def _like(low: Lowering, source: Buffer, result: LogicalTensor) -> MemoryDesc:
    """The user's layout for a result, where its kernel can go from the source's to it; that of the source otherwise."""
    wanted, desc = low.tensors.wanted(result), source.desc
    strides = desc.strides
    if wanted.strides is None or strides is None or wanted.strides == strides:
        return wanted
    return low.layouts.desc(desc.shape, strides, low.tensors.type_of(result))


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A softmax primitive, and what it does not have on the host: statistics, and rows of infinities or NaN."""
    src, axis = _along(low, op, op.inputs[0])
    own, result = op.outputs[0], result_of(op, links)
    if len(op.outputs) > 1 and low.tensors.type_of(result) is not DataType.f32:
        raise Unfit("statistics need the result in f32")
    corrected = (
        op.kind == "LogSoftmax" and src.desc.shape[axis] <= FEW and low.tensors.type_of(own) is DataType.f32
    )
    if corrected and links:
        raise Unfit("the logarithm of the library's sums is mended before anything follows")
    post_ops = PostOps(low, OperandView(own))
    post_ops.add_links(links)
    desc = low.chooser.describe(
        SoftmaxForward(
            propagation=Propagation.forward_inference,
            algorithm=_algorithm(op),
            src=src.desc,
            dst=_like(low, src, result),
            axis=axis,
            attributes=post_ops.attributes(),
        )
    )
    check_row(src.desc.shape[axis], desc.implementation)
    low.single("softmax", desc, [(Arg.SRC, src), *post_ops.arguments], result)
    if corrected:
        _logarithms(low, low.tensors.read(result), axis)
    if low.tensors.type_of(result) in FLOATS:  # integers have no NaN
        shares_of_rows(low, op, src, low.tensors.read(result), axis)
    if len(op.outputs) > 1:
        _statistics(low, src, low.tensors.read(result), op.outputs[1], axis)


def _logarithms(low: Lowering, result: Buffer, axis: int) -> None:
    """Logarithms of shares that add up to one: the library's log Σ exp is 3.5e-6 off, the same in all of a row.

    What the shares of a row add up to says how much. Of a loss near 1 that is 50 roundings.
    """

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        rows = np.moveaxis(outputs[0], axis, -1)
        if rows.ndim == 1:
            rows = rows[None]
        many = max(1, AT_ONCE * rows.shape[0] // max(1, rows.size))
        for begin in range(0, rows.shape[0], many):
            some = rows[begin : begin + many]
            with np.errstate(all="ignore"):
                off = np.log(np.exp(some).sum(axis=-1, keepdims=True))
            off[~np.isfinite(off)] = 0
            some -= off

    mended(low, "logarithms of sums", run, (), result)


def _statistics(low: Lowering, src: Buffer, dst: Buffer, stats: LogicalTensor, axis: int) -> None:
    """The log of the sum, from the largest elements: log Σ exp(src) = src − log(dst) at each of them."""
    target = low.layouts.temporary(stats.dims, DataType.f32)

    def run(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        with np.errstate(all="ignore"):
            largest, share = (one.max(axis=axis, keepdims=True).astype(np.float32) for one in inputs)
            outputs[0][...] = np.where(share == 0, 0, largest - np.log(share))

    low.emitter.on_host("statistics", run, (src, dst), (target,))
    low.tensors.produce(stats, target)


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A softmax primitive for the gradient."""
    dst, axis = _along(low, op, op.inputs[1])
    diff_dst = low.emitter.bring("diff_dst", low.tensors.read(op.inputs[0]), dst.desc)
    result = op.outputs[0]
    attributes = low.chooser.attributes()
    hint = low.chooser.describe(
        SoftmaxForward(
            propagation=Propagation.forward_training,
            algorithm=_algorithm(op),
            src=dst.desc,
            dst=dst.desc,
            axis=axis,
            attributes=attributes,
        )
    )
    desc = low.chooser.describe(
        SoftmaxBackward(
            algorithm=_algorithm(op),
            diff_src=_like(low, dst, result),
            diff_dst=diff_dst.desc,
            dst=dst.desc,
            axis=axis,
            hint=hint,
            attributes=attributes,
        )
    )
    check_row(dst.desc.shape[axis], desc.implementation)
    arguments = [(Arg.DST, dst), (Arg.DIFF_DST, diff_dst)]
    low.single("softmax gradient", desc, arguments, result, output=Arg.DIFF_SRC, query=Query.diff_src_md)


LOWERED = {
    "SoftMax": Lowered(forward),
    "LogSoftmax": Lowered(forward),
    "SoftMaxBackward": Lowered(backward),
    "LogSoftmaxBackward": Lowered(backward),
}
