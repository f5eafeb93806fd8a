"""Gradients of the gradients of poolings."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.pooling import pooling_attributes, windows
from ...ops.schema import UNKNOWN_DIM
from ..model.logical_tensor import LogicalTensor
from .arithmetic import dims_of, sizes
from .context import GradientContext
from .rules import STOPPED_PORTS, Made, rule

STOPPED_PORTS["MaxPoolBackward"] = STOPPED_PORTS["HostMaxPoolGather"] = frozenset(
    ("src",)  # which element is the largest changes by steps only
)


def _rounding(ctx: GradientContext, src: LogicalTensor) -> str:
    """How the forward op rounded sizes, which its gradient op does not say.

    Raises:
        UnsupportedError: a spatial size is not known.
    """
    shape, diff_dst = dims_of(src), dims_of(ctx.shape_of("diff_dst"))
    pooling = pooling_attributes(ctx.op.attributes, len(shape) - 2)
    axes = pooling.window.spatial_axes
    if any(UNKNOWN_DIM in (shape[axis], diff_dst[axis]) for axis in axes):
        sizes(src)
        sizes(ctx.shape_of("diff_dst"))
    made = windows(pooling, [shape[axis] for axis in axes]).dst
    return "floor" if made == tuple(diff_dst[axis] for axis in axes) else "ceil"


@rule("AvgPoolBackward")
def average_backward(ctx: GradientContext) -> Iterator[Made]:
    """It is linear: the average of each window, which are as many as there were."""
    handed = {name: value for name, value in ctx.op.attributes.items() if name != "src_shape"}
    handed["rounding_type"] = _rounding(ctx, ctx.op.outputs[0])
    yield "diff_dst", ctx.make.ops("AvgPool", [ctx.gradient], handed)[0]


@rule("MaxPoolBackward")
def largest_backward(ctx: GradientContext) -> Iterator[Made]:
    """It is linear in diff_dst: what stands where the largest elements were, of as many windows as there were."""
    attributes = {**ctx.op.attributes, "rounding_type": _rounding(ctx, ctx.shape_of("src"))}
    yield "diff_dst", ctx.make.ops("HostMaxPoolGather", [ctx.input("src"), ctx.gradient], attributes)[0]
