"""Directional derivatives: along tangents through a graph, and along vectors through a gradient.

Both are gradients of gradients. A gradient is linear in its seed, so that its own gradient by the seed is the
derivative along what that one is seeded with: two transpositions give the forward product, by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor
from ..model.topology import needed_ops
from ..runtime.arrays import numpy_type
from .arithmetic import Arithmetic
from .reverse import Request, floats_of, kept_outputs, seeds_of, swept, tidy

JVP = Request("jvp", "wrt", "tangents")
HVP = Request("hvp", "wrt", "vectors")


def jvp(
    graph: GraphCore, outputs: Sequence[LogicalTensor], wrt: Sequence[LogicalTensor], tangents: object
) -> list[LogicalTensor | None]:
    """What `Graph.jvp` does, which see."""
    results = floats_of(graph, outputs, JVP, "outputs")
    sources = floats_of(graph, wrt, JVP, "wrt")
    before, former = kept_outputs(graph, results), {op.id for op in graph.ops}
    make = Arithmetic(graph)
    directions = seeds_of(make, sources, tangents, JVP)
    # Their values don't matter, and in what comes out nobody reads them.
    seeds = [
        make.expand(graph.constant(np.zeros((), numpy_type(result.data_type))), result) for result in results
    ]
    back = swept(graph, results, sources, seeds, JVP)
    found = _along(graph, back, directions, seeds, JVP)
    return _finished(graph, former, before, found)


def hvp(
    graph: GraphCore, loss: LogicalTensor, wrt: Sequence[LogicalTensor], vectors: object
) -> list[LogicalTensor | None]:
    """What `Graph.hvp` does, which see."""
    losses = floats_of(graph, [loss], HVP, "loss")
    sources = floats_of(graph, wrt, HVP, "wrt")
    before, former = kept_outputs(graph, losses), {op.id for op in graph.ops}
    directions = seeds_of(Arithmetic(graph), sources, vectors, HVP)
    firsts = swept(graph, losses, sources, None, Request("hvp", "loss", "seed"))
    found = _along(graph, firsts, directions, sources, HVP)
    return _finished(graph, former, before, found)


def _along(
    graph: GraphCore,
    gradients: Sequence[LogicalTensor | None],
    directions: Sequence[LogicalTensor],
    sources: Sequence[LogicalTensor],
    request: Request,
) -> list[LogicalTensor | None]:
    """The gradient of the gradients that there are, each with a direction for its seed."""
    pairs = [(g, d) for g, d in zip(gradients, directions, strict=True) if g is not None]
    if not pairs:
        return [None] * len(sources)
    return swept(graph, [g for g, _ in pairs], sources, [d for _, d in pairs], request)


def _finished(
    graph: GraphCore,
    former: set[int],
    before: Sequence[LogicalTensor],
    found: list[LogicalTensor | None],
) -> list[LogicalTensor | None]:
    """Takes out what was added and leads to no result, as most of the first sweep."""
    wanted = {t.id for t in found if t is not None}
    needed = {op.id for op in needed_ops(graph.ops, wanted)}
    for op in reversed(graph.ops):
        if op.id not in former and op.id not in needed:
            graph.take_out(op)
    tidy(graph, former, before, found)
    return found
