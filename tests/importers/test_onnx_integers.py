"""`from_onnx`: products of 8-bit integers with scales that are computed at execution, to the last integer."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import expected_of, helper, model_of, onnx, rng
from strategies import has_isa


def bytes_of(dtype, *shape, seed=0):
    info = np.iinfo(dtype)
    return rng(seed).integers(info.min, info.max + 1, shape).astype(dtype)


def checked(node, inputs, constants):
    """The result of a graph, which must be ONNX's own to the last integer."""
    model = model_of([node], inputs, list(node.output), constants)
    graph = og.from_onnx(model)
    assert type(graph) is og.Graph
    assert not any(op.kind == "HostOnnx" for op in graph.ops)
    made = graph.compile()(inputs)
    for name, wanted in expected_of(model, inputs).items():
        np.testing.assert_array_equal(made[name], wanted, strict=True)


@pytest.mark.parametrize("kind", ["u1", "i1"])
@pytest.mark.parametrize("inner", [7, 900])
def test_products(kind, inner):
    """Sums over 900 elements leave f32's integers: as one sum they would be wrong."""
    a, b = bytes_of("u1", 2, 5, inner), bytes_of(kind, inner, 6, seed=1)
    b[:, 0], a[0, 0] = np.iinfo(kind).max, 255
    zero, zeros = np.asarray(3, "u1"), bytes_of(kind, 6, seed=2)
    node = helper.make_node("MatMulInteger", ["a", "b", "z", "y"], ["o"])
    checked(node, {"a": a}, {"b": b, "z": zero, "y": zeros})
    checked(node, {"a": a, "z": zero}, {"b": b, "y": zeros[0]})
    checked(helper.make_node("MatMulInteger", ["a", "b"], ["o"]), {"a": a, "b": b}, {})


@pytest.mark.parametrize("kind", ["u1", "i1"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 30), (30, 6)),
        ((2, 3, 5, 700), (700, 6)),
        ((30,), (30, 6)),
        ((4, 30), (30,)),
        ((3, 5, 30), (3, 30, 6)),
    ],
    ids=str,
)
def test_products_with_constant_weights(left, right, known, kind):
    """x · w less z · Σ w; and more for all weights where they and their zero points don't fit s8 together."""
    a, weights = bytes_of(kind, *left), bytes_of("i1", *right, seed=1)
    unsigned = (weights // 2).view("u1") ^ 128
    cases = [(weights, np.int8(0)), (unsigned, np.uint8(128)), (weights.view("u1"), np.uint8(9))]
    cases += [(np.full(right, 255, "u1"), np.uint8(0)), (np.full(right, 127, "i1"), np.int8(-128))]
    if len(right) > 1:
        cases += [(weights.view("u1"), bytes_of("u1", 6, seed=3)), (weights, bytes_of("i1", 6, seed=3))]
    for w, points in cases:
        zeros = [np.asarray(np.iinfo(kind).max, kind)]
        if len(left) == 2:
            zeros.append(bytes_of(kind, left[0], seed=2))
        for zero in zeros:
            held = {"b": w, "y": np.asarray(points)} | ({"z": zero} if known else {})
            given = {"a": a} | ({} if known else {"z": zero})
            model = model_of(
                [helper.make_node("MatMulInteger", ["a", "b", "z", "y"], ["o"])], given, ["o"], held
            )
            rows = zero.astype("i8").reshape(-1, 1) if zero.ndim else zero.astype("i8")
            wanted = (a.astype("i8") - rows) @ (w.astype("i8") - points.astype("i8"))
            got = og.from_onnx(model).compile()(given)["o"]
            np.testing.assert_array_equal(got, wanted.astype("i4"), strict=True)


@pytest.mark.parametrize("point", [0, 100])
def test_products_run_on_integers(point, onednn):
    """Weights of 7 bits do, with zero points of theirs, and of the data, which are found at execution."""
    if has_isa("avx512_core") and not has_isa("avx512_core_vnni"):
        pytest.skip("kernels of AVX-512 without VNNI are given no integers")
    x, w = rng(0).standard_normal((4, 96)).astype("f4"), (bytes_of("i1", 96, 24) // 2).astype("i1")
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "p"], ["o"]),
    ]
    model = model_of(nodes, {"x": x}, ["o", "q", "z"], {"w": w, "p": np.asarray(point, "i1")})
    compiled = og.from_onnx(model).compile()
    got = compiled({"x": x})
    wanted = (got["q"].astype("i4") - got["z"]) @ (w.astype("i4") - point)
    np.testing.assert_array_equal(got["o"], wanted, strict=True)
    steps = [step.name for one in compiled.explain().values() for step in one.steps if not step.prepared]
    matmuls = [step for one in compiled.explain().values() for step in one.steps if "matmul" in step.name]
    assert matmuls
    assert not any(one.implementation.endswith("f32") for one in matmuls)
    assert point or not any("dequantize" in name for name in steps), steps


@pytest.mark.parametrize("channels", [4, 200])
def test_convolutions(channels):
    x, w = bytes_of("u1", 2, channels, 6, 7), bytes_of("u1", 4, channels, 3, 2, seed=1)
    w[0], x[0] = 255, 255
    node = helper.make_node("ConvInteger", ["x", "w", "z", "y"], ["o"], pads=[1, 0, 0, 1], strides=[2, 1])
    inputs = {"x": x, "z": np.asarray(7, "u1")}
    zero = np.asarray(1, "u1")
    model = model_of([node], inputs, ["o"], {"w": w, "y": zero})
    made = og.from_onnx(model).compile()(inputs)["o"]
    padded = np.pad(x.astype("i8") - 7, ((0, 0), (0, 0), (1, 0), (0, 1)))
    wanted = sum(
        np.einsum("nchw,oc->nohw", padded[:, :, i : i + 5 : 2, j : j + 7], w[..., i, j].astype("i8") - 1)
        for i in range(3)
        for j in range(2)
    )
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("shift", [0, 5, -5])
def test_dynamic_quantisation(shift):
    x = rng(shift + 9).standard_normal((3, 40)).astype("f4") + np.float32(shift)
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    checked(node, {"x": x}, {})


def test_dynamic_quantisation_of_zeros():
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])
    x = np.zeros((2, 3), np.float32)
    made = og.from_onnx(model_of([node], {"x": x}, ["y", "s", "z"])).compile()(x)
    assert not made["y"].any()
    assert not made["z"]


def test_layers_of_open_lengths():
    """As onnxruntime's dynamic quantisation writes a linear layer."""
    w, scale = bytes_of("i1", 16, 8), np.float32(0.01)
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z", "y"], ["p"]),
        helper.make_node("Cast", ["p"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["s", "t"], ["u"]),
        helper.make_node("Mul", ["f", "u"], ["o"]),
    ]
    x = rng(0).standard_normal((2, 5, 16)).astype("f4")
    constants = {"w": w, "y": np.asarray(0, "i1"), "t": np.asarray(scale)}
    model = model_of(nodes, {"x": x}, ["o"], constants, shapes={"x": ["n", "t", 16]})
    compiled = og.from_onnx(model).compile()
    for part in (x, x[:, :3], x[:1]):
        wanted = part @ (w * scale)
        step = np.ptp(part) / 255
        np.testing.assert_allclose(compiled(part)["o"], wanted, atol=step * np.abs(w * scale).sum(0).max())
