"""Whether an ONNX model is one: each name is made once and before it is read, and each node has what its op wants."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.errors import ArgumentError
from ...ops.values import format_value, one_line
from ..importing.translation import Unmapped
from ..runtime.arrays import Array
from ..runtime.libraries import library
from .protos import inner_graphs
from .types import NUMBERS

KNOWN_TO_INFERENCE = 1024
"""Elements of constants that shape inference is given the values of: sizes, counts, bounds."""


def invalid(what: str) -> ArgumentError:
    """The error for a model that breaks ONNX's own rules."""
    return ArgumentError(
        f"from_onnx: the model is invalid: {what}; repair it, onnx.checker.check_model helps with that"
    )


def label_of(node: Any, number: int) -> str:
    """What messages and ops call a node: its name, or that of its first output."""
    return node.name or next((name for name in node.output if name), f"node {number}")


def check_texts(values: Iterable[object], nodes: Iterable[Any]) -> None:
    """Checks that names are text: protobuf hands out bytes for what is not UTF-8.

    Args:
        values: names of inputs, outputs and initializers.
        nodes: all nodes.

    Raises:
        ArgumentError: they are not.
    """
    own = (
        text
        for node in nodes
        for texts in (
            (node.name, node.op_type, node.domain),
            node.input,
            node.output,
            (attribute.name for attribute in node.attribute),
        )
        for text in texts
    )
    for text in (*values, *own):
        if not isinstance(text, str):
            raise invalid(f"the name {format_value(text)} is not text in UTF-8")


def check_structure(graph: Any, around: Collection[str] = ()) -> None:
    """Checks that all that nodes and outputs read is there, made by one, and in order; in graphs inside nodes, too.

    Args:
        around: names that a graph inside a node may read.

    Raises:
        ArgumentError: it is not.
    """
    known: set[str] = set()
    for info in graph.input:
        if info.name in known:
            raise invalid(f"two inputs have the name {info.name!r}")
        known.add(info.name)
    held: set[str] = set()
    for name in (*(t.name for t in graph.initializer), *(t.values.name for t in graph.sparse_initializer)):
        if name in held:
            raise invalid(f"two initializers have the name {name!r}")
        held.add(name)
    known |= held  # one with a place in the inputs is a default
    makers = {
        name: label_of(node, number) for number, node in enumerate(graph.node) for name in node.output if name
    }
    for number, node in enumerate(graph.node):
        label = label_of(node, number)
        for name in node.input:
            if not name or name in known or name in around:
                continue
            if name in makers:
                raise invalid(
                    f"node {label!r} ({node.op_type}) reads {name!r}, which node {makers[name]!r} makes only "
                    "afterwards; no order has each node behind those that it reads from, for some read each other in "
                    "a cycle"
                )
            raise invalid(
                f"node {label!r} ({node.op_type}) reads {name!r}, which no input, initializer or node makes"
            )
        for inner in inner_graphs(node):
            check_structure(inner, {*known, *around})
        for name in node.output:
            if name in known:
                raise invalid(f"node {label!r} ({node.op_type}) makes {name!r}, which is there already")
            if name:
                known.add(name)
    if not graph.output and not around:
        raise invalid("it has no outputs")
    marked: set[str] = set()
    for output in graph.output:
        if output.name not in known and output.name not in around:
            raise invalid(f"its output {output.name!r} is made by no node")
        if output.name in marked and not around:
            raise invalid(f"two outputs have the name {output.name!r}")
        marked.add(output.name)


class Forms:
    """What ONNX's documents say of ops: how many inputs and outputs, which attributes.

    What the package onnx computes of a node, its shapes, its version in a later op set, may end the process where a
    node has not this form.
    """

    def __init__(self) -> None:
        self._defs = library("onnx.defs", "onnx", "from_onnx")
        self._found: dict[tuple[str, str, int], Any] = {}

    def _schema(self, node: Any, versions: Mapping[str, int]) -> Any:
        key = node.domain, node.op_type, versions.get(node.domain, 0)
        if key not in self._found:
            try:
                self._found[key] = self._defs.get_schema(node.op_type, key[2], node.domain)
            except self._defs.SchemaError:  # of another library, or newer than the package onnx
                self._found[key] = None
        return self._found[key]

    def check(self, graph: Any, versions: Mapping[str, int]) -> None:
        """Checks the nodes of a graph, or of a function.

        Args:
            versions: of op sets, by domain.

        Raises:
            ArgumentError: a node is not of its op's form.
        """
        for number, node in enumerate(graph.node):
            schema = self._schema(node, versions)
            if schema is not None:
                wrong = _unlike(schema, node) or _unlike_its_graphs(node, versions.get("", 0))
                if wrong:
                    raise invalid(f"node {label_of(node, number)!r} ({node.op_type}): {wrong}")


def _unlike(schema: Any, node: Any) -> str:
    """What a node has other than its op; empty where it is right."""
    for what, count, least, most in (
        ("inputs", len(node.input), schema.min_input, schema.max_input),
        ("outputs", len(node.output), schema.min_output, schema.max_output),
    ):
        if not least <= count <= most:
            return (
                f"it has {count} {what}, and its op takes {least} to {most}"
                if least < most
                else (f"it has {count} {what}, and its op takes {least}")
            )
    known = schema.attributes
    there: set[str] = set()
    for attribute in node.attribute:
        if attribute.name in there:
            return f"its attribute {attribute.name!r} appeared multiple times"
        there.add(attribute.name)
        if attribute.name in known and attribute.type != known[attribute.name].type.value:
            return (
                f"its attribute {attribute.name!r} is of another type than {known[attribute.name].type.name}"
            )
        if attribute.type == GRAPH and not (attribute.HasField("g") or attribute.ref_attr_name):
            return f"its attribute {attribute.name!r} holds no graph"
    missing = [name for name, one in known.items() if one.required and name not in there]
    if missing:
        return f"its attribute {missing[0]!r} is missing"
    return ""


GRAPH = 5
"""`AttributeProto.GRAPH`."""


def _unlike_its_graphs(node: Any, opset: int) -> str:
    """What the graphs inside a node of control flow have other than the node, of this version of ONNX's op set."""
    graphs = {attribute.name: attribute.g for attribute in node.attribute if attribute.type == GRAPH}
    made, taken = len(node.output), len(node.input)
    wanted: dict[str, tuple[int, int]] = {}
    if node.domain == "" and node.op_type == "If":
        wanted = dict.fromkeys(("then_branch", "else_branch"), (0, made))
    elif node.domain == "" and node.op_type == "Loop":
        wanted = {"body": (max(taken, 2), 1 + made)}
        if made < taken - 2:
            return f"it has {made} outputs for {taken - 2} values that it carries"
    elif node.domain == "" and node.op_type == "Scan":
        # The first form of it has the lengths of sequences before all that goes into the body.
        wanted = {"body": (taken - 1 if opset == 8 else taken, made)}
    for name, (inputs, outputs) in wanted.items():
        graph = graphs.get(name)
        if graph is not None and (len(graph.input), len(graph.output)) != (inputs, outputs):
            return (
                f"its {name} has {len(graph.input)} inputs and {len(graph.output)} outputs, and must have {inputs} "
                f"and {outputs}"
            )
    return ""


class NodeChecks:
    """ONNX's own checks of a node: how many inputs, which attributes, and of which types."""

    def __init__(self, onnx: Any, opset: int, versions: Mapping[str, int]) -> None:
        self._defs = library("onnx.defs", "onnx", "from_onnx")
        self._checker = library("onnx.checker", "onnx", "from_onnx")
        self._opset = opset
        self._context = self._checker.C.CheckerContext()
        self._context.ir_version = onnx.IR_VERSION
        self._context.opset_imports = {"": opset}
        self._versions = dict(versions)

    def knows(self, node: Any) -> bool:
        """Whether the package onnx has a definition of the op."""
        return bool(self._defs.has(node.op_type, self._versions.get(node.domain, self._opset), node.domain))

    def __call__(self, node: Any, label: str) -> None:
        """Checks a node of ONNX's own op set.

        Raises:
            ArgumentError: its op can't be so.
        """
        try:
            schema = self._defs.get_schema(node.op_type, self._opset, "")
        except self._defs.SchemaError:  # no op of ONNX's, or one that is newer than the package onnx
            return
        if schema.deprecated:  # refused altogether, although models have them
            return
        if any(inner_graphs(node)):
            return  # graphs in it may read what stands around it, which is not known there
        try:
            self._checker.check_node(node, self._context)
        except self._checker.ValidationError as error:
            what = str(error).partition("==> Context")[0].strip()
            raise invalid(f"node {label!r} ({node.op_type}): {one_line(what)}") from error


Known = tuple[np.dtype[Any], Sequence[int], Array | None]
"""Type, shape with -1 for open sizes, and constant value of a tensor."""


def one_node(onnx: Any, imports: Any, node: Any, inputs: Mapping[str, Known]) -> Any:
    """A model of one node.

    Args:
        onnx: the package.
        imports: the op sets of the node's model.
        inputs: what is known of each that is a tensor, by name.
    """
    infos = [
        onnx.helper.make_tensor_value_info(
            name, NUMBERS[dtype], [None if size < 0 else size for size in shape]
        )
        for name, (dtype, shape, _) in inputs.items()
    ]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "one_node", infos, outputs)
    return onnx.helper.make_model(graph, opset_imports=imports)


def inferred(onnx: Any, imports: Any, node: Any, inputs: Mapping[str, Known], *, strict: bool = True) -> Any:
    """A model of one node with the types and shapes of its outputs, as far as ONNX infers them.

    Args:
        onnx, imports, node, inputs: see `one_node`.
        strict: whether shapes must fit, too; what runs may be given one element where ONNX wants a scalar.

    Raises:
        Unmapped: its attributes and inputs contradict each other.
    """
    for attribute in node.attribute:
        # ONNX makes a list of as many sizes before it looks at the outputs: 32 GiB for 2³¹ of them.
        if attribute.name == "num_outputs" and node.op_type == "Split" and attribute.i != len(node.output):
            raise Unmapped(f"a split into {attribute.i} for {len(node.output)} outputs")
    alone = one_node(onnx, imports, node, inputs)
    for name, (_, _, value) in inputs.items():
        if value is not None and value.size <= KNOWN_TO_INFERENCE:
            alone.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    inference = library("onnx.shape_inference", "onnx", "from_onnx")
    try:
        return inference.infer_shapes(alone, check_type=True, strict_mode=strict, data_prop=True)
    except Exception as error:  # of its C++ code
        raise Unmapped(f"its attributes and inputs don't fit together ({one_line(str(error))})") from error
