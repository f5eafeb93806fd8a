"""The end of a translation: outputs of the model as outputs of its graph, and nothing that none of them needs."""

from __future__ import annotations

from collections.abc import Mapping

from ...ops.errors import DataTypeError, UnsupportedError
from ..graph import Graph
from .recognition.recognise import recognise
from .translation import Translation, Unmapped, Value


def finished(t: Translation, results: Mapping[str, Value], importer: str) -> Graph:
    """What the user gets.

    Args:
        results: output name → value. One that is an input or constant stays that.
        importer: the user's function.

    Raises:
        UnsupportedError: an output that can't be made, or nothing to compute at all.
    """
    for name, value in results.items():
        t.label = name
        try:
            t.graph.output(t.tensor(value), name=name)
        except (Unmapped, DataTypeError) as error:
            raise UnsupportedError(f"{importer}: output {name!r}: {error}") from error
    t.graph.prune()
    recognise(t)
    if not t.graph.ops:
        raise UnsupportedError(
            f"{importer}: the model computes nothing; its outputs {', '.join(map(repr, results))} are inputs of it or "
            "constants, so that there is no op to run"
        )
    return t.graph
