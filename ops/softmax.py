"""The softmax family.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from .attributes import AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .registry import REGISTRY
from .schema import BackwardOp, InferenceContext, OpSchema, Port, Shape
from .shared import FLOATS, SOURCE, axis_of, same


def axis_spec(default: int) -> AttributeSpec:
    """The axis, counted from the end where negative."""
    return AttributeSpec(
        "axis",
        AttributeType.s64,
        default=default,
        doc="Axis of the sum, counted from the end where negative.",
    )


def _softmax(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None:
        return (None,) * len(ctx.outputs)
    axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
    stats = tuple(1 if a == axis else d for a, d in enumerate(src))
    return (src, stats)[: len(ctx.outputs)]


def _backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    shape = same(ctx, ctx.inputs[0], ctx.inputs[1], ("diff_dst", "dst"))
    if shape is not None:
        axis_of(ctx, ctx.attributes.integer("axis"), len(shape))
    return (shape,)


_BACKWARD_INPUTS = (
    Port("diff_dst", "T1", doc="Gradient of the forward op's output."),
    Port("dst", "T1", doc="Output of the forward op."),
)

REGISTRY.register(
    OpSchema(
        kind="SoftMax",
        summary="Exponentials that sum to one along an axis.",
        formula="dst = exp(src − max) / Σ exp(src − max); stats = max + log Σ exp(src − max)",
        inputs=(Port("src", "T1", doc="Any shape."),),
        outputs=(
            Port("dst", "T2", doc="The shape of src."),
            Port("stats", "T3", required=False, doc="The log of the sum, with one element along the axis."),
        ),
        attributes=(
            axis_spec(1),
            AttributeSpec(
                "mode",
                AttributeType.string,
                default="none",
                none_as="none",
                rule=OneOf(("none", "inf_as_zero")),
                doc="inf_as_zero: zeros, not NaN, where all of an axis is −inf.",
            ),
        ),
        types={"T1": FLOATS, "T2": FLOATS, "T3": (DataType.f32, DataType.f64)},
        infer_shapes=_softmax,
        backward=(BackwardOp(kind="SoftMaxBackward", inputs=("diff_dst", "dst"), outputs=("src",)),),
        source=SOURCE.format("SoftMax"),
        family="softmax",
    )
)
REGISTRY.register(
    OpSchema(
        kind="SoftMaxBackward",
        summary="Gradient of SoftMax.",
        formula="diff_src = dst · (diff_dst − Σ diff_dst · dst)",
        inputs=_BACKWARD_INPUTS,
        outputs=(Port("diff_src", "T2", doc="Gradient of the forward op's input."),),
        attributes=(axis_spec(1),),
        types={"T1": FLOATS, "T2": FLOATS},
        infer_shapes=_backward,
        backward=(
            BackwardOp(kind="SoftMaxBackward", inputs=("diff_diff_src", "dst"), outputs=("diff_dst",)),
        ),
        source=SOURCE.format("SoftMaxBackward"),
        family="softmax",
    )
)
REGISTRY.register(
    OpSchema(
        kind="LogSoftmax",
        summary="Logarithm of the softmax.",
        formula="dst = src − max − log Σ exp(src − max)",
        inputs=(Port("src", "T", doc="Any shape."),),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=(axis_spec(-1),),
        types={"T": FLOATS},
        infer_shapes=_softmax,
        backward=(BackwardOp(kind="LogSoftmaxBackward", inputs=("diff_dst", "dst"), outputs=("src",)),),
        source=SOURCE.format("LogSoftmax"),
        family="softmax",
    )
)
REGISTRY.register(
    OpSchema(
        kind="LogSoftmaxBackward",
        summary="Gradient of LogSoftmax.",
        formula="diff_src = diff_dst − exp(dst) · Σ diff_dst",
        inputs=tuple(Port(p.name, "T", doc=p.doc) for p in _BACKWARD_INPUTS),
        outputs=(Port("diff_src", "T", doc="Gradient of the forward op's input."),),
        attributes=(axis_spec(-1),),
        types={"T": FLOATS},
        infer_shapes=_backward,
        source=SOURCE.format("LogSoftmaxBackward"),
        family="softmax",
    )
)
