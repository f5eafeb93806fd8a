"""The interpolation family.

Source: the oneDNN Graph documents of Interpolate and InterpolateBackward.
"""

from __future__ import annotations

import math

from .attributes import ABOVE_ZERO, POSITIVE, AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .formats import axis_positions
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import DATA_FORMAT, FLOATS, SOURCE, integers, known

_MODE = AttributeSpec(
    "mode",
    AttributeType.string,
    required=True,
    rule=OneOf(("nearest", "linear", "bilinear", "trilinear")),
    doc="nearest, or one of the linear modes, which interpolate along every spatial axis.",
)
_SIZES = integers(
    "sizes", POSITIVE, "Spatial sizes of the output; the input of that name wins over it.", required=False
)
_SCALES = AttributeSpec(
    "scales",
    AttributeType.f32_list,
    rule=ABOVE_ZERO,
    doc="Output size over input size, per spatial axis, where sizes are not given.",
)
_COORDINATES = AttributeSpec(
    "coordinate_transformation_mode",
    AttributeType.string,
    default="half_pixel",
    rule=OneOf(("half_pixel", "align_corners")),
    doc="half_pixel: (p + 0.5) / scale − 0.5; align_corners: the first and last elements stay in place.",
)


def _sizes(ctx: InferenceContext, src: tuple[int, ...], operand: int) -> tuple[int, ...]:
    """Spatial sizes of the output; unknown ones where an input decides that is not known yet.

    Raises:
        ShapeError: neither sizes nor scales, or not one per spatial axis.
    """
    rank = len(src) - 2
    if len(ctx.inputs) > operand:
        sizes = ctx.values.get("sizes")
        if sizes is None:
            return (UNKNOWN_DIM,) * rank
    elif ctx.attributes.get("sizes"):
        sizes = ctx.attributes.integers("sizes")
    elif ctx.attributes.get("scales"):
        scales = ctx.attributes.reals("scales")
        at = axis_positions(ctx.attributes.string("data_format"), rank)["X"]
        if len(scales) != rank:
            raise ctx.error(
                f"attribute 'scales' must have one value per spatial axis, {rank}, got {list(scales)}"
            )
        sizes = tuple(
            math.floor(src[axis] * scale) if known(src[axis]) else UNKNOWN_DIM
            for axis, scale in zip(at, scales, strict=True)
        )
        if any(size < 1 and known(size) for size in sizes):
            raise ctx.error(
                f"attribute 'scales' must leave positive sizes, got {list(scales)} for {format_shape(src)}"
            )
        return sizes
    else:
        raise ctx.error(
            "the output's size is missing; give attribute 'sizes' or 'scales', or connect input 'sizes'"
        )
    if len(sizes) != rank or any(size < 1 for size in sizes):
        raise ctx.error(f"'sizes' must have one positive value per spatial axis, {rank}, got {list(sizes)}")
    return sizes


def _resized(ctx: InferenceContext, src: tuple[int, ...], operand: int) -> tuple[int, ...]:
    sizes = _sizes(ctx, src, operand)
    at = axis_positions(ctx.attributes.string("data_format"), len(src) - 2)["X"]
    by_axis = dict(zip(at, sizes, strict=True))
    return tuple(by_axis.get(axis, size) for axis, size in enumerate(src))


def _check_data(ctx: InferenceContext, src: Shape) -> None:
    if src is not None and (len(src) < 3 or 0 in src[1:]):
        raise ctx.error(
            f"'src' must have a batch, channels and spatial axes of positive sizes, got shape {format_shape(src)}"
        )


def _forward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    _check_data(ctx, src)
    return (None if src is None else _resized(ctx, src, 1),)


def _backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, diff_dst = ctx.inputs[0], ctx.inputs[1]
    _check_data(ctx, src)
    # Scales of a few digits only say about what the sizes were; diff_dst has them.
    given = len(ctx.inputs) > 2 or ctx.attributes.get("sizes")
    if src is None or diff_dst is None:
        return (src,)
    if given:
        want = _resized(ctx, src, 2)
    else:
        at = axis_positions(ctx.attributes.string("data_format"), len(src) - 2)["X"]
        want = tuple(UNKNOWN_DIM if axis in at else size for axis, size in enumerate(src))
    if len(want) != len(diff_dst) or any(
        known(a) and known(b) and a != b for a, b in zip(want, diff_dst, strict=True)
    ):
        raise ctx.error(f"'diff_dst' must have shape {format_shape(want)}, got {format_shape(diff_dst)}")
    return (src,)


_OPERAND = Port(
    "sizes",
    "T2",
    required=False,
    shape_operand=True,
    doc="1-D tensor with the spatial sizes of the output; wins over the attribute.",
)
_NOTES = (
    "nearest takes the element at round(p), halves upwards.",
    "linear, bilinear and trilinear are names for one, two and three spatial axes; any of them does here.",
)

REGISTRY.register(
    OpSchema(
        kind="Interpolate",
        summary="Data at another spatial size.",
        formula="dst[n, c, p] = src at the coordinates of p, nearest or interpolated along each axis",
        inputs=(Port("src", "T1", doc="Data, in data_format."), _OPERAND),
        outputs=(Port("dst", "T1", doc="src with other spatial sizes."),),
        attributes=(_MODE, _SIZES, _SCALES, _COORDINATES, DATA_FORMAT),
        types={"T1": FLOATS, "T2": (DataType.s32,)},
        infer_shapes=_forward,
        notes=_NOTES,
        backward=(
            BackwardOp(kind="InterpolateBackward", inputs=("src", "diff_dst", "sizes"), outputs=("src",)),
        ),
        source=SOURCE.format("Interpolate"),
        family="interpolate",
    )
)
REGISTRY.register(
    OpSchema(
        kind="InterpolateBackward",
        summary="Gradient of Interpolate.",
        formula="diff_src at the coordinates of p += weight · diff_dst[n, c, p]",
        inputs=(
            Port("src", "T1", doc="Input of the forward op, in data_format."),
            Port("diff_dst", "T1", doc="Gradient of the forward op's output."),
            _OPERAND,
        ),
        outputs=(Port("diff_src", "T1", doc="The shape of src."),),
        attributes=(_MODE, _COORDINATES, _SIZES, _SCALES, DATA_FORMAT),
        types={"T1": FLOATS, "T2": (DataType.s32,)},
        infer_shapes=_backward,
        notes=_NOTES,
        source=SOURCE.format("InterpolateBackward"),
        family="interpolate",
    )
)
