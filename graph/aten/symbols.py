"""Sizes that an exported torch program leaves open: its symbols, and the numbers that inputs give them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ...ops.errors import ShapeError
from ...ops.schema import UNKNOWN_DIM
from ..model.logical_tensor import format_shape
from ..unknown_sizes.sampling import OpenSize

LEAST_CHECKED = 2
"""A lower bound that torch gives every symbol, and does not hold inputs to."""
UNBOUNDED = 2**62
"""What torch has for an upper bound where there is none, or more than that."""


class Sizes:
    """What a program's symbols stand for, given the shapes of its inputs.

    Args:
        ranges: the program's bounds of symbols.
    """

    def __init__(self, ranges: Mapping[Any, Any]) -> None:
        self._ranges = ranges
        self._numbers: dict[Any, int] = {}
        self._values: dict[Any, int] = {}

    def bind(self, name: str, dims: Sequence[Any], shape: Sequence[int]) -> None:
        """Takes over the sizes of an input.

        Args:
            name: of the input.
            dims: its sizes in the program, numbers or symbols.
            shape: its sizes now.

        Raises:
            ShapeError: a size that is no symbol's is another one, or a symbol has two numbers or one out of its range.
        """
        if len(dims) != len(shape):
            raise ShapeError(
                f"input {name!r} has {len(dims)} axes in the program, got {format_shape(tuple(shape))}"
            )
        for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
            expression = _expression(dim)
            if expression is not None and expression.is_Symbol and expression not in self._numbers:
                self._check_range(expression, f"axis {axis} of input {name!r}", size)
                self._numbers[expression] = size
                self._values.clear()
            elif self.of(dim) != size:
                raise ShapeError(
                    f"axis {axis} of input {name!r} must have {self.of(dim)} elements"
                    f"{'' if expression is None else f', {expression} of the exported program'}, got {size}"
                )

    def _check_range(self, symbol: Any, where: str, size: int) -> None:
        bounds = self._ranges.get(symbol)
        if bounds is None:
            return
        if size > bounds.upper or (bounds.lower > LEAST_CHECKED and size < bounds.lower):
            raise ShapeError(
                f"{where} must have between {bounds.lower} and {bounds.upper} elements, as the module was exported, "
                f"got {size}; export it for other sizes"
            )

    def of(self, dim: Any) -> int:
        """The number that a size is; -1 where it is known at execution only."""
        expression = _expression(dim)
        if expression is None:
            return int(dim)
        if expression not in self._values:
            value = expression.subs(self._numbers)
            self._values[expression] = int(value) if value.is_Integer else UNKNOWN_DIM
        return self._values[expression]


def _expression(dim: Any) -> Any:
    """The formula behind a size of a program; None for a number."""
    if isinstance(dim, int):
        return None
    return None if dim.node.expr.is_Integer else dim.node.expr


def open_shape(dims: Sequence[Any]) -> tuple[int, ...]:
    """A program's sizes with -1 for those that are left open."""
    return tuple(int(dim) if _expression(dim) is None else UNKNOWN_DIM for dim in dims)


def example_shape(dims: Sequence[Any]) -> tuple[int, ...] | None:
    """The sizes that the module was exported with; None where the program no longer knows."""
    shape = [int(dim) if _expression(dim) is None else dim.node.hint for dim in dims]
    return None if None in shape else tuple(int(size) for size in shape)


def open_sizes(
    inputs: Mapping[str, Sequence[Any]], ranges: Mapping[Any, Any], dynamic_shapes: object
) -> dict[tuple[str, int], OpenSize]:
    """What is known of the sizes that a program leaves open.

    Args:
        inputs: sizes of its inputs in it, by name.
        ranges: its bounds of symbols.
        dynamic_shapes: what it was exported with; its `Dim`s have names. Where a name is not found, or stands for
            several symbols, it is the symbol's.
    """
    symbols = {
        (name, axis): _expression(dim)
        for name, dims in inputs.items()
        for axis, dim in enumerate(dims)
        if _expression(dim) is not None
    }
    called: dict[str, Any] = {}
    for key, wanted in _names_of_dims(list(inputs), dynamic_shapes):
        if key in symbols and called.setdefault(wanted, symbols[key]) != symbols[key]:
            called[wanted] = None
    names = {symbol: name for name, symbol in called.items() if symbol is not None}
    found: dict[tuple[str, int], OpenSize] = {}
    for key, symbol in symbols.items():
        bounds = ranges.get(symbol)
        limits = None
        if bounds is not None:
            most = int(bounds.upper) if getattr(bounds.upper, "is_Integer", False) else None
            if bounds.lower > LEAST_CHECKED or (most is not None and most < UNBOUNDED):
                limits = (int(bounds.lower), most)
        found[key] = OpenSize(names.get(symbol, str(symbol)), limits)
    return found


def _names_of_dims(inputs: Sequence[str], dynamic_shapes: object) -> Iterator[tuple[tuple[str, int], str]]:
    """The names of `Dim`s, by input and axis, where `dynamic_shapes` has an entry for each input."""
    if isinstance(dynamic_shapes, Mapping):
        entries = [(str(key), one) for key, one in cast("Mapping[object, object]", dynamic_shapes).items()]
    elif isinstance(dynamic_shapes, list | tuple):
        given = cast("Sequence[object]", dynamic_shapes)
        entries = list(zip(inputs, given, strict=False)) if len(given) == len(inputs) else []
    else:
        return
    for name, entry in entries:
        if isinstance(entry, Mapping):
            axes = list(cast("Mapping[Any, object]", entry).items())
        elif isinstance(entry, list | tuple):
            axes = list(enumerate(cast("Sequence[object]", entry)))
        else:
            continue
        for axis, dim in axes:
            called = getattr(dim, "__name__", None)
            if isinstance(axis, int) and isinstance(called, str):
                yield (name, axis), called
