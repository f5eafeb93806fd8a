"""What the translations know of ONNX's ops, held against the schema of each node before it is translated.

An op's row lists the versions whose definition its translation was held against, how many inputs it reads, and the
attributes that it reads or that can't change what it makes. Whatever else a node has, and is not the schema's default,
is refused by name: a translation never passes over what it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import field

from ...ops.records import frozen
from ...ops.values import format_value
from ..importing.translation import Unmapped, Untranslated
from ..runtime.libraries import library

NEWEST_OPSET = 28
"""The newest op set of ONNX that the table was held against."""
MANY = 2**31 - 1
AUTO_PAD = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "")
DIRECTIONS = ("forward", "reverse", "bidirectional")
Values = tuple[str | int, ...]


def _words(names: str | frozenset[str]) -> frozenset[str]:
    return frozenset(names.split() if isinstance(names, str) else names)


@frozen
class Known:
    """What a translation knows of an op.

    Attributes:
        versions: of its definition, from the one that opset 11 has.
        inputs: how many it reads at most.
        attributes: names of those that it takes.
        values: of an attribute, where only some are known.
    """

    versions: tuple[int, ...]
    inputs: int
    attributes: frozenset[str] = field(default=frozenset[str](), converter=_words)
    values: Mapping[str, Values] = field(factory=dict[str, Values])

    @property
    def names(self) -> frozenset[str]:
        """Attributes that are taken, with any value or with some."""
        return self.attributes.union(self.values)


KNOWN: Mapping[str, Known] = {
    "Abs": Known((6, 13), 1),
    "Acos": Known((7, 22), 1),
    "Acosh": Known((9, 22), 1),
    "Add": Known((7, 13, 14), 2),
    "And": Known((7,), 2),
    "ArgMax": Known((11, 12, 13), 1, "axis keepdims select_last_index"),
    "ArgMin": Known((11, 12, 13), 1, "axis keepdims select_last_index"),
    "Asin": Known((7, 22), 1),
    "Asinh": Known((9, 22), 1),
    "Atan": Known((7, 22), 1),
    "Atanh": Known((9, 22), 1),
    "Attention": Known(
        (23, 24, 25),
        4,
        "is_causal kv_num_heads q_num_heads qk_matmul_output_mode scale softmax_precision",
        {"softmax_precision": (1,)},
    ),
    "AveragePool": Known(
        (11, 19, 22),
        1,
        "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
        {"auto_pad": AUTO_PAD},
    ),
    "BatchNormalization": Known((9, 14, 15), 5, "epsilon momentum training_mode"),
    "BitwiseAnd": Known((18,), 2),
    "BitwiseNot": Known((18,), 1),
    "BitwiseOr": Known((18,), 2),
    "BitwiseXor": Known((18,), 2),
    "Cast": Known((9, 13, 19, 21, 23, 24, 25, 28), 1, "to"),
    "CastLike": Known((15, 19, 21, 23, 24, 25), 2),
    "Ceil": Known((6, 13), 1),
    "Celu": Known((12, 28), 1, "alpha"),
    "CenterCropPad": Known((18,), 2, "axes"),
    "Clip": Known((11, 12, 13), 3),
    "Concat": Known((11, 13), MANY, "axis"),
    "Conv": Known((11, 22), 3, "auto_pad dilations group kernel_shape pads strides", {"auto_pad": AUTO_PAD}),
    "ConvInteger": Known(
        (10,), 4, "auto_pad dilations group kernel_shape pads strides", {"auto_pad": AUTO_PAD}
    ),
    "ConvTranspose": Known(
        (11, 22),
        3,
        "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
        {"auto_pad": AUTO_PAD},
    ),
    "Cos": Known((7, 22), 1),
    "Cosh": Known((9, 22), 1),
    "CumSum": Known((11, 14), 2, "exclusive reverse"),
    "DepthToSpace": Known((11, 13, 28), 1, "blocksize mode", {"mode": ("DCR", "CRD")}),
    "DequantizeLinear": Known(
        (10, 13, 19, 21, 23, 24, 25, 28), 3, "axis block_size output_dtype", {"output_dtype": (0, 1)}
    ),
    "Div": Known((7, 13, 14), 2),
    "Dropout": Known((10, 12, 13, 22), 3, "ratio seed"),
    "DynamicQuantizeLinear": Known((11,), 1),
    "Einsum": Known((12, 28), MANY, "equation"),
    "Elu": Known((6, 22), 1, "alpha"),
    "Equal": Known((11, 13, 19), 2),
    "Erf": Known((9, 13), 1),
    "Exp": Known((6, 13), 1),
    "Expand": Known((8, 13), 2),
    "EyeLike": Known((9, 22), 1, "dtype k"),
    "Flatten": Known((11, 13, 21, 23, 24, 25), 1, "axis"),
    "Floor": Known((6, 13), 1),
    "GRU": Known(
        (7, 14, 22),
        6,
        "activation_alpha activation_beta activations direction hidden_size layout linear_before_reset",
        {"direction": DIRECTIONS},
    ),
    "Gather": Known((11, 13), 2, "axis"),
    "GatherElements": Known((11, 13), 2, "axis"),
    "GatherND": Known((11, 12, 13), 2, "batch_dims"),
    "Gelu": Known((20,), 1, "approximate", {"approximate": ("none", "tanh")}),
    "Gemm": Known((11, 13), 3, "alpha beta transA transB"),
    "GlobalAveragePool": Known((1, 22), 1),
    "GlobalLpPool": Known((2, 22), 1, "p"),
    "GlobalMaxPool": Known((1, 22), 1),
    "Greater": Known((9, 13), 2),
    "GreaterOrEqual": Known((12, 16), 2),
    "GridSample": Known((16, 20, 22), 2, "align_corners mode padding_mode"),
    "GroupNormalization": Known((18, 21), 3, "epsilon num_groups"),
    "HardSigmoid": Known((6, 22), 1, "alpha beta"),
    "HardSwish": Known((14, 22), 1),
    "Hardmax": Known((11, 13), 1, "axis"),
    "Identity": Known((1, 13, 14, 16, 19, 21, 23, 24, 25), 1),
    "InstanceNormalization": Known((6, 22), 3, "epsilon"),
    "IsInf": Known((10, 20), 1, "detect_negative detect_positive"),
    "IsNaN": Known((9, 13, 20), 1),
    "LRN": Known((1, 13), 1, "alpha beta bias size"),
    "LSTM": Known(
        (7, 14, 22),
        7,
        "activation_alpha activation_beta activations direction hidden_size layout",
        {"direction": DIRECTIONS},
    ),
    "LayerNormalization": Known((17,), 3, "axis epsilon"),
    "LeakyRelu": Known((6, 16), 1, "alpha"),
    "Less": Known((9, 13), 2),
    "LessOrEqual": Known((12, 16), 2),
    "Log": Known((6, 13), 1),
    "LogSoftmax": Known((11, 13), 1, "axis"),
    "LpNormalization": Known((1, 22), 1, "axis p"),
    "LpPool": Known(
        (11, 18, 22), 1, "auto_pad ceil_mode dilations kernel_shape p pads strides", {"auto_pad": AUTO_PAD}
    ),
    "MatMul": Known((9, 13), 2),
    "MatMulInteger": Known((10,), 4),
    "Max": Known((8, 12, 13), MANY),
    "MaxPool": Known(
        (11, 12, 22),
        1,
        "auto_pad ceil_mode dilations kernel_shape pads storage_order strides",
        {"auto_pad": AUTO_PAD},
    ),
    "Mean": Known((8, 13), MANY),
    "MeanVarianceNormalization": Known((9, 13), 1, "axes"),
    "Min": Known((8, 12, 13), MANY),
    "Mish": Known((18, 22), 1),
    "Mod": Known((10, 13, 28), 2, "fmod"),
    "Mul": Known((7, 13, 14), 2),
    "Neg": Known((6, 13), 1),
    "Not": Known((1,), 1),
    "OneHot": Known((11, 28), 3, "axis"),
    "Or": Known((7,), 2),
    "PRelu": Known((9, 16), 2),
    "Pad": Known(
        (11, 13, 18, 19, 21, 23, 24, 25), 4, "mode", {"mode": ("constant", "reflect", "edge", "wrap")}
    ),
    "Pow": Known((7, 12, 13, 15), 2),
    "QLinearConv": Known(
        (10,), 9, "auto_pad dilations group kernel_shape pads strides", {"auto_pad": AUTO_PAD}
    ),
    "QLinearMatMul": Known((10, 21), 8),
    "QuantizeLinear": Known(
        (10, 13, 19, 21, 23, 24, 25, 28),
        3,
        "axis block_size output_dtype precision saturate",
        {"precision": (0, 1)},
    ),
    "RMSNormalization": Known((23,), 2, "axis epsilon"),
    "RNN": Known(
        (7, 14, 22),
        6,
        "activation_alpha activation_beta activations direction hidden_size layout",
        {"direction": DIRECTIONS},
    ),
    "Reciprocal": Known((6, 13), 1),
    "ReduceL1": Known((11, 13, 18), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceL2": Known((11, 13, 18), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceLogSum": Known((11, 13, 18, 28), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceLogSumExp": Known((11, 13, 18, 28), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceMax": Known((11, 12, 13, 18, 20), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceMean": Known((11, 13, 18), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceMin": Known((11, 12, 13, 18, 20), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceProd": Known((11, 13, 18), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceSum": Known((11, 13), 2, "axes keepdims noop_with_empty_axes"),
    "ReduceSumSquare": Known((11, 13, 18), 2, "axes keepdims noop_with_empty_axes"),
    "Relu": Known((6, 13, 14), 1),
    "Reshape": Known((5, 13, 14, 19, 21, 23, 24, 25), 2, "allowzero"),
    "Resize": Known(
        (11, 13, 18, 19),
        4,
        "axes coordinate_transformation_mode cubic_coeff_a extrapolation_value keep_aspect_ratio_policy mode "
        "nearest_mode",
    ),
    "ReverseSequence": Known((10, 28), 2, "batch_axis time_axis"),
    "Round": Known((11, 22), 1),
    "Scatter": Known((11,), 3, "axis"),
    "ScatterElements": Known((11, 13, 16, 18), 3, "axis reduction"),
    "ScatterND": Known((11, 13, 16, 18), 3, "reduction"),
    "Selu": Known((6, 22), 1, "alpha gamma"),
    "Shape": Known((1, 13, 15, 19, 21, 23, 24, 25), 1, "end start"),
    "Shrink": Known((9,), 1, "bias lambd"),
    "Sigmoid": Known((6, 13), 1),
    "Sign": Known((9, 13), 1),
    "Sin": Known((7, 22), 1),
    "Sinh": Known((9, 22), 1),
    "Size": Known((1, 13, 19, 21, 23, 24, 25), 1),
    "Slice": Known((11, 13), 5),
    "Softmax": Known((11, 13), 1, "axis"),
    "Softplus": Known((1, 22), 1),
    "Softsign": Known((1, 22), 1),
    "SpaceToDepth": Known((1, 13, 28), 1, "blocksize mode", {"mode": ("DCR", "CRD")}),
    "Split": Known((11, 13, 18), 2, "axis num_outputs split"),
    "Sqrt": Known((6, 13), 1),
    "Squeeze": Known((11, 13, 21, 23, 24, 25), 2, "axes"),
    "Sub": Known((7, 13, 14), 2),
    "Sum": Known((8, 13), MANY),
    "Swish": Known((24,), 1, "alpha"),
    "Tan": Known((7, 22), 1),
    "Tanh": Known((6, 13), 1),
    "ThresholdedRelu": Known((10, 22), 1, "alpha"),
    "Tile": Known((6, 13), 2),
    "TopK": Known((11, 24), 2, "axis largest sorted"),
    "Transpose": Known((1, 13, 21, 23, 24, 25), 1, "perm"),
    "Trilu": Known((14,), 2, "upper"),
    "Unsqueeze": Known((11, 13, 21, 23, 24, 25), 2, "axes"),
    "Upsample": Known((10,), 2, "mode"),
    "Where": Known((9, 16), 3),
    "Xor": Known((7,), 2),
    # onnxruntime's own, as its list of contributed operators has them.
    "com.microsoft.QGemm": Known((1,), 9, "alpha transA transB"),
    "com.microsoft.QLinearAdd": Known((1,), 8),
    "com.microsoft.QLinearConcat": Known((1,), MANY, "axis"),
    "com.microsoft.QLinearLeakyRelu": Known((1,), 5, "alpha"),
    "com.microsoft.QLinearMul": Known((1,), 8),
    "com.microsoft.QLinearSigmoid": Known((1,), 5),
    "com.microsoft.QLinearSoftmax": Known((1,), 5, "axis opset"),
}
"""ONNX op → what its translation knows; the domain stands before those that are not of ONNX's own op set."""


class Schemas:
    """The definitions of ONNX's ops in the op set of a model.

    Args:
        opset: the version of ONNX's own op set.
    """

    def __init__(self, opset: int) -> None:
        self._defs = library("onnx.defs", "onnx", "from_onnx")
        self._helper = library("onnx.helper", "onnx", "from_onnx")
        self._opset = opset

    def schema(self, kind: str) -> Any:
        """The op's definition; None where the package onnx has none."""
        try:
            return self._defs.get_schema(kind, self._opset, "")
        except self._defs.SchemaError:
            return None

    def default(self, kind: str, attribute: str) -> object:
        """What an attribute is where it is not given; None if that is no value of its own."""
        schema = self.schema(kind)
        if schema is None or attribute not in schema.attributes:
            return None
        proto = schema.attributes[attribute].default_value
        value = self._helper.get_attribute_value(proto) if proto.type else None
        return value.decode() if isinstance(value, bytes) else value

    def check(self, kind: str, inputs: Sequence[object], attributes: Mapping[str, Any]) -> None:
        """Holds a node against what its translation knows.

        Raises:
            Untranslated: there is no translation, or the op's definition is a later one.
            Unmapped: an input or an attribute that the translation does not know.
        """
        known = KNOWN.get(kind)
        if known is None:
            raise Untranslated("there is no translation for it")
        schema = None if "." in kind else self.schema(kind)
        if schema is not None and schema.since_version not in known.versions:
            if schema.since_version > known.versions[-1]:
                raise Untranslated(
                    f"its definition is version {schema.since_version}, and version {known.versions[-1]} is the "
                    "newest that is known; convert the model by onnx.version_converter"
                )
            raise Untranslated(
                f"its definition is version {schema.since_version}, older than any that is known"
            )
        for place, value in enumerate(inputs):
            if place >= known.inputs and value is not None:
                raise Unmapped(f"it has an input {place}, which the translation does not know")
        for name, value in attributes.items():
            default = self.default(kind, name)
            fits = value in known.values.get(name, (value,)) and name in known.names
            if not fits and (default is None or not _same(value, default)):
                usual = "" if default is None else f"; only its default, {format_value(default)}, can be done"
                raise Unmapped(
                    f"its attribute {name} is {format_value(value)}, which the translation does not know{usual}"
                )


def _same(value: object, default: object) -> bool:
    return bool(np.array_equal(np.asarray(value), np.asarray(default)))
