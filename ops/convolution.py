"""The convolution family: weight gradients of convolutions and of transposed convolutions.

Schemas and shape inference. What is computed is in `weights_gradient.py`.

Source: the oneDNN Graph 3.0 to 3.2 documents of ConvolutionBackwardWeights and ConvTransposeBackwardWeights,
and the legacy documents of ConvolutionBackpropWeights and ConvolutionBackpropFilters.
"""

from __future__ import annotations

import math

from attrs import evolve, frozen

from . import spatial
from .attributes import NON_NEGATIVE, POSITIVE, S64_MAX, AttributeSpec, AttributeType, OneOf
from .data_types import DataType
from .formats import axis_positions
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, InferenceContext, OpNames, OpSchema, Port, Shape
from .shared import (
    AUTO_PAD,
    DATA_FORMAT,
    DILATIONS,
    FLOATS,
    PADS_BEGIN,
    PADS_END,
    STRIDES,
    integers,
    known,
)
from .weights_gradient import TRANSPOSED_KIND, resolve_pads, spatial_dims

MAX_AXES = 32
"""The NumPy kernel's windows take twice the spatial axes, and NumPy arrays have at most 64."""


# --- shape inference --------------------------------------------------------------------------------


@frozen
class _Side:
    """How the two ops differ, as data: which letters the channels of src and diff_dst are in the weights."""

    transposed: bool

    def spatial_rule(self, src: int, k: int, d: int, s: int, pads: int, extra: int) -> tuple[int, str]:
        """The size that diff_dst must have on one axis, and the rule in numbers."""
        extent = spatial.effective_kernel(k, d)
        if self.transposed:
            size = spatial.transposed_size(src, extent, s, pads, extra)
            return size, (
                f"stride·(src − 1) + extent + output_padding − pads = "
                f"{s}·({src} − 1) + {extent} + {extra} − {pads} = {size}"
            )
        size = spatial.convolution_size(src, extent, s, pads)
        return size, (
            f"(src + pads − extent) // stride + 1 = ({src} + {pads} − {extent}) // {s} + 1 = {size}"
        )


def _per_axis(ctx: InferenceContext, name: str, rank: int) -> tuple[int, ...]:
    """A list attribute with one value per spatial axis; an empty `pads_*` list means zeros."""
    values = ctx.attributes.integers(name)
    if not values and name.startswith("pads_"):
        return (0,) * rank
    if len(values) != rank:
        raise ctx.error(
            f"attribute '{ctx.names.spell(name)}' must have one value per spatial axis, {rank} for these "
            f"shapes, got {len(values)} in {list(values)}"
        )
    return values


def _ranks(ctx: InferenceContext) -> int | None:
    """The spatial rank, or None when no port tells it; every port that does must agree."""
    rank: int | None = None
    first = ""
    described = [
        (ctx.names.spell("src"), ctx.inputs[0]),
        (ctx.names.spell("diff_dst"), ctx.inputs[1]),
        (ctx.names.spell("weights_shape"), _requested_weights(ctx)),
        (ctx.names.spell("diff_weights"), ctx.outputs[0]),
    ]
    for name, shape in described:
        if shape is None:
            continue
        if not 3 <= len(shape) <= MAX_AXES:
            raise ctx.error(
                f"'{name}' must have a batch, a channel and 1 to {MAX_AXES - 2} spatial axes "
                f"(weights likewise), got shape {list(shape)} of rank {len(shape)}"
            )
        if rank is None:
            rank, first = len(shape), name
        elif rank != len(shape):
            raise ctx.error(
                f"'{name}' must have the rank of '{first}', {rank}, got shape {list(shape)} of rank "
                f"{len(shape)}"
            )
    return None if rank is None else rank - 2


def _requested_weights(ctx: InferenceContext) -> Shape:
    """The weights' shape: the input's value wins over the attribute, as the documents say."""
    if "weights_shape" in ctx.values:
        return ctx.values["weights_shape"]
    if len(ctx.inputs) > 2:
        return None
    return ctx.attributes.integers("weights_shape") if "weights_shape" in ctx.attributes else None


def _channels(ctx: InferenceContext, port: str, shape: Shape, rank: int) -> tuple[int, int]:
    """(batch, channels) of a data tensor, with UNKNOWN_DIM where not known."""
    if shape is None:
        return UNKNOWN_DIM, UNKNOWN_DIM
    at = axis_positions(ctx.attributes.string("data_format"), rank)
    batch, channels = shape[at["N"][0]], shape[at["C"][0]]
    groups = ctx.attributes.integer("groups")
    if channels == 0 or (known(channels) and channels % groups):
        raise ctx.error(
            f"'{ctx.names.spell(port)}' must have a positive number of channels that attribute "
            f"'groups' = {groups} divides, got {channels} channels in shape {list(shape)} with "
            f"data_format '{ctx.attributes.string('data_format')}'"
        )
    return batch, channels


def _infer(ctx: InferenceContext, side: _Side) -> tuple[Shape, ...]:
    """Shape rule of both ops; checks everything that is known and returns what follows."""
    connected = len(ctx.inputs)
    if connected < 3 and "weights_shape" not in ctx.attributes:
        name = ctx.names.spell("weights_shape")
        raise ctx.error(
            f"the shape of the weights is missing; give attribute '{name}' or connect input 2 '{name}'"
        )
    _check_shape_operand(ctx)
    rank = _ranks(ctx)
    if rank is None:
        return (None,)
    for name in ("strides", "dilations", "pads_begin", "pads_end"):
        _per_axis(ctx, name, rank)
    if "output_padding" in ctx.attributes:
        _per_axis(ctx, "output_padding", rank)
    src, diff_dst = ctx.inputs[0], ctx.inputs[1]
    src_batch, src_channels = _channels(ctx, "src", src, rank)
    dst_batch, dst_channels = _channels(ctx, "diff_dst", diff_dst, rank)
    if known(src_batch) and known(dst_batch) and src_batch != dst_batch:
        raise ctx.error(
            f"'{ctx.names.spell('src')}' and '{ctx.names.spell('diff_dst')}' must have the same batch "
            f"size, got {src_batch} and {dst_batch}"
        )
    weights = _requested_weights(ctx)
    if weights is None:
        return (ctx.outputs[0] if ctx.outputs[0] is not None else (UNKNOWN_DIM,) * (rank + 2),)
    kernel = _check_weights(ctx, side, weights, rank, src_channels, dst_channels)
    _check_spatial(ctx, side, kernel, rank)
    return (weights,)


def _check_shape_operand(ctx: InferenceContext) -> None:
    """The third input's value, when known, must be a shape."""
    if len(ctx.inputs) < 3:
        return
    name = ctx.names.spell("weights_shape")
    value = ctx.values.get("weights_shape")
    if value is not None and any(v < 1 for v in value):
        raise ctx.error(f"input '{name}' must hold positive sizes, got {list(value)}")


def _check_weights(
    ctx: InferenceContext,
    side: _Side,
    weights: tuple[int, ...],
    rank: int,
    src_channels: int,
    dst_channels: int,
) -> tuple[int, ...]:
    """Checks the weights' channels and the declared output; returns the kernel size."""
    if math.prod(weights) > S64_MAX // 8:
        raise ctx.error(
            f"'{ctx.names.spell('weights_shape')}' must have fewer than 2**60 elements, got {list(weights)}"
        )
    groups = ctx.attributes.integer("groups")
    fmt = ctx.attributes.string("weights_format")
    at = axis_positions(fmt, rank)
    inputs, outputs = weights[at["I"][0]], weights[at["O"][0]]
    choices = [_documented_channels(src_channels, dst_channels, groups)]
    if side.transposed:
        choices.append(_library_channels(src_channels, dst_channels, groups))
    if not any((not known(i) or i == inputs) and (not known(o) or o == outputs) for i, o in choices):
        expected = " or ".join(
            f"I = {i if known(i) else '?'} and O = {o if known(o) else '?'}"
            for i, o in dict.fromkeys(choices)
        )
        raise ctx.error(
            f"'{ctx.names.spell('weights_shape')}' must have {expected} for these channels and "
            f"groups = {groups}, got I = {inputs} and O = {outputs} in {list(weights)} with "
            f"{ctx.names.spell('weights_format')} '{fmt}' and data_format "
            f"'{ctx.attributes.string('data_format')}'; check both formats first"
        )
    declared = ctx.outputs[0]
    if declared is not None and any(
        known(have) and have != want for have, want in zip(declared, weights, strict=True)
    ):
        raise ctx.error(
            f"output '{ctx.names.spell('diff_weights')}' is declared with shape {list(declared)}, but "
            f"'{ctx.names.spell('weights_shape')}' is {list(weights)}; make them equal"
        )
    return tuple(weights[a] for a in at["X"])


def _documented_channels(src: int, dst: int, groups: int) -> tuple[int, int]:
    """(I, O) of the weights as both documents give them: I is divided by the groups."""
    return (src // groups if known(src) else UNKNOWN_DIM), dst


def _library_channels(src: int, dst: int, groups: int) -> tuple[int, int]:
    """(I, O) of transposed weights as oneDNN's code has them: O is divided by the groups."""
    return src, (dst // groups if known(dst) else UNKNOWN_DIM)


def _check_spatial(ctx: InferenceContext, side: _Side, kernel: tuple[int, ...], rank: int) -> None:
    """The spatial arithmetic, axis by axis, where both sizes are known."""
    src = spatial_dims(ctx.attributes, ctx.inputs[0], rank)
    dst = spatial_dims(ctx.attributes, ctx.inputs[1], rank)
    strides = _per_axis(ctx, "strides", rank)
    dilations = _per_axis(ctx, "dilations", rank)
    for axis in range(rank):
        for port, size in (("src", src[axis]), ("diff_dst", dst[axis])):
            if size == 0:
                raise ctx.error(
                    f"'{ctx.names.spell(port)}' must have a positive size on spatial axis {axis}, got 0"
                )
        if not (known(src[axis]) and known(dst[axis])):
            continue
        pads = sum(resolve_pads(ctx.attributes, rank, kernel, src, side.transposed)[axis])
        extra = _output_padding(ctx, side, axis, src[axis], dst[axis], kernel[axis], pads)
        want, rule = side.spatial_rule(src[axis], kernel[axis], dilations[axis], strides[axis], pads, extra)
        if want != dst[axis] or want < 1:
            raise ctx.error(
                f"'{ctx.names.spell('diff_dst')}' must have size {rule} on spatial axis {axis}, got "
                f"{dst[axis]}; check strides, pads, dilations, "
                f"{'output_padding, ' if side.transposed else ''}'{ctx.names.spell('weights_shape')}' and "
                "data_format"
            )


def _output_padding(
    ctx: InferenceContext, side: _Side, axis: int, src: int, dst: int, kernel: int, pads: int
) -> int:
    """The output padding of one axis.

    Native oneDNN Graph has no such attribute on this op and takes what the sizes imply; so do we when it is
    not given, as long as it stays below the stride, above which it would hide a wrong size.
    """
    if not side.transposed:
        return 0
    if "output_padding" in ctx.attributes:
        return ctx.attributes.integers("output_padding")[axis]
    stride = ctx.attributes.integers("strides")[axis]
    dilation = ctx.attributes.integers("dilations")[axis]
    extent = spatial.effective_kernel(kernel, dilation)
    implied = dst - spatial.transposed_size(src, extent, stride, pads, 0)
    return implied if 0 <= implied < stride else 0


# --- schemas ----------------------------------------------------------------------------------------

GROUPS = AttributeSpec(
    name="groups",
    type=AttributeType.s64,
    default=1,
    rule=POSITIVE,
    doc="How many groups the input and the output channels are divided into.",
)
OUTPUT_PADDING = integers(
    "output_padding",
    NON_NEGATIVE,
    "Zeros that the forward op adds at the end of each spatial axis of its output.",
    required=False,
    unset_as=0,
)
_IMPLIED_OUTPUT_PADDING = evolve(
    OUTPUT_PADDING, doc=f"{OUTPUT_PADDING.doc[:-1]}; taken from diff_dst if absent."
)


def weights_format(*formats: str) -> AttributeSpec:
    """The order of the weights' axes; the first one is the default."""
    return AttributeSpec(
        name="weights_format",
        type=AttributeType.string,
        default=formats[0],
        rule=OneOf(formats),
        doc="Order of the axes of the weights; X stands for the spatial axes.",
    )


_WEIGHTS_SHAPE = integers(
    "weights_shape",
    POSITIVE,
    "Shape of the weights, in weights_format; the input of that name wins over it.",
    required=False,
    unset_as=0,
)
_INPUTS = (
    Port("src", "T1", doc="Input of the forward op, in data_format."),
    Port("diff_dst", "T1", doc="Gradient of the forward op's output, in data_format."),
    Port(
        "weights_shape",
        "T2",
        required=False,
        shape_operand=True,
        doc="1-D tensor with the shape of the weights; wins over the attribute.",
    ),
)
_OUTPUTS = (Port("diff_weights", "T1", doc="Gradient of the weights, in weights_format."),)
_LEGACY_FILTERS = {
    "weights_shape": "filter_shape",
    "weights_format": "filter_format",
    "src": "input_forward",
    "diff_dst": "output_delta",
    "diff_weights": "filter_delta",
}
_EITHER = "Either the weights_shape input or the weights_shape attribute must be given; the input wins."
_DIVISIBLE = "groups must divide both the input and the output channels."

CONVOLUTION_BACKWARD_WEIGHTS = REGISTRY.register(
    OpSchema(
        kind="ConvolutionBackwardWeights",
        summary="Gradient of a convolution with respect to its weights.",
        formula="diff_weights[o, i, k] = Σ_n Σ_p diff_dst[n, o, p] · src[n, i, p·stride + k·dilation − pad]",
        inputs=_INPUTS,
        outputs=_OUTPUTS,
        attributes=(
            STRIDES,
            PADS_BEGIN,
            PADS_END,
            DILATIONS,
            AUTO_PAD,
            GROUPS,
            DATA_FORMAT,
            weights_format("XIO", "OIX"),
            _WEIGHTS_SHAPE,
        ),
        types={"T1": FLOATS, "T2": (DataType.s32,)},
        infer_shapes=lambda ctx: _infer(ctx, _Side(transposed=False)),
        aliases=(
            OpNames("ConvolutionBackpropWeights"),
            OpNames("ConvolutionBackpropFilters", _LEGACY_FILTERS),
        ),
        notes=(
            "The shape of the weights is (O, I / groups, X) for OIX and (X, I / groups, O) for XIO.",
            _DIVISIBLE,
            _EITHER,
        ),
        source="oneDNN Graph 3.0 and 3.1, ConvolutionBackwardWeights; legacy ConvolutionBackpropWeights-1 "
        "and ConvolutionBackpropFilters-1",
        family="convolution",
    )
)

CONV_TRANSPOSE_BACKWARD_WEIGHTS = REGISTRY.register(
    OpSchema(
        kind=TRANSPOSED_KIND,
        summary="Gradient of a transposed convolution with respect to its weights.",
        formula="diff_weights[i, o, k] = Σ_n Σ_p src[n, i, p] · diff_dst[n, o, p·stride + k·dilation − pad]",
        inputs=_INPUTS,
        outputs=_OUTPUTS,
        attributes=(
            STRIDES,
            PADS_BEGIN,
            PADS_END,
            DILATIONS,
            AUTO_PAD,
            _IMPLIED_OUTPUT_PADDING,
            GROUPS,
            DATA_FORMAT,
            weights_format("XOI", "IOX"),
            _WEIGHTS_SHAPE,
        ),
        types={"T1": FLOATS, "T2": (DataType.s32,)},
        infer_shapes=lambda ctx: _infer(ctx, _Side(transposed=True)),
        aliases=(OpNames("ConvTransposeBackpropFilters", _LEGACY_FILTERS),),
        notes=(
            "The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI; with "
            "groups, the (I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted too, and "
            "weights_shape decides.",
            _DIVISIBLE,
            _EITHER,
        ),
        source="oneDNN Graph 3.0, ConvTransposeBackwardWeights",
        family="convolution",
    )
)
