"""What is barred of reorders, and which the library must not even be asked for."""

from __future__ import annotations

import math

from ....ops.data_types import DataType
from ..library.memory import MemoryDesc
from .features import Features
from .rule import Rule, Table


def _has_gaps(desc: MemoryDesc) -> bool:
    """Whether memory lies between its elements, or behind a row, that is none of its own."""
    return desc.strides is not None and desc.nbytes > math.prod(desc.shape) * desc.itemsize


def _has_sums_off_fours(features: Features) -> bool:
    """Whether sums of 8-bit weights go behind them, and 4 does not divide their innermost axis."""
    target = features.dst
    if target.strides is None or target.data_type is not DataType.s8:
        return False
    innermost = [d for d, s in zip(target.shape, target.strides, strict=True) if s == 1 and d > 1]
    return target.has_more and any(d % 4 for d in innermost)


def _has_sums_of_eights(features: Features) -> bool:
    """Whether sums of 8-bit weights go behind eight by a multiple of eight of them, which may be cut into eights."""
    target = features.dst
    eights = 8 in target.shape and sum(d % 8 == 0 for d in target.shape) > 1
    return target.data_type is DataType.s8 and target.has_more and eights


def _goes_apart(features: Features) -> bool:
    """Whether no two elements of the target are adjacent."""
    target = features.dst
    steps = [s for s, d in zip(target.strides or (), target.shape, strict=False) if d > 1]
    return bool(steps) and 1 not in steps


def _moves(features: Features) -> bool:
    """Whether a reorder brings elements to other places."""
    source, target = features.src, features.dst
    if source.strides is None or target.strides is None:
        return source.describe() != target.describe()
    along = zip(source.strides, target.strides, source.shape, strict=True)
    return any(a != b for a, b, size in along if size > 1)


def _has_one_zero_point(features: Features) -> bool:
    """Whether there are zero points, and no scales along an axis."""
    return bool(features.attributes.zero_points) and not any(features.attributes.scales.values())


WRONG: Table = {
    "reorder": (
        Rule(
            name="zero-points-that-move",
            implementation="jit:uni",
            condition="there are zero points but no scales along an axis, and elements move",
            applies=lambda features: _has_one_zero_point(features) and _moves(features),
            seen="zero points left out, where four adjacent elements of the source go to four places: "
            "f32 channels-last to plain u8 with channels a multiple of 64 and odd spatial sizes",
        ),
        Rule(
            name="sums-off-fours",
            implementation="jit:uni",
            condition="sums of 8-bit weights go behind them, elements move, and 4 does not divide the innermost axis",
            applies=lambda features: _has_sums_off_fours(features) and _moves(features),
            seen="wrong sums, and so all results of x64:gemm_s8s8s32:jit convolutions, from 17 output channels on "
            "where 64 divides the input channels: 64 to 33 and 768 to 127 say, with taps 1×1",
        ),
        Rule(
            name="sums-of-eights",
            implementation="jit:uni",
            condition="sums of 8-bit weights go behind them, elements move, one axis has eight elements and another a "
            "multiple",
            applies=lambda features: _has_sums_of_eights(features) and _moves(features),
            seen="no sums, and so wrong results of x64:gemm_s8s8s32:jit convolutions, from 8 or 2048 to 8 "
            "channels, 1×1",
        ),
        Rule(
            name="gaps",
            implementation="jit:blk",
            condition="there are gaps in the source or in the target",
            applies=lambda features: _has_gaps(features.src) or _has_gaps(features.dst),
            seen="all axes but three are walked as one, so that elements behind a gap are read and written elsewhere",
        ),
        Rule(
            name="elements-apart",
            implementation="",
            condition="no two elements of the target are adjacent",
            applies=_goes_apart,
            seen="jit:uni divides by zero while it is described, or never writes most elements, where the stride is a "
            "multiple of 4 and there are more elements than three quarters of the first-level cache hold, a number "
            "that 16 does not divide",
            asked=False,
        ),
    )
}
