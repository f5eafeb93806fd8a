"""Masks of places, with one element where all along an axis are alike.

GenIndex gives each element of a tensor its place along one axis, and a causal mask is made of two such and a few ops of
each element: for every head of every image the same. Here they have the axes along which they differ, and one element
along the others; who reads them broadcasts.
"""

from __future__ import annotations

from itertools import count

import numpy as np
from attrs import evolve

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op

COMPUTED = frozenset({"Add", "GreaterEqual", "Maximum", "Minimum", "Multiply", "Subtract"})
"""Kinds whose results have one element where all of their inputs have one."""
READERS = COMPUTED | {"Select"}
"""Kinds that may read fewer elements, for they broadcast."""


def narrowed(request: CompileRequest) -> CompileRequest:
    """The same, with what ops make of places alone as small as it may be."""
    if not any(op.kind == "GenIndex" for op in request.ops):
        return request
    free = _read_by_broadcasting(request)
    new = count(1 + max(t.id for op in request.ops for t in (*op.inputs, *op.outputs)))
    small: dict[int, LogicalTensor] = {}
    ops: list[Op] = []
    for op in request.ops:
        inputs, outputs = [small.get(t.id, t) for t in op.inputs], op.outputs
        dims = _own_dims(op, inputs)
        if dims != outputs[0].dims and outputs[0].id in free:
            made = LogicalTensor(next(new), outputs[0].data_type, dims, name=outputs[0].name)
            small[outputs[0].id] = made
            outputs = (made,)
        ops.append(op.with_tensors(inputs, outputs))
    return evolve(request, ops=tuple(ops))


def _read_by_broadcasting(request: CompileRequest) -> set[int]:
    """Ids of tensors that ops of the request alone read, all of which broadcast."""
    kept = {t.id for t in request.outputs}
    for op in request.ops:
        if op.kind not in READERS or op.attributes.get("auto_broadcast") == "none":
            kept.update(t.id for t in op.inputs)
    return {t.id for op in request.ops for t in op.outputs} - kept


def _own_dims(op: Op, inputs: list[LogicalTensor]) -> tuple[int, ...]:
    """The shape in which the op's first result differs."""
    dims = op.outputs[0].dims
    if op.kind == "GenIndex":
        along = op.attributes.integer("axis") % len(dims)
        return tuple(d if axis == along else 1 for axis, d in enumerate(dims))
    if op.kind not in COMPUTED:
        return dims
    own = np.broadcast_shapes(*(t.dims for t in inputs))
    return (1,) * (len(dims) - len(own)) + own
