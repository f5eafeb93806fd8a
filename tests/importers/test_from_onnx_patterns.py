"""`from_onnx`: what belongs together in a model becomes one op, or goes."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import (
    I64,
    IR,
    NEWEST,
    X,
    check,
    close,
    expected_of,
    helper,
    integers,
    ints,
    model_of,
    normal,
    numpy_helper,
    onnx,
    rng,
    scalar,
)

ROOT = np.float32(np.sqrt(2))

GELUS = {  # op and operands, in order; _ is what the op before has made
    "division first": "Div x root, Erf, Add _ one, Mul x _, Mul _ half",
    "half first": "Mul x half > h, Div x root, Erf, Add one _, Mul h _",
    "half of the sum": "Mul x inverse, Erf _, Add _ one, Mul half _, Mul _ x",
    "divided by two": "Mul inverse x, Erf _, Add _ one, Mul _ x, Div _ two",
}

NUMBERS = {
    "root": ROOT,
    "inverse": 1 / ROOT,
    "half": np.float32(0.5),
    "one": np.float32(1),
    "two": np.float32(2),
}


def nodes_of(recipe):
    """The nodes, and the name of what they make."""
    nodes, last = [], "x"
    for number, line in enumerate(recipe.split(", ")):
        call, _, kept = line.partition(" > ")
        kind, *operands = call.split(" ")
        out = kept or f"t{number}"
        nodes.append(helper.make_node(kind, [last if o == "_" else o for o in operands or ["_"]], [out]))
        last = last if kept else out
    return nodes, last


@pytest.mark.parametrize("name", GELUS)
def test_gelu_written_with_erf(name):
    nodes, last = nodes_of(GELUS[name])
    constants = {key: np.asarray(value) for key, value in NUMBERS.items()}
    model = model_of(nodes, {"x": X}, [last], constants)
    check(model, {"x": X}, kinds=["GELU"])


def test_gelu_written_with_erf_of_a_constant():
    nodes, last = nodes_of(GELUS["division first"].replace("x", "c"))
    nodes.append(helper.make_node("Add", ["x", last], ["y"]))
    constants = {key: np.asarray(value) for key, value in NUMBERS.items()}
    check(model_of(nodes, {"x": X}, ["y"], {**constants, "c": normal(4)}), {"x": X}, kinds=["Add"])


@pytest.mark.parametrize("changed", ["half", "one", "root"])
def test_what_looks_like_gelu_but_is_not(changed):
    nodes, last = nodes_of(GELUS["division first"])
    constants = {key: np.asarray(value) for key, value in NUMBERS.items()}
    constants[changed] = np.asarray(constants[changed] * np.float32(1.01))
    imported = check(model_of(nodes, {"x": X}, [last], constants), {"x": X})
    assert "HostErf" in [op.kind for op in imported.ops]


def softmax_without_nan(test="s", instead="zero"):
    return [
        helper.make_node("Softmax", ["x"], ["s"], axis=1),
        helper.make_node("IsNaN", [test], ["n"]),
        helper.make_node("Where", ["n", instead, "s"], ["y"]),
    ]


def test_a_softmax_with_zeros_for_nan():
    """Rows that an attention mask leaves out altogether."""
    x = normal(3, 4, 5)
    x[0, :, 1], x[1, 2:, 3] = -np.inf, -np.inf
    zero = {"zero": np.asarray(0, np.float32)}
    imported = check(model_of(softmax_without_nan(), {"x": x}, ["y"], zero), {"x": x}, kinds=["SoftMax"])
    assert imported.ops[0].attributes["mode"] == "inf_as_zero"
    assert (imported.compile()(x)["y"][0, :, 1] == 0).all()


def test_a_softmax_with_zeros_for_nan_of_a_constant():
    x, c = normal(3), normal(2, 4, 3)
    c[1, :, 2] = -np.inf
    nodes = [*softmax_without_nan(), helper.make_node("Add", ["y", "z"], ["w"])]
    constants = {"x": c, "zero": np.asarray(0, np.float32)}
    check(model_of(nodes, {"z": x}, ["w"], constants), {"z": x}, kinds=["Add"])


@pytest.mark.parametrize(("test", "instead"), [("x", "zero"), ("s", "one")])
def test_what_looks_like_a_softmax_with_zeros_but_is_not(test, instead):
    x = normal(2, 4, 3)
    x[0, :, 0] = -np.inf
    constants = {"zero": np.asarray(0, np.float32), "one": np.asarray(1, np.float32)}
    model = model_of(softmax_without_nan(test, instead), {"x": x}, ["y"], constants)
    check(model, {"x": x}, kinds=["SoftMax", "HostIsNaN", "Select"])


def test_padding_goes_into_the_convolution():
    x, w = normal(1, 3, 6, 5), normal(4, 3, 3, 3, seed=1)
    pads = ints(0, 0, 1, 0, 0, 0, 2, 1)
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["h"]),
        helper.make_node("Conv", ["h", "w"], ["y"], strides=[2, 2]),
    ]
    model = model_of(nodes, {"x": x}, ["y"], {"p": pads, "w": w})
    (op,) = check(model, {"x": x}, kinds=["Convolution"]).ops
    assert op.attributes["pads_begin"] == (1, 0)
    assert op.attributes["pads_end"] == (2, 1)


def test_padding_before_something_else_is_done():
    x = normal(1, 3, 6)
    nodes = [helper.make_node("Pad", ["x", "p"], ["h"]), helper.make_node("Exp", ["h"], ["y"])]
    check(model_of(nodes, {"x": x}, ["y"], {"p": ints(0, 0, 1, 0, 0, 2)}), {"x": x}, kinds=["Concat", "Exp"])


def test_reshapes_in_a_row_are_one():
    x = normal(2, 3, 4)
    nodes = [
        helper.make_node("Flatten", ["x"], ["a"]),
        helper.make_node("Unsqueeze", ["a", "one"], ["b"]),
        helper.make_node("Reshape", ["b", "shape"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    constants = {"one": ints(1), "shape": ints(4, 6)}
    check(model_of(nodes, {"x": x}, ["y"], constants), {"x": x}, kinds=["StaticReshape", "ReLU"], exact=True)


def test_shape_arithmetic_is_folded():
    """Shape → Gather → Concat → Reshape, as exporters write a flatten."""
    x = normal(2, 3, 4)
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["h"]),
        helper.make_node("Range", ["zero", "five", "one"], ["r"]),
        helper.make_node("Cast", ["r"], ["rf"], to=onnx.TensorProto.FLOAT),
        helper.make_node("ConstantOfShape", ["size"], ["c"], value=helper.make_tensor("v", 1, [1], [2.0])),
        helper.make_node("Size", ["x"], ["count"]),
        helper.make_node("Cast", ["count"], ["countf"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Add", ["h", "c"], ["h2"]),
        helper.make_node("Mul", ["h2", "countf"], ["y"]),
        helper.make_node("ReduceSum", ["rf"], ["total"], keepdims=0),
    ]
    constants = {
        "zero": scalar(0, I64),
        "axes": ints(0),
        "rest": ints(-1),
        "five": scalar(5, I64),
        "one": scalar(1, I64),
        "size": ints(12),
    }
    model = model_of(nodes, {"x": x}, ["y", "total"], constants)
    imported = check(model, {"x": x}, kinds=["StaticReshape", "Add", "Multiply"])
    assert imported.output_names == ("y", "total")
    assert imported.outputs[1].property_type == "constant"
    np.testing.assert_array_equal(imported.constants["total"], 10)


def test_constant_nodes():
    x = normal(2, 3)
    nodes = [
        helper.make_node("Constant", [], ["a"], value=numpy_helper.from_array(normal(3), "t")),
        helper.make_node("Constant", [], ["b"], value_float=2.0),
        helper.make_node("Constant", [], ["c"], value_ints=[3, 2]),
        helper.make_node("Mul", ["x", "a"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["h2"]),
        helper.make_node("Reshape", ["h2", "c"], ["y"]),
    ]
    check(model_of(nodes, {"x": x}, ["y"]), {"x": x})


@pytest.mark.parametrize("opset", [NEWEST, 19, 17, 13, 11])
def test_a_quantised_convolution_stays_quantised(opset):
    """s8 weights are not turned into f32 while importing, and the sums are exact.

    ONNX's reference has dequantisation since opset 19, and constant s32 biases must be dequantised in older models too.
    """
    x = rng().integers(0, 16, (1, 4, 6, 6), np.uint8)
    w = rng(1).integers(-3, 4, (5, 4, 3, 3), np.int8)
    b = rng(2).integers(-9, 9, 5, np.int32)
    zero8, zero32 = scalar(0, np.int8), scalar(0, np.int32)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "one", "z"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "one", "zw"], ["wf"]),
        helper.make_node("DequantizeLinear", ["b", "one", "zb"], ["bf"]),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["h"]),
        helper.make_node("QuantizeLinear", ["h", "four", "zo"], ["y"]),
    ]
    constants = {
        "one": scalar(1),
        "z": scalar(0, np.uint8),
        "w": w,
        "zw": zero8,
        "b": b,
        "zb": zero32,
        "four": scalar(4),
        "zo": zero8,
    }
    imported = og.from_onnx(model_of(nodes, {"x": x}, ["y"], constants, opset=opset))
    assert [op.kind for op in imported.ops] == ["Dequantize", "Dequantize", "Convolution", "Quantize"]
    assert imported.constants["w"].dtype == np.int8
    expected = expected_of(model_of(nodes, {"x": x}, ["y"], constants), {"x": x})["y"]
    np.testing.assert_array_equal(imported.compile()(x)["y"], expected)


def test_quantisation_differs_from_the_reference_in_the_middle_only():
    """Quantize rounds the sum: with an odd zero point the halves go the other way, by one."""
    x = np.arange(-40, 40, dtype=np.float32) / 4
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"])
    for zero in (0, 6, 7):
        model = model_of([node], {"x": x}, ["y"], {"s": scalar(0.5), "z": scalar(zero, np.int8)})
        y, want = og.from_onnx(model).compile()(x)["y"], expected_of(model, {"x": x})["y"]
        differs = y != want
        assert (differs == (zero % 2 * ((2 * x) % 1 == 0.5) != 0)).all()
        assert np.abs(y.astype("i4") - want).max() == zero % 2


def test_functions_of_the_model_are_inlined():
    x = normal(2, 3)
    opsets = [helper.make_opsetid("", NEWEST)]
    body = [helper.make_node("Exp", ["a"], ["h"]), helper.make_node("Add", ["h", "a"], ["b"])]
    function = helper.make_function("local", "twice", ["a"], ["b"], body, opsets)
    node = helper.make_node("twice", ["x"], ["y"], domain="local")
    info = helper.make_tensor_value_info("x", 1, [2, 3])
    out = helper.make_tensor_value_info("y", 1, [2, 3])
    model = helper.make_model(
        helper.make_graph([node], "g", [info], [out]),
        functions=[function],
        ir_version=IR,
        opset_imports=[*opsets, helper.make_opsetid("local", 1)],
    )
    close(og.from_onnx(model).compile()(x)["y"], np.exp(x) + x)


def test_an_integer_network_is_exact():
    """Convolution, ReLU, a skip connection, pooling and a product: small integers, bit for bit."""
    x = integers(2, 4, 8, 8)
    constants = {
        "w1": integers(8, 4, 3, 3, seed=1),
        "b1": integers(8, seed=2),
        "w2": integers(8, 8, 3, 3, seed=3),
        "w3": integers(8 * 4 * 4, 10, seed=4, low=-1, high=2),
        "b3": integers(10, seed=5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c2", "r1"], ["s"]),
        helper.make_node("Relu", ["s"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"]),
    ]
    imported = check(model_of(nodes, {"x": x}, ["y"], constants), {"x": x}, exact=True)
    assert sorted(imported.constants) == sorted(constants)
