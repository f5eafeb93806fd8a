"""All that a primitive is described by, as JSON has it, for keys of what its numbers depend on."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from enum import Enum
from typing import Any, cast

from attrs import fields

from .descriptors import Descriptor
from .memory import MemoryDesc
from .primitive import Decompression, Grouping, PostOp, PrimitiveAttributes, PrimitiveDesc


def told(value: object) -> Any:
    """Something that primitives are described by, as JSON has it: what differs there differs here.

    Raises:
        TypeError: nothing that is known here.
    """
    if isinstance(value, MemoryDesc):
        return ["memory", value.facts, *map(told, value.hidden)]
    if isinstance(value, Enum):
        return cast("Any", value).value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [told(one) for one in cast("Sequence[object]", value)]
    if isinstance(value, PrimitiveDesc):
        return ["primitive", value.function, value.implementation, told(value.asked)]
    if isinstance(value, PrimitiveAttributes):
        masks = [sorted(value.scales.items()), sorted(value.zero_points.items())]
        grouped = [] if value.decompression is None else [told(value.decompression)]
        return ["attributes", int(value.fpmath), told(value.post_ops), told(masks), *grouped]
    if isinstance(value, Decompression):
        return ["decompression", told(value.scales), told(value.points)]
    if isinstance(value, Grouping):
        return [value.mask, list(value.group), value.data_type.value]
    if isinstance(value, PostOp):
        return ["post-op", int(value.algorithm), value.alpha, value.beta, told(value.operand)]
    if isinstance(value, Descriptor):
        return [value.function, *(told(getattr(value, name)) for name in _names(type(value)))]
    raise TypeError(f"{type(value).__name__} is not part of what a primitive is described by")


@functools.cache
def _names(descriptor: type[Descriptor]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(descriptor))
