"""Conditions of rules for several primitives."""

from __future__ import annotations

import math

from ....ops.data_types import DataType
from ..library.enumerators import Query
from ..library.implementations import LANES
from ..library.memory import MemoryDesc
from .entry import Case, Entry


def without_vnni(case: Case) -> bool:
    """Whether 8-bit products are added up in 16 bits, which saturate, as CPUs and kernels without VNNI do it."""
    if case.layout(Query.src_md).data_type not in (DataType.s8, DataType.u8):
        return False
    name, isa = case.desc.implementation, case.desc.engine.lib.effective_isa
    own = any(f":{low}" in name and f":{low}_" not in name for low in ("sse41", "avx2", "avx512_core"))
    return own or isa in WITHOUT_VNNI


def is_blocked_integers(desc: MemoryDesc) -> bool:
    """Whether it holds 8-bit integers in blocks."""
    return desc.strides is None and desc.data_type in (DataType.s8, DataType.u8)


def operands(case: Case) -> list[MemoryDesc]:
    """Second operands of its binary post-ops."""
    return [one.operand for one in case.attributes.post_ops if one.operand is not None]


def lower_than_the_cpu(case: Case) -> bool:
    """Whether a kernel of AVX2 on a CPU with AVX-512 ends its rows in part of a register, with an operand."""
    target = case.layout(Query.dst_md)
    weights, channels = case.layout(Query.weights_md).shape, target.shape[-1]
    if "conv" in case.desc.function:  # those of one group
        channels = weights[1] if len(weights) > len(target.shape) else target.shape[1]
    return (
        "avx2" in case.desc.implementation
        and case.desc.engine.lib.effective_isa.startswith("avx512")
        and channels % (LANES // 2) != 0
        and any(math.prod(operand.shape) > 1 for operand in operands(case))
    )


def ends(case: Case) -> tuple[MemoryDesc, MemoryDesc]:
    """The layouts of what goes in and comes out."""
    backward = case.desc.function.endswith("backward")
    first, second = (Query.diff_src_md, Query.diff_dst_md) if backward else (Query.src_md, Query.dst_md)
    return case.layout(first), case.layout(second)


def stray_ones(case: Case) -> bool:
    """Whether an axis of one element, of what goes in or comes out, has a stride that the layout does not give it."""
    return any(end.has_stray_ones for end in ends(case))


AMBIGUOUS = (
    "takes images whose axes of one element have another stride than its own for images in the other order"
)


WITHOUT_VNNI = ("sse41", "avx", "avx2", "avx512_core")
"""Instruction sets whose 8-bit products are added up in 16 bits."""


INTEGERS = Entry[[Case]](
    "",
    "the operands are 8-bit integers and the CPU or the kernel has no VNNI",
    without_vnni,
    "sums of two products saturate at 16 bits, and weights of signed data are halved against that and rounded",
)


STRAY = "an axis of one element, of data or result, has another stride than the layout gives it"


LOWER = Entry[[Case]](
    "brg",
    "it is AVX2's on a CPU with AVX-512, 8 does not divide the channels, and there is an operand of several elements",
    lower_than_the_cpu,
    "zeros in the channels behind the last whole eight, in products of 8-bit integers, seen with 3.6",
    since=(3, 3),
)
