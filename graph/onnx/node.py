"""A node of an ONNX graph as translations see it."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.records import frozen
from ...ops.values import format_value
from ..importing.expressions import uniform
from ..importing.translation import Translation, Unmapped, Value
from ..runtime.arrays import Array


@frozen(eq=False)
class Node:
    """A node of an ONNX graph.

    Attributes:
        kind: its op.
        opset: the version of the op set.
        inputs: values; None for an optional one that is not there.
        outputs: how many of its outputs, from the first, somebody needs.
        listed: how many outputs it has.
        attributes: Python values; strings are str.
    """

    kind: str
    opset: int
    inputs: tuple[Value | None, ...]
    outputs: int
    listed: int
    attributes: Mapping[str, Any]

    def optional(self, index: int) -> Value | None:
        """An input, or None where it is not there."""
        return self.inputs[index] if index < len(self.inputs) else None

    def __getitem__(self, index: int) -> Value:
        value = self.optional(index)
        if value is None:
            raise Unmapped(f"input {index} is missing")
        return value

    def given(self) -> list[Value]:
        """All inputs of a variadic op."""
        return [self[index] for index in range(len(self.inputs))]

    def constant(self, index: int, what: str) -> Array | None:
        """An input whose value must be known now, or None where it is not there."""
        value = self.optional(index)
        if value is not None and not isinstance(value, np.ndarray):
            raise Unmapped(f"its {what} must be constant, but other nodes compute it at execution")
        return value

    def integers(self, name: str, index: int, default: Sequence[int] | None = None) -> list[int] | None:
        """A list that is an attribute in some opsets and an input in others."""
        if name in self.attributes:
            return [int(v) for v in self.attributes[name]]
        value = self.constant(index, name) if index >= 0 else None
        if value is None:
            return None if default is None else list(default)
        return [int(v) for v in value.reshape(-1)]

    def number(self, index: int, what: str, default: float | None = None) -> float | None:
        """A constant scalar input, or `default` where it is not there."""
        value = self.constant(index, what)
        if value is None:
            return default
        if value.size != 1:
            raise Unmapped(f"its {what} must be one number, got {value.size}")
        number = float(value.reshape(-1)[0])
        if value.dtype.kind in "iu" and int(number) != int(value.reshape(-1)[0]):
            raise Unmapped(f"its {what} is {value.reshape(-1)[0]}, which no double has")
        return number

    def positive(self, name: str, default: int | None = None) -> int:
        """An attribute that counts something."""
        value = self.get(name, default)
        if not isinstance(value, int) or value < 1:
            raise Unmapped(f"its attribute {name} must be an integer above 0, got {format_value(value)}")
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)


Translate = Callable[[Translation, Node], "Value | Sequence[Value]"]
"""From a node to its output, or its outputs in order."""


def constant_scalar(value: object) -> float | None:
    """The number in a constant of one element, or None."""
    array = typing.cast("Array", value)
    return uniform(array) if isinstance(value, np.ndarray) and array.size == 1 else None
