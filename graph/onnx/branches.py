"""Branches of an If whose condition is known at import, as of what exporters ask about sizes that are fixed."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...ops.records import frozen
from ..importing.translation import Value
from ..runtime.arrays import Array
from ..runtime.cached import cached
from .reading import Model, constants_of


@frozen(eq=False)
class Branch:
    """The branch of an If that runs.

    Attributes:
        graph: ONNX's.
        scope: tells it from all other branches of a model, and begins names of what is made of its weights.
        constants: that it has itself.
    """

    graph: Any
    scope: str
    constants: Mapping[str, Array]

    @property
    def names(self) -> frozenset[str]:
        """What it makes, for itself and for what stands around it."""
        return frozenset(
            [*self.constants, *(name for node in self.graph.node for name in node.output if name)]
        )


class Branches:
    """Branches of a model that are being translated, one in another."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._inside: list[Branch] = []

    @property
    def scope(self) -> str:
        """That of the innermost; nothing outside of all."""
        return self._inside[-1].scope if self._inside else ""

    @property
    def names(self) -> frozenset[str]:
        """What the model's own nodes make, and all of them."""
        return self._own.union(*(branch.names for branch in self._inside))

    @cached
    def _own(self) -> frozenset[str]:
        return frozenset(name for node in self._model.proto.graph.node for name in node.output)

    def known(self, node: Any, values: Mapping[str, Value]) -> Branch | None:
        """The branch that an If runs; None where its condition is known at execution only."""
        condition = values.get(node.input[0]) if len(node.input) == 1 else None
        if not isinstance(condition, np.ndarray) or condition.size != 1 or condition.dtype != np.bool_:
            return None
        chosen = "then_branch" if condition.item() else "else_branch"
        graph = next((attribute.g for attribute in node.attribute if attribute.name == chosen), None)
        if graph is None or graph.input:
            return None
        scope = f"{self.scope}{'/'.join(node.output)}.{chosen}/"
        held = self._model.branches
        if scope not in held:
            held[scope] = constants_of(self._model.onnx, graph, self._model.fold_limit)
        return Branch(graph, scope, held[scope])

    @contextmanager
    def inside(self, branch: Branch) -> Generator[None]:
        """While its nodes are translated."""
        self._inside.append(branch)
        try:
            yield
        finally:
            self._inside.pop()
