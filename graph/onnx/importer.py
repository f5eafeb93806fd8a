"""From an ONNX model to a graph: folding what is constant, and translating node by node."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import evolve

from ...ops.data_types import DataType
from ...ops.errors import (
    ArgumentError,
    DataTypeError,
    OneDNNGraphError,
    UnsupportedError,
    nearest,
)
from ...ops.values import format_value
from ..core.editing import check_left_open
from ..graph import Graph
from ..importing.results import finished
from ..importing.translation import (
    FAILURES,
    MOST_OPS,
    NO_TRANSLATION,
    LeftOpen,
    Problem,
    TooLarge,
    TooLong,
    Translation,
    Unmapped,
    Untranslated,
    Value,
    base_of,
    dtype_of,
    reason_of,
    shape_of,
    unsupported,
)
from ..model.logical_tensor import LogicalTensor, as_shape, foreign_tensor, format_shape
from ..model.numpy_types import DATA_TYPES
from ..runtime.arrays import Array, data_type_of
from ..runtime.libraries import library
from ..runtime.parameter import Parameter
from ..unknown_sizes.sampling import OpenSize
from .branches import Branches
from .checks import Known, NodeChecks, inferred, label_of
from .contrib.table import REWRITES, rewritten
from .control import CONTROL
from .definitions import definition
from .evaluation import SHAPES, Evaluation
from .folding import DRAWS, Failed, trusted_node
from .foreign import foreign_of
from .host_nodes import host_node
from .modules import module_titles
from .node import constant_scalar
from .patterns import Pattern, patterns
from .protos import kind_of
from .quantized import stays_quantized
from .reading import Model, alive_in
from .table import TABLE
from .types import NUMBERS, numpy_type_of
from .waiting import Waiting

FOREIGN = 1 << 32
"""Ids of inputs of types that graphs don't have begin here."""


class Importer:
    """One import.

    Args:
        model: what was read.
        shapes: of inputs, by name; those that are not named have what the model says.

    Attributes:
        open: whether a size of an input, or its rank, is not known.
        later: names of values that are computed from sizes which are not known.
        broken: names of values without a translation, or that depend on one of these.
        waiting: the nodes that make them.
        values: what names stand for.
    """

    def __init__(self, model: Model, shapes: Mapping[str, Sequence[int]]) -> None:
        self.model = model
        self.onnx = model.onnx
        self.proto = model.proto
        self.constants = model.constants
        self.shapes = shapes
        self.t = Translation(model.fold_limit)
        if not model.reference:  # nothing runs by itself
            self.t.most_steps = MOST_OPS
        self.values: dict[str, Value] = {}
        self.problems: list[Problem] = []
        self.refused: list[Problem] = []
        self.waiting: list[Waiting] = []
        self.broken: set[str] = set()
        self.inputs: list[str] = []
        self.later: set[str] = set()
        self.open = False
        self.check_node = NodeChecks(
            model.onnx, model.opset, {o.domain: o.version for o in model.proto.opset_import}
        )
        self.evaluation = Evaluation(model)
        self.titles = module_titles(model.proto.graph.node, model.constants)
        self._branches = Branches(model)

    def translate(self) -> None:
        """Translates all nodes that have a translation."""
        graph = self.proto.graph
        trained = self.model.trained or ()
        for name, array in self.constants.items():
            if name in trained:
                held = self.model.parameters
                if name not in held:
                    held[name] = Parameter(array, array.dtype)
                self.values[name] = self.t.parameter(name, held[name])
            else:
                self._named(name, array)
        self._inputs(graph)
        self._nodes(graph)

    def _nodes(self, graph: Any, number: int | None = None) -> None:
        """Translates the nodes of a graph, inside of the one with this number if there is one."""
        attributes_of = self.evaluation.attributes_of
        found: dict[str, Pattern] = {}
        if self.model.opset >= 13 and not self.model.plain:
            found = patterns(graph.node, lambda name: constant_scalar(self.values.get(name)), attributes_of)
        alive = alive_in(graph, found)
        for own, node in enumerate(graph.node):
            pattern = found.get(node.output[0]) if node.output else None
            self._node(node, own if number is None else number, alive, pattern)

    def check(self) -> None:
        """Checks that all nodes have a translation, or run by ONNX's reference.

        Raises:
            UnsupportedError: some don't.
        """
        if self.problems and not self.model.reference:
            raise unsupported(self.problems, "ONNX model")
        if self.refused:
            raise unsupported(self.refused, "ONNX model")

    @property
    def open_only(self) -> bool:
        """Whether nodes wait only for sizes of inputs."""
        return not self.problems and self.open and self.broken.isdisjoint(self.inputs)

    @property
    def in_stages(self) -> bool:
        """Whether it runs in stages: nodes wait for values, or an input or constant output is of a type graphs lack."""
        values = (self.values.get(output.name) for output in self.proto.graph.output)
        constant = any(isinstance(value, np.ndarray) and value.dtype not in DATA_TYPES for value in values)
        given = not (self.broken.isdisjoint(self.inputs) or self.model.trained)
        return given or (constant and self.model.reference) or (bool(self.waiting) and not self.open_only)

    def graph(self) -> Graph | None:
        """The graph; None where it takes more sizes to make it.

        Raises:
            UnsupportedError: an output can't be made.
        """
        outputs = self.proto.graph.output
        if any(output.name not in self.values for output in outputs) or (self.open and not self.t.graph.ops):
            return None
        results = {output.name: self.values[output.name] for output in outputs}
        return finished(self.t, results, "from_onnx", for_sizes=True)

    def ports(self, *, typed: bool) -> tuple[Sequence[LogicalTensor], Sequence[tuple[str, LogicalTensor]]]:
        """The inputs, and the outputs as the model describes them.

        Args:
            typed: whether every output must have a type: that which ONNX infers, where the model says none.
        """
        inputs: list[LogicalTensor] = []
        for info in self.proto.graph.input:
            if info.name in self.inputs:
                value = self.values.get(info.name)
                made = value if isinstance(value, LogicalTensor) else None
                inputs.append(made or foreign_tensor(FOREIGN + len(inputs), info.name))
        outputs: list[tuple[str, LogicalTensor]] = []
        described = self.proto.graph.output
        if typed and not all(info.type.HasField("tensor_type") for info in described):
            inference = library("onnx.shape_inference", "onnx", "from_onnx")
            described = inference.infer_shapes(self.proto).graph.output
        for number, info in enumerate(described, 1 + max((t.id for t in inputs), default=0)):
            outputs.append((info.name, self._output(number, info)))
        return inputs, outputs

    def open_sizes(self) -> dict[tuple[str, int], OpenSize]:
        """The names that the model has for sizes of its inputs."""
        return {
            (info.name, axis): OpenSize(dim.dim_param)
            for info in self.proto.graph.input
            if info.name in self.inputs
            for axis, dim in enumerate(info.type.tensor_type.shape.dim)
            if dim.dim_param
        }

    def _output(self, number: int, info: Any) -> LogicalTensor:
        """An output as far as the model, or else its translation, says what it is."""
        value = self.values.get(info.name)
        if not info.type.HasField("tensor_type") and value is not None:
            data_type = DATA_TYPES.get(dtype_of(value))
            if data_type is not None:
                return LogicalTensor(number, data_type, shape_of(value), name=info.name)
        try:
            data_type, shape = self._described(info, "output")
            return LogicalTensor(number, data_type, shape, name=info.name)
        except OneDNNGraphError:
            if not self.model.reference:
                raise
            return foreign_tensor(number, info.name)

    # --- what is given ---

    def _named(self, name: str, array: Array) -> None:
        self.values[name] = array
        self.t.entitle(array, name)

    def _inputs(self, graph: Any) -> None:
        for info in graph.input:
            if info.name in self.values:  # an initializer with a place in the inputs: a default
                continue
            self.inputs.append(info.name)
            try:
                data_type, shape = self._described(info, "input")
            except UnsupportedError:
                if not self.model.reference:
                    raise
                try:
                    foreign_of(info)
                except Unmapped as error:
                    raise UnsupportedError(f"from_onnx: input {info.name!r}: {error}") from error
                self.broken.add(info.name)
                continue
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
        except (Unmapped, DataTypeError) as error:
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
        check_left_open(
            None if shape is None else tuple(shape),
            tuple(wanted),
            f"from_onnx: input {name!r} has shape",
            "in the model",
            ArgumentError,
        )
        return wanted

    # --- node by node ---

    def _node(self, node: Any, number: int, alive: set[str], pattern: Pattern | None) -> None:
        label = label_of(node, number)
        needed = [index for index, name in enumerate(node.output) if name in alive]
        if not needed or node.output[0] in self.values:
            return
        kind = kind_of(node) if pattern is None else pattern.kind
        waiting = Waiting(number, node, label, "", max(needed) + 1)
        sources = list(node.input) if pattern is None else [pattern.source]
        reads = waiting.reads if pattern is None else sources
        if any(name in self.broken or name in self.later for name in reads):
            self._postponed(kind, waiting, reads)
            return
        if pattern is None and not node.domain:
            self.check_node(node, label)
        if kind == "If" and self._decided(node, number):
            return
        self.t.label = self.titles.get(node.output[0], label)
        inputs = [self.values[name] if name else None for name in sources]
        try:
            if kind in REWRITES:
                self._rewritten(_with_outputs(self.onnx, node, alive), kind, number, waiting.needed)
                return
            made = self._translated(node, kind, inputs, waiting.needed, pattern)
        except FAILURES as error:
            if self.open and kind in SHAPES:
                self.later.update(node.output)
                return
            by_definition = (
                pattern is None and not self.open and not isinstance(error, TooLarge | TooLong | Failed)
            )
            if by_definition and self._by_definition(node, number, inputs):
                return
            if by_definition and self._on_host(node, inputs):
                return
            self.broken.update(node.output)
            self.waiting.append(evolve(waiting, failed=reason_of(error)))
            if not (self.open and _may_change(error, [value for value in inputs if value is not None])):
                self._problem(Problem(kind, label, reason_of(error)), node, inputs, error)
            return
        for name, value in zip(node.output, made, strict=False):
            if name:
                self.values[name] = value

    def _rewritten(self, node: Any, kind: str, number: int, needed: int) -> None:
        """Translates a node of onnxruntime's own domain by nodes of ONNX's own op set.

        Raises:
            Unmapped: it is more than is known of its op, or depends on sizes that are not known.
        """
        model, scope = self.model, self._branches.scope
        nodes, constants = rewritten(
            self.onnx, node, kind, self.values, model.kept, scope, model.opset, model.fold_limit
        )
        for name, array in constants.items():
            self._named(name, array)
        unused = set(node.output[needed:])
        waiting = len(self.waiting)
        for one in nodes:
            self._node(one, number, set(one.output) - unused, None)
        self.waiting[waiting:] = [evolve(one, defining=True) for one in self.waiting[waiting:]]

    def _decided(self, node: Any, number: int) -> bool:
        """Translates the branch of an If that is known to be the one, as part of the graph; whether it can be."""
        branch = self._branches.known(node, self.values)
        if branch is None:
            return False
        names = branch.names
        if not names.isdisjoint({*self._branches.names, *self.values, *self.broken, *self.later}):
            return False  # a name that has another meaning around it
        lengths = len(self.problems), len(self.refused), len(self.waiting)
        before = {*self.values}
        for name, array in branch.constants.items():
            self._named(name, array)
        with self._branches.inside(branch):
            self._nodes(branch.graph, number)
        own = names.union(name for name in self.values if name not in before)
        if len(self.problems) > lengths[0] or (len(self.waiting) > lengths[2] and not self.open):
            self._forget(own, lengths)
            return False
        self.waiting[lengths[2] :] = [evolve(one, defining=True) for one in self.waiting[lengths[2] :]]
        for name, info in zip(node.output, branch.graph.output, strict=False):
            if info.name in self.values:
                self.values[name] = self.values[info.name]
            else:
                (self.later if info.name in self.later else self.broken).add(name)
        if len(self.waiting) == lengths[2]:
            self._forget(own, lengths)  # another branch may have the same names
        return True

    def _forget(self, names: Collection[str], lengths: tuple[int, int, int]) -> None:
        """Goes back to before these names were made, when so many nodes had problems, were refused and were waiting."""
        for found, length in zip((self.problems, self.refused, self.waiting), lengths, strict=True):
            del found[length:]
        self.broken.difference_update(names)
        self.later.difference_update(names)
        for name in names:
            self.values.pop(name, None)

    def _by_definition(self, node: Any, number: int, inputs: Sequence[Value | None]) -> bool:
        """Translates a node by what ONNX defines its op by, other ops; whether it has such a definition.

        Where one of these has no translation, the node waits as a whole if the reference has it, else that one.
        """
        if any(value is not None and DATA_TYPES.get(dtype_of(value)) is None for value in inputs):
            return False
        known = {
            name: (dtype_of(value), shape_of(value))
            for name, value in zip(node.input, inputs, strict=True)
            if value is not None
        }
        nodes = definition(self.model, node, known, f"{label_of(node, number)}.")
        if any(name in self.values for one in nodes for name in one.output):  # nodes may have one name
            nodes = definition(self.model, node, known, f"{'/'.join(node.output)}.")
        lengths = len(self.problems), len(self.refused), len(self.waiting)
        alive = {name for one in nodes for name in one.output}
        for one in nodes:
            self._node(one, number, alive, None)
        in_parts = self.model.reference and not trusted_node(node, self.model.opset)
        if len(self.waiting) == lengths[2] or (in_parts and len(self.refused) == lengths[1]):
            self.waiting[lengths[2] :] = [evolve(one, defining=True) for one in self.waiting[lengths[2] :]]
            return bool(nodes)
        self._forget(alive, lengths)
        return False

    def _on_host(self, node: Any, inputs: Sequence[Value | None]) -> bool:
        """Has ONNX's reference run a node as an op of the graph; whether that can be."""
        kind = kind_of(node)
        fixed = kind not in DRAWS and kind not in CONTROL and trusted_node(node, self.model.opset)
        if not (self.model.reference and fixed and self.check_node.knows(node)):
            return False
        try:
            made = host_node(self.t, self.model, node, inputs)
        except FAILURES:
            return False
        self.values.update(zip(node.output, made or (), strict=False))
        return made is not None

    def _postponed(self, kind: str, waiting: Waiting, reads: Sequence[str]) -> None:
        """A node that reads what has no translation, or what is known with the sizes of the inputs only."""
        known = [name for name in reads if name and name not in self.later]
        folded = all(isinstance(self.values.get(name), np.ndarray) for name in known)
        if self.open and (folded or kind in SHAPES):
            self.later.update(waiting.node.output)
            return
        self.broken.update(waiting.node.output)
        self.waiting.append(waiting)
        decided = kind == "If" and self.open and waiting.node.input[0] in self.later
        if kind not in TABLE and kind not in REWRITES and not decided:
            inputs = [self.values.get(name) for name in waiting.node.input]
            self._problem(Problem(kind, waiting.label, NO_TRANSLATION), waiting.node, inputs)

    def _problem(
        self, problem: Problem, node: Any, inputs: Sequence[Value | None], error: Exception | None = None
    ) -> None:
        self.problems.append(problem)
        reason = "" if isinstance(error, TooLarge) else self._contradiction(node, inputs)
        if isinstance(error, TooLarge | Failed) or reason or not self.evaluation.may_run(node, inputs):
            self.refused.append(evolve(problem, reason=reason or problem.reason))

    def _contradiction(self, node: Any, inputs: Sequence[Value | None]) -> str:
        # Of graphs inside nodes, which run by themselves, descriptions may be wrong that nobody reads.
        if len(inputs) < len(node.input) or kind_of(node) in CONTROL or not self.check_node.knows(node):
            return ""
        known: dict[str, Known] = {}
        for name, value in zip(node.input, inputs, strict=True):
            if value is None and name:
                return ""
            if value is not None:
                base = base_of(value)
                if (isinstance(base, LogicalTensor) and base.shape is None) or dtype_of(value) not in NUMBERS:
                    return ""
                constant = value if isinstance(value, np.ndarray) else None
                known[name] = (dtype_of(value), shape_of(value), constant)
        try:
            inferred(self.onnx, self.proto.opset_import, node, known, strict=not self.model.plain)
        except Unmapped as error:
            return str(error)
        return ""

    def _translated(
        self, node: Any, kind: str, inputs: Sequence[Value | None], outputs: int, pattern: Pattern | None
    ) -> Sequence[Value]:
        if pattern is not None and isinstance(inputs[0], np.ndarray):
            return [pattern.folded(inputs[0])]
        keep = stays_quantized(kind, inputs)
        constant = [value for value in inputs if value is None or isinstance(value, np.ndarray)]
        if len(constant) == len(inputs) and not keep and pattern is None:
            arrays = self.evaluation.folded(node, constant, outputs)
            for name, array in zip(node.output, arrays, strict=False):
                self.t.entitle(array, name)
            return arrays
        attributes = self.evaluation.attributes_of(node) if pattern is None else dict(pattern.attributes)
        return self.evaluation.translated(
            self.t, kind, inputs, outputs, node.output, attributes, pattern is None
        )


def _with_outputs(onnx: Any, node: Any, alive: set[str]) -> Any:
    """The node without the names of outputs behind the first that nobody reads; itself where somebody reads all."""
    if all(name in alive for name in node.output[1:] if name):
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [name if not place or name in alive else "" for place, name in enumerate(node.output)]
    return copy


def _may_change(error: Exception, inputs: Sequence[Value]) -> bool:
    """Whether a node that failed may have a translation once sizes are known."""
    if isinstance(error, Untranslated):
        return False
    shapes = [value.shape for value in map(base_of, inputs) if isinstance(value, LogicalTensor)]
    return isinstance(error, LeftOpen) or any(shape is None or -1 in shape for shape in shapes)
