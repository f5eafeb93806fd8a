"""The host family: ops of our own that models need and oneDNN Graph has none for, computed by NumPy alone.

Importers fall back to them. They are no part of the documented op set, which is oneDNN Graph's: a registry lists them
apart. Each name begins with `Host`, so that reports say what runs outside the library. `HOSTED` are those that do what
an op of the set does, for types that it does not take.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from . import binary, eltwise, movement, reduction
from .attributes import NON_NEGATIVE, AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .registry import HOST, REGISTRY
from .schema import (
    UNKNOWN_DIM,
    BackwardOp,
    InferenceContext,
    InferShapes,
    OpSchema,
    Port,
    Shape,
    format_shape,
    shape_of_first_input,
)
from .shared import FLOATS, axis_of, broadcast, flag, integers, known, real, same

SOURCE = "an op of our own, for models of other frameworks"
INTEGERS = (DataType.s64, DataType.s32, DataType.s8, DataType.u8)
BOOLEAN = (DataType.boolean,)
NUMBERS = (*FLOATS, *INTEGERS)
VALUES = (*NUMBERS, *BOOLEAN)
INDICES = (DataType.s64, DataType.s32)
SCATTERING = AttributeSpec(
    "reduction",
    AttributeType.string,
    default="none",
    rule=OneOf(("none", "add", "mul", "max", "min")),
    doc="none: what is new takes the place, the last one if there are several; else what both make.",
)
PAD_MODES = ("constant", "edge", "reflect", "wrap")

TWINNED = (binary, eltwise, movement, reduction)
"""The families that have twins here, and are registered first."""
HOSTED: dict[str, str] = {}
"""Op of the set → the op of this family that does the same for more types."""

_SRC = Port("src", "T", doc="Any shape.")
_DST = Port("dst", "T", doc="The shape of src.")
_INDICES = Port("indices", "TI", index="src", doc="Integers, counted from the end where negative.")
_INDICES_OF_GRADIENT = evolve(_INDICES, index="diff_src")


def _register(
    kind: str,
    summary: str,
    formula: str,
    inputs: Sequence[Port],
    output: Port,
    types: dict[str, tuple[DataType, ...]],
    infer_shapes: InferShapes,
    attributes: Sequence[AttributeSpec] = (),
    backward: Sequence[BackwardOp] = (),
) -> None:
    REGISTRY.register(
        OpSchema(
            kind=kind,
            summary=summary,
            formula=formula,
            inputs=tuple(inputs),
            outputs=(output,),
            attributes=tuple(attributes),
            types=types,
            infer_shapes=infer_shapes,
            backward=tuple(backward),
            source=SOURCE,
            family=HOST,
        )
    )


def _axis(doc: str) -> AttributeSpec:
    return AttributeSpec(
        "axis", AttributeType.s64, required=True, doc=f"{doc}, counted from the end where negative."
    )


# --- ops of the set for other types ----------------------------------------------------------------------


def _twin(of: str, kind: str, constraint: str, allowed: tuple[DataType, ...]) -> None:
    """Enters an op that is one of the set, with these types instead of its own."""
    schema, _ = REGISTRY.resolve(of)
    types = {**schema.types, constraint: allowed}
    REGISTRY.register(
        evolve(schema, kind=kind, types=types, source=SOURCE, family=HOST, aliases=(), notes=(), backward=())
    )
    HOSTED[of] = kind


_twin("StaticReshape", "HostReshape", "T", VALUES)
_twin("StaticTranspose", "HostTranspose", "T", VALUES)
_twin("Concat", "HostConcat", "T", VALUES)
_twin("Select", "HostSelect", "T2", VALUES)
_twin("Abs", "HostAbs", "T", INTEGERS)
for _kind in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"):
    _twin(_kind, f"Host{_kind}", "T1", INTEGERS)


# --- element by element ----------------------------------------------------------------------------------


def _broadcast(ctx: InferenceContext) -> tuple[Shape, ...]:
    return (broadcast(ctx, ctx.inputs, ("src_0", "src_1")),)


def _binary(
    kind: str,
    summary: str,
    formula: str,
    types: tuple[DataType, ...],
    result: str = "T",
    attributes: Sequence[AttributeSpec] = (),
) -> None:
    _register(
        kind,
        summary,
        formula,
        (Port("src_0", "T", doc="First operand."), Port("src_1", "T", doc="Second operand.")),
        Port("dst", result, doc="The broadcast shape of both."),
        {"T": types} if result == "T" else {"T": types, result: BOOLEAN},
        _broadcast,
        attributes,
    )


def _unary(kind: str, summary: str, formula: str, types: tuple[DataType, ...], result: str = "T") -> None:
    types_of = {"T": types} if result == "T" else {"T": types, result: BOOLEAN}
    output = Port("dst", result, doc="The shape of src.")
    _register(kind, summary, formula, (_SRC,), output, types_of, shape_of_first_input)


for _kind, _summary, _sign in (
    ("Add", "Sum of integers.", "+"),
    ("Subtract", "Difference of integers.", "−"),
    ("Multiply", "Product of integers.", "·"),
):
    _binary(f"Host{_kind}", _summary, f"dst = src_0 {_sign} src_1", INTEGERS)
    HOSTED[_kind] = f"Host{_kind}"
for _kind, _summary, _name in (
    ("Maximum", "The larger of two integers.", "max"),
    ("Minimum", "The smaller of two integers.", "min"),
):
    _binary(f"Host{_kind}", _summary, f"dst = {_name}(src_0, src_1)", INTEGERS)
    HOSTED[_kind] = f"Host{_kind}"
_binary(
    "HostDivide",
    "Quotient without its fraction.",
    "dst = src_0 / src_1, rounded",
    NUMBERS,
    attributes=(
        AttributeSpec(
            "rounding",
            AttributeType.string,
            default="zero",
            rule=OneOf(("zero", "down")),
            doc="zero: towards zero; down: towards −∞.",
        ),
    ),
)
_binary(
    "HostModulo",
    "Remainder of a division.",
    "dst = src_0 − src_1 · round(src_0 / src_1)",
    NUMBERS,
    attributes=(
        flag("of_dividend", False, "Whether the result has the dividend's sign, not the divisor's."),
    ),
)
_binary("HostPower", "A power whose exponents are computed.", "dst = src_0 ^ src_1", FLOATS)
_binary("HostAtan2", "Angle of a point.", "dst = angle of (src_1, src_0)", FLOATS)
for _kind, _summary, _sign in (
    ("Equal", "Whether two elements are equal.", "="),
    ("NotEqual", "Whether two elements differ.", "≠"),
    ("Greater", "Whether the first operand is above the second.", ">"),
    ("GreaterEqual", "Whether the first operand is at least the second.", "≥"),
):
    _binary(f"Host{_kind}", _summary, f"dst = src_0 {_sign} src_1", VALUES, "TB")
HOSTED["GreaterEqual"] = "HostGreaterEqual"
for _kind, _summary, _sign in (
    ("And", "Both: of truths, or of the bits of integers.", "∧"),
    ("Or", "One or both: of truths, or of the bits of integers.", "∨"),
    ("Xor", "One and not both: of truths, or of the bits of integers.", "⊕"),
):
    _binary(f"Host{_kind}", _summary, f"dst = src_0 {_sign} src_1", (*BOOLEAN, *INTEGERS))
_unary("HostNot", "The contrary: of truths, or of the bits of integers.", "dst = ¬src", (*BOOLEAN, *INTEGERS))
_unary("HostIsNaN", "Whether an element is no number.", "dst = src ≠ src", FLOATS, "TB")
_unary("HostIsInf", "Whether an element is infinite.", "dst = |src| = ∞", FLOATS, "TB")
for _kind, _summary, _formula in (
    ("Acos", "Angle of a cosine.", "dst = arccos(src)"),
    ("Acosh", "Inverse of the hyperbolic cosine.", "dst = arcosh(src)"),
    ("Asin", "Angle of a sine.", "dst = arcsin(src)"),
    ("Asinh", "Inverse of the hyperbolic sine.", "dst = arsinh(src)"),
    ("Atan", "Angle of a tangent.", "dst = arctan(src)"),
    ("Atanh", "Inverse of the hyperbolic tangent.", "dst = artanh(src)"),
    ("Ceil", "The next integer above.", "dst = ⌈src⌉"),
    ("Cos", "Cosine.", "dst = cos(src)"),
    ("Cosh", "Hyperbolic cosine.", "dst = cosh(src)"),
    ("Erf", "Error function.", "dst = erf(src)"),
    ("Expm1", "Exponential less 1.", "dst = exp(src) − 1"),
    ("Floor", "The next integer below.", "dst = ⌊src⌋"),
    ("Log1p", "Logarithm of 1 more.", "dst = log(1 + src)"),
    ("Sin", "Sine.", "dst = sin(src)"),
    ("Sinh", "Hyperbolic sine.", "dst = sinh(src)"),
    ("Tan", "Tangent.", "dst = tan(src)"),
    ("Trunc", "The next integer towards zero.", "dst = src without its fraction"),
):
    _unary(f"Host{_kind}", _summary, _formula, FLOATS)
_unary("HostSign", "−1, 0 or 1.", "dst = sign(src)", NUMBERS)
_register(
    "HostStopGradient",
    "A tensor as a constant: gradients do not flow through, as with torch's detach() and jax's stop_gradient.",
    "dst = src",
    (_SRC,),
    _DST,
    {"T": FLOATS},
    shape_of_first_input,
)
_register(
    "HostCast",
    "The same numbers in another type; fractions are cut off where it is one of integers.",
    "dst = src",
    (Port("src", "T1", doc="Any shape."),),
    Port("dst", "T2", doc="The shape of src."),
    {"T1": VALUES, "T2": VALUES},
    shape_of_first_input,
)


# --- parts and places ------------------------------------------------------------------------------------


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
    """How many axes of src an index names; None where that is not known."""
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
        depth = _depth(ctx, src, indices, 0)
        if depth is not None:
            wanted = (*indices[:-1], *src[depth:])
            if len(wanted) != len(updates) or any(
                known(a) and known(b) and a != b for a, b in zip(wanted, updates, strict=True)
            ):
                raise ctx.error(
                    f"'updates' must have shape {format_shape(wanted)}, got {format_shape(updates)}"
                )
    return (src,)


def parts(ctx: InferenceContext, shape: Sequence[int]) -> list[slice]:
    """What HostSlice takes of each axis.

    Raises:
        ShapeError: an axis that the tensor does not have, or one given twice.
    """
    axes = [axis_of(ctx, axis, len(shape), "axes") for axis in ctx.attributes.integers("axes")]
    if len(set(axes)) < len(axes):
        given = list(ctx.attributes.integers("axes"))
        raise ctx.error(f"attribute 'axes' must name each axis once, got {given} for {len(shape)} axes")
    return _slices(
        axes,
        *(ctx.attributes.integers(name) for name in ("starts", "stops", "steps")),
        rank=len(shape),
    )


def _slices(
    axes: Sequence[int], starts: Sequence[int], stops: Sequence[int], steps: Sequence[int], *, rank: int
) -> list[slice]:
    found = [slice(None)] * rank
    for axis, start, stop, step in zip(axes, starts, stops, steps, strict=True):
        found[axis % rank] = slice(start, stop, step)
    return found


def _slice(ctx: InferenceContext) -> tuple[Shape, ...]:
    src = ctx.inputs[0]
    counts = {name: len(ctx.attributes.integers(name)) for name in ("axes", "starts", "stops", "steps")}
    if len(set(counts.values())) > 1:
        raise ctx.error(f"'axes', 'starts', 'stops' and 'steps' must be equally long, got {counts}")
    if 0 in ctx.attributes.integers("steps"):
        raise ctx.error("attribute 'steps' must not have a 0")
    if src is None:
        return (None,)
    found = parts(ctx, src)
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


def _back(kind: str, *more: str) -> tuple[BackwardOp, ...]:
    """The gradient op of a kind, which has the shape of src as an attribute."""
    inputs = ("diff_dst", *more)
    return (BackwardOp(kind=f"{kind}Backward", inputs=inputs, outputs=("src",), shapes={"src_shape": "src"}),)


_register(
    "HostGather",
    "Parts along an axis, by their numbers: a look-up in a table.",
    "dst[…, i…, …] = src[…, indices[i…], …]",
    (_SRC, _INDICES),
    Port("dst", "T", doc="src with the axes of indices in the place of the axis."),
    {"T": VALUES, "TI": INDICES},
    _gather,
    (_axis("The axis that indices count along"),),
    _back("HostGather", "indices"),
)
_register(
    "HostGatherElements",
    "Elements whose place along an axis an index says.",
    "dst[…, i, …] = src[…, indices[…, i, …], …]",
    (_SRC, _INDICES),
    Port("dst", "T", doc="The shape of indices."),
    {"T": VALUES, "TI": INDICES},
    _gather_elements,
    (
        _axis("The axis that indices count along"),
        flag("strict", False, "Whether indices are 0 or more, and of the shape of src but along the axis."),
    ),
    _back("HostGatherElements", "indices"),
)
_BATCH = AttributeSpec(
    "batch_dims",
    AttributeType.s64,
    default=0,
    rule=NON_NEGATIVE,
    doc="Leading axes that src and indices share.",
)
_register(
    "HostGatherND",
    "Parts by the places that the last axis of indices names.",
    "dst[i…, …] = src[indices[i…], …]",
    (_SRC, _INDICES),
    Port("dst", "T", doc="indices without its last axis, and what they leave of src."),
    {"T": VALUES, "TI": INDICES},
    _gather_nd,
    (_BATCH,),
    _back("HostGatherND", "indices"),
)
_register(
    "HostScatterND",
    "A tensor with other parts at the places that the last axis of indices names.",
    "dst = src; dst[indices[i…], …] = updates[i…, …]",
    (_SRC, _INDICES, Port("updates", "T", doc="The parts.")),
    _DST,
    {"T": VALUES, "TI": INDICES},
    _scatter_nd,
    (SCATTERING,),
)
_register(
    "HostSlice",
    "A part along axes, with bounds and steps as Python's slices have them.",
    "dst = src[starts:stops:steps]",
    (_SRC,),
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
    _back("HostSlice"),
)
_register(
    "HostPad",
    "A tensor with elements around it.",
    "dst = value, src, value along each axis",
    (_SRC,),
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
    _back("HostPad"),
)
_register(
    "HostExpand",
    "A tensor repeated along axes where it has one element.",
    "dst = src, broadcast to shape",
    (_SRC,),
    Port("dst", "T", doc="The shape that the attribute says."),
    {"T": VALUES},
    _expand,
    (integers("shape", None, "The new shape; -1 is the size that src has."),),
)
_register(
    "HostCumSum",
    "Sums of all elements up to one, along an axis.",
    "dst[i] = Σ_{j ≤ i} src[j]",
    (_SRC,),
    _DST,
    {"T": NUMBERS},
    _along,
    (
        _axis("The axis"),
        flag("exclusive", False, "Whether the element itself is left out."),
        flag("reverse", False, "Whether the sums begin at the end."),
    ),
)
for _kind, _summary in (("HostArgMax", "largest"), ("HostArgMin", "smallest")):
    _register(
        _kind,
        f"Where the {_summary} element is along an axis.",
        f"dst = number of the {_summary} element",
        (_SRC,),
        Port("dst", "TI", doc="src without the axis, or with one element there."),
        {"T": NUMBERS, "TI": INDICES},
        _arg,
        (
            _axis("The axis"),
            flag("keep_dims", True, "Whether the axis stays, with one element."),
            flag("last", False, "Whether the last one counts where several are equal."),
        ),
    )


# --- gradients -------------------------------------------------------------------------------------------

_DIFF_DST = Port("diff_dst", "T", doc="Gradient of the forward op's output.")
_DIFF_SRC = Port("diff_src", "T", doc="Gradient of the forward op's input.")
_SRC_SHAPE = integers("src_shape", NON_NEGATIVE, "Shape of the forward op's input.")


def _forward_context(ctx: InferenceContext, *inputs: Shape) -> InferenceContext:
    return evolve(ctx, inputs=(ctx.attributes.integers("src_shape"), *inputs))


def _backward(
    kind: str, formula: str, forward: InferShapes, attributes: Sequence[AttributeSpec], *more: Port
) -> None:
    """Enters the gradient op of a kind: `forward` is that one's shape rule, which diff_dst has to follow."""

    def infer(ctx: InferenceContext) -> tuple[Shape, ...]:
        (wanted,) = forward(_forward_context(ctx, *ctx.inputs[1:]))
        same(ctx, wanted, ctx.inputs[0], ("the forward op's output", "diff_dst"))
        return (ctx.attributes.integers("src_shape"),)

    linear = BackwardOp(
        kind=kind, inputs=("diff_diff_src", *[port.name for port in more]), outputs=("diff_dst",)
    )
    types: dict[str, tuple[DataType, ...]] = {"T": FLOATS, **({"TI": INDICES} if more else {})}
    _register(
        f"{kind}Backward",
        f"Gradient of {kind}.",
        formula,
        (_DIFF_DST, *more),
        _DIFF_SRC,
        types,
        infer,
        (*attributes, _SRC_SHAPE),
        (linear,),
    )


def _attributes_of(kind: str) -> tuple[AttributeSpec, ...]:
    """Those of a kind that its gradient depends on."""
    return tuple(spec for spec in REGISTRY.resolve(kind)[0].attributes if spec.name != "value")


_backward(
    "HostGather",
    "diff_src[…, indices[i…], …] += diff_dst[…, i…, …]",
    _gather,
    _attributes_of("HostGather"),
    _INDICES_OF_GRADIENT,
)
_backward(
    "HostGatherElements",
    "diff_src[…, indices[…, i, …], …] += diff_dst[…, i, …]",
    _gather_elements,
    _attributes_of("HostGatherElements"),
    _INDICES_OF_GRADIENT,
)
_backward(
    "HostGatherND",
    "diff_src[indices[i…], …] += diff_dst[i…, …]",
    _gather_nd,
    _attributes_of("HostGatherND"),
    _INDICES_OF_GRADIENT,
)
_backward(
    "HostSlice", "diff_src = 0; diff_src[starts:stops:steps] = diff_dst", _slice, _attributes_of("HostSlice")
)
_backward("HostPad", "diff_src[what dst[i] was taken from] += diff_dst[i]", _pad, _attributes_of("HostPad"))


def _expand_to(ctx: InferenceContext) -> tuple[Shape, ...]:
    wide = broadcast(ctx, ctx.inputs, ("src", "like"))
    return (same(ctx, wide, ctx.inputs[1], ("src broadcast to like", "like")),)


def _sum_to(ctx: InferenceContext) -> tuple[Shape, ...]:
    wide = broadcast(ctx, ctx.inputs, ("src", "like"))
    same(ctx, wide, ctx.inputs[0], ("src", "like broadcast to src"))
    return (ctx.inputs[1],)


_LIKE = Port("like", "T", doc="A tensor of the shape; its elements don't matter.")
_register(
    "HostExpandTo",
    "A tensor repeated to the shape of another one.",
    "dst = src, broadcast to the shape of like",
    (_SRC, _LIKE),
    Port("dst", "T", doc="The shape of like."),
    {"T": FLOATS},
    _expand_to,
)
_register(
    "HostSumTo",
    "A tensor summed to the shape of another one that broadcasts to it.",
    "dst = Σ src over what like has one element along",
    (_SRC, _LIKE),
    Port("dst", "T", doc="The shape of like."),
    {"T": FLOATS},
    _sum_to,
)
