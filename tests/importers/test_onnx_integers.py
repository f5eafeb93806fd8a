"""`from_onnx`: products of 8-bit integers with scales that are computed at execution, to the last integer."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import expected_of, helper, model_of, onnx, rng


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
