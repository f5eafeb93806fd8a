"""From documents and files in oneDNN Graph's JSON format to a `Graph`; what lies between stands in `io`."""

from __future__ import annotations

import os

from ..ops.errors import ArgumentTypeError
from .graph import Graph
from .io.document import Document
from .io.serialization import graph_in_file, graph_in_text, graph_of
from .io.weights import Weights


def to_graph(document: Document, weights: Weights | None = None) -> Graph:
    """The graph of a document; see `graph_of`."""
    return graph_of(Graph, document, weights)


def read_graph(
    path: str | os.PathLike[str] | None = None, *, text: str | None = None, weights: bool | None = None
) -> Graph:
    """The graph in a file or a text, not finalized; see `Graph.load`.

    Args:
        path, text: one of them.
        weights: whether to take constants and names from the file beside it; None takes them where there is one.

    Raises:
        ArgumentTypeError: both or none are given, or the wrong type.
        GraphFileError and others: see `Graph.load`.
    """
    if path is not None and text is not None:
        raise ArgumentTypeError("read_graph takes a path or a text, got both; leave one out")
    if path is not None:
        return graph_in_file(Graph, path, weights=weights)
    if text is not None:
        return graph_in_text(Graph, text)
    raise ArgumentTypeError("read_graph takes a path or a text, got neither; give one")
