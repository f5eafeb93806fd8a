"""What is added to the content of a graph: ops, and the arrays that it holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, GraphError, ShapeError, nearest
from ...ops.values import format_value
from ..model.inference import merge_shapes
from ..model.logical_tensor import LogicalTensor, PropertyType, label
from ..model.op import Op
from ..runtime.arrays import Array, numpy_type
from ..runtime.parameter import Parameter, write_all
from ..runtime.tensor import check_array, plain_array
from .content import Content


def add_op(content: Content, op: Op) -> Op:
    """See `Graph.add_op`."""
    if op.id in content.op_ids:
        raise GraphError(f"{op} has the id {op.id}, which another op of the graph has; choose another")
    merged = {t.id: content.merged(t, op) for t in (*op.inputs, *op.outputs)}
    for position, tensor in enumerate(op.outputs):
        other = content.producers.get(tensor.id)
        if other is not None:
            raise GraphError(f"{tensor} is produced by {other} and again by {op}; give each its own id")
        if any(t.id == tensor.id for t in op.outputs[:position]):
            raise GraphError(f"{tensor} is two outputs of {op}; give each its own id")
        for what, held in (("constant", content.constants), ("parameter", content.parameters)):
            if tensor.id in held:
                raise GraphError(
                    f"{tensor} is a {what} of the graph and can't be an output of {op}; give it another id"
                )
        if any(t.id == tensor.id for t in op.inputs):
            raise GraphError(f"{tensor} is an input and an output of {op}, a cycle; give it another id")
    content.know(merged.values())
    content.ops.append(op)
    content.op_ids.add(op.id)
    for tensor in op.outputs:
        content.producers[tensor.id] = op
    content.next_id = max(content.next_id, op.id + 1, *(t.id + 1 for t in merged.values()))
    return op


def add_constant(content: Content, tensor: LogicalTensor, array: object) -> LogicalTensor:
    """See `Graph.add_constant`."""
    what = f"constant {tensor}"
    if tensor.property_type is not PropertyType.constant:
        raise GraphError(
            f"{what} must have property_type 'constant' to be held, got '{tensor.property_type.value}'"
        )
    if tensor.id in content.constants:
        raise GraphError(f"{what} has a value already; give another constant an id of its own")
    given = plain_array(array, what)
    check_array(given, tensor, what)
    held = np.require(given, numpy_type(tensor.data_type), ["C_CONTIGUOUS", "ALIGNED"]).view()
    held.flags.writeable = False
    content.add_source(tensor.with_shape(held.shape), "constant")
    content.constants[tensor.id] = held
    return content.tensors[tensor.id]


def add_parameter(content: Content, tensor: LogicalTensor, value: object) -> LogicalTensor:
    """See `Graph.add_parameter`."""
    what = f"parameter {tensor}"
    if tensor.property_type is not PropertyType.variable:
        raise GraphError(
            f"{what} must have property_type 'variable' to be held, got '{tensor.property_type.value}'"
        )
    if tensor.id in content.parameters:
        raise GraphError(f"{what} has a value already; give another parameter an id of its own")
    if isinstance(value, Parameter):
        check_array(value.array, tensor, what)
        twin = next((content.tensors[i] for i, one in content.parameters.items() if one is value), None)
        if twin is not None:
            raise GraphError(f"{what} would share its memory with {twin} of the same graph; use that tensor")
        held = value
    else:
        given = plain_array(value, what)
        check_array(given, tensor, what)
        held = Parameter(given, numpy_type(tensor.data_type))
    content.add_source(tensor.with_shape(held.array.shape), "parameter")
    content.parameters[tensor.id] = held
    return content.tensors[tensor.id]


def assign(content: Content, parameter: LogicalTensor, value: LogicalTensor) -> None:
    """See `Graph.assign`."""
    if parameter.id not in content.parameters:
        raise GraphError(
            f"{parameter} is no parameter of the graph and can't be assigned to; make it with parameter()"
        )
    if parameter.id in content.assigned:
        raise GraphError(f"{parameter} is assigned twice; assign the last value once")
    if value.id not in content.tensors:
        raise GraphError(f"{value} is no tensor of the graph and can't be assigned to {parameter}")
    known, fitting = content.merged(value, None), content.tensors[parameter.id]
    if known.data_type is not fitting.data_type:
        raise DataTypeError(f"{known} is assigned to {fitting} and must have its type; cast it with TypeCast")
    shape = merge_shapes(
        known.shape, fitting.shape, f"{known} is assigned to {fitting} and must have its shape"
    )
    if value.id in content.producers:
        known = known.with_shape(shape)
    elif known.shape != fitting.shape:
        raise ShapeError(f"{known} is assigned to {fitting} and must have its shape")
    content.know([known])
    content.assigned[parameter.id] = value.id


def set_parameters(content: Content, values: Mapping[str, object] | Mapping[int, object]) -> None:
    """See `Graph.set_parameters`."""
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"set_parameters takes a mapping from names to arrays, got {format_value(values)} of type "
            f"{type(values).__name__}"
        )
    names = {label(content.tensors[i]): i for i in content.parameters}
    writes: list[tuple[Parameter, Array]] = []
    for key, value in values.items():
        number = key.id if isinstance(key, LogicalTensor) else names.get(key) if isinstance(key, str) else key
        if number not in content.parameters:
            raise ArgumentError(
                f"the graph has no parameter {format_value(key)}{nearest(key, names)}; it has "
                f"{', '.join(map(repr, names)) or 'none'}"
            )
        what = f"parameter {format_value(key)}"
        array = plain_array(value, what)
        check_array(array, content.tensors[number], what)
        writes.append((content.parameters[number], array))
    write_all(writes)


def name_state(content: Content, state: Mapping[str, LogicalTensor | Array]) -> None:
    """See `Graph.name_state`."""
    named: dict[str, Array | int] = {}
    for name, value in state.items():
        if isinstance(value, LogicalTensor):
            if value.id not in content.parameters:
                raise GraphError(f"{value} is no parameter of the graph and can't be the state {name!r}")
            named[name] = value.id
        else:
            seen = value.view()
            seen.flags.writeable = False
            named[name] = seen
    content.state = named


def tensor_for(taker: str, value: object) -> LogicalTensor:
    """A tensor that a method was given.

    Raises:
        ArgumentTypeError: it is something else, such as its name.
    """
    if not isinstance(value, LogicalTensor):
        way = (
            f"; graph.tensor({format_value(value)}) gives the tensor of that name"
            if isinstance(value, str)
            else ""
        )
        raise ArgumentTypeError(
            f"{taker} takes a LogicalTensor, got {format_value(value)} of type {type(value).__name__}{way}"
        )
    return value


def output_name(value: object) -> str | None:
    """The name that an output was given; None for its tensor's.

    Raises:
        ArgumentTypeError: it is no name.
    """
    if value is not None and (not isinstance(value, str) or not value):
        raise ArgumentTypeError(
            f"an output's name must be a non-empty string or None, got {format_value(value)}"
        )
    return value


def mark_output(content: Content, tensor: LogicalTensor, name: str | None) -> LogicalTensor:
    """See `Graph.output`."""
    if tensor.id not in content.tensors:
        raise GraphError(
            f"{tensor} is no tensor of the graph and can't be its output; mark what op() returned"
        )
    content.merged(tensor, None)
    if (name, tensor.id) in content.marked:
        return tensor
    key = label(tensor) if name is None else name
    if any(key == (label(content.tensors[i]) if known is None else known) for known, i in content.marked):
        raise GraphError(f"two outputs of the graph would be called {format_value(key)}; choose another name")
    content.marked.append((name, tensor.id))
    content.dropped.discard(tensor.id)
    return tensor
