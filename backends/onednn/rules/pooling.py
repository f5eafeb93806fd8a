"""What is barred of poolings."""

from __future__ import annotations

from ..library.enumerators import Algorithm
from .rule import Rule, Table
from .windows import NOT_PER_CHANNEL

AVERAGES = (Algorithm.pooling_avg_include_padding, Algorithm.pooling_avg_exclude_padding)

WRONG: Table = {
    "pooling_forward": (
        NOT_PER_CHANNEL,
        Rule(
            name="averages-of-unaligned-data",
            implementation="jit:sse41",
            condition="it averages",
            applies=lambda features: features.algorithm in AVERAGES,
            seen="crashes on data that does not begin at a multiple of 16 bytes, which it adds from memory",
        ),
    ),
}
