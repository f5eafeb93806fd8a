"""Data types, under oneDNN Graph's own names.

Source: `dnnl_graph_logical_tensor_t` and the op documents. No arrays here: the NumPy side of each type
is in `graph/runtime/arrays.py`, the library's enumerators in `backends/onednn/library/loading.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from .errors import ArgumentError, ArgumentTypeError, nearest
from .values import format_value

E = TypeVar("E", bound=StrEnum)


class DataType(StrEnum):
    """Element type of a logical tensor; members compare equal to their strings (`DataType.f32 == "f32"`)."""

    undef = "undef"
    f16 = "f16"
    bf16 = "bf16"
    f32 = "f32"
    f64 = "f64"
    s64 = "s64"
    s32 = "s32"
    s8 = "s8"
    u8 = "u8"
    boolean = "boolean"
    f8_e5m2 = "f8_e5m2"
    f8_e4m3 = "f8_e4m3"
    s4 = "s4"
    u4 = "u4"


def parse_enum(enum: type[E], value: E | str, what: str) -> E:
    """The member of `enum` that `value` is or spells.

    Raises:
        ArgumentTypeError: `value` is no string.
        ArgumentError: `value` spells no member; the message lists them and the nearest.
    """
    names = ", ".join(member.value for member in enum)
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"{what} must be one of {names}, got {format_value(value)} of type {type(value).__name__}"
        )
    try:
        return enum(value)
    except ValueError:
        raise ArgumentError(
            f"{what} must be one of {names}, got {format_value(value)}{nearest(value, (m.value for m in enum))}"
        ) from None
