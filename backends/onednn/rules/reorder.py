"""What is barred of reorders, and which the library must not even be asked for."""

from __future__ import annotations

import math

from ....ops.data_types import DataType
from ..library.descriptors import Descriptor, Reorder
from ..library.enumerators import Query
from ..library.memory import MemoryDesc
from .entry import Case, Entry


def _gaps(desc: MemoryDesc) -> bool:
    """Whether memory lies between its elements, or behind a row, that is none of its own."""
    return desc.strides is not None and desc.nbytes > math.prod(desc.shape) * desc.itemsize


def _sums_off_fours(case: Case) -> bool:
    """Whether sums of 8-bit weights go behind them, and 4 does not divide their innermost axis."""
    target = case.layout(Query.dst_md)
    if target.strides is None or target.data_type is not DataType.s8:
        return False
    innermost = [d for d, s in zip(target.shape, target.strides, strict=True) if s == 1 and d > 1]
    return target.has_more and any(d % 4 for d in innermost)


def _sums_of_eights(case: Case) -> bool:
    """Whether sums of 8-bit weights go behind eight by a multiple of eight of them, which may be cut into eights."""
    target = case.layout(Query.dst_md)
    eights = 8 in target.shape and sum(d % 8 == 0 for d in target.shape) > 1
    return target.data_type is DataType.s8 and target.has_more and eights


def _elements_apart(desc: MemoryDesc) -> bool:
    """Whether no two elements are adjacent."""
    steps = [s for s, d in zip(desc.strides or (), desc.shape, strict=False) if d > 1]
    return bool(steps) and 1 not in steps


def _moves(case: Case) -> bool:
    """Whether a reorder brings elements to other places."""
    source, target = case.layout(Query.src_md), case.layout(Query.dst_md)
    if source.strides is None or target.strides is None:
        return source.describe() != target.describe()
    along = zip(source.strides, target.strides, source.shape, strict=True)
    return any(a != b for a, b, size in along if size > 1)


RULES: dict[str, tuple[Entry[[Case]], ...]] = {
    "reorder": (
        Entry(
            "jit:uni",
            "there are zero points but no scales along an axis, and elements move",
            lambda case: (
                bool(case.attributes.zero_points)
                and not any(case.attributes.scales.values())
                and _moves(case)
            ),
            "zero points left out, where four adjacent elements of the source go to four places: "
            "f32 channels-last to plain u8 with channels a multiple of 64 and odd spatial sizes",
        ),
        Entry(
            "jit:uni",
            "sums of 8-bit weights go behind them, elements move, and 4 does not divide the innermost axis",
            lambda case: _sums_off_fours(case) and _moves(case),
            "wrong sums, and so all results of x64:gemm_s8s8s32:jit convolutions, from 17 output channels on where 64 "
            "divides the input channels: 64 to 33 and 768 to 127 say, with taps 1×1",
        ),
        Entry(
            "jit:uni",
            "sums of 8-bit weights go behind them, elements move, one axis has eight elements and another a multiple",
            lambda case: _sums_of_eights(case) and _moves(case),
            "no sums, and so wrong results of x64:gemm_s8s8s32:jit convolutions, from 8 or 2048 to 8 channels, 1×1",
        ),
        Entry(
            "jit:blk",
            "there are gaps in the source or in the target",
            lambda case: _gaps(case.layout(Query.src_md)) or _gaps(case.layout(Query.dst_md)),
            "all axes but three are walked as one, so that elements behind a gap are read and written elsewhere",
        ),
    )
}
"""What made the primitive → what is barred of it."""

UNASKED: dict[str, tuple[Entry[[Descriptor]], ...]] = {
    "reorder": (
        Entry(
            "reorder",
            "no two elements of the target are adjacent",
            lambda described: isinstance(described, Reorder) and _elements_apart(described.dst),
            "jit:uni divides by zero while it is described, or never writes most elements, where the stride is a "
            "multiple of 4 and there are more elements than three quarters of the first-level cache hold, a number "
            "that 16 does not divide",
        ),
    )
}
"""What the library must not even be asked for: function → conditions on what describes it."""
