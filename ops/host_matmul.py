"""The host family's products: of integers, and of groups of rows by a matrix each, as of experts of a mixture."""

from __future__ import annotations

from attrs import evolve

from . import matmul
from .host import HOSTED, INDICES, INTEGERS, SOURCE, register
from .registry import HOST, REGISTRY
from .schema import InferenceContext, Port, Shape, format_shape
from .shared import FLOATS, known

TWINNED = (matmul,)
"""The family that has a twin here, and is registered first."""
_ENDS = Port("ends", "TI", doc="(G), behind the last row of each group: not falling, between 0 and M.")


def _rank(ctx: InferenceContext, name: str, shape: tuple[int, ...], rank: int) -> None:
    if len(shape) != rank:
        raise ctx.error(
            f"'{name}' must have {rank} {'axis' if rank == 1 else 'axes'}, got {format_shape(shape)}"
        )


def _agree(ctx: InferenceContext, what: str, one: int, other: int) -> None:
    if known(one) and known(other) and one != other:
        raise ctx.error(f"{what} must agree, got {one} and {other}")


def _by_groups(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, weights, ends = ctx.inputs
    for name, shape, rank in (("src", src, 2), ("weights", weights, 3), ("ends", ends, 1)):
        if shape is not None:
            _rank(ctx, name, shape, rank)
    if src is not None and weights is not None:
        _agree(ctx, "columns of 'src' and rows of 'weights'", src[1], weights[1])
    if weights is not None and ends is not None:
        _agree(ctx, "the matrices of 'weights' and the elements of 'ends'", weights[0], ends[0])
    return (None if src is None or weights is None else (src[0], weights[2]),)


def _of_weights(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, diff_dst, ends = ctx.inputs
    for name, shape, rank in (("src", src, 2), ("diff_dst", diff_dst, 2), ("ends", ends, 1)):
        if shape is not None:
            _rank(ctx, name, shape, rank)
    if src is None or diff_dst is None or ends is None:
        return (None,)
    _agree(ctx, "rows of 'src' and of 'diff_dst'", src[0], diff_dst[0])
    return ((ends[0], src[1], diff_dst[1]),)


_PRODUCT, _ = REGISTRY.resolve("MatMul")
REGISTRY.register(
    evolve(
        _PRODUCT,
        kind="HostMatMul",
        summary="Product of matrices of integers, exact but for what overflows, which begins anew.",
        outputs=(Port("dst", "T", doc="(…, M, N)."),),
        types={"T": INTEGERS},
        source=SOURCE,
        family=HOST,
    )
)
HOSTED["MatMul"] = "HostMatMul"
register(
    "HostGroupedMatMul",
    "Rows in groups, one behind the other, each group by a matrix of its own.",
    "dst[m, n] = Σ_k src[m, k] · weights[g, k, n] for ends[g − 1] ≤ m < ends[g]; 0 behind the last group",
    (Port("src", "T", doc="(M, K)."), Port("weights", "T", doc="(G, K, N)."), _ENDS),
    Port("dst", "T", doc="(M, N)."),
    {"T": FLOATS, "TI": INDICES},
    _by_groups,
)
register(
    "HostGroupedMatMulWeights",
    "Gradient of HostGroupedMatMul by its matrices.",
    "diff_weights[g, k, n] = Σ_m src[m, k] · diff_dst[m, n] over ends[g − 1] ≤ m < ends[g]",
    (Port("src", "T", doc="(M, K)."), Port("diff_dst", "T", doc="(M, N)."), _ENDS),
    Port("diff_weights", "T", doc="(G, K, N)."),
    {"T": FLOATS, "TI": INDICES},
    _of_weights,
)
