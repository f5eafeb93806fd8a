"""The convolution family: convolutions, transposed convolutions, and the gradients of both by their data and weights.

The six schemas; what they read and write is in `convolution_geometry.py`, their shape rules in `convolution_shapes.py`.

Source: the oneDNN Graph documents of the six ops, those of 3.0 to 3.2 for gradients of weights, and the legacy
documents of ConvolutionBackpropWeights and ConvolutionBackpropFilters.
"""

from __future__ import annotations

from attrs import evolve

from .attributes import NON_NEGATIVE, POSITIVE, AttributeSpec, AttributeType, OneOf
from .convolution_shapes import shape_rule
from .data_types import DataType
from .registry import REGISTRY
from .schema import BackwardOp, OpNames, OpSchema, Port
from .shared import AUTO_PAD, DATA_FORMAT, DILATIONS, FLOATS, PADS_BEGIN, PADS_END, SOURCE, STRIDES, integers

# --- attributes --------------------------------------------------------------------------------------

_GROUPS = AttributeSpec(
    name="groups",
    type=AttributeType.s64,
    default=1,
    rule=POSITIVE,
    doc="How many groups the input and the output channels are divided into.",
)
_COMMON = (STRIDES, PADS_BEGIN, PADS_END, DILATIONS, AUTO_PAD, _GROUPS, DATA_FORMAT)
_OUTPUT_PADDING = integers(
    "output_padding",
    NON_NEGATIVE,
    "Zeros that the forward op adds at the end of each spatial axis of its output.",
    required=False,
    unset_as=0,
)
_IMPLIED_OUTPUT_PADDING = evolve(
    _OUTPUT_PADDING, doc=f"{_OUTPUT_PADDING.doc[:-1]}; taken from diff_dst if absent."
)
_DST_SHAPE = integers(
    "dst_shape",
    NON_NEGATIVE,
    "Shape of the output, diff_src; the input of that name wins over it.",
    required=False,
    unset_as=0,
)
_WEIGHTS_SHAPE = integers(
    "weights_shape",
    POSITIVE,
    "Shape of the weights, in weights_format; the input of that name wins over it.",
    required=False,
    unset_as=0,
)


def _weights_format(*formats: str) -> AttributeSpec:
    """The order of the weights' axes; the first one is the default."""
    return AttributeSpec(
        name="weights_format",
        type=AttributeType.string,
        default=formats[0],
        rule=OneOf(formats),
        doc="Order of the axes of the weights; X stands for the spatial axes.",
    )


_WEIGHTS_FORMAT = _weights_format("XIO", "OIX")
_TRANSPOSED_WEIGHTS_FORMAT = _weights_format("XOI", "IOX")

# --- ports and types ---------------------------------------------------------------------------------

_ONE_TYPE = {"T": FLOATS}
_WITH_SHAPE = {"T1": FLOATS, "T2": (DataType.s32,)}
_WEIGHTS = Port("weights", "T", doc="Weights, in weights_format.")
_FORWARD = (
    Port("src", "T", doc="Data, in data_format."),
    _WEIGHTS,
    Port("bias", "T", required=False, doc="One value per output channel."),
)
_DST = (Port("dst", "T", doc="The result, in data_format."),)
_DIFF_DST = Port("diff_dst", "T", doc="Gradient of the forward op's output, in data_format.")
_DIFF_SRC = Port("diff_src", "T", doc="Gradient of the forward op's input, in data_format.")
_FOR_WEIGHTS = (
    Port("src", "T1", doc="Input of the forward op, in data_format."),
    evolve(_DIFF_DST, type="T1"),
    Port(
        "weights_shape",
        "T2",
        required=False,
        shape_operand=True,
        doc="1-D tensor with the shape of the weights; wins over the attribute.",
    ),
)
_DIFF_WEIGHTS = (Port("diff_weights", "T1", doc="Gradient of the weights, in weights_format."),)
_LEGACY_FILTERS = {
    "weights_shape": "filter_shape",
    "weights_format": "filter_format",
    "src": "input_forward",
    "diff_dst": "output_delta",
    "diff_weights": "filter_delta",
}

# --- notes -------------------------------------------------------------------------------------------

_EITHER = "Either the weights_shape input or the weights_shape attribute must be given; the input wins."
_DIVISIBLE = "groups must divide both the input and the output channels."
_GROUPED = (
    "The shape of the weights is (I / groups, O, X) for IOX and (X, O, I / groups) for XOI; with groups, the "
    "(I, O / groups, X) and (X, O / groups, I) of oneDNN's code are accepted too, and {} decide{}."
)

# --- the six ops -------------------------------------------------------------------------------------

for _schema in (
    OpSchema(
        kind="Convolution",
        summary="Convolution.",
        formula="dst[n, o, p] = Σ_i Σ_k src[n, i, p·stride + k·dilation − pad] · weights[o, i, k] + bias[o]",
        inputs=_FORWARD,
        outputs=_DST,
        attributes=(*_COMMON, _WEIGHTS_FORMAT),
        types=_ONE_TYPE,
        infer_shapes=shape_rule("Convolution"),
        backward=(
            BackwardOp(
                kind="ConvolutionBackwardData",
                inputs=("diff_dst", "weights"),
                outputs=("src",),
                shapes={"dst_shape": "src"},
            ),
            BackwardOp(
                kind="ConvolutionBackwardWeights",
                inputs=("src", "diff_dst"),
                outputs=("weights",),
                shapes={"weights_shape": "weights"},
            ),
            BackwardOp(kind="BiasAddBackward", inputs=("diff_dst",), outputs=("bias",)),
        ),
        source=SOURCE.format("Convolution"),
        family="convolution",
    ),
    OpSchema(
        kind="ConvolutionBackwardData",
        summary="Gradient of a convolution with respect to its input.",
        formula="diff_src[n, i, p·stride + k·dilation − pad] += diff_dst[n, o, p] · weights[o, i, k]",
        inputs=(
            evolve(_DIFF_DST, type="T1"),
            evolve(_WEIGHTS, type="T1"),
            Port(
                "dst_shape",
                "T2",
                required=False,
                shape_operand=True,
                doc="1-D tensor with the shape of the output; wins over the attribute.",
            ),
        ),
        outputs=(evolve(_DIFF_SRC, type="T1"),),
        attributes=(_OUTPUT_PADDING, _DST_SHAPE, *_COMMON, _WEIGHTS_FORMAT),
        types=_WITH_SHAPE,
        infer_shapes=shape_rule("ConvolutionBackwardData"),
        notes=("Without dst_shape the output is as small as the sizes allow, or as it is declared.",),
        backward=(
            BackwardOp(kind="Convolution", inputs=("diff_diff_src", "weights"), outputs=("diff_dst",)),
            BackwardOp(
                kind="ConvolutionBackwardWeights",
                inputs=("diff_diff_src", "diff_dst"),
                outputs=("weights",),
                shapes={"weights_shape": "weights"},
            ),
        ),
        source=SOURCE.format("ConvolutionBackwardData"),
        family="convolution",
    ),
    OpSchema(
        kind="ConvolutionBackwardWeights",
        summary="Gradient of a convolution with respect to its weights.",
        formula="diff_weights[o, i, k] = Σ_n Σ_p diff_dst[n, o, p] · src[n, i, p·stride + k·dilation − pad]",
        inputs=_FOR_WEIGHTS,
        outputs=_DIFF_WEIGHTS,
        attributes=(*_COMMON, _WEIGHTS_FORMAT, _WEIGHTS_SHAPE),
        types=_WITH_SHAPE,
        infer_shapes=shape_rule("ConvolutionBackwardWeights"),
        aliases=(
            OpNames("ConvolutionBackpropWeights"),
            OpNames("ConvolutionBackpropFilters", _LEGACY_FILTERS),
        ),
        notes=(
            "The shape of the weights is (O, I / groups, X) for OIX and (X, I / groups, O) for XIO.",
            _DIVISIBLE,
            _EITHER,
        ),
        backward=(
            BackwardOp(
                kind="ConvolutionBackwardData",
                inputs=("diff_dst", "diff_diff_weights"),
                outputs=("src",),
                shapes={"dst_shape": "src"},
            ),
            BackwardOp(kind="Convolution", inputs=("src", "diff_diff_weights"), outputs=("diff_dst",)),
        ),
        source="oneDNN Graph 3.0 and 3.1, ConvolutionBackwardWeights; legacy ConvolutionBackpropWeights-1 "
        "and ConvolutionBackpropFilters-1",
        family="convolution",
        exact_on_integers=True,
    ),
    OpSchema(
        kind="ConvTranspose",
        summary="Transposed convolution.",
        formula="dst[n, o, p·stride + k·dilation − pad] += src[n, i, p] · weights[i, o, k]; dst += bias[o]",
        inputs=_FORWARD,
        outputs=_DST,
        attributes=(_OUTPUT_PADDING, *_COMMON, _TRANSPOSED_WEIGHTS_FORMAT),
        types=_ONE_TYPE,
        infer_shapes=shape_rule("ConvTranspose"),
        notes=(_GROUPED.format("the channels", ""),),
        backward=(
            BackwardOp(kind="ConvTransposeBackwardData", inputs=("diff_dst", "weights"), outputs=("src",)),
            BackwardOp(
                kind="ConvTransposeBackwardWeights",
                inputs=("src", "diff_dst"),
                outputs=("weights",),
                shapes={"weights_shape": "weights"},
            ),
            BackwardOp(kind="BiasAddBackward", inputs=("diff_dst",), outputs=("bias",)),
        ),
        source=SOURCE.format("ConvTranspose"),
        family="convolution",
    ),
    OpSchema(
        kind="ConvTransposeBackwardData",
        summary="Gradient of a transposed convolution with respect to its input.",
        formula="diff_src[n, i, p] = Σ_o Σ_k diff_dst[n, o, p·stride + k·dilation − pad] · weights[i, o, k]",
        inputs=(_DIFF_DST, _WEIGHTS),
        outputs=(_DIFF_SRC,),
        attributes=(*_COMMON, _TRANSPOSED_WEIGHTS_FORMAT),
        types=_ONE_TYPE,
        infer_shapes=shape_rule("ConvTransposeBackwardData"),
        notes=(_GROUPED.format("the channels", ""),),
        backward=(
            BackwardOp(
                kind="ConvTransposeBackwardWeights",
                inputs=("diff_diff_src", "diff_dst"),
                outputs=("weights",),
                shapes={"weights_shape": "weights"},
            ),
        ),
        source=SOURCE.format("ConvTransposeBackwardData"),
        family="convolution",
    ),
    OpSchema(
        kind="ConvTransposeBackwardWeights",
        summary="Gradient of a transposed convolution with respect to its weights.",
        formula="diff_weights[i, o, k] = Σ_n Σ_p src[n, i, p] · diff_dst[n, o, p·stride + k·dilation − pad]",
        inputs=_FOR_WEIGHTS,
        outputs=_DIFF_WEIGHTS,
        attributes=(_IMPLIED_OUTPUT_PADDING, *_COMMON, _TRANSPOSED_WEIGHTS_FORMAT, _WEIGHTS_SHAPE),
        types=_WITH_SHAPE,
        infer_shapes=shape_rule("ConvTransposeBackwardWeights"),
        aliases=(OpNames("ConvTransposeBackpropFilters", _LEGACY_FILTERS),),
        notes=(_GROUPED.format("weights_shape", "s"), _DIVISIBLE, _EITHER),
        backward=(
            BackwardOp(
                kind="ConvTransposeBackwardData", inputs=("diff_dst", "diff_diff_weights"), outputs=("src",)
            ),
        ),
        source="oneDNN Graph 3.0, ConvTransposeBackwardWeights",
        family="convolution",
        exact_on_integers=True,
    ),
):
    REGISTRY.register(_schema)
