"""The host family, continued: what is largest, what goes where, and what lies between elements."""

from __future__ import annotations

from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType, OneOf
from .host import INDICES, NUMBERS, SOURCE, VALUES
from .host_gather import SCATTERING
from .pooling import MAX_POOL
from .registry import HOST, REGISTRY
from .schema import BackwardOp, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, axis_of, flag, known, same

SAMPLINGS = ("linear", "nearest", "cubic")
BORDERS = ("zeros", "border", "reflection")


def _top_k(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None:
        return (None, None)
    axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
    count = ctx.attributes.integer("k")
    if known(src[axis]) and count > src[axis]:
        raise ctx.error(f"attribute 'k' must be at most the {src[axis]} elements of axis {axis}, got {count}")
    found = (*src[:axis], count, *src[axis + 1 :])
    return found, found


REGISTRY.register(
    OpSchema(
        kind="HostTopK",
        summary="The largest or smallest elements along an axis, in order, and where they are.",
        formula="dst = src sorted along axis, the first k; of equal ones the first comes first",
        inputs=(Port("src", "T", doc="Any shape."),),
        outputs=(
            Port("dst", "T", doc="src with k elements along the axis."),
            Port("indices", "TI", doc="Where they are; the shape of dst."),
        ),
        attributes=(
            AttributeSpec(
                "axis",
                AttributeType.s64,
                required=True,
                doc="The axis, counted from the end where negative.",
            ),
            AttributeSpec("k", AttributeType.s64, required=True, rule=NON_NEGATIVE, doc="How many."),
            flag("largest", True, "Whether the largest, not the smallest, are wanted; NaN is the largest."),
        ),
        types={"T": NUMBERS, "TI": INDICES},
        infer_shapes=_top_k,
        source=SOURCE,
        family=HOST,
    )
)


def _scatter_elements(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, indices, updates = ctx.inputs
    for name, shape in (("indices", indices), ("updates", updates)):
        if src is not None and shape is not None and len(src) != len(shape):
            raise ctx.error(
                f"'{name}' must have as many axes as 'src', {len(src)}, got shape {format_shape(shape)}"
            )
    if src is not None:
        axis = axis_of(ctx, ctx.attributes.integer("axis"), len(src))
        for place, (have, want) in enumerate(zip(src, indices or (), strict=False)):
            if place != axis and known(have) and known(want) and want > have:
                raise ctx.error(
                    f"'indices' must not be longer than 'src' but along axis {axis}, got "
                    f"{format_shape(indices)} for {format_shape(src)}"
                )
    for have, want in zip(updates or (), indices or (), strict=False):
        if known(have) and known(want) and have != want:
            raise ctx.error(
                f"'updates' must have the shape of 'indices', {format_shape(indices)}, got {format_shape(updates)}"
            )
    return (src,)


REGISTRY.register(
    OpSchema(
        kind="HostScatterElements",
        in_place={"dst": "src"},
        summary="A tensor with other elements where an index says, along an axis.",
        formula="dst = src; dst[…, indices[…, i, …], …] = updates[…, i, …]",
        inputs=(
            Port("src", "T", doc="Any shape."),
            Port("indices", "TI", index="src", doc="Integers, counted from the end where negative."),
            Port("updates", "T", doc="The shape of indices."),
        ),
        outputs=(Port("dst", "T", doc="The shape of src."),),
        attributes=(
            AttributeSpec(
                "axis",
                AttributeType.s64,
                required=True,
                doc="The axis that indices count along, counted from the end where negative.",
            ),
            SCATTERING,
        ),
        types={"T": VALUES, "TI": INDICES},
        infer_shapes=_scatter_elements,
        source=SOURCE,
        family=HOST,
    )
)


def _grid_sample(ctx: InferenceContext) -> tuple[Shape, ...]:
    src, grid = ctx.inputs
    if src is None or grid is None:
        return (None,)
    if len(src) < 3 or len(grid) != len(src):
        raise ctx.error(
            f"'src' must have a batch, channels and spatial axes, and 'grid' as many axes, got {format_shape(src)} "
            f"and {format_shape(grid)}"
        )
    if 0 in src[2:]:
        raise ctx.error(
            f"'src' must have elements on its spatial axes to sample, got shape {format_shape(src)}"
        )
    if known(grid[-1]) and grid[-1] != len(src) - 2:
        raise ctx.error(
            f"the last axis of 'grid' must have {len(src) - 2} coordinates, got shape {format_shape(grid)}"
        )
    if known(src[0]) and known(grid[0]) and src[0] != grid[0]:
        raise ctx.error(f"'src' and 'grid' must have one batch, got {src[0]} and {grid[0]}")
    if ctx.attributes.string("mode") == "cubic" and len(src) != 4:
        raise ctx.error(
            f"'src' must have 2 spatial axes where 'mode' is cubic, got shape {format_shape(src)}; take mode='linear'"
        )
    return ((src[0] if known(src[0]) else grid[0], src[1], *grid[1:-1]),)


REGISTRY.register(
    OpSchema(
        kind="HostGridSample",
        summary="What lies at the coordinates that a grid names, between elements by interpolation.",
        formula="dst[n, c, i…] = src[n, c, …] at grid[n, i…], from −1 to 1, the last axis first",
        inputs=(
            Port("src", "T", doc="(N, C, X)."),
            Port("grid", "T", doc="(N, Y, coordinates): of each place one for each spatial axis of src."),
        ),
        outputs=(Port("dst", "T", doc="(N, C, Y)."),),
        attributes=(
            AttributeSpec(
                "mode",
                AttributeType.string,
                default="linear",
                rule=OneOf(SAMPLINGS),
                doc="linear between neighbours; the nearest one, of two as near the even one; cubic among 4 by 4.",
            ),
            AttributeSpec(
                "padding_mode",
                AttributeType.string,
                default="zeros",
                rule=OneOf(BORDERS),
                doc="What is beyond: zeros, the outermost element, or the tensor mirrored.",
            ),
            flag(
                "align_corners",
                False,
                "Whether −1 and 1 are the middles of the outermost elements, not their edges.",
            ),
        ),
        types={"T": FLOATS},
        infer_shapes=_grid_sample,
        source=SOURCE,
        family=HOST,
    )
)


def _at_largest(ctx: InferenceContext) -> tuple[Shape, ...]:
    same(ctx, ctx.inputs[0], ctx.inputs[1], ("src", "values"))
    return tuple(MAX_POOL.infer_shapes(ctx))


REGISTRY.register(
    OpSchema(
        kind="HostMaxPoolGather",
        summary="What stands where a MaxPool finds the largest element of each window.",
        formula="dst[n, c, p] = values at the first largest element of the window of src; 0 where a window has none",
        inputs=(
            Port("src", "T", doc="What is compared, in data_format."),
            Port("values", "T", doc="What is taken; the shape of src."),
        ),
        outputs=(Port("dst", "T", doc="One value per window."),),
        attributes=MAX_POOL.attributes,
        types={"T": FLOATS},
        infer_shapes=_at_largest,
        backward=(BackwardOp(kind="MaxPoolBackward", inputs=("src", "diff_dst"), outputs=("values",)),),
        source="an op of our own, the second derivative of MaxPool",
        family=HOST,
    )
)
