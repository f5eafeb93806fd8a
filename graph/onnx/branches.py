"""Branches of an If whose condition is known at import, as of what exporters ask about sizes that are fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..importing.translation import Value


def known_branch(node: Any, values: Mapping[str, Value]) -> Any | None:
    """The attribute whose graph an If runs; None where its condition is known at execution only."""
    condition = values.get(node.input[0]) if len(node.input) == 1 else None
    if not isinstance(condition, np.ndarray) or condition.size != 1 or condition.dtype != np.bool_:
        return None
    chosen = "then_branch" if condition.item() else "else_branch"
    branch = next((attribute for attribute in node.attribute if attribute.name == chosen), None)
    return None if branch is None or branch.g.input else branch


def names_in(branch: Any, constants: Iterable[str]) -> set[str]:
    """Names that a branch makes, for itself and for what stands around it."""
    return {*constants, *(name for node in branch.node for name in node.output if name)}
