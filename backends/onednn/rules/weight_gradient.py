"""What is barred of weight gradients."""

from __future__ import annotations

from ....ops.spatial import effective_kernel
from ..library.implementations import LANES
from .features import WRAPPER, Features
from .rule import Rule, Table

REGISTER_BLOCK = 28
"""Output positions along the width that the AVX-512 kernels hold in registers; wider rows take another path."""


def _is_strided_with_empty_lanes(features: Features) -> bool:
    return features.window.is_strided and features.window.columns % LANES != 0


def _is_wide_and_strided(features: Features) -> bool:
    window = features.window
    return window.strides[-1] > 1 and window.dst[-1] > REGISTER_BLOCK


def _has_small_src(features: Features) -> bool:
    """Whether some padded axis of src has less room than the kernel's extent and a stride.

    What failed had no more room than the extent; the stride is a margin.
    """
    p = features.window
    return any(
        max(begin, end) > 0 and size < effective_kernel(k, d) + s
        for size, k, d, s, begin, end in zip(
            p.src, p.kernel, p.dilations, p.strides, p.pads_begin, p.pads_end, strict=True
        )
    )


def _has_ragged_groups(features: Features) -> bool:
    p = features.window
    return p.groups > 1 and bool(p.columns % LANES or p.rows % LANES)


def _has_dilated_rows(features: Features) -> bool:
    """A dilated kernel height over wide rows, with input channels that leave lanes empty."""
    p = features.window
    return len(p.kernel) == 2 and p.dilations[0] > 1 and p.dst[1] > REGISTER_BLOCK and p.columns % LANES != 0


def _is_narrower_than_its_stride(features: Features) -> bool:
    window = features.window
    padded = max(window.pads_begin[-1], window.pads_end[-1]) > 0
    return padded and window.src[-1] < window.strides[-1]


AMX_CHANNELS = 64
"""Input channels that AMX's kernel for batches of products takes at once."""


def _reaches_beyond_its_copy(features: Features) -> bool:
    """Whether the last of input channels that are no whole blocks is read at places that a wide kernel shifts."""
    window = features.window
    return window.kernel[-1] > 1 and window.columns % AMX_CHANNELS != 0


NARROWER = "src is narrower than the stride of its width, and zeros lie beside it"
EMPTY_LANES = "a stride is above 1 and 16 does not divide the input channels"

WRONG: Table = {
    "convolution_backward_weights": (
        Rule(
            name="strided-1x1",
            implementation="jit_1x1",
            condition=EMPTY_LANES,
            applies=_is_strided_with_empty_lanes,
            seen="wrong values, writes beyond its scratchpad, crashes and endless loops with 2 to 15 channels",
        ),
        Rule(
            name="strided-1x1-bf16",
            implementation="jit_bf16_1x1",
            condition=EMPTY_LANES,
            applies=_is_strided_with_empty_lanes,
            seen="wrong values and heap corruption with 2 and 8 channels",
        ),
        Rule(
            name="zeros-behind",
            implementation="jit:avx512_core",
            condition="the stride of the width is above 1, diff_dst is wider than 28 and 7 or more zeros follow src",
            applies=lambda features: _is_wide_and_strided(features) and features.window.pads_end[-1] >= 7,
            seen="wrong values with 14 to 26 zeros behind rows of 29 to 37 positions",
        ),
        Rule(
            name="zeros-before",
            implementation="jit:avx512_core",
            condition="the stride of the width is above 1, diff_dst is wider than 28, more than 14 zeros precede src "
            "and some follow",
            applies=lambda features: (
                _is_wide_and_strided(features)
                and features.window.pads_begin[-1] > REGISTER_BLOCK // 2
                and features.window.pads_end[-1] > 0
            ),
            seen="wrong values with 15 to 28 zeros before rows of 29 to 33 positions: it halves its block and takes "
            "the zeros that are left for as many positions of diff_dst",
        ),
        Rule(
            name="small-3d",
            implementation="jit:avx512_core",
            condition="it is 3-D and a padded axis of src is smaller than the kernel's extent and a stride",
            applies=lambda features: len(features.window.kernel) == 3 and _has_small_src(features),
            seen="wrong values, writes beyond its scratchpad and heap corruption with strides and deep kernels",
        ),
        Rule(
            name="small-bf16",
            implementation="jit_bf16:",
            condition="a padded axis of src is smaller than the kernel's extent and a stride",
            applies=_has_small_src,
            seen="wrong values and crashes, mostly in 3-D, for all kinds of channels",
        ),
        Rule(
            name="ragged-groups",
            implementation="jit_bf16:",
            condition="there are groups whose channels 16 does not divide",
            applies=_has_ragged_groups,
            seen="wrong values: always when the height is dilated and diff_dst wider than 28, sometimes else",
        ),
        Rule(
            name="dilated-rows",
            implementation="jit_bf16:",
            condition="the height is dilated, diff_dst is wider than 28 and 16 does not divide the input channels",
            applies=_has_dilated_rows,
            seen="wrong values with 17, 20 and 24 channels, and crashes",
        ),
        Rule(
            name="narrow-and-strided",
            implementation="jit_bf16:",
            condition="the stride of the width is above 1 and diff_dst is narrower than 4",
            applies=lambda features: features.window.strides[-1] > 1 and features.window.dst[-1] < 4,
            seen="wrong values with one or two output positions along the width",
        ),
        Rule(
            name="narrower-than-its-stride",
            implementation="jit:avx512_core_amx",
            condition=NARROWER,
            applies=_is_narrower_than_its_stride,
            seen="NaN from memory that nobody has written, with 1 to 3 positions and strides of 2 to 4",
        ),
        Rule(
            name="dilated-rows-by-amx",
            implementation="jit:avx512_core_amx",
            condition="another axis than the width is dilated, and 16 does not divide the input channels",
            applies=lambda features: (
                max(features.window.dilations[:-1], default=1) > 1 and features.window.columns % LANES != 0
            ),
            seen="three quarters of all values wrong with more than 32 channels",
        ),
        Rule(
            name="narrower-than-its-stride-in-batches",
            implementation="brgconv_bwd_w",
            condition=NARROWER,
            applies=_is_narrower_than_its_stride,
            seen="NaN from memory that nobody has written, with 1 to 3 positions and strides of 2 to 4",
        ),
        Rule(
            name="wide-kernel-in-batches",
            implementation="brgconv_bwd_w",
            condition="the kernel's width is above 1 and 64 does not divide the input channels",
            applies=_reaches_beyond_its_copy,
            seen="NaN in the last of 16 to 48 channels, from memory behind the copy that it makes, where diff_dst has "
            "some 21 to 31 positions more than a multiple of 32",
        ),
    )
}

SLOW: Table = {
    "convolution_backward_weights": (
        Rule(
            name="copied-within",
            implementation=WRAPPER,
            condition="always",
            applies=lambda features: True,
            seen="copies data and gradient to channels last at each call, which no estimate counts; what is chosen "
            "without it takes 0.44 to 0.99 of its time on nine layers of f32, channels first, 0.6 in the mean where "
            "the taps are single: gemm on what lies so, or kernels for blocks with copies that are counted",
            since=(3, 7),
        ),
    )
}
