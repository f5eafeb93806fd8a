"""`from_onnx`: ops on 8-bit integers, as onnxruntime's operator format has them."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import expected_of, helper, ints, model_of, scalar

CONTRIBUTED = "com.microsoft"


def u8(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def s8(*shape, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, shape, np.int8)


X, IMAGE = u8(2, 3, 4), u8(2, 4, 7, 5)
MOVES = {
    "max-pool": ("MaxPool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "transpose-s8": ("Transpose", [s8(2, 4, 7, 5)], [], {"perm": [0, 3, 1, 2]}),
    "reshape": ("Reshape", [X], [ints(4, 6)], {}),
    "flatten": ("Flatten", [X], [], {}),
    "transpose": ("Transpose", [X], [], {"perm": [2, 0, 1]}),
    "concat": ("Concat", [X, u8(2, 5, 4, seed=1)], [], {"axis": 1}),
    "concat-constant": ("Concat", [s8(2, 3, 4)], [s8(2, 5, 4, seed=1)], {"axis": 1}),
    "slice": ("Slice", [X], [ints(1), ints(3), ints(2)], {}),
    "gather": ("Gather", [X], [ints(2, 0)], {"axis": 1}),
    "gathernd": ("GatherND", [X], [np.array([[1, 2], [0, 1]])], {}),
    "squeeze": ("Squeeze", [X[:, :1]], [ints(1)], {}),
    "unsqueeze": ("Unsqueeze", [X], [ints(1)], {}),
    "expand": ("Expand", [X[:, :1]], [ints(2, 3, 4)], {}),
    "tile": ("Tile", [X], [ints(1, 2, 1)], {}),
    "split": ("Split", [X], [], {"axis": 2, "num_outputs": 2}),
}


@pytest.mark.parametrize("name", MOVES)
def test_elements_are_moved_exactly(name):
    kind, arrays, constants, attributes = MOVES[name]
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    outputs = ["y", "z"] if kind == "Split" else ["y"]
    model = model_of(
        [helper.make_node(kind, [*inputs, *values], outputs, **attributes)], inputs, outputs, values
    )
    results, expected = og.from_onnx(model).compile()(inputs), expected_of(model, inputs)
    for output in outputs:
        assert results[output].dtype == expected[output].dtype
        np.testing.assert_array_equal(results[output], expected[output])


A, B = (u8(16, 6), 0.5, 120), (s8(6, 5, seed=1), 0.25, -4)
LINEAR = {
    "conv": ("QLinearConv", "Conv", [(IMAGE, 0.5, 128), (s8(6, 4, 3, 3, seed=1), 0.25, 0)], {}),
    "conv-channels": (
        "QLinearConv",
        "Conv",
        [(IMAGE, 0.5, 128), (s8(6, 2, 3, 3, seed=1), [0.25, 0.5, 1, 0.125, 2, 0.5], [0] * 6)],
        {"group": 2, "pads": [1, 1, 1, 1], "strides": [2, 1]},
    ),
    "matmul": ("QLinearMatMul", "MatMul", [A, B], {}),
    "matmul-columns": (
        "QLinearMatMul",
        "MatMul",
        [A, (B[0], [0.25, 0.5, 1, 0.125, 2], [0, 2, -2, 1, 3])],
        {},
    ),
    "gemm": ("QGemm", "Gemm", [A, B], {}),
    "gemm-columns": (
        "QGemm",
        "Gemm",
        [A, (B[0].T.copy(), [0.25, 0.5, 1, 0.125, 2], [0, 2, -2, 1, 3])],
        {"transB": 1, "alpha": 2.0},
    ),
    "add": ("QLinearAdd", "Add", [(X, 0.5, 12), (u8(3, 1, seed=1), 2.0, 200)], {}),
    "mul": ("QLinearMul", "Mul", [(X, 0.5, 12), (u8(2, 3, 4, seed=1), 0.25, 200)], {}),
    "average": (
        "QLinearAveragePool",
        "AveragePool",
        [(IMAGE, 0.5, 12)],
        {"kernel_shape": [2, 2], "count_include_pad": 1},
    ),
    "global-average": ("QLinearGlobalAveragePool", "GlobalAveragePool", [(u8(4, 16, 2, 2), 0.5, 12)], {}),
    "leaky": ("QLinearLeakyRelu", "LeakyRelu", [(X, 0.5, 100)], {"alpha": 0.25}),
    "sigmoid": ("QLinearSigmoid", "Sigmoid", [(X, 1 / 16, 128)], {}),
    "softmax": ("QLinearSoftmax", "Softmax", [(X, 1 / 16, 128)], {"axis": 1}),
    "concat": ("QLinearConcat", "Concat", [(X, 0.5, 12), (u8(2, 1, 4, seed=1), 4.0, 100)], {"axis": 1}),
}
BIASED = ("conv", "conv-channels", "gemm", "gemm-columns")
FRACTIONS = ("sigmoid", "softmax")


@pytest.mark.parametrize(("name", "bias"), [*((n, False) for n in LINEAR), *((n, True) for n in BIASED)])
def test_what_integers_stand_for(name, bias):
    """Scales are powers of two, sums are exact, and the output's zero point is even: each result must agree."""
    kind, base, tensors, attributes = LINEAR[name]
    inputs, values, triples = {}, {}, []
    for number, (array, scale, zero) in enumerate(tensors):
        (values if array.dtype == np.int8 else inputs)[f"x{number}"] = array
        values[f"s{number}"], values[f"z{number}"] = np.float32(scale), np.asarray(zero, array.dtype)
        triples.append([f"x{number}", f"s{number}", f"z{number}"])
    products = base in ("Conv", "MatMul", "Gemm", "Mul")
    values["so"] = np.float32(1 / 256 if name in FRACTIONS else 32.0 if products else 2.0)
    values["zo"] = scalar(0 if name in FRACTIONS else 100, np.uint8)
    if bias:
        values["b"] = np.random.default_rng(9).integers(-500, 500, 6 if base == "Conv" else 5, np.int32)
    listed = [one for triple in triples for one in triple]
    if kind == "QLinearConcat":
        listed = ["so", "zo", *listed]
    elif kind == "QGemm":
        listed += ["b" if bias else "", "so", "zo"]
    else:
        listed += ["so", "zo", *(["b"] if bias else [])]
    domain = "" if kind in ("QLinearConv", "QLinearMatMul") else CONTRIBUTED
    more = {"opset": 13} if kind == "QLinearSoftmax" else {}
    model = model_of(
        [helper.make_node(kind, listed, ["y"], domain=domain, **attributes, **more)], inputs, ["y"], values
    )
    imported = og.from_onnx(model)
    result = imported.compile()(inputs)["y"]

    plain, floats = [], []
    for (x, s, z), (array, _, _) in zip(triples, tensors, strict=True):
        axis = 0 if base == "Conv" or attributes.get("transB") else array.ndim - 1
        plain.append(helper.make_node("DequantizeLinear", [x, s, z], [f"{x}f"], axis=axis))
        floats.append(f"{x}f")
    if bias:
        scale = np.atleast_1d(values["s0"]) * np.atleast_1d(values["s1"]) * attributes.get("alpha", 1.0)
        values["bf"] = (values["b"] * scale).astype(np.float32)
        floats.append("bf")
    plain.append(helper.make_node(base, floats, ["f"], **attributes))
    plain.append(helper.make_node("QuantizeLinear", ["f", "so", "zo"], ["y"]))
    expected = expected_of(model_of(plain, inputs, ["y"], values), inputs)["y"]
    assert len(np.unique(expected)) > 8
    np.testing.assert_array_equal(result, expected)


def test_an_output_of_other_bits_is_refused():
    values = {"s": scalar(0.5), "z": scalar(3, np.uint8), "so": scalar(0.5), "zo": scalar(0, np.int16)}
    node = helper.make_node("QLinearSigmoid", ["x", "s", "z", "so", "zo"], ["y"], domain=CONTRIBUTED)
    with pytest.raises(og.UnsupportedError, match="an output that is neither s8 nor u8"):
        og.from_onnx(model_of([node], {"x": IMAGE}, ["y"], values))
