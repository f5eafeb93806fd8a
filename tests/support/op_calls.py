"""Calls of every op that are right, with the shapes that they give: for tests over the whole op set."""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onednn_graph as og
from onednn_graph.tools.op_examples import CALLS

TYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "s64": np.int64,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
    "boolean": np.bool_,
    "f8_e5m2": ml_dtypes.float8_e5m2,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
}
SCHEMAS = {schema.kind: schema for schema in og.list_ops() if schema.family != "custom"}


@dataclass(frozen=True)
class Example:
    """A call that is right.

    Attributes:
        inputs: shapes; a list of integers is the value of a shape operand.
        outputs: shapes that the op gives, worked out by hand.
        attributes: of the op.
        declared: the outputs' shapes are declared, for nothing else tells them.
    """

    kind: str
    inputs: tuple
    outputs: tuple
    attributes: dict = field(default_factory=dict)
    declared: bool = False

    @property
    def shapes(self):
        return [(len(x),) if isinstance(x, list) else x for x in self.inputs]

    @property
    def values(self):
        """Values of shape operands, by input."""
        return {i: tuple(x) for i, x in enumerate(self.inputs) if isinstance(x, list)}

    @property
    def types(self):
        """f32 where it is allowed."""
        allowed = [SCHEMAS[self.kind].types[p.type] for p in SCHEMAS[self.kind].input_ports(len(self.inputs))]
        return [og.DataType.f32 if og.DataType.f32 in types else types[0] for types in allowed]

    def arrays(self, shapes=None):
        rng = np.random.default_rng(len(self.kind))
        result = []
        for shape, data_type, given_ in zip(shapes or self.shapes, self.types, self.inputs, strict=True):
            if isinstance(given_, list):
                result.append(np.array(given_, np.int32))
            else:
                result.append(np.asarray(1 + rng.random(shape)).astype(TYPES[data_type]))
        return result

    def op(self, shapes=None, outputs=None, types=None, attributes=None):
        """The op on tensors of these shapes, with nothing told of the outputs, or what `outputs` tells."""
        shapes = self.shapes if shapes is None else shapes
        types = self.types if types is None else types
        ins = [
            og.LogicalTensor(i, t, s, name=f"x{i}")
            for i, (t, s) in enumerate(zip(types, shapes, strict=True))
        ]
        made = SCHEMAS[self.kind].output_types(types, len(self.outputs))
        told = outputs or (self.outputs if self.declared else [None] * len(self.outputs))
        outs = [
            og.LogicalTensor(50 + i, t, s, name=f"y{i}")
            for i, (t, s) in enumerate(zip(made, told, strict=True))
        ]
        return og.Op(0, self.kind, ins, outs, **(self.attributes if attributes is None else attributes))

    def infer(self, shapes=None, values=None, outputs=None):
        """Output shapes by the rule alone."""
        op = self.op()
        told = outputs or (self.outputs if self.declared else [None] * len(self.outputs))
        return op.infer_shapes(shapes or self.shapes, told, self.values if values is None else values)

    def run(self, op=None, arrays=None):
        """The outputs, by the NumPy backend."""
        graph = og.Graph()
        graph.add_op(op or self.op())
        graph.finalize()
        (partition,) = graph.get_partitions(backend="numpy")
        return partition.compile().execute(None, arrays or self.arrays())


EXAMPLES: dict[str, list[Example]] = {}


def add(kind, inputs, outputs, *, declared=False, **attributes):
    EXAMPLES.setdefault(kind, []).append(Example(kind, tuple(inputs), tuple(outputs), attributes, declared))


X3 = (2, 3, 4)

# Functions of one tensor and their gradients: the attributes of their examples, on tensors that all have one shape.
ATTRIBUTES = {"Clamp": {"min": 0.0, "max": 1.0}, "ClampBackward": {"min": 0.0, "max": 1.0}}
"""Where those of the example are not what the tests are about."""
for _schema in SCHEMAS.values():
    if _schema.family == "eltwise":
        _attributes = ATTRIBUTES.get(_schema.kind, CALLS[_schema.kind].attributes)
        add(_schema.kind, [X3] * len(_schema.inputs), [X3], **_attributes)
add("Reorder", [X3], [X3])
add("TypeCast", [X3], [X3])

for _kind in (
    "Add",
    "Subtract",
    "Multiply",
    "Divide",
    "Maximum",
    "Minimum",
    "SquaredDifference",
    "GreaterEqual",
):
    add(_kind, [(2, 1, 4), (3, 1)], [X3])
    add(_kind, [X3, X3], [X3], auto_broadcast="none")
add("Select", [(3, 1), (2, 1, 4), (4,)], [X3])
add("Select", [X3, X3, X3], [X3], auto_broadcast="none")
add("BiasAdd", [(2, 4, 5, 3), (3,)], [(2, 4, 5, 3)])
add("BiasAdd", [(2, 3, 4, 5), (3,)], [(2, 3, 4, 5)], data_format="NCX")
add("BiasAddBackward", [(2, 4, 5, 3)], [(3,)])
add("BiasAddBackward", [(2, 3, 4, 5)], [(3,)], data_format="NCX")
add("PReLU", [(2, 4, 5, 3), (3,)], [(2, 4, 5, 3)])
add("PReLU", [(2, 3, 4, 5), (1,)], [(2, 3, 4, 5)], data_format="NCX")
add("PReLU", [(2, 3, 4, 5), (3, 1, 5)], [(2, 3, 4, 5)], data_format="NCX", per_channel_broadcast=False)
add("PReLUBackward", [(2, 4, 5, 3), (3,), (2, 4, 5, 3)], [(2, 4, 5, 3), (3,)])
add("PReLUBackward", [(2, 3, 4, 5), (3, 1, 5), (2, 3, 4, 5)], [(2, 3, 4, 5), (3, 1, 5)], data_format="NCX")

add("Concat", [(2, 3, 4), (2, 1, 4), (2, 5, 4)], [(2, 9, 4)], axis=1)
add("Concat", [(2, 3)], [(2, 3)], axis=-1)
add("StaticReshape", [X3], [(4, 6)], shape=[4, 6], special_zero=False)
add("StaticReshape", [X3], [(2, 2, 6)], shape=[0, -1, 6], special_zero=True)
add("StaticReshape", [(0, 3, 4)], [(0, 2, 6)], shape=[0, -1, 6], special_zero=True)
add("StaticTranspose", [X3], [(4, 2, 3)], order=[2, 0, -2])
add("GenIndex", [X3], [X3], axis=-1)
add("End", [X3], [])
add("Wildcard", [X3, (5,)], [X3, (5,)], declared=True)
for _kind in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"):
    add(_kind, [X3], [(2, 4)], axes=[1])
    add(_kind, [X3], [(1, 3, 1)], axes=[-1, 0], keep_dims=True)
    add(_kind, [X3, [-1, 0]], [(3,)])
    add(_kind, [X3, [2]], [(2, 3, 1)], keep_dims=True)
    add(_kind, [X3], [X3])

add("MatMul", [(2, 1, 3, 4), (5, 4, 6), (6,)], [(2, 5, 3, 6)])
add("MatMul", [(4, 3), (6, 4)], [(3, 6)], transpose_a=True, transpose_b=True)
add("MatMul", [(4,), (2, 4, 6)], [(2, 6)], transpose_a=True)
add("MatMul", [(2, 3, 4), (4,), (1, 3)], [(2, 3)])
add("MatMul", [(4,), (4,)], [()])

WINDOW = {"kernel": [3, 2], "strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 1], "data_format": "NCX"}
add("AvgPool", [(2, 3, 7, 6)], [(2, 3, 3, 6)], exclude_pad=True, **WINDOW)
add("AvgPool", [(2, 3, 8, 6)], [(2, 3, 4, 6)], exclude_pad=False, **WINDOW)
add(
    "AvgPool",
    [(2, 8, 3)],
    [(2, 4, 3)],
    kernel=[3],
    strides=[2],
    pads_begin=[],
    pads_end=[],
    exclude_pad=True,
    rounding_type="ceil",
)
add("AvgPoolBackward", [(2, 3, 3, 6)], [(2, 3, 7, 6)], src_shape=[2, 3, 7, 6], exclude_pad=True, **WINDOW)
add("AvgPoolBackward", [(2, 3, 4, 6), [2, 3, 8, 6]], [(2, 3, 8, 6)], exclude_pad=True, **WINDOW)
add(
    "AvgPoolBackward", [(2, 3, 4, 6), [2, 3, 7, 6]], [(2, 3, 7, 6)], exclude_pad=True, **WINDOW
)  # ceil rounding
add("MaxPool", [(2, 3, 7, 6)], [(2, 3, 3, 6)], **WINDOW)
add("MaxPool", [(2, 9, 3)], [(2, 3, 3)], kernel=[3], strides=[2], dilations=[2], pads_begin=[0], pads_end=[0])
add(
    "MaxPool",
    [(2, 7, 6, 3)],
    [(2, 4, 6, 3)],
    kernel=[3, 2],
    strides=[2, 1],
    pads_begin=[],
    pads_end=[],
    auto_pad="SAME_UPPER",
)
# The window that would begin in the padding behind is left out.
add(
    "MaxPool",
    [(2, 2, 3)],
    [(2, 1, 3)],
    kernel=[2],
    strides=[2],
    pads_begin=[0],
    pads_end=[1],
    rounding_type="ceil",
)
add("MaxPoolBackward", [(2, 3, 7, 6), (2, 3, 3, 6)], [(2, 3, 7, 6)], **WINDOW)

add("Interpolate", [(2, 3, 4, 5)], [(2, 3, 7, 2)], mode="linear", sizes=[7, 2], data_format="NCX")
add("Interpolate", [(2, 4, 5, 3)], [(2, 6, 2, 3)], mode="nearest", scales=[1.5, 0.5])
add("Interpolate", [(2, 4, 5, 3), [8, 9]], [(2, 8, 9, 3)], mode="nearest")
add(
    "InterpolateBackward",
    [(2, 3, 4, 5), (2, 3, 7, 2)],
    [(2, 3, 4, 5)],
    mode="linear",
    sizes=[7, 2],
    data_format="NCX",
)
add("InterpolateBackward", [(2, 4, 5, 3), (2, 8, 9, 3), [8, 9]], [(2, 4, 5, 3)], mode="nearest")

DATA = (2, 4, 5, 6)
add("BatchNormInference", [DATA, (6,), (6,), (6,), (6,)], [DATA], epsilon=0.1)
add("BatchNormInference", [DATA, (4,), (4,), (4,), (4,)], [DATA], epsilon=0.1, data_format="NCX")
add("BatchNormForwardTraining", [DATA, (6,), (6,), (6,), (6,)], [DATA, (6,), (6,), (6,), (6,)], epsilon=0.1)
add(
    "BatchNormForwardTraining",
    [DATA, (4,), (4,)],
    [DATA, (4,), (4,), (4,), (4,)],
    epsilon=0.1,
    data_format="NCX",
)
add("BatchNormTrainingBackward", [DATA, DATA, (6,), (6,), (6,)], [DATA, (6,), (6,)], epsilon=0.1)
add("BatchNormTrainingBackward", [DATA, DATA, (4,), (4,)], [DATA], epsilon=0.1, data_format="NCX")
add("LayerNorm", [DATA, (6,), (6,)], [DATA, (2, 4, 5), (2, 4, 5)])
add("LayerNorm", [DATA, (5, 6), (30,)], [DATA, (2, 4), (2, 4)], begin_norm_axis=2)
add("LayerNorm", [DATA], [DATA], keep_stats=False)
add("LayerNormBackward", [DATA, DATA, (2, 4, 5), (2, 4, 5), (6,), (6,)], [DATA, (6,), (6,)])
add("LayerNormBackward", [DATA, DATA, (2, 4), (2, 4, 1, 1), (30,)], [DATA, (30,), (30,)], begin_norm_axis=-2)
add("LayerNormBackward", [DATA, DATA, (2, 4), (2, 4)], [DATA], begin_norm_axis=2)
add("GroupNorm", [DATA, (6,), (6,)], [DATA, (2, 3), (2, 3)], groups=3)
add("GroupNorm", [DATA], [DATA], groups=2, data_format="NCX", keep_stats=False)
add("GroupNormBackward", [DATA, DATA, (2, 3), (2, 3), (6,)], [DATA, (6,), (6,)], groups=3)
add("GroupNormBackward", [DATA, DATA, (2, 2), (2, 2)], [DATA], groups=2, data_format="NCX")
add("RMSNorm", [DATA, (6,)], [DATA])
add("RMSNorm", [DATA, (5, 6)], [DATA], begin_norm_axis=2)

add("SoftMax", [X3], [X3, (2, 1, 4)])
add("SoftMax", [X3], [X3], axis=-1)
add("SoftMaxBackward", [X3, X3], [X3])
add("LogSoftmax", [X3], [X3])
add("LogSoftmaxBackward", [X3, X3], [X3], axis=0)

add("Quantize", [X3], [X3], scales=[0.5])
add("Quantize", [X3], [X3], scales=[0.5, 1.0, 2.0], zps=[1, 2, 3], qtype="per_channel")
add("Dequantize", [X3], [X3], scales=[0.5], zps=[3])
add("Dequantize", [X3], [X3], scales=[1.0] * 4, qtype="per_channel", axis=-1)
add("DynamicQuantize", [X3, (1,)], [X3])
add("DynamicQuantize", [X3, (3,), (3,)], [X3], qtype="per_channel")
add("DynamicDequantize", [X3, (), (1,)], [X3])
add("DynamicDequantize", [X3, (4,), (4,)], [X3], qtype="per_channel", axis=-1)
add(
    "DynamicDequantize",
    [(2, 6, 4), (2, 3, 1), (2, 3, 1)],
    [(2, 6, 4)],
    qtype="per_group",
    group_shape=[1, 2, 4],
)
add("Dropout", [X3, (), (1,), ()], [X3, X3])
add("Dropout", [X3, (1,), (), (1,)], [X3])

CONV = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 2], "dilations": [1, 2]}
OIX, IOX = {"data_format": "NCX", "weights_format": "OIX"}, {"data_format": "NCX", "weights_format": "IOX"}
add("Convolution", [(2, 4, 8, 6), (6, 2, 3, 2), (6,)], [(2, 6, 4, 6)], groups=2, **CONV, **OIX)
add("Convolution", [(2, 8, 6, 4), (3, 2, 4, 6)], [(2, 4, 6, 6)], auto_pad="SAME_UPPER", **CONV)
add("ConvTranspose", [(2, 4, 3, 5), (2, 6, 3, 2), (6,)], [(2, 6, 6, 5)], groups=2, **CONV, **IOX)
add(
    "ConvTranspose",
    [(2, 4, 3, 5), (4, 3, 3, 2)],
    [(2, 6, 7, 5)],
    groups=2,
    output_padding=[1, 0],
    **CONV,
    **IOX,
)
add("ConvTranspose", [(2, 3, 5, 4), (3, 2, 6, 4)], [(2, 6, 5, 6)], auto_pad="SAME_LOWER", **CONV)
add("ConvolutionBackwardData", [(2, 6, 4, 6), (6, 2, 3, 2)], [(2, 4, 8, 6)], groups=2, **CONV, **OIX)
add(
    "ConvolutionBackwardData",
    [(2, 6, 4, 6), (6, 2, 3, 2)],
    [(2, 4, 9, 6)],
    groups=2,
    dst_shape=[2, 4, 9, 6],
    **CONV,
    **OIX,
)
add(
    "ConvolutionBackwardData",
    [(2, 6, 4, 6), (6, 2, 3, 2), [2, 4, 9, 6]],
    [(2, 4, 9, 6)],
    groups=2,
    **CONV,
    **OIX,
)
add(
    "ConvolutionBackwardData",
    [(2, 6, 4, 6), (6, 2, 3, 2)],
    [(2, 4, 9, 6)],
    groups=2,
    output_padding=[1, 0],
    **CONV,
    **OIX,
)
add("ConvTransposeBackwardData", [(2, 6, 6, 5), (2, 6, 3, 2)], [(2, 4, 3, 5)], groups=2, **CONV, **IOX)
add("ConvTransposeBackwardData", [(2, 6, 6, 5), (4, 3, 3, 2)], [(2, 4, 3, 5)], groups=2, **CONV, **IOX)
add(
    "ConvolutionBackwardWeights",
    [(2, 4, 8, 6), (2, 6, 4, 6)],
    [(6, 2, 3, 2)],
    weights_shape=[6, 2, 3, 2],
    groups=2,
    **CONV,
    **OIX,
)
add(
    "ConvolutionBackwardWeights",
    [(2, 4, 8, 6), (2, 6, 4, 6), [6, 2, 3, 2]],
    [(6, 2, 3, 2)],
    groups=2,
    **CONV,
    **OIX,
)
add(
    "ConvTransposeBackwardWeights",
    [(2, 4, 3, 5), (2, 6, 6, 5)],
    [(4, 3, 3, 2)],
    weights_shape=[4, 3, 3, 2],
    groups=2,
    **CONV,
    **IOX,
)
add(
    "ConvTransposeBackwardWeights",
    [(2, 4, 3, 5), (2, 6, 6, 5), [2, 6, 3, 2]],
    [(2, 6, 3, 2)],
    groups=2,
    **CONV,
    **IOX,
)

_RESIZED = {"mode": "bilinear", "coordinate_transformation_mode": "half_pixel", "sizes": [12, 15]}
LARGER_IMAGES = {
    "Interpolate": [
        Example("Interpolate", (src,), (dst,), {**_RESIZED, "data_format": data_format})
        for src, dst, data_format in (
            ((2, 16, 6, 5), (2, 16, 12, 15), "NCX"),
            ((2, 6, 5, 16), (2, 12, 15, 16), "NXC"),
        )
    ],
}
"""Calls with as many channels as kernels for images like."""
