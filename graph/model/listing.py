"""A graph as text: what `print(graph)` shows."""

from __future__ import annotations

from collections.abc import Sequence

from .logical_tensor import LogicalTensor, label, type_and_shape
from .op import Op


def listing(
    heading: str,
    inputs: Sequence[LogicalTensor],
    held: Sequence[LogicalTensor],
    ops: Sequence[Op],
    outputs: Sequence[LogicalTensor],
    assignments: Sequence[tuple[LogicalTensor, LogicalTensor]] = (),
) -> str:
    """What a graph has, a line each: names, types, shapes, and the attributes that are not as by default.

    Args:
        heading: the first line.
        inputs, ops, outputs, assignments: the graph's. held: its constants and parameters.
    """
    returned = {t.id for t in outputs}
    lines = [heading]
    for tensor in inputs:
        constant = "" if tensor.property_type.value == "undef" else f", {tensor.property_type.value}"
        lines.append(f"  {label(tensor)}: {_described(tensor)} (input{constant})")
    for tensor in held:
        what = "parameter" if tensor.property_type.value == "variable" else "held constant"
        lines.append(f"  {label(tensor)}: {_described(tensor)} ({what})")
    for op in ops:
        made = ", ".join(
            f"{label(t)}: {_described(t)}{' (output)' if t.id in returned else ''}" for t in op.outputs
        )
        lines.append(
            f"  {made or op.name or op.id} = {op.kind}({', '.join([*map(label, op.inputs), *_attributes(op)])})"
        )
    lines += [f"  {label(parameter)} ← {label(value)}" for parameter, value in assignments]
    return "\n".join(lines)


def _described(tensor: LogicalTensor) -> str:
    strides = "" if tensor.strides is None else f" strides {'x'.join(map(str, tensor.strides))}"
    return type_and_shape(tensor.data_type, tensor.shape) + strides


def _attributes(op: Op) -> list[str]:
    return [
        f"{op.names.spell(name)}={list(value) if isinstance(value, tuple) else value}"  # pyright: ignore[reportUnknownArgumentType]
        for name, value in op.schema.not_by_default(op.attributes).items()
    ]
