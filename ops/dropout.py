"""Dropout.

Source: the oneDNN Graph document of Dropout, and oneDNN's of the dropout attribute.
"""

from __future__ import annotations

from .data_types import DataType
from .registry import REGISTRY
from .schema import BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, SOURCE


def _dropout(ctx: InferenceContext) -> tuple[Shape, ...]:
    for name, shape in zip(("seed", "offset", "probability"), ctx.inputs[1:], strict=True):
        if shape not in (None, (), (1,), (-1,)):
            raise ctx.error(f"'{name}' must be one number, of shape [] or [1], got {format_shape(shape)}")
    return (ctx.inputs[0],) * len(ctx.outputs)


REGISTRY.register(
    OpSchema(
        kind="Dropout",
        summary="Zeros at random, and the rest scaled up.",
        formula="dst = mask · src / (1 − probability), with mask = Philox(seed, offset, index) > probability",
        inputs=(
            Port("src", "T", doc="Any shape."),
            Port("seed", "T_seed", doc="Seed of the random numbers."),
            Port("offset", "T_offset", doc="Offset into their sequence."),
            Port("probability", "T_p", doc="Share of the elements that become zero, 0 to 1."),
        ),
        outputs=(
            Port("dst", "T", doc="The shape of src."),
            Port("mask", "T_mask", required=False, doc="1 where an element stayed, 0 elsewhere."),
        ),
        types={
            "T": FLOATS,
            "T_seed": (DataType.s64,),
            "T_offset": (DataType.s64,),
            "T_p": (DataType.f32,),
            "T_mask": (DataType.u8,),
        },
        infer_shapes=_dropout,
        notes=("The random numbers are Philox 4×32 with 10 rounds, those of oneDNN.",),
        backward=(
            BackwardOp(
                kind="Dropout", inputs=("diff_dst", "seed", "offset", "probability"), outputs=("src",)
            ),
        ),
        source=SOURCE.format("Dropout"),
        family="dropout",
    )
)
