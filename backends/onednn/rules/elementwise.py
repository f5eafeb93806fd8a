"""What is barred of binaries, PReLU, softmax and group normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..library.enumerators import Query
from ..library.memory import MemoryDesc
from .conditions import is_blocked_integers, operands
from .entry import Case, Entry
from .post_ops import post_op_is_wrong


def _halves_in_fours(desc: MemoryDesc) -> bool:
    """Whether numbers of 16 bits lie in blocks of four."""
    return desc.itemsize == 2 and desc.blocks[:1] == (4,)


def _integers_in_part_blocks(desc: MemoryDesc) -> bool:
    """Whether 8-bit integers lie in blocks that they don't fill."""
    return is_blocked_integers(desc) and desc.nbytes != math.prod(desc.shape)


def _channels_at_the_end(case: Case) -> bool:
    """Whether nothing follows the channels of a plain result that has post-ops with an operand for each of them."""
    target = case.layout(Query.dst_md)
    return target.strides is not None and any(
        post_op_is_wrong(target.shape, operand.shape) for operand in operands(case)
    )


def _otherwise_ordered(case: Case) -> bool:
    """Whether plain data lie neither in rows nor channels-last, without gaps."""
    source = case.layout(Query.src_md)
    rank = len(source.shape)

    def lies(order: Sequence[int]) -> bool:
        step = 1
        for axis in order:
            if source.shape[axis] > 1 and source.strides is not None and source.strides[axis] != step:
                return False
            step *= source.shape[axis]
        return True

    rows = range(rank - 1, -1, -1)
    return not lies(rows) and not (rank > 1 and lies((1, *range(rank - 1, 1, -1), 0)))


RULES: dict[str, tuple[Entry[[Case]], ...]] = {
    "binary": (
        Entry(
            "jit:uni",
            "the result is of 16-bit numbers in blocks of four",
            lambda case: _halves_in_fours(case.layout(Query.dst_md)),
            "writes eight bytes of zeros behind each four elements: beyond the result, and over what it has not read "
            "yet where it works in place, in bf16 behind grouped deconvolutions of few channels",
        ),
        Entry(
            "jit:uni",
            "the result is of 8-bit integers in blocks that the channels don't fill",
            lambda case: _integers_in_part_blocks(case.layout(Query.dst_md)),
            "crashes with an operand per channel of a post-op, in blocks of 16; quotients are not zero in the padding",
        ),
        Entry(
            "jit:uni",
            "a second operand of a post-op is per channel and only axes of one element follow the channels",
            _channels_at_the_end,
            "walks the channels as if they lay last and takes the operand as if they did not: one element of it for a "
            "whole vector, in results (5, 4, 1, 1) of every type",
        ),
    ),
    "softmax_forward": (
        Entry(
            "jit",
            "the result is of 8-bit integers in a blocked layout",
            lambda case: is_blocked_integers(case.layout(Query.dst_md)),
            "its code can't be generated, and no other softmax's on that thread after it",
        ),
    ),
    "prelu_forward": (
        Entry(
            "jit_uni",
            "there is more than one slope, and the data lie neither in rows nor channels-last",
            lambda case: math.prod(case.layout(Query.weights_md).shape) > 1 and _otherwise_ordered(case),
            "slopes of other channels with the channels between the spatial axes",
        ),
    ),
    "group_normalization_forward": tuple(
        Entry[[Case]](
            kernel,
            "always",
            lambda case: True,
            "sums one after the other, slower than NumPy, and variances of ten thousand numbers are off by 1e-5",
            since=(3, 3),
        )
        for kernel in ("ncsp_gnorm", "nspc_gnorm")
    ),
}
"""What made the primitive → what is barred of it."""
