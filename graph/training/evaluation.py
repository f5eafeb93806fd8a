"""What of a graph that trains can be evaluated with some of its inputs."""

from __future__ import annotations

from collections.abc import Collection

from ...ops.errors import ArgumentError
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.topology import needed_ops
from ..precision.inference import evaluating


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
