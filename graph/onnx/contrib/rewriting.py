"""A node of onnxruntime's own domain in the making, as nodes of ONNX's own op set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.records import frozen
from ....ops.values import format_value
from ...importing.translation import Unmapped, Value, check_room, dtype_of, shape_of, sizes
from ...runtime.arrays import Array
from ..types import NUMBERS


@frozen(eq=False)
class Rewriting:
    """A node that is rewritten.

    Attributes:
        onnx: the package.
        node: the node.
        label: the name of its first output, which those of new values begin with.
        attributes: of the node; those that were asked for are taken out.
        values: what names of the model stand for.
        kept: constants that were made of weights, for other imports of the same model.
        scope: what the names of those begin with.
        opset: the version of ONNX's op set.
        limit: bytes that a constant may take.
        constants: new ones, by name.
        nodes: those in its place.
    """

    onnx: Any
    node: Any
    label: str
    attributes: dict[str, Any]
    values: Mapping[str, Value]
    kept: dict[str, Array]
    scope: str
    opset: int
    limit: int
    constants: dict[str, Array]
    nodes: list[Any]

    def input(self, number: int) -> str:
        """The name of an input; empty where it is not there."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def output(self, number: int) -> str:
        """The name of an output; empty where nobody has it."""
        return self.node.output[number] if number < len(self.node.output) else ""

    def value(self, number: int) -> Value:
        """What an input stands for.

        Raises:
            Unmapped: it is not there.
        """
        if not self.input(number):
            raise Unmapped(f"input {number} is missing")
        return self.values[self.input(number)]

    def dtype(self, number: int = 0) -> np.dtype[Any]:
        """The type of an input's elements."""
        return dtype_of(self.value(number))

    def float_type(self) -> np.dtype[Any]:
        """The type of the first input where it is one of floating point, else f32, which integers stand for."""
        return self.dtype() if self.dtype().kind == "f" else np.dtype(np.float32)

    def rank(self, number: int) -> int:
        """How many axes an input has.

        Raises:
            LeftOpen: nobody knows.
        """
        return len(shape_of(self.value(number)))

    def sizes(self, number: int) -> tuple[int, ...]:
        """The shape of an input.

        Raises:
            LeftOpen: a size is not known now.
        """
        return sizes(self.value(number))

    def known(self, number: int) -> Array:
        """The constant that an input is.

        Raises:
            Unmapped: it is none.
        """
        value = self.value(number)
        if not isinstance(value, np.ndarray):
            raise Unmapped(f"its input {number} must be constant, but other nodes compute it at execution")
        return value

    def only(self, inputs: int, outputs: int) -> None:
        """Checks that there are no more inputs and outputs.

        Raises:
            Unmapped: there are.
        """
        for what, names, count in (
            ("input", self.node.input, inputs),
            ("output", self.node.output, outputs),
        ):
            more = [place for place, name in enumerate(names) if name and place >= count]
            if more:
                raise Unmapped(f"it has an {what} {more[0]}, which the translation does not know")

    def without(self, *places: int) -> None:
        """Checks that none of these inputs is there.

        Raises:
            Unmapped: one is.
        """
        for place in places:
            if self.input(place):
                raise Unmapped(f"it has an input {place}, which the translation does not know")

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, which is known then; text as str."""
        value = self.attributes.pop(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def positive(self, name: str) -> int:
        """An attribute that counts something.

        Raises:
            Unmapped: it does not.
        """
        value = self.attribute(name)
        if not isinstance(value, int) or value < 1:
            raise Unmapped(f"its attribute {name} must be an integer above 0, got {format_value(value)}")
        return value

    def usual(self, **values: object) -> None:
        """Checks that attributes have the one value that is known here, where they are given.

        Raises:
            Unmapped: one has another.
        """
        for name, usual in values.items():
            value = self.attribute(name, usual)
            if value != usual:
                raise Unmapped(
                    f"its attribute {name} is {format_value(value)}, which the translation does not know; only "
                    f"{format_value(usual)} can be done"
                )

    def rest(self) -> dict[str, Any]:
        """All attributes that nobody has asked for, for a node that knows them."""
        rest = dict(self.attributes)
        self.attributes.clear()
        return rest

    def end(self) -> None:
        """Checks that there is no attribute that nobody has asked for.

        Raises:
            Unmapped: there is.
        """
        for name, value in self.attributes.items():
            raise Unmapped(
                f"its attribute {name} is {format_value(value)}, which the translation does not know"
            )

    def constant(self, name: str, value: Any) -> str:
        """A new constant's name."""
        name = f"{self.label}.{name}"
        self.constants[name] = np.asarray(value)
        return name

    def number(self, name: str, value: float, like: int = 0) -> str:
        """The name of a new constant of the type of an input, the first unless said otherwise."""
        return self.constant(name, np.asarray(value, self.dtype(like)))

    def check_room(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Checks that a constant which is about to be made takes no more bytes than it may.

        Raises:
            TooLarge: it does.
        """
        check_room(shape, dtype, self.limit)

    def made_once(self, name: str, shape: tuple[int, ...], dtype: Any, make: Callable[[], Array]) -> str:
        """The name of a constant that is made of weights at the first import of a model.

        Raises:
            TooLarge: it takes more than a constant may.
        """
        self.check_room(shape, np.dtype(dtype))
        key = f"{self.scope}{self.label}.{name}"
        if key not in self.kept:
            self.kept[key] = np.ascontiguousarray(make(), dtype)
        return self.constant(name, self.kept[key])

    def __call__(self, kind: str, *inputs: str, into: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """A new node; the name of its output, or of all.

        Args:
            into: the output's name; empty for a new one.
        """
        start = f"{self.label}.{kind}{len(self.nodes)}"
        names = [into or start] if outputs == 1 else [f"{start}.{n}" for n in range(outputs)]
        made = self.onnx.helper.make_node(
            kind, list(inputs), names, name=into and self.node.name, **attributes
        )
        self.nodes.append(made)
        return names[0] if outputs == 1 else names

    def cast(self, x: str, dtype: np.dtype[Any], into: str = "") -> str:
        """A value in another type."""
        return self("Cast", x, into=into, to=NUMBERS[dtype])

    def split(self, x: str, widths: Sequence[int], axis: int) -> list[str]:
        """The parts of a value."""
        numbers = [int(width) for width in widths]
        if len(numbers) == 1:
            return [x]
        if self.opset < 13:
            return self("Split", x, outputs=len(numbers), axis=axis, split=numbers)
        name = self.constant(f"widths{len(self.nodes)}", np.asarray(numbers, np.int64))
        return self("Split", x, name, outputs=len(numbers), axis=axis)

    def channels_first(self, number: int) -> str:
        """An input whose channels are the last axis, with them as the second."""
        rank = self.rank(number)
        return self("Transpose", self.input(number), perm=[0, rank - 1, *range(1, rank - 1)])

    def channels_last(self, x: str) -> None:
        """The first output from a value of the first input's rank whose channels are the second axis."""
        self("Transpose", x, into=self.output(0), perm=[0, *range(2, self.rank(0)), 1])

    def reshape(self, x: str, shape: tuple[int, ...], into: str = "") -> str:
        """The elements under another shape, all of which is known."""
        name = self.constant(f"shape{len(self.nodes)}", np.asarray(shape, np.int64))
        return self("Reshape", x, name, into=into)


Rewrite = Callable[[Rewriting], None]
