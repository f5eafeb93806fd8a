"""What is barred of transposed convolutions."""

from __future__ import annotations

from attrs import evolve

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
            name="unreached-brg",
            implementation="brg_deconv",
            condition="8-bit integers go by the strided kernel, and some position of the result gets no product",
            applies=lambda features: (
                features.has_integers and _is_strided(features) and not all_get_products(features)
            ),
            seen="what makes up for zero points and for s8 stands where no product does: a quarter of the elements of "
            "s8 to s8, and of all with a zero point, with 3×3 positions under 2×2 taps and stride 3; right with 3.6",
            since=(3, 7),
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
