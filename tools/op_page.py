"""The page of an op, from its schema: for `onednn-graph ops NAME` and for the documentation."""

from __future__ import annotations

from typing import Any

from ..backends.onednn.lowering.table import LOWERED
from ..graph.core.signatures import MARKS
from ..graph.model.builder import snake_case
from ..ops.attributes import AttributeSpec
from ..ops.registry import REGISTRY
from ..ops.schema import ANY, OpSchema, Port, counts_allowed
from .op_examples import example, has_example


def kind_of(name: str) -> str:
    """The kind that a function is called after, `ReLU` for `relu`; any other name as it is."""
    written = [
        kind for schema in REGISTRY for kind in (schema.kind, *(alias.kind for alias in schema.aliases))
    ]
    return {snake_case(kind): kind for kind in written}.get(name, name)


def has_primitive(kind: str) -> bool:
    """Whether the oneDNN backend lowers the op to primitives."""
    return kind in LOWERED


def op_data(schema: OpSchema) -> dict[str, Any]:
    """A schema as dictionaries, lists, strings and numbers, for JSON."""
    return {
        "kind": schema.kind,
        "summary": schema.summary,
        "formula": schema.formula,
        "family": schema.family,
        "aliases": {alias.kind: dict(alias.renamed) for alias in schema.aliases},
        "inputs": [_port_data(port) for port in schema.inputs],
        "outputs": [_port_data(port) for port in schema.outputs],
        "attributes": [
            {
                "name": spec.name,
                "type": spec.type.value,
                "required": spec.required,
                "default": spec.default,
                "expects": spec.expects,
                "doc": spec.doc,
            }
            for spec in schema.attributes
        ],
        "types": {name: [d.value for d in allowed] for name, allowed in schema.types.items()},
        "notes": list(schema.notes),
        "source": schema.source,
        "onednn": has_primitive(schema.kind),
    }


def _port_data(port: Port) -> dict[str, Any]:
    return {
        "name": port.name,
        "type": port.type,
        "required": port.required,
        "shape_operand": port.shape_operand,
        "repeat": port.repeat,
        "doc": port.doc,
    }


def op_page(schema: OpSchema) -> str:
    """A schema as a page of Markdown, with a program that calls the op."""
    lines = [f"# {schema.kind}", "", schema.summary]
    if schema.formula:
        lines += ["", "```text", schema.formula, "```"]
    lines += ["", _where(schema)]
    for alias in schema.aliases:
        renamed = ", ".join(f"`{name}` is `{new}`" for name, new in alias.renamed.items())
        lines += ["", f"Legacy name: `{alias.kind}`{f', where {renamed}' if renamed else ''}."]
    if has_example(schema):
        lines += ["", "## Example", "", "```python", example(schema).rstrip("\n"), "```"]
    lines += _ports("Inputs", schema.inputs, schema.input_counts, schema)
    lines += _ports("Outputs", schema.outputs, schema.output_counts, schema)
    if schema.attributes:
        lines += ["", "## Attributes", "", "| name | value | default | meaning |", "|---|---|---|---|"]
        lines += [_attribute(spec) for spec in schema.attributes]
    if schema.notes:
        lines += ["", "## Rules", "", *[f"- {note}" for note in schema.notes]]
    if schema.source:
        lines += ["", f"Source: {schema.source}."]
    return "\n".join(lines) + "\n"


def _where(schema: OpSchema) -> str:
    """Who runs the op, and how it is written."""
    runs = (
        "oneDNN primitives, where types and shapes allow, and NumPy"
        if has_primitive(schema.kind)
        else "NumPy"
    )
    name = snake_case(schema.kind)
    written = f'`graph.{name}(…)` or `graph.op("{schema.kind}", …)`'
    if schema.kind not in MARKS:
        written = f"`og.{name}(…)` on arrays, {written} in a graph"
    return f"Runs on {runs}. Written {written}."


def _ports(
    title: str, ports: tuple[Port, ...], counts: tuple[int, ...] | None, schema: OpSchema
) -> list[str]:
    if not ports:
        return []
    lines = ["", f"## {title}", "", "| # | name | type | meaning |", "|---|---|---|---|"]
    for number, port in enumerate(ports):
        allowed = ", ".join(d.value for d in schema.types[port.type])
        kind = allowed if port.type == ANY else f"{port.type}: {allowed}"
        remarks = [port.doc] if port.doc else []
        if not port.required:
            remarks.append("Optional.")
        if port.shape_operand:
            remarks.append("Its values decide shapes.")
        if port.repeat > 1:
            remarks.append(f"Up to {port.repeat} tensors.")
        lines.append(f"| {number} | `{port.name}` | {kind} | {_cell(' '.join(remarks))} |")
    if counts is not None:
        lines += ["", f"How many there may be: {', '.join(map(str, counts_allowed(ports, counts)))}."]
    return lines


def _attribute(spec: AttributeSpec) -> str:
    default = "required" if spec.required else "" if spec.default is None else f"`{_shown(spec.default)}`"
    return f"| `{spec.name}` | {_cell(spec.expects)} | {default} | {_cell(spec.doc)} |"


def _shown(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
