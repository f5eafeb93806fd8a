"""Ops as steps on the host, on plain arrays, where the library has no primitive for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import evolve

from ....graph.compile.backend import BACKENDS
from ....graph.model.logical_tensor import LogicalTensor, as_plain, row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array, numpy_type
from ....ops.schema import CUSTOM
from ..plan.steps import Buffer, HostArray, HostStep
from .lowering import Lowering
from .tensors import host_array, unknown_to_library


def on_host(low: Lowering, op: Op) -> None:
    """The op as a step on the host, on plain arrays in the types that it declares."""
    since = len(low.emitter.steps)
    inputs = [host_input(low, t) for t in op.inputs]
    outputs = [_output(low, t) for t in op.outputs]
    ins = tuple(as_plain(t) for t in op.inputs)
    outs = tuple(as_plain(t) for t in op.outputs)
    (executable,) = BACKENDS.get("numpy").compile(
        evolve(low.request, ops=(op.with_tensors(ins, outs),), inputs=ins, outputs=outs)
    )
    both = (*inputs, *outputs)
    low.emitter.steps.append(
        HostStep(
            f"{op.kind}",
            executable.run,
            tuple(enumerate(buffer for buffer, _ in both)),
            tuple(seen for _, seen in both),
            len(inputs),
            is_op=True,
            pure=op.schema.pure,
            # What a user's op makes is another thing where its kernel is another one.
            meaning=None if op.schema.family == CUSTOM else f"{op.kind} {sorted(op.attributes.items())}",
        )
    )
    low.notes.done.add(op.id)
    low.notes.hosted.append(op)
    low.emitter.belongs_to(op.id, since)


def host_input(low: Lowering, tensor: LogicalTensor) -> tuple[Buffer, HostArray]:
    """Where a step on the host reads a tensor, and how it sees that; of types that no primitive takes, too."""
    if unknown_to_library(tensor) is None:
        buffer = low.tensors.plain(tensor, tensor.data_type)
        return buffer, host_array(tensor, buffer.desc.strides or ())
    buffer = low.tensors.located(tensor)
    declared = low.edges.declared_input(tensor)
    if buffer is low.tensors.ports.get(
        tensor.id
    ):  # made by another step on the host, where the user wants it
        declared = low.edges.declared_output(tensor)
    strides = declared.element_strides if declared is not None else row_major(tensor.dims)
    return buffer, host_array(tensor, strides)


def _output(low: Lowering, tensor: LogicalTensor) -> tuple[Buffer, HostArray]:
    port = low.tensors.ports.get(tensor.id)
    declared = low.edges.declared_output(tensor)
    if port is not None and not low.edges.may_choose(tensor):
        low.tensors.produce(tensor, port)
        return port, host_array(tensor, as_plain(declared).element_strides)
    if unknown_to_library(tensor) is None:
        buffer = low.layouts.temporary(tensor.dims or (1,), tensor.data_type)
    else:
        buffer = Buffer(low.layouts.bytes(math.prod(tensor.dims) * numpy_type(tensor.data_type).itemsize))
    low.tensors.produce(tensor, buffer)
    return buffer, host_array(tensor, row_major(tensor.dims))


def zeros(low: Lowering, tensor: LogicalTensor) -> None:
    """Says that all elements are zero."""
    buffer, seen = _output(low, tensor)
    low.emitter.steps.append(HostStep("zeros", _fill_with_zeros, ((0, buffer),), (seen,), 0))


def _fill_with_zeros(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    del inputs
    outputs[0][...] = 0
