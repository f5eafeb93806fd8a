"""A model that is no graph as a whole, run in stages.

Of the nodes that have not run yet, a stage is what can become a graph of ours, given the shapes and types of the values
that are there. Nodes behind it that can't be part of a graph are evaluated one by one: by our kernels where they take
the node once the values of its inputs are known, else by ONNX's reference. Then the next stage begins. Stages are kept
for the shapes and types that they were made for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any

import numpy as np
from attrs import evolve, field

from ...ops.errors import OneDNNGraphError, UnsupportedError
from ...ops.records import define, frozen
from ..compile.compiled_graph import CompiledGraph
from ..graph import Graph
from ..importing.results import finished
from ..importing.translation import FAILURES, reason_of, unsupported
from ..model.logical_tensor import LogicalTensor
from ..model.numpy_types import DATA_TYPES
from ..runtime import profiling
from ..runtime.arrays import Array
from ..runtime.caching import BoundedCache
from .checks import label_of
from .contrib.table import REWRITES
from .control import CONTROL
from .evaluation import Evaluation
from .folding import reference_first
from .importer import Importer
from .own import OWN
from .plain import at_once
from .reading import Model, constants_of
from .table import TABLE
from .types import NUMBERS, is_array
from .waiting import Waiting

MAX_STAGES = 8
"""Stages that are kept for different shapes of what goes into them."""

Values = dict[str, Any]
"""What is there while a model runs: arrays, lists of them, or None, by name."""
Key = tuple[object, ...]


@frozen
class Ran:
    """A node that was evaluated by itself.

    Attributes:
        kind: its op.
        label: its name.
        by: `numpy` or `reference`.
        reason: why it is in no graph.
        seconds: how long it took.
    """

    kind: str
    label: str
    by: str
    reason: str
    seconds: float


@frozen(eq=False)
class Stage:
    """What runs next.

    Attributes:
        compiled: a graph of ours; None where there is none.
        feeds: names of what it takes.
        seeds: names of inputs for the seeds of random numbers.
        aliases: name → the name of what is there already.
        folded: constants that were computed, by name.
        waiting: nodes behind it.
        next: the stages after it.
    """

    compiled: CompiledGraph | None
    feeds: tuple[str, ...]
    seeds: tuple[str, ...]
    aliases: Mapping[str, str]
    folded: Mapping[str, Array]
    waiting: tuple[Waiting, ...]
    next: BoundedCache[Key, Stage] = field(factory=lambda: BoundedCache[Key, "Stage"](MAX_STAGES))
    _read: BoundedCache[Key, list[str]] = field(
        init=False, factory=lambda: BoundedCache[Key, list[str]](MAX_STAGES)
    )

    def __call__(self, values: Values) -> None:
        """Adds what it computes to the values."""
        if self.compiled is not None:
            feeds: dict[str, Any] = {name: np.asarray(values[name], order="C") for name in self.feeds}
            feeds |= {name: np.asarray(np.random.default_rng().integers(2**62)) for name in self.seeds}
            values.update(self.compiled(feeds))
        values.update(self.folded)
        for name, source in self.aliases.items():
            values[name] = values[source]

    def described(
        self, rest: Sequence[Waiting], values: Values, constants: Mapping[str, Array], outputs: Sequence[str]
    ) -> tuple[Key, dict[str, Array]]:
        """What tells the stages after it apart, and the values that may go into one.

        Args:
            rest: the nodes that are left.
            values: what is there.
            constants: of the model; what is the same at each call tells nothing.
            outputs: names of the model's outputs.
        """

        def names() -> list[str]:
            found = {name for one in rest for name in one.reads}.union(outputs)
            return sorted(found.difference(constants, self.folded))

        left = tuple(one.place for one in rest)
        described: dict[str, Array] = {}
        key: list[object] = [left]
        for name in self._read.get(left, names):
            if name not in values:
                continue
            value = values[name]
            if is_array(value) and value.dtype in DATA_TYPES:
                described[name] = value
                key.append((name, value.dtype, value.shape))
            else:
                key.append((name, type(value).__name__))
        return tuple(key), described


class Stages:
    """A graph of an ONNX model, run in stages.

    Args:
        model: the graph with its constants.
        compile_graph: prepares a graph of ours.
        repeated: whether it is the body of a loop, or inside one: what goes into it has other sizes each time, as often
            as not. The graph of an If is met with the same ones call after call.

    Attributes:
        outputs: names.
    """

    def __init__(
        self, model: Model, compile_graph: Callable[[Graph], CompiledGraph], *, repeated: bool = False
    ) -> None:
        self._repeated = repeated
        self._compile = compile_graph
        self._evaluation = Evaluation(model)
        self._inner: BoundedCache[int, Stages] = BoundedCache(1 << 20)
        self._graphs: list[Any] = []
        nodes = [
            Waiting(number, node, label_of(node, number), "", len(node.output))
            for number, node in enumerate(model.proto.graph.node)
        ]
        constants = {name: _read_only(array) for name, array in model.constants.items()}
        self._start = Stage(None, (), (), {}, {}, self._folded(nodes, constants))
        self._model = evolve(model, constants=constants)
        self._first = repeated or all(_is_alone(one.kind) and one.kind in OWN for one in self._start.waiting)
        self.outputs = [info.name for info in model.proto.graph.output]

    def run(self, given: Mapping[str, Any], trace: Trace) -> list[Any]:
        """The outputs, in order.

        Args:
            given: its inputs, and for a graph inside a node what that reads from around it.
            trace: is told what runs.

        Raises:
            UnsupportedError: a node that neither our kernels nor ONNX's reference compute.
        """
        values: Values = {**self._model.constants}
        values.update((name, _read_only(value)) for name, value in given.items())
        stage, rest = self._start, self._start.waiting
        if self._first:
            rest = self._evaluated(rest, values, trace)
        while any(name not in values for name in self.outputs):
            key, described = stage.described(rest, values, self._model.constants, self.outputs)
            before, left = stage, rest
            stage = before.next.get(
                key, lambda b=before, r=left, d=described, v=values: self._made(b, r, d, v)
            )
            trace.stage(stage.compiled)
            stage(values)
            rest = self._evaluated(stage.waiting, values, trace)
        return [values[name] for name in self.outputs]

    # --- stages ---

    def _folded(self, nodes: Sequence[Waiting], constants: dict[str, Array]) -> tuple[Waiting, ...]:
        """The nodes that are left once those are computed that read constants alone and gain nothing by a graph.

        Args:
            nodes: in order.
            constants: what is there; what is computed is added.
        """
        left: list[Waiting] = []
        for one in nodes:
            if any(one.outputs) and all(name in constants for name in one.outputs if name):
                continue  # Constant
            made: Sequence[Array] = ()
            if one.reads and not one.captured and all(not name or name in constants for name in one.inputs):
                inputs = [constants[name] if name else None for name in one.inputs]
                if at_once(one.kind, inputs):
                    with suppress(*FAILURES):  # they are told where it is needed
                        made = self._evaluation.folded(one.node, inputs, one.needed)
            if not made:
                left.append(one)
            pairs = zip(one.outputs, made, strict=False)
            constants.update((name, _read_only(value)) for name, value in pairs if name)
        return tuple(left)

    def _made(
        self, before: Stage, rest: Sequence[Waiting], given: Mapping[str, Array], values: Values
    ) -> Stage:
        """The stage after another one for values of these types and shapes."""
        folded = dict(before.folded)
        constants = {**self._model.constants, **folded}
        foreign = [name for name in values if name not in given and name not in constants]
        importer = Importer(self._part(rest, given, constants), {})
        importer.broken.update(foreign)
        importer.translate()
        if importer.refused:
            raise unsupported(importer.refused, "ONNX model")
        wanted = {name for one in importer.waiting for name in one.reads}
        wanted.update(self.outputs)
        computed: dict[str, Any] = {}
        aliases: dict[str, str] = {}
        inputs = {t.id: t.name for t in importer.t.graph.inputs}
        for name in sorted(wanted):
            value = importer.values.get(name)
            if value is None or name in given or name in constants:
                continue
            if isinstance(value, np.ndarray):
                folded[name] = _read_only(value)
            elif isinstance(value, LogicalTensor) and value.id in inputs:
                aliases[name] = value.name
            else:
                computed[name] = value
        compiled = None
        feeds: tuple[str, ...] = ()
        seeds: tuple[str, ...] = ()
        if computed:
            graph = finished(importer.t, computed, "from_onnx", for_sizes=True)
            names = [t.name for t in graph.inputs]
            feeds = tuple(name for name in names if name in given)
            seeds = tuple(name for name in names if name not in given)
            compiled = self._compile(graph)
        waiting = tuple(_placed(one, rest[one.number]) for one in importer.waiting)
        return Stage(compiled, feeds, seeds, aliases, folded, waiting)

    def _part(
        self, rest: Sequence[Waiting], given: Mapping[str, Array], constants: Mapping[str, Array]
    ) -> Model:
        """A model of the nodes that are left, whose inputs are the values that are there."""
        onnx = self._model.onnx
        info = onnx.helper.make_tensor_value_info
        proto = onnx.ModelProto(
            ir_version=self._model.proto.ir_version, opset_import=self._model.proto.opset_import
        )
        proto.graph.node.extend(one.node for one in rest)
        proto.graph.input.extend(info(name, NUMBERS[a.dtype], a.shape) for name, a in given.items())
        proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in self.outputs)
        return evolve(self._model, proto=proto, constants=constants, plain=True)

    # --- nodes by themselves ---

    def _evaluated(self, waiting: Sequence[Waiting], values: Values, trace: Trace) -> tuple[Waiting, ...]:
        """Evaluates what can be no part of a graph; the nodes that are left."""
        rest: list[Waiting] = []
        late: set[str] = set()
        for one in waiting:
            if late and any(name in late for name in one.reads):
                late.update(one.outputs)
                rest.append(one)
                continue
            inputs = [values[name] if name else None for name in one.inputs]
            if (
                not (one.failed or _is_alone(one.kind))
                and _may_be_translated(one.kind, inputs)
                and not at_once(one.kind, inputs)
            ):
                late.update(one.outputs)
                rest.append(one)
                continue
            self._evaluate(one, inputs, values, trace)
        return tuple(rest)

    def _evaluate(self, one: Waiting, inputs: Sequence[Any], values: Values, trace: Trace) -> None:
        node, kind, label = one.node, one.kind, one.label
        start = perf_counter()
        if kind in CONTROL:
            body, place = _Body(self, one, values, trace), len(trace.nodes)
            try:
                made = CONTROL[kind](body, inputs)
            except OneDNNGraphError:
                raise
            except FAILURES as error:
                raise _cannot_run(label, kind, error) from error
            times = (
                f"its graphs ran {body.runs} times, in stages"
                if body.runs != 1
                else "its graph ran in stages"
            )
            ran = Ran(kind, label, "numpy", times, perf_counter() - start - body.seconds)
            trace.nodes.insert(place, ran)
        else:
            try:
                by, made = self._evaluation.value(node, inputs, one.needed)
            except FAILURES as error:
                raise _cannot_run(label, kind, error) from error
            end = perf_counter()
            if profiling.recordings:
                profiling.record(profiling.EventKind.host, f"{kind} {label}", by, (), start, end)
            trace.nodes.append(Ran(kind, label, by, one.failed or "its inputs are in no graph", end - start))
        for name, value in zip(one.outputs, made, strict=False):
            if name:
                values[name] = value

    def inner(self, graph: Any, kind: str) -> Stages:
        """A graph inside a node of a kind, which reads what stands around it."""

        def made() -> Stages:
            onnx = self._model.onnx
            proto = onnx.ModelProto(
                ir_version=self._model.proto.ir_version,
                opset_import=self._model.proto.opset_import,
                graph=graph,
            )
            # Names inside are new ones, or those of around: constants of there stay constants, but for what has their
            # names inside.
            own_names = {value.name for value in graph.input}.union(*(node.output for node in graph.node))
            around = {name: array for name, array in self._model.constants.items() if name not in own_names}
            constants = {**around, **constants_of(onnx, graph, self._model.fold_limit)}
            self._graphs.append(graph)  # so that its id is that of no other
            repeated = self._repeated or kind != "If"
            # What was made of weights elsewhere may have the same names.
            own = evolve(self._model, proto=proto, constants=constants, kept={})
            return Stages(own, self._compile, repeated=repeated)

        return self._inner.get(id(graph), made)


@define(eq=False)
class _Body:
    """A node with graphs inside, as control flow runs it.

    Attributes:
        runs: how often one of them ran.
        seconds: how long that took.
    """

    stages: Stages
    waiting: Waiting
    values: Values
    trace: Trace
    runs: int = 0
    seconds: float = 0.0

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the node."""
        return next((_attribute(a) for a in self.waiting.node.attribute if a.name == name), default)

    def run(self, graph: Any, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a graph inside the node."""
        inner = self.stages.inner(graph, self.waiting.kind)
        given = {name: self.values[name] for name in self.waiting.captured}
        given |= {info.name: value for info, value in zip(graph.input, inputs, strict=True)}
        start = perf_counter()
        made = inner.run(given, self.trace)
        self.seconds += perf_counter() - start
        self.runs += 1
        return made


def _read_only(value: Any) -> Any:
    """An array as one that is not to be written to, so that a result which is memory of it tells."""
    if not is_array(value):
        return value
    view = value.view()
    view.flags.writeable = False
    return view


def _attribute(attribute: Any) -> Any:
    if attribute.HasField("g"):
        return attribute.g
    return list(attribute.ints) if attribute.ints else attribute.i


def _cannot_run(label: str, kind: str, error: Exception) -> UnsupportedError:
    return UnsupportedError(
        f"node {label!r} ({kind}) of the ONNX model can't be run: {reason_of(error)}; replace it in the "
        "model, or cut the model there and run this part elsewhere"
    )


class Trace:
    """What one run of a model has done.

    Attributes:
        graphs: graphs of ours that ran, each once.
        nodes: nodes that were evaluated by themselves.
    """

    def __init__(self) -> None:
        self.graphs: list[CompiledGraph] = []
        self.nodes: list[Ran] = []

    def stage(self, compiled: CompiledGraph | None) -> None:
        """Notes that a graph runs."""
        if compiled is not None and all(compiled is not known for known in self.graphs):
            self.graphs.append(compiled)


def _placed(one: Waiting, before: Waiting) -> Waiting:
    """A node that an import of what was left has left over, as what was left has it."""
    defining = one.defining or before.defining
    node = one.node if one.defining else before.node
    return evolve(one, number=before.number, node=node, defining=defining)


def _is_alone(kind: str) -> bool:
    """Whether no graph has an op, whatever its inputs are."""
    return kind not in TABLE and kind not in REWRITES


def _may_be_translated(kind: str, inputs: Sequence[Any]) -> bool:
    """Whether a node may be part of a graph, given its inputs."""
    arrays = [value for value in inputs if value is not None]
    if (kind not in TABLE and kind not in REWRITES) or not all(
        is_array(v) and v.dtype in DATA_TYPES for v in arrays
    ):
        return False
    return not reference_first(kind, inputs)
