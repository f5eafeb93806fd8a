"""Gradients of the gradients of poolings."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.pooling import pooling_attributes, windows
from .arithmetic import sizes
from .context import GradientContext
from .rules import NOT_DIFFERENTIABLE, Made, rule

NOT_DIFFERENTIABLE["MaxPoolBackward"] = "no op takes the elements that were the largest ones of a window"


@rule("AvgPoolBackward")
def average_backward(ctx: GradientContext) -> Iterator[Made]:
    """It is linear: the average of each window, which are as many as there were."""
    src, diff_dst = sizes(ctx.op.outputs[0]), sizes(ctx.shape_of("diff_dst"))
    pooling = pooling_attributes(ctx.op.attributes, len(src) - 2)
    axes = pooling.window.spatial_axes
    made = windows(pooling, [src[axis] for axis in axes]).dst
    handed = {name: value for name, value in ctx.op.attributes.items() if name != "src_shape"}
    rounding = "floor" if made == tuple(diff_dst[axis] for axis in axes) else "ceil"
    yield "diff_dst", ctx.make.ops("AvgPool", [ctx.gradient], {**handed, "rounding_type": rounding})[0]
