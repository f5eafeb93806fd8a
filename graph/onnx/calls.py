"""A node with the values of its inputs, as kernels of ours for ONNX's nodes take it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from attrs import field

from ...ops.records import frozen
from ..importing.translation import Unmapped
from ..runtime.arrays import Array

T = TypeVar("T")


@frozen(eq=False)
class Call:
    """A node with the values of its inputs.

    Attributes:
        kind: its op.
        opset: the version of the op set.
        inputs: arrays, or lists of them; None for what is not there.
        outputs: how many of its outputs, from the first, somebody needs.
        listed: how many outputs it has.
        attributes: Python values; tensors are arrays.
        limit: bytes that an output may take.
        kept: what the kernel has made of the attributes, for the next call of the same node.
    """

    kind: str
    opset: int
    inputs: Sequence[Any]
    outputs: int
    listed: int
    attributes: Mapping[str, Any]
    limit: int
    kept: dict[str, Any] = field(factory=dict[str, Any])

    def __getitem__(self, index: int) -> Array:
        value = self.optional(index)
        if value is None:
            raise Unmapped(f"input {index} is missing")
        return value

    def optional(self, index: int) -> Any:
        """An input, or None where it is not there."""
        return self.inputs[index] if index < len(self.inputs) else None

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def floats(self, name: str) -> Array:
        """An attribute that is a list of numbers, in f32; empty where it is not there."""
        return self.once(name, lambda: np.asarray(self.get(name, ()), np.float32))

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What depends on attributes only, made at the first call."""
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]
