"""Integers of onnxruntime's own domain as ONNX's ops: weights of a few bits, and what is quantised at execution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ml_dtypes
import numpy as np

from ...importing.translation import Unmapped
from ...runtime.arrays import Array
from .attention import self_attention
from .layers import embedded
from .rewriting import Rewrite, Rewriting

FOUR_BITS: Mapping[int, Sequence[float]] = {
    0: (0, 0.0052083333, 0.6666667, 1, 0.33333334, 0.5, 0.16666667, 0.25),
    1: (
        *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0),
        *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
    ),
}
"""Numbers that 4 bits stand for in MatMulBnb4: FP4, whose highest bit is the sign, and NF4."""


IN_BLOCKS = 21
"""The version of ONNX's op set from which on dequantisations have 4 bits, and scales in blocks."""
KEPT = {
    4: (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)),
    8: (np.dtype(np.int8), np.dtype(np.uint8)),
}
"""Bits → ONNX's types of so many, signed and not."""


def unpacked(content: Array, bits: int, count: int) -> Array:
    """Numbers of a few bits each, the lowest bits of a byte first, along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers = (content[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return numbers.reshape(*content.shape[:-1], -1)[..., :count]


def _few_bits(made: Rewriting) -> None:
    """MatMulNBits: weights stay integers where ONNX has such, and become floating point at import otherwise."""
    made.only(6, 1)
    made.without(4)
    made.usual(weight_prepacked=0)
    rows, columns = made.positive("K"), made.positive("N")
    bits, block = int(made.attribute("bits", 4)), made.positive("block_size")
    made.attribute("accuracy_level")  # how inexact it may be
    if bits not in (2, 4, 8):
        raise Unmapped(f"weights of {bits} bits; 2, 4 and 8 can be done")
    blocks = -(-rows // block)
    content, scales = made.known(1), made.known(2)
    given = made.known(3) if made.input(3) else None

    def weights() -> Array:
        q = unpacked(content.reshape(columns, blocks, -1), bits, block).astype(np.float32)
        zero = np.full((columns, blocks), 1 << (bits - 1), np.float32)
        if given is not None and given.dtype == np.uint8:
            zero = unpacked(given.reshape(columns, -1), bits, blocks).astype(np.float32)
        elif given is not None:
            zero = given.reshape(columns, blocks).astype(np.float32)
        scale = scales.reshape(columns, blocks, 1).astype(np.float32)
        return ((q - zero[..., None]) * scale).reshape(columns, -1)[:, :rows].T

    made.check_room((columns, blocks * block), np.dtype(np.float32))
    if content.size * 8 != columns * blocks * block * bits or scales.size != columns * blocks:
        raise Unmapped(
            f"weights of {content.size} bytes and {scales.size} scales for {columns} × {blocks} blocks of {block} "
            f"numbers of {bits} bits"
        )
    packed = given is None or given.dtype == np.uint8
    if made.opset >= IN_BLOCKS and bits in KEPT and rows % block == 0 and packed:
        _with_weights(made, _integers(made, bits, block, (rows, columns)), 5)
        return
    _with_weights(made, made.made_once("weights", (rows, columns), scales.dtype, weights), 5)


def _integers(made: Rewriting, bits: int, block: int, shape: tuple[int, int]) -> str:
    """The weights of MatMulNBits behind a DequantizeLinear in blocks: signed around zero, or with zero points."""
    rows, columns = shape
    blocks, (signed, unsigned) = rows // block, KEPT[bits]
    content, scales = made.known(1), made.known(2)
    given = made.known(3) if made.input(3) else None
    dtype = signed if given is None else unsigned
    middle = 1 << (bits - 1) if given is None else 0

    def weights() -> Array:
        q = unpacked(content.reshape(columns, blocks, -1), bits, block).reshape(columns, rows)
        return (q.astype(np.int16) - middle).astype(dtype).T

    inputs = [
        made.made_once("integers", shape, dtype, weights),
        made.made_once("scales", (blocks, columns), scales.dtype, lambda: scales.reshape(columns, blocks).T),
    ]
    if given is not None:
        zero = unpacked(given.reshape(columns, -1), bits, blocks).astype(dtype).T
        inputs.append(made.made_once("zero points", (blocks, columns), dtype, lambda: zero))
    return made("DequantizeLinear", *inputs, axis=0, block_size=block)


def _four_bits(made: Rewriting) -> None:
    """MatMulBnb4."""
    made.only(3, 1)
    made.usual(transB=1)
    made.attribute("training_mode")
    rows, columns, block = made.positive("K"), made.positive("N"), made.positive("block_size")
    kind, content, scales = made.attribute("quant_type"), made.known(1), made.known(2)
    count = rows * columns
    if kind not in FOUR_BITS or content.size != -(-count // 2) or scales.size != -(-count // block):
        raise Unmapped(
            f"quant_type {kind}, {content.size} bytes and {scales.size} scales for weights of {columns} × {rows}"
        )

    def weights() -> Array:
        half = np.asarray(FOUR_BITS[kind], np.float32)
        numbers = half if len(half) == 16 else np.concatenate([half, -half])
        codes = np.stack([content.reshape(-1) >> 4, content.reshape(-1) & 15], -1).reshape(-1)[:count]
        scale = np.repeat(scales.reshape(-1).astype(np.float32), block)[:count]
        return (numbers[codes] * scale).reshape(columns, rows).T

    made.check_room((columns, rows), np.dtype(np.float32))
    _with_weights(made, made.made_once("weights", (rows, columns), scales.dtype, weights), 3)


def _with_weights(made: Rewriting, weights: str, bias: int) -> None:
    y = made("MatMul", made.input(0), weights, into="" if made.input(bias) else made.output(0))
    if made.input(bias):
        made("Add", y, made.input(bias), into=made.output(0))


def _gathered(made: Rewriting) -> None:
    """GatherBlockQuantized: the table becomes floating point at import."""
    made.only(4, 1)
    content, scales = made.known(0), made.known(2)
    bits, block = int(made.attribute("bits", 4)), int(made.attribute("block_size", 128))
    axis, along = int(made.attribute("gather_axis", 0)), int(made.attribute("quantize_axis", 1))
    packed = content.dtype == np.uint8
    if bits not in (2, 4, 8) or block < 1 or not -content.ndim <= along < content.ndim:
        raise Unmapped(f"a table of {bits} bits in blocks of {block} along axis {along}")
    each = 8 // bits if packed else 1
    shape = (*content.shape[:-1], content.shape[-1] * each)
    given = made.known(3) if made.input(3) else None
    along %= len(shape)
    wanted = (*shape[:along], -(-shape[along] // block), *shape[along + 1 :])
    if scales.shape != wanted:
        raise Unmapped(f"scales of shape {list(scales.shape)} where blocks have {list(wanted)}")

    def spread(values: Array) -> Array:
        return np.repeat(values, block, along).take(range(shape[along]), along).astype(np.float32)

    def table() -> Array:
        q = (unpacked(content, bits, shape[-1]) if packed else content).astype(np.float32)
        zero = np.full(wanted, 1 << (bits - 1) if packed else 0, np.float32)
        if given is not None:
            zero = (unpacked(given, bits, wanted[-1]) if packed else given).astype(np.float32)
        return (q - spread(zero)) * spread(scales)

    made(
        "Gather",
        made.made_once("table", shape, scales.dtype, table),
        made.input(1),
        into=made.output(0),
        axis=axis,
    )


# --- products of integers --------------------------------------------------------------------------------


def _integer_product(
    made: Rewriting, names: Sequence[str], scale: str, weights_scale: str, bias: str, into: str = ""
) -> str:
    """A product of integers as floating point; the name of the output."""
    y = made.cast(made("MatMulInteger", *names), np.dtype(np.float32))
    y = made("Mul", y, made("Mul", scale, weights_scale), into="" if bias else into)
    return made("Add", y, bias, into=into) if bias else y


def _until_last(*names: str) -> list[str]:
    """The names without empty ones at the end."""
    there = [place for place, name in enumerate(names) if name]
    return list(names[: there[-1] + 1])


def _dynamic_product(made: Rewriting) -> None:
    made.only(5, 1)
    a, scale, zero = made("DynamicQuantizeLinear", made.input(0), outputs=3)
    names = _until_last(a, made.input(1), zero, made.input(3))
    _integer_product(made, names, scale, made.input(2), made.input(4), made.output(0))


def _product_to_float(made: Rewriting) -> None:
    made.only(7, 1)
    names = _until_last(made.input(0), made.input(1), made.input(4), made.input(5))
    _integer_product(made, names, made.input(2), made.input(3), made.input(6), made.output(0))


def _attention(made: Rewriting) -> None:
    """QAttention."""
    made.only(9, 2)
    total = made.sizes(1)[-1]
    names = _until_last(made.input(0), made.input(1), made.input(6), made.input(7))
    product = _integer_product(made, names, made.input(3), made.input(4), made.input(2))
    self_attention(made, product, [total // 3] * 3, 5, 8, -1)


def _chosen(made: Rewriting) -> None:
    """QLinearWhere."""
    made.only(9, 1)
    x, y = (made("DequantizeLinear", *[made.input(place + n) for n in range(3)]) for place in (1, 4))
    z = made("Where", made.input(0), x, y)
    made("QuantizeLinear", z, made.input(7), made.input(8), into=made.output(0))


def _convolved(made: Rewriting) -> None:
    """QLinearConv, whose channels may be the last axis of input and output."""
    made.only(9, 1)
    last = made.attribute("channels_last", 0)
    x = made.channels_first(0) if last else made.input(0)
    names = _until_last(x, *map(made.input, range(1, 9)))
    y = made("QLinearConv", *names, into="" if last else made.output(0), **made.rest())
    if last:
        made.channels_last(y)


def _averages(made: Rewriting) -> None:
    """QLinearAveragePool, and of whole images."""
    made.only(5, 1)
    last, kind = made.attribute("channels_last", 0), made.node.op_type.removeprefix("QLinear")
    x = made.channels_first(0) if last else made.input(0)
    x = made("DequantizeLinear", *_until_last(x, made.input(1), made.input(2)))
    y = made(kind, x, **made.rest())
    zero = made.input(4) or made.constant("zero", np.asarray(0, made.dtype()))
    y = made("QuantizeLinear", y, made.input(3), zero, into="" if last else made.output(0))
    if last:
        made.channels_last(y)


def _same(made: Rewriting) -> None:
    """QuantizeLinear and DequantizeLinear, for types that ONNX's did not have once."""
    made.only(3, 1)
    made(made.node.op_type, *_until_last(*map(made.input, range(3))), into=made.output(0), **made.rest())


# --- whole layers ----------------------------------------------------------------------------------------


def _plain(made: Rewriting, name: str, place: int, scale: int, zero: int, *, turned: bool = False) -> str:
    """A constant of integers as f32; scales of all, or one for each row or column of the first or last axis."""
    content, scales, zeros = made.known(place), made.known(scale), made.known(zero)
    shape = content.shape

    def spread(values: Array) -> Array:
        values = values.astype(np.float32)
        if turned:  # (directions,) or (directions, columns)
            return values.reshape(shape[0], 1, -1)
        return values.reshape(()) if values.size == 1 else values

    def floats() -> Array:
        made_of = (content.astype(np.float32) - spread(zeros)) * spread(scales)
        return made_of.transpose(0, 2, 1) if turned else made_of

    return made.made_once(name, (shape[0], shape[2], shape[1]) if turned else shape, np.float32, floats)


def _recurrent(made: Rewriting) -> None:
    """DynamicQuantizeLSTM, with inputs and states as they are: onnxruntime rounds them to 8 bits at each step."""
    made.only(12, 3)
    if len(made.sizes(1)) != 3 or len(made.sizes(2)) != 3:
        raise Unmapped("weights that have not the axes directions, inputs and gates")
    w = _plain(made, "w", 1, 8, 9, turned=True)
    r = _plain(made, "r", 2, 10, 11, turned=True)
    names = _until_last(made.input(0), w, r, *map(made.input, range(3, 8)))
    node = made.onnx.helper.make_node(
        "LSTM", names, list(made.node.output), name=made.node.name, **made.rest()
    )
    made.nodes.append(node)


def _embedded(made: Rewriting) -> None:
    """QEmbedLayerNormalization."""
    made.only(18, 2)
    places = {"words": (2, 8, 13), "places": (3, 9, 14), "gamma": (5, 11, 16), "beta": (6, 12, 17)}
    if made.input(1):
        places["segments"] = (4, 10, 15)
    tables = {name: _plain(made, name, *where) for name, where in places.items()}
    embedded(made, tables, "")


REWRITES: Mapping[str, Rewrite] = {
    "DequantizeLinear": _same,
    "DynamicQuantizeLSTM": _recurrent,
    "DynamicQuantizeMatMul": _dynamic_product,
    "GatherBlockQuantized": _gathered,
    "MatMulBnb4": _four_bits,
    "MatMulIntegerToFloat": _product_to_float,
    "MatMulNBits": _few_bits,
    "QAttention": _attention,
    "QEmbedLayerNormalization": _embedded,
    "QLinearAveragePool": _averages,
    "QLinearConv": _convolved,
    "QLinearGlobalAveragePool": _averages,
    "QLinearWhere": _chosen,
    "QuantizeLinear": _same,
}
"""Op → nodes of ONNX's own op set."""
