"""Weighted means over all ranks: the sum of what all have over the sum of all weights."""

from __future__ import annotations

from typing import Protocol

from ..graph import Graph
from ..model.op import Op


class Ranks(Protocol):
    """What ops need of a communicator."""

    @property
    def key(self) -> int: ...


def weigh_over_ranks(graph: Graph, comm: Ranks) -> None:
    """Puts the weights of all ranks in the place of those that weighted means are divided by.

    The mean over the ranks, of losses and of gradients, counts a rank by the length of its batch. A rank may have more
    of what counts in a batch of that length, as where labels are ignored: it divides by its share of all weights then.

    Args:
        graph: open.
        comm: of this rank; all ranks do the same.
    """
    for op in graph.ops:
        if op.kind == "HostMeanWeight":
            over_all = Op(op.id, "HostRankWeight", op.inputs, op.outputs, name=op.name, communicator=comm.key)
            graph.replace_ops([over_all])
