"""From an ONNX model to a graph: reading it, folding what is constant, and translating node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import (
    ArgumentError,
    ArgumentTypeError,
    UnsupportedError,
    nearest,
)
from ...ops.values import format_value
from ..graph import Graph
from ..importing.results import finished
from ..importing.translation import (
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
from ..model.logical_tensor import LogicalTensor, as_shape, format_shape
from ..open_graph import OpenGraph
from ..runtime.arrays import Array, data_type_of
from ..runtime.libraries import library
from .checks import NodeChecks, label_of
from .folding import RANDOM, Reference, by_kernels, reference_first
from .known import Schemas
from .modules import module_titles
from .node import Node, constant_scalar
from .patterns import Pattern, patterns
from .reading import Model, read_model
from .table import TABLE
from .types import numpy_type_of

SHAPES = ("Shape", "Size")


def import_onnx(
    model: object, shapes: Mapping[str, Sequence[int]] | None, fold_limit: int
) -> Graph | OpenGraph:
    """See `from_onnx`."""
    return _imported(read_model(model, positive(fold_limit)), shapes or {}, for_sizes=False)


def positive(fold_limit: object) -> int:
    """The limit, if it is one."""
    if isinstance(fold_limit, bool) or not isinstance(fold_limit, int) or fold_limit < 0:
        raise ArgumentTypeError(
            f"from_onnx: fold_limit must be a number of bytes, an integer of at least 0, got {format_value(fold_limit)}"
        )
    return fold_limit


def _imported(
    model: Model, shapes: Mapping[str, Sequence[int]], *, for_sizes: bool = True
) -> Graph | OpenGraph:
    importer = _Importer(model, shapes)
    graph = importer.run(for_sizes)
    return OpenGraph(*importer.ports(), partial(_imported, model)) if graph is None else graph


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

    def __init__(self, model: Model, shapes: Mapping[str, Sequence[int]]) -> None:
        self.onnx = model.onnx
        self.proto = model.proto
        self.opset = model.opset
        self.constants = model.constants
        self.shapes = shapes
        self.t = Translation(model.fold_limit)
        self.values: dict[str, Value] = {}
        self.problems: list[Problem] = []
        self.broken: set[str] = set()
        self.inputs: list[str] = []
        self.later: set[str] = set()
        self.open = False
        self.check_node = NodeChecks(model.onnx, model.opset)
        self.schemas = Schemas(model.opset)
        self.reference = Reference(
            model.onnx, model.proto.opset_import, model.opset, model.proto.ir_version, model.fold_limit
        )
        self.titles = module_titles(model.proto.graph.node, model.constants)

    def run(self, for_sizes: bool) -> Graph | None:
        """The graph; None where it takes more sizes to make it. For `for_sizes` see `finished`."""
        graph = self.proto.graph
        for name, array in self.constants.items():
            self._named(name, array)
        self._inputs(graph)
        found = (
            {}
            if self.opset < 13
            else patterns(
                graph.node, lambda name: constant_scalar(self.values.get(name)), self._attributes_of
            )
        )
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
        kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        sources = list(node.input) if pattern is None else [pattern.source]
        if pattern is not None:
            kind = pattern.kind
        if any(name in self.broken or name in self.later for name in sources):
            self._postponed(kind, node, label, sources)
            return
        if pattern is None and not node.domain:
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
            self.schemas.check(kind, inputs, attributes)
            return [_shape(kind, inputs[0], attributes)]
        keep = kind == "DequantizeLinear" and _stays_quantized(inputs[0])
        constant = [value for value in inputs if value is None or isinstance(value, np.ndarray)]
        if len(constant) == len(inputs) and not keep:
            return self._folded(node, kind, constant, outputs)
        return self._by_table(self.t, kind, inputs, outputs, node.output, attributes, pattern is None)

    def _by_table(
        self,
        t: Translation,
        kind: str,
        inputs: Sequence[Value | None],
        needed: int,
        outputs: Sequence[str],
        attributes: Mapping[str, Any],
        checked: bool = True,
    ) -> Sequence[Value]:
        """A node's translation.

        Args:
            needed: how many of its outputs are.
            outputs: their names, empty for those that are not there.
            checked: whether its attributes are those of the op.
        """
        translate = TABLE.get(kind)
        if translate is None:
            raise Untranslated(NO_TRANSLATION)
        if checked:
            self.schemas.check(kind, inputs, attributes)
        made = translate(
            t,
            Node(
                kind=kind,
                opset=self.opset,
                inputs=tuple(inputs),
                outputs=needed,
                listed=len(outputs),
                attributes=attributes,
            ),
        )
        results: list[Value] = list(made) if isinstance(made, Sequence) else [made]
        if len(results) < needed:
            raise Unmapped(f"its output {outputs[needed - 1]!r}, number {needed - 1}, has no counterpart")
        return results

    def _folded(self, node: Any, kind: str, inputs: Sequence[Array | None], needed: int) -> Sequence[Value]:
        """The outputs of a node whose inputs are all constant."""
        attributes = self._attributes_of(node)
        if kind in RANDOM:
            raise Unmapped("it draws other numbers at each call, and so it has no constant value")

        def translate(t: Translation, values: Sequence[Value | None]) -> Sequence[Value]:
            return self._by_table(t, kind, values, needed, node.output, attributes)

        made: list[Array] | None = None
        if kind in TABLE and not reference_first(kind, inputs):
            made = by_kernels(inputs, translate, self.t.limit)
        arrays = self.reference(node, kind, inputs) if made is None else made
        for name, array in zip(node.output, arrays, strict=False):
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
