"""From an ONNX model to a graph: reading it, folding what is constant, and translating node by node."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from attrs import frozen

from ...ops.data_types import DataType
from ...ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    UnsupportedError,
    nearest,
)
from ...ops.values import format_value, one_line
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, as_shape, format_shape
from ..open_graph import OpenGraph
from ..runtime.arrays import Array, data_type_of
from ..runtime.libraries import library
from ..runtime.text_files import file_error
from .hosted import take_along
from .onnx_checks import NodeChecks, check_structure, invalid, label_of
from .onnx_modules import module_titles
from .onnx_ops import Node, constant_scalar
from .onnx_patterns import Pattern, patterns
from .onnx_quantized import TABLE
from .onnx_types import NUMBERS, numpy_type_of
from .results import finished
from .translation import (
    FAILURES,
    NO_TRANSLATION,
    LeftOpen,
    Problem,
    Translation,
    Unmapped,
    Untranslated,
    Value,
    base_of,
    reason_of,
    shape_of,
    sizes,
    unsupported,
)

OLDEST_OPSET = 11
DEFAULT_DOMAINS = ("", "ai.onnx")
SHAPES = ("Shape", "Size")
FOLDED_LATER = {"DequantizeLinear": 19, "QuantizeLinear": 19}
"""Ops that ONNX's reference has from this opset on only. What later versions added are types, blocks and attributes."""


def import_onnx(model: object, shapes: Mapping[str, Sequence[int]] | None) -> Graph:
    """See `from_onnx`."""
    onnx = library("onnx", "onnx", "from_onnx")
    proto = _loaded(onnx, model)
    opset = next((o.version for o in proto.opset_import if o.domain in DEFAULT_DOMAINS), 0)
    if opset < OLDEST_OPSET:
        raise UnsupportedError(
            f"from_onnx takes models of opset {OLDEST_OPSET} or later, got {opset}; "
            "convert it with onnx.version_converter.convert_version(model, 13)"
        )
    if proto.functions:
        try:
            proto = library("onnx.inliner", "onnx", "from_onnx").inline_local_functions(proto)
        except Exception as error:  # whatever the inliner raises
            raise invalid(
                f"its functions can't be put in place of their calls ({one_line(error)})"
            ) from error
    check_structure(proto.graph)
    constants = _initializers(onnx, proto.graph) | _constant_nodes(onnx, proto.graph.node)
    if not isinstance(model, onnx.ModelProto):
        proto = _without_weights(onnx, proto)
    return _imported(_Model(onnx, proto, opset, constants), shapes or {}, for_sizes=False)


def _imported(model: _Model, shapes: Mapping[str, Sequence[int]], *, for_sizes: bool = True) -> Graph:
    importer = _Importer(model, shapes)
    graph = importer.run(for_sizes)
    return OpenGraph(*importer.ports(), partial(_imported, model)) if graph is None else graph


def _without_weights(onnx: Any, proto: Any) -> Any:
    """The same model with nothing in its initializers but names, types and shapes, in memory of its own: that of the
    weights goes with the former one.
    """
    for tensor in proto.graph.initializer:
        name, data_type, shape = tensor.name, tensor.data_type, list(tensor.dims)
        tensor.Clear()
        tensor.name, tensor.data_type = name, data_type
        tensor.dims.extend(shape)
    return onnx.ModelProto.FromString(proto.SerializeToString())


def _loaded(onnx: Any, model: Any) -> Any:
    """The ModelProto of a path, bytes, or itself."""
    what, more = "the ModelProto", ""
    read = None
    if isinstance(model, str | os.PathLike):
        path = os.fsdecode(cast("str | os.PathLike[str]", model))
        what, read = format_value(path), lambda: onnx.load(path)
        if path.endswith(".json"):
            more = "; a oneDNN Graph file is read by Graph.load"
    elif isinstance(model, bytes | bytearray | memoryview):
        content = bytes(cast("bytes", model))
        what, read = "what the bytes hold", lambda: onnx.load_from_string(content)
    elif not isinstance(model, onnx.ModelProto):
        raise ArgumentTypeError(
            f"from_onnx takes a path, bytes or an onnx.ModelProto, got {format_value(model)} of "
            f"type {type(model).__name__}"
        )
    try:
        proto = cast("Any", model) if read is None else read()
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise file_error(f"from_onnx can't read {what}: {reason}", error) from error
    except onnx.checker.ValidationError as error:
        raise ArgumentError(f"from_onnx can't read the weights of {what} ({one_line(error)})") from error
    except Exception as error:  # each format of files has errors of its own
        raise ArgumentError(f"from_onnx: {what} is no ONNX model ({one_line(error)}){more}") from error
    if not proto.HasField("graph"):
        raise ArgumentError(f"from_onnx: {what} is no ONNX model; it holds no graph{more}")
    return proto


@frozen(eq=False)
class _Model:
    """A model as it was read, for as many imports as there are sets of input sizes.

    Attributes:
        onnx: the package.
        proto: the ModelProto.
        opset: the version of the op set.
        constants: initializers and Constant nodes, decoded once, so that all imports share them.
    """

    onnx: Any
    proto: Any
    opset: int
    constants: Mapping[str, Array]

    def __reduce__(self) -> tuple[Callable[..., _Model], tuple[object, ...]]:
        """Packages are imported where it is unpickled, and each weight is in there once, decoded."""
        proto = self.onnx.ModelProto()
        proto.CopyFrom(self.proto)
        light = _without_weights(self.onnx, proto)
        return _model_from, (light.SerializeToString(), self.opset, dict(self.constants))


def _model_from(proto: bytes, opset: int, constants: Mapping[str, Array]) -> _Model:
    """The model of a pickle."""
    onnx = library("onnx", "onnx", "a pickle of a model from ONNX")
    return _Model(onnx, onnx.ModelProto.FromString(proto), opset, constants)


def _initializers(onnx: Any, graph: Any) -> dict[str, Array]:
    if graph.sparse_initializer:
        raise UnsupportedError("from_onnx can't read sparse initializers; make them dense in the model")
    found: dict[str, Array] = {}
    for tensor in graph.initializer:
        try:
            dtype = numpy_type_of(tensor.data_type)
        except Unmapped as error:
            raise UnsupportedError(f"from_onnx: initializer {tensor.name!r}: {error}") from error
        try:
            found[tensor.name] = onnx.numpy_helper.to_array(tensor).astype(dtype, copy=False)
        except Exception as error:  # too few bytes, a file that is not there
            raise ArgumentError(
                f"from_onnx can't read initializer {tensor.name!r} ({one_line(error)})"
            ) from error
    return found


def _constant_nodes(onnx: Any, nodes: Sequence[Any]) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for node in nodes:
        if node.op_type == "Constant" and node.domain in DEFAULT_DOMAINS and len(node.output) == 1:
            try:
                array = _constant(onnx, node)
            except FAILURES:  # what needs it will say that it can't be computed
                continue
            if array is not None:
                found[node.output[0]] = array
    return found


class _Importer:
    """One import.

    Args:
        model: what was read.
        shapes: of inputs, by name; those that are not named have what the model says.

    Attributes:
        open: whether a size of an input, or its rank, is not known.
        later: names of values that are computed from sizes which are not known.
        broken: names of values without a translation, or that depend on one of these.
    """

    def __init__(self, model: _Model, shapes: Mapping[str, Sequence[int]]) -> None:
        self.onnx = model.onnx
        self.proto = model.proto
        self.opset = model.opset
        self.constants = model.constants
        self.shapes = shapes
        self.t = Translation()
        self.values: dict[str, Value] = {}
        self.problems: list[Problem] = []
        self.broken: set[str] = set()
        self.inputs: list[str] = []
        self.later: set[str] = set()
        self.open = False
        self.check_node = NodeChecks(model.onnx, model.opset)
        self.titles = module_titles(model.proto.graph.node, model.constants)

    def run(self, for_sizes: bool) -> Graph | None:
        """The graph; None where it takes more sizes to make it. For `for_sizes` see `finished`."""
        graph = self.proto.graph
        for name, array in self.constants.items():
            self._named(name, array)
        self._inputs(graph)
        found = patterns(graph.node, lambda name: constant_scalar(self.values.get(name)), self._attributes_of)
        alive = _alive(graph, found)
        for number, node in enumerate(graph.node):
            self._node(
                node, label_of(node, number), alive, found.get(node.output[0]) if node.output else None
            )
        if self.problems:
            raise unsupported(self.problems, "ONNX model")
        if any(output.name not in self.values for output in graph.output):
            return None
        results = {output.name: self.values[output.name] for output in graph.output}
        return finished(self.t, results, "from_onnx", for_sizes=for_sizes)

    def ports(self) -> tuple[Sequence[LogicalTensor], Sequence[tuple[str, LogicalTensor]]]:
        """The inputs, and the outputs as the model describes them."""
        inputs = [value for name in self.inputs if isinstance(value := self.values[name], LogicalTensor)]
        outputs: list[tuple[str, LogicalTensor]] = []
        described = self.proto.graph.output
        if not all(info.type.HasField("tensor_type") for info in described):
            inference = library("onnx.shape_inference", "onnx", "from_onnx")
            described = inference.infer_shapes(self.proto).graph.output
        for number, info in enumerate(described, 1 + max(t.id for t in inputs)):
            data_type, shape = self._described(info, "output")
            outputs.append((info.name, LogicalTensor(number, data_type, shape, name=info.name)))
        return inputs, outputs

    # --- what is given ---

    def _named(self, name: str, array: Array) -> None:
        self.values[name] = array
        self.t.entitle(array, name)

    def _inputs(self, graph: Any) -> None:
        for info in graph.input:
            if info.name in self.values:  # an initializer with a place in the inputs: a default
                continue
            self.inputs.append(info.name)
            data_type, shape = self._described(info, "input")
            made = self.t.input(info.name, data_type, self._fixed(info.name, shape))
            self.values[info.name] = made
            self.open = self.open or not made.is_concrete
        for name in self.shapes:
            if name not in self.inputs:
                raise ArgumentError(
                    f"from_onnx: shapes names {format_value(name)}, which is no input of the model"
                    f"{nearest(name, self.inputs)}; it has {', '.join(map(repr, self.inputs))}"
                )

    def _described(self, info: Any, what: str) -> tuple[DataType, list[int] | None]:
        """Type and shape of an input or output, -1 where the model leaves a size open."""
        kind = info.type.tensor_type
        if not info.type.HasField("tensor_type"):
            raise UnsupportedError(
                f"from_onnx: {what} {info.name!r} is no tensor; give the model tensors only"
            )
        shape = None
        if kind.HasField("shape"):
            shape = [d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim]
        try:
            return data_type_of(np.empty(0, numpy_type_of(kind.elem_type)), f"{what} {info.name!r}"), shape
        except Unmapped as error:
            raise UnsupportedError(f"from_onnx: {what} {info.name!r}: {error}") from error

    def _fixed(self, name: str, shape: list[int] | None) -> list[int] | None:
        if name not in self.shapes:
            return shape
        wanted = list(as_shape(self.shapes[name], f"from_onnx: the shape of input {name!r}") or ())
        if shape is not None and (
            len(shape) != len(wanted)
            or any(-1 not in (a, b) and a != b for a, b in zip(shape, wanted, strict=True))
        ):
            raise ArgumentError(
                f"from_onnx: input {name!r} has shape {format_shape(tuple(shape))} in the model, got "
                f"{format_shape(tuple(wanted))} in shapes; only sizes that are open can be chosen"
            )
        return wanted

    # --- node by node ---

    def _node(self, node: Any, label: str, alive: set[str], pattern: Pattern | None) -> None:
        needed = [index for index, name in enumerate(node.output) if name in alive]
        if not needed or node.output[0] in self.values:
            return
        kind = node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"
        sources = list(node.input) if pattern is None else [pattern.source]
        if pattern is not None:
            kind = pattern.kind
        if any(name in self.broken or name in self.later for name in sources):
            self._postponed(kind, node, label, sources)
            return
        if kind == node.op_type and not node.domain and (kind in TABLE or kind in SHAPES):
            self.check_node(node, label)
        self.t.label = self.titles.get(node.output[0], label)
        try:
            inputs = [self.values[name] if name else None for name in sources]
            made = self._translated(node, kind, inputs, max(needed) + 1, pattern)
        except FAILURES as error:
            if self.open and kind in SHAPES:
                self.later.update(node.output)
                return
            self.broken.update(node.output)
            if not (self.open and _may_change(error, [self.values[name] for name in sources if name])):
                self.problems.append(Problem(kind, label, reason_of(error)))
            return
        for name, value in zip(node.output, made, strict=False):
            if name:
                self.values[name] = value

    def _postponed(self, kind: str, node: Any, label: str, sources: Sequence[str]) -> None:
        """A node that reads what has no translation, or what is known with the sizes of the inputs only."""
        known = [name for name in sources if name and name not in self.later]
        folded = all(isinstance(self.values.get(name), np.ndarray) for name in known)
        if self.open and (folded or kind in SHAPES):
            self.later.update(node.output)
            return
        self.broken.update(node.output)
        if kind not in TABLE:
            self.problems.append(Problem(kind, label, NO_TRANSLATION))

    def _attributes_of(self, node: Any) -> dict[str, Any]:
        return {a.name: _python(self.onnx.helper.get_attribute_value(a)) for a in node.attribute}

    def _translated(
        self, node: Any, kind: str, inputs: Sequence[Value | None], outputs: int, pattern: Pattern | None
    ) -> Sequence[Value]:
        if pattern is not None and isinstance(inputs[0], np.ndarray):
            return [pattern.folded(inputs[0])]
        attributes = self._attributes_of(node) if pattern is None else dict(pattern.attributes)
        if kind in SHAPES and inputs[0] is not None:
            return [_shape(kind, inputs[0], attributes)]
        keep = kind == "DequantizeLinear" and _stays_quantized(inputs[0])
        if all(value is None or isinstance(value, np.ndarray) for value in inputs) and not keep:
            return self._folded(node, kind, inputs)
        translate = TABLE.get(kind)
        if translate is None:
            raise Untranslated(NO_TRANSLATION)
        made = translate(
            self.t,
            Node(
                kind=kind,
                opset=self.opset,
                inputs=tuple(inputs),
                outputs=outputs,
                listed=len(node.output),
                attributes=attributes,
            ),
        )
        results: list[Value] = list(made) if isinstance(made, Sequence) else [made]
        if len(results) < outputs:
            raise Unmapped(
                f"its output {node.output[outputs - 1]!r}, number {outputs - 1}, has no counterpart"
            )
        return results

    def _opsets(self, kind: str) -> Sequence[Any]:
        """What a node is computed by: the model's opsets, or later ones for an op that the reference lacks there."""
        oldest = FOLDED_LATER.get(kind, 0)
        if self.opset >= oldest:
            return self.proto.opset_import
        return [self.onnx.helper.make_opsetid("", oldest)]

    def _folded(self, node: Any, kind: str, inputs: Sequence[Value | None]) -> Sequence[Value]:
        """The outputs of a node whose inputs are all constant, by ONNX's own reference."""
        if (
            kind == "GatherElements"
            and isinstance(inputs[0], np.ndarray)
            and isinstance(inputs[1], np.ndarray)
        ):
            # The reference takes the indices apart wrongly where they are fewer than the elements along the axis.
            return [take_along(inputs[0], inputs[1], self._attributes_of(node).get("axis", 0))]
        given = zip(node.input, inputs, strict=True)
        feeds: dict[str, Array] = {name: value for name, value in given if isinstance(value, np.ndarray)}
        helper = self.onnx.helper
        outputs = [name for name in node.output if name]
        try:
            model = helper.make_model(
                helper.make_graph(
                    [node],
                    "constant",
                    [helper.make_tensor_value_info(n, NUMBERS[a.dtype], a.shape) for n, a in feeds.items()],
                    [self.onnx.ValueInfoProto(name=name) for name in outputs],
                ),
                opset_imports=self._opsets(kind),
                ir_version=self.proto.ir_version,
            )
            evaluator = library("onnx.reference", "onnx", "from_onnx").ReferenceEvaluator(model)
            made = dict(zip(outputs, evaluator.run(None, feeds), strict=True))
        except Exception as error:  # the reference raises whatever its NumPy code does
            raise Unmapped(f"its constant value can't be computed ({one_line(error)})") from error
        arrays = [np.asarray(made[name]) if name else np.empty(0) for name in node.output]
        for name, array in zip(node.output, arrays, strict=True):
            self.t.entitle(array, name)
        return arrays


def _may_change(error: Exception, inputs: Sequence[Value]) -> bool:
    """Whether a node that failed may have a translation once sizes are known."""
    if isinstance(error, Untranslated):
        return False
    shapes = [value.shape for value in map(base_of, inputs) if isinstance(value, LogicalTensor)]
    return isinstance(error, LeftOpen) or any(shape is None or -1 in shape for shape in shapes)


def _alive(graph: Any, found: Mapping[str, Pattern]) -> set[str]:
    """Names that the outputs depend on."""
    producers = {name: node for node in graph.node for name in node.output if name}
    alive: set[str] = set()
    waiting = [output.name for output in graph.output]
    while waiting:
        name = waiting.pop()
        if name in alive:
            continue
        alive.add(name)
        if name in found:
            waiting.append(found[name].source)
        elif name in producers:
            waiting += [source for source in producers[name].input if source]
    return alive


def _constant(onnx: Any, node: Any) -> Array | None:
    """The value of a Constant node; None for strings and sparse ones."""
    for attribute in node.attribute:
        value = onnx.helper.get_attribute_value(attribute)
        if attribute.name == "value":
            return onnx.numpy_helper.to_array(value).astype(numpy_type_of(value.data_type), copy=False)
        if attribute.name in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if attribute.name in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    return None


def _python(value: Any) -> Any:
    """An attribute's value with text as str."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, int | float | str) or not hasattr(value, "__len__"):
        return value
    return [_python(one) if isinstance(one, bytes) else one for one in value]


def _shape(kind: str, value: Value, attributes: Mapping[str, Any]) -> Array:
    if kind == "Size":
        return np.asarray(np.prod(sizes(value), dtype=np.int64))
    part = shape_of(value)[attributes.get("start", 0) : attributes.get("end")]
    if -1 in part:
        sizes(value)  # says what is missing
    return np.asarray(part, np.int64)


def _stays_quantized(value: Value | None) -> bool:
    """Whether a constant is a quantised tensor that kernels take as it is: weights, say."""
    return isinstance(value, np.ndarray) and value.ndim > 1 and str(value.dtype) in ("int8", "uint8")
