"""What is barred of convolutions."""

from __future__ import annotations

import math

from attrs import evolve

from ..library.enumerators import Arg
from .features import Features
from .rule import Rule, Table
from .shared import (
    AMBIGUOUS,
    BELOW_THE_CPU,
    FIVE_POSITIONS,
    RAGGED_PLANES,
    SATURATING,
    STRAY,
    UNREACHED_BY_AMX,
    UNREACHED_BY_AMX_DIRECTLY,
    places_of_taps,
)


def _has_operand_off_channels(features: Features) -> bool:
    """Whether a second operand has more than one element along another axis than the channels."""
    return any(
        size > 1 and axis != 1 for operand in features.operands for axis, size in enumerate(operand.shape)
    )


def _has_some_positions(features: Features) -> bool:
    """Whether some spatial axes of what goes in or comes out have one element, and not all."""
    return any({1} < set(end.shape[2:]) for end in features.ends)


AMX_ROWS = 16
"""Rows of a tile: positions that AMX's kernel multiplies at once."""


def _has_three_tiles(features: Features) -> bool:
    """Whether an image's positions are three times their largest divisor that a tile has rows for."""
    positions = math.prod(features.dst.shape[2:])
    rows = max(rows for rows in range(1, AMX_ROWS + 1) if positions % rows == 0)
    return positions == 3 * rows


PADDED_ROWS = 2
"""Output rows at either end that may see zeros around data with a zero point; more were wrong at the lower end."""


def _has_padded_rows(features: Features) -> bool:
    """Whether data have a zero point, and more than a few output positions see zeros before or behind them.

    Along the width all were right.
    """
    if Arg.SRC not in features.attributes.zero_points:
        return False
    window = features.window
    numbers = window.src, window.dst, window.kernel, window.strides, window.dilations, window.pads_begin
    for size, *taps in list(zip(*numbers, strict=True))[:-1]:
        places = places_of_taps(*taps)
        if max((places < 0).any(axis=1).sum(), (places >= size).any(axis=1).sum()) > PADDED_ROWS:
            return True
    return False


WRONG: Table = {
    "convolution_backward_data": (
        FIVE_POSITIONS,
        evolve(UNREACHED_BY_AMX, implementation="brg_fwd:avx512_core_amx+brgconv:"),
        UNREACHED_BY_AMX_DIRECTLY,
        evolve(RAGGED_PLANES, implementation="brg_fwd:avx512_core_amx+brgconv_1x1"),
    ),
    "convolution_forward": (
        BELOW_THE_CPU,
        FIVE_POSITIONS,
        UNREACHED_BY_AMX,
        UNREACHED_BY_AMX_DIRECTLY,
        RAGGED_PLANES,
        Rule(
            name="some-axes-of-one",
            implementation="brg_conv_fwd",
            condition="some spatial axes of data or result have one element and others more",
            applies=_has_some_positions,
            seen="wrong elements in u8 (1, 2, 28, 1) in two groups with taps 1×3, most of bf16 (3, 64, 1, 3, 1), seen "
            "with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="stray-ones",
            implementation="brg_conv_fwd",
            condition=STRAY,
            applies=lambda features: features.has_stray_ones,
            seen="a quarter of all elements wrong in s8 (3, 1, 13, 8), with a zero point and padding, seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="stray-ones-with-an-operand",
            implementation="",
            condition=f"a second operand has several elements and {STRAY}",
            applies=lambda features: features.has_large_operand and features.has_stray_ones,
            seen=f"{AMBIGUOUS}: most elements wrong in f32 to rows (2, 5, 1, 1) and (2, 512, 1, 1), seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="stray-ones-of-integers",
            implementation="x64:gemm_s8",
            condition=STRAY,
            applies=lambda features: features.has_stray_ones,
            seen=f"{AMBIGUOUS}: most elements wrong in u8 to f32 channels-last (2, 512, 3, 1), seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="three-tiles",
            implementation="jit_1x1:avx512_core_amx",
            condition="the positions of an image are three tiles of AMX, whose rows are the largest number up to 16 "
            "that divides them",
            applies=_has_three_tiles,
            seen="writes behind the result and crashes with 27, 33, 36, 39, 42, 45 and 48 positions, in bf16 and "
            "integers, where channels fill a tile's row",
        ),
        Rule(
            name="zeros-below-a-zero-point",
            implementation="jit:avx512_core_amx",
            condition="data have a zero point, and more than two output rows see zeros above or below them",
            applies=_has_padded_rows,
            seen="wrong values, writes out of bounds and crashes in 30 of 1700 random layers, all with 3 to 9 rows "
            "that see zeros below",
        ),
        Rule(
            name="depthwise-with-an-operand",
            implementation="jit_uni_int8",
            condition="it is depthwise with a second operand of a post-op",
            applies=lambda features: features.window.is_depthwise and bool(features.operands),
            seen="wrong values in all channels but the first of 2 and 3",
        ),
        Rule(
            name="operand-off-channels",
            implementation="x64:gemm",
            condition="a second operand has elements along another axis than the channels",
            applies=_has_operand_off_channels,
            seen="elements of the operand taken from the wrong places, in bf16",
        ),
    ),
}

IMPRECISE: Table = {"convolution_forward": (SATURATING,)}
