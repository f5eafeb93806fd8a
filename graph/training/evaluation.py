"""From a graph that trains to one that evaluates: running statistics in the place of the batch's, and no Dropout."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ops.errors import UnsupportedError
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from ..model.topology import needed_ops, topological
from ..runtime.arrays import numpy_type


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
