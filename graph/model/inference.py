"""Shape inference over several ops: what is declared and what follows, brought together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ops.errors import ShapeError
from ...ops.schema import UNKNOWN_DIM, Shape
from .logical_tensor import LogicalTensor, format_shape
from .op import Op


def merge_shapes(first: Shape, second: Shape, contradiction: str) -> Shape:
    """What two descriptions of a shape say together.

    Args:
        first, second: where both are known they must agree.
        contradiction: the message otherwise.

    Raises:
        ShapeError: they contradict each other.
    """
    if first is None or second is None:
        return second if first is None else first
    agree = len(first) == len(second) and all(
        have == want or UNKNOWN_DIM in (have, want) for have, want in zip(first, second, strict=True)
    )
    if not agree:
        raise ShapeError(contradiction)
    return tuple(want if have == UNKNOWN_DIM else have for have, want in zip(first, second, strict=True))


def infer(
    ops: Sequence[Op],
    known: Mapping[int, LogicalTensor],
    values: Mapping[int, tuple[int, ...]],
) -> tuple[dict[int, LogicalTensor], list[Op]]:
    """All tensors of `ops` with inferred shapes, and the ops on them.

    Args:
        ops: in topological order.
        known: better descriptions of some tensors, by id.
        values: values of shape operands, by tensor id.

    Raises:
        ShapeError: shapes contradict each other, an attribute or a declaration.
    """
    tensors: dict[int, LogicalTensor] = dict(known)
    resolved: list[Op] = []
    for op in ops:
        ins = [tensors.setdefault(t.id, t) for t in op.inputs]
        outs = [tensors.get(t.id, t) for t in op.outputs]
        shapes = op.infer_shapes(
            [t.shape for t in ins],
            [t.shape for t in outs],
            {i: values[t.id] for i, t in enumerate(ins) if t.id in values},
        )
        for position, (tensor, shape) in enumerate(zip(outs, shapes, strict=True)):
            if tensor.shape == shape:
                tensors[tensor.id] = outs[position] = tensor.with_shape(shape)
                continue
            merged = merge_shapes(
                tensor.shape,
                shape,
                f"{op}: output '{op.names.spell(op.output_ports[position].name)}', {tensor}, is declared with "
                f"shape {format_shape(tensor.shape)}, but its inputs and attributes give {format_shape(shape)}; "
                "declare that, or leave the shape out",
            )
            tensors[tensor.id] = outs[position] = tensor.with_shape(merged)
        resolved.append(op.with_tensors(ins, outs))
    return tensors, resolved
