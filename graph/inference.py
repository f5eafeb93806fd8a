"""Shape inference over several ops: what is declared and what follows, brought together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ops.errors import ShapeError
from ..ops.schema import UNKNOWN_DIM, Shape
from .logical_tensor import LogicalTensor, format_shape
from .op import Op


def merge_shapes(declared: Shape, inferred: Shape, what: str) -> Shape:
    """What two descriptions of a shape say together.

    Raises:
        ShapeError: they contradict each other.
    """
    if declared is None or inferred is None:
        return inferred if declared is None else declared
    if len(declared) != len(inferred):
        raise ShapeError(
            f"{what} is declared with shape {format_shape(declared)}, but it follows as "
            f"{format_shape(inferred)}; declare that, or leave the shape out"
        )
    merged: list[int] = []
    for have, want in zip(declared, inferred, strict=True):
        if have != want and UNKNOWN_DIM not in (have, want):
            raise ShapeError(
                f"{what} is declared with shape {format_shape(declared)}, but it follows as "
                f"{format_shape(inferred)}; declare that, or leave the shape out"
            )
        merged.append(want if have == UNKNOWN_DIM else have)
    return tuple(merged)


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
            merged = merge_shapes(tensor.shape, shape, f"{op}: output {tensor}")
            tensors[tensor.id] = outs[position] = tensor.with_shape(merged)
        resolved.append(op.with_tensors(ins, outs))
    return tensors, resolved
