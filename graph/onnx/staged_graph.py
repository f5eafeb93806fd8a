"""StagedGraph: a model from ONNX that is no graph as a whole, because parts of it run by ONNX's reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from threading import local
from typing import Any, NoReturn, Unpack, cast

import numpy as np

from ...ops.data_types import DataType, parse_data_type
from ...ops.errors import ArgumentError, GraphError, UnsupportedError
from ..compile.compiled_graph import CompiledGraph
from ..compile.compiled_partition import bytes_of
from ..compile.options import CompileKeywords, CompileOptions, parse_options
from ..compile.partition import Partition
from ..compile.record import Explanations, Placed
from ..compile.signature import Arrays, Bound, Results, Signature, with_outputs
from ..compile.targets import check_apart
from ..compile.whole import compile_graph
from ..core.editing import reshaped_inputs
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from ..open_graph import OpenGraph
from ..runtime.arguments import target_array
from ..runtime.arrays import Array
from ..runtime.engine import Engine, Stream
from ..runtime.memory import MemoryTimeline
from ..runtime.tensor import check_array, plain_array
from .foreign import Foreign, foreign_of
from .reading import Model
from .stages import Ran, Stages, Trace
from .types import is_array

Convert = Callable[[Graph], Graph]
"""What is done to a graph before it is compiled."""


class StagedGraph(OpenGraph):
    """A model that is no graph as a whole: parts of it have no ops, or sizes that depend on values.

    `compile` works as ever. A call runs the model in stages, graphs of ours for the shapes that are there, and the
    nodes between them one by one: by our kernels where they take them then, else by ONNX's reference. `explain()` and
    `report()` of what `compile` returns name these nodes. Inputs and outputs of types that oneDNN Graph has none for
    (16-bit integers, text, sequences) have the data type `undef`.

    Args:
        inputs, outputs: see `OpenGraph`.
        model: what was read.
        convert: what is done to each graph before it is compiled.

    Attributes:
        model, convert: as given.
    """

    def __init__(
        self,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[tuple[str, LogicalTensor]],
        model: Model,
        convert: Convert | None = None,
    ) -> None:
        super().__init__((), (), self._never)
        self.inputs = tuple(inputs)
        self.outputs = tuple(t for _, t in outputs)
        self.input_names = tuple(map(label, self.inputs))
        self.output_names = tuple(name for name, _ in outputs)
        self.model = model
        self.convert = convert

    @property
    def foreign(self) -> dict[str, Foreign]:
        """Inputs of types that graphs don't have, by name."""
        infos = {info.name: info for info in self.model.proto.graph.input}
        return {label(t): foreign_of(infos[label(t)]) for t in self.inputs if t.data_type is DataType.undef}

    @staticmethod
    def _never(shapes: Mapping[str, tuple[int, ...]]) -> Graph:
        raise GraphError(f"no graph for the shapes {dict(shapes)}")

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> StagedGraph:
        """The same for inputs of these shapes; it is no graph for any.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown input, or no shape.
            ShapeError: a size that is known here is another one, or -1.
        """
        known = {name: shape for name, shape in shapes.items() if self._type_of(name) is not DataType.undef}
        inputs = {label(t): t for t in reshaped_inputs(self.inputs, known)}
        return StagedGraph(list(inputs.values()), self._named_outputs, self.model, self.convert)

    def compile(self, engine: Engine | None = None, **options: Unpack[CompileKeywords]) -> CompiledGraph:
        """Prepares it to be run in stages; see `Graph.compile`. What has shapes now is compiled at the first call.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown option, or a value that is none.
        """
        return CompiledStages(self, engine, parse_options(options))

    def to(self, data_type: DataType | str, *, keep: Collection[str] = (), ports: bool = True) -> StagedGraph:
        """The same with its graphs in another number format; see `OpenGraph.to`."""
        wanted = parse_data_type(data_type, "data_type")
        if not ports:
            raise GraphError(f"inputs can't be given another type: {self.no_graph()}")
        convert = partial(_converted, self.convert, wanted, tuple(keep))
        return StagedGraph(self.inputs, self._named_outputs, self.model, convert)

    def no_graph(self) -> str:
        """Why it is no graph, for messages."""
        return "parts of it run by ONNX's reference, or have sizes that depend on values; compile and call it"

    def _type_of(self, name: str) -> DataType | None:
        return next((t.data_type for t in self.inputs if label(t) == name), None)

    def __reduce__(self) -> tuple[type[StagedGraph], tuple[object, ...]]:
        return StagedGraph, (self.inputs, self._named_outputs, self.model, self.convert)

    def __repr__(self) -> str:
        return f"StagedGraph({', '.join(self.input_names)} → {', '.join(self.output_names)})"


class CompiledStages(CompiledGraph):
    """What `compile` makes of a model that runs in stages. Thread-safe.

    `partitions`, `explain()` and `nodes` tell of this thread's latest call.

    Args:
        graph: the model.
        engine: where its graphs run.
        options: of the compilation of each graph.
    """

    def __init__(self, graph: StagedGraph, engine: Engine | None, options: CompileOptions) -> None:
        named = list(zip(graph.output_names, graph.outputs, strict=True))
        self._begin(Signature(graph.inputs, named, ()), engine, partial(_prepared, graph, options.again()))
        self._foreign = graph.foreign
        self._takes = [(t.id, label(t), self._ports[t.id]) for t in self.inputs]
        compiled = partial(_compiled, self.engine, options, graph.convert, count())
        self._stages_of_model = Stages(graph.model, compiled)
        self._latest = local()

    def __call__(
        self,
        /,
        *arrays: object,
        outputs: Arrays | Sequence[object] | None = None,
        stream: Stream | None = None,
        **named: object,
    ) -> Results:
        """Runs the model; see `CompiledGraph`. Sequences are lists of arrays, what is optional may be None.

        Raises:
            UnsupportedError: a node that neither our kernels nor ONNX's reference compute for these values.
        """
        del stream  # nodes between the graphs have no order but that of the calls
        self.engine.check_open()
        arrays, outputs = with_outputs(arrays, outputs)
        targets = self._signature.outputs_of(outputs)
        given = self._by_name(arrays, named)
        tensors = dict(self._signature.outputs)
        written = {name: target_array(name, tensors[name], value) for name, value in targets.items()}
        check_apart(written, (), {}, parts=2)
        trace = Trace()
        made = self._stages_of_model.run(given, trace)
        self._latest.trace = trace
        values: dict[str, Any] = dict(zip(self.output_names, made, strict=True))
        for name, array in written.items():
            _check_target(name, array, values[name])
        results: dict[str, Any] = {}
        for name, value in values.items():
            # A target may be memory of an input, or a result of others' memory.
            others = [array for other, array in written.items() if other != name]
            results[name] = _owned(value, [*others, *results.values()], written=name in written)
        for name, array in written.items():
            np.copyto(array, results[name])
            results[name] = array
        return Results(results, self._signature)

    def bind(
        self, inputs: Arrays | Sequence[object], outputs: Arrays | Sequence[object] | None = None
    ) -> Bound:
        """Not for models that run in stages.

        Raises:
            ArgumentError: always.
        """
        del inputs, outputs
        raise ArgumentError(
            "the model can't be bound, for it runs in stages, whose sizes depend on values; call it instead"
        )

    def sources(self) -> NoReturn:
        """Not for models that run in stages.

        Raises:
            UnsupportedError: always.
        """
        kinds = ", ".join(dict.fromkeys(one.kind for one in self.nodes))
        raise UnsupportedError(
            f"the model can't be saved compiled, for it runs in stages, with nodes between its graphs"
            f"{f' ({kinds})' if kinds else ''}; save the ONNX model, and compile it where it runs"
        )

    def _by_name(self, arrays: Sequence[object], named: Mapping[str, object]) -> dict[str, Any]:
        """The inputs, checked, by name."""
        given = self._signature.inputs_of(arrays, named)
        found: dict[str, Any] = {}
        for number, name, port in self._takes:
            if number not in given:
                raise ArgumentError(
                    f"input {name!r} is missing; the model takes {', '.join(map(repr, self.input_names))}"
                )
            value, what = given[number], f"input {name!r}"
            if port.data_type is DataType.undef:
                found[name] = self._foreign[name].checked(value, what)
                continue
            array = plain_array(value, what)
            check_array(array, port, what)
            found[name] = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
        return found

    @property
    def _trace(self) -> Trace:
        """What this thread's latest call has done."""
        return getattr(self._latest, "trace", None) or Trace()

    @property
    def nodes(self) -> tuple[Ran, ...]:
        """Nodes that this thread's latest call has evaluated by themselves, in order."""
        return tuple(self._trace.nodes)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Of the graphs that this thread's latest call has run; none before."""
        return tuple(part for graph in self._trace.graphs for part in graph.partitions)

    @property
    def memory_bytes(self) -> int:
        """Memory beside arguments, results and constants, of the graphs of this thread's latest call, in bytes."""
        return bytes_of(self.memory())

    def memory(self) -> dict[object, int]:
        """See `CompiledGraph.memory`."""
        return {key: size for graph in self._trace.graphs for key, size in graph.memory().items()}

    @property
    def memory_timeline(self) -> MemoryTimeline:
        """See `CompiledGraph.memory_timeline`; of the graphs of this thread's latest call."""
        return MemoryTimeline(
            tuple(stage for graph in self._trace.graphs for stage in graph.memory_timeline.stages)
        )

    def explain(self) -> Explanations:
        """What was chosen for each partition at this thread's latest call, and which nodes ran by themselves."""
        told = {number: one for graph in self._trace.graphs for number, one in graph.explain().items()}
        return StagesExplained(told, self.nodes, called=hasattr(self._latest, "trace"))

    def _seconds_beside(self) -> Mapping[str, float]:
        seconds = Counter[str]()
        for one in self.nodes:
            seconds.update({one.by: one.seconds})
        return seconds

    def _record(self) -> list[Placed]:
        record = [one for graph in self._trace.graphs for placed in graph.placed().values() for one in placed]
        return record + [placed_node(number, one) for number, one in enumerate(self.nodes)]

    def _repr_html_(self) -> str:
        return repr(self)

    def __repr__(self) -> str:
        ins, outs = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"CompiledStages({ins} → {outs})"


def _check_target(name: str, array: Array, value: Any) -> None:
    """Sees to it that a result can be written into an array."""
    if not is_array(value):
        raise ArgumentError(f"output {name!r} is no tensor, and can't be written into an array; leave it out")
    if array.shape != np.shape(value) or array.dtype != value.dtype:
        raise ArgumentError(
            f"output {name!r} has shape {list(np.shape(value))} and type {value.dtype} for these inputs, "
            f"got an array of shape {list(array.shape)} and type {array.dtype} for it; leave it out"
        )


def _owned(value: Any, others: Sequence[Any], *, written: bool) -> Any:
    """A result with memory that is nobody else's; also what is in a sequence.

    Args:
        others: what it must not share memory with.
        written: whether it is only read, to be written elsewhere.
    """
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [_owned(one, [*others, *items[:n]], written=written) for n, one in enumerate(items)]
    if not is_array(value):
        return value
    # Of inputs and constants there are only views that can't be written to.
    view = not written and not (value.flags.writeable and value.flags.c_contiguous)
    if view or any(is_array(one) and np.may_share_memory(value, one) for one in _flattened(others)):
        return np.array(value, order="C")
    return value


def _flattened(values: Sequence[Any]) -> Iterator[Any]:
    """What is there, in sequences too."""
    for one in values:
        if isinstance(one, list):
            yield from _flattened(cast("list[Any]", one))
        else:
            yield one


class StagesExplained(Explanations):
    """What was chosen for each partition, and which nodes ran by themselves.

    Args:
        partitions: number → what was chosen.
        nodes: in the order in which they ran.
        called: whether there was a call to tell of.

    Attributes:
        nodes, called: as given.
    """

    def __init__(self, partitions: Mapping[int, Any], nodes: Sequence[Ran], *, called: bool) -> None:
        super().__init__(partitions)
        self.nodes = tuple(nodes)
        self.called = called

    def __str__(self) -> str:
        if not self.called:
            return (
                "the model runs in stages, which are made and compiled at its first call; call it once before "
                "explain(), on the same thread"
            )
        lines = [
            f"node {one.label!r} ({one.kind}) by itself, on {one.by}: {one.reason}" for one in self.nodes
        ]
        return "\n".join([*filter(None, [super().__str__()]), *lines])


def placed_node(number: int, ran: Ran) -> Placed:
    """The entry of a record for a node that ran by itself."""
    op = Op(number, "HostOnnx", [], [], name=ran.label, op=ran.kind, node="", takes="", gives="")
    return Placed(op=op, backend=ran.by, kernels=(ran.kind,), reason=ran.reason)


def _prepared(graph: StagedGraph, options: Mapping[str, Any], engine: Engine | None) -> CompiledStages:
    return CompiledStages(graph, engine, CompileOptions(**options))


def _compiled(
    engine: Engine, options: CompileOptions, convert: Convert | None, numbers: Iterator[int], graph: Graph
) -> CompiledGraph:
    """A stage's graph, whose partitions have numbers that none of another stage has."""
    made = graph if convert is None else convert(graph)
    return compile_graph(made, engine, options, numbers=numbers)


def _converted(convert: Convert | None, data_type: DataType, keep: Collection[str], graph: Graph) -> Graph:
    """The graph in another number format; a function, so that it can be pickled."""
    names = {op.name for op in graph.ops}
    made = graph if convert is None else convert(graph)
    return made.to(data_type, keep=[name for name in keep if name in names])
