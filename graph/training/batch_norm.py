"""BatchNorm over all ranks: statistics of the whole batch, of which each rank has its part."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.formats import axis_positions
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..runtime.arrays import numpy_type


class Ranks(Protocol):
    """What ops need of a communicator."""

    @property
    def key(self) -> int: ...

    @property
    def size(self) -> int: ...


def synchronise_batch_norm(graph: Graph, comm: Ranks) -> None:
    """Puts ops that take statistics over all ranks in the place of each BatchNormForwardTraining.

    They make the same tensors. The mean over the ranks is one of means, so all ranks must have equally much data.
    Gradients flow through the sums over the ranks like through any op, so this comes before `graph.gradients`.

    Args:
        graph: open.
        comm: of this rank; all ranks do the same.

    Raises:
        UnsupportedError: a source whose number of axes is not known.
    """
    for op in graph.ops:
        if op.kind == "BatchNormForwardTraining":
            _correct_by_all(graph, comm, op)
            _synchronise(graph, comm, op)


def _correct_by_all(graph: Graph, comm: Ranks, op: Op) -> None:
    """Where the running variance gets a number · variance more, as in torch, the number is made that of all ranks.

    It is share / (count − 1) then, and the count is that of all ranks from now on.
    """
    src, running, variance = graph.tensor(op.inputs[0].id), op.outputs[2], op.outputs[4]
    held = graph.held_constants
    if not src.is_concrete or variance.shape is None:
        return
    count = math.prod(src.dims) // math.prod(graph.tensor(variance.id).dims)
    added = {t.id for sum_ in graph.ops if _reads(sum_, "Add", running) for t in sum_.inputs}
    for product in graph.ops:
        if not _reads(product, "Multiply", variance) or product.outputs[0].id not in added:
            continue
        factor = held.get(product.inputs[1].id)
        if factor is not None and factor.size == 1 and count > 1:
            exact = factor.astype(np.float64) * ((count - 1) / (count * comm.size - 1))
            of_all = graph.constant(exact.astype(factor.dtype))
            graph.replace_ops([product.with_tensors([variance, of_all], product.outputs)])


def _reads(op: Op, kind: str, tensor: LogicalTensor) -> bool:
    """Whether an op is of a kind and has the tensor as its first operand."""
    return op.kind == kind and op.inputs[0].id == tensor.id


def _synchronise(graph: Graph, comm: Ranks, op: Op) -> None:
    src, given_mean, given_variance, *affine = (graph.tensor(t.id) for t in op.inputs)
    if src.shape is None:
        raise UnsupportedError(f"{op}: the number of axes of {src} must be known; describe its shape")
    layout = op.attributes.string("data_format")
    channel = axis_positions(layout, len(src.shape) - 2)["C"][0]
    others = [axis for axis in range(len(src.shape)) if axis != channel]
    along = [-1 if axis == channel else 1 for axis in range(len(src.shape))]
    own = given_mean.data_type  # of parameters and statistics
    wide = DataType.f64 if own is DataType.f64 else DataType.f32
    dst, running_mean, running_variance, mean, variance = op.outputs
    graph.take_out(op)

    def number(value: float, data_type: DataType) -> LogicalTensor:
        return graph.constant(np.asarray(value, numpy_type(data_type)))

    def cast(tensor: LogicalTensor, to: DataType) -> LogicalTensor:
        return tensor if tensor.data_type is to else graph.op("TypeCast", tensor, output_type=to)

    def make(kind: str, output: LogicalTensor, *inputs: LogicalTensor, **attributes: object) -> None:
        number = graph.fresh_id()
        graph.add_op(Op(number, kind, inputs, [output], name=f"{op.name}.{kind}_{number}", **attributes))

    def mean_of(values: LogicalTensor, output: LogicalTensor) -> LogicalTensor:
        """The mean over all ranks, in the wide type; what is given out is of the parameters'."""
        total = graph.op(
            "HostRankSum",
            graph.op("ReduceMean", values, axes=others, keep_dims=False),
            communicator=comm.key,
        )
        if own is wide:
            make("Divide", output, total, number(comm.size, wide))
            return graph.tensor(output.id)
        found = graph.op("Divide", total, number(comm.size, wide))
        make("TypeCast", output, found)
        return found

    values = cast(src, wide)
    centre = mean_of(values, mean)
    away = graph.op("Subtract", values, graph.op("StaticReshape", centre, shape=along, special_zero=False))
    mean_of(graph.op("Square", away), variance)
    for channels in ([np.ones, np.zeros])[len(affine) :]:
        affine.append(graph.constant(channels(given_mean.dims, numpy_type(own))))
    make(
        "BatchNormInference",
        dst,
        src,
        *affine,
        graph.tensor(mean.id),
        graph.tensor(variance.id),
        epsilon=op.attributes.real("epsilon"),
        data_format=layout,
    )
    momentum = op.attributes.real("momentum") if "momentum" in op.attributes else 0.0
    for running, given, batch in (
        (running_mean, given_mean, mean),
        (running_variance, given_variance, variance),
    ):
        stays = graph.op("Multiply", given, number(momentum, own))
        comes = graph.op("Multiply", graph.tensor(batch.id), number(1 - momentum, own))
        make("Add", running, stays, comes)
