"""ONNX ops in ops of oneDNN Graph: quantisation, and ops on 8-bit integers.

Models in onnxruntime's operator format compute with 8-bit tensors throughout: `QLinearConv` and its like become the
same as in a model that has a dequantisation before and a quantisation behind each op, which kernels fuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, field

from ...ops.records import frozen
from ..importing.expressions import axis_of
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of
from ..runtime.arrays import Array
from .node import Node, Translate
from .types import numpy_type_of

OPS = Entries[Translate]()
"""ONNX op → its translation."""


KINDS = {"int8": "s8", "uint8": "u8"}
"""NumPy's names of the types that are quantised to, and oneDNN Graph's."""
FOUR_BITS = ("int4", "uint4")
SCALES = ("float32", "float16", "bfloat16")
MOVING = (
    "Concat",
    "Expand",
    "Flatten",
    "Gather",
    "GatherND",
    "MaxPool",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
)
"""Ops that choose or move elements, and compute no new ones."""


def _quantized(value: Value | None) -> bool:
    return value is not None and str(dtype_of(value)) in KINDS


def _scaled(x: Value, scales: Array | None, zps: Array | None, axis: int, what: str) -> dict[str, object]:
    """The attributes of Quantize and Dequantize."""
    if scales is None or scales.ndim > 1:
        raise Unmapped(f"a {what} in blocks, or without a scale")
    if scales.dtype != np.float32:
        raise Unmapped(f"a {what} with scales of {scales.dtype}; they must be f32")
    if any(not scale > 0 for scale in scales.reshape(-1)):
        raise Unmapped(f"a {what} with a scale that is not above 0")
    zeros = [0] * scales.size if zps is None else [int(z) for z in zps.reshape(-1)]
    if scales.size == 1:
        return {"scales": [float(scales.reshape(-1)[0])], "zps": zeros}
    return {
        "scales": [float(s) for s in scales],
        "zps": zeros,
        "qtype": "per_channel",
        "axis": axis_of(x, axis),
    }


def _attributes(node: Node, what: str) -> dict[str, object]:
    if node.get("block_size", 0):
        raise Unmapped(f"a {what} in blocks, or without a scale")
    scales, zps = node.constant(1, "scale"), node.constant(2, "zero point")
    return _scaled(node[0], scales, zps, node.get("axis", 1), what)


@OPS.enter("QuantizeLinear")
def _quantize(t: Translation, node: Node) -> Value:
    zps = node.constant(2, "zero point")
    output = zps.dtype if zps is not None else numpy_type_of(node.get("output_dtype") or 2)
    if str(output) not in KINDS:
        raise Unmapped(f"a quantisation to {output}; s8 and u8 can be done")
    return t.op("Quantize", node[0], output_type=KINDS[str(output)], **_attributes(node, "quantisation"))


@OPS.enter("DequantizeLinear")
def _dequantize(t: Translation, node: Node) -> Value:
    if str(dtype_of(node[0])) in FOUR_BITS or (_quantized(node[0]) and node.get("block_size", 0)):
        return _in_groups(t, node)
    if not _quantized(node[0]):
        raise Unmapped(f"a dequantisation of {dtype_of(node[0])}; s8, u8, s4 and u4 can be done")
    return t.op("Dequantize", node[0], **_attributes(node, "dequantisation"))


def _in_groups(t: Translation, node: Node) -> Value:
    """What has scales in blocks, or 4 bits, which Dequantize does not know.

    Raises:
        Unmapped: blocks that don't divide the axis; a type that is not the scales'.
    """
    x, scales = node[0], node[1]
    dtype, block = dtype_of(scales), node.get("block_size", 0)
    wanted = node.get("output_dtype", 0)
    if str(dtype) not in SCALES or (wanted and numpy_type_of(wanted) != dtype):
        raise Unmapped(
            f"a dequantisation with scales of {dtype} to another type; both must be f32, f16 or bf16"
        )
    axis = axis_of(x, node.get("axis", 1)) if block or shape_of(scales) not in ((), (1,)) else 0
    how: dict[str, object] = {"qtype": "per_tensor"}
    if block:
        shape = shape_of(x)
        if shape[axis] < 0 or shape[axis] % block:
            raise Unmapped(f"blocks of {block} along an axis of {shape[axis]} elements; they must divide it")
        how = {"qtype": "per_group", "group_shape": [block if n == axis else 1 for n in range(len(shape))]}
    elif shape_of(scales) not in ((), (1,)):
        how = {"qtype": "per_channel", "axis": axis}
    zps = node.optional(2)
    given = [] if zps is None or (isinstance(zps, np.ndarray) and not zps.astype(int).any()) else [zps]
    return t.op("DynamicDequantize", x, scales, *given, **how)


def stays_quantized(kind: str, inputs: Sequence[Value | None]) -> bool:
    """Whether a constant that a node of this kind reads is a quantised tensor, which is kept as it is: weights, say."""
    if kind != "DequantizeLinear" or not isinstance(value := inputs[0], np.ndarray) or value.ndim < 2:
        return False
    return str(value.dtype) in (*KINDS, *FOUR_BITS)


# --- ops that move 8-bit integers ------------------------------------------------------------------------


def _moved(t: Translation, node: Node, translate: Translate) -> Value | Sequence[Value]:
    """The op on the same numbers in f32, which has them all: oneDNN Graph's op takes floating-point types only."""
    if not _quantized(node[0]):
        return translate(t, node)
    dtype = dtype_of(node[0])
    inputs = [
        _as_f32(t, value) if value is not None and dtype_of(value) == dtype else value
        for value in node.inputs
    ]
    made = translate(t, evolve(node, inputs=tuple(inputs)))
    kind = KINDS[str(dtype)]
    if isinstance(made, Sequence):
        return [_as_integers(t, one, kind) for one in made]
    return _as_integers(t, made, kind)


def _as_f32(t: Translation, value: Value) -> Value:
    if isinstance(value, np.ndarray):
        return value.astype(np.float32)
    return t.op("Dequantize", value, scales=[1.0], zps=[0])


def _as_integers(t: Translation, value: Value, kind: str) -> Value:
    return t.op("Quantize", value, scales=[1.0], zps=[0], output_type=kind)


def moving(table: Mapping[str, Translate]) -> dict[str, Translate]:
    """The ops of a table that move elements, for 8-bit integers as well."""
    return {kind: partial(_moved, translate=table[kind]) for kind in MOVING}


# --- ops that compute with 8-bit integers ----------------------------------------------------------------


@frozen
class Form:
    """How an op on 8-bit integers lists its inputs.

    Attributes:
        kind: the op that it is on what the integers stand for.
        tensors: places of a tensor, its scale and its zero point, for each input of that op.
        output: places of the scale and the zero point of the output.
        axis: of the scales of the second tensor, where it has several.
        bias: place of an s32 bias, whose scale is the product of the two tensors'.
        defaults: of attributes, where they are not those of that op.
    """

    kind: str
    tensors: tuple[tuple[int, int, int], ...]
    output: tuple[int, int]
    axis: int = 0
    bias: int | None = None
    defaults: Mapping[str, int] = field(factory=dict[str, int])


_ONE = ((0, 1, 2),)
_TWO = ((0, 1, 2), (3, 4, 5))
FORMS = {
    "QLinearConv": Form("Conv", _TWO, (6, 7), 0, 8),
    "QLinearMatMul": Form("MatMul", _TWO, (6, 7), -1),
    "com.microsoft.QGemm": Form("Gemm", _TWO, (7, 8), -1, 6),
    "com.microsoft.QLinearAdd": Form("Add", _TWO, (6, 7)),
    "com.microsoft.QLinearMul": Form("Mul", _TWO, (6, 7)),
    "com.microsoft.QLinearLeakyRelu": Form("LeakyRelu", _ONE, (3, 4)),
    "com.microsoft.QLinearSigmoid": Form("Sigmoid", _ONE, (3, 4)),
    "com.microsoft.QLinearSoftmax": Form("Softmax", _ONE, (3, 4), defaults={"axis": -1}),
}
"""ONNX op on 8-bit integers → what it is."""


def _linear(t: Translation, node: Node, form: Form, translate: Translate) -> Value | Sequence[Value]:
    axis = form.axis - 1 if node.get("transB", 0) else form.axis
    inputs: list[Value | None] = [
        _dequantized(t, node, places, axis if number else 0) for number, places in enumerate(form.tensors)
    ]
    if form.bias is not None and node.optional(form.bias) is not None:
        inputs.append(_bias(node, form, form.bias))
    opset = node.get("opset", node.opset)  # softmax says whose axes it means
    attributes = {**form.defaults, **node.attributes}
    own = evolve(node, kind=form.kind, opset=opset, inputs=tuple(inputs), attributes=attributes)
    return _requantized(t, node, translate(t, own), form.output, dtype_of(node[form.tensors[0][0]]))


def _dequantized(t: Translation, node: Node, places: tuple[int, int, int], axis: int) -> Value:
    x, scales, zps = (
        node[places[0]],
        node.constant(places[1], "scale"),
        node.constant(places[2], "zero point"),
    )
    if not _quantized(x):
        raise Unmapped(f"a tensor of {dtype_of(x)}; s8 and u8 can be done")
    return t.op("Dequantize", x, **_scaled(x, scales, zps, axis, "dequantisation"))


def _requantized(
    t: Translation,
    node: Node,
    made: Value | Sequence[Value],
    places: tuple[int, int],
    like: np.dtype[Any],
) -> Value | Sequence[Value]:
    """The result in 8 bits: of the type of its zero point or, without one, of the input."""
    scales, zps = node.constant(places[0], "output's scale"), node.constant(places[1], "output's zero point")
    if isinstance(made, Sequence) or scales is None:
        raise Unmapped("its output's scale is missing, and so it stays wider than 8 bits")
    kind = KINDS.get(str(like if zps is None else zps.dtype))
    if kind is None or scales.size != 1:
        raise Unmapped("an output that is neither s8 nor u8 with one scale")
    return t.op("Quantize", made, output_type=kind, **_scaled(made, scales, zps, 0, "quantisation"))


def _bias(node: Node, form: Form, place: int) -> Array:
    bias = node.constant(place, "bias")
    scales = [node.constant(places[1], "scale") for places in form.tensors]
    if bias is None or any(scale is None for scale in scales):
        raise Unmapped("a bias, or its scale, is missing")
    factor = np.prod(np.broadcast_arrays(*[np.atleast_1d(s) for s in scales if s is not None]), axis=0)
    return (bias * (node.get("alpha", 1.0) * factor)).astype(np.float32)


def _concat(t: Translation, node: Node, translate: Translate) -> Value | Sequence[Value]:
    parts = [_dequantized(t, node, (at, at + 1, at + 2), 0) for at in range(2, len(node.inputs), 3)]
    made = translate(t, evolve(node, kind="Concat", inputs=tuple(parts)))
    return _requantized(t, node, made, (0, 1), dtype_of(node[2]))


def on_integers(table: Mapping[str, Translate]) -> dict[str, Translate]:
    """Ops on 8-bit integers, each by a table's op on what the integers stand for."""
    linear = {kind: partial(_linear, form=form, translate=table[form.kind]) for kind, form in FORMS.items()}
    return {**linear, "com.microsoft.QLinearConcat": partial(_concat, translate=table["Concat"])}
