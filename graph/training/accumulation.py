"""Sums of gradients over several batches, which one update takes together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..runtime.parameter import Parameter
from .program import PREFIX, add_variable

WEIGHT = f"{PREFIX}weight"
"""The input of how often a batch counts, negative."""
COUNTS = f"{PREFIX}counts"
"""The input of whether it counts."""
TOTAL = f"{PREFIX}total"
"""The input by which sums are divided."""
LOSS = f"{PREFIX}loss"
"""The input of the mean of the losses."""


def add_to_sums(graph: Graph, parts: Sequence[tuple[LogicalTensor, Parameter, str]]) -> None:
    """Adds what adds gradients to their sums, as often as the batch counts.

    Args:
        parts: gradients, their sums, and the names of the parameters.
    """
    weight, counts = graph.input(WEIGHT, "f64", []), graph.input(COUNTS, "f64", [])
    step = graph.constant(np.int64(1))
    for gradient, own, name in parts:
        total = add_variable(graph, f"{PREFIX}accumulated.{name}", own)
        given = (total, gradient, weight, counts, step)
        made: LogicalTensor = graph.op("HostUpdate", *given, outputs=1, formula="update = gradient")
        graph.assign(total, made)


def means_of_sums(graph: Graph, sums: Sequence[tuple[str, Parameter]]) -> list[LogicalTensor]:
    """Adds what divides sums by what they count."""
    total = graph.input(TOTAL, "f32", [])
    return [
        graph.op("Divide", add_variable(graph, f"{PREFIX}accumulated.{name}", own), total)
        for name, own in sums
    ]


def numbers(size: int) -> dict[str, float]:
    """Values of the inputs of a batch of this size; one of nothing leaves the sums as they are."""
    return {WEIGHT: -size, COUNTS: float(size > 0)}
