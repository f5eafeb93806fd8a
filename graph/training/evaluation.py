"""What a model makes of data while it is trained: outputs, and means over batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ...ops.errors import ArgumentError
from ..compile.compiled_graph import CompiledGraph
from ..compile.signature import Results
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.topology import needed_ops
from ..precision.inference import evaluating
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter
from .ema import with_averages
from .meeting import meeting
from .metrics import Means, Metric, batch_size
from .program import Feeds, arrays_by_name
from .settings import Settings


class Evaluation:
    """Runs a model as it is now.

    Args:
        graph: open, with the parameters that are trained.
        loss: one number, of the graph.
        averages: of parameters, by name, where there are some.
    """

    def __init__(
        self, graph: Graph, loss: LogicalTensor, settings: Settings, averages: Mapping[str, Parameter]
    ) -> None:
        self._graph, self._loss, self._settings = graph, loss, settings
        self._averages = averages
        self._models: dict[tuple[frozenset[str], bool], CompiledGraph] = {}

    def graph(self, *, ema: bool) -> Graph:
        """The graph, or the same with averages in the place of what is trained.

        Raises:
            ArgumentError: there are none.
        """
        if not ema:
            return self._graph
        if self._settings.ema is None:
            raise ArgumentError("ema=True wants averages of the parameters; give Trainer(…, ema=0.999)")
        return with_averages(self._graph, self._averages)

    def evaluate(self, feeds: Feeds, *, ema: bool = False) -> Results:
        """See `Trainer.evaluate`."""
        return self._run(arrays_by_name(self._graph, feeds), ema)

    def validate(
        self, batches: Iterable[Feeds], metrics: Mapping[str, Metric] | None = None, *, ema: bool = False
    ) -> dict[str, float]:
        """See `Trainer.validate`."""
        wanted = dict(metrics or {})
        if "loss" in wanted:
            raise ArgumentError("validate: a metric can't be called 'loss', which is told anyway; rename it")
        means, comm = Means(), self._settings.comm
        with meeting(comm, "Trainer.validate") as brought:
            brought.value = (*wanted, ema) if ema else tuple(wanted)
            for feeds in batches:
                arrays = arrays_by_name(self._graph, feeds)
                found = self._run(arrays, ema)
                if self._loss not in found:
                    raise ArgumentError(
                        f"validate: the loss depends on more inputs than {', '.join(map(repr, sorted(arrays)))}; the "
                        f"graph takes {', '.join(map(repr, self._graph.input_names))}"
                    )
                size = batch_size(arrays.values())
                if size:  # of nothing there is no mean, and other processes may have more
                    means.add("loss", found[self._loss], size)
                    for name, metric in wanted.items():
                        means.add(name, metric(found, arrays))
        told = means.found({"loss": None, **wanted}, None if comm is None else comm.mean)
        counted = means.sums.get("loss", (0.0, 0.0))[1]
        if not (counted if comm is None else comm.mean(counted)):
            raise ArgumentError(
                "validate: there is nothing to take means of: the validation data has no batches; give a list, or a "
                "function that makes them for each epoch"
            )
        return told

    def _run(self, arrays: Mapping[str, Array], ema: bool) -> Results:
        names = frozenset(arrays)
        if (names, ema) not in self._models:
            graph = evaluated(self.graph(ema=ema), self._loss, names)
            self._models[names, ema] = graph.compile(**self._settings.compile_options)
        return self._models[names, ema](dict(arrays))


def evaluated(graph: Graph, loss: LogicalTensor, names: Collection[str]) -> Graph:
    """What of the graph for evaluation these inputs are enough for, with the loss among its outputs where it is.

    Raises:
        ArgumentError: no output depends on them alone.
    """
    assigned = {value.id for _, value in graph.assignments} - {number for _, number in graph.marked_outputs}
    made = evaluating(graph, {loss.id, *(t.id for t in graph.outputs)} - assigned)
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
    return _only(made, {t.id for t in wanted}, given)


def _only(graph: Graph, wanted: set[int], given: set[int]) -> Graph:
    """A graph with those of its outputs, under their names, and those of its inputs."""
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
            made.output(made.tensor(number), name=name)
    made.prune()
    return made
