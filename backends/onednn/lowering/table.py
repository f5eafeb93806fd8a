"""Every op that has a lowering, by kind, and why one has none."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph.model.op import Op
from . import (
    binary,
    convolution,
    eltwise,
    interpolate,
    lowering,
    matmul,
    movement,
    normalization,
    pooling,
    prelu,
    quantization,
    reduction,
    softmax,
    weight_gradient,
)
from .lowering import Lowered

LOWERED: Mapping[str, Lowered] = {
    kind: lowered
    for family in (
        binary,
        convolution,
        eltwise,
        interpolate,
        matmul,
        movement,
        normalization,
        pooling,
        prelu,
        quantization,
        reduction,
        softmax,
        weight_gradient,
    )
    for kind, lowered in family.LOWERED.items()
}
"""Op kind → how it is lowered."""


def why_not(op: Op) -> str | None:
    """Why no primitive can do the op, as far as its types and known shapes tell, or None."""
    return lowering.why_not(LOWERED, op)
