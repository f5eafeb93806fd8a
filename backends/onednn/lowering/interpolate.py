"""Lowering of the interpolation family."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....ops.formats import data_axes
from ..library.descriptors import PoolingForward, ResamplingBackward, ResamplingForward
from ..library.enumerators import Algorithm, Arg, Propagation, Query
from ..library.primitive import PostOp
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .links import Link, result_of
from .lowering import Lowered, Lowering
from .post_ops import OperandView, PostOps


def _algorithm(op: Op) -> Algorithm:
    nearest = op.attributes.string("mode") == "nearest"
    return Algorithm.resampling_nearest if nearest else Algorithm.resampling_linear


def forward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A resampling primitive."""
    tensor, result = op.inputs[0], result_of(op, links)
    order = data_axes(op.attributes.string("data_format"), len(tensor.dims) - 2).order
    src = low.tensors.images(low.tensors.read(tensor), order)
    view = OperandView(op.outputs[0], lambda operand: low.tensors.images(operand, order))
    post_ops = PostOps(low, view, scales_result=False)
    post_ops.add_links(links)
    desc = low.chooser.describe(
        ResamplingForward(
            propagation=Propagation.forward_inference,
            algorithm=_algorithm(op),
            src=src.desc,
            dst=low.tensors.wanted(result, order, links),
            attributes=post_ops.attributes(),
        )
    )
    low.single("resampling", desc, [(Arg.SRC, src), *post_ops.arguments], result, order)


def backward(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A resampling primitive for the gradient."""
    result = op.outputs[0]
    order = data_axes(op.attributes.string("data_format"), len(result.dims) - 2).order
    diff_dst = low.tensors.images(low.tensors.read(op.inputs[1]), order)
    shape = tuple(result.dims[a] for a in order)
    windows = _windows(op, shape[2:], diff_dst.desc.shape[2:])
    if windows is not None and _by_pooling(low, diff_dst, shape, windows, result, order):
        return
    attributes = low.chooser.attributes()
    source = low.layouts.temporary(shape, diff_dst.desc.data_type).desc
    hint = low.chooser.describe(
        ResamplingForward(
            propagation=Propagation.forward_training,
            algorithm=_algorithm(op),
            src=source,
            dst=low.layouts.any(diff_dst.desc.shape, diff_dst.desc.data_type),
            attributes=attributes,
        )
    )
    desc = low.chooser.describe(
        ResamplingBackward(
            algorithm=_algorithm(op),
            diff_src=low.layouts.any(shape, diff_dst.desc.data_type),
            diff_dst=diff_dst.desc,
            hint=hint,
            attributes=attributes,
        )
    )
    low.single(
        "resampling gradient",
        desc,
        [(Arg.DIFF_DST, diff_dst)],
        result,
        order,
        Arg.DIFF_SRC,
        Query.diff_src_md,
    )


def _windows(op: Op, small: Sequence[int], large: Sequence[int]) -> tuple[int, ...] | None:
    """How often each element was repeated along each axis; None where not all were as often."""
    repeats = op.attributes.string("mode") == "nearest" and all(
        b % a == 0 for a, b in zip(small, large, strict=True)
    )
    return tuple(b // a for a, b in zip(small, large, strict=True)) if repeats else None


def _by_pooling(
    low: Lowering,
    diff_dst: Buffer,
    shape: tuple[int, ...],
    windows: tuple[int, ...],
    result: LogicalTensor,
    order: Sequence[int],
) -> bool:
    """The sums of what became of each element, as averages times their count; the library resamples one by one.

    Says whether there is a kernel for them.
    """
    zeros = (0,) * len(windows)
    try:
        desc = low.chooser.describe(
            PoolingForward(
                propagation=Propagation.forward_inference,
                algorithm=Algorithm.pooling_avg_include_padding,
                src=diff_dst.desc,
                dst=low.layouts.any(shape, diff_dst.desc.data_type),
                strides=windows,
                kernel=windows,
                dilates=zeros,
                pads_begin=zeros,
                pads_end=zeros,
                attributes=low.chooser.attributes([PostOp(Algorithm.eltwise_linear, math.prod(windows))]),
            )
        )
    except Unfit:
        return False
    if not desc.implementation.startswith("jit"):
        return False
    low.single("resampling gradient", desc, [(Arg.SRC, diff_dst)], result, order)
    return True


def why_not(op: Op) -> str | None:
    """What the library's resampling does not have."""
    if op.attributes.string("coordinate_transformation_mode") != "half_pixel":
        return "oneDNN's resampling has half_pixel coordinates only"
    return None


LOWERED = {
    "Interpolate": Lowered(forward, why_not=why_not),
    "InterpolateBackward": Lowered(backward, why_not=why_not),
}
