"""The host family: ops of our own that models need and oneDNN Graph has none for, computed by NumPy alone.

Importers fall back to them. They are no part of the documented op set, which is oneDNN Graph's: a registry lists them
apart. Each name begins with `Host`, so that reports say what runs outside the library. `HOSTED` are those that do what
an op of the set does, for types that it does not take. What all of them are entered with stands here, the ops by
subject in `host_alignment`, `host_eltwise`, `host_movement`, `host_gather`, `host_matmul`, `host_reduction`,
`host_sampling`, `host_training`, `host_communication` and `host_onnx`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve

from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType
from .data_types import DataType
from .registry import HOST, REGISTRY
from .schema import BackwardOp, InferenceContext, InferShapes, OpSchema, Port, Shape
from .shared import FLOATS, integers, same

SOURCE = "an op of our own, for models of other frameworks"
INTEGERS = (DataType.s64, DataType.s32, DataType.s8, DataType.u8)
BOOLEAN = (DataType.boolean,)
NUMBERS = (*FLOATS, *INTEGERS)
VALUES = (*NUMBERS, *BOOLEAN)
INDICES = (DataType.s64, DataType.s32)


HOSTED: dict[str, str] = {}
"""Op of the set → the op of this family that does the same for more types."""

SRC = Port("src", "T", doc="Any shape.")
DST = Port("dst", "T", doc="The shape of src.")
_DIFF_DST = Port("diff_dst", "T", doc="Gradient of the forward op's output.")
_DIFF_SRC = Port("diff_src", "T", doc="Gradient of the forward op's input.")
_SRC_SHAPE = integers("src_shape", NON_NEGATIVE, "Shape of the forward op's input.")


def register(
    kind: str,
    summary: str,
    formula: str,
    inputs: Sequence[Port],
    output: Port,
    types: dict[str, tuple[DataType, ...]],
    infer_shapes: InferShapes,
    attributes: Sequence[AttributeSpec] = (),
    backward: Sequence[BackwardOp] = (),
    in_place: Mapping[str, str] | None = None,
) -> None:
    """Enters an op of the family with one output.

    Args:
        backward: its gradient ops.
        kind, summary, formula, inputs, output, types, infer_shapes, attributes, in_place: see `OpSchema`.
    """
    REGISTRY.register(
        OpSchema(
            kind=kind,
            summary=summary,
            formula=formula,
            inputs=tuple(inputs),
            outputs=(output,),
            attributes=tuple(attributes),
            types=types,
            infer_shapes=infer_shapes,
            backward=tuple(backward),
            source=SOURCE,
            family=HOST,
            in_place=in_place or {},
        )
    )


def axis_attribute(doc: str) -> AttributeSpec:
    """The attribute that names an axis."""
    return AttributeSpec(
        "axis", AttributeType.s64, required=True, doc=f"{doc}, counted from the end where negative."
    )


def twin(of: str, kind: str, constraint: str, allowed: tuple[DataType, ...]) -> None:
    """Enters an op that is one of the set, with these types instead of its own."""
    schema, _ = REGISTRY.resolve(of)
    types = {**schema.types, constraint: allowed}
    REGISTRY.register(
        evolve(schema, kind=kind, types=types, source=SOURCE, family=HOST, aliases=(), notes=(), backward=())
    )
    HOSTED[of] = kind


def back(kind: str, *more: str) -> tuple[BackwardOp, ...]:
    """The gradient op of a kind, which has the shape of src as an attribute."""
    inputs = ("diff_dst", *more)
    return (BackwardOp(kind=f"{kind}Backward", inputs=inputs, outputs=("src",), shapes={"src_shape": "src"}),)


def _forward_context(ctx: InferenceContext, *inputs: Shape) -> InferenceContext:
    return evolve(ctx, inputs=(ctx.attributes.integers("src_shape"), *inputs))


def backward(
    kind: str, formula: str, forward: InferShapes, attributes: Sequence[AttributeSpec], *more: Port
) -> None:
    """Enters the gradient op of a kind: `forward` is that one's shape rule, which diff_dst has to follow."""

    def infer(ctx: InferenceContext) -> tuple[Shape, ...]:
        (wanted,) = forward(_forward_context(ctx, *ctx.inputs[1:]))
        same(ctx, wanted, ctx.inputs[0], ("the forward op's output", "diff_dst"))
        return (ctx.attributes.integers("src_shape"),)

    linear = BackwardOp(
        kind=kind, inputs=("diff_diff_src", *[port.name for port in more]), outputs=("diff_dst",)
    )
    types: dict[str, tuple[DataType, ...]] = {"T": FLOATS, **({"TI": INDICES} if more else {})}
    register(
        f"{kind}Backward",
        f"Gradient of {kind}.",
        formula,
        (_DIFF_DST, *more),
        _DIFF_SRC,
        types,
        infer,
        (*attributes, _SRC_SHAPE),
        (linear,),
    )


def attributes_of(kind: str) -> tuple[AttributeSpec, ...]:
    """Those of a kind that its gradient depends on."""
    return tuple(spec for spec in REGISTRY.resolve(kind)[0].attributes if spec.name != "value")
