"""Weights of 4 bits, and of 8 in blocks, in files of ONNX: they stay integers, and mean what ONNX's formula says."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from rows import each

onnx = pytest.importorskip("onnx")
helper, TensorProto = onnx.helper, onnx.TensorProto

TYPES = {
    "s4": (TensorProto.INT4, ml_dtypes.int4, -8, 8),
    "u4": (TensorProto.UINT4, ml_dtypes.uint4, 0, 16),
    "s8": (TensorProto.INT8, np.int8, -128, 128),
    "u8": (TensorProto.UINT8, np.uint8, 0, 256),
}


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def product(turned=False):
    graph = og.Graph()
    x, w = graph.input("x", "f32", [3, 96]), drawn(96, 40)
    held = graph.constant(w.T.copy() if turned else w, name="w")
    graph.output(graph.matmul(x, held, transpose_b=turned), name="y")
    return graph


@each("turned", [False, True])
@each("data_type", TYPES)
@each("group", [32, None])
def test_a_round_trip_keeps_the_integers(tmp_path, data_type, group, turned):
    graph = product(turned).quantize_weights(data_type, group=group)
    graph.to_onnx(tmp_path / "m.onnx")
    again = og.from_onnx(tmp_path / "m.onnx")
    wanted, got = graph.constants, again.constants
    assert {name: (a.dtype, a.shape) for name, a in got.items()} == {
        n: (a.dtype, a.shape) for n, a in wanted.items()
    }
    assert all(got[name].tobytes() == array.tobytes() for name, array in wanted.items())
    assert sorted(op.kind for op in again.ops if op.kind != "StaticTranspose") == [
        "DynamicDequantize",
        "MatMul",
    ]
    x = drawn(3, 96, seed=1)
    np.testing.assert_allclose(again.compile()(x)["y"], graph.compile()(x)["y"], rtol=1e-5, atol=1e-5)


def test_a_round_trip_in_bf16_keeps_the_integers(tmp_path):
    graph = product().to("bf16").quantize_weights("s4", group=32)
    graph.to_onnx(tmp_path / "m.onnx")
    again = og.from_onnx(tmp_path / "m.onnx")
    assert again.constants["w.s4"].dtype == ml_dtypes.int4
    x = drawn(3, 96, seed=1)
    exact = graph.compile(backend="numpy")(x)["y"]
    np.testing.assert_array_equal(again.compile(backend="numpy")(x)["y"], exact)
    for one in (graph, again):  # ONNX casts both factors to f32, for which kernels sum in another order
        np.testing.assert_allclose(one.compile()(x)["y"], exact, rtol=1e-5, atol=1e-5)


def dequantized(kind, shape, scale_shape, *, zero=True, constant=True, scales=np.float32, **attributes):
    """A file whose output is a DequantizeLinear, with its integers, scales and zero points."""
    number, dtype, low, high = TYPES[kind]
    data = np.random.default_rng(0)
    q = data.integers(low, high, shape)
    z = data.integers(low, high, scale_shape)
    s = data.integers(1, 5, scale_shape).astype(scales)
    held = {"q": (number, q), "s": (helper.np_dtype_to_tensor_dtype(np.dtype(scales)), s), "z": (number, z)}
    names = ["q", "s", *(["z"] if zero else [])]
    made = {
        name: helper.make_tensor(name, t, np.shape(a), np.ravel(a).tolist()) for name, (t, a) in held.items()
    }
    fed = [] if constant else [helper.make_tensor_value_info("q", number, list(shape))]
    output = attributes.get("output_dtype") or held["s"][0]
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", names, ["d"], **attributes),
            helper.make_node("Neg", ["d"], ["y"]),
        ],
        "g",
        [*fed, helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", output, list(shape))],
        [made[name] for name in names if constant or name != "q"],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    return model, q.astype(dtype), s, (z if zero else np.zeros_like(z))


FORMS = {
    "one scale": ((6, 8), (), {}),
    "one scale in a list": ((6, 8), (1,), {}),
    "by columns": ((6, 8), (8,), {"axis": 1}),
    "by rows": ((6, 8), (6,), {"axis": -2}),
    "blocks along rows": ((6, 8), (3, 8), {"axis": 0, "block_size": 2}),
    "blocks along columns": ((6, 8), (6, 2), {"axis": -1, "block_size": 4}),
    "blocks of three axes": ((2, 6, 4), (2, 3, 4), {"axis": 1, "block_size": 2}),
}


@each("zero", [False, True])
@each("constant", [False, True])
@each("form", FORMS)
@each("kind", TYPES)
def test_dequantisations_are_those_of_the_formula(kind, form, constant, zero):
    shape, scale_shape, attributes = FORMS[form]
    model, q, s, z = dequantized(kind, shape, scale_shape, zero=zero, constant=constant, **attributes)
    graph = og.from_onnx(model)
    if constant:
        assert q.dtype in [a.dtype for a in graph.constants.values()], "it became floating point"
    real = [np.asarray(one, np.float64) for one in (s, z)]
    if "block_size" in attributes:
        real = [one.repeat(attributes["block_size"], attributes["axis"]) for one in real]
    elif len(scale_shape) == 1 and scale_shape != (1,):
        wide = [-1 if axis == attributes["axis"] % len(shape) else 1 for axis in range(len(shape))]
        real = [one.reshape(wide) for one in real]
    feeds = {"x": np.ones(1, np.float32)} | ({} if constant else {"q": q})
    got = graph.compile()({name: feeds[name] for name in graph.input_names})["y"]
    np.testing.assert_array_equal(got, -(q.astype(np.float64) - real[1]) * real[0])


def test_blocks_that_do_not_divide_an_axis_are_right_too():
    model, q, s, z = dequantized("s4", (5, 8), (3, 8), axis=0, block_size=2)
    graph = og.from_onnx(model)
    real = [np.asarray(one, np.float64).repeat(2, 0)[:5] for one in (s, z)]
    got = graph.compile()({"x": np.ones(1, np.float32)})["y"]
    np.testing.assert_array_equal(got, -(q.astype(np.float64) - real[1]) * real[0])


def test_the_output_may_have_another_type_than_the_scales():
    model, q, s, z = dequantized("u8", (6, 8), (3, 8), axis=0, block_size=2, output_dtype=TensorProto.FLOAT16)
    got = og.from_onnx(model).compile()({"x": np.ones(1, np.float32)})["y"]
    real = [np.asarray(one, np.float64).repeat(2, 0) for one in (s, z)]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, -(q.astype(np.float64) - real[1]) * real[0])


@each("zero", [False, True])
@each("dtype", [np.float32, np.float16])
@each("bits", [4, 8])
def test_products_by_few_bits_keep_them(bits, dtype, zero):
    """MatMulNBits, of onnxruntime's own domain, where ONNX has types for its weights."""
    rows, columns, block, blocks = 48, 5, 16, 3
    data, each_byte = np.random.default_rng(0), 8 // bits
    q = data.integers(0, 1 << bits, (columns, blocks, block))
    z = (
        data.integers(0, 1 << bits, (columns, blocks))
        if zero
        else np.full((columns, blocks), 1 << (bits - 1))
    )
    s = data.integers(1, 5, (columns, blocks)).astype(dtype)

    def packed(numbers):
        wide = -(-numbers.shape[-1] // each_byte) * each_byte
        padded = np.zeros((*numbers.shape[:-1], wide), np.int64)
        padded[..., : numbers.shape[-1]] = numbers
        parts = padded.reshape(*numbers.shape[:-1], -1, each_byte) << (bits * np.arange(each_byte))
        return parts.sum(-1).astype(np.uint8)

    held = {"q": packed(q), "s": s.reshape(-1)} | ({"z": packed(z).reshape(-1)} if zero else {})
    x = data.integers(-2, 3, (4, rows)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    attributes = {"K": rows, "N": columns, "bits": bits, "block_size": block}
    node = helper.make_node("MatMulNBits", ["x", *held], ["y"], domain="com.microsoft", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, [4, rows])],
        [helper.make_tensor_value_info("y", kind, [4, columns])],
        [onnx.numpy_helper.from_array(array, name) for name, array in held.items()],
    )
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    imported = og.from_onnx(helper.make_model(graph, opset_imports=domains))
    kept = {4: ("int4", "uint4"), 8: ("int8", "uint8")}[bits][zero]
    assert kept in {str(array.dtype) for array in imported.constants.values()}
    assert [op.kind for op in imported.ops] == ["DynamicDequantize", "MatMul"]
    got = imported.compile()(x)["y"].astype("f8")
    w = ((q - z[..., None]) * s.astype("f8")[..., None]).reshape(columns, rows)
    np.testing.assert_allclose(got, x.astype("f8") @ w.T, rtol=2e-3 if dtype is np.float16 else 0)
