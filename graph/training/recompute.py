"""Which tensors the backward pass computes again, by the names of ops and tensors."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.patterns import fits, unfit


def named_tensors(graph: Graph, patterns: Sequence[str]) -> set[int]:
    """Ids of tensors whose names, or those of their ops, fit a pattern.

    Raises:
        ArgumentError: a pattern fits none.
    """
    found: set[int] = set()
    for pattern in patterns:
        fitting = {
            t.id for op in graph.ops for t in op.outputs if fits(op.name, pattern) or fits(label(t), pattern)
        }
        if not fitting:
            names = list(dict.fromkeys(op.name for op in graph.ops))
            raise unfit("recompute", pattern, "the name of no op and of no tensor that one makes", names)
        found |= fitting
    return found


def computed_again(graph: Graph, chosen: Collection[int]) -> list[LogicalTensor]:
    """Those of tensors that ops make, with what is nothing but their casts to another type."""
    wanted = set(chosen)
    found: list[LogicalTensor] = []
    for op in graph.ops if wanted else ():
        if op.kind == "TypeCast" and op.inputs[0].id in wanted:
            wanted.add(op.outputs[0].id)
        found += [t for t in op.outputs if t.id in wanted]
    return found
