"""How the writers of a family are entered."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...ops.errors import SchemaError
from ..model.op import Op
from .writing import Writing

Write = Callable[[Writing, Op], str | list[str]]
"""Adds the nodes of an op, and returns the names of its outputs, or of its one output; an
empty one where nobody reads it."""


class Writers(dict[str, Write]):
    """Kind of op → who writes it; each kind once."""

    def of(self, *kinds: str) -> Callable[[Write], Write]:
        """Decorator: makes a function the writer of these kinds."""

        def entered(write: Write) -> Write:
            self.take(dict.fromkeys(kinds, write))
            return write

        return entered

    def renamed(self, kinds: Mapping[str, str]) -> None:
        """Enters kinds that are one node of ONNX's, with the same inputs and without attributes."""
        for kind, onnx in kinds.items():

            def write(out: Writing, op: Op, onnx: str = onnx) -> str:
                return out.node(onnx, *map(out.name, op.inputs))

            self.take({kind: write})

    def take(self, writers: Mapping[str, Write]) -> None:
        """Enters others' writers.

        Raises:
            SchemaError: a kind has one already.
        """
        twice = self.keys() & writers.keys()
        if twice:
            raise SchemaError(f"{', '.join(sorted(twice))}: written twice; take one out")
        self.update(writers)
