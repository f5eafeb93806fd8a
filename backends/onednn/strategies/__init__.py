"""The ways to compute a weight gradient on the library's primitives, one small class each.

A strategy says whether it applies to a problem and writes its steps into a draft. `STRATEGIES` is the whole table;
which of them runs is decided in `selection.py`. All see the same normalised problem, so that a transposed op needs
nothing of its own. Shapes are canonical: src (N, G·I, X), dst (N, G·O, P), dW (G, O, I, K).
"""

from __future__ import annotations

from attrs import evolve

from ..problem import Problem, is_small
from .base import Data, Strategy
from .depth import SpaceToDepth
from .groups import MergedGroups, SplitWidth
from .plain import Direct, Padded
from .products import Columns, Product

_NATIVE_THEN_F32 = (False, True)

STRATEGIES: tuple[Strategy, ...] = tuple(
    strategy
    for through_f32 in _NATIVE_THEN_F32
    for strategy in (
        Direct(data=Data.user, through_f32=through_f32),
        Direct(data=Data.free, through_f32=through_f32),
        Direct(data=Data.channels_last, through_f32=through_f32),
        Direct(data=Data.user, through_f32=through_f32, gemm=True),
        Direct(data=Data.channels_last, through_f32=through_f32, gemm=True),
        MergedGroups(data=Data.user, through_f32=through_f32),
        MergedGroups(data=Data.channels_last, through_f32=through_f32),
        Padded(through_f32=through_f32),
        SplitWidth(through_f32=through_f32),
        Product(through_f32=through_f32),
        Product(through_f32=through_f32, parts=2),
        Product(through_f32=through_f32, parts=4),
        Columns(through_f32=through_f32),
        SpaceToDepth(through_f32=through_f32),
    )
)
"""Every strategy. The order decides only between equals."""


def usual(problem: Problem) -> tuple[Strategy, ...]:
    """The plain convolutions from which a problem is rarely far off, best first.

    With the channels last, kernels read the user's layout as it is. With the channels first they would fall to
    im2col and gemm, which is good for pointwise kernels only; elsewhere blocked layouts of the library's choice are
    better, but for 1-D, whose blocked kernels are slow.
    """
    gradient = problem.gradient
    last = Direct(data=Data.channels_last, gemm=True)
    if is_small(gradient):
        # Overheads decide: no blocked layouts, and f32 kernels have less to prepare than those of half precisions.
        order = [Direct(data=Data.user if problem.channels_last else Data.channels_last)]
        return (*(evolve(one, through_f32=True) for one in order), *order, Direct(data=Data.user, gemm=True))
    if problem.channels_last:
        order = [Direct(data=Data.user), Direct(data=Data.free)]
        last = Direct(data=Data.user, gemm=True)
    elif gradient.spatial_rank == 1:
        order = [Direct(data=Data.channels_last), Direct(data=Data.free)]
    else:
        order = [Direct(data=Data.free), Direct(data=Data.channels_last)]
        if all(k == 1 for k in gradient.kernel):
            order = [Direct(data=Data.user, gemm=True), *order]
    return (*order, *(evolve(one, through_f32=True) for one in order), last, evolve(last, through_f32=True))


REFERENCE_STRATEGIES: tuple[Strategy, ...] = (
    Direct(data=Data.user, reference=True),
    Direct(data=Data.user, reference=True, through_f32=True),
)
"""The last resort where a user forces the backend."""

__all__ = ["REFERENCE_STRATEGIES", "STRATEGIES", "Strategy", "usual"]
