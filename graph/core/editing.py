"""What rewriters do to the content of a graph: ops and constants go, come in the place of others, get other shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

from ...ops.errors import ArgumentError, ArgumentTypeError, GraphError, OneDNNGraphError, ShapeError, nearest
from ...ops.schema import UNKNOWN_DIM, Shape
from ...ops.values import format_value
from ..model.inference import infer, merge_shapes
from ..model.logical_tensor import LogicalTensor, as_shape, format_shape, label
from ..model.op import Op
from ..model.topology import needed_ops, topological
from .adding import mark_output, output_name, tensor_for
from .content import Content


def take_out(content: Content, op: Op) -> None:
    """See `Graph.take_out`."""
    if op not in content.ops:
        raise GraphError(f"the graph has no {op} that could be taken out; take one of graph.ops")
    content.ops.remove(op)
    content.op_ids.discard(op.id)
    for tensor in op.outputs:
        del content.producers[tensor.id]


def _ops(given: object) -> Iterator[Op]:
    """What `replace_ops` was given.

    Raises:
        ArgumentTypeError: it is no collection of ops.
    """
    for op in cast("Iterable[object]", given) if isinstance(given, Iterable) else (given,):
        if not isinstance(op, Op):
            raise ArgumentTypeError(
                f"replace_ops takes a list of ops, got {format_value(op)} of type {type(op).__name__}; give what is to "
                "stand in the place of graph.ops"
            )
        yield op


def replace_ops(content: Content, ops: Iterable[Op]) -> None:
    """See `Graph.replace_ops`."""
    new = {op.id: op for op in _ops(ops)}
    former = {op.id: op for op in content.ops if op.id in new}
    known: dict[int, LogicalTensor] = {}
    for op in new.values():
        before = former[op.id].outputs if op.id in former else ()
        if not before or [t.id for t in op.outputs[: len(before)]] != [t.id for t in before]:
            raise GraphError(
                f"{op} can't stand in another's place; the op with the id {op.id} must be one of the graph, and "
                "make the same tensors"
            )
        taken = next((t for t in op.outputs[len(before) :] if t.id in content.tensors or t.id in known), None)
        if taken is not None:
            raise GraphError(f"{op} can't make {taken}, which the graph has; give it an id of its own")
        unknown = next((t for t in op.inputs if t.id not in content.tensors), None)
        if unknown is not None:
            raise GraphError(f"{op} reads {unknown}, which is no tensor of the graph; add it first")
        merged = {t.id: content.merged(t, op) for t in (*op.inputs, *op.outputs)}
        known.update(infer([op], merged, {})[0])
    if not new:
        return
    content.ops = topological([new.get(op.id, op) for op in content.ops])
    content.producers.update((t.id, op) for op in new.values() for t in op.outputs)
    content.know(known.values())
    content.next_id = max(content.next_id, *(number + 1 for number in known))


def prune(content: Content, outputs: Sequence[LogicalTensor] | Mapping[str, LogicalTensor] | None) -> None:
    """See `Graph.prune`."""
    if outputs is not None:
        named = _named(outputs)
        before = content.marked, set(content.dropped)
        content.marked = []
        try:
            for name, tensor in named:
                mark_output(content, tensor, name)
        except OneDNNGraphError:
            content.marked, content.dropped = before
            raise
    marked = {i for _, i in content.marked}
    content.ops = needed_ops(content.ops, {*content.assigned.values(), *marked}, with_effects=True)
    read = {t.id for op in content.ops for t in op.inputs}
    acting = {t.id for op in content.ops if not op.schema.pure for t in op.outputs}
    content.dropped |= acting.difference(marked, read)
    content.op_ids = {op.id for op in content.ops}
    used = {t.id for op in content.ops for t in (*op.inputs, *op.outputs)}
    used.update(
        content.declared, content.parameters, (i for _, i in content.marked), content.assigned.values()
    )
    content.tensors = {i: tensor for i, tensor in content.tensors.items() if i in used}
    content.constants = {i: array for i, array in content.constants.items() if i in used}
    content.producers = {t.id: op for op in content.ops for t in op.outputs}


def _named(outputs: object) -> list[tuple[str | None, LogicalTensor]]:
    """What `prune` was given, each tensor with the name of an output.

    Raises:
        ArgumentTypeError: it is none of what `prune` takes.
    """
    if isinstance(outputs, Mapping):
        of = cast("Mapping[object, object]", outputs)
        return [
            (output_name(name), tensor_for(f"prune's output {format_value(name)}", tensor))
            for name, tensor in of.items()
        ]
    if isinstance(outputs, str | LogicalTensor) or not isinstance(outputs, Iterable):
        way = f"graph.tensor({format_value(outputs)})" if isinstance(outputs, str) else "tensor"
        raise ArgumentTypeError(
            f"prune takes a list of tensors, or tensors by name, got one {type(outputs).__name__}; write one as [{way}]"
        )
    return [(None, tensor_for("prune", tensor)) for tensor in cast("Iterable[object]", outputs)]


def drop_constant(content: Content, tensor: LogicalTensor) -> None:
    """See `Graph.drop_constant`."""
    tensor = tensor_for("drop_constant", tensor)
    read = any(t.id == tensor.id for op in content.ops for t in op.inputs)
    read = read or tensor.id in content.assigned.values()
    if tensor.id not in content.constants or read or any(tensor.id == i for _, i in content.marked):
        raise GraphError(f"{tensor} must be a constant of the graph that nobody reads, to be dropped")
    del content.constants[tensor.id]
    content.names.discard(label(content.tensors.pop(tensor.id)))


def drop_assignment(content: Content, parameter: LogicalTensor) -> None:
    """See `Graph.drop_assignment`."""
    parameter = tensor_for("drop_assignment", parameter)
    if parameter.id not in content.assigned:
        raise GraphError(f"nothing is assigned to {parameter}, that it could be taken back")
    del content.assigned[parameter.id]


def drop_output(content: Content, tensor: LogicalTensor) -> None:
    """See `Graph.drop_output`."""
    tensor = tensor_for("drop_output", tensor)
    if tensor.id not in content.producers or any(tensor.id == i for _, i in content.marked):
        raise GraphError(f"{tensor} must be the output of an op that output() has not marked, to be dropped")
    content.dropped.add(tensor.id)


def reshape(content: Content, inputs: Iterable[LogicalTensor]) -> None:
    """Infers all shapes anew from those of inputs.

    Raises:
        ShapeError: an op can't do with these.
    """
    ordered = topological(content.ops)
    tensors, content.ops = infer(ordered, {**content.tensors, **{t.id: t for t in inputs}}, {})
    content.know(tensors.values())
    content.producers = {t.id: op for op in content.ops for t in op.outputs}


def reshaped_inputs(
    ports: Sequence[LogicalTensor], shapes: Mapping[str, Sequence[int]]
) -> list[LogicalTensor]:
    """The inputs, those that `shapes` names with their shapes of there; see `Graph.with_shapes`."""
    if not isinstance(shapes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(
            f"with_shapes takes shapes by the inputs' names, such as {{'x': [1, 64]}}, got {format_value(shapes)} of "
            f"type {type(shapes).__name__}"
        )
    inputs = {label(t): t for t in ports}
    for name, given in shapes.items():
        if name not in inputs:
            raise ArgumentError(
                f"the graph has no input {format_value(name)}{nearest(name, inputs)}; it has "
                f"{', '.join(map(repr, inputs)) or 'none'}"
            )
        tensor, shape = inputs[name], as_shape(given, f"the shape of input {name!r}")
        check_left_open(tensor.shape, shape, f"input {name!r} has shape", "in the graph")
        merged = merge_shapes(
            tensor.shape,
            shape,
            f"input {name!r} has shape {format_shape(tensor.shape)} in the graph, got {format_shape(shape)}; only "
            "sizes that are open can be chosen",
        )
        inputs[name] = tensor.with_shape(merged)
    return list(inputs.values())


def check_left_open(
    known: Shape, given: Shape, what: str, where: str, error: type[OneDNNGraphError] = ShapeError
) -> None:
    """Whether a shape that is given for an input leaves no size open that is a number already.

    Args:
        what, where: the beginning of the message, and what stands behind the shape that is known.
        error: of which class it is.

    Raises:
        ShapeError, or `error`: it does; the input would keep that size, or seem to take any.
    """
    if known is None or given is None or len(known) != len(given):
        return
    for axis, (have, want) in enumerate(zip(known, given, strict=True)):
        if want == UNKNOWN_DIM and have != UNKNOWN_DIM:
            raise error(
                f"{what} {format_shape(known)} {where}, got {format_shape(given)}; -1 leaves a size open that is open, "
                f"and axis {axis} has {have}: give that, and build or import it with -1 there to have any"
            )
