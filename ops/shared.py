"""What several families share: data types, attributes, and shape rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .attributes import FINITE, NON_NEGATIVE, POSITIVE, AttributeSpec, AttributeType, OneOf, ValueRule
from .data_types import DataType
from .formats import DATA_FORMATS, axis_positions
from .schema import UNKNOWN_DIM, InferenceContext, InferShapes, Shape, format_shape

FLOATS = (DataType.f32, DataType.bf16, DataType.f16, DataType.f64)
"""oneDNN Graph's three floating-point types; f64 is an extension that NumPy computes."""
STATISTICS = (DataType.f32, DataType.bf16, DataType.f64)
"""Types of means, variances and affine parameters."""
AUTO_PADS = ("None", "SAME_UPPER", "SAME_LOWER", "VALID")
SOURCE = "oneDNN Graph 3.2 to 3.9, {}"

# --- attributes --------------------------------------------------------------------------------------


def integers(
    name: str, rule: ValueRule | None, doc: str, *, required: bool = True, **more: Any
) -> AttributeSpec:
    """A list of integers, each under `rule`: POSITIVE or `AtLeast(2)`, say; None allows every integer."""
    return AttributeSpec(name, AttributeType.s64_list, required=required, rule=rule, doc=doc, **more)


def flag(name: str, default: bool, doc: str) -> AttributeSpec:
    """A bool with a default."""
    return AttributeSpec(name, AttributeType.bool, default=default, doc=doc)


def real(
    name: str, doc: str, *, default: float | None = None, rule: ValueRule | None = FINITE
) -> AttributeSpec:
    """A float, required where it has no default; finite unless another rule is given."""
    return AttributeSpec(
        name, AttributeType.f32, required=default is None, default=default, rule=rule, doc=doc
    )


_IGNORED = "; an empty list means zeros, and auto_pad other than None overrules it"
STRIDES = integers("strides", POSITIVE, "Step of the kernel along each spatial axis.")
PADS_BEGIN = integers(
    "pads_begin", NON_NEGATIVE, f"Zeros before the front, top and left of the spatial axes{_IGNORED}."
)
PADS_END = integers(
    "pads_end", NON_NEGATIVE, f"Zeros after the back, bottom and right of the spatial axes{_IGNORED}."
)
DILATIONS = integers("dilations", POSITIVE, "Distance between kernel elements; 1 is dense.")
AUTO_PAD = AttributeSpec(
    name="auto_pad",
    type=AttributeType.string,
    default="None",
    none_as="None",
    rule=OneOf(AUTO_PADS, any_case=True),
    doc="How pads are computed; with None, pads_begin and pads_end count.",
)
DATA_FORMAT = AttributeSpec(
    name="data_format",
    type=AttributeType.string,
    default="NXC",
    rule=OneOf(DATA_FORMATS),
    doc="Order of the axes of the data; X stands for the spatial axes.",
)
AUTO_BROADCAST = AttributeSpec(
    name="auto_broadcast",
    type=AttributeType.string,
    default="numpy",
    none_as="none",
    rule=OneOf(("none", "numpy"), any_case=True),
    doc="numpy: shapes are broadcast as in NumPy; none: they must be equal.",
)

# --- shape rules -------------------------------------------------------------------------------------


def known(dim: int) -> bool:
    """Whether a size is known."""
    return dim != UNKNOWN_DIM


def same(ctx: InferenceContext, first: Shape, second: Shape, what: tuple[str, str]) -> Shape:
    """The shape that two tensors share.

    Raises:
        ShapeError: they have different ones.
    """
    if first is None or second is None:
        return second if first is None else first
    if len(first) != len(second) or any(
        known(a) and known(b) and a != b for a, b in zip(first, second, strict=True)
    ):
        raise ctx.error(
            f"'{ctx.names.spell(what[1])}' must have the shape of '{ctx.names.spell(what[0])}', {format_shape(first)}, "
            f"got {format_shape(second)}"
        )
    return tuple(b if not known(a) else a for a, b in zip(first, second, strict=True))


def same_as(*names: str) -> InferShapes:
    """The rule of ops whose first inputs, of these names, and first output all have one shape."""

    def infer(ctx: InferenceContext) -> tuple[Shape, ...]:
        shape = ctx.inputs[0]
        for index, name in enumerate(names[1:], 1):
            shape = same(ctx, shape, ctx.inputs[index], (names[0], name))
        return (shape, *[None] * (len(ctx.outputs) - 1))

    return infer


def broadcast(ctx: InferenceContext, shapes: Sequence[Shape], names: Sequence[str]) -> Shape:
    """The shape that NumPy's broadcasting gives.

    Raises:
        ShapeError: sizes that are different and not 1.
    """
    if any(shape is None for shape in shapes):
        return None
    concrete = [shape for shape in shapes if shape is not None]
    rank = max(map(len, concrete), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in concrete]
    result: list[int] = []
    for dims in zip(*padded, strict=True):
        wide = {d for d in dims if known(d) and d != 1}
        if len(wide) > 1:
            raise ctx.error(
                f"{' and '.join(repr(ctx.names.spell(n)) for n in names)} must have shapes that broadcast, got "
                f"{' and '.join(map(format_shape, concrete))}; sizes on one axis must be equal or 1"
            )
        result.append(wide.pop() if wide else UNKNOWN_DIM if UNKNOWN_DIM in dims else 1)
    return tuple(result)


def channels_of(ctx: InferenceContext, shape: tuple[int, ...]) -> tuple[int, int]:
    """(axis, size) of the channels, by data_format.

    Raises:
        ShapeError: fewer than two axes.
    """
    if len(shape) < 2:
        raise ctx.error(f"the data must have a batch and channels at least, got shape {format_shape(shape)}")
    axis = axis_positions(ctx.attributes.string("data_format"), len(shape) - 2)["C"][0]
    return axis, shape[axis]


def axis_of(ctx: InferenceContext, axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front.

    Raises:
        ShapeError: there is no such axis.
    """
    if not rank:
        raise ctx.error(f"attribute '{what}' needs a tensor with axes, got {axis} for shape []")
    if not -rank <= axis < rank:
        raise ctx.error(
            f"attribute '{what}' must be between {-rank} and {rank - 1} for {rank} axes, got {axis}"
        )
    return axis % rank


def vector(ctx: InferenceContext, shape: Shape, name: str, size: int) -> None:
    """Checks that a tensor is 1-D of `size` elements, as far as both are known.

    Raises:
        ShapeError: it is not.
    """
    if shape is None:
        return
    if len(shape) != 1 or (known(shape[0]) and known(size) and shape[0] != size):
        wanted = f"[{size}]" if known(size) else "of one axis"
        raise ctx.error(
            f"'{ctx.names.spell(name)}' must have shape {wanted}, one element per channel, got {format_shape(shape)}"
        )
