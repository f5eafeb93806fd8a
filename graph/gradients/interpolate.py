"""Gradients of the gradient of Interpolate."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.formats import axis_positions
from .arithmetic import sizes
from .context import GradientContext
from .rules import STOPPED_PORTS, Made, rule

STOPPED_PORTS["InterpolateBackward"] = frozenset(("src",))  # read for its shape alone


@rule("InterpolateBackward")
def interpolate_backward(ctx: GradientContext) -> Iterator[Made]:
    """It is linear: the interpolation to the size that there was."""
    shape = sizes(ctx.shape_of("diff_dst"))
    axes = axis_positions(ctx.op.attributes.string("data_format"), len(shape) - 2)["X"]
    handed = {name: value for name, value in ctx.op.attributes.items() if name not in ("sizes", "scales")}
    wanted = [shape[axis] for axis in axes]
    yield "diff_dst", ctx.make.ops("Interpolate", [ctx.gradient], {**handed, "sizes": wanted})[0]
