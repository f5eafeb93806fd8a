"""What is barred of functions of two tensors."""

from __future__ import annotations

import math

from .features import Features
from .post_ops import post_op_is_wrong
from .rule import Rule, Table
from .shared import is_blocked_integers


def _has_channels_at_the_end(features: Features) -> bool:
    """Whether nothing follows the channels of a plain result that has post-ops with an operand for each of them."""
    target = features.dst
    return target.strides is not None and any(
        post_op_is_wrong(target.shape, operand.shape) for operand in features.operands
    )


def _has_a_row(features: Features) -> bool:
    """Whether a post-op's operand has an element for each of the last axis' and no more, where that are no channels."""
    return any(
        len(operand.shape) > 2 and operand.shape[-1] > 1 and all(size == 1 for size in operand.shape[:-1])
        for operand in features.operands
    )


WRONG: Table = {
    "binary": (
        Rule(
            name="halves-in-fours",
            implementation="jit:uni",
            condition="the result is of 16-bit numbers in blocks of four",
            applies=lambda features: features.dst.itemsize == 2 and features.dst.blocks[:1] == (4,),
            seen="writes eight bytes of zeros behind each four elements: beyond the result, and over what it has not "
            "read yet where it works in place, in bf16 behind grouped deconvolutions of few channels",
        ),
        Rule(
            name="integers-in-part-blocks",
            implementation="jit:uni",
            condition="the result is of 8-bit integers in blocks that the channels don't fill",
            applies=lambda features: (
                is_blocked_integers(features) and features.dst.nbytes != math.prod(features.dst.shape)
            ),
            seen="crashes with an operand per channel of a post-op, in blocks of 16; quotients are not zero in the "
            "padding",
        ),
        Rule(
            name="channels-at-the-end",
            implementation="jit:uni",
            condition="a second operand of a post-op is per channel and only axes of one element follow the channels",
            applies=_has_channels_at_the_end,
            seen="walks the channels as if they lay last and takes the operand as if they did not: one element of it "
            "for a whole vector, in results (5, 4, 1, 1) of every type",
        ),
        Rule(
            name="operand-of-a-row",
            implementation="jit:uni",
            condition="a second operand of a post-op has more than one element along the last axis alone",
            applies=_has_a_row,
            seen="reads from the wrong elements of it, and beyond it, in all types channels-last, and in 8 bits where "
            "a vector ends within a row; 3.2 and 3.6 don't offer it",
            since=(3, 7),
        ),
    ),
}
