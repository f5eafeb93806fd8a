"""The PReLU family.

Source: the oneDNN Graph documents of PReLU and PReLUBackward.
"""

from __future__ import annotations

from collections.abc import Sequence

from .attributes import Attributes
from .formats import axis_positions
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import DATA_FORMAT, FLOATS, SOURCE, broadcast, flag, same


def _prelu(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, slope = ctx.inputs[0], ctx.inputs[1]
    _check_slope(ctx, src, slope)
    return (src,)


def _check_slope(ctx: InferenceContext, src: Shape, slope: Shape) -> None:
    if src is None or slope is None:
        return
    if broadcast(ctx, (src, slope_view(ctx, src, slope)), ("src", "slope")) != src and -1 not in (
        *src,
        *slope,
    ):
        raise ctx.error(
            f"'slope' must broadcast to 'src', {format_shape(src)}, got shape {format_shape(slope)}"
        )


def slope_axis(attributes: Attributes, src: Sequence[int], slope: Sequence[int]) -> int | None:
    """The axis of src that a slope of one value per channel lies along; None for one that broadcasts as it is."""
    if len(slope) != 1 or slope[0] == 1 or len(src) < 2 or not attributes.get("per_channel_broadcast", True):
        return None
    axis = axis_positions(attributes.string("data_format"), len(src) - 2)["C"][0]
    return axis if src[axis] in (slope[0], UNKNOWN_DIM) else None


def slope_view(ctx: InferenceContext, src: tuple[int, ...], slope: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the slope that broadcasts to src: one value per channel stands at the channels' axis."""
    axis = slope_axis(ctx.attributes, src, slope)
    return slope if axis is None else tuple(slope[0] if a == axis else 1 for a in range(len(src)))


def _prelu_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = same(ctx, ctx.inputs[0], ctx.inputs[2], ("src", "diff_dst"))
    slope = ctx.inputs[1]
    _check_slope(ctx, src, slope)
    return (src, slope)


_SLOPE = Port("slope", "T", doc="One value, one per channel, or a shape that broadcasts to src.")

REGISTRY.register(
    OpSchema(
        kind="PReLU",
        summary="Rectifier with learned slopes.",
        formula="dst = src where src ≥ 0, slope · src elsewhere",
        inputs=(Port("src", "T", doc="Data, in data_format."), _SLOPE),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=(
            DATA_FORMAT,
            flag(
                "per_channel_broadcast",
                True,
                "Whether a slope of one axis has a value per channel; it goes along the last axis otherwise.",
            ),
        ),
        types={"T": FLOATS},
        infer_shapes=_prelu,
        backward=(
            BackwardOp(kind="PReLUBackward", inputs=("src", "slope", "diff_dst"), outputs=("src", "slope")),
        ),
        source=SOURCE.format("PReLU"),
        family="prelu",
    )
)

REGISTRY.register(
    OpSchema(
        kind="PReLUBackward",
        summary="Gradients of PReLU with respect to its input and its slope.",
        formula="diff_src = diff_dst where src > 0, slope · diff_dst elsewhere; "
        "diff_slope = Σ diff_dst · min(src, 0) over what slope was broadcast along",
        inputs=(
            Port("src", "T", doc="Input of the forward op, in data_format."),
            _SLOPE,
            Port("diff_dst", "T", doc="Gradient of the forward op's output."),
        ),
        outputs=(
            Port("diff_src", "T", doc="The shape of src."),
            Port("diff_slope", "T", doc="The shape of slope."),
        ),
        attributes=(DATA_FORMAT,),
        types={"T": FLOATS},
        infer_shapes=_prelu_backward,
        source=SOURCE.format("PReLUBackward"),
        family="prelu",
    )
)
