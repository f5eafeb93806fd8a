"""From a subgraph and concrete tensors to what runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ...ops.errors import LayoutError
from ..model.inference import infer
from ..model.logical_tensor import (
    LayoutType,
    LogicalTensor,
    PropertyType,
    as_plain,
    evolve_tensor,
    may_overlap,
)
from ..model.op import port_names
from ..runtime.engine import Engine
from .backend import BACKENDS, CompileRequest
from .building import Built, RequestPart, build
from .options import CompileOptions
from .subgraph import Subgraph


def specialise(
    subgraph: Subgraph,
    inputs: tuple[LogicalTensor, ...],
    outputs: tuple[LogicalTensor, ...],
    engine: Engine,
    values: Mapping[int, tuple[int, ...]],
    options: CompileOptions,
) -> Built:
    """An executable for these tensors and values of shape operands, from the first backend that can.

    Args:
        subgraph: what is compiled.
        inputs: its input ports, concrete, in order.
        outputs: its output ports as they are declared; unknown shapes are inferred.
        engine: where it will run.
        values: of shape operands, by tensor id.
        options: of the compilation.

    Raises:
        UnsupportedError: no backend can run it; the message has each one's reason.
        LayoutError: an output has strides that overlap.
    """
    unchanged = not values and inputs == subgraph.input_ports and outputs == subgraph.output_ports
    resolved, ops = outputs, subgraph.ops
    if not unchanged or not all(t.is_concrete for t in outputs):
        known = {t.id: as_plain(t) for t in inputs} | {t.id: t for t in outputs}
        tensors, resolved_ops = infer(subgraph.ops, known, values)
        resolved, ops = tuple(tensors[t.id] for t in outputs), tuple(resolved_ops)
    for tensor in resolved:
        if tensor.layout_type is LayoutType.strided and may_overlap(tensor.dims, tensor.element_strides):
            raise LayoutError(
                f"{port_names(subgraph.ops)[tensor.id]}, {tensor}, has strides {list(tensor.element_strides)} "
                "that overlap; give each element a place of its own"
            )
    if not all(t.is_concrete for t in subgraph.input_ports):
        options.shared.for_sizes = True
    request = CompileRequest(
        ops=ops,
        inputs=tuple(_settled(subgraph, as_plain(t)) for t in inputs),
        outputs=resolved,
        engine=engine,
        fpmath_mode=subgraph.fpmath_mode,
        values=values,
        forced=subgraph.forced,
        options=options,
        described=inputs,
        narrow=subgraph.narrow,
        version=subgraph.version if subgraph.steady else None,
    )
    claimed = BACKENDS.get(subgraph.backend)
    others = () if subgraph.forced else tuple(b for b in BACKENDS.candidates() if b is not claimed)
    # Of what is joined each part was asked for by itself: its backend takes others' ops along as they are.
    asked = ops is subgraph.ops or len(subgraph.parts) > 1
    return build(request, (claimed, *others), asked=asked, parts=_parts_of(subgraph, request, values))


def _settled(subgraph: Subgraph, tensor: LogicalTensor) -> LogicalTensor:
    """A parameter that nobody assigns as a constant, so that what is made of it can be kept."""
    if tensor.id not in subgraph.steady:
        return tensor
    return evolve_tensor(tensor, property_type=PropertyType.constant)


def _parts_of(
    subgraph: Subgraph, request: CompileRequest, values: Mapping[int, tuple[int, ...]]
) -> list[RequestPart]:
    """The joined partitions with the tensors of a request; none where there is one, or where they are tried at once."""
    if len(subgraph.parts) == 1 or all(op.schema.pure for op in request.ops):
        return []
    tensors = {t.id: as_plain(t) for op in request.ops for t in (*op.inputs, *op.outputs)}
    made: list[RequestPart] = []
    for part in subgraph.parts:
        inputs, outputs = (
            tuple(tensors[t.id] for t in ports) for ports in (part.input_ports, part.output_ports)
        )
        compiled = partial(specialise, part, inputs, outputs, request.engine, values, request.options)
        made.append(RequestPart(frozenset(op.id for op in part.ops), compiled))
    return made
