"""Users' values: lists and integers of whatever Python, NumPy or a framework has, and how messages show them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Mapping, Set
from typing import cast

from .errors import ArgumentError, ArgumentTypeError, SchemaError

MAX_SHOWN = 160
"""Characters of a value in a message, which is to stay one readable sentence."""
MANY_ELEMENTS = 16
"""Arrays of more elements are not written out in messages."""


def one_line(text: object) -> str:
    """`str(text)` on one line, cut where it is long."""
    line = re.sub(r"\s*\n\s*", " ", str(text))
    return line if len(line) <= MAX_SHOWN else f"{line[: MAX_SHOWN - 1]}…"


def counted(number: int, what: str) -> str:
    """`1 op`, `2 ops`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def format_value(value: object) -> str:
    """`repr(value)` on one line, cut where it is long; an array of many elements as its type and shape."""
    shape = [integer(dim) for dim in listed(getattr(value, "shape", None)) or ()]
    if math.prod(dim or 0 for dim in shape) > MANY_ELEMENTS and hasattr(value, "dtype"):
        return f"an array of {one_line(getattr(value, 'dtype', ''))} with shape {one_line(shape)}"
    try:
        return one_line(repr(value))
    except Exception:  # integers of thousands of digits, and whatever a class of the user's does
        return f"a value of type {type(value).__name__}"


def listed(value: object) -> list[object] | None:
    """The elements of a list, tuple, array or anything else with an order and a length; None for other things.

    Strings, mappings and sets are no lists here, and neither is an iterator, which may have no end.
    """
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping | Set):
        return None
    if isinstance(value, type) or not (hasattr(value, "__iter__") and hasattr(value, "__len__")):
        return None
    try:
        return list(cast("Iterable[object]", value))
    except TypeError:  # an array without axes has both methods
        return None


def integer(value: object) -> int | None:
    """`value` as an int; None for what is none, booleans and floats included."""
    if isinstance(value, bool | type) or not hasattr(value, "__index__"):
        return None
    if str(getattr(value, "dtype", "")).endswith(("bool", "bool_")):
        return None
    try:
        return operator.index(cast("int", value))
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors that hold no single integer
        return None


def checked_count(value: object, what: str, of: str, least: int = 1, bound: str = "1 or more") -> int:
    """A user's number of things, as an int.

    Args:
        what: it is for. of: things. least: the smallest that it may be. bound: that, in words.

    Raises:
        ArgumentTypeError: it is no whole number. ArgumentError: it is smaller.
    """
    number = integer(value)
    if number is None:
        raise ArgumentTypeError(f"{what} must be a number of {of}, got {format_value(value)}")
    if number < least:
        raise ArgumentError(f"{what} must be {bound}, got {number}")
    return number


def check_identifier(name: object, what: str, example: str) -> None:
    """Raises SchemaError for what can't be a name in Python code."""
    if not isinstance(name, str) or not name.isidentifier():
        raise SchemaError(f"{what} must be an identifier such as '{example}', got {format_value(name)}")
