"""The rule that poolings and resamplings share."""

from __future__ import annotations

from .post_ops import window_post_op_is_wrong
from .rule import Rule

NOT_PER_CHANNEL = Rule(
    name="operand-not-per-channel",
    implementation="",
    condition="a second operand has several elements and is not clearly per channel",
    applies=lambda features: any(
        window_post_op_is_wrong(features.dst.shape, operand.shape) for operand in features.operands
    ),
    seen="elements of the operand taken from the wrong places, also where it has one for each of (1, 8, 1)",
)
