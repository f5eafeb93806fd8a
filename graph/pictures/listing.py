"""A graph as text: what `print(graph)` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..compile.compiled_graph import label
from ..model.logical_tensor import LogicalTensor, type_and_shape
from ..model.op import Op

if TYPE_CHECKING:  # graphs have this as their text
    from ..graph import Graph


def listing(graph: Graph) -> str:
    """Inputs and ops, a line each: names, types, shapes, and the attributes that are not as they are by default."""
    outputs = {t.id for t in graph.outputs}
    lines = [f"{graph!r}, fpmath_mode {graph.fpmath_mode.value}"]
    for tensor in graph.inputs:
        constant = "" if tensor.property_type.value == "undef" else f", {tensor.property_type.value}"
        lines.append(f"  {label(tensor)}: {_described(tensor)} (input{constant})")
    for op in graph.ops:
        made = ", ".join(
            f"{label(t)}: {_described(t)}{' (output)' if t.id in outputs else ''}" for t in op.outputs
        )
        lines.append(
            f"  {made or op.name or op.id} = {op.kind}({', '.join([*map(label, op.inputs), *_attributes(op)])})"
        )
    return "\n".join(lines)


def _described(tensor: LogicalTensor) -> str:
    strides = "" if tensor.strides is None else f" strides {'x'.join(map(str, tensor.strides))}"
    return type_and_shape(tensor.data_type, tensor.shape) + strides


def _attributes(op: Op) -> list[str]:
    return [
        f"{op.names.spell(name)}={list(value) if isinstance(value, tuple) else value}"  # pyright: ignore[reportUnknownArgumentType]
        for name, value in op.schema.not_by_default(op.attributes).items()
    ]
