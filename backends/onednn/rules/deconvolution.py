"""What is barred of transposed convolutions."""

from __future__ import annotations

from attrs import evolve

from ....ops.data_types import DataType
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
    UNREACHED,
    UNREACHED_BY_AMX,
    UNREACHED_BY_AMX_DIRECTLY,
    all_get_products,
)


def _is_strided(features: Features) -> bool:
    """Whether it goes by the strided kernel."""
    return "brgconv_strided" in features.implementation


def _is_uneven(features: Features) -> bool:
    """Whether 8-bit integers go by the strided kernel, and the stride does not divide the width of the result."""
    window = features.window
    strided = features.has_integers and _is_strided(features)
    return strided and window.dst[-1] % window.strides[-1] != 0


def _makes_up_for_data(features: Features) -> bool:
    """Whether sums of weights stand beside the products: for a zero point, and for s8, which AMX alone multiplies."""
    signed = features.src.data_type is DataType.s8 and "amx" not in features.implementation
    return signed or Arg.SRC in features.attributes.zero_points


WRONG: Table = {
    "deconvolution_forward": (
        BELOW_THE_CPU,
        evolve(FIVE_POSITIONS, implementation="conv:any+jit_bf16_1x1"),
        evolve(UNREACHED_BY_AMX, implementation="brg_conv:avx512_core_amx+brgconv:"),
        evolve(
            UNREACHED_BY_AMX,
            name="unreached-by-amx-for-gradients",
            implementation="conv:any+brg_fwd:avx512_core_amx+brgconv:",
        ),
        evolve(UNREACHED_BY_AMX_DIRECTLY, implementation="conv:any+jit:avx512_core_amx"),
        evolve(RAGGED_PLANES, implementation="brg_conv:avx512_core_amx+brgconv_1x1"),
        evolve(
            RAGGED_PLANES,
            name="planes-of-ragged-channels-for-gradients",
            implementation="conv:any+brg_fwd:avx512_core_amx+brgconv_1x1",
        ),
        Rule(
            name="stray-ones-of-integers",
            implementation="conv:any+x64:gemm_s8",
            condition=STRAY,
            applies=lambda features: features.has_stray_ones,
            seen=f"{AMBIGUOUS}: half the elements wrong in s8 to u8 channels-last (1, 3, 8, 1), seen with 3.6",
            since=(3, 3),
        ),
        Rule(
            name="strided-with-more",
            implementation="brg",
            condition="it goes by the strided kernel and has a bias or post-ops",
            applies=lambda features: (
                _is_strided(features) and (features.has_bias or bool(features.attributes.post_ops))
            ),
            seen="a bias and ReLU for each part of the taps instead of once, where it takes them in parts as its cost "
            "model likes: most elements wrong in f32 with 480 to 1000 input channels of 4×4 under 4×4 taps and "
            "stride 2",
        ),
        *(
            Rule(
                name=f"unreached-{kernel}",
                implementation=kernel,
                condition=UNREACHED,
                applies=lambda features: not all_get_products(features),
                seen="whatever a register held where the result should be zero: between taps where strides are above "
                "the kernel, and behind the last window",
            )
            for kernel in ("jit_deconvolution", "jit_uni_int8")
        ),
        Rule(
            name="uneven-width",
            implementation="brg_deconv",
            condition="integers with a zero point, or s8 but by AMX, go by the strided kernel, and the stride does not "
            "divide the width of the result",
            applies=lambda features: _is_uneven(features) and _makes_up_for_data(features),
            seen="its table of what makes up for zero points and for s8 is too short for such widths, and for s8 that "
            "of the middle stands for all: wrong elements in more than half of 3000 random layers, writes beyond the "
            "scratchpad, and crashes; versions before 3.13 don't offer it",
            since=(3, 13),
        ),
        Rule(
            name="unreached-with-a-zero-point",
            implementation="brg_deconv:avx512_core_amx",
            condition="integers go by the strided kernel to a result with a zero point, whose width the stride does "
            "not divide, and some position of it gets no product",
            applies=lambda features: (
                _is_uneven(features)
                and Arg.DST in features.attributes.zero_points
                and not all_get_products(features)
            ),
            seen="zero instead of the zero point where no product is, in 33 of 39 random layers; versions before 3.13 "
            "don't offer it",
            since=(3, 13),
        ),
    ),
}

SLOW: Table = {
    "deconvolution_forward": (
        Rule(
            name="strided-with-post-ops",
            implementation="conv:any",
            condition="it goes by the strided kernel and has post-ops",
            applies=lambda features: _is_strided(features) and bool(features.attributes.post_ops),
            seen="a reference loop over the result, that takes as long as the products; an op of its own takes a tenth",
        ),
    ),
}

IMPRECISE: Table = {"deconvolution_forward": (SATURATING,)}
