"""The movement family: ops that move elements, and those that only mark a place in the graph.

Source: the oneDNN Graph documents of each op.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .attributes import Attributes, AttributeSpec, AttributeType
from .data_types import DataType
from .registry import REGISTRY
from .schema import ANY, UNKNOWN_DIM, InferenceContext, OpSchema, Port, Shape, format_shape
from .shared import FLOATS, SOURCE, axis_of, integers, known, same_as

_SRC = Port("src", "T", doc="Any shape.")
_AXIS = AttributeSpec(
    "axis", AttributeType.s64, required=True, doc="The axis, counted from the end where negative."
)
ANYTHING = tuple(d for d in DataType if d is not DataType.undef)
MOST_INPUTS = 64
"""oneDNN Graph's limit on the inputs of Concat."""


def _concat(ctx: InferenceContext) -> tuple[Shape, ...]:
    shapes = [shape for shape in ctx.inputs if shape is not None]
    if not shapes:
        return (None,)
    first = shapes[0]
    axis = axis_of(ctx, ctx.attributes.integer("axis"), len(first))
    result = list(first)
    for shape in shapes[1:]:
        if len(shape) != len(first) or any(
            a != b and -1 not in (a, b) and position != axis
            for position, (a, b) in enumerate(zip(first, shape, strict=True))
        ):
            raise ctx.error(
                f"inputs must have equal shapes but for axis {axis}, got {format_shape(first)} and "
                f"{format_shape(shape)}"
            )
        result = [b if a == UNKNOWN_DIM else a for a, b in zip(result, shape, strict=True)]
    sizes = [UNKNOWN_DIM if shape is None else shape[axis] for shape in ctx.inputs]
    result[axis] = sum(sizes) if all(map(known, sizes)) else UNKNOWN_DIM
    return (tuple(result),)


def reshaped(attributes: Attributes, src: Sequence[int]) -> tuple[int, ...] | None:
    """The shape that StaticReshape gives to concrete sizes; None if there is none."""
    return resized(src, attributes.integers("shape"), zeros=attributes.flag("special_zero"))


def resized(src: Sequence[int], wanted: Sequence[int], *, zeros: bool) -> tuple[int, ...] | None:
    """The sizes that a reshape gives to concrete ones; None if there are none.

    Args:
        src: sizes of what is reshaped.
        wanted: the new ones; one may be -1, for what remains.
        zeros: whether a 0 stands for the old size of its axis. What remains is found beside those axes, so that it is
            known where one of them has no elements.
    """
    kept = {axis for axis, size in enumerate(wanted) if zeros and size == 0 and axis < len(src)}
    dims = [src[axis] if axis in kept else size for axis, size in enumerate(wanted)]
    if dims.count(-1) > 1 or any(d < -1 for d in dims):
        return None
    if -1 in dims:
        rest = math.prod(d for axis, d in enumerate(dims) if d != -1 and axis not in kept)
        total = math.prod(size for axis, size in enumerate(src) if axis not in kept)
        if not rest or total % rest:
            return None
        dims[dims.index(-1)] = total // rest
    return tuple(dims) if math.prod(dims) == math.prod(src) else None


def _reshape(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None or UNKNOWN_DIM in src:
        zeros = ctx.attributes.flag("special_zero")
        wanted = ctx.attributes.integers("shape")
        return (tuple(-1 if d < 0 or (d == 0 and zeros) else d for d in wanted),)
    found = reshaped(ctx.attributes, src)
    if found is None:
        raise ctx.error(
            f"attribute 'shape' must describe the {math.prod(src)} elements of shape {format_shape(src)}, got "
            f"{list(ctx.attributes.integers('shape'))} with special_zero={ctx.attributes.flag('special_zero')}"
        )
    return (found,)


def permutation(attributes: Attributes, rank: int) -> tuple[int, ...] | None:
    """The order of StaticTranspose, counted from the front; None if it is no permutation of `rank` axes."""
    order = tuple(axis + rank if axis < 0 else axis for axis in attributes.integers("order"))
    return order if sorted(order) == list(range(rank)) else None


def _transpose(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is None:
        return (None,)
    order = permutation(ctx.attributes, len(src))
    if order is None:
        raise ctx.error(
            f"attribute 'order' must name each of the {len(src)} axes once, got "
            f"{list(ctx.attributes.integers('order'))}"
        )
    return (tuple(src[axis] for axis in order),)


def _index(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    if src is not None:
        axis_of(ctx, ctx.attributes.integer("axis"), len(src))
    return (src,)


def _wildcard(ctx: InferenceContext) -> tuple[Shape, ...]:
    return ctx.outputs


REGISTRY.register(
    OpSchema(
        kind="Concat",
        summary="Tensors behind each other along an axis.",
        formula="dst = src_0, src_1, … along axis",
        inputs=(Port("src_i", "T", repeat=MOST_INPUTS, doc="Equal shapes, but for the axis."),),
        outputs=(Port("dst", "T", doc="The sizes along the axis are added."),),
        attributes=(_AXIS,),
        types={"T": FLOATS},
        infer_shapes=_concat,
        source=SOURCE.format("Concat"),
        family="movement",
    )
)
REGISTRY.register(
    OpSchema(
        kind="Reorder",
        summary="The same tensor in another layout.",
        formula="dst = src",
        inputs=(_SRC,),
        outputs=(Port("dst", "T", doc="The shape of src, in a layout of its own."),),
        types={"T": FLOATS},
        infer_shapes=same_as("src"),
        source=SOURCE.format("Reorder"),
        family="movement",
    )
)
REGISTRY.register(
    OpSchema(
        kind="StaticReshape",
        summary="The same elements in row-major order under another shape.",
        formula="dst[i] = src[i] in row-major order",
        inputs=(_SRC,),
        outputs=(Port("dst", "T", doc="The shape that the attribute says."),),
        attributes=(
            integers("shape", None, "The new shape; -1 is what remains, 0 the old size with special_zero."),
            AttributeSpec(
                "special_zero",
                AttributeType.bool,
                required=True,
                doc="Whether 0 in shape stands for the size that src has there.",
            ),
        ),
        types={"T": FLOATS},
        infer_shapes=_reshape,
        source=SOURCE.format("StaticReshape"),
        family="movement",
    )
)
REGISTRY.register(
    OpSchema(
        kind="StaticTranspose",
        summary="Axes in another order.",
        formula="dst.shape[i] = src.shape[order[i]]",
        inputs=(_SRC,),
        outputs=(Port("dst", "T", doc="src with its axes in that order."),),
        attributes=(
            integers("order", None, "A permutation of the axes, counted from the end where negative."),
        ),
        types={"T": FLOATS},
        infer_shapes=_transpose,
        source=SOURCE.format("StaticTranspose"),
        family="movement",
    )
)
REGISTRY.register(
    OpSchema(
        kind="GenIndex",
        summary="The index of each element along an axis.",
        formula="dst[i_0, i_1, …] = i_axis",
        inputs=(Port("src", "T1", doc="Any shape; its elements don't matter."),),
        outputs=(Port("dst", "T2", doc="The shape of src."),),
        attributes=(_AXIS,),
        types={"T1": FLOATS, "T2": (DataType.s32,)},
        infer_shapes=_index,
        source=SOURCE.format("GenIndex"),
        family="movement",
    )
)
REGISTRY.register(
    OpSchema(
        kind="End",
        summary="Marks a tensor as an output of the graph.",
        formula="",
        inputs=(_SRC,),
        outputs=(),
        types={"T": ANYTHING},
        infer_shapes=lambda ctx: (),
        source=SOURCE.format("End"),
        family="movement",
    )
)
REGISTRY.register(
    OpSchema(
        kind="Wildcard",
        summary="Stands for an op of a framework that oneDNN Graph does not know.",
        formula="",
        inputs=(Port("src", ANY, required=False, repeat=MOST_INPUTS, doc="Anything."),),
        outputs=(Port("dst", ANY, required=False, repeat=MOST_INPUTS, doc="Anything."),),
        types={ANY: ANYTHING},
        infer_shapes=_wildcard,
        outputs_made=lambda attributes: 1,
        notes=(
            "Here it passes its inputs on, one to one; a Wildcard that does not allow that is not supported.",
        ),
        source=SOURCE.format("Wildcard"),
        family="movement",
    )
)
