"""What a model makes of data while it is trained: outputs, and means over batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...ops.errors import ArgumentError
from ..compile.compiled_graph import CompiledGraph
from ..compile.signature import Results
from ..graph import Graph
from ..model.builder import snake_case
from ..model.logical_tensor import LogicalTensor, label
from ..model.topology import needed_ops
from ..precision.inference import evaluating
from ..precision.rewriting import keep_outputs
from ..runtime.arrays import Array
from ..runtime.caching import BoundedCache
from ..runtime.locking import Lock
from ..runtime.parameter import Parameter
from .batch_checks import check_batch, check_batches, telling_lengths
from .meeting import meeting
from .metrics import Means, Metric
from .program import PREFIX, Feeds, Shapes, arrays_by_name, batch_size
from .scores import check_names
from .settings import Settings
from .source import Source, with_parameters

Model = tuple[CompiledGraph, str]
"""A model that is evaluated, and the name of the loss, which may be among its outputs."""
WEIGHT = f"{PREFIX}weight"
"""The output with what the loss is divided by."""


class Evaluation:
    """Runs a model as it is now.

    Args:
        source: of the graphs, with the parameters that are trained.
        averages: of parameters, by name, where there are some.
        lock: held while parameters are read, which no step changes then.
    """

    def __init__(
        self, source: Source, settings: Settings, averages: Mapping[str, Parameter], lock: Lock
    ) -> None:
        self._source, self._settings, self._averages, self._lock = source, settings, averages, lock
        self._models: BoundedCache[tuple[frozenset[str], Shapes, bool], Model] = BoundedCache(
            settings.kept_shapes, settings.again
        )

    def parameters(self, *, ema: bool) -> Mapping[str, Parameter]:
        """What is evaluated in the place of parameters: averages, by name, or nothing.

        Raises:
            ArgumentError: there are no averages.
        """
        if not ema:
            return {}
        if self._settings.ema is None:
            raise ArgumentError("ema=True wants averages of the parameters; give Trainer(…, ema=0.999)")
        return self._averages

    def graph(self, *, ema: bool) -> Graph:
        """The graph, or the same with averages in the place of what is trained.

        Raises:
            ArgumentError: there are none.
        """
        found = self.parameters(ema=ema)
        return with_parameters(self._source.graph, found) if found else self._source.graph

    @property
    def input_names(self) -> tuple[str, ...]:
        """Of the graph."""
        return self._source.graph.input_names

    def evaluate(self, feeds: Feeds, *, ema: bool = False) -> Results:
        """See `Trainer.evaluate`."""
        return self._run(arrays_by_name(self._source.graph, feeds), ema)[0]

    def validate(
        self, batches: Iterable[Feeds], metrics: Mapping[str, Metric] | None = None, *, ema: bool = False
    ) -> dict[str, float]:
        """See `Trainer.validate`."""
        wanted = dict(metrics or {})
        if "loss" in wanted:
            raise ArgumentError("validate: a metric can't be called 'loss', which is told anyway; rename it")
        self.check_metrics("validate: metrics", wanted)
        means, comm, examples = Means(), self._settings.comm, 0.0
        with meeting(comm, "Trainer.validate") as brought:
            check_batches(batches, "validate: batches", self.input_names)
            brought.value = (*wanted, ema) if ema else tuple(wanted)
            for feeds in batches:
                arrays = arrays_by_name(self._source.graph, feeds)
                found, weight, loss = self._run(arrays, ema)
                if loss not in found:
                    raise ArgumentError(
                        f"validate: the loss depends on more inputs than {', '.join(map(repr, sorted(arrays)))}; the "
                        f"graph takes {', '.join(map(repr, self._source.graph.input_names))}"
                    )
                size = batch_size(self._source.inputs, arrays)
                examples += size
                if size:  # of nothing there is no mean, and other processes may have more
                    if weight is None or weight:  # a mean of nothing that counts is NaN
                        means.add("loss", found[loss], size if weight is None else weight)
                    for name, metric in wanted.items():
                        means.add(name, metric(found, arrays))
        told = means.found({"loss": None, **wanted}, None if comm is None else comm.mean)
        if not (examples if comm is None else comm.mean(examples)):
            raise ArgumentError(
                "validate: there is nothing to take means of: the validation data has no batches; give a list, or a "
                "function that makes them for each epoch"
            )
        return told

    def check_metrics(self, what: str, metrics: Mapping[str, Metric]) -> None:
        """Sees to it that the outputs and inputs by which metrics of ours go are there, before anything runs.

        Raises:
            ArgumentError: one is not.
        """
        outputs = list(output_names(self._source.graph, self._source.loss).values())
        check_names(what, metrics, outputs, self._source.graph.input_names)

    def _run(self, arrays: Mapping[str, Array], ema: bool) -> tuple[Results, float | None, str]:
        """The outputs, how much the loss weighs in a mean with others, and its name.

        It weighs None where that is the size of the batch.
        """
        check_batch(self._source.inputs, arrays)
        names = frozenset(arrays)
        sizes = {name: a.shape for name, a in arrays.items()}
        shapes = tuple(sorted(sizes.items())) if self._source.template else ()
        with telling_lengths(self._source, sizes):
            model, loss = self._models.get((names, shapes, ema), lambda: self._model(names, shapes, ema))
            with self._lock:
                found = model(dict(arrays))
        if WEIGHT not in found:
            return found, None, loss
        return found.without(WEIGHT), float(found[WEIGHT].reshape(())), loss

    def _model(self, names: Collection[str], shapes: Shapes, ema: bool) -> Model:
        graph, loss = self._source.at(dict(shapes))
        weight = mean_weight(graph, loss)
        made = evaluated(with_parameters(graph, self.parameters(ema=ema)), loss, names, weight)
        return made.compile(**self._settings.compile_options), output_names(graph, loss)[loss.id]


def output_names(graph: Graph, loss: LogicalTensor) -> dict[int, str]:
    """The names of what `evaluated` has for outputs, by id; the loss is `loss` where it has no name of its own."""
    marked = {number: name or label(graph.tensor(number)) for name, number in graph.marked_outputs}
    assigned = {value.id for _, value in graph.assignments}
    found = marked or {t.id: label(t) for t in graph.outputs if t.id not in assigned}
    if loss.id in {number for name, number in graph.marked_outputs if name is not None}:
        return found
    taken = {label(t) for t in graph.tensors} | set(found.values())
    producer = next((op for op in graph.ops if any(t.id == loss.id for t in op.outputs)), None)
    unnamed = producer is not None and label(loss) == f"{snake_case(producer.kind)}_{producer.id}"
    found.pop(loss.id, None)
    return {**found, loss.id: "loss" if unnamed and "loss" not in taken else label(loss)}


def mean_weight(graph: Graph, loss: LogicalTensor) -> LogicalTensor | None:
    """What a loss that is a weighted mean is divided by, where labels are ignored or classes weigh; else None.

    Means of several batches are those of all their examples then, however they are put into batches.
    """
    producers = {t.id: op for op in graph.ops for t in op.outputs}
    op = producers.get(loss.id)
    while op is not None and op.kind in ("Multiply", "TypeCast"):  # by a number, −1 say
        others = [t for t in op.inputs if t.id not in graph.held_constants]
        if len(others) != 1:
            return None
        op = producers.get(others[0].id)
    if op is None or op.kind != "Divide":
        return None
    whole = producers.get(op.inputs[1].id)
    return whole.outputs[0] if whole is not None and whole.kind == "HostMeanWeight" else None


def evaluated(
    graph: Graph, loss: LogicalTensor, names: Collection[str], weight: LogicalTensor | None = None
) -> Graph:
    """What of the graph for evaluation these inputs are enough for, with the loss among its outputs where it is.

    Args:
        weight: an output more, where the loss is one.

    Raises:
        ArgumentError: no output depends on them alone.
    """
    assigned = {value.id for _, value in graph.assignments} - {number for _, number in graph.marked_outputs}
    more = set[int]() if weight is None else {weight.id}
    made = evaluating(graph, {loss.id, *more, *(t.id for t in graph.outputs)} - assigned)
    given = {t.id for t in made.inputs if label(t) in names}
    if loss.id not in {number for _, number in made.marked_outputs}:
        made.output(loss)
    others = {t.id for t in made.inputs} - given
    wanted = [
        t
        for t in made.outputs
        if not others.intersection(i.id for op in needed_ops(made.ops, {t.id}) for i in op.inputs)
    ]
    if not wanted:
        raise ArgumentError(
            f"no output depends on {', '.join(map(repr, sorted(names))) or 'nothing'} alone; the graph takes "
            f"{', '.join(map(repr, graph.input_names))}"
        )
    names_of = output_names(graph, loss) | dict.fromkeys(more, WEIGHT)
    return _only(made, {t.id for t in wanted}, given, names_of)


def _only(graph: Graph, wanted: set[int], given: set[int], names: Mapping[int, str]) -> Graph:
    """A graph with those of its outputs, under their names or these, and those of its inputs."""
    made = Graph(graph.engine_kind, fpmath_mode=graph.fpmath_mode)
    ops = needed_ops(graph.ops, wanted)
    for tensor in graph.inputs:
        if tensor.id in given:
            made.add_input(tensor)
    for number, array in graph.held_constants.items():
        made.add_constant(graph.tensor(number), array)
    tensors = {t.id: t for t in graph.parameter_tensors}
    for number, parameter in graph.held_parameters.items():
        made.add_parameter(tensors[number], parameter)
    for op in ops:
        made.add_op(op)
    for name, number in graph.marked_outputs:
        if number in wanted:
            made.output(made.tensor(number), name=name or names.get(number))
    made.prune()
    keep_outputs(made, wanted)
    return made
