"""FpmathMode: how far f32 arithmetic may be lowered in precision."""

from __future__ import annotations

from enum import StrEnum


class FpmathMode(StrEnum):
    """How far f32 arithmetic may be lowered in precision; `strict` not at all."""

    strict = "strict"
    bf16 = "bf16"
    f16 = "f16"
    any = "any"
    tf32 = "tf32"
