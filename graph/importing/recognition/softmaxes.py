"""Softmax and its logarithm written out with exponentials and their sum."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from .reading import Written, made_by, reduced_axes
from .surroundings import Surroundings


def softmaxes(around: Surroundings) -> Iterator[Written]:
    """The softmaxes of a graph, and their logarithms, each found by its last op."""
    for op in around.ops:
        found = {"Divide": _quotient, "Multiply": _product, "Subtract": _logarithm}.get(op.kind)
        written = None if found is None else found(around, op)
        if written is not None and written.stands_alone(around):
            yield written


def _quotient(around: Surroundings, op: Op) -> Written | None:
    """exp(x) / Σ exp(x)."""
    return _softmax(around, op, op.inputs[0], op.inputs[1], ())


def _product(around: Surroundings, op: Op) -> Written | None:
    """exp(x) · (1 / Σ exp(x))."""
    for powers, share in (op.inputs, op.inputs[::-1]):
        inverse = made_by(around, share, "Reciprocal")
        if inverse is not None and made_by(around, powers, "Exp"):
            return _softmax(around, op, powers, inverse.inputs[0], (inverse.id,))
    return None


def _softmax(
    around: Surroundings, last: Op, powers: LogicalTensor, total: LogicalTensor, members: tuple[int, ...]
) -> Written | None:
    exp, added = made_by(around, powers, "Exp"), made_by(around, total, "ReduceSum")
    if exp is None or added is None or added.inputs[0].id != powers.id:
        return None
    return _written(around, last, "SoftMax", exp.inputs[0], added, (exp.id, *members))


def _logarithm(around: Surroundings, op: Op) -> Written | None:
    """X − log Σ exp(x)."""
    log = made_by(around, op.inputs[1], "Log")
    added = None if log is None else made_by(around, log.inputs[0], "ReduceSum")
    exp = None if added is None else made_by(around, added.inputs[0], "Exp")
    if log is None or added is None or exp is None or exp.inputs[0].id != op.inputs[0].id:
        return None
    return _written(around, op, "LogSoftmax", op.inputs[0], added, (log.id, exp.id))


def _written(
    around: Surroundings, last: Op, kind: str, x: LogicalTensor, added: Op, members: tuple[int, ...]
) -> Written | None:
    """With what is taken from all elements before, so that exponentials don't overflow, or without."""
    axes = reduced_axes(added, "ReduceSum")
    if axes is None or len(axes) != 1:
        return None
    passed = [last.id, added.id, *members]
    below = made_by(around, x, "Subtract")
    largest = None if below is None else made_by(around, below.inputs[1], "ReduceMax")
    if (
        below is not None
        and largest is not None
        and largest.inputs[0].id == below.inputs[0].id
        and reduced_axes(largest, "ReduceMax") == axes
        and around.read_within(x, [*passed])
    ):
        x = below.inputs[0]
        passed += [below.id, largest.id]
    return Written(last, kind, x, {"axis": axes[0]}, frozenset(passed))
