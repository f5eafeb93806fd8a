"""What is barred of softmax."""

from __future__ import annotations

from .rule import Rule, Table
from .shared import is_blocked_integers

WRONG: Table = {
    "softmax_forward": (
        Rule(
            name="integers-in-blocks",
            implementation="jit",
            condition="the result is of 8-bit integers in a blocked layout",
            applies=is_blocked_integers,
            seen="its code can't be generated, and no other softmax's on that thread after it",
        ),
    ),
}
