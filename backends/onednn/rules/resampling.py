"""What is barred of resamplings."""

from __future__ import annotations

import math

from ..library.enumerators import Algorithm
from .features import Features
from .rule import Rule, Table
from .shared import AMBIGUOUS, STRAY, is_blocked_integers
from .windows import NOT_PER_CHANNEL


def _has_positions_apart(features: Features) -> bool:
    """Whether the positions of the source, its last axis, are not adjacent."""
    strides = features.src.strides
    return strides is None or strides[-1] != 1


def _is_torn_between_neighbours(features: Features) -> bool:
    """Whether a nearest one has a position halfway between two of the source's, by a ratio that f32 rounds."""
    if features.algorithm is not Algorithm.resampling_nearest:
        return False
    for src, dst in zip(features.diff_src.shape[2:], features.diff_dst.shape[2:], strict=True):
        parts = src // math.gcd(src, dst)
        rounds = parts & (parts - 1) != 0
        if rounds and any(2 * x * dst % src == 0 and 2 * x * dst // src % 2 for x in range(1, src)):
            return True
    return False


def _lies_in_two_ways(features: Features) -> bool:
    """Whether an image of one position is taken to lie as its other end, and has the strides of another layout."""
    first, second = features.ends
    return first.last_stride != second.last_stride


AMBIGUOUS_IMAGES = (
    Rule(
        name="stray-ones",
        implementation="",
        condition=STRAY,
        applies=lambda features: features.has_stray_ones,
        seen=f"{AMBIGUOUS}: wrong values and writes out of bounds, with channels-last (1, 9, 2, 1) say, seen with 3.6",
        since=(3, 3),
    ),
    Rule(
        name="two-layouts",
        implementation="",
        condition="data and result have different strides along the last axis",
        applies=_lies_in_two_ways,
        seen=f"{AMBIGUOUS}: most elements wrong from (2, 16, 1) channels-last to (2, 16, 3) in rows, seen with 3.6",
        since=(3, 3),
    ),
)

WRONG: Table = {
    "resampling_backward": (
        *AMBIGUOUS_IMAGES,
        Rule(
            name="torn-between-neighbours",
            implementation="jit",
            condition="it is nearest, and a position lies halfway between two by a ratio of sizes that f32 rounds",
            applies=_is_torn_between_neighbours,
            seen="the gradient of the position goes to the other neighbour than the forward pass took, from 28 to 2 "
            "say",
        ),
    ),
    "resampling_forward": (
        NOT_PER_CHANNEL,
        *AMBIGUOUS_IMAGES,
        *(
            Rule(
                name=f"integers-in-blocks-{isa}",
                implementation=f"jit:{isa}",
                condition="the result is of 8-bit integers in blocks, with a second operand of several elements",
                applies=lambda features: is_blocked_integers(features) and features.has_large_operand,
                seen="the operand's first elements for each vector of a block, which is longer than one",
            )
            for isa in ("sse41", "avx2")
        ),
        Rule(
            name="positions-apart",
            implementation="simple:any",
            condition="a second operand has more than one element and the positions of the source are not adjacent",
            applies=lambda features: features.has_large_operand and _has_positions_apart(features),
            seen="takes the operand's elements by where the result lies, as if that were row-major: per channel and "
            "channels-last",
        ),
    ),
}
