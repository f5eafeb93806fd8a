"""What torch says of ATen's ops and types: arguments in the order of a schema, and NumPy's types of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..importing.expressions import cast
from ..importing.translation import Translation, Unmapped, Value

Translate = Callable[..., Any]
"""From an op's arguments, in the order of ATen's schema with defaults filled in, to its output or its outputs."""
NUMPY_TYPES: dict[str, np.dtype[Any]] = {
    f"torch.{name}": np.dtype(kind)
    for name, kind in {
        "float32": np.float32,
        "float64": np.float64,
        "float16": np.float16,
        "bfloat16": ml_dtypes.bfloat16,
        "int64": np.int64,
        "int32": np.int32,
        "int8": np.int8,
        "uint8": np.uint8,
        "bool": np.bool_,
    }.items()
}
"""NumPy's type of torch's, by the name of the latter."""


def translation_of(table: Mapping[str, Translate], op: object) -> Translate | None:
    """The translation of an op in a table, by its name with the overload or without; None if it has none."""
    name = str(op)
    return table.get(name) or table.get(name.rpartition(".")[0])


def bound(op: Any, args: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """All arguments in the order of the op's schema, with defaults."""
    return [
        args[place]
        if place < len(args) and not argument.kwarg_only
        else named.get(argument.name, argument.default_value)
        for place, argument in enumerate(op._schema.arguments)
    ]


def draws(op: Any, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether an op makes random numbers; one that drops nothing out makes none."""
    if not any(tag.name == "nondeterministic_seeded" for tag in getattr(op, "tags", ())):
        return False
    given = dict(zip((one.name for one in op._schema.arguments), bound(op, args, named), strict=True))
    return given.get("dropout_p", 1) != 0 and given.get("train") is not False


def numpy_type_of(dtype: object) -> np.dtype[Any]:
    """NumPy's type of a `torch.dtype`.

    Raises:
        Unmapped: there is none.
    """
    if "complex" in str(dtype):
        raise Unmapped(f"{dtype} is no type of oneDNN Graph; give torch.view_as_real(…) of what is complex")
    if str(dtype) not in NUMPY_TYPES:
        raise Unmapped(f"element type {dtype} has no counterpart; convert it before, to torch.float32 say")
    return NUMPY_TYPES[str(dtype)]


def cast_if_asked(t: Translation, x: Value, dtype: object) -> Value:
    """The value in a `torch.dtype`; as it is for None."""
    return x if dtype is None else cast(t, x, numpy_type_of(dtype))
