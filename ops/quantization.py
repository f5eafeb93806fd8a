"""The quantisation family: between floating-point numbers and scaled integers or 8-bit floats, and type casts.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from .attributes import ABOVE_ZERO, POSITIVE, AttributeSpec, AttributeType, OneOf, Within
from .data_types import DataType
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, SOURCE, axis_of, integers, known, same_as

_FLOAT8 = (DataType.f8_e5m2, DataType.f8_e4m3)
_INT8 = (DataType.u8, DataType.s8)
_INT4 = (DataType.s4, DataType.u4)


def _qtype(*values: str) -> AttributeSpec:
    return AttributeSpec(
        "qtype",
        AttributeType.string,
        default="per_tensor",
        rule=OneOf(values),
        doc="What a scale stands for: the whole tensor, a channel, or a group of elements.",
    )


_AXIS = AttributeSpec("axis", AttributeType.s64, default=1, doc="The axis that per_channel means.")
_SCALES = AttributeSpec(
    "scales", AttributeType.f32_list, required=True, rule=ABOVE_ZERO, doc="One scale, or one per channel."
)
_ZPS = AttributeSpec(
    "zps",
    AttributeType.s64_list,
    rule=Within(-(2**31), 2**31 - 1),
    doc="Zero points, as many as scales or one; zeros if absent.",
)
_GROUP_SHAPE = integers(
    "group_shape", POSITIVE, "Elements that share a scale, per axis, for per_group.", required=False
)


def _static(ctx: InferenceContext) -> tuple[Shape, ...]:
    """Shape rule of the ops whose scales are attributes; checks their number."""
    src = ctx.inputs[0]
    if src is None:
        return (src,)
    allowed, per_group = {1}, None
    if ctx.attributes.string("qtype") == "per_channel" and src:
        axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
        allowed.add(src[axis])
        grouped = group_axis(axis, len(src))
        if grouped is not None and known(src[axis]) and known(src[grouped]):
            per_group = (src[axis], src[grouped])
    for name in ("scales", "zps"):
        values = ctx.attributes.get(name)
        have = len(values) if isinstance(values, tuple) else 1
        if per_group is not None and have and _of_groups(have, *per_group):
            continue
        if (have or name == "scales") and have not in allowed and (have == 0 or UNKNOWN_DIM not in allowed):
            per = "channel" if ctx.attributes.string("qtype") == "per_channel" else "tensor"
            raise ctx.error(
                f"attribute '{name}' must have {max(sorted(allowed)[:2])} values, one per {per}, got {have} for shape "
                f"{format_shape(src)} and axis {ctx.attributes.integer('axis')}"
            )
    return (src,)


def _of_groups(number: int, channels: int, grouped: int) -> bool:
    """Whether so many scales are one for each channel of some number of groups that divides an axis."""
    return channels > 0 and grouped > 0 and number % channels == 0 and grouped % (number // channels) == 0


def group_axis(axis: int, rank: int) -> int | None:
    """The axis along which the weights of a grouped transposed convolution have their groups.

    Real graphs give the scales of such weights, (I, O / groups, X) or (X, O / groups, I), per output channel of all
    groups: groups times as many as the axis has elements.
    """
    if axis == 1:
        return 0
    return rank - 1 if axis == rank - 2 else None


def scale_view(
    ctx: InferenceContext, src: tuple[int, ...], scales: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The shape of the scales with an axis for each of src's, or None where it does not fit."""
    qtype = ctx.attributes.string("qtype")
    if qtype == "per_channel":
        axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
        want = tuple(d if a == axis else 1 for a, d in enumerate(src))
        count = src[axis] if src else 1
        return want if scales in ((count,), want) or -1 in (*scales, count) else None
    if qtype == "per_group":
        group = ctx.attributes.get("group_shape")
        if not isinstance(group, tuple) or len(group) != len(src) or len(scales) != len(src):
            return None
        fits = all(-1 in (d, s) or d == g * s for d, g, s in zip(src, group, scales, strict=True))
        return scales if fits else None
    return (1,) * len(src) if set(scales) <= {1, -1} else None


def _dynamic(ctx: InferenceContext) -> tuple[Shape, ...]:
    """Shape rule of the ops whose scales are inputs."""
    src = ctx.inputs[0]
    for name, shape in zip(("scales", "zps"), ctx.inputs[1:], strict=False):
        if src is None or shape is None or scale_view(ctx, src, shape) is not None:
            continue
        if name == "zps" and shape in ((), (1,)):
            continue
        more = ""
        if ctx.attributes.string("qtype") == "per_group":
            more = f" and group_shape {ctx.attributes.get('group_shape')}"
        raise ctx.error(
            f"'{name}' must fit qtype '{ctx.attributes.string('qtype')}' for shape {format_shape(src)}, axis "
            f"{ctx.attributes.integer('axis')}{more}, got shape {format_shape(shape)}"
        )
    return (src,)


_ROUNDS = "Numbers are rounded to the nearest, halves to even, and saturated to the range of the type."

REGISTRY.register(
    OpSchema(
        kind="Quantize",
        summary="From f32 to scaled integers or 8-bit floats.",
        formula="dst = round(src / scale + zp)",
        inputs=(Port("src", "T1", doc="Any shape."),),
        outputs=(Port("dst", "T2", doc="The shape of src."),),
        attributes=(_qtype("per_tensor", "per_channel"), _AXIS, _SCALES, _ZPS),
        types={"T1": (DataType.f32,), "T2": (*_INT8, *_FLOAT8)},
        infer_shapes=_static,
        notes=(_ROUNDS,),
        source=SOURCE.format("Quantize"),
        family="quantization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="Dequantize",
        summary="From scaled integers or 8-bit floats to f32.",
        formula="dst = (src − zp) · scale",
        inputs=(Port("src", "T1", doc="Any shape."),),
        outputs=(Port("dst", "T2", doc="The shape of src."),),
        attributes=(_qtype("per_tensor", "per_channel"), _AXIS, _SCALES, _ZPS),
        types={"T1": (*_INT8, *_FLOAT8), "T2": (DataType.f32,)},
        infer_shapes=_static,
        source=SOURCE.format("Dequantize"),
        family="quantization",
    )
)
_SCALES_DOC = "One scale, one per channel, or one per group."
REGISTRY.register(
    OpSchema(
        kind="DynamicQuantize",
        summary="Quantize with scales and zero points known at execution.",
        formula="dst = round(src / scale + zp)",
        inputs=(
            Port("src", "T1", doc="Any shape."),
            Port("scales", "T1", doc=_SCALES_DOC),
            Port("zps", "T2", required=False, doc="Zero points, as many as scales."),
        ),
        outputs=(Port("dst", "T3", doc="The shape of src."),),
        attributes=(_qtype("per_tensor", "per_channel"), _AXIS),
        types={"T1": (DataType.f32,), "T2": (*_INT8, DataType.s32), "T3": _INT8},
        infer_shapes=_dynamic,
        notes=(_ROUNDS,),
        source=SOURCE.format("DynamicQuantize"),
        family="quantization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="DynamicDequantize",
        summary="Dequantize with scales and zero points known at execution.",
        formula="dst = (src − zp) · scale",
        inputs=(
            Port("src", "T1", doc="Any shape."),
            Port("scales", "T2", doc=_SCALES_DOC),
            Port("zps", "T3", required=False, doc="Zero points, as many as scales."),
        ),
        outputs=(Port("dst", "T2", doc="The shape of src."),),
        attributes=(_qtype("per_tensor", "per_channel", "per_group"), _AXIS, _GROUP_SHAPE),
        types={
            "T1": (*_INT8, *_INT4),
            "T2": (DataType.bf16, DataType.f16, DataType.f32),
            "T3": (DataType.u4, DataType.s4, *_INT8, DataType.s32),
        },
        infer_shapes=_dynamic,
        exact_on_integers=True,
        source=SOURCE.format("DynamicDequantize"),
        family="quantization",
    )
)
REGISTRY.register(
    OpSchema(
        kind="TypeCast",
        summary="The same numbers in another floating-point type.",
        formula="dst = src",
        inputs=(Port("src", "T1", doc="Any shape."),),
        outputs=(Port("dst", "T2", doc="The shape of src."),),
        types={"T1": FLOATS, "T2": FLOATS},
        infer_shapes=same_as("src"),
        source=SOURCE.format("TypeCast"),
        family="quantization",
    )
)
