"""What a name may be that `onednn_graph` has not."""

from __future__ import annotations

from collections.abc import Iterable

from ...ops.data_types import data_type_hint
from ...ops.errors import nearest
from ...ops.hints import kind_hint
from ...ops.registry import REGISTRY
from ..model.builder import snake_case

ELSEWHERE = {
    "compile": "Graph.compile",
    "inferencesession": "from_onnx(path).compile()",
    "load": "Graph.load' or 'from_onnx",
    "no_grad": "Graph.gradients",
    "save": "Graph.save",
    "sequential": "Graph",
}
"""Where something is that other libraries have in their module."""


def hint(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)`, or an empty string.

    Args:
        known: names that there are.
    """
    if name.startswith("_"):  # libraries ask for private names in passing, and want no advice
        return ""
    elsewhere = ELSEWHERE.get(name.casefold())
    if elsewhere is not None:
        return f" (did you mean '{elsewhere}'?)"
    kinds = [schema.kind for schema in REGISTRY]
    return data_type_hint(name) or kind_hint(name, kinds, snake_case) or nearest(name, known)
