"""Nodes in the order in which they read from each other, where a file has them in another one."""

from __future__ import annotations

from collections.abc import Collection
from heapq import heapify, heappop, heappush
from typing import Any

from .functions import graphs_in
from .protos import captured, inner_graphs


def tidied(onnx: Any, proto: Any) -> Any:
    """The model as ONNX wants it where other readers are content with less; the same one where it is so already.

    Nodes stand behind those that they read from: what edits graphs adds nodes at the end and leaves the order to the
    next reader. A branch of an If takes no inputs: those that some files give it are names of what stands around it.
    The user's proto is copied before it is changed. A cycle stays as it is, for `check_structure` to tell.
    """
    holders = (proto.graph, *proto.functions)
    if not any(_disordered(graph) or _branches(graph) for holder in holders for graph in graphs_in(holder)):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for holder in (copy.graph, *copy.functions):
        _tidy(onnx, holder, set())
    return copy


def _tidy(onnx: Any, graph: Any, around: Collection[str]) -> None:
    """Puts a graph and those inside its nodes in order.

    Args:
        onnx: the package.
        around: names that it may read from around it.
    """
    names = {*around, *_given(graph), *(name for node in graph.node for name in node.output)}
    for branch in _branches(graph):
        # Input or not, the name is that of the value outside, which is what an If hands to its branches.
        if all(info.name in names for info in branch.input):
            del branch.input[:]
    for node in graph.node:
        for inner in inner_graphs(node):
            _tidy(onnx, inner, names)
    if not _disordered(graph):
        return
    order = _order(graph)
    if len(order) == len(graph.node):
        nodes = [graph.node[number] for number in order]
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:]
        graph.node.extend(copies)


def _branches(graph: Any) -> list[Any]:
    """Branches of If nodes that have inputs."""
    nodes = (node for node in graph.node if node.op_type == "If" and not node.domain)
    return [inner for node in nodes for inner in inner_graphs(node) if inner.input]


def _given(graph: Any) -> list[str]:
    """Names of inputs and constants of a graph, or of inputs of a function."""
    held = getattr(graph, "initializer", ())
    return [*(one if isinstance(one, str) else one.name for one in graph.input), *(one.name for one in held)]


def _reads(node: Any) -> list[str]:
    return [*node.input, *(captured(node) if any(inner_graphs(node)) else ())]


def _disordered(graph: Any) -> bool:
    """Whether a node reads what a later one makes."""
    later = {name for node in graph.node for name in node.output if name}
    for node in graph.node:
        if any(name in later for name in _reads(node)):
            return True
        later.difference_update(node.output)
    return False


def _order(graph: Any) -> list[int]:
    """The places of nodes, each behind those that it reads from, else as they were; fewer where there is a cycle."""
    makers = {name: number for number, node in enumerate(graph.node) for name in node.output if name}
    readers: dict[int, list[int]] = {}
    missing: list[int] = []
    for number, node in enumerate(graph.node):
        before = {makers[name] for name in _reads(node) if name in makers}
        missing.append(len(before))
        for one in before:
            readers.setdefault(one, []).append(number)
    ready = [number for number, count in enumerate(missing) if not count]
    heapify(ready)
    order: list[int] = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for reader in readers.get(number, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heappush(ready, reader)
    return order
