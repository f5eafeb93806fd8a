"""What a name may be that `onednn_graph` has not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ops.data_types import data_type_hint
from ...ops.errors import nearest
from ...ops.hints import kind_advice
from ...ops.registry import REGISTRY
from ..core.signatures import MARKS
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


def hint(name: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> str:
    """` (did you mean 'x'?)`, or an empty string.

    Args:
        known: names that there are.
        elsewhere: what to say for names of other modules, in small letters.
    """
    folded = name.casefold()
    if folded in ELSEWHERE:
        return f" (did you mean '{ELSEWHERE[folded]}'?)"
    kinds = [schema.kind for schema in REGISTRY if schema.kind not in MARKS]
    own = data_type_hint(name) or kind_advice(name, kinds, snake_case)
    if own or folded not in elsewhere:
        return own or nearest(name, map(snake_case, kinds)) or nearest(name, known)
    return f" (did you mean '{elsewhere[folded]}'?)"
