"""What the NodeProto of a node says of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def kind_of(node: Any) -> str:
    """The op as tables have it: the domain stands before those that are not of ONNX's own op set."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def inner_graphs(node: Any) -> Iterator[Any]:
    """The graphs inside a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured(node: Any) -> list[str]:
    """Names that graphs inside a node read from around it."""
    found: list[str] = []
    for inner in inner_graphs(node):
        own = {value.name for values in (inner.input, inner.initializer) for value in values}
        own.update(tensor.values.name for tensor in inner.sparse_initializer)
        for one in inner.node:
            found += [name for name in (*one.input, *captured(one)) if name and name not in own]
            own.update(one.output)
        found += [value.name for value in inner.output if value.name not in own]
    return list(dict.fromkeys(found))
