"""Nodes of an ONNX model that have not become ops."""

from __future__ import annotations

from typing import Any

from ...ops.records import frozen
from ..runtime.cached import cached
from .protos import captured, kind_of


@frozen(eq=False, slots=False)
class Waiting:
    """A node that has not become ops.

    Attributes:
        number: its place among the nodes.
        node: the node.
        label: what messages call it.
        failed: why it has no translation; empty for one that reads what is not there yet.
        needed: how many of its outputs are.
        defining: whether it is one of the nodes that define the one at its place.
    """

    number: int
    node: Any
    label: str
    failed: str
    needed: int
    defining: bool = False

    @cached
    def kind(self) -> str:
        """Its op, as tables have it."""
        return kind_of(self.node)

    @cached
    def place(self) -> tuple[object, ...]:
        """What tells it from the nodes of other places, and from others that define the one at its place."""
        return (self.number, *self.node.output[: self.defining])

    @cached
    def captured(self) -> tuple[str, ...]:
        """Names of what graphs inside it read from around it."""
        return tuple(captured(self.node))

    @cached
    def outputs(self) -> tuple[str, ...]:
        """Names of what it makes; empty ones are not there."""
        return tuple(self.node.output)

    @cached
    def inputs(self) -> tuple[str, ...]:
        """Names of what it takes; empty ones are not there."""
        return tuple(self.node.input)

    @cached
    def reads(self) -> tuple[str, ...]:
        """Names of what it takes, and of what graphs inside it read from around it."""
        return (*self.inputs, *self.captured)
