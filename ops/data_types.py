"""Data types, under oneDNN Graph's own names.

Source: `dnnl_graph_logical_tensor_t` and the op documents. No arrays here: the NumPy side of each type
is in `graph/runtime/arrays.py`, the library's enumerators in `backends/onednn/library/loading.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
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


NAMES: dict[str, DataType] = {
    "bfloat16": DataType.bf16,
    "bool": DataType.boolean,
    "float16": DataType.f16,
    "float32": DataType.f32,
    "float64": DataType.f64,
    "float8_e4m3fn": DataType.f8_e4m3,
    "float8_e5m2": DataType.f8_e5m2,
    "int32": DataType.s32,
    "int4": DataType.s4,
    "int64": DataType.s64,
    "int8": DataType.s8,
    "uint4": DataType.u4,
    "uint8": DataType.u8,
}
"""What NumPy, torch, jax and tensorflow call the types, which mean the same in all of them."""
_WORDS = {
    "double": DataType.f64,
    "float": DataType.f32,
    "fp16": DataType.f16,
    "fp32": DataType.f32,
    "fp64": DataType.f64,
    "half": DataType.f16,
    "i32": DataType.s32,
    "i64": DataType.s64,
    "i8": DataType.s8,
    "int": DataType.s32,
    "long": DataType.s64,
}
"""Words that mean one type here and another there: good for a hint, not for a guess."""


def parse_data_type(value: object, what: str) -> DataType:
    """A data type from its name, the name that others have for it, or a dtype of NumPy, torch, jax or tensorflow.

    Raises:
        ArgumentTypeError, ArgumentError: nothing of the kind, or one without a counterpart.
    """
    if isinstance(value, DataType):
        return value
    name = value if isinstance(value, str) else _name_of(value)
    if name in NAMES:
        return NAMES[name]
    return parse_enum(DataType, value, what, _WORDS)  # pyright: ignore[reportArgumentType] -- users' values


def data_type_hint(name: str) -> str:
    """` (data types are written …)` for a word for a data type elsewhere, or an empty string."""
    meant = NAMES.get(name) or _WORDS.get(name)
    return f" (data types are written '{meant.value}' or DataType.{meant.value})" if meant else ""


def _name_of(dtype: object) -> str:
    """The name of another library's dtype; an empty string for what looks like none."""
    if isinstance(dtype, type):  # np.float32, jnp.float32
        return dtype.__name__
    if not type(dtype).__name__.casefold().partition("[")[0].endswith("dtype"):
        return ""
    own = getattr(dtype, "name", None)
    return own if isinstance(own, str) else str(dtype).removeprefix("torch.")


_NO_WORDS: Mapping[str, StrEnum] = {}


def parse_enum(enum: type[E], value: E | str, what: str, words: Mapping[str, StrEnum] = _NO_WORDS) -> E:
    """The member of `enum` that `value` is or spells.

    Args:
        words: what others say for members, for a hint.

    Raises:
        ArgumentTypeError: `value` is no string.
        ArgumentError: `value` spells no member; the message lists them and the nearest.
    """
    if isinstance(value, enum):  # nearly always, and what builds large graphs comes here often
        return value
    names = ", ".join(member.value for member in enum)
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"{what} must be one of {names}, got {format_value(value)} of type {type(value).__name__}"
        )
    try:
        return enum(value)
    except ValueError:
        meant = words.get(value.casefold())
        hint = f" (did you mean '{meant.value}'?)" if meant else nearest(value, (m.value for m in enum))
        raise ArgumentError(f"{what} must be one of {names}, got {format_value(value)}{hint}") from None
