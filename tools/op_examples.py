"""A short program for each op, for its page.

The table has shapes and attributes only. Names and types come from the schema, and so do the printed shapes: they are
inferred, nothing is executed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import Factory

from ..graph.graph import Graph
from ..graph.model.builder import snake_case
from ..graph.model.logical_tensor import LogicalTensor
from ..graph.runtime.arrays import numpy_type
from ..ops.data_types import DataType
from ..ops.records import frozen
from ..ops.schema import OpSchema

WIDTH = 88
"""Columns of a program."""


@frozen
class Call:
    """One call of an op.

    Attributes:
        inputs: the shape of each input, in port order.
        attributes: attributes by name, and `output_type` where the inputs leave it open.
        outputs: how many outputs are computed; as the attributes say if None.
    """

    inputs: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = Factory(dict[str, Any])
    outputs: int | None = None


def _all(kinds: str, *inputs: tuple[int, ...], **attributes: Any) -> dict[str, Call]:
    """The same call for several kinds."""
    return {kind: Call(inputs, attributes) for kind in kinds.split()}


_X = (2, 3, 4)
_IMAGE = (2, 8, 8, 4)
_HALF = (2, 4, 4, 4)
_CHANNELS = (4,)
_CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
_UP = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
_POOL = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}

CALLS: Mapping[str, Call] = {
    **_all(
        "Abs Exp GELU HardSwish Log Mish Reciprocal ReLU Round Sigmoid SoftPlus Sqrt Square Tanh Reorder", _X
    ),
    **_all(
        "AbsBackward GELUBackward HardSwishBackward MishBackward ReLUBackward SigmoidBackward SwishBackward",
        _X,
        _X,
    ),
    **_all("SoftPlusBackward SqrtBackward TanhBackward", _X, _X),
    **_all("Clamp", _X, min=0.2, max=0.8),
    **_all("ClampBackward", _X, _X, min=0.2, max=0.8),
    **_all("Elu", _X, alpha=1.0),
    **_all("EluBackward", _X, _X, alpha=1.0),
    **_all("HardSigmoid", _X, alpha=0.2, beta=0.5),
    **_all("HardSigmoidBackward", _X, _X, alpha=0.2, beta=0.5),
    **_all("LeakyReLU", _X, alpha=0.1),
    **_all("Pow", _X, beta=2.0),
    **_all("Add Divide GreaterEqual Maximum Minimum Multiply SquaredDifference Subtract", _X, (3, 1)),
    **_all("Select", (3, 1), _X, (4,)),
    **_all("BiasAdd", _IMAGE, _CHANNELS),
    **_all("BiasAddBackward", _IMAGE),
    **_all("PReLU", _IMAGE, _CHANNELS),
    "PReLUBackward": Call((_IMAGE, _CHANNELS, _IMAGE)),
    **_all(
        "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum", _X, axes=[1], keep_dims=True
    ),
    **_all("Concat", _X, (2, 5, 4), axis=1),
    **_all("GenIndex", _X, axis=1),
    **_all("StaticReshape", _X, shape=[6, 4], special_zero=False),
    **_all("StaticTranspose", _X, order=[0, 2, 1]),
    **_all("MatMul", (2, 3), (3, 4)),
    **_all("Convolution", _IMAGE, (3, 3, 4, 16), **_CONV),
    **_all("ConvolutionBackwardData", (2, 8, 8, 16), (3, 3, 4, 16), **_CONV),
    **_all("ConvolutionBackwardWeights", _IMAGE, (2, 8, 8, 16), weights_shape=[3, 3, 4, 16], **_CONV),
    **_all("ConvTranspose", _HALF, (2, 2, 16, 4), **_UP),
    **_all("ConvTransposeBackwardData", (2, 8, 8, 16), (2, 2, 16, 4), **_UP),
    **_all("ConvTransposeBackwardWeights", _HALF, (2, 8, 8, 16), weights_shape=[2, 2, 16, 4], **_UP),
    **_all("AvgPool", _IMAGE, exclude_pad=True, **_POOL),
    **_all("AvgPoolBackward", _HALF, src_shape=[2, 8, 8, 4], exclude_pad=True, **_POOL),
    **_all("MaxPool", _IMAGE, **_POOL),
    **_all("MaxPoolBackward", _IMAGE, _HALF, **_POOL),
    **_all("Interpolate", _HALF, mode="bilinear", sizes=[8, 8]),
    **_all("InterpolateBackward", _HALF, _IMAGE, mode="bilinear", sizes=[8, 8]),
    **_all("BatchNormInference", _IMAGE, *[_CHANNELS] * 4, epsilon=1e-5),
    **_all("BatchNormForwardTraining", _IMAGE, *[_CHANNELS] * 4, epsilon=1e-5, momentum=0.9),
    "BatchNormTrainingBackward": Call((_IMAGE, _IMAGE, *[_CHANNELS] * 3), {"epsilon": 1e-5}, 3),
    **_all("LayerNorm", _X, (4,), (4,), keep_stats=False),
    "LayerNormBackward": Call((_X, _X, (2, 3), (2, 3), (4,), (4,)), outputs=3),
    **_all("GroupNorm", _IMAGE, _CHANNELS, _CHANNELS, groups=2, keep_stats=False),
    "GroupNormBackward": Call((_IMAGE, _IMAGE, (2, 2), (2, 2), _CHANNELS), {"groups": 2}, 3),
    **_all("RMSNorm", _X, (4,)),
    **_all("SoftMax LogSoftmax", _X, axis=-1),
    **_all("SoftMaxBackward LogSoftmaxBackward", _X, _X, axis=-1),
    **_all("Quantize Dequantize", _X, scales=[0.1], zps=[10]),
    **_all("DynamicQuantize DynamicDequantize", _X, (1,)),
    **_all("TypeCast", _X, output_type="bf16"),
    "Dropout": Call((_X, (), (), ()), outputs=2),
}
"""Op kind → a call that computes something."""

MARKERS: Mapping[str, Sequence[str]] = {
    "End": (
        "graph = og.Graph()",
        'x = graph.input("x", "f32", [2, 3, 4])',
        'y = graph.op("ReLU", x, name="y")',
        'graph.op("Exp", y, name="z")',
        'graph.op("End", y)  # y is read inside, and a result all the same',
        "print([tensor.name for tensor in graph.outputs])  # → ['z', 'y']",
    ),
    "Wildcard": (
        "graph = og.Graph()",
        'x = og.LogicalTensor(0, "f32", [2, 3, 4])',
        'y = og.LogicalTensor(1, "f32", [2, 5])  # what comes out has to be declared',
        'graph.add_op(og.Op(0, "Wildcard", [x], [y], name="elsewhere"))',
        "graph.finalize()",
        "print(graph.get_partitions()[0].backend)  # → numpy",
    ),
}
"""Programs of the ops that mark places in a graph and have no function."""


def has_example(schema: OpSchema) -> bool:
    """Whether the op is in one of the tables; a user's own op is in none."""
    return schema.kind in CALLS or schema.kind in MARKERS


def example(schema: OpSchema) -> str:
    """A program that calls the op; what it prints is written behind `# →`.

    Raises:
        KeyError: the op has no example; see `has_example`.
    """
    if schema.kind in MARKERS:
        return "\n".join(("import onednn_graph as og", "", *MARKERS[schema.kind])) + "\n"
    call = CALLS[schema.kind]
    ports = schema.input_ports(len(call.inputs))
    names = [port.name for port in ports]
    if len(set(names)) < len(names):
        names = [f"{name.removesuffix('_i')}_{number}" for number, name in enumerate(names)]
    types = [_first_choice(schema.types[port.type]) for port in ports]
    made = [_made(shape, data_type) for shape, data_type in zip(call.inputs, types, strict=True)]
    random = any("rng." in value for value in made)
    lines = ["import numpy as np", "import onednn_graph as og", ""]
    lines += ["rng = np.random.default_rng(0)"] if random else []
    lines += [f"{name} = {value}" for name, value in zip(names, made, strict=True)]
    results = _results(schema, call, types)
    targets = ", ".join(name for name, _, _ in results)
    given = [*names, *[f"{name}={_literal(value)}" for name, value in call.attributes.items()]]
    # The function has a parameter for the number of outputs only where it can vary.
    if call.outputs is not None and call.outputs != sum(port.required for port in schema.outputs):
        given.append(f"outputs={call.outputs}")
    lines += _call(f"{targets} = og.{snake_case(schema.kind)}", given)
    lines += [f"print({name}.shape, {name}.dtype)  # → {shape} {dtype}" for name, shape, dtype in results]
    return "\n".join(lines) + "\n"


def _first_choice(allowed: Sequence[DataType]) -> DataType:
    return DataType.f32 if DataType.f32 in allowed else allowed[0]


def _made(shape: tuple[int, ...], data_type: DataType) -> str:
    """An expression for an array."""
    dtype = f"np.{numpy_type(data_type).name}"
    if not shape:
        return f"np.array({'0.5' if data_type is DataType.f32 else '1'}, {dtype})"
    match data_type:
        case DataType.f32:
            return f"rng.random({shape}, {dtype})"
        case DataType.boolean:
            return f"rng.random({shape}) < 0.5"
        case _:
            return f"rng.integers(0, 100, {shape}, {dtype})"


def _results(
    schema: OpSchema, call: Call, types: Sequence[DataType]
) -> list[tuple[str, tuple[int, ...], str]]:
    """Name, shape and NumPy type of each output."""
    graph = Graph()
    tensors = [
        graph.input(f"in{number}", data_type, shape)
        for number, (shape, data_type) in enumerate(zip(call.inputs, types, strict=True))
    ]
    attributes: dict[str, Any] = dict(call.attributes)
    if call.outputs is not None:
        attributes["outputs"] = call.outputs
    made: Any = graph.op(schema.kind, *tensors, **attributes)
    outputs = cast("tuple[LogicalTensor, ...]", made if isinstance(made, tuple) else (made,))
    ports = schema.output_ports(len(outputs))
    return [
        (port.name, tensor.dims, numpy_type(tensor.data_type).name)
        for port, tensor in zip(ports, outputs, strict=True)
    ]


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _call(start: str, arguments: Sequence[str]) -> list[str]:
    """The call on one line, or with its arguments on lines of their own."""
    line = f"{start}({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return [line]
    lines, current = [f"{start}("], "   "
    for argument in arguments:
        if len(current) + len(argument) + 2 > WIDTH:
            lines.append(current)
            current = "   "
        current += f" {argument},"
    return [*lines, current, ")"]
