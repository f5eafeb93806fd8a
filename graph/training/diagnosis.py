"""Why the gradients of a step are not finite, as far as it can be told from what went in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...ops.errors import NAN_GUIDE
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..model.topology import needed_ops
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter

UNBOUNDED = ("Add", "BiasAdd", "Convolution", "ConvTranspose", "MatMul", "Subtract")
"""Kinds of ops whose results are no probabilities, as those of last layers are."""
MOVES = ("Reorder", "StaticReshape", "StaticTranspose", "TypeCast")
"""Kinds of ops that may stand between."""


def cause(
    graph: Graph,
    loss: LogicalTensor,
    feeds: Mapping[str, Array],
    parameters: Mapping[str, Parameter],
    value: float,
) -> str:
    """What is behind a step that was skipped, and what to do, for a message.

    Args:
        graph, loss: of the trainer. feeds: of the step, as far as they are there.
        parameters: by name, as they are. value: of the loss.
    """
    held = {f"parameter {name!r}": one.array for name, one in parameters.items()}
    for what, array in ({f"input {name!r}": a for name, a in feeds.items()} | held).items():
        if array.dtype.kind not in "biu" and not np.isfinite(array).all():
            bad = "NaN" if np.isnan(array).any() else "an infinity"
            return f"{what} has {bad}, which was there before the step"
    unbounded = None if np.isfinite(value) else _logits_taken_for_probabilities(graph, loss)
    if unbounded is not None:
        return (
            f"binary_cross_entropy wants probabilities, from 0 to 1, and {label(unbounded)!r} is no result of a "
            "sigmoid; binary_cross_entropy_with_logits takes logits"
        )
    return f"if it happens often, lower the learning rate or set clip_norm; {NAN_GUIDE}"


def _logits_taken_for_probabilities(graph: Graph, loss: LogicalTensor) -> LogicalTensor | None:
    """What `binary_cross_entropy` takes logarithms of, where it is what a layer computes and nothing bounds.

    It is known by log p and log1p(−p) of one p.
    """
    ops = needed_ops(graph.ops, {loss.id})
    producers = {t.id: op for op in ops for t in op.outputs}
    of_logs = {op.inputs[0].id for op in ops if op.kind == "Log"}
    for op in ops:
        negative = producers.get(op.inputs[0].id) if op.kind == "HostLog1p" else None
        if negative is None or negative.kind != "Multiply" or negative.inputs[0].id not in of_logs:
            continue
        taken = negative.inputs[0]
        while (made_by := producers.get(taken.id)) is not None and made_by.kind in MOVES:
            taken = made_by.inputs[0]
        if made_by is not None and made_by.kind in UNBOUNDED:
            return taken
    return None
