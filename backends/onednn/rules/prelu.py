"""What is barred of PReLU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .features import Features
from .rule import Rule, Table


def _lies_otherwise(features: Features) -> bool:
    """Whether plain data lie neither in rows nor channels-last, without gaps."""
    source = features.src
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


WRONG: Table = {
    "prelu_forward": (
        Rule(
            name="another-order",
            implementation="jit_uni",
            condition="there is more than one slope, and the data lie neither in rows nor channels-last",
            applies=lambda features: math.prod(features.weights.shape) > 1 and _lies_otherwise(features),
            seen="slopes of other channels with the channels between the spatial axes",
        ),
    ),
}
