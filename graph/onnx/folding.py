"""The value of ONNX nodes whose inputs are all constant.

Computed by our own kernels where there are any, so that a constant is what the same op would make of an input; else by
ONNX's reference, for the ops and versions that were held against onnxruntime's results. The reference has mistakes of
its own in others, and what it gets wrong is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...ops.records import frozen
from ...ops.values import one_line
from ..importing.translation import FAILURES, TooLarge, Translation, Unmapped, Value, check_room
from ..runtime.arrays import Array, data_type_of, numpy_type
from ..runtime.libraries import library
from .checks import KNOWN_TO_INFERENCE, inferred
from .protos import inner_graphs, kind_of
from .types import NUMBERS, STRING, is_array, numpy_type_of

UNTRUSTED = (
    "our kernels don't take it, and it is not among the ops of which ONNX's reference was seen to be right"
)

Translated = Callable[[Translation, Sequence["Value | None"]], Sequence[Value]]
"""A node's translation, of other inputs than the model's."""

RANDOM = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
"""Ops that draw anew at each call."""
DRAWS = frozenset((*RANDOM, "Dropout"))
"""Ops that draw, by the reference too where no translation takes them: of their numbers nothing is said but how they
are distributed."""
FOLDED_LATER = {"DequantizeLinear": 19, "QuantizeLinear": 19}
"""Ops that ONNX's reference has from this opset on only. What later versions added are types, blocks and attributes."""
ALWAYS = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot
    BitwiseOr BitwiseXor BlackmanWindow Cast CastLike Ceil CenterCropPad Col2Im Compress Concat Constant
    ConstantOfShape ConvInteger Cos Cosh CumProd CumSum DepthToSpace DequantizeLinear Det
    DynamicQuantizeLinear Einsum Equal Erf Exp Expand EyeLike Flatten Floor Gather GatherND Greater
    GreaterOrEqual HammingWindow HannWindow Identity IsInf IsNaN Less LessOrEqual Log MatMul MatMulInteger Max
    Mean MelWeightMatrix Min Mod Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Or Pad
    Pow QuantizeLinear Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean
    ReduceMin ReduceProd ReduceSum ReduceSumSquare Reshape ReverseSequence RotaryEmbedding
    Round ScatterElements ScatterND Shape Sign Sin Sinh Size Slice SoftmaxCrossEntropyLoss SpaceToDepth Split
    Sqrt Squeeze StringSplit Sub Sum Tan Tanh TensorScatter Tile TopK Transpose Trilu Unique
    Unsqueeze Where Xor
"""
SEQUENCES = """
    ConcatFromSequence DFT ImageDecoder MaxUnpool STFT SequenceAt
    SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence StringConcat
    StringNormalizer
"""
BY_REFERENCE: Mapping[str, int] = {
    **dict.fromkeys(ALWAYS.split(), 0),
    **dict.fromkeys(SEQUENCES.split(), 0),
    **{f"ai.onnx.preview.training.{name}": 0 for name in ("Adagrad", "Adam", "Momentum")},
    "BatchNormalization": 14,
    "BitCast": 26,
    "DeformConv": 19,
    "QLinearMatMul": 10,
    "RoiAlign": 16,
    "Softmax": 13,
    "LogSoftmax": 13,
    "Hardmax": 13,
}
"""ONNX op → the first opset whose results by ONNX's reference were seen to be onnxruntime's."""
SHAPES_ARITHMETIC = frozenset(
    (
        *("Add", "Cast", "Concat", "ConstantOfShape", "Equal", "Expand", "Gather", "Mul", "Range", "Reshape"),
        *("Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze", "Where"),
    )
)
"""Ops that models compute shapes with, by the hundred: of integers, the reference has them in a fifth of the time."""


def reference_first(kind: str, inputs: Sequence[Array | None]) -> bool:
    """Whether the reference is as good as our kernels and quicker, or better: Quantize rounds ties in its own way."""
    integers = all(a is None or a.dtype.kind in "biu" for a in inputs)
    return kind == "QuantizeLinear" or (integers and kind in SHAPES_ARITHMETIC)


def by_kernels(inputs: Sequence[Array | None], translate: Translated, limit: int) -> list[Array] | None:
    """A node's outputs by our own kernels; None where they don't take it.

    Args:
        inputs: its inputs.
        translate: its translation.
        limit: bytes that a result, and each one that leads to it, may take.

    Raises:
        TooLarge: a result would take more.
    """
    places = [place for place, value in enumerate(inputs) if value is not None]
    # Translations want most inputs to be constant but the first, some want none to be.
    for computed in (places[:1], places) if len(places) > 1 else (places,):
        t = Translation(limit)
        values: list[Value | None] = list(inputs)
        feeds: dict[str, Array] = {}
        try:
            for place in computed:
                array = np.asarray(inputs[place])
                name = f"input{place}"
                values[place] = t.input(name, data_type_of(array, name), array.shape)
                feeds[name] = array
            return _computed(t, translate(t, values), feeds, limit)
        except TooLarge:
            raise
        except FAILURES:
            continue
    return None


def _computed(t: Translation, made: Sequence[Value], feeds: Mapping[str, Array], limit: int) -> list[Array]:
    """What a translation's results are of these inputs."""
    named: dict[str, Array] = dict(feeds)
    names: list[str] = []
    for number, value in enumerate(made):
        name = f"output{number}"
        if isinstance(value, np.ndarray):
            named[name] = value
        else:
            tensor = t.tensor(value)
            if tensor.name in feeds:
                name = tensor.name
            else:
                t.graph.output(tensor, name=name)
        names.append(name)
    if t.graph.output_names:
        for op in t.graph.ops:
            for tensor in op.outputs:
                check_room(tensor.dims, numpy_type(tensor.data_type), limit)
        t.graph.prune()
        named.update(t.graph.compile(backend="numpy")({i.name: feeds[i.name] for i in t.graph.inputs}))
    return [named[name] for name in names]


def trusted_node(node: Any, opset: int) -> bool:
    """Whether the results of ONNX's reference were seen to be right for a node.

    Of LSTM it takes no lengths of sequences and one activation, but peepholes.
    """
    kind = kind_of(node)
    if kind != "LSTM":
        return opset >= BY_REFERENCE.get(kind, opset + 1)
    more = {"direction", "hidden_size"}
    return not any(node.input[4:5]) and {attribute.name for attribute in node.attribute} <= more


class Failed(Unmapped):
    """ONNX's reference has no result for these inputs."""


@frozen
class Reference:
    """ONNX's reference for single nodes.

    Attributes:
        onnx: the package.
        imports: the op sets of the model.
        opset: the version of ONNX's own one.
        ir_version: the model's.
        limit: bytes that a constant may take.
    """

    onnx: Any
    imports: Sequence[Any]
    opset: int
    ir_version: int
    limit: int

    def __call__(self, node: Any, inputs: Sequence[Array | None]) -> list[Array]:
        """The outputs of a node of constants; those without a name are empty.

        Raises:
            Unmapped: the reference has no result, or none that could be relied on, or one that takes too much memory.
        """
        if not trusted_node(node, self.opset):
            raise Unmapped(f"its constant value can't be computed; {UNTRUSTED}")
        if any(inner_graphs(node)):
            raise Unmapped("its constant value is not computed, for it holds graphs of its own")
        feeds = {name: a for name, a in zip(node.input, inputs, strict=True) if a is not None}
        try:
            model = self._model(node, feeds)
            self._check_room(model, feeds)
        except Unmapped:
            raise
        except Exception as error:  # types that the package does not know, and what inference raises
            raise Unmapped(f"its constant value can't be computed ({one_line(error)})") from error
        made = self._computed(model, node, feeds)
        if not all(isinstance(value, np.ndarray) for value in made):
            raise Unmapped("its constant value is no tensor")
        return made

    def run(self, node: Any, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a node, for arrays, lists of them, or None; those without a name are empty.

        Raises:
            Unmapped: the reference has no result, or none that could be relied on.
        """
        kind = kind_of(node)
        if kind not in DRAWS and not trusted_node(node, self.opset):
            raise Unmapped(UNTRUSTED)
        feeds = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
        if all(is_array(value) and value.dtype in NUMBERS for value in feeds.values()):
            known = {name: (value.dtype, value.shape, value) for name, value in feeds.items()}
            inferred(self.onnx, self.imports, node, known, strict=False)
        return self._computed(self._model(node, feeds), node, feeds)

    def _computed(self, model: Any, node: Any, feeds: Mapping[str, Any]) -> list[Any]:
        try:
            evaluator = library("onnx.reference", "onnx", "from_onnx").ReferenceEvaluator(model)
            with np.errstate(all="ignore"):
                made = iter(evaluator.run(None, dict(feeds)))
        except MemoryError:
            raise
        except Exception as error:  # the reference raises whatever its NumPy code does
            raise Failed(f"ONNX's reference can't compute it ({one_line(error)})") from error
        return [_plain(next(made)) if name else np.empty(0) for name in node.output]

    def _model(self, node: Any, feeds: Mapping[str, Any]) -> Any:
        helper = self.onnx.helper
        oldest = FOLDED_LATER.get(node.op_type, 0)
        return helper.make_model(
            helper.make_graph(
                [node],
                "one_node",
                [self._described(name, value) for name, value in feeds.items()],
                [self.onnx.ValueInfoProto(name=name) for name in node.output if name],
            ),
            opset_imports=self.imports if self.opset >= oldest else [helper.make_opsetid("", oldest)],
            ir_version=self.ir_version,
        )

    def _described(self, name: str, value: object) -> Any:
        """An input, with its type where it is a tensor: functions of ONNX depend on that."""
        if not is_array(value):
            return self.onnx.ValueInfoProto(name=name)
        number = STRING if value.dtype.kind in "OUST" else NUMBERS[value.dtype]
        return self.onnx.helper.make_tensor_value_info(name, number, value.shape)

    def _check_room(self, model: Any, feeds: Mapping[str, Array]) -> None:
        """Checks what the results take, by ONNX's inference of shapes, before they are made."""
        inferring = self.onnx.ModelProto()
        inferring.CopyFrom(model)
        for name, array in feeds.items():
            if array.size <= KNOWN_TO_INFERENCE:
                inferring.graph.initializer.append(self.onnx.numpy_helper.from_array(array, name))
        inferred = self.onnx.shape_inference.infer_shapes(inferring, data_prop=True)
        for info in inferred.graph.output:
            shape = info.type.tensor_type.shape
            if all(size.HasField("dim_value") for size in shape.dim):
                dtype = numpy_type_of(info.type.tensor_type.elem_type)
                check_room([size.dim_value for size in shape.dim], dtype, self.limit)


def _plain(value: Any) -> Any:
    """A value of the reference; text has one type here, and scalars are arrays."""
    if isinstance(value, list):
        return [_plain(one) for one in cast("list[Any]", value)]
    if value is None:
        return None
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "UT" else array
