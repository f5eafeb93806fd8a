"""The host family, continued: a node of an ONNX model, computed by ONNX's own reference.

Of a node the op has the bytes, the reference their meaning: what it needs of the package onnx is needed where it runs,
not where the graph is read. Shapes and types are those that the importer found for the tensors the node was given.
"""

from __future__ import annotations

import re

from .attributes import AttributeSpec, AttributeType
from .data_types import DataType
from .errors import AttributeValueError
from .registry import HOST, REGISTRY
from .schema import ANY, InferenceContext, OpSchema, Port, Shape, format_shape
from .values import format_value

MOST_TENSORS = 1024
"""Inputs, or outputs, that a node may have."""
_TENSOR = re.compile(r"([a-z0-9_]+)\[((?:\d+(?:,\d+)*)?)\]")

TensorType = tuple[DataType, tuple[int, ...]]
"""Type and shape of a tensor."""


def written(tensors: list[TensorType]) -> str:
    """Types and shapes as the op's attributes have them: `f32[2,3] s64[]`."""
    return " ".join(f"{data_type.value}[{','.join(map(str, shape))}]" for data_type, shape in tensors)


def tensor_types(text: str, op: str) -> list[TensorType]:
    """Types and shapes that an attribute says.

    Raises:
        AttributeValueError: it is not written as `f32[2,3] s64[]`.
    """
    found: list[TensorType] = []
    for part in text.split():
        match = _TENSOR.fullmatch(part)
        if match is None or match[1] not in list(DataType):
            raise AttributeValueError(
                f"{op}: types and shapes must be written as 'f32[2,3] s64[]', got {format_value(part)}"
            )
        found.append((DataType(match[1]), tuple(int(size) for size in match[2].split(",") if size)))
    return found


def _infer(ctx: InferenceContext) -> tuple[Shape, ...]:
    takes = tensor_types(ctx.attributes.string("takes"), ctx.op)
    gives = tensor_types(ctx.attributes.string("gives"), ctx.op)
    if len(takes) != len(ctx.inputs) or len(gives) != len(ctx.outputs):
        raise ctx.error(
            f"its node has {len(takes)} inputs and {len(gives)} outputs, got {len(ctx.inputs)} and "
            f"{len(ctx.outputs)}; import the model anew"
        )
    for number, (have, (_, want)) in enumerate(zip(ctx.inputs, takes, strict=True)):
        if have is not None and (
            len(have) != len(want) or any(-1 != h != w for h, w in zip(have, want, strict=True))
        ):
            raise ctx.error(
                f"its input {number} had shape {format_shape(want)} when its node was imported, got "
                f"{format_shape(have)}; import the model anew for other sizes"
            )
    return tuple(shape for _, shape in gives)


def _text(name: str, doc: str) -> AttributeSpec:
    return AttributeSpec(name, AttributeType.string, required=True, doc=doc)


REGISTRY.register(
    OpSchema(
        kind="HostOnnx",
        summary="A node of an ONNX model that has no translation, computed by ONNX's own reference.",
        formula="dst = onnx.reference of the node, of src",
        inputs=(
            Port("src", ANY, required=False, repeat=MOST_TENSORS, doc="The node's inputs that are there."),
        ),
        outputs=(
            Port(
                "dst", ANY, required=False, repeat=MOST_TENSORS, doc="The node's outputs that somebody needs."
            ),
        ),
        attributes=(
            _text("op", "ONNX's name of the op."),
            _text("node", "A ModelProto with the node alone, in base64."),
            _text("takes", "Types and shapes of the inputs, as in `f32[2,3] s64[]`."),
            _text("gives", "Types and shapes of the outputs."),
        ),
        types={ANY: tuple(d for d in DataType if d is not DataType.undef)},
        infer_shapes=_infer,
        source="an op of our own, for models from ONNX",
        family=HOST,
    )
)
