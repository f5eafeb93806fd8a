"""The convolution family's data side: convolutions, transposed convolutions, and their gradients by the data.

All four are one of two sums over the same geometry (`weights_gradient.py`): a convolution gathers windows of the
larger tensor, and its gradient by the data scatters them back. A transposed convolution is a convolution's gradient by
the data, and its own gradient by the data is a convolution.

Source: the oneDNN Graph documents of the four ops.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from . import spatial
from .attributes import NON_NEGATIVE, Attributes, AttributeSpec
from .convolution import GROUPS, MAX_AXES, OUTPUT_PADDING, weights_format
from .data_types import DataType
from .formats import axis_positions
from .registry import REGISTRY
from .schema import UNKNOWN_DIM, InferenceContext, OpSchema, Port, Shape
from .shared import (
    AUTO_PAD,
    DATA_FORMAT,
    DILATIONS,
    FLOATS,
    PADS_BEGIN,
    PADS_END,
    SOURCE,
    STRIDES,
    integers,
    known,
    show,
    vector,
)
from .weights_gradient import TRANSPOSED_KIND, WeightsGradient, weights_gradient


@frozen
class _Kind:
    """How the four ops differ.

    Attributes:
        data: the data input's port.
        transposed: the op belongs to a transposed convolution.
        backward: it is a gradient.
    """

    data: str
    transposed: bool
    backward: bool

    @property
    def scatters(self) -> bool:
        """Whether the output is the larger tensor, to which windows are added."""
        return self.transposed is not self.backward


_KINDS = {
    "Convolution": _Kind("src", transposed=False, backward=False),
    "ConvolutionBackwardData": _Kind("diff_dst", transposed=False, backward=True),
    "ConvTranspose": _Kind("src", transposed=True, backward=False),
    "ConvTransposeBackwardData": _Kind("diff_dst", transposed=True, backward=True),
}


def scatters(kind: str) -> bool:
    """Whether the op's output is the larger tensor of its geometry."""
    return _KINDS[kind].scatters


def geometry(
    kind: str,
    attributes: Attributes,
    data: tuple[int, ...],
    weights: tuple[int, ...],
    result: tuple[int, ...],
) -> WeightsGradient:
    """The geometry of an op whose shapes have passed inference, in the roles of `WeightsGradient`.

    The larger tensor plays src there and the smaller one diff_dst, whichever of them is computed.

    Args:
        kind: one of the four kinds.
        attributes: canonical attributes.
        data, weights, result: concrete shapes in the op's own formats.
    """
    how = _KINDS[kind]
    forward, gradient = (result, data) if how.backward else (data, result)
    # weights_gradient takes src and diff_dst of the forward op; of a transposed one it exchanges them.
    found = weights_gradient(
        TRANSPOSED_KIND if how.transposed else "ConvolutionBackwardWeights",
        attributes,
        forward,
        gradient,
        weights,
    )
    return evolve(found, exchanged=how.transposed)


# --- shape inference ---------------------------------------------------------------------------------


def _rank(ctx: InferenceContext, how: _Kind) -> int | None:
    rank = 0
    for name, shape in ((how.data, ctx.inputs[0]), ("weights", ctx.inputs[1])):
        if shape is None:
            continue
        if not 3 <= len(shape) <= MAX_AXES or len(shape) != (rank or len(shape)):
            raise ctx.error(
                f"'{name}' must have a batch, channels and 1 to {MAX_AXES - 2} spatial axes (weights likewise), as "
                f"many as the other input, got shape {show(shape)}"
            )
        rank = len(shape)
    if not rank:
        return None
    for name in ("strides", "dilations", "pads_begin", "pads_end", "output_padding"):
        if name not in ctx.attributes:
            continue
        values = ctx.attributes.integers(name)
        if len(values) != rank - 2 and (values or not name.startswith("pads")):
            raise ctx.error(
                f"attribute '{name}' must have one value per spatial axis, {rank - 2} for these shapes, got "
                f"{list(values)}"
            )
    return rank - 2


def _channels(ctx: InferenceContext, how: _Kind, channels: int, weights: tuple[int, ...], rank: int) -> int:
    """Checks the channels of the data input and returns those of the output.

    Raises:
        ShapeError: the channels, the weights and the groups contradict each other.
    """
    groups = ctx.attributes.integer("groups")
    fmt = ctx.attributes.string("weights_format")
    at = axis_positions(fmt, rank)
    inputs, outputs = weights[at["I"][0]], weights[at["O"][0]]
    # (input channels, output channels) of the forward op; transposed weights with groups come in two layouts.
    pairs = [(inputs * groups if known(inputs) else UNKNOWN_DIM, outputs)]
    if how.transposed and groups > 1:
        pairs.append((inputs, outputs * groups if known(outputs) else UNKNOWN_DIM))
    given, wanted = (1, 0) if how.backward else (0, 1)
    for name, count in ((how.data, channels), ("weights", inputs), ("weights", outputs)):
        if count == 0:
            raise ctx.error(f"'{name}' must have a positive number of channels, got 0")
    fitting = {
        pair[wanted]
        for pair in pairs
        if (UNKNOWN_DIM in (pair[given], channels) or pair[given] == channels)
        and all(not known(c) or c % groups == 0 for c in pair)
    }
    if fitting:
        return fitting.pop() if len(fitting) == 1 else UNKNOWN_DIM
    expected = " or ".join(str(pair[given]) for pair in pairs)
    raise ctx.error(
        f"'{how.data}' must have {expected} channels for weights {show(weights)} in weights_format '{fmt}' and "
        f"groups = {groups}, which must divide the channels, got {channels} in data_format "
        f"'{ctx.attributes.string('data_format')}'; check both formats first"
    )


def _requested(ctx: InferenceContext) -> Shape:
    """The output's shape where the user says it: an input, an attribute, or the declaration."""
    if "dst_shape" in ctx.values:
        return ctx.values["dst_shape"]
    if "dst_shape" in ctx.attributes and len(ctx.inputs) == 2:
        return ctx.attributes.integers("dst_shape")
    return ctx.outputs[0]


def _pads(ctx: InferenceContext, axis: int, rank: int) -> int:
    return sum((ctx.attributes.integers(name) or (0,) * rank)[axis] for name in ("pads_begin", "pads_end"))


def _gathered(ctx: InferenceContext, how: _Kind, size: int, kernel: int, axis: int, rank: int) -> int:
    """Output size of one axis where windows of the input are gathered."""
    stride = ctx.attributes.integers("strides")[axis]
    extent = spatial.effective_kernel(kernel, ctx.attributes.integers("dilations")[axis])
    auto_pad = ctx.attributes.string("auto_pad")
    if auto_pad == "None":
        pads = _pads(ctx, axis, rank)
    elif auto_pad == "VALID":
        pads = 0
    elif how.transposed:
        pads = spatial.transposed_same_total(extent, stride)
    else:
        pads = spatial.convolution_same_total(size, extent, stride)
    result = spatial.convolution_size(size, extent, stride, pads)
    if result < 1:
        raise ctx.error(
            f"the kernel must fit into the padded data on spatial axis {axis}, got size {size}, pads {pads} and an "
            f"extent of {extent}"
        )
    return result


def _scattered(ctx: InferenceContext, size: int, kernel: int, axis: int, rank: int, want: int) -> int:
    """Output size of one axis where windows are scattered; `want` is what the user says of it."""
    stride = ctx.attributes.integers("strides")[axis]
    extent = spatial.effective_kernel(kernel, ctx.attributes.integers("dilations")[axis])
    auto_pad = ctx.attributes.string("auto_pad")
    extra = ctx.attributes.integers("output_padding")[axis] if "output_padding" in ctx.attributes else 0
    if auto_pad == "None":
        pads = _pads(ctx, axis, rank)
    elif auto_pad == "VALID":
        pads = 0
    else:
        pads = spatial.transposed_same_total(extent, stride)
    result = spatial.transposed_size(size, extent, stride, pads, extra)
    if known(want) and want != result:
        total = spatial.convolution_same_total(want, extent, stride) if auto_pad.startswith("SAME") else pads
        if spatial.convolution_size(want, extent, stride, total) == size:
            return want
    if result < 1:
        raise ctx.error(
            f"the output must have a positive size on spatial axis {axis}, got stride·(size − 1) + extent + "
            f"output_padding − pads = {stride}·({size} − 1) + {extent} + {extra} − {pads} = {result}"
        )
    return result


def _infer(ctx: InferenceContext, how: _Kind) -> tuple[Shape, ...]:
    rank = _rank(ctx, how)
    if rank is None:
        return (None,)
    data, weights = ctx.inputs[0], ctx.inputs[1]
    data_at = axis_positions(ctx.attributes.string("data_format"), rank)
    weights_at = axis_positions(ctx.attributes.string("weights_format"), rank)
    unknown = (UNKNOWN_DIM,) * (rank + 2)
    data, weights = data or unknown, weights or unknown
    channels = _channels(ctx, how, data[data_at["C"][0]], weights, rank)
    requested = _requested(ctx)
    if requested is not None and len(requested) != rank + 2:
        raise ctx.error(f"the output must have {rank + 2} axes as '{how.data}', got shape {show(requested)}")
    sizes: dict[int, int] = {data_at["N"][0]: data[data_at["N"][0]], data_at["C"][0]: channels}
    waits = how.scatters and how.backward and len(ctx.inputs) > 2 and "dst_shape" not in ctx.values
    for axis, (at, kernel_at) in enumerate(zip(data_at["X"], weights_at["X"], strict=True)):
        size, kernel = data[at], weights[kernel_at]
        if waits or not (known(size) and known(kernel)):
            sizes[at] = UNKNOWN_DIM
        elif how.scatters:
            want = requested[at] if requested is not None else UNKNOWN_DIM
            sizes[at] = _scattered(ctx, size, kernel, axis, rank, want)
        else:
            sizes[at] = _gathered(ctx, how, size, kernel, axis, rank)
    result = tuple(sizes[a] for a in range(rank + 2))
    if requested is not None and any(
        known(a) and known(b) and a != b for a, b in zip(requested, result, strict=True)
    ):
        raise ctx.error(
            f"the output must have shape {show(result)} for these inputs and attributes, got {show(requested)}"
        )
    if not how.backward and len(ctx.inputs) > 2:
        vector(ctx, ctx.inputs[2], "bias", channels)
    return (result,)


# --- schemas -----------------------------------------------------------------------------------------

_COMMON = (STRIDES, PADS_BEGIN, PADS_END, DILATIONS, AUTO_PAD, GROUPS, DATA_FORMAT)
_BIAS = "One value per output channel."
_WEIGHTS = "Weights, in weights_format."
_DST_SHAPE = integers(
    "dst_shape",
    NON_NEGATIVE,
    "Shape of the output, diff_src; the input of that name wins over it.",
    required=False,
    unset_as=0,
)
_GROUPED = (
    "The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI; with groups, the "
    "(I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted too, and the channels decide.",
)


def _forward(
    kind: str, summary: str, formula: str, formats: tuple[str, str], more: Sequence[AttributeSpec]
) -> OpSchema:
    return REGISTRY.register(
        OpSchema(
            kind=kind,
            summary=summary,
            formula=formula,
            inputs=(
                Port("src", "T", doc="Data, in data_format."),
                Port("weights", "T", doc=_WEIGHTS),
                Port("bias", "T", required=False, doc=_BIAS),
            ),
            outputs=(Port("dst", "T", doc="The result, in data_format."),),
            attributes=(*more, *_COMMON, weights_format(*formats)),
            types={"T": FLOATS},
            infer_shapes=lambda ctx: _infer(ctx, _KINDS[kind]),
            notes=_GROUPED if _KINDS[kind].transposed else (),
            source=SOURCE.format(kind),
            family="convolution_data",
        )
    )


_forward(
    "Convolution",
    "Convolution.",
    "dst[n, o, p] = Σ_i Σ_k src[n, i, p·stride + k·dilation − pad] · weights[o, i, k] + bias[o]",
    ("XIO", "OIX"),
    (),
)
_forward(
    "ConvTranspose",
    "Transposed convolution.",
    "dst[n, o, p·stride + k·dilation − pad] += src[n, i, p] · weights[i, o, k]; dst += bias[o]",
    ("XOI", "IOX"),
    (OUTPUT_PADDING,),
)

REGISTRY.register(
    OpSchema(
        kind="ConvolutionBackwardData",
        summary="Gradient of a convolution with respect to its input.",
        formula="diff_src[n, i, p·stride + k·dilation − pad] += diff_dst[n, o, p] · weights[o, i, k]",
        inputs=(
            Port("diff_dst", "T1", doc="Gradient of the forward op's output, in data_format."),
            Port("weights", "T1", doc=_WEIGHTS),
            Port(
                "dst_shape",
                "T2",
                required=False,
                shape_operand=True,
                doc="1-D tensor with the shape of the output; wins over the attribute.",
            ),
        ),
        outputs=(Port("diff_src", "T1", doc="Gradient of the forward op's input, in data_format."),),
        attributes=(OUTPUT_PADDING, _DST_SHAPE, *_COMMON, weights_format("XIO", "OIX")),
        types={"T1": FLOATS, "T2": (DataType.s32,)},
        infer_shapes=lambda ctx: _infer(ctx, _KINDS["ConvolutionBackwardData"]),
        notes=("Without dst_shape the output is as small as the sizes allow, or as it is declared.",),
        source=SOURCE.format("ConvolutionBackwardData"),
        family="convolution_data",
    )
)
REGISTRY.register(
    OpSchema(
        kind="ConvTransposeBackwardData",
        summary="Gradient of a transposed convolution with respect to its input.",
        formula="diff_src[n, i, p] = Σ_o Σ_k diff_dst[n, o, p·stride + k·dilation − pad] · weights[i, o, k]",
        inputs=(
            Port("diff_dst", "T", doc="Gradient of the forward op's output, in data_format."),
            Port("weights", "T", doc=_WEIGHTS),
        ),
        outputs=(Port("diff_src", "T", doc="Gradient of the forward op's input, in data_format."),),
        attributes=(*_COMMON, weights_format("XOI", "IOX")),
        types={"T": FLOATS},
        infer_shapes=lambda ctx: _infer(ctx, _KINDS["ConvTransposeBackwardData"]),
        notes=_GROUPED,
        source=SOURCE.format("ConvTransposeBackwardData"),
        family="convolution_data",
    )
)
