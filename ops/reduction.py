"""The reduction family.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

from functools import partial

from .data_types import DataType
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, SOURCE, axis_of, flag, integers, known


def reduced_axes(ctx: InferenceContext, rank: int) -> tuple[int, ...] | None:
    """The axes, counted from the front; None when they are an input whose value is not known.

    Raises:
        ShapeError: an axis that the tensor does not have, or one given twice.
    """
    if len(ctx.inputs) > 1:
        if "axes" not in ctx.values:
            return None
        axes = ctx.values["axes"]
    else:
        axes = ctx.attributes.integers("axes")
    counted = tuple(axis_of(ctx, axis, rank, "axes") for axis in axes)
    if len(set(counted)) < len(counted):
        raise ctx.error(f"attribute 'axes' must name each axis once, got {list(axes)} for {rank} axes")
    return counted


def _reduce(ctx: InferenceContext, kind: str) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None:
        return (None,)
    axes = reduced_axes(ctx, len(src))
    keep = ctx.attributes.flag("keep_dims")
    if axes is None:
        count = (ctx.inputs[1] or (UNKNOWN_DIM,))[0]
        rank = len(src) if keep else len(src) - count if known(count) else None
        return (None if rank is None else (UNKNOWN_DIM,) * rank,)
    if kind in ("ReduceMax", "ReduceMin") and any(src[a] == 0 for a in axes):
        raise ctx.error(
            f"'src' must have elements along the axes {list(axes)}, got shape {format_shape(src)}"
        )
    if keep:
        return (tuple(1 if a in axes else d for a, d in enumerate(src)),)
    return (tuple(d for a, d in enumerate(src) if a not in axes),)


_OPS = {
    "ReduceL1": ("Sum of absolute values", "dst = Σ |src|"),
    "ReduceL2": ("Square root of the sum of squares", "dst = √(Σ src²)"),
    "ReduceMax": ("Largest element", "dst = max src"),
    "ReduceMean": ("Mean", "dst = (Σ src) / count"),
    "ReduceMin": ("Smallest element", "dst = min src"),
    "ReduceProd": ("Product", "dst = Π src"),
    "ReduceSum": ("Sum", "dst = Σ src"),
}

for _kind, (_summary, _formula) in _OPS.items():
    REGISTRY.register(
        OpSchema(
            kind=_kind,
            summary=f"{_summary} along axes.",
            formula=_formula,
            inputs=(
                Port("src", "T1", doc="Any shape."),
                Port(
                    "axes",
                    "T2",
                    required=False,
                    shape_operand=True,
                    doc="1-D tensor with the axes; wins over the attribute.",
                ),
            ),
            outputs=(Port("dst", "T1", doc="src without the axes, or with one element there."),),
            attributes=(
                integers(
                    "axes",
                    None,
                    "Axes, counted from the end where negative; none of them leaves every element alone.",
                    required=False,
                    default=(),
                ),
                flag("keep_dims", False, "Whether reduced axes stay, with one element."),
            ),
            types={"T1": FLOATS, "T2": (DataType.s32,)},
            infer_shapes=partial(_reduce, kind=_kind),
            source=SOURCE.format(_kind),
            family="reduction",
        )
    )
