"""The host family's alignments: how probable a sequence of labels is, over all ways to spread it over time."""

from __future__ import annotations

from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType
from .host import INDICES, SOURCE
from .registry import HOST, REGISTRY
from .schema import BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, flag, known

_GIVEN = (
    Port("src", "T", doc="Logarithms of probabilities, [N, T, C]: examples, times, classes."),
    Port("labels", "TI", doc="[N, S], from 0 to C − 1 as far as they count, none of them the blank."),
    Port("src_lengths", "TI", doc="[N], from 0 to T: how many times count."),
    Port("label_lengths", "TI", doc="[N], from 0 to S: how many labels count."),
)
_ATTRIBUTES = (
    AttributeSpec(
        "blank", AttributeType.s64, default=0, rule=NON_NEGATIVE, doc="The class that stands for no label."
    ),
    flag(
        "zero_infinity", False, "Whether what can't be aligned, as in too short a time, counts 0 and not ∞."
    ),
)
_TYPES = {"T": FLOATS, "TI": INDICES}


def _batch(ctx: InferenceContext, names: tuple[str, ...], shapes: tuple[Shape, ...]) -> int:
    """The number of examples, -1 where that is not known."""
    size = -1
    for name, shape, rank in zip(names, shapes, (3, 2, 1, 1, 3, 1), strict=False):
        if shape is None:
            continue
        if len(shape) != rank:
            raise ctx.error(f"'{name}' must have {rank} axes, got shape {format_shape(shape)}")
        if known(shape[0]) and known(size) and shape[0] != size:
            raise ctx.error(
                f"'{name}' must have {size} examples as 'src' has, got shape {format_shape(shape)}"
            )
        size = shape[0] if known(shape[0]) else size
    src = shapes[0]
    blank = ctx.attributes.integer("blank")
    if src is not None and known(src[2]) and blank >= src[2]:
        raise ctx.error(f"attribute 'blank' must be below the number of classes, {src[2]}, got {blank}")
    return size


_NAMES = ("src", "labels", "src_lengths", "label_lengths")


def _forward(ctx: InferenceContext) -> tuple[Shape, ...]:
    return ((_batch(ctx, _NAMES, ctx.inputs),),)


def _backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    diff, *given = ctx.inputs
    if diff is not None and len(diff) != 1:
        raise ctx.error(f"'diff_dst' must have one axis, got shape {format_shape(diff)}")
    _batch(ctx, _NAMES, tuple(given))
    return (given[0],)


def _curvature(ctx: InferenceContext) -> tuple[Shape, ...]:
    diff, along, *given = ctx.inputs
    if diff is not None and len(diff) != 1:
        raise ctx.error(f"'diff_dst' must have one axis, got shape {format_shape(diff)}")
    _batch(ctx, (*_NAMES, "along"), (*given, along))
    return (given[0],)


REGISTRY.register(
    OpSchema(
        kind="HostCTC",
        summary="Connectionist temporal classification: how improbable labels are, over all ways to spread them over "
        "time with repetitions and blanks.",
        formula="dst[n] = −log Σ_ways Π_t exp(src[n, t, way[t]])",
        inputs=_GIVEN,
        outputs=(Port("dst", "T", doc="[N], one for each example."),),
        attributes=_ATTRIBUTES,
        types=_TYPES,
        infer_shapes=_forward,
        backward=(BackwardOp(kind="HostCTCBackward", inputs=("diff_dst", *_NAMES), outputs=("src",)),),
        source=SOURCE,
        family=HOST,
    )
)
_DIFF_DST = Port("diff_dst", "T", doc="Gradient of the forward op's output, [N].")
_DIFF_SRC = Port("diff_src", "T", doc="The shape of src.")
REGISTRY.register(
    OpSchema(
        kind="HostCTCBackward",
        summary="Gradient of HostCTC.",
        formula="diff_src[n, t, c] = −diff_dst[n] · share of the ways that are at c at the time t",
        inputs=(_DIFF_DST, *_GIVEN),
        outputs=(_DIFF_SRC,),
        attributes=_ATTRIBUTES,
        types=_TYPES,
        infer_shapes=_backward,
        source=SOURCE,
        family=HOST,
    )
)
REGISTRY.register(
    OpSchema(
        kind="HostCTCCurvature",
        summary="How the gradient of HostCTC changes along a direction: the Hessian of each example times it.",
        formula="dst = diff_dst[n] · ∂²HostCTC / ∂src² · along",
        inputs=(_DIFF_DST, Port("along", "T", doc="The shape of src."), *_GIVEN),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=_ATTRIBUTES,
        types=_TYPES,
        infer_shapes=_curvature,
        source=SOURCE,
        family=HOST,
    )
)
