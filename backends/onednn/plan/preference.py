"""Which implementation is taken before the library's first one, where measurements say so.

The library offers its implementations in an order of its own, which is mostly that of their speed. Each entry of
`TABLE` is an exception, with what was measured of it in chains of primitives, on AVX-512 unless it says otherwise;
`measured.py` finds the fastest of a user's own machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.implementations import is_called
from ..rules.features import Features


@frozen
class Preference:
    """One exception from the library's order.

    Attributes:
        function: what makes the primitive, as of a `PrimitiveDesc`.
        over: the library's first implementation; of any instruction set where its name has none.
        implementation: the one that is taken instead, alike.
        condition: in words.
        applies: the condition.
        seen: what was measured.
    """

    function: str
    over: str
    implementation: str
    condition: str
    applies: Callable[[Features], bool]
    seen: str


def _is_f32(features: Features) -> bool:
    return features.src.data_type is DataType.f32


def _has_positions_in_f32(features: Features) -> bool:
    """Whether f32 is taken of many positions, of all images together, or over many channels."""
    images, channels, *positions = features.src.shape
    return _is_f32(features) and (
        images * math.prod(positions) >= MANY_POSITIONS or channels >= MANY_CHANNELS
    )


def _has_small_windows_in_bf16(features: Features) -> bool:
    """Whether depthwise windows of 3 × 3 or less go over bf16."""
    return features.src.data_type is DataType.bf16 and max(features.weights.shape[3:]) <= SMALL_WINDOW


def _makes_large_images_of_integers(features: Features) -> bool:
    """Whether depthwise windows of 3 × 3 or less make large images from 8-bit integers."""
    return (
        features.src.data_type in (DataType.u8, DataType.s8)
        and max(features.weights.shape[3:]) <= SMALL_WINDOW
        and math.prod(features.dst.shape[2:]) >= LARGE_IMAGE
    )


def _is_depthwise(features: Features) -> bool:
    weights = features.weights.shape
    return len(weights) == len(features.diff_src.shape) + 1 and weights[1] == weights[2] == 1


def _has_long_rows(features: Features) -> bool:
    """Whether f32 is multiplied by a matrix that lies row after row, each of them long, and many."""
    weights = features.weights
    strides = weights.strides
    if not _is_f32(features) or strides is None or strides[-1] != 1:
        return False
    return strides[-2] * weights.itemsize >= LONG_ROW and weights.shape[-2] >= MANY_ROWS


SMALL_WINDOW = 3
LARGE_IMAGE = 56 * 56
MANY_POSITIONS, MANY_CHANNELS = 16, 2048
LONG_ROW, MANY_ROWS = 9 << 10, 512
"""Bytes from one row of a matrix to the next, and how many rows."""
TABLE = (
    Preference(
        "convolution_forward",
        "brdgmm_dw",
        "jit_dw",
        "bf16, windows of 3 × 3",
        _has_small_windows_in_bf16,
        "1.04 to 1.17 times as fast over 32 to 960 channels, but for one of 20 at 0.93; windows of 7 × 7 at 0.97",
    ),
    Preference(
        "convolution_forward",
        "brdgmm_dw",
        "jit_int8",
        "windows of 3 × 3 on images of 56 × 56 and more, in 8 bits",
        _makes_large_images_of_integers,
        "1.0 to 1.3 times as fast over 32 to 144 channels; 0.7 to 1.05 on smaller images",
    ),
    Preference(
        "convolution_forward",
        "brdgmm_dw",
        "jit_dw",
        "f32",
        _is_f32,
        "1.1 to 1.4 times as fast on 3 × 3 and 5 × 5 windows over 32 to 1152 channels; 2 % of MobileNetV2",
    ),
    Preference(
        "convolution_forward",
        "brgconv_1x1:avx2",
        "jit_1x1:avx2",
        "f32 at 16 positions and more, or over 2048 channels, with AVX2",
        _has_positions_in_f32,
        "1.0 to 1.3 times as fast over 24 to 1280 channels, and up to 4 times over 2048 and 3072; 0.5 to 1.4 else",
    ),
    Preference(
        "convolution_backward_data",
        "brgconv_strided",
        "jit_dw",
        "one channel in each group",
        _is_depthwise,
        "4 to 10 times as fast in bf16 on 3 × 3 windows with stride 2 over 96 to 576 channels; half of a step of "
        "MobileNetV2",
    ),
    Preference(
        "matmul",
        "brg:avx512_core",
        "gemm:jit",
        "f32 by a matrix of 512 rows and more that lie 9 KB or farther apart",
        _has_long_rows,
        "0.9 to 3.4 times as fast, 1.5 in the mean, on one and two threads of a Xeon (Emerald Rapids): the other reads "
        "columns of so long rows where they lie, which crowd in the cache",
    ),
)


def preferred(features: Features) -> str | None:
    """The implementation that should run instead of the library's first one, if another; see `is_called`."""
    function, name = features.function, features.implementation
    return next(
        (
            entry.implementation
            for entry in TABLE
            if entry.function == function and is_called(name, entry.over) and entry.applies(features)
        ),
        None,
    )
