"""A run of a graph on made-up data, for what it takes."""

from __future__ import annotations

from ..graph.graph import Graph
from ..graph.pictures.profile import Profile, profile
from .console import working
from .data_files import inputs_of
from .graph_files import check_sizes
from .tables import say_made_up


def profiled_run(graph: Graph, backend: str | None, seed: int = 0) -> Profile:
    """Of one execution, the second.

    Args:
        graph: finalized.
        backend: the only one to run on; None for the usual choice.
        seed: of the data.

    Raises:
        ArgumentError: the size of an input is not known.
        OneDNNGraphError: see `Graph.compile`.
    """
    check_sizes(graph)
    feeds = inputs_of(graph, {}, seed)
    if feeds.made_up:
        say_made_up(graph, feeds.made_up, seed, given=False)
    model = graph.compile(backend=backend)
    with working("running"):
        model(feeds.arrays)
        with profile() as prof:
            model(feeds.arrays)
    return prof
