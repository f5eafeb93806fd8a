"""Ops of onnxruntime's own domain `com.microsoft`, which its optimisations and quantisations leave in files, as ONNX's.

Source: `docs/ContribOperators.md` of onnxruntime. A node that is no more than its row here says becomes nodes of ONNX's
own op set; others stay, and are refused by name where there is no translation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np
from attrs import frozen

from ...ops.errors import UnsupportedError
from ..importing.translation import check_room
from ..runtime.arrays import Array
from .checks import label_of
from .functions import graphs_in

DOMAIN = "com.microsoft"
LAYOUTS = "com.microsoft.nchwc"


class _Other(Exception):  # noqa: N818 -- never leaves this module
    """The node is more than what is known here."""


@frozen(eq=False)
class Rewriting:
    """A node that is rewritten.

    Attributes:
        onnx: the package.
        node: the node.
        label: the name of its first output, which those of new values begin with.
        attributes: of the node.
        constants: of the model; new ones are added.
        opset: the version of ONNX's op set.
        ranks: of values, by name, as far as the file says.
        limit: bytes that a constant may take.
        nodes: those in its place.
    """

    onnx: Any
    node: Any
    label: str
    attributes: dict[str, Any]
    constants: MutableMapping[str, Array]
    opset: int
    ranks: Mapping[str, int]
    limit: int
    nodes: list[Any]

    def input(self, number: int) -> str:
        """The name of an input; empty where it is not there."""
        return self.node.input[number] if number < len(self.node.input) else ""

    def output(self, number: int) -> str:
        """The name of an output; empty where nobody has it."""
        return self.node.output[number] if number < len(self.node.output) else ""

    def only(self, inputs: int, outputs: int) -> None:
        """Raises _Other where there are more inputs or outputs."""
        if any(self.node.input[inputs:]) or any(self.node.output[outputs:]):
            raise _Other

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute, which is known then."""
        return self.attributes.pop(name, default)

    def end(self) -> None:
        """Raises _Other where there are attributes that nobody has asked for."""
        if self.attributes:
            raise _Other

    def constant(self, name: str, value: Any) -> str:
        """A new constant's name."""
        name = f"{self.label}.{name}"
        self.constants[name] = np.asarray(value)
        return name

    def known(self, number: int) -> Array:
        """The constant that an input is."""
        if self.input(number) not in self.constants:
            raise _Other
        return self.constants[self.input(number)]

    def __call__(self, kind: str, *inputs: str, into: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """A new node; the name of its output, or of all.

        Args:
            into: the output's name; empty for a new one.
        """
        start = f"{self.label}.{kind}{len(self.nodes)}"
        names = [into or start] if outputs == 1 else [f"{start}.{n}" for n in range(outputs)]
        made = self.onnx.helper.make_node(
            kind, list(inputs), names, name=into and self.node.name, **attributes
        )
        self.nodes.append(made)
        return names[0] if outputs == 1 else names


Rewrite = Callable[[Rewriting], None]


def _half(made: Rewriting, x: str, inner: str, into: str) -> None:
    """X · (1 + inner) / 2."""
    one, half = made.constant("one", np.float32(1)), made.constant("half", np.float32(0.5))
    made("Mul", made("Mul", x, made("Add", inner, one)), half, into=into)


def _erf_gelu(made: Rewriting, x: str) -> None:
    root = made.constant("root", np.float32(2**0.5))
    _half(made, x, made("Erf", made("Div", x, root)), made.output(0))


def _gelu(made: Rewriting) -> None:
    made.only(1, 1)
    _erf_gelu(made, made.input(0))


def _bias_gelu(made: Rewriting) -> None:
    made.only(2, 1)
    _erf_gelu(made, made("Add", made.input(0), made.input(1)))


def _fast_gelu(made: Rewriting) -> None:
    made.only(2, 1)
    x = made("Add", made.input(0), made.input(1)) if made.input(1) else made.input(0)
    cube = made("Mul", made("Mul", x, x), made("Mul", x, made.constant("a", np.float32(0.044715))))
    inner = made("Mul", made("Add", x, cube), made.constant("b", np.float32((2 / np.pi) ** 0.5)))
    _half(made, x, made("Tanh", inner), made.output(0))


def _quick_gelu(made: Rewriting) -> None:
    made.only(1, 1)
    alpha = made.constant("alpha", np.float32(made.attribute("alpha", 1.702)))
    made("Mul", made.input(0), made("Sigmoid", made("Mul", made.input(0), alpha)), into=made.output(0))


def _activated(made: Rewriting, x: str, kind: bytes | None, numbers: Sequence[float]) -> None:
    """The last step of a fused node."""
    name = (kind or b"").decode()
    into = made.output(0)
    if name in ("Relu", "Tanh", "Sigmoid") and not numbers:
        made(name, x, into=into)
    elif name == "LeakyRelu" and len(numbers) == 1:
        made(name, x, into=into, alpha=numbers[0])
    elif name == "HardSigmoid" and len(numbers) == 2:
        made(name, x, into=into, alpha=numbers[0], beta=numbers[1])
    elif name == "Clip" and len(numbers) == 2:
        low, high = (made.constant(n, np.float32(v)) for n, v in zip(("low", "high"), numbers, strict=True))
        made(name, x, low, high, into=into)
    elif not name:
        made("Identity", x, into=into)
    else:
        raise _Other


def _fused_conv(made: Rewriting) -> None:
    made.only(4, 1)
    kind, numbers = made.attribute("activation"), list(made.attribute("activation_params", ()))
    given = dict(made.attributes)
    made.attributes.clear()
    y = made("Conv", *[made.input(n) for n in range(3 if made.input(2) else 2)], **given)
    if made.input(3):
        y = made("Add", y, made.input(3))
    _activated(made, y, kind, numbers)


def _fused_gemm(made: Rewriting) -> None:
    made.only(3, 1)
    kind = made.attribute("activation")
    numbers = [made.attribute(name) for name in ("activation_alpha", "activation_beta", "activation_gamma")]
    given = dict(made.attributes)
    made.attributes.clear()
    y = made("Gemm", *[name for name in made.node.input if name], **given)
    _activated(made, y, kind, [number for number in numbers if number is not None])


def _fused_matmul(made: Rewriting) -> None:
    made.only(2, 1)
    alpha = made.attribute("alpha", 1.0)
    if made.attribute("transBatchA", 0) or made.attribute("transBatchB", 0):
        raise _Other
    left = "ji" if made.attribute("transA", 0) else "ij"
    right = "kj" if made.attribute("transB", 0) else "jk"
    x, y = made.input(0), made.input(1)
    into = made.output(0) if alpha == 1 else ""
    if (left, right) == ("ij", "jk"):
        product = made("MatMul", x, y, into=into)
    elif made.opset >= 12:
        product = made("Einsum", x, y, into=into, equation=f"...{left},...{right}->...ik")
    else:
        raise _Other
    if not into:
        made("Mul", product, made.constant("alpha", np.float32(alpha)), into=made.output(0))


# --- normalisation ---------------------------------------------------------------------------------------


def _mean(made: Rewriting, x: str) -> str:
    if made.opset < 18:
        return made("ReduceMean", x, axes=[-1], keepdims=1)
    return made("ReduceMean", x, made.constant("axes", np.asarray([-1])), keepdims=1)


def _normalised(made: Rewriting, x: str, scale: str, bias: str, *, centred: bool, into: str) -> None:
    epsilon = float(made.attribute("epsilon", 1e-12 if centred else 1e-5))
    if centred and made.opset >= 17:
        names = [x, scale, *([bias] if bias else [])]
        made("LayerNormalization", *names, into=into, axis=-1, epsilon=epsilon)
        return
    centre = made("Sub", x, _mean(made, x)) if centred else x
    least = made(
        "Add", _mean(made, made("Mul", centre, centre)), made.constant("epsilon", np.float32(epsilon))
    )
    y = made("Div", centre, made("Sqrt", least))
    y = made("Mul", y, scale, into="" if bias else into)
    if bias:
        made("Add", y, bias, into=into)


def _rms(made: Rewriting) -> None:
    made.only(2, 1)
    if made.attribute("axis", -1) != -1 or made.attribute("stash_type", 1) != 1:
        raise _Other
    _normalised(made, made.input(0), made.input(1), "", centred=False, into=made.output(0))


def _skipped(made: Rewriting, *, centred: bool) -> None:
    """SkipLayerNormalization, and the same of root mean squares, which has no beta."""
    made.only(5 if centred else 4, 4)
    if made.output(1) or made.output(2):
        raise _Other
    beta, bias = (made.input(3), made.input(4)) if centred else ("", made.input(3))
    x = made("Add", made.input(0), made.input(1), into="" if bias else made.output(3))
    if bias:
        x = made("Add", x, bias, into=made.output(3))
    _normalised(made, x, made.input(2), beta, centred=centred, into=made.output(0))


def _skip_layer_norm(made: Rewriting) -> None:
    _skipped(made, centred=True)


def _skip_rms_norm(made: Rewriting) -> None:
    _skipped(made, centred=False)


def _embedded(made: Rewriting) -> None:
    made.only(8, 2)
    if made.attribute("mask_index_type", 0):
        raise _Other
    ids, segments = made.input(0), made.input(1)
    x = made("Gather", made.input(2), ids)
    one, two, zero = (made.constant(f"n{n}", np.asarray([n])) for n in (1, 2, 0))
    length = made("Slice", made("Shape", ids), one, two, zero)
    x = made("Add", x, made("Slice", made.input(3), zero, length, zero))
    if segments:
        x = made("Add", x, made("Gather", made.input(4), segments))
    _normalised(made, x, made.input(5), made.input(6), centred=True, into=made.output(0))
    if made.output(1):
        mask = made.input(7)
        if not mask:
            raise _Other
        if made.opset < 13:
            made("ReduceSum", mask, into=made.output(1), axes=[1], keepdims=0)
        else:
            made("ReduceSum", mask, made.constant("last", np.asarray([1])), into=made.output(1), keepdims=0)


# --- attention -------------------------------------------------------------------------------------------


def _attention(made: Rewriting) -> None:
    """Attention of the input to itself, without what was before."""
    made.only(4, 1)
    weights, heads = made.known(1), int(made.attribute("num_heads", 0))
    fill = float(made.attribute("mask_filter_value", -10000.0))
    if made.opset < 13 or made.attribute("unidirectional", 0) or made.attribute("do_rotary", 0) or heads < 1:
        raise _Other
    size = weights.shape[-1] // 3
    if weights.ndim != 2 or size * 3 != weights.shape[1] or size % heads:
        raise _Other
    scale = float(made.attribute("scale", 0.0)) or (size // heads) ** -0.5
    product = made("MatMul", made.input(0), made.input(1))
    product = made("Add", product, made.input(2)) if made.input(2) else product
    parts = made("Split", product, made.constant("parts", np.asarray([size] * 3)), outputs=3, axis=2)
    shape = made.constant("heads", np.asarray([0, 0, heads, size // heads]))
    q, k, v = (made("Reshape", part, shape) for part in parts)
    q, v = (made("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
    scores = made("MatMul", q, made("Transpose", k, perm=[0, 2, 3, 1]))
    scores = made("Mul", scores, made.constant("scale", np.float32(scale)))
    if made.input(3):
        scores = made("Add", scores, _masked(made, fill))
    y = made("MatMul", made("Softmax", scores, axis=-1), v)
    y = made("Transpose", y, perm=[0, 2, 1, 3])
    made("Reshape", y, made.constant("flat", np.asarray([0, 0, size])), into=made.output(0))


def _masked(made: Rewriting, fill: float) -> str:
    """What is added to scores: from ones and zeros for each place, or the number of places of each row."""
    mask, rank = made.input(3), made.ranks.get(made.input(3))
    if rank == 1:
        one, zero = (made.constant(f"n{n}", np.asarray(n)) for n in (1, 0))
        length = made("Gather", made("Shape", made.input(0)), one)
        places = made("Range", zero, length, one)
        counts = made("Cast", made("Unsqueeze", mask, made.constant("last", np.asarray([1]))), to=7)
        mask = made("Less", places, counts)
    elif rank != 2:
        raise _Other
    there = made("Unsqueeze", made("Cast", mask, to=1), made.constant("axes", np.asarray([1, 2])))
    gone = made("Sub", made.constant("one", np.float32(1)), there)
    return made("Mul", gone, made.constant("fill", np.float32(fill)))


# --- integers --------------------------------------------------------------------------------------------


def unpacked(content: Array, bits: int, count: int) -> Array:
    """Numbers of a few bits each, the lowest bits of a byte first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (content[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*content.shape[:-1], -1)[..., :count]


def _few_bits(made: Rewriting) -> None:
    """MatMulNBits: weights become f32 at import."""
    if made.input(4):
        raise _Other
    made.only(6, 1)
    rows, columns = int(made.attribute("K")), int(made.attribute("N"))
    bits, block = int(made.attribute("bits", 4)), int(made.attribute("block_size"))
    made.attribute("accuracy_level")
    if bits not in (2, 4, 8) or block < 16 or rows < 1 or columns < 1:
        raise _Other
    blocks = -(-rows // block)
    check_room((columns, blocks * block), np.dtype(np.float32), made.limit)
    content, scales = made.known(1), made.known(2)
    if content.size * 8 != columns * blocks * block * bits or scales.size != columns * blocks:
        raise _Other
    q = unpacked(content.reshape(columns, blocks, -1), bits, block).astype(np.float32)
    zero: Array = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if made.input(3):
        given = made.known(3)
        packed = given.dtype == np.uint8
        zero = (
            unpacked(given.reshape(columns, -1), bits, blocks) if packed else given.reshape(columns, blocks)
        )
    scale = scales.reshape(columns, blocks, 1)
    w = ((q - zero.astype(np.float32)[..., None]) * scale.astype(np.float32)).reshape(columns, -1)[:, :rows]
    weights = made.constant("weights", np.ascontiguousarray(w.T).astype(scales.dtype))
    y = made("MatMul", made.input(0), weights, into="" if made.input(5) else made.output(0))
    if made.input(5):
        made("Add", y, made.input(5), into=made.output(0))


def _integer_product(
    made: Rewriting, names: Sequence[str], scale: str, weights_scale: str, bias: str
) -> None:
    """A product of integers as floating point."""
    y = made("Cast", made("MatMulInteger", *names), to=1)
    y = made("Mul", y, made("Mul", scale, weights_scale), into="" if bias else made.output(0))
    if bias:
        made("Add", y, bias, into=made.output(0))


def _dynamic_product(made: Rewriting) -> None:
    made.only(5, 1)
    a, scale, zero = made("DynamicQuantizeLinear", made.input(0), outputs=3)
    names = [a, made.input(1), zero, *([made.input(3)] if made.input(3) else [])]
    _integer_product(made, names, scale, made.input(2), made.input(4))


def _product_to_float(made: Rewriting) -> None:
    made.only(7, 1)
    names = [made.input(0), made.input(1), made.input(4), made.input(5)]
    while not names[-1]:
        names.pop()
    _integer_product(made, names, made.input(2), made.input(3), made.input(6))


REWRITES: Mapping[str, Rewrite] = {
    "Attention": _attention,
    "BiasGelu": _bias_gelu,
    "DynamicQuantizeMatMul": _dynamic_product,
    "EmbedLayerNormalization": _embedded,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "MatMulIntegerToFloat": _product_to_float,
    "MatMulNBits": _few_bits,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _rms,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "TransposeMatMul": _fused_matmul,
}
"""Op → nodes of ONNX's own op set."""


def _is_ours(node: Any) -> bool:
    # onnxruntime writes this op into ONNX's own domain.
    named_so = node.op_type == "SimplifiedLayerNormalization" and not node.domain
    return node.op_type in REWRITES and (node.domain == DOMAIN or named_so)


def rewritten(onnx: Any, proto: Any, opset: int, constants: MutableMapping[str, Array], limit: int) -> Any:
    """A model with ONNX's own ops in the places of onnxruntime's, as far as they are known.

    Args:
        onnx: the package.
        proto: the model; it is copied before it is changed.
        opset: the version of ONNX's op set.
        constants: of the model, decoded; new ones are added.
        limit: bytes that a constant may take.

    Raises:
        UnsupportedError: nodes for layouts that onnxruntime has alone.
        TooLarge: weights of a few bits that take more than the limit.
    """
    for graph in graphs_in(proto.graph):
        for number, node in enumerate(graph.node):
            if node.domain == LAYOUTS:
                raise UnsupportedError(
                    f"from_onnx: node {label_of(node, number)!r} ({node.domain}.{node.op_type}) is for a layout that "
                    "onnxruntime has alone; save the model without its layout optimisations, at most 'extended'"
                )
    if not any(_is_ours(node) for graph in graphs_in(proto.graph) for node in graph.node):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for graph in list(graphs_in(copy.graph)):
        ranks = {
            info.name: len(info.type.tensor_type.shape.dim)
            for info in (*graph.input, *graph.value_info, *graph.output)
            if info.type.tensor_type.HasField("shape")
        }
        ranks |= {
            node.output[1]: 1
            for node in graph.node
            if node.op_type == "EmbedLayerNormalization" and len(node.output) > 1
        }
        nodes: list[Any] = []
        for node in graph.node:
            nodes += _nodes(onnx, node, constants, opset, ranks, limit)
        del graph.node[:]
        graph.node.extend(nodes)
    return copy


def _nodes(
    onnx: Any,
    node: Any,
    constants: MutableMapping[str, Array],
    opset: int,
    ranks: Mapping[str, int],
    limit: int,
) -> list[Any]:
    """What stands in the place of a node."""
    if not (_is_ours(node) and node.output and node.output[0]):
        return [node]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    made = Rewriting(onnx, node, node.output[0], attributes, constants, opset, ranks, limit, list[Any]())
    try:
        REWRITES[node.op_type](made)
        made.end()
    except _Other:
        return [node]
    return made.nodes
