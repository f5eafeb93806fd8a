"""From a graph that trains to one that evaluates: running statistics in the place of the batch's, and no Dropout."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from ...ops.errors import ArgumentError, UnsupportedError
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from ..model.topology import needed_ops, topological
from ..runtime.arrays import numpy_type


def evaluated(graph: Graph, loss: LogicalTensor, names: Collection[str]) -> Graph:
    """What of the graph for evaluation these inputs are enough for, with the loss among its outputs where it is.

    Raises:
        ArgumentError: no output depends on them alone.
    """
    made = evaluating(graph, loss)
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
    for tensor, array in zip(graph.constant_tensors, graph.constants.values(), strict=True):
        made.add_constant(tensor, array)
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


def evaluating(graph: Graph, loss: LogicalTensor) -> Graph:
    """The same graph for evaluation. It shares the parameters and assigns none.

    BatchNormForwardTraining becomes BatchNormInference with the running statistics that it is given, and Dropout hands
    its input on. Ops that outputs and loss don't depend on, as those of running statistics alone, are left out.

    Raises:
        UnsupportedError: an op reads what is computed in training alone, as statistics of the batch and masks are.
        GraphError: a cycle.
    """
    made = Graph(graph.engine_kind, fpmath_mode=graph.fpmath_mode)
    for tensor in graph.inputs:
        made.add_input(tensor)
    for tensor, array in zip(graph.constant_tensors, graph.constants.values(), strict=True):
        made.add_constant(tensor, array)
    tensors = {t.id: t for t in graph.parameter_tensors}
    for number, parameter in graph.held_parameters.items():
        made.add_parameter(tensors[number], parameter)
    instead: dict[int, LogicalTensor] = {}
    lost: dict[int, Op] = {}
    next_id = 1 + max([t.id for t in graph.tensors] + [op.id for op in graph.ops], default=0)
    kept = {value.id for _, value in graph.assignments}
    for op in topological(needed_ops(graph.ops, {loss.id, *(t.id for t in graph.outputs)})):
        inputs = [instead.get(t.id, t) for t in op.inputs]
        if op.kind in ("Dropout", "BatchNormForwardTraining"):
            lost |= {t.id: op for t in op.outputs[1:]}
        else:
            read = next((lost[t.id] for t in inputs if t.id in lost), None)
            if read is not None:
                raise UnsupportedError(
                    f"{op} reads what {read} has in training alone; the graph can't be evaluated with it"
                )
        if op.kind == "Dropout":
            instead[op.outputs[0].id] = inputs[0]
        elif op.kind == "BatchNormForwardTraining":
            next_id = _with_running_statistics(made, op, inputs, next_id)
        else:
            made.add_op(op.with_tensors(inputs, op.outputs))
    _mark(graph, made, instead, lost, kept)
    return made


def _with_running_statistics(made: Graph, op: Op, inputs: list[LogicalTensor], next_id: int) -> int:
    src, mean, variance, *affine = inputs
    for name in ("gamma", "beta")[len(affine) :]:
        value = np.full(mean.dims, float(name == "gamma"), numpy_type(mean.data_type))
        held = LogicalTensor(
            next_id, mean.data_type, mean.shape, property_type="constant", name=f"{op.name or op.id}.{name}"
        )
        affine.append(made.add_constant(held, value))
        next_id += 1
    made.add_op(
        Op(
            op.id,
            "BatchNormInference",
            [src, *affine, mean, variance],
            op.outputs[:1],
            name=op.name,
            epsilon=op.attributes.real("epsilon"),
            data_format=op.attributes.string("data_format"),
        )
    )
    return next_id


def _mark(
    graph: Graph, made: Graph, instead: Mapping[int, LogicalTensor], lost: Mapping[int, Op], kept: set[int]
) -> None:
    """The same outputs under the same names, but for what there is in training alone."""
    named = graph.marked_outputs
    marked = {number for _, number in named}
    others = [(None, t.id) for t in graph.outputs if t.id not in marked]
    for name, number in (*named, *others):
        if number in lost:
            continue
        tensor = instead.get(number)
        if tensor is None:
            made.output(made.tensor(number), name=name)
        else:
            made.output(tensor, name=name or label(graph.tensor(number)))
    wanted = {t.id for t in made.outputs} - {number for _, number in made.marked_outputs}
    for tensor in made.outputs:
        if tensor.id in wanted or (tensor.id in kept and tensor.id not in marked):
            made.drop_output(tensor)
