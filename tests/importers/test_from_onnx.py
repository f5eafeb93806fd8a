"""`from_onnx`: each op against ONNX's own reference, and what models are made of."""

import sys

import numpy as np
import onednn_graph as og
import pytest

onnx = pytest.importorskip("onnx", reason="these tests need the package onnx; install the extra 'onnx'")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
reference = pytest.importorskip("onnx.reference", reason="onnx has no reference evaluator here")

from onednn_graph.graph.importers.onnx_quantized import TABLE  # noqa: E402 -- onnx comes first

NEWEST = min(onnx.defs.onnx_opset_version(), 24)
IR = 10


def rng(seed=0):
    return np.random.default_rng(seed)


def model_of(nodes, inputs, outputs, constants=None, opset=NEWEST, shapes=None, **more):
    """A model; inputs are arrays, whose types and shapes it has (or `shapes`, by name), constants initializers."""
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(a.dtype), (shapes or {}).get(name, a.shape)
        )
        for name, a in inputs.items()
    ]
    graph = helper.make_graph(
        nodes, "test", infos, [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR, **more)


def expected_of(model, inputs):
    names = [o.name for o in model.graph.output]
    return dict(zip(names, reference.ReferenceEvaluator(model).run(None, dict(inputs)), strict=True))


def close(result, expected, rtol=1e-5):
    """Equal up to `rtol` of the largest element: f32 has 2⁻²⁴, and sums here have some hundred terms at most."""
    expected = np.asarray(expected)
    rtol = 2e-3 if expected.dtype == np.float16 else rtol  # of 2⁻¹¹, and the reference rounds in between
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0) if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(
        result.astype("f8"), expected.astype("f8"), rtol=0, atol=rtol * max(float(scale), 1e-3)
    )


def check(model, inputs, *, rtol=1e-5, exact=False, kinds=None):
    """Runs it and compares with the reference; returns what was imported."""
    imported = og.from_onnx(model)
    if kinds is not None:
        assert [op.kind for op in imported.graph.ops] == kinds
    compiled = imported.compile()
    assert set(compiled.inputs) == set(inputs)
    results = compiled(**inputs)
    expected = expected_of(model, inputs)
    assert list(results) == list(expected)
    for name, want in expected.items():
        if exact:
            assert results[name].dtype == want.dtype
            np.testing.assert_array_equal(results[name], want)
        else:
            close(results[name], want, rtol)
    return imported


def normal(*shape, seed=0, dtype=np.float32):
    return rng(seed).standard_normal(shape).astype(dtype)


def positive(*shape, seed=0):
    return (0.5 + rng(seed).random(shape)).astype(np.float32)


def integers(*shape, seed=0, low=-4, high=5):
    return rng(seed).integers(low, high, shape).astype(np.float32)


# --- one op at a time -----------------------------------------------------------------------------------

X = normal(2, 3, 4)
IMAGE = normal(2, 4, 7, 6)
QKV = [normal(2, 3, 5, 8), normal(2, 3, 7, 8, seed=1), normal(2, 3, 7, 6, seed=2)]
I64 = np.int64


def ints(*values):
    return np.array(values, np.int64)


def scalar(value, dtype=np.float32):
    return np.array(value, dtype)


# op, inputs, constants (by position after the inputs), attributes
UNARY = [
    *[(kind, X) for kind in ("Relu", "Sigmoid", "Tanh", "Exp", "Abs", "Softplus", "Mish", "HardSwish", "Neg",
                             "LeakyRelu", "Elu", "Selu", "Celu", "Softsign", "HardSigmoid", "Identity", "Round")],
    *[(kind, positive(2, 3, 4)) for kind in ("Log", "Sqrt", "Reciprocal")],
]  # fmt: skip


@pytest.mark.parametrize(("kind", "x"), UNARY, ids=[kind for kind, _ in UNARY])
def test_functions_of_one_tensor(kind, x):
    opset = 18 if kind in ("Mish", "HardSwish") else NEWEST
    if kind == "Identity":
        nodes = [helper.make_node("Identity", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    else:
        nodes = [helper.make_node(kind, ["x"], ["y"])]
    check(model_of(nodes, {"x": x}, ["y"], opset=opset), {"x": x})


CASES = {
    "leaky": ("LeakyRelu", [X], [], {"alpha": 0.3}),
    "elu": ("Elu", [X], [], {"alpha": 1.7}),
    "celu": ("Celu", [X], [], {"alpha": 2.0}),
    "hard-sigmoid": ("HardSigmoid", [X], [], {"alpha": 0.3, "beta": 0.4}),
    "gelu-erf": ("Gelu", [X], [], {}),
    "gelu-tanh": ("Gelu", [X], [], {"approximate": "tanh"}),
    "swish": ("Swish", [X], [], {"alpha": 1.5}) if NEWEST >= 24 else ("Gelu", [X], [], {}),
    "prelu-channels": ("PRelu", [IMAGE, normal(4, 1, 1)], [], {}),
    "prelu-last-axis": ("PRelu", [IMAGE, normal(6)], [], {}),
    "clip": ("Clip", [X], [scalar(-0.5), scalar(0.5)], {}),
    "clip-relu6": ("Clip", [X], [scalar(0), scalar(6)], {}),
    "clip-low": ("Clip", [X], [scalar(0.25)], {}),
    "add": ("Add", [X, normal(3, 1, seed=1)], [], {}),
    "add-constant": ("Add", [X], [normal(4, seed=1)], {}),
    "sub": ("Sub", [X, normal(4, seed=1)], [], {}),
    "mul": ("Mul", [X, normal(2, 1, 4, seed=1)], [], {}),
    "div": ("Div", [X, positive(3, 1)], [], {}),
    "pow-2": ("Pow", [X], [scalar(2)], {}),
    "pow-int": ("Pow", [X], [scalar(3, I64)], {}),
    "pow-half": ("Pow", [positive(2, 3)], [scalar(0.5)], {}),
    "pow-1.7": ("Pow", [positive(2, 3)], [scalar(1.7)], {}),
    "max": ("Max", [X, normal(2, 3, 4, seed=1), normal(4, seed=2)], [], {}),
    "min": ("Min", [X], [normal(3, 4, seed=1)], {}),
    "sum": ("Sum", [X, normal(2, 3, 4, seed=1), normal(2, 3, 4, seed=2)], [], {}),
    "mean": ("Mean", [X, normal(2, 3, 4, seed=1)], [], {}),
    "where": ("Where", [rng().random((2, 1, 4)) > 0.5, X, normal(3, 1, seed=1)], [], {}),
    "where-constant": ("Where", [rng().random((2, 3, 4)) > 0.5, X], [scalar(-1e9)], {}),
    "greater-or-equal": ("GreaterOrEqual", [integers(3, 4), integers(3, 4, seed=1)], [], {}),
    "less-or-equal": ("LessOrEqual", [integers(3, 4), integers(3, 4, seed=1)], [], {}),
    "cast": ("Cast", [X], [], {"to": onnx.TensorProto.FLOAT16}),
    "matmul": ("MatMul", [normal(2, 1, 3, 4), normal(5, 4, 6, seed=1)], [], {}),
    "matmul-vector": ("MatMul", [normal(3, 4), normal(4, seed=1)], [], {}),
    "gemm": ("Gemm", [normal(3, 4)], [normal(4, 5, seed=1), normal(5, seed=2)], {}),
    "gemm-transposed": ("Gemm", [normal(4, 3)], [normal(5, 4, seed=1), normal(5, seed=2)], {"transA": 1, "transB": 1}),
    "gemm-scaled": ("Gemm", [normal(3, 4)], [normal(4, 5, seed=1), normal(3, 1)], {"alpha": 0.5, "beta": 2.0}),
    "reshape": ("Reshape", [X], [ints(4, -1)], {}),
    "reshape-zero": ("Reshape", [X], [ints(0, -1)], {}),
    "flatten": ("Flatten", [IMAGE], [], {}),
    "flatten-2": ("Flatten", [IMAGE], [], {"axis": 2}),
    "flatten-0": ("Flatten", [IMAGE], [], {"axis": 0}),
    "transpose": ("Transpose", [X], [], {"perm": [1, 2, 0]}),
    "transpose-all": ("Transpose", [X], [], {}),
    "squeeze": ("Squeeze", [normal(2, 1, 3, 1)], [ints(1, -1)], {}),
    "squeeze-all": ("Squeeze", [normal(2, 1, 3, 1)], [], {}),
    "unsqueeze": ("Unsqueeze", [X], [ints(0, -1)], {}),
    "expand": ("Expand", [normal(2, 1, 4)], [ints(3, 1, 5, 1)], {}),
    "tile": ("Tile", [normal(2, 3)], [ints(2, 3)], {}),
    "concat": ("Concat", [X, normal(2, 5, 4, seed=1)], [], {"axis": -2}),
    "batch-norm-f16": ("BatchNormalization", [IMAGE.astype("f2")],
                       [np.ones(4, "f2"), np.zeros(4, "f2"), np.zeros(4, "f2"), np.ones(4, "f2")], {}),
    "cast-like": ("CastLike", [X, normal(1).astype("f2")], [], {}),
    "concat-many": ("Concat", [normal(2, 1, seed=i) for i in range(70)], [], {"axis": 1}),
    "concat-constant": ("Concat", [X], [normal(2, 1, 4), normal(2, 2, 4)], {"axis": 1}),
    "expand-axis": ("Expand", [X], [ints(1, 2, 1, 1)], {}),
    "transpose-of-ones": ("Transpose", [normal(2, 1, 3)], [], {"perm": [1, 0, 2]}),
    "add-f64": ("Add", [X.astype("f8")], [normal(4).astype("f8")], {}),
    "softmax-f16": ("Softmax", [X.astype("f2")], [], {}),
    "max-pool-without-batch": ("MaxPool", [normal(2, 6, 4)], [], {"kernel_shape": [2]}),
    "conv-transpose-valid": ("ConvTranspose", [IMAGE], [normal(4, 5, 3, 2, seed=1)], {"auto_pad": "VALID"}),
    "gather-2d": ("Gather", [X], [np.array([[0, 1], [2, 3]])], {"axis": 2}),
    "pad": ("Pad", [X], [ints(0, 1, 0, 2, 0, 3)], {}),
    "pad-value": ("Pad", [X], [ints(0, 1, 0, 2, 0, 3), scalar(1.5)], {}),
    "slice": ("Slice", [IMAGE], [ints(1, 0), ints(-1, 100), ints(2, 3), ints(1, 2)], {}),
    "slice-front": ("Slice", [IMAGE], [ints(1), ints(3), ints(1)], {}),
    "slice-batch": ("Slice", [IMAGE], [ints(1), ints(2), ints(0)], {}),
    "gather-one": ("Gather", [X], [scalar(1, I64)], {"axis": 1}),
    "gather-negative": ("Gather", [X], [scalar(-1, I64)], {"axis": 2}),
    "gather-out-of-order": ("Gather", [X], [ints(2, 0, 1, 1, -1)], {"axis": 1}),
    "gather-2d-out-of-order": ("Gather", [X], [np.array([[3, 1], [2, 3]])], {"axis": 2}),
    "gathernd-one-axis": ("GatherND", [X], [np.array([[1], [0], [-2]])], {}),
    "gathernd-two-axes": ("GatherND", [X], [np.array([[[0, 2], [1, -1]], [[0, 0], [1, 0]]])], {}),
    "gathernd-elements": ("GatherND", [X], [np.array([[1, 2, 3], [0, 0, 1]])], {}),
    "gather-row": ("Gather", [X], [ints(0, 2)], {"axis": 1}),
    "depth-to-space": ("DepthToSpace", [normal(2, 8, 3, 2)], [], {"blocksize": 2}),
    "depth-to-space-crd": ("DepthToSpace", [normal(2, 8, 3, 2)], [], {"blocksize": 2, "mode": "CRD"}),
    "space-to-depth": ("SpaceToDepth", [normal(2, 3, 4, 6)], [], {"blocksize": 2}),
    "reduce-mean": ("ReduceMean", [X], [ints(1)], {}),
    "reduce-sum": ("ReduceSum", [X], [ints(-1, 0)], {"keepdims": 0}),
    "reduce-all": ("ReduceSum", [X], [], {}),
    "reduce-max": ("ReduceMax", [X], [ints(2)], {}),
    "reduce-min": ("ReduceMin", [X], [ints(2)], {}),
    "reduce-prod": ("ReduceProd", [X], [ints(2)], {}),
    "reduce-l1": ("ReduceL1", [X], [ints(2)], {}),
    "reduce-l2": ("ReduceL2", [X], [ints(2)], {}),
    "reduce-sum-square": ("ReduceSumSquare", [X], [ints(2)], {}),
    "reduce-log-sum": ("ReduceLogSum", [positive(3, 4)], [ints(1)], {}),
    "reduce-l1-of-one": ("ReduceL1", [X], [], {"noop_with_empty_axes": 1}),
    "reduce-l2-of-one": ("ReduceL2", [X], [], {"noop_with_empty_axes": 1}),
    "reduce-sum-square-of-one": ("ReduceSumSquare", [X], [], {"noop_with_empty_axes": 1}),
    "reduce-log-sum-of-one": ("ReduceLogSum", [positive(3, 4)], [], {"noop_with_empty_axes": 1}),
    "reduce-l1-scalar": ("ReduceL1", [scalar(-2)], [], {}),
    "global-average": ("GlobalAveragePool", [IMAGE], [], {}),
    "global-max": ("GlobalMaxPool", [IMAGE], [], {}),
    "softmax": ("Softmax", [X], [], {}),
    "softmax-1": ("Softmax", [X], [], {"axis": 1}),
    "log-softmax": ("LogSoftmax", [X], [], {"axis": 2}),
    "lp-normalization": ("LpNormalization", [X], [], {"axis": 1, "p": 2}),
    "conv": ("Conv", [IMAGE], [normal(5, 4, 3, 2, seed=1), normal(5)],
             {"pads": [1, 0, 0, 1], "strides": [2, 1], "dilations": [1, 2]}),
    "conv-groups": ("Conv", [IMAGE], [normal(6, 2, 3, 3, seed=1)], {"group": 2}),
    "conv-same": ("Conv", [IMAGE], [normal(5, 4, 3, 3, seed=1)], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "conv-1d": ("Conv", [normal(2, 4, 9)], [normal(5, 4, 3, seed=1)], {"pads": [1, 1]}),
    "conv-transpose": ("ConvTranspose", [IMAGE], [normal(4, 5, 3, 2, seed=1), normal(5)],
                       {"strides": [2, 3], "pads": [1, 0, 1, 0], "output_padding": [1, 2]}),
    "max-pool": ("MaxPool", [IMAGE], [], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "max-pool-ceil": ("MaxPool", [IMAGE], [], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "average-pool": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average-pool-counted": ("AveragePool", [IMAGE], [],
                             {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
    # The last windows reach beyond the padding at the end, which ONNX counts in no average.
    "average-pool-ceil": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "average-pool-ceil-counted": ("AveragePool", [IMAGE], [], {"kernel_shape": [2, 3], "strides": [2, 2],
                                  "ceil_mode": 1, "count_include_pad": 1}),
    "average-pool-end": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [0, 0, 2, 1]}),
    "average-pool-end-counted": ("AveragePool", [IMAGE], [],
                                 {"kernel_shape": [3, 3], "pads": [0, 0, 2, 1], "count_include_pad": 1}),
    "average-pool-begin-counted": ("AveragePool", [IMAGE], [],
                                   {"kernel_shape": [3, 3], "pads": [2, 1, 0, 0], "count_include_pad": 1}),
    "average-pool-end-ceil": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "strides": [2, 2],
                              "pads": [0, 0, 1, 1], "ceil_mode": 1}),
    # With these pads the windows end where the padding does, and ceil rounding adds nothing.
    "average-pool-end-ceil-counted": ("AveragePool", [normal(2, 3, 7, 5)], [], {"kernel_shape": [2, 3],
                                      "strides": [2, 2], "pads": [0, 0, 1, 2], "ceil_mode": 1, "count_include_pad": 1}),
    "batch-norm-default": ("BatchNormalization", [IMAGE],
                           [normal(4), normal(4, seed=1), normal(4, seed=2), np.float32([1e-5, 1e-6, 0, 1e-4])], {}),
    "layer-norm-default": ("LayerNormalization", [1e-3 * X], [normal(4), normal(4, seed=1)], {}),
    "instance-norm-default": ("InstanceNormalization", [1e-3 * IMAGE], [normal(4), normal(4, seed=1)], {}),
    "group-norm-default": ("GroupNormalization", [1e-3 * IMAGE], [normal(4), normal(4, seed=1)], {"num_groups": 2}),
    **({"rms-norm-default": ("RMSNormalization", [1e-3 * X], [normal(4)], {}),
        "rms-norm-of-two": ("RMSNormalization", [X], [normal(3, 4)], {"axis": -2})} if NEWEST >= 23 else {}),
    "batch-norm": ("BatchNormalization", [IMAGE], [normal(4), normal(4, seed=1), normal(4, seed=2), positive(4)],
                   {"epsilon": 1e-3}),
    "layer-norm": ("LayerNormalization", [X], [normal(4), normal(4, seed=1)], {}),
    "layer-norm-1": ("LayerNormalization", [X], [normal(3, 4)], {"axis": 1}),
    "instance-norm": ("InstanceNormalization", [IMAGE], [normal(4), normal(4, seed=1)], {}),
    "group-norm": ("GroupNormalization", [IMAGE], [normal(4), normal(4, seed=1)], {"num_groups": 2}),
    "rms-norm": ("RMSNormalization", [X], [normal(4)], {}) if NEWEST >= 23 else ("Abs", [X], [], {}),
    **({
        "attention": ("Attention", QKV, [], {}),
        "attention-mask": ("Attention", [*QKV, normal(5, 7)], [], {"scale": 0.4}),
        "attention-bool": ("Attention", QKV, [np.tri(5, 7, 2, np.bool_)], {}),
        "attention-bool-input": ("Attention", [*QKV, np.tri(5, 7, 2, np.bool_)], [], {}),
        "attention-causal": ("Attention", [normal(2, 4, 5, 8), normal(2, 2, 5, 8, seed=1), normal(2, 2, 5, 8, seed=2)],
                             [], {"is_causal": 1}),
        "attention-flat": ("Attention", [normal(2, 5, 24), normal(2, 7, 24, seed=1), normal(2, 7, 12, seed=2)],
                           [], {"q_num_heads": 3, "kv_num_heads": 3}),
    } if NEWEST >= 23 else {}),
    "resize-nearest-2": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 2, 2])],
                         {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
    "resize-linear": ("Resize", [IMAGE], [np.float32([]), np.float32([]), ints(2, 4, 14, 9)], {"mode": "linear"}),
    "resize-thirds": ("Resize", [normal(1, 2, 3, 6)], [np.float32([]), np.float32([1, 1, 4 / 3, 4 / 3])],
                      {"mode": "linear"}),
    "average-pool-same": ("AveragePool", [IMAGE], [],
                          {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "count_include_pad": 1}),
    "resize-symmetric": ("Resize", [IMAGE], [np.float32([]), np.float32([]), ints(2, 4, 14, 9)],
                         {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}),
    "resize-symmetric-parts": ("Resize", [normal(1, 2, 5, 5)], [np.float32([]), np.float32([1, 1, 1.15, 2.3])],
                               {"coordinate_transformation_mode": "half_pixel_symmetric"}),
    "resize-corners": ("Resize", [IMAGE], [np.float32([]), np.float32([]), ints(2, 4, 9, 11)],
                       {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    "quantize": ("QuantizeLinear", [3 * X], [scalar(0.05), scalar(10, np.uint8)], {}),
    "quantize-channels": ("QuantizeLinear", [IMAGE], [np.float32([0.1, 0.2, 0.3, 0.4]), np.int8([0, 1, -1, 0])], {}),
    "dequantize": ("DequantizeLinear", [rng().integers(0, 255, (2, 3), np.uint8)],
                   [scalar(0.1), scalar(7, np.uint8)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_an_op(name):
    kind, arrays, constants, attributes = CASES[name]
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    node = helper.make_node(kind, [*inputs, *values], ["y"], **attributes)
    check(model_of([node], inputs, ["y"], values), inputs)


def test_every_op_of_the_table_is_tried():
    tried = {kind for kind, *_ in CASES.values()} | {kind for kind, _ in UNARY}
    elsewhere = {"Split", "Dropout", "CastLike", "Upsample", "Erf"}
    newer = {"Swish"} if NEWEST < 24 else set()
    newer |= {"RMSNormalization", "Attention"} if NEWEST < 23 else set()
    quantized = {
        kind for kind in TABLE if "QLinear" in kind or "QGemm" in kind
    }  # test_from_onnx_quantized.py
    assert set(TABLE) - tried - elsewhere - newer - quantized == set()


def test_a_cut_is_exact():
    """Also beside NaN and infinities, which a product with zeros would spread."""
    x = normal(3, 5)
    x[:, 0], x[0, 4] = np.nan, np.inf
    node = helper.make_node("Slice", ["x", "s", "e", "a"], ["y"])
    model = model_of([node], {"x": x}, ["y"], {"s": ints(1), "e": ints(4), "a": ints(1)})
    np.testing.assert_array_equal(og.from_onnx(model).compile()(x)["y"], x[:, 1:4])


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("Clip", {}),
        ("ReduceSum", {"noop_with_empty_axes": 1}),
        ("Identity", {}),
        ("Dropout", {}),
        ("Sum", {}),
    ],
)
def test_ops_that_change_nothing_vanish(kind, attributes):
    nodes = [helper.make_node(kind, ["x"], ["h"], **attributes), helper.make_node("Relu", ["h"], ["y"])]
    check(model_of(nodes, {"x": X}, ["y"]), {"x": X}, kinds=["ReLU"])


@pytest.mark.parametrize("order", [1, 2])
def test_a_normalised_zero_vector_stays_zeros(order):
    """Small and odd ones do not: they are what the division makes of them."""
    x = np.float32([[0, 0], [3, -4], [-0.0, 0], [np.nan, 1], [1e-12, 0]])
    node = helper.make_node("LpNormalization", ["x"], ["y"], p=order)
    y = og.from_onnx(model_of([node], {"x": x}, ["y"])).compile()(x)["y"]
    total = 7 if order == 1 else 5
    np.testing.assert_allclose(y[:3], np.float32([[0, 0], [3 / total, -4 / total], [0, 0]]), rtol=1e-6)
    assert np.isnan(y[3]).all()
    np.testing.assert_allclose(y[4], [1, 0], rtol=1e-6)


def test_negative_padding_cuts():
    x = integers(2, 3, 4)
    node = helper.make_node("Pad", ["x", "p"], ["y"])
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], {"p": ints(0, -1, 0, 1, 0, -2)})).compile()(x)["y"]
    np.testing.assert_array_equal(y, np.pad(x[:, 1:, :2], [(0, 1), (0, 0), (0, 0)]))


def test_transposed_convolution_with_groups():
    """Each group by itself; ONNX's reference can't do groups."""
    x, w = integers(2, 4, 5, 6), integers(4, 3, 2, 2, seed=1)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2, strides=[2, 2])
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], {"w": w})).compile()(x)["y"]
    one = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])
    for group in (0, 1):
        part = slice(2 * group, 2 * group + 2)
        want = expected_of(model_of([one], {"x": x[:, part]}, ["y"], {"w": w[part]}), {"x": x[:, part]})["y"]
        np.testing.assert_array_equal(y[:, 3 * group : 3 * group + 3], want)


def test_split_by_attribute_input_and_number():
    x = normal(2, 7, 3)
    for opset, values, attributes in (
        (11, {}, {"split": [2, 4, 1]}),
        (13, {"n": ints(2, 4, 1)}, {}),
        (18, {}, {"num_outputs": 3}),
    ):
        node = helper.make_node("Split", ["x", *values], ["a", "b", "c"], axis=1, **attributes)
        check(model_of([node], {"x": x}, ["a", "b", "c"], values, opset=opset), {"x": x}, exact=True)


def test_a_split_whose_last_parts_nobody_needs():
    x = normal(2, 8)
    for opset, attributes in ((11, {}), (13, {}), (18, {"num_outputs": 4})):
        node = helper.make_node("Split", ["x"], ["a", "b", "c", "d"], name="parts", axis=1, **attributes)
        imported = check(model_of([node], {"x": x}, ["a", "b"], opset=opset), {"x": x}, exact=True)
        assert [(op.kind, op.name) for op in imported.graph.ops if op.kind == "MaxPool"] == [
            ("MaxPool", "slice_parts"),
            ("MaxPool", "slice_parts.2"),
        ]


def test_outputs_that_nobody_needs():
    x = normal(2, 4)
    node = helper.make_node("Dropout", ["x"], ["h", "mask"])
    relu = helper.make_node("Relu", ["h"], ["y"])
    assert [op.kind for op in check(model_of([node, relu], {"x": x}, ["y"]), {"x": x}).graph.ops] == ["ReLU"]
    pool = helper.make_node("MaxPool", ["x"], ["y", "indices"], kernel_shape=[2])
    with pytest.raises(og.UnsupportedError, match="its output 'indices', number 1, has no counterpart"):
        og.from_onnx(model_of([pool], {"x": normal(1, 2, 4)}, ["y", "indices"]))


@pytest.mark.parametrize(("opset", "given"), [(11, {"axis": 1}), (12, {}), (13, {"axis": 1})])
def test_softmax_over_several_axes_before_opset_13(opset, given):
    x = normal(2, 3, 4)
    node = helper.make_node("Softmax", ["x"], ["y"], **given)
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], opset=opset)).compile()(x)["y"]
    axes = (1, 2) if opset < 13 else 1
    e = np.exp(x.astype("f8"))
    close(y, (e / e.sum(axes, keepdims=True)).astype("f4"))


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalisation_had_one_number_per_group(opset):
    x, count = normal(2, 6, 5), 3 if opset == 18 else 6
    scale, bias = positive(count), normal(count, seed=3)
    node = helper.make_node("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=3, epsilon=1e-3)
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], {"s": scale, "b": bias}, opset=opset)).compile()(x)[
        "y"
    ]
    parts = x.astype("f8").reshape(2, 3, -1)
    parts = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-3)
    per_channel = [np.repeat(v, 6 // count)[:, None] for v in (scale, bias)]
    close(y, (parts.reshape(x.shape) * per_channel[0] + per_channel[1]).astype("f4"))


@pytest.mark.parametrize(
    "attributes", [{"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"}, {"output_shape": [13, 11]}]
)
def test_transposed_convolution_to_a_size(attributes):
    """Against the definition; the stride is 2 and the kernel 3, so one element must go."""
    x, w = integers(1, 2, 7, 6), integers(2, 3, 3, 3, seed=1)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], **attributes)
    y = og.from_onnx(model_of([node], {"x": x}, ["y"], {"w": w})).compile()(x)["y"]
    full = np.zeros((1, 3, 15, 13))
    for i in range(7):
        for j in range(6):
            full[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum("nc,cokl->nokl", x[:, :, i, j], w)
    if "output_shape" in attributes:
        want = full[:, :, 1:14, 1:12]
    elif attributes["auto_pad"] == "SAME_UPPER":
        want = full[:, :, :14, :12]
    else:
        want = full[:, :, 1:15, 1:13]
    np.testing.assert_array_equal(y, want.astype("f4"))


# --- what belongs together ------------------------------------------------------------------------------

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
    with pytest.raises(og.UnsupportedError, match=r"Erf ×1 .*inside GELU only"):
        og.from_onnx(model_of(nodes, {"x": X}, [last], constants))


def test_padding_goes_into_the_convolution():
    x, w = normal(1, 3, 6, 5), normal(4, 3, 3, 3, seed=1)
    pads = ints(0, 0, 1, 0, 0, 0, 2, 1)
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["h"]),
        helper.make_node("Conv", ["h", "w"], ["y"], strides=[2, 2]),
    ]
    model = model_of(nodes, {"x": x}, ["y"], {"p": pads, "w": w})
    (op,) = check(model, {"x": x}, kinds=["Convolution"]).graph.ops
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
        "zero": scalar(0, I64), "axes": ints(0), "rest": ints(-1), "five": scalar(5, I64), "one": scalar(1, I64),
        "size": ints(12),
    }  # fmt: skip
    model = model_of(nodes, {"x": x}, ["y", "total"], constants)
    imported = check(model, {"x": x}, kinds=["StaticReshape", "Add", "Multiply"])
    assert imported.outputs == ("y", "total")
    np.testing.assert_array_equal(imported.results["total"], 10)


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
        "one": scalar(1), "z": scalar(0, np.uint8), "w": w, "zw": zero8, "b": b, "zb": zero32, "four": scalar(4),
        "zo": zero8,
    }  # fmt: skip
    imported = og.from_onnx(model_of(nodes, {"x": x}, ["y"], constants, opset=opset))
    assert [op.kind for op in imported.graph.ops] == ["Dequantize", "Dequantize", "Convolution", "Quantize"]
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
        helper.make_graph([node], "g", [info], [out]), functions=[function], ir_version=IR,
        opset_imports=[*opsets, helper.make_opsetid("local", 1)],
    )  # fmt: skip
    close(og.from_onnx(model).compile()(x)["y"], np.exp(x) + x)


def test_an_integer_network_is_exact():
    """Convolution, ReLU, a skip connection, pooling and a product: small integers, bit for bit."""
    x = integers(2, 4, 8, 8)
    constants = {
        "w1": integers(8, 4, 3, 3, seed=1), "b1": integers(8, seed=2), "w2": integers(8, 8, 3, 3, seed=3),
        "w3": integers(8 * 4 * 4, 10, seed=4, low=-1, high=2), "b3": integers(10, seed=5),
    }  # fmt: skip
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


# --- models as they come --------------------------------------------------------------------------------


def small(**more):
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    return model_of([node], {"x": X}, ["y"], **more)


def test_a_path_bytes_and_a_proto(tmp_path):
    model = small()
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    for given in (model, path, str(path), path.read_bytes()):
        np.testing.assert_array_equal(og.from_onnx(given).compile()(X)["y"], np.maximum(X, 0))


def test_weights_outside_the_file(tmp_path):
    w = normal(4, 600)
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": w})
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    assert (tmp_path / "w.bin").exists()
    close(og.from_onnx(tmp_path / "m.onnx").compile()(X)["y"], X @ w)


def test_open_sizes_are_known_at_execution():
    w = normal(3, 5)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    model = model_of(nodes, {"x": normal(1, 3)}, ["y"], {"w": w}, shapes={"x": ["batch", 3]})
    compiled = og.from_onnx(model).compile()
    for batch in (1, 4):
        x = normal(batch, 3, seed=batch)
        close(compiled(x)["y"], np.maximum(x @ w, 0))
    assert og.from_onnx(model, shapes={"x": [4, 3]}).graph.inputs[0].shape == (4, 3)
    with pytest.raises(og.ArgumentError, match="only sizes that are open can be chosen"):
        og.from_onnx(model, shapes={"x": [4, 2]})
    with pytest.raises(og.ArgumentError, match="shapes names 'z', which is no input"):
        og.from_onnx(model, shapes={"z": [4, 2]})


def test_an_op_that_needs_all_sizes_says_how_to_give_them():
    nodes = [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Reshape", ["y0", "s"], ["y"])]
    nodes.insert(0, helper.make_node("Relu", ["x"], ["y0"]))
    model = model_of(nodes, {"x": X}, ["y"], shapes={"x": ["n", 3, 4]})
    with pytest.raises(og.UnsupportedError, match=r"Shape ×1 .*shapes="):
        og.from_onnx(model)
    np.testing.assert_array_equal(
        og.from_onnx(model, shapes={"x": X.shape}).compile()(X)["y"], np.maximum(X, 0)
    )


def test_all_that_can_not_be_mapped_is_named_at_once():
    nodes = [
        helper.make_node("Sin", ["x"], ["a"], name="first"),
        helper.make_node("Sin", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["c"], name="fine"),
        helper.make_node("TopK", ["c", "k"], ["d", "e"], name="top"),
        helper.make_node("Greater", ["x", "x"], ["g"], name="greater"),
        helper.make_node("Where", ["g", "x", "x"], ["w"], name="where"),
        helper.make_node("Pad", ["x", "p"], ["q"], name="pad", mode="reflect"),
        helper.make_node("Cos", ["x"], ["dead"], name="dead"),
    ]
    constants = {"k": ints(1), "p": ints(0, 0, 1, 0, 0, 1)}
    with pytest.raises(og.UnsupportedError) as caught:
        og.from_onnx(model_of(nodes, {"x": X}, ["d", "w", "q"], constants))
    text = str(caught.value)
    assert text.startswith(
        "5 nodes of the ONNX model can't become ops of oneDNN Graph: Greater ×1 ('greater'): "
    )
    assert "Sin ×2 ('first', 'second'): there is no translation for it" in text
    assert "TopK ×1 ('top')" in text
    assert "Pad ×1 ('pad'): padding of mode 'reflect'" in text
    assert "Relu" not in text
    assert "Cos" not in text
    assert "cut the model there" in text


REFUSED = {
    "a power of a tensor": ("Pow", [X, X], [], {}, "exponent is not one constant"),
    "indices at execution": ("Gather", [X, ints(0)], [], {}, "its indices must be constant"),
    "beyond": ("Gather", [X], [ints(9)], {"axis": 1}, "index 9 is beyond the 3 elements"),
    "condition": ("Where", [normal(3), normal(3), normal(3)], [], {}, "Select takes booleans"),
    "no such axis": ("Softmax", [X], [], {"axis": 5}, "axis 5 is none of the 3 axes"),
    "reshape": ("Reshape", [X], [ints(5, 5)], {}, "another number of elements"),
    "integer division": ("Div", [np.int32([4, 5])], [np.int32([2, 2])], {}, "division of integers"),
    "a table": ("Gather", [ints(0, 1)], [X], {}, "a look-up in a table"),
    "many rows": ("Gather", [X], [ints(*[0] * 257)], {"axis": 1}, "fall into 257 rows"),
    "beyond in two axes": ("GatherND", [X], [np.array([[0, 3]])], {}, "indices beyond the elements"),
    "a batch of look-ups": ("GatherND", [X], [np.array([[0], [1]])], {"batch_dims": 1}, "that has batch_dims"),
    "a step back": ("Slice", [X], [ints(3), ints(0), ints(1), ints(-1)], {}, "a step of -1"),
    "nothing": ("Slice", [X], [ints(1), ints(1), ints(1)], {}, "without elements"),
    "to integers": ("Cast", [X], [], {"to": 7}, "from float32 to int64"),
    "bounds": ("Clip", [X], [scalar(1), scalar(0)], {}, "first must not be above"),
    "dilated average": ("AveragePool", [IMAGE], [], {"kernel_shape": [2, 2], "dilations": [2, 2]}, "dilations"),
    "counted ceil": ("AveragePool", [IMAGE], [], {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1],
                     "count_include_pad": 1, "ceil_mode": 1}, "ceil rounding"),
    "cubic": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 2, 2])], {"mode": "cubic"}, "'cubic'"),
    "nearest by half": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 0.5, 0.5])],
                        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, "nearest elements"),
    "linear asymmetric": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 2, 2])],
                          {"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, "linear interpolation"),
    "channels": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 2, 1, 1])], {}, "the channels"),
    "types": ("Add", [ints(1, 2), ints(3, 4)], [], {}, "s64"),
    "s16": ("QuantizeLinear", [X], [scalar(0.1), scalar(0, np.int16)], {}, "to int16"),
    **{
        f"{mode} {kind} {name}": ("Resize", [normal(1, 2, 5, 5)], [np.float32([]), np.float32([1, 1, *scales])],
                                  {"mode": mode, "coordinate_transformation_mode": kind}, "scale|coordinates|nearest")
        for mode in ("nearest", "linear")
        for kind in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
        for name, scales in (("the same size", (1.15, 1.15)), ("one axis", (3, 1.15)), ("a part left", (2.3, 2.3)))
        if (mode, kind) != ("nearest", "half_pixel_symmetric")
    },
    "a part of a channel": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1.1, 1, 1])], {}, "the channels"),
    "a crop": ("Resize", [normal(1, 2, 5, 5)], [np.float32([0, 0, 0.2, 0.2, 1, 1, 0.8, 0.8]), np.float32([]),
               ints(1, 2, 5, 5)], {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}, "crop"),
    "few scales": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1])], {}, r"scales \[1.0, 1.0\] for 4 axes"),
    "NaN scales": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, np.nan, 1])], {}, "nan.* for 4 axes"),
    "a scale of 0": ("Resize", [IMAGE], [np.float32([]), np.float32([1, 1, 0, 1])], {}, "above 0"),
    "few sizes": ("Resize", [IMAGE], [np.float32([]), np.float32([]), ints(2, 4)], {}, "sizes .* for 4 axes"),
    "no repetition": ("Tile", [X], [ints(1, 0, 2)], {}, "which leave no elements"),
    "few repetitions": ("Tile", [X], [ints(1, 2)], {}, "each axis takes one number"),
    "few pads": ("Pad", [X], [ints(1)], {}, "pads .1. for 3 axes"),
    "few pads of a convolution": ("Conv", [IMAGE], [normal(4, 4, 3, 3)], {"pads": [1]}, "pads .1. for 2 spatial axes"),
    "an empty bound": ("Clip", [X], [np.float32([])], {}, "its min must be one number, got 0"),
    "no broadcast": ("Expand", [X], [ints(5, 5)], {}, "which don't broadcast"),
    "uneven lists": ("Slice", [X], [ints(0, 0), ints(1)], {}, "not equally many"),
    "a step of 0": ("Slice", [X], [ints(0), ints(1), ints(1), ints(0)], {}, "a step of 0"),
    "blocks of 0": ("DepthToSpace", [IMAGE], [], {"blocksize": 0}, "blocksize must be an integer above 0, got 0"),
    "0 groups": ("GroupNormalization", [IMAGE], [normal(4), normal(4)], {"num_groups": 0}, "num_groups must be"),
    "0 parts": ("Split", [X], [], {"num_outputs": 0}, "num_outputs must be an integer above 0"),
    "another number of parts": ("Split", [X], [ints(1, 1)], {}, "a split of 2 elements into .1, 1. for 1 outputs"),
    "an order of few axes": ("Transpose", [IMAGE], [], {"perm": [0, 1]}, "each of its 4 axes once"),
    "axes that are not there": ("Unsqueeze", [X], [ints(9)], {}, "new axes .9."),
    "an axis that is not there": ("Flatten", [X], [], {"axis": 9}, "axis 9 of a tensor of 3 axes"),
    "a negative shape": ("Reshape", [X], [ints(-6, -4)], {}, "only -1 has a meaning"),
    "three axes": ("DepthToSpace", [X], [], {"blocksize": 2}, "don't fit together .ValueError"),
    "celu of 0": ("Celu", [X], [], {"alpha": 0.0}, "must be above 0"),
    "a third norm": ("LpNormalization", [X], [], {"p": 3}, "a norm of order 3"),
    **({
        "a short mask": ("Attention", [*QKV, normal(5, 1)], [], {}, "a mask for fewer keys"),
        "no heads": ("Attention", [normal(2, 3, 16), normal(2, 5, 16), normal(2, 5, 16)], [], {}, "q_num_heads must"),
        "0 heads": ("Attention", [normal(2, 3, 16), normal(2, 5, 16), normal(2, 5, 16)], [],
                    {"q_num_heads": 0, "kv_num_heads": 2}, "q_num_heads must be an integer above 0, got 0"),
    } if NEWEST >= 23 else {}),
    "training": ("BatchNormalization", [IMAGE], [normal(4), normal(4), normal(4), positive(4)],
                 {"training_mode": 1}, "training mode"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    kind, arrays, constants, attributes, message = REFUSED[name]
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    names = [*values, *inputs] if name == "a table" else [*inputs, *values]
    node = helper.make_node(kind, names, ["y"], name="here", **attributes)
    with pytest.raises(og.UnsupportedError, match=message) as caught:
        og.from_onnx(model_of([node], inputs, ["y"], values))
    assert f"{kind} ×1 ('here')" in str(caught.value)


def test_what_is_no_model(tmp_path):
    with pytest.raises(og.ArgumentTypeError, match="a path, bytes or an onnx.ModelProto, got 3"):
        og.from_onnx(3)
    with pytest.raises(og.ArgumentError, match="can't read"):
        og.from_onnx(tmp_path / "missing.onnx")
    with pytest.raises(og.ArgumentError, match="no ONNX model"):
        og.from_onnx(b"\xff\xff\xff")
    with pytest.raises(og.UnsupportedError, match="opset 11 or later, got 9"):
        og.from_onnx(small(opset=9))


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "trace.json"
    for text in ('{"version": "3.2.0", "graph": []}', "[", "{}"):
        path.write_text(text)
        with pytest.raises(
            og.ArgumentError, match="is no ONNX model.*a oneDNN Graph file is read by Graph.load"
        ):
            og.from_onnx(str(path))
    with pytest.raises(og.ArgumentError, match="what the bytes hold is no ONNX model; it holds no graph"):
        og.from_onnx(b"")


def test_weights_that_are_not_there(tmp_path):
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": X}, ["y"], {"w": normal(4, 600)})
    short = onnx.ModelProto()
    short.CopyFrom(model)
    short.graph.initializer[0].raw_data = b"123"
    with pytest.raises(og.ArgumentError, match="can't read initializer 'w'"):
        og.from_onnx(short)
    onnx.save_model(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin")
    (tmp_path / "w.bin").unlink()
    with pytest.raises(og.ArgumentError, match="from_onnx can't read"):
        og.from_onnx(tmp_path / "m.onnx")


def node_of(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, name=f"the {kind}", **attributes)


INVALID = {
    "reads nothing": ([node_of("Relu", ["z"], ["y"])], "node 'the Relu' .Relu. reads 'z', which no input"),
    "no output": ([node_of("Relu", ["x"], ["h"])], "its output 'y' is made by no node"),
    "a cycle": ([node_of("Add", ["x", "y"], ["h"]), node_of("Relu", ["h"], ["y"])], "'the Relu' makes only afterwards"),
    "out of order": ([node_of("Exp", ["h"], ["y"]), node_of("Relu", ["x"], ["h"])], "'the Relu' makes only afterwards"),
    "twice": ([node_of("Exp", ["x"], ["y"]), node_of("Relu", ["x"], ["y"])], "makes 'y', which is there already"),
    "over an input": ([node_of("Exp", ["x"], ["x"]), node_of("Relu", ["x"], ["y"])], "makes 'x', which is there"),
    "no window": ([node_of("MaxPool", ["x"], ["y"])], "the MaxPool' .MaxPool.: .*kernel_shape"),
    "no axis": ([node_of("Concat", ["x", "x"], ["y"])], "the Concat' .Concat.: .*axis"),
    "text for a number": ([node_of("Softmax", ["x"], ["y"], axis="foo")], "the Softmax' .Softmax.: .*axis"),
    "an unknown attribute": ([node_of("Elu", ["x"], ["y"], alhpa=0.5)], "the Elu' .Elu.: .*alhpa"),
    "no inputs": ([node_of("Relu", [], ["y"])], "the Relu' .Relu.: "),
    "three inputs": ([node_of("Mul", ["x", "x", "x"], ["y"])], "the Mul' .Mul.: "),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_what_breaks_the_rules_of_onnx(name):
    nodes, message = INVALID[name]
    with pytest.raises(og.ArgumentError, match=f"the model is invalid: .*{message}"):
        og.from_onnx(model_of(nodes, {"x": X}, ["y"]))


def test_two_inputs_of_one_name():
    model = small()
    model.graph.input.append(model.graph.input[0])
    with pytest.raises(og.ArgumentError, match="two inputs have the name 'x'"):
        og.from_onnx(model)


def test_a_constant_without_a_counterpart():
    """It is named where it is needed, and not before."""
    text = helper.make_node(
        "Constant", [], ["c"], value=helper.make_tensor("v", onnx.TensorProto.COMPLEX64, [1], [1j])
    )
    relu = helper.make_node("Relu", ["x"], ["y"])
    np.testing.assert_array_equal(
        og.from_onnx(model_of([text, relu], {"x": X}, ["y"])).compile()(X)["y"], X.clip(0)
    )
    with pytest.raises(og.UnsupportedError, match="Add ×1"):
        og.from_onnx(model_of([text, node_of("Add", ["x", "c"], ["y"])], {"x": X}, ["y"]))


def test_padding_of_open_sizes_at_the_end():
    node = helper.make_node("Pad", ["x", "p"], ["y"])
    model = model_of([node], {"x": X}, ["y"], {"p": ints(0, 1, 0, 0, 0, 2)}, shapes={"x": ["n", 3, 4]})
    with pytest.raises(
        og.UnsupportedError, match="from_onnx: output 'y': the sizes of its input must be known"
    ):
        og.from_onnx(model)


def test_nothing_to_compute():
    same = helper.make_node("Identity", ["x"], ["y"])
    with pytest.raises(
        og.UnsupportedError, match="from_onnx: the model computes nothing; its outputs 'y' are inputs"
    ):
        og.from_onnx(model_of([same], {"x": X}, ["y"]))


def test_an_old_op_that_the_checker_refuses():
    node = helper.make_node("Upsample", ["x", "s"], ["y"], mode="nearest")
    model = model_of([node], {"x": IMAGE}, ["y"], {"s": np.float32([1, 1, 2, 3])}, opset=11)
    y = og.from_onnx(model).compile()(IMAGE)["y"]
    np.testing.assert_array_equal(y, IMAGE.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("name", ["onnx", "torch"])
def test_a_missing_package_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        og.UnsupportedError, match=rf"needs the package {name}, .*pip install 'onednn-graph\[{name}\]'"
    ) as caught:
        getattr(og, f"from_{name}")("model")
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_inputs_of_other_kinds():
    w = normal(4)
    info = helper.make_tensor_value_info("x", 1, [2, 4])
    default = helper.make_tensor_value_info("w", 1, [4])  # an initializer that is listed as an input too
    out = [onnx.ValueInfoProto(name="y")]
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    opsets = [helper.make_opsetid("", NEWEST)]
    graph = helper.make_graph([node], "g", [info, default], out, [numpy_helper.from_array(w, "w")])
    imported = og.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=IR))
    assert imported.inputs == ("x",)
    for kind in (onnx.TensorProto.STRING, onnx.TensorProto.COMPLEX64):
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", kind, [2]), default], out)
        with pytest.raises(og.UnsupportedError, match="input 'x': element type"):
            og.from_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=IR))
    sequence = helper.make_tensor_sequence_value_info("x", 1, [2])
    with pytest.raises(og.UnsupportedError, match="input 'x' is no tensor"):
        og.from_onnx(
            helper.make_model(helper.make_graph([node], "g", [sequence, default], out), opset_imports=opsets)
        )


def test_a_constant_that_can_not_be_computed():
    node = helper.make_node("Reshape", ["a", "b"], ["y"], name="bad")
    model = model_of([node], {}, ["y"], {"a": normal(3), "b": ints(2)})
    with pytest.raises(og.UnsupportedError, match="Reshape ×1 .*constant value can't be computed"):
        og.from_onnx(model)


def test_types_that_are_mixed():
    """ONNX has one type per op; graphs that break it are refused, not computed somehow."""
    x = normal(3)
    node = helper.make_node("Add", ["x", "i"], ["y"])
    model = model_of([node], {"x": x, "i": np.arange(3)}, ["y"])
    with pytest.raises(og.UnsupportedError, match="it mixes float32 with int64"):
        og.from_onnx(model)


# --- running --------------------------------------------------------------------------------------------


def two_inputs():
    nodes = [helper.make_node("Sub", ["a.1", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    return model_of(nodes, {"a.1": X, "b": X}, ["d", "c", "b"])


def test_arguments_by_position_and_by_name():
    model = og.from_onnx(two_inputs()).compile()
    assert (model.inputs, model.outputs) == (("a.1", "b"), ("d", "c", "b"))
    y = 2 * X
    for results in (model(X, y), model({"a.1": X, "b": y}), model(X, b=y), model(**{"a.1": X}, b=y)):
        np.testing.assert_array_equal(results["c"], X - y)
        np.testing.assert_array_equal(results["d"], np.maximum(X - y, 0))
        np.testing.assert_array_equal(results["b"], y)
        assert not np.shares_memory(results["b"], y)


@pytest.mark.parametrize(
    ("arrays", "named", "message"),
    [
        ((X,), {}, "input 'b' is missing; the model takes 'a.1', 'b'"),
        ((X, X, X), {}, "takes 2 inputs"),
        ((X, X), {"b": X}, "input 'b' is given twice"),
        ((X,), {"B": X}, "no input 'B' .did you mean 'b'"),
    ],
)
def test_arguments_that_do_not_fit(arrays, named, message):
    with pytest.raises(og.ArgumentError, match=message):
        og.from_onnx(two_inputs()).compile()(*arrays, **named)


def test_an_input_of_another_shape_is_named():
    with pytest.raises(og.ShapeError, match="input 'b' must have shape"):
        og.from_onnx(two_inputs()).compile()(X, X[:1])


def test_a_report_counts_all_ops():
    model = og.from_onnx(two_inputs()).compile()
    report = model.report(X, X, repeat=2)
    assert sum(report.ops.values()) == 2
    assert report.partitions == len(model.compiled.partitions)
    assert 0 <= report.onednn_share <= 1
    assert set(report.seconds) == set(report.ops)
    assert "of 2 ops" in str(report)
    assert "2 partitions" in repr(model) or "1 partitions" in repr(model)
    assert "2 ops, 0 constants" in repr(og.from_onnx(two_inputs()))
    numpy_only = og.from_onnx(two_inputs()).compile(backend="numpy").report(X, X)
    assert numpy_only.ops == {"numpy": 2}
    assert numpy_only.onednn_share == 0
    with pytest.raises(og.ArgumentError, match="repeat must be at least 1"):
        model.report(X, X, repeat=0)


def test_the_graph_can_be_built_upon():
    """Not finalized yet: a loss, say, can stand behind it."""
    imported = og.from_onnx(small())
    assert not imported.graph.finalized
    loss = imported.graph.op("ReduceSum", imported.results["y"], axes=[0, 1, 2], name="loss")
    model = imported.graph.compile()
    close(model({"x": X})[loss], np.maximum(X, 0).sum())
