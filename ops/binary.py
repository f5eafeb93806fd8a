"""The binary family: two tensors, element by element, with broadcasting; biases; comparison and selection.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from .data_types import DataType
from .registry import REGISTRY
from .schema import BackwardOp, InferenceContext, OpNames, OpSchema, Port, Shape
from .shared import AUTO_BROADCAST, DATA_FORMAT, FLOATS, SOURCE, broadcast, channels_of, same, vector

_FLOATS_AND_S32 = (*FLOATS, DataType.s32)


def _broadcast(ctx: InferenceContext) -> tuple[Shape, ...]:
    names = ("src_0", "src_1")
    if ctx.attributes.string("auto_broadcast") == "none":
        return (same(ctx, ctx.inputs[0], ctx.inputs[1], names),)
    return (broadcast(ctx, ctx.inputs, names),)


def _binary(
    kind: str, summary: str, formula: str, mixed: tuple[DataType, ...] | None = None, *, order: str
) -> OpSchema:
    """`mixed`: the types that each tensor may have of its own; one type for all if None."""
    names = ("T", "T", "T") if mixed is None else ("T1", "T2", "T3")
    return REGISTRY.register(
        OpSchema(
            kind=kind,
            summary=summary,
            formula=formula,
            inputs=(
                Port("src_0", names[0], doc="First operand."),
                Port("src_1", names[1], doc="Second operand."),
            ),
            outputs=(Port("dst", names[2], doc="The broadcast shape of both."),),
            attributes=(AUTO_BROADCAST,),
            types=dict.fromkeys(names, FLOATS if mixed is None else mixed),
            infer_shapes=_broadcast,
            notes=(order,) if order else (),
            source=SOURCE.format(kind),
            family="binary",
        )
    )


_COMMUTES = "The operands may be exchanged."
_binary("Add", "Sum.", "dst = src_0 + src_1", _FLOATS_AND_S32, order=_COMMUTES)
_binary("Subtract", "Difference.", "dst = src_0 − src_1", _FLOATS_AND_S32, order="")
_binary("Multiply", "Product.", "dst = src_0 · src_1", FLOATS, order=_COMMUTES)
_binary("Divide", "Quotient.", "dst = src_0 / src_1", FLOATS, order="")
_binary("Maximum", "The larger one.", "dst = max(src_0, src_1)", order=_COMMUTES)
_binary("Minimum", "The smaller one.", "dst = min(src_0, src_1)", order=_COMMUTES)
_binary("SquaredDifference", "Squared difference.", "dst = (src_0 − src_1)²", order="")

REGISTRY.register(
    OpSchema(
        kind="GreaterEqual",
        summary="Whether the first operand is at least the second.",
        formula="dst = src_0 ≥ src_1",
        inputs=(Port("src_0", "T1", doc="First operand."), Port("src_1", "T1", doc="Second operand.")),
        outputs=(Port("dst", "T2", doc="The broadcast shape of both."),),
        attributes=(AUTO_BROADCAST,),
        types={"T1": _FLOATS_AND_S32, "T2": (DataType.boolean,)},
        infer_shapes=_broadcast,
        source=SOURCE.format("GreaterEqual"),
        family="binary",
    )
)


def _select(ctx: InferenceContext) -> tuple[Shape, ...]:
    if ctx.attributes.string("auto_broadcast") == "none":
        shape = same(ctx, ctx.inputs[0], ctx.inputs[1], ("cond", "src_0"))
        return (same(ctx, shape, ctx.inputs[2], ("cond", "src_1")),)
    return (broadcast(ctx, ctx.inputs, ("cond", "src_0", "src_1")),)


REGISTRY.register(
    OpSchema(
        kind="Select",
        summary="Elements of one tensor or another, by a condition.",
        formula="dst = src_0 where cond, src_1 elsewhere",
        inputs=(
            Port("cond", "T1", doc="Condition."),
            Port("src_0", "T2", doc="Values where it holds."),
            Port("src_1", "T2", doc="Values elsewhere."),
        ),
        outputs=(Port("dst", "T2", doc="The broadcast shape of all three."),),
        attributes=(AUTO_BROADCAST,),
        types={"T1": (DataType.boolean,), "T2": FLOATS},
        infer_shapes=_select,
        source=SOURCE.format("Select"),
        family="binary",
    )
)


def _bias(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is not None:
        vector(ctx, ctx.inputs[1], "bias", channels_of(ctx, src)[1])
    return (src,)


REGISTRY.register(
    OpSchema(
        kind="BiasAdd",
        summary="Adds a value to each channel.",
        formula="dst[n, c, x] = src[n, c, x] + bias[c]",
        inputs=(
            Port("src", "T", doc="Data, in data_format."),
            Port("bias", "T", doc="One value per channel."),
        ),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=(DATA_FORMAT,),
        types={"T": FLOATS},
        infer_shapes=_bias,
        backward=(BackwardOp(kind="BiasAddBackward", inputs=("diff_dst",), outputs=("bias",)),),
        source=SOURCE.format("BiasAdd"),
        family="binary",
    )
)


def _bias_backward(ctx: InferenceContext) -> tuple[Shape, ...]:
    diff_dst = ctx.inputs[0]
    return (None if diff_dst is None else (channels_of(ctx, diff_dst)[1],),)


REGISTRY.register(
    OpSchema(
        kind="BiasAddBackward",
        summary="Gradient of BiasAdd with respect to the bias.",
        formula="diff_bias[c] = Σ_n Σ_x diff_dst[n, c, x]",
        inputs=(Port("diff_dst", "T", doc="Gradient of the forward op's output, in data_format."),),
        outputs=(Port("diff_bias", "T", doc="One value per channel."),),
        attributes=(DATA_FORMAT,),
        types={"T": FLOATS},
        infer_shapes=_bias_backward,
        aliases=(OpNames("BiasAddBackprop"),),
        source=SOURCE.format("BiasAddBackward"),
        family="binary",
        exact_on_integers=True,
    )
)
