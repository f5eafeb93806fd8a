"""Every op that has a lowering, by kind, and why one has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
)
from .links import Link
from .lowering import Lowered, Lowering


def _weight_gradient(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    from .weight_gradient import weight_gradient  # strategies and their costs, which inference has no use for

    weight_gradient(low, op, links)


def _no_weight_gradient(op: Op) -> str | None:
    from .weight_gradient import why_not

    return why_not(op)


_WEIGHT_GRADIENT = Lowered(_weight_gradient, why_not=_no_weight_gradient, takes_empty=True)
LOWERED: Mapping[str, Lowered] = {
    "ConvolutionBackwardWeights": _WEIGHT_GRADIENT,
    "ConvTransposeBackwardWeights": _WEIGHT_GRADIENT,
    **{
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
        )
        for kind, lowered in family.LOWERED.items()
    },
}
"""Op kind → how it is lowered."""


def why_not(op: Op) -> str | None:
    """Why no primitive can do the op, as far as its types and known shapes tell, or None."""
    return lowering.why_not(LOWERED, op)
