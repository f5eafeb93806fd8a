"""Nodes of ONNX whose ops are defined by other ops of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..runtime.libraries import library
from .reading import Model
from .types import NUMBERS


def definition(
    model: Model, node: Any, inputs: Mapping[str, tuple[np.dtype[Any], Sequence[int]]], prefix: str
) -> list[Any]:
    """The nodes by which ONNX defines one; none where it does not.

    Args:
        model: that the node is of.
        inputs: type and shape of each that is there, by name; a shape has -1 for open sizes.
        prefix: what the names of values between the nodes begin with.
    """
    onnx = model.onnx
    defs = library("onnx.defs", "onnx", "from_onnx")
    versions = {o.domain: o.version for o in model.proto.opset_import}
    try:
        schema = defs.get_schema(node.op_type, versions.get(node.domain, model.opset), node.domain)
    except defs.SchemaError:
        return []
    if not (schema.has_function or schema.has_context_dependent_function):
        return []
    try:
        body = _body(model, schema, node, inputs)
    except Exception:  # of C++ code, for a node that the definition is not for
        return []
    if body is None:
        return []
    named = dict(zip(body.output, node.output, strict=False))
    named.update(dict.fromkeys(body.input, ""))
    named.update(zip(body.input, node.input, strict=False))
    given = {a.name: a for a in node.attribute}
    given = {**_defaults(schema), **{a.name: a for a in body.attribute_proto}, **given}
    nodes: list[Any] = []
    for one in body.node:
        made = onnx.NodeProto()
        made.CopyFrom(one)
        for inner in made.attribute:
            if inner.HasField("g"):
                _rename(inner.g, named, prefix)
        _rename_in(made, named, prefix)
        made_attributes = list(made.attribute)
        del made.attribute[:]
        for attribute in made_attributes:
            if not attribute.ref_attr_name:
                made.attribute.append(attribute)
            elif attribute.ref_attr_name in given:
                made.attribute.append(given[attribute.ref_attr_name])
                made.attribute[-1].name = attribute.name
        nodes.append(made)
    if any((one.domain, one.op_type) == (node.domain, node.op_type) for one in nodes):
        return []
    return nodes


def _rename_in(node: Any, named: Mapping[str, str], prefix: str) -> None:
    """Gives what a node reads and makes the names that it has outside of the definition."""
    for names in (node.input, node.output):
        names[:] = [named.get(name, prefix + name) if name else "" for name in names]


def _rename(graph: Any, named: Mapping[str, str], prefix: str) -> None:
    """The same for a graph inside a node."""
    for value in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        value.name = named.get(value.name, prefix + value.name)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, named, prefix)
        _rename_in(node, named, prefix)


def _body(
    model: Model, schema: Any, node: Any, inputs: Mapping[str, tuple[np.dtype[Any], Sequence[int]]]
) -> Any:
    """The definition as a FunctionProto for the model's op set; None where there is none for that."""
    onnx = model.onnx
    if schema.has_function:
        versions = [v for v in schema.function_opset_versions if v <= model.opset]
        return _function(onnx, schema.get_function_with_opset_version(max(versions))) if versions else None
    versions = [v for v in schema.context_dependent_function_opset_versions if v <= model.opset]
    if not versions:
        return None
    types: list[bytes] = []
    for name in node.input:
        described = onnx.TypeProto()
        if name:
            dtype, shape = inputs[name]
            sizes = [None if size < 0 else size for size in shape]
            described = onnx.helper.make_tensor_type_proto(NUMBERS[dtype], sizes)
        types.append(described.SerializeToString())
    made = schema.get_context_dependent_function_with_opset_version(
        max(versions), node.SerializeToString(), types
    )
    return _function(onnx, made)


def _function(onnx: Any, content: bytes) -> Any:
    """A FunctionProto as schemas give it."""
    return onnx.FunctionProto.FromString(content)


def _defaults(schema: Any) -> dict[str, Any]:
    """Values of attributes where a node does not give them."""
    return {name: one.default_value for name, one in schema.attributes.items() if one.default_value.type}
