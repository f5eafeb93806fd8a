"""Functions of ONNX models, and their nodes in the places of their calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...ops.errors import UnsupportedError
from ...ops.values import one_line
from ..runtime.libraries import library
from .checks import invalid
from .protos import inner_graphs

MOST_NODES = 1_000_000
"""Nodes that a model may have once its functions stand in the places of their calls."""
MOST_NESTED = 100
"""Functions that may call each other in a row."""


def inlined(onnx: Any, proto: Any) -> Any:
    """A model without functions: their nodes stand in the places of their calls.

    Raises:
        ArgumentError: functions that call themselves, or that can't be put anywhere.
        UnsupportedError: there are too many nodes then.
    """
    _count_nodes(proto)
    inliner = library("onnx.inliner", "onnx", "from_onnx")
    try:
        return inliner.inline_local_functions(_of_one_op_set(onnx, proto), convert_version=True)
    except Exception as error:  # whatever the inliner raises
        raise invalid(f"its functions can't be put in place of their calls ({one_line(error)})") from error


def graphs_in(graph: Any) -> Iterator[Any]:
    """A graph, or a function, and those inside its nodes."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from graphs_in(inner)


def _of_one_op_set(onnx: Any, proto: Any) -> Any:
    """The same model, its functions of the model's op sets where that changes none of their ops.

    What remains is left to the version converter, which must know all types for it.
    """
    wanted = {o.domain: o.version for o in proto.opset_import}

    def same(node: Any, own: Mapping[str, int]) -> bool:
        versions = own.get(node.domain), wanted.get(node.domain)
        if None in versions or versions[0] == versions[1]:
            return True
        try:
            found = [onnx.defs.get_schema(node.op_type, version, node.domain) for version in versions]
        except onnx.defs.SchemaError:  # a function's call, or an op that nobody knows
            return True
        return found[0].since_version == found[1].since_version

    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    _give_defaults(copy)
    for function in copy.functions:
        own = {o.domain: o.version for o in function.opset_import}
        if all(same(node, own) for graph in graphs_in(function) for node in graph.node):
            for entry in function.opset_import:
                entry.version = wanted.get(entry.domain, entry.version)
    _describe_initializers(onnx, copy.graph)
    return copy


def _describe_initializers(onnx: Any, graph: Any) -> None:
    """Says of a model's initializers what they are, where the converter would not look."""
    described = {info.name for infos in (graph.input, graph.value_info) for info in infos}
    for tensor in graph.initializer:
        if tensor.name not in described:
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            graph.value_info.append(info)


def _key(of: Any, name: str) -> tuple[str, str, str]:
    """What tells a function from others: of itself, or of a call of it."""
    return of.domain, name, of.overload if hasattr(of, "overload") else ""


def _give_defaults(proto: Any) -> None:
    """Gives calls of functions the attributes that they leave out, for which a function has values."""
    usual = {_key(f, f.name): f.attribute_proto for f in proto.functions if f.attribute_proto}
    for around in (proto.graph, *proto.functions) if usual else ():
        for graph in graphs_in(around):
            for node in graph.node:
                given = {attribute.name for attribute in node.attribute}
                left_out = usual.get(_key(node, node.op_type), ())
                node.attribute.extend(one for one in left_out if one.name not in given)


def _count_nodes(proto: Any) -> None:
    """Checks that there are not too many nodes once functions stand in the places of their calls.

    Raises:
        ArgumentError: a function calls itself.
        UnsupportedError: there are too many.
    """
    bodies = {_key(function, function.name): function for function in proto.functions}
    counts: dict[tuple[str, str, str], int] = {}
    open_calls: set[tuple[str, str, str]] = set()

    def size(graph: Any) -> int:
        return sum(one(node) for inner in graphs_in(graph) for node in inner.node)

    def one(node: Any) -> int:
        key = _key(node, node.op_type)
        if key not in bodies:
            return 1
        if key in open_calls:
            raise invalid(f"its function {node.op_type!r} calls itself")
        if key not in counts:
            if len(open_calls) >= MOST_NESTED:
                raise UnsupportedError(
                    f"from_onnx takes functions of which at most {MOST_NESTED} call each other in a row; "
                    "put them in the places of their calls by onnx.inliner"
                )
            open_calls.add(key)
            counts[key] = size(bodies[key])
            open_calls.remove(key)
        return counts[key]

    total = size(proto.graph)
    if total > MOST_NODES:
        raise UnsupportedError(
            f"from_onnx takes models of at most {MOST_NODES:,} nodes, got {total:,} with its functions in the places "
            "of their calls; cut the model into parts"
        )
