"""What a subgraph is compiled for: the tensors that a user gives for its ports, checked against these."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, LayoutError, ShapeError
from ...ops.values import format_value
from ..model.inference import merge_shapes
from ..model.logical_tensor import LayoutType, LogicalTensor, evolve_tensor, format_shape
from ..model.op import port_names
from .subgraph import Subgraph


def checked_inputs(subgraph: Subgraph, given: Sequence[LogicalTensor] | None) -> tuple[LogicalTensor, ...]:
    """The inputs to compile for, in port order.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, LayoutError: they don't fit the ports, or are
            not concrete.
    """
    ins = _matched(subgraph, given, subgraph.input_ports, "input")
    names = port_names(subgraph.ops, ins)
    for tensor in ins:
        if tensor.layout_type is LayoutType.any or tensor.layout_type is LayoutType.undef:
            raise LayoutError(
                f"{names[tensor.id]}, {tensor}, must be strided or opaque at compile, got layout_type "
                f"'{tensor.layout_type.value}'; only outputs may be 'any'"
            )
        if not tensor.is_concrete:
            raise ShapeError(
                f"{names[tensor.id]}, {tensor}, must have all its sizes at compile; pass compile a "
                "logical tensor that has them"
            )
    return tuple(ins)


def checked_outputs(subgraph: Subgraph, given: Sequence[LogicalTensor] | None) -> tuple[LogicalTensor, ...]:
    """The outputs to compile for, in port order.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError, LayoutError: they don't fit the ports.
    """
    outs = _matched(subgraph, given, subgraph.output_ports, "output")
    names = port_names(subgraph.ops, outs)
    for tensor in outs:
        if tensor.layout_type not in (LayoutType.any, LayoutType.strided):
            raise LayoutError(
                f"{names[tensor.id]}, {tensor}, must be strided or 'any' at compile, got layout_type "
                f"'{tensor.layout_type.value}'; with 'any' the backend chooses"
            )
    return tuple(outs)


def _matched(
    subgraph: Subgraph, given: Sequence[LogicalTensor] | None, ports: tuple[LogicalTensor, ...], what: str
) -> list[LogicalTensor]:
    """`given` in port order, with the ports' shapes where `given` leaves them open."""
    if given is None:
        return list(ports)
    if isinstance(given, LogicalTensor):
        raise ArgumentTypeError(
            f"{subgraph.ops[0]}: {what}s must be a sequence of LogicalTensor, got one, {given}; write [tensor]"
        )
    if not isinstance(given, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(
            f"{subgraph.ops[0]}: {what}s must be a sequence of LogicalTensor or None, got {format_value(given)} of "
            f"type {type(given).__name__}"
        )
    by_id: dict[int, LogicalTensor] = {}
    for tensor in given:
        if not isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{subgraph.ops[0]}: {what}s must hold LogicalTensor objects, got {format_value(tensor)} of type "
                f"{type(tensor).__name__}; arrays are given to execute"
            )
        by_id[tensor.id] = tensor
    names = port_names(subgraph.ops, ports)
    if set(by_id) != {t.id for t in ports} or len(given) != len(ports):
        expected = ", ".join(f"'{names[t.id].port}' {t}" for t in ports)
        raise ArgumentError(
            f"{subgraph.ops[0]}: compile needs each {what} port once, {expected}, got the ids "
            f"{[t.id for t in given]}"
        )
    matched: list[LogicalTensor] = []
    for port in ports:
        tensor = by_id[port.id]
        if tensor.data_type != port.data_type:
            raise DataTypeError(
                f"{names[port.id]}, {port}, was {port.data_type.value} in the graph, got "
                f"{tensor.data_type.value} at compile; build the graph with that type"
            )
        merged = merge_shapes(
            port.shape,
            tensor.shape,
            f"{names[port.id]}, {port}, has shape {format_shape(port.shape)} in the graph, got "
            f"{format_shape(tensor.shape)} at compile; build the graph with that shape, or with -1 for "
            "sizes that change",
        )
        matched.append(evolve_tensor(tensor, shape=merged))
    return matched
