"""Rules that several primitives share, and words for their conditions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..library.implementations import LANES
from .features import INTEGERS, Features
from .rule import Rule

AMBIGUOUS = (
    "takes images whose axes of one element have another stride than its own for images in the other order"
)
STRAY = "an axis of one element, of data or result, has another stride than the layout gives it"


def places_of_taps(count: int, kernel: int, stride: int, dilation: int, begin: int) -> NDArray[np.int64]:
    """Where along an axis each tap of a kernel lies: a row for each of so many windows, below 0 in what precedes."""
    at, tap = np.arange(count, dtype=np.int64), np.arange(kernel, dtype=np.int64)
    return at[:, None] * stride - begin + tap * dilation


def all_get_products(features: Features) -> bool:
    """Whether every position of a convolution's result, or of its gradient, gets a product, axis by axis."""
    window = features.window
    forward, transposed = (
        features.function == "convolution_forward",
        features.function == "deconvolution_forward",
    )
    large, small = (window.dst, window.src) if transposed else (window.src, window.dst)
    numbers = large, small, window.kernel, window.strides, window.dilations, window.pads_begin
    for most, least, *taps in zip(*numbers, strict=True):
        places = places_of_taps(least, *taps)
        met = (places >= 0) & (places < most)
        if not bool(met.any(axis=1).all()) if forward else np.unique(places[met]).size < most:
            return False
    return True


def _has_planes_of_ragged_channels(features: Features) -> bool:
    window = features.window
    return len(window.kernel) == 3 and bool(window.rows % 4 or window.columns % 4)


RAGGED_PLANES = Rule(
    name="planes-of-ragged-channels",
    implementation="brgconv_1x1:avx512_core_amx",
    condition="it is 3-D and 4 does not divide the channels on both sides",
    applies=_has_planes_of_ragged_channels,
    seen="some positions of later planes get those of others, on two threads, with 3 and 5 channels and 3 to 6 planes "
    "of 9 to 18 positions",
)
UNREACHED = "some position of the result gets no product"
UNREACHED_BY_AMX = Rule(
    name="unreached-by-amx",
    implementation="brgconv:avx512_core_amx",
    condition=UNREACHED,
    applies=lambda features: not all_get_products(features),
    seen="crashes, where a dilated kernel sees zeros alone along another axis than the width",
)
UNREACHED_BY_AMX_DIRECTLY = Rule(
    name="unreached-by-amx-directly",
    implementation="jit:avx512_core_amx",
    condition=UNREACHED,
    applies=UNREACHED_BY_AMX.applies,
    seen="whatever a register held where zeros should be, in planes that a dilated kernel passes over, and behind the "
    "last window of a strided one",
)


def is_blocked_integers(features: Features) -> bool:
    """Whether the result is of 8-bit integers in blocks."""
    return bool(features.dst.blocks) and features.dst.data_type in INTEGERS


def _ends_within_a_register(features: Features) -> bool:
    """Whether AVX2's kernel on a CPU with AVX-512 ends its rows in part of a register, with a large operand."""
    target, weights = features.dst.shape, features.weights.shape
    channels = target[-1]
    if "conv" in features.function:  # those of one group
        channels = weights[1] if len(weights) > len(target) else target[1]
    return features.is_below_the_cpu and channels % (LANES // 2) != 0 and features.has_large_operand


SATURATING = Rule(
    name="saturating",
    implementation="",
    condition="the operands are 8-bit integers, and not u8 by constants of 7 bits up to AVX2, and the CPU or the "
    "kernel has no VNNI",
    applies=lambda features: features.has_integers and features.has_no_vnni and features.may_saturate,
    seen="sums of two products saturate at 16 bits, and weights of signed data are halved against that and rounded",
)


def _has_five_positions(features: Features) -> bool:
    """Whether a kernel for CPUs without bf16 has five windows."""
    window = features.window
    return not features.implementation.endswith("bf16") and 5 in (
        math.prod(window.src),
        math.prod(window.dst),
    )


FIVE_POSITIONS = Rule(
    name="five-positions",
    implementation="jit_bf16_1x1",
    condition="it is for CPUs without bf16, and there are exactly five positions",
    applies=_has_five_positions,
    seen="the fourth block of 16 channels and others are sums of something else: in bf16 (2, 192, 5) of 16 channels, "
    "with one thread",
)

BELOW_THE_CPU = Rule(
    name="below-the-cpu",
    implementation="brg",
    condition="it is AVX2's on a CPU with AVX-512, 8 does not divide the channels, and there is an operand of several "
    "elements",
    applies=_ends_within_a_register,
    seen="zeros in the channels behind the last whole eight, in products of 8-bit integers, seen with 3.6",
    since=(3, 3),
)
