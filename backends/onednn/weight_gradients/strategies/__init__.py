"""The ways to compute a weight gradient on the library's primitives, one small class each.

A strategy says whether it applies to a problem and writes its steps into a draft. `STRATEGIES` is the whole table;
which of them runs is decided in `selection.py`. All see the same normalised problem, so that a transposed op needs
nothing of its own. Shapes are canonical: src (N, G·I, X), dst (N, G·O, P), dW (G, O, I, K).
"""

from __future__ import annotations

from attrs import evolve

from .....ops.data_types import DataType
from ..problem import Problem, is_small
from .base import Data, Strategy
from .depth import SpaceToDepth
from .groups import MergedGroups, SplitWidth
from .parts import ImageParts
from .plain import Direct, Padded
from .products import Columns, Product, WholeImages

_VIA = (None, DataType.f32, DataType.bf16)
"""Data types that strategies convert to, their own first."""

STRATEGIES: tuple[Strategy, ...] = tuple(
    strategy
    for via in _VIA
    for strategy in (
        Direct(data=Data.user, via=via),
        Direct(data=Data.free, via=via),
        Direct(data=Data.channels_last, via=via),
        Direct(data=Data.user, via=via, gemm=True),
        Direct(data=Data.channels_last, via=via, gemm=True),
        MergedGroups(data=Data.user, via=via),
        MergedGroups(data=Data.channels_last, via=via),
        Padded(via=via),
        SplitWidth(via=via),
        Product(via=via),
        Product(via=via, parts=2),
        Product(via=via, parts=4),
        Columns(via=via),
        WholeImages(via=via),
        SpaceToDepth(via=via),
        *(
            ImageParts(of=strategy)
            for strategy in (
                *([] if via is None else [Direct(data=Data.user, via=via)]),
                Direct(data=Data.free, via=via),
                Direct(data=Data.channels_last, via=via),
                MergedGroups(data=Data.channels_last, via=via),
                SplitWidth(via=via),
            )
        ),
    )
)
"""Every strategy. The order decides only between equals."""


def usual(problem: Problem) -> tuple[Strategy, ...]:
    """The plain ways from which a problem is rarely far off, best first.

    With the channels last, kernels read the user's layout as it is. With the channels first they would fall to
    im2col and gemm; blocked layouts of the library's choice are better, but for 1-D, whose blocked kernels are slow.
    """
    gradient = problem.gradient
    gemm = Direct(data=Data.user if problem.channels_last else Data.channels_last, gemm=True)
    if problem.channels_last:
        order = [Direct(data=Data.user), Direct(data=Data.free)]
    elif gradient.spatial_rank == 1 or is_small(gradient):
        order = [Direct(data=Data.channels_last), Direct(data=Data.free)]
    else:
        order = [Direct(data=Data.free), Direct(data=Data.channels_last)]
    converted = [evolve(one, via=DataType.f32) for one in order]
    if is_small(gradient) and not gradient.depthwise:
        # Overheads decide, and f32 kernels have less to prepare than those of half precisions.
        order, converted = converted, order
    return (*order, *converted, gemm, evolve(gemm, via=DataType.f32))


REFERENCE_STRATEGIES: tuple[Strategy, ...] = (
    Direct(data=Data.user, reference=True),
    Direct(data=Data.user, reference=True, via=DataType.f32),
)
"""The last resort where a user forces the backend."""

__all__ = ["REFERENCE_STRATEGIES", "STRATEGIES", "Strategy", "usual"]
