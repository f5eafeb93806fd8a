"""The user's arrays as buffers of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LogicalTensor, as_plain, row_major
from ....graph.runtime.arrays import Array
from ..library.memory import OpaqueLayout
from ..plan.emitter import Emitter
from ..plan.layouts import Layouts
from ..plan.steps import Buffer, HostStep
from .notes import Notes
from .tensors import Tensors, host_array, label_of, repeats, unknown_to_library


def place_ports(
    request: CompileRequest,
    opaque: Mapping[int, OpaqueLayout],
    layouts: Layouts,
    tensors: Tensors,
    emitter: Emitter,
    notes: Notes,
) -> None:
    """Says where inputs lie, and where outputs are wanted.

    Args:
        opaque: layouts of inputs that lie as another partition left them, by tensor id.
    """
    for number, tensor in enumerate((*request.inputs, *request.outputs)):
        layout = opaque.get(tensor.id)
        buffer = Buffer(layout.desc, number) if layout is not None else _argument(layouts, tensor, number)
        if number >= len(request.inputs):
            tensors.ports[tensor.id] = buffer
        elif repeats(tensor):
            tensors.produce(tensor, _apart(layouts, emitter, tensor, buffer))
            notes.reasons.append(
                f"input {label_of(tensor)!r} has strides {list(tensor.element_strides)}, under which elements share "
                "memory; it is copied first"
            )
        else:
            tensors.produce(tensor, buffer)


def _argument(layouts: Layouts, tensor: LogicalTensor, number: int) -> Buffer:
    plain = as_plain(tensor)
    if unknown_to_library(tensor) or repeats(
        tensor
    ):  # only steps on the host see it, which don't look at this
        return Buffer(layouts.bytes(tensor.nbytes), number)
    shape, strides = (plain.dims, plain.element_strides) if plain.dims else ((1,), (1,))
    return Buffer(layouts.desc(shape, strides, tensor.data_type), number)


def _apart(layouts: Layouts, emitter: Emitter, tensor: LogicalTensor, argument: Buffer) -> Buffer:
    """A copy, on the host, in which each element of an input has a place of its own."""
    copy = layouts.temporary(tensor.dims or (1,), tensor.data_type)
    arrays = tuple(
        host_array(tensor, strides) for strides in (tensor.element_strides, row_major(tensor.dims))
    )
    role = f"copy {label_of(tensor)}"
    emitter.steps.append(HostStep(role, _copy, ((0, argument), (1, copy)), arrays, 1, is_copy=True))
    return copy


def _copy(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    np.copyto(outputs[0], inputs[0])
