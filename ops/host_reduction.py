"""The host family's reductions: of integers, sums up to each element, and places of extremes."""

from __future__ import annotations

from . import reduction
from .host import DST, INDICES, INTEGERS, NUMBERS, SRC, axis_attribute, register, twin
from .schema import InferenceContext, Port, Shape, format_shape
from .shared import axis_of, flag

TWINNED = (reduction,)
"""The family that has twins here, and is registered first."""

for _kind in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"):
    twin(_kind, f"Host{_kind}", "T1", INTEGERS)


def _along(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is not None:
        axis_of(ctx, ctx.attributes.integer("axis"), len(src))
    return (src,)


def _arg(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None:
        return (None,)
    axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
    if src[axis] == 0:
        raise ctx.error(f"'src' must have elements along axis {axis}, got shape {format_shape(src)}")
    kept = (1,) if ctx.attributes.flag("keep_dims") else ()
    return ((*src[:axis], *kept, *src[axis + 1 :]),)


register(
    "HostCumSum",
    "Sums of all elements up to one, along an axis.",
    "dst[i] = Σ_{j ≤ i} src[j]",
    (SRC,),
    DST,
    {"T": NUMBERS},
    _along,
    (
        axis_attribute("The axis"),
        flag("exclusive", False, "Whether the element itself is left out."),
        flag("reverse", False, "Whether the sums begin at the end."),
    ),
)
for _kind, _summary in (("HostArgMax", "largest"), ("HostArgMin", "smallest")):
    register(
        _kind,
        f"Where the {_summary} element is along an axis.",
        f"dst = number of the {_summary} element",
        (SRC,),
        Port("dst", "TI", doc="src without the axis, or with one element there."),
        {"T": NUMBERS, "TI": INDICES},
        _arg,
        (
            axis_attribute("The axis"),
            flag("keep_dims", True, "Whether the axis stays, with one element."),
            flag("last", False, "Whether the last one counts where several are equal."),
        ),
    )
