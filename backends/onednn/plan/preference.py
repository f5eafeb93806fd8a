"""Which implementation is taken before the library's first one, where measurements say so.

The library offers its implementations in an order of its own, which is mostly that of their speed. Each entry of
`TABLE` is an exception, with what was measured of it in chains of primitives on AVX-512; `measured.py` finds the
fastest of a user's own machine.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from ....ops.data_types import DataType
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


def _is_depthwise(features: Features) -> bool:
    weights = features.weights.shape
    return len(weights) == len(features.diff_src.shape) + 1 and weights[1] == weights[2] == 1


TABLE = (
    Preference(
        "convolution_forward",
        "brdgmm_dw",
        "jit_dw",
        "f32",
        _is_f32,
        "1.1 to 1.4 times as fast on 3 × 3 and 5 × 5 windows over 32 to 1152 channels; 2 % of MobileNetV2",
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
