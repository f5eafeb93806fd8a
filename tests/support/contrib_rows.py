"""Nodes of onnxruntime's own domain, one by one, with what they are given: tables for tests against onnxruntime."""

from dataclasses import dataclass, field

import numpy as np
from onnx_oracle import helper, model_of, onnx

DOMAIN = "com.microsoft"
F32, F16 = np.float32, np.float16


def normal(*shape, seed=0, dtype=F32, factor=1.0):
    return (np.random.default_rng(seed + sum(shape)).standard_normal(shape) * factor).astype(dtype)


def numbers(low, high, *shape, dtype=np.uint8):
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(dtype)


def scales(*shape, factor=0.1):
    return (np.random.default_rng(sum(shape)).random(shape) * factor + 0.01).astype(F32)


@dataclass
class Row:
    """A node. `inputs`: by name, None where one is not there; those of `constants` are initializers."""

    kind: str
    inputs: dict
    outputs: tuple = ("out",)
    constants: tuple = ()
    opset: int = 17
    close: float = 2e-5
    valid: object = None
    domain: str = DOMAIN
    attributes: dict = field(default_factory=dict)

    def model(self):
        given = {name: np.asarray(a) for name, a in self.inputs.items() if a is not None}
        feeds = {name: a for name, a in given.items() if name not in self.constants}
        names = [name if a is not None else "" for name, a in self.inputs.items()]
        while not names[-1]:
            names.pop()
        node = helper.make_node(
            self.kind, names, list(self.outputs), name="node", domain=self.domain, **self.attributes
        )
        constants = {name: given[name] for name in self.constants if name in given}
        model = model_of([node], feeds, [o for o in self.outputs if o], constants, opset=self.opset)
        model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
        return model, feeds

    def __str__(self):
        dtype = next(np.asarray(a).dtype for a in self.inputs.values() if a is not None)
        return f"{self.kind} {self.attributes} of {dtype} in opset {self.opset}"


def functions():
    for dtype, close in ((F32, 2e-5), (F16, 4e-3)):
        x, y, b = normal(2, 3, 8, dtype=dtype), normal(2, 3, 8, seed=1, dtype=dtype), normal(8, dtype=dtype)
        for opset in (11, 14, 17, 21):
            more = {"opset": opset, "close": close}
            yield Row("Gelu", {"x": x}, **more)
            yield Row("BiasGelu", {"x": x, "b": b}, constants=("b",), **more)
            yield Row("FastGelu", {"x": x, "b": b}, constants=("b",), **more)
            yield Row("FastGelu", {"x": x}, **more)
            yield Row("QuickGelu", {"x": x}, attributes={"alpha": 1.3}, **more)
            given = {"x": x, "s": y, "g": b, "b": b, "c": b}
            made = ("out", "", "", "sum")
            yield Row("SkipLayerNormalization", given, made, tuple("gbc"), **more)
            yield Row("SkipLayerNormalization", {"x": x * 300, "s": y[0], "g": b}, constants=("g",), **more)
            given.pop("b")
            yield Row("SkipSimplifiedLayerNormalization", given, made, tuple("gc"), **more)
            given = {"x": x * 200, "g": b}
            yield Row(
                "SimplifiedLayerNormalization",
                given,
                constants=("g",),
                domain="",
                attributes={"axis": -1},
                **more,
            )


def products():
    for dtype, close in ((F32, 2e-5), (F16, 4e-3)):
        for a, b, attributes in (
            ((2, 3, 8), (2, 3, 8), {"transA": 1, "alpha": 0.5}),
            ((2, 3, 8), (2, 3, 8), {"transB": 1}),
            ((3, 2, 4, 5), (2, 4, 5, 6), {"transBatchA": 1}),
            ((5, 2, 4, 3), (2, 4, 5, 6), {"transBatchA": 1, "transA": 1}),
            ((3, 2, 4, 5), (6, 2, 4, 5), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
        ):
            given = {"x": normal(*a, dtype=dtype), "y": normal(*b, dtype=dtype)}
            yield Row("FusedMatMul", given, close=close, attributes=attributes)
    for kind, parameters in (
        ("Relu", []),
        ("LeakyRelu", [0.2]),
        ("Clip", [-0.5, 0.5]),
        ("HardSigmoid", [0.2, 0.5]),
    ):
        given = {"x": normal(1, 2, 5, 5), "w": normal(3, 2, 3, 3), "b": normal(3), "z": normal(1, 3, 3, 3)}
        attributes = {"activation": kind, "kernel_shape": [3, 3]}
        attributes |= {"activation_params": parameters} if parameters else {}
        yield Row("FusedConv", given, constants=("w", "b"), attributes=attributes)
    given = {"x": normal(3, 4), "w": normal(5, 4), "b": normal(5)}
    yield Row("FusedGemm", given, constants=("w", "b"), attributes={"transB": 1, "activation": "Relu"})


LENGTHS = np.array([3, 5], np.int32)
MASKS = (
    None,
    LENGTHS,
    np.array([3, 5, 1, 0], np.int32),
    np.array([[1, 1, 1, 0, 0], [1] * 5], np.int32),
    np.array([[0] * 5, [1] * 5], np.int32),
    (normal(2, 5, 5) > 0).astype(np.int32),
)


def attention():
    x, w, b = normal(2, 5, 8), normal(8, 24, factor=0.3), normal(24)
    fixed = ("w", "b")
    for opset in (11, 17, 23):
        for causal in (0, 1):
            attributes = {"num_heads": 2, "unidirectional": causal}
            more = {"constants": fixed, "opset": opset}
            for mask in MASKS:
                yield Row("Attention", {"x": x, "w": w, "b": b, "m": mask}, attributes=attributes, **more)
            given = {"x": x, "w": w, "b": b, "m": LENGTHS, "p": None, "a": normal(1, 2, 5, 5)}
            yield Row("Attention", given, attributes={**attributes, "scale": 0.3}, **more)
            for before in (4, 0):
                mask = np.ones((2, 5 + before), np.int32)
                given = {"x": x, "w": w, "b": b, "m": mask, "p": normal(2, 2, 2, before, 4)}
                yield Row("Attention", given, ("out", "kept"), attributes=attributes, **more)
    attributes = {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]}
    yield Row(
        "Attention", {"x": x, "w": normal(8, 28), "b": normal(28)}, constants=fixed, attributes=attributes
    )
    given = {"x": x.astype(F16), "w": w.astype(F16), "b": b.astype(F16), "m": LENGTHS}
    yield Row("Attention", given, constants=fixed, close=5e-3, attributes={"num_heads": 2})
    x, w = numbers(0, 256, 2, 5, 8), numbers(-127, 128, 8, 24, dtype=np.int8)
    for causal in (0, 1):
        attributes = {"num_heads": 2, "unidirectional": causal}
        given = {"x": x, "w": w, "b": b, "s": F32(0.02), "t": F32(0.01), "m": LENGTHS, "z": np.uint8(120)}
        yield Row("QAttention", {**given, "v": np.int8(0)}, constants=("w", "b", "v"), attributes=attributes)
        given |= {"t": scales(24), "m": None, "v": np.zeros(24, np.int8), "p": normal(2, 2, 2, 3, 4)}
        yield Row("QAttention", given, ("out", "kept"), ("w", "b", "t", "v"), attributes=attributes)


def attention_of_several():
    q, k, v = normal(2, 3, 8), normal(2, 5, 8, seed=1), normal(2, 5, 12, seed=2)
    mask, added = np.array([[1, 1, 0, 0, 0], [1] * 5], np.int32), normal(2, 2, 3, 5)
    kind, fixed, attributes = "MultiHeadAttention", ("b",), {"num_heads": 2}
    bias = normal(28)
    yield Row(kind, {"q": q, "k": k, "v": v}, attributes=attributes)
    yield Row(
        kind, {"q": q, "k": k, "v": v, "b": bias, "m": LENGTHS - 1}, constants=fixed, attributes=attributes
    )
    given = {"q": q, "k": k, "v": v, "b": bias, "m": mask, "a": added}
    yield Row(kind, given, constants=fixed, attributes={**attributes, "scale": 0.2})
    yield Row(
        kind,
        {"q": q, "k": normal(2, 2, 5, 4), "v": normal(2, 2, 5, 4), "b": normal(24)},
        attributes=attributes,
    )
    halves = {name: a.astype(F16) for name, a in (("q", q), ("k", k), ("v", v))}
    yield Row(kind, halves, close=5e-3, attributes=attributes)
    for causal in (0, 1):
        attributes = {"num_heads": 2, "unidirectional": causal}
        yield Row(kind, {"q": k, "k": k, "v": v}, attributes=attributes)
        for mask in (None, (normal(2, 3, 7) > -0.5).astype(np.int32)):
            given = {"q": q, "k": k[:, :3], "v": k[:, 1:4], "b": normal(24), "m": mask, "a": None}
            given |= {"pk": normal(2, 2, 4, 4), "pv": normal(2, 2, 4, 4, seed=1)}
            yield Row(kind, given, ("out", "keys", "values"), attributes=attributes)


def rotations():
    cos, sin = np.cos(normal(16, 4)), np.sin(normal(16, 4))
    pair = np.array([[0, 1, 2], [3, 4, 5]])
    for dtype, close in ((F32, 2e-5), (F16, 3e-3)):
        for interleaved in (0, 1):
            for shape, places, more in (
                ((2, 3, 16), pair, {}),
                ((2, 3, 16), np.array([2]), {}),
                ((2, 2, 3, 8), pair, {}),
                ((2, 3, 24), np.array([1]), {"num_heads": 2, "rotary_embedding_dim": 8}),
                ((2, 2, 3, 12), np.array([1]), {"num_heads": 2, "rotary_embedding_dim": 8}),
            ):
                given = {
                    "x": normal(*shape, dtype=dtype),
                    "p": places,
                    "c": cos.astype(dtype),
                    "s": sin.astype(dtype),
                }
                attributes = {"interleaved": interleaved, **more}
                yield Row("RotaryEmbedding", given, constants=("c", "s"), close=close, attributes=attributes)


def look_ups():
    ids = np.array([[1, 2, 3], [4, 5, 0]], np.int32)
    fixed, kind = tuple("wptgb"), "EmbedLayerNormalization"
    for opset in (11, 17):
        for mask in (None, np.array([[1, 1, 0], [1, 1, 1]], np.int32)):
            given = {
                "i": ids,
                "s": ids % 2,
                "w": normal(7, 8),
                "p": normal(9, 8),
                "t": normal(2, 8),
                "g": normal(8),
            }
            given |= {"b": normal(8), "m": mask}
            yield Row(kind, given, ("out", "counts"), fixed, opset)
            given |= {"s": None, "t": None, "z": np.array([[1, 2, 3]], np.int32)}
            yield Row(kind, given, ("out", "counts", "sum"), fixed, opset)
    ids = np.array([[1, 2], [6, -1]])
    for bits in (2, 4, 8):
        for zeros in (None, numbers(0, 256, 7, -(-2 * bits // 8))):
            given = {"d": numbers(0, 256, 7, 4 * bits), "i": ids, "s": scales(7, 2), "z": zeros}
            attributes = {"bits": bits, "block_size": 16, "gather_axis": 0, "quantize_axis": 1}
            yield Row("GatherBlockQuantized", given, constants=tuple("dsz"), attributes=attributes)
    for axis, along in ((0, 1), (1, 0), (0, 0)):
        table = (
            numbers(-8, 8, 32, 32)
            .astype(np.int64)
            .astype(helper.tensor_dtype_to_np_dtype(onnx.TensorProto.INT4))
        )
        given = {"d": table, "i": ids, "s": scales(32, 2) if along else scales(2, 32)}
        attributes = {"block_size": 16, "gather_axis": axis, "quantize_axis": along}
        yield Row("GatherBlockQuantized", given, constants=("d", "s"), attributes=attributes)


def weights_of_few_bits():
    rows, columns, block, blocks = 48, 5, 16, 3
    for bits in (2, 4, 8):
        packed = numbers(0, 256, columns, -(-blocks * bits // 8))
        for dtype, close in ((F32, 2e-5), (F16, 1e-2)):
            for zeros in (None, packed, numbers(0, 1 << bits, columns, blocks).astype(dtype)):
                if bits == 8 and zeros is not None and zeros is not packed:
                    continue  # which onnxruntime refuses
                given = {
                    "x": normal(2, 3, rows, dtype=dtype),
                    "q": numbers(0, 256, columns, blocks, block * bits // 8),
                    "s": scales(columns, blocks).astype(dtype),
                    "z": zeros,
                    "g": None,
                    "b": normal(columns, dtype=dtype),
                }
                attributes = {"K": rows, "N": columns, "bits": bits, "block_size": block}
                yield Row("MatMulNBits", given, constants=tuple("qszb"), close=close, attributes=attributes)
    for kind in (0, 1):
        given = {"x": normal(2, 3, 32), "q": numbers(0, 256, 80), "s": scales(10)}
        attributes = {"K": 32, "N": 5, "block_size": 16, "quant_type": kind}
        yield Row("MatMulBnb4", given, constants=("q", "s"), attributes=attributes)
    for count, direction in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
        for columns in ((), (16,)):
            given = {
                "x": normal(5, 2, 3),
                "w": numbers(-100, 100, count, 3, 16, dtype=np.int8),
                "r": numbers(-100, 100, count, 4, 16, dtype=np.int8),
                "b": normal(count, 32),
                **dict.fromkeys(("l", "h", "c", "p")),
                "ws": scales(count, *columns, factor=0.01),
                "wz": np.zeros((count, *columns), np.int8),
                "rs": scales(count, *columns, factor=0.01),
                "rz": np.zeros((count, *columns), np.int8),
            }
            fixed = ("w", "r", "b", "ws", "wz", "rs", "rz")
            attributes = {"hidden_size": 4, "direction": direction}
            # Its inputs and states have 8 bits there.
            yield Row(
                "DynamicQuantizeLSTM", given, ("out", "h1", "c1"), fixed, close=3e-2, attributes=attributes
            )


def grouped(
    batch, queries, before, total, last, *, packed=False, rotary=0, dtype=F32, more=None, **attributes
):
    """GroupQueryAttention of 4 heads for 2; what stands behind the ends of rows is nobody's."""
    heads, own, each = 4, 2, 16 if rotary else 8  # rotations of fewer are refused there
    parts = [
        normal(batch, queries, n * each, seed=n + s, dtype=dtype) for s, n in enumerate((heads, own, own))
    ]
    ends = np.array(last) + 1
    starts = ends - queries if queries != total else 0 * ends

    def valid(name, array):
        array = array.copy()
        for row in range(batch):
            (array[row, ends[row] - starts[row] :] if name == "out" else array[row, :, ends[row] :])[...] = 0
        return array

    given = {
        "q": np.concatenate(parts, -1) if packed else parts[0],
        "k": None if packed else parts[1],
        "v": None if packed else parts[2],
        "pk": None if before is None else normal(batch, own, before, each, seed=7, dtype=dtype),
        "pv": None if before is None else normal(batch, own, before, each, seed=8, dtype=dtype),
        "e": np.array(last, np.int32),
        "t": np.array(total, np.int32),
        "c": np.cos(normal(64, each // 2)).astype(dtype) if rotary else None,
        "s": np.sin(normal(64, each // 2)).astype(dtype) if rotary else None,
        **(more or {}),
    }
    attributes |= {"num_heads": heads, "kv_num_heads": own, "do_rotary": rotary}
    close = 2e-5 if dtype == F32 else 5e-3
    made = ("out", "keys", "values")
    return Row(
        "GroupQueryAttention", given, made, ("c", "s"), close=close, valid=valid, attributes=attributes
    )


def attention_with_caches():
    for rotary in (0, 1):
        for packed in (False, True):
            both = {"rotary": rotary, "packed": packed}
            for sizes in (
                *((2, 5, 0, 5, [4, 4]), (2, 5, None, 5, [4, 4]), (2, 5, 0, 5, [2, 4])),
                *((1, 1, 6, 7, [6]), (2, 1, 6, 7, [6, 3]), (1, 3, 4, 7, [6]), (1, 1, 16, 7, [6])),
            ):
                yield grouped(*sizes, **both)
            yield grouped(1, 1, 6, 7, [6], local_window_size=3, **both)
            yield grouped(1, 1, 4, 5, [4], dtype=F16, **both)
            for attributes in (
                {"local_window_size": 2, "softcap": 5.0, "scale": 0.3},
                {"rotary_interleaved": 1},
                {"smooth_softmax": 1},
                {"more": {"i": None, "a": normal(1, 4, 5, 5)}},
                {"more": {"i": None, "a": None, "sink": normal(4)}},
            ):
                yield grouped(1, 5, 0, 5, [4], **both, **attributes)


def on_integers():
    tensors = {"x": numbers(0, 255, 3, 4), "xs": F32(0.1), "xz": np.uint8(3)}
    second = {"y": numbers(0, 255, 4, 3).T.copy(), "ys": F32(0.05), "yz": np.uint8(7)}
    out = {"zs": F32(0.2), "zz": np.uint8(9)}
    fixed, close = ("xs", "xz", "ys", "yz", "zs", "zz"), 1e-2  # of 8 bits, one step
    for kind in ("QLinearAdd", "QLinearMul"):
        yield Row(kind, {**tensors, **second, **out}, constants=fixed, close=close)
    yield Row(
        "QLinearWhere", {"c": normal(3, 4) > 0, **tensors, **second, **out}, constants=fixed, close=close
    )
    yield Row(
        "QLinearConcat", {**out, **tensors, **second}, constants=fixed, attributes={"axis": 1}, close=close
    )
    out = {"zs": F32(1 / 256), "zz": np.uint8(0)}
    for kind, attributes in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1})):
        given = {**tensors, "xs": F32(0.02), "xz": np.uint8(100), **out}
        yield Row(kind, given, constants=fixed, attributes=attributes, close=close)
    for last in (0, 1):
        image = {"x": numbers(0, 255, 1, 6, 5, 4), "xs": F32(0.02), "xz": np.uint8(100)}
        out = {"zs": F32(0.02), "zz": np.uint8(100)}
        attributes = {"channels_last": last}
        yield Row(
            "QLinearGlobalAveragePool", {**image, **out}, constants=fixed, attributes=attributes, close=close
        )
        attributes = {**attributes, "kernel_shape": [2, 2]}
        yield Row("QLinearAveragePool", {**image, **out}, constants=fixed, attributes=attributes, close=close)
        channels = image["x"].shape[-1 if last else 1]
        weights = {
            # Two products stay below 2¹⁵: onnxruntime's convolutions saturate there on CPUs without VNNI.
            "w": numbers(-63, 63, 6, channels, 3, 3, dtype=np.int8),
            "ws": F32(0.02),
            "wz": np.int8(0),
        }
        given = {**image, **weights, "zs": F32(0.1), "zz": np.uint8(100)}
        attributes = {"channels_last": last, "kernel_shape": [3, 3], "pads": [1] * 4}
        yield Row("QLinearConv", given, constants=(*fixed, *weights), attributes=attributes, close=close)
    given = {"x": numbers(0, 255, 3, 4), "s": F32(0.05), "z": np.uint8(5)}
    yield Row("DequantizeLinear", given, constants=("s", "z"))
    yield Row("QuantizeLinear", {**given, "x": normal(3, 4)}, constants=("s", "z"), close=1e-2)
    yield Row("NhwcMaxPool", {"x": numbers(0, 255, 1, 6, 5, 4)}, attributes={"kernel_shape": [2, 2]})


def others():
    yield Row("Inverse", {"x": normal(2, 4, 4)}, close=1e-4)
    for metric in ("euclidean", "sqeuclidean"):
        yield Row("CDist", {"a": normal(3, 4), "b": normal(5, 4)}, attributes={"metric": metric})
    yield Row("Trilu", {"x": normal(4, 5), "k": np.array(1)}, attributes={"upper": 0})
    yield Row("ExpandDims", {"x": normal(4, 5), "k": np.array(-1, np.int32)}, constants=("k",))
    yield Row("Range", {"a": np.array(0), "b": np.array(5)}, constants=("a", "b"))
    given = {"x": normal(4, 5), "p": np.array([0, 1, 2, 0]), "v": np.array([2], F32)}
    yield Row("Pad", given, constants=("p",))
    yield Row("GatherND", {"x": normal(4, 5), "i": np.array([[1, 2]])})
    yield Row("Unique", {"x": np.array([2, 1, 1, 3, 4, 3], F32)}, ("out", "places", "counts"))
    given = {"x": normal(1, 2, 4, 5), "g": normal(1, 3, 3, 2, factor=0.5)}
    yield Row("GridSample", given, attributes={"align_corners": 1})
    yield Row("GridSample", given, opset=21, attributes={"mode": "bicubic", "padding_mode": "border"})


TABLES = (
    functions,
    products,
    attention,
    attention_of_several,
    rotations,
    look_ups,
    weights_of_few_bits,
    attention_with_caches,
    on_integers,
    others,
)
