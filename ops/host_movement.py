"""The host family's movement: parts, padding, and what broadcasts, with their gradients."""

from __future__ import annotations

from . import movement
from .attributes import NON_NEGATIVE, Attributes, AttributeSpec, AttributeType, OneOf
from .host import SRC, VALUES, attributes_of, back, backward, register, twin
from .schema import UNKNOWN_DIM, InferenceContext, Port, Shape, format_shape
from .shared import FLOATS, axis_of, broadcast, integers, known, real, same

TWINNED = (movement,)
"""The families that have twins here, and are registered first."""

PAD_MODES = ("constant", "edge", "reflect", "wrap")

twin("StaticReshape", "HostReshape", "T", VALUES)
twin("StaticTranspose", "HostTranspose", "T", VALUES)
twin("Concat", "HostConcat", "T", VALUES)


def slices(attributes: Attributes, rank: int) -> list[slice]:
    """What HostSlice takes of each of so many axes."""
    found = [slice(None)] * rank
    names = ("axes", "starts", "stops", "steps")
    for place, start, stop, step in zip(*(attributes.integers(name) for name in names), strict=True):
        found[place] = slice(start, stop, step)
    return found


def _checked_slices(ctx: InferenceContext, rank: int) -> list[slice]:
    axes = [axis_of(ctx, place, rank, "axes") for place in ctx.attributes.integers("axes")]
    if len(set(axes)) < len(axes):
        given = list(ctx.attributes.integers("axes"))
        raise ctx.error(f"attribute 'axes' must name each axis once, got {given} for {rank} axes")
    return slices(ctx.attributes, rank)


def _slice(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    counts = {name: len(ctx.attributes.integers(name)) for name in ("axes", "starts", "stops", "steps")}
    if len(set(counts.values())) > 1:
        raise ctx.error(f"'axes', 'starts', 'stops' and 'steps' must be equally long, got {counts}")
    if 0 in ctx.attributes.integers("steps"):
        raise ctx.error("attribute 'steps' must not have a 0")
    if src is None:
        return (None,)
    found = _checked_slices(ctx, len(src))
    return (
        tuple(
            d if part == slice(None) or not known(d) else len(range(d)[part])
            for d, part in zip(src, found, strict=True)
        ),
    )


def _pad(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    begin, end = ctx.attributes.integers("pads_begin"), ctx.attributes.integers("pads_end")
    if src is None:
        return (None,)
    if not len(begin) == len(end) == len(src):
        raise ctx.error(
            f"'pads_begin' and 'pads_end' must have a number for each of {len(src)} axes, got {list(begin)} and "
            f"{list(end)}"
        )
    if ctx.attributes.string("mode") == "reflect" and any(
        known(d) and max(b, e) >= max(d, 1) for b, e, d in zip(begin, end, src, strict=True) if b or e
    ):
        raise ctx.error(
            f"a reflection must be shorter than its axis, got {list(begin)} and {list(end)} around "
            f"{format_shape(src)}"
        )
    return (tuple(d + b + e if known(d) else d for d, b, e in zip(src, begin, end, strict=True)),)


def _expand(ctx: InferenceContext) -> tuple[Shape, ...]:
    wanted = ctx.attributes.integers("shape")
    src = ctx.inputs[0]
    if src is None:
        return (tuple(wanted) if UNKNOWN_DIM not in wanted else None,)
    if len(src) > len(wanted):
        raise ctx.error(f"attribute 'shape' must have {len(src)} sizes at least, got {list(wanted)}")
    have = (1,) * (len(wanted) - len(src)) + src
    if any(w != UNKNOWN_DIM and known(h) and h not in (1, w) for w, h in zip(wanted, have, strict=True)):
        raise ctx.error(
            f"'src' must broadcast to attribute 'shape', {list(wanted)}, got {format_shape(src)}; sizes must be equal "
            "or 1"
        )
    return (tuple(h if w == UNKNOWN_DIM else w for w, h in zip(wanted, have, strict=True)),)


register(
    "HostSlice",
    "A part along axes, with bounds and steps as Python's slices have them.",
    "dst = src[starts:stops:steps]",
    (SRC,),
    Port("dst", "T", doc="What the slices leave."),
    {"T": VALUES},
    _slice,
    tuple(
        integers(name, None, doc)
        for name, doc in (
            ("axes", "The axes."),
            ("starts", "First element of each axis."),
            ("stops", "Where to end, that one left out."),
            ("steps", "Distances; negative ones go backwards."),
        )
    ),
    back("HostSlice"),
)
register(
    "HostPad",
    "A tensor with elements around it.",
    "dst = value, src, value along each axis",
    (SRC,),
    Port("dst", "T", doc="src and what is around."),
    {"T": VALUES},
    _pad,
    (
        integers("pads_begin", NON_NEGATIVE, "How many before, for each axis."),
        integers("pads_end", NON_NEGATIVE, "How many behind, for each axis."),
        AttributeSpec(
            "mode",
            AttributeType.string,
            default="constant",
            rule=OneOf(PAD_MODES),
            doc="What they are: value, the outermost element, or the tensor mirrored or repeated.",
        ),
        real("value", "What they are with mode constant.", default=0.0, rule=None),
    ),
    back("HostPad"),
)
register(
    "HostExpand",
    "A tensor repeated along axes where it has one element.",
    "dst = src, broadcast to shape",
    (SRC,),
    Port("dst", "T", doc="The shape that the attribute says."),
    {"T": VALUES},
    _expand,
    (integers("shape", None, "The new shape; -1 is the size that src has."),),
)
backward(
    "HostSlice", "diff_src = 0; diff_src[starts:stops:steps] = diff_dst", _slice, attributes_of("HostSlice")
)
backward("HostPad", "diff_src[what dst[i] was taken from] += diff_dst[i]", _pad, attributes_of("HostPad"))


def _expand_to(ctx: InferenceContext) -> tuple[Shape, ...]:
    wide = broadcast(ctx, ctx.inputs, ("src", "like"))
    return (same(ctx, wide, ctx.inputs[1], ("src broadcast to like", "like")),)


def _sum_to(ctx: InferenceContext) -> tuple[Shape, ...]:
    wide = broadcast(ctx, ctx.inputs, ("src", "like"))
    same(ctx, wide, ctx.inputs[0], ("src", "like broadcast to src"))
    return (ctx.inputs[1],)


_LIKE = Port("like", "T", doc="A tensor of the shape; its elements don't matter.")
register(
    "HostExpandTo",
    "A tensor repeated to the shape of another one.",
    "dst = src, broadcast to the shape of like",
    (SRC, _LIKE),
    Port("dst", "T", doc="The shape of like."),
    {"T": FLOATS},
    _expand_to,
)
register(
    "HostSumTo",
    "A tensor summed to the shape of another one that broadcasts to it.",
    "dst = Σ src over what like has one element along",
    (SRC, _LIKE),
    Port("dst", "T", doc="The shape of like."),
    {"T": FLOATS},
    _sum_to,
)
