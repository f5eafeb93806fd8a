"""The host family's look-ups: parts and elements by numbers that are computed, with their gradients."""

from __future__ import annotations

from attrs import evolve

from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType, OneOf
from .errors import ShapeError
from .host import DST, INDICES, SRC, VALUES, attributes_of, axis_attribute, back, backward, register
from .schema import InferenceContext, Port, Shape, format_shape
from .shared import axis_of, flag, known

SCATTERING = AttributeSpec(
    "reduction",
    AttributeType.string,
    default="none",
    rule=OneOf(("none", "add", "mul", "max", "min")),
    doc="none: what is new takes the place, the last one if there are several; else what both make.",
)

INDICES_PORT = Port("indices", "TI", index="src", doc="Integers, counted from the end where negative.")
INDICES_OF_GRADIENT = evolve(INDICES_PORT, index="diff_src")


def _gather(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, indices = ctx.inputs
    if src is None or indices is None:
        return (None,)
    axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
    return ((*src[:axis], *indices, *src[axis + 1 :]),)


def _gather_elements(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, indices = ctx.inputs
    if src is not None and indices is not None:
        if len(src) != len(indices):
            raise ctx.error(
                f"'indices' must have as many axes as 'src', {len(src)}, got shape {format_shape(indices)}"
            )
        axis, strict = axis_of(ctx, ctx.attributes.integer("axis"), len(src)), ctx.attributes.flag("strict")
        for place, (have, want) in enumerate(zip(src, indices, strict=True)):
            if place == axis or not known(have) or not known(want):
                continue
            if strict and want != have and ctx.attributes.string("classes_of"):
                given, wanted = (tuple(d for at, d in enumerate(s) if at != axis) for s in (indices, src))
                raise ShapeError(
                    f"{ctx.attributes.string('classes_of')} must have the shape of what they are of without the axis "
                    f"of classes, {format_shape(wanted)}, got {format_shape(given)}; give as many labels as examples"
                )
            if strict and want != have:
                raise ctx.error(
                    f"'indices' must have the shape of 'src' but along axis {axis}, got {format_shape(indices)} for "
                    f"{format_shape(src)}"
                )
            if want > have:
                raise ctx.error(
                    f"'indices' must not be longer than 'src' but along axis {axis}, got {format_shape(indices)} for "
                    f"{format_shape(src)}"
                )
    return (indices,)


def _depth(ctx: InferenceContext, src: tuple[int, ...], indices: tuple[int, ...], batch: int) -> int | None:
    """How many axes of src, from those on that it may name, an index names; None where that is not known."""
    if len(indices) <= batch or len(src) <= batch:
        raise ctx.error(
            f"'src' and 'indices' must have more axes than the {batch} that both share, got {format_shape(src)} and "
            f"{format_shape(indices)}"
        )
    if not known(indices[-1]):
        return None
    if indices[-1] > len(src) - batch:
        raise ctx.error(
            f"the last axis of 'indices' must name at most {len(src) - batch} axes of 'src', got shape "
            f"{format_shape(indices)}"
        )
    return indices[-1]


def _gather_nd(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, indices = ctx.inputs
    if src is None or indices is None:
        return (None,)
    batch = ctx.attributes.integer("batch_dims")
    depth = _depth(ctx, src, indices, batch)
    return (None if depth is None else (*indices[:-1], *src[batch + depth :]),)


def _scatter_nd(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, indices, updates = ctx.inputs
    if src is not None and indices is not None and updates is not None:
        axis = ctx.attributes.integer("axis")
        axis = axis_of(ctx, axis, len(src)) if axis else 0
        depth = _depth(ctx, src[axis:], indices, 0)
        if depth is not None:
            wanted = (*src[:axis], *indices[:-1], *src[axis + depth :])
            if len(wanted) != len(updates) or any(
                known(a) and known(b) and a != b for a, b in zip(wanted, updates, strict=True)
            ):
                raise ctx.error(
                    f"'updates' must have shape {format_shape(wanted)}, got {format_shape(updates)}"
                )
    return (src,)


register(
    "HostGather",
    "Parts along an axis, by their numbers: a look-up in a table.",
    "dst[…, i…, …] = src[…, indices[i…], …]",
    (SRC, INDICES_PORT),
    Port("dst", "T", doc="src with the axes of indices in the place of the axis."),
    {"T": VALUES, "TI": INDICES},
    _gather,
    (axis_attribute("The axis that indices count along"),),
    back("HostGather", "indices"),
)
register(
    "HostGatherElements",
    "Elements whose place along an axis an index says.",
    "dst[…, i, …] = src[…, indices[…, i, …], …]",
    (SRC, INDICES_PORT),
    Port("dst", "T", doc="The shape of indices."),
    {"T": VALUES, "TI": INDICES},
    _gather_elements,
    (
        axis_attribute("The axis that indices count along"),
        flag("strict", False, "Whether indices are 0 or more, and of the shape of src but along the axis."),
        AttributeSpec(
            "classes_of",
            AttributeType.string,
            default="",
            doc="What indices are, where they are labels of classes: errors speak of them so.",
        ),
    ),
    back("HostGatherElements", "indices"),
)
_BATCH = AttributeSpec(
    "batch_dims",
    AttributeType.s64,
    default=0,
    rule=NON_NEGATIVE,
    doc="Leading axes that src and indices share.",
)
register(
    "HostGatherND",
    "Parts by the places that the last axis of indices names.",
    "dst[i…, …] = src[indices[i…], …]",
    (SRC, INDICES_PORT),
    Port("dst", "T", doc="indices without its last axis, and what they leave of src."),
    {"T": VALUES, "TI": INDICES},
    _gather_nd,
    (_BATCH,),
    back("HostGatherND", "indices"),
)
register(
    "HostScatterND",
    "A tensor with other parts at the places that the last axis of indices names.",
    "dst = src; dst[…, indices[i…], …] = updates[…, i…, …]",
    (SRC, INDICES_PORT, Port("updates", "T", doc="The parts.")),
    DST,
    {"T": VALUES, "TI": INDICES},
    _scatter_nd,
    (
        SCATTERING,
        AttributeSpec(
            "axis",
            AttributeType.s64,
            default=0,
            doc="The first axis that indices name, counted from the end where negative.",
        ),
    ),
    in_place={"dst": "src"},
)
backward(
    "HostGather",
    "diff_src[…, indices[i…], …] += diff_dst[…, i…, …]",
    _gather,
    attributes_of("HostGather"),
    INDICES_OF_GRADIENT,
)
backward(
    "HostGatherElements",
    "diff_src[…, indices[…, i, …], …] += diff_dst[…, i, …]",
    _gather_elements,
    attributes_of("HostGatherElements"),
    INDICES_OF_GRADIENT,
)
backward(
    "HostGatherND",
    "diff_src[indices[i…], …] += diff_dst[i…, …]",
    _gather_nd,
    attributes_of("HostGatherND"),
    INDICES_OF_GRADIENT,
)
