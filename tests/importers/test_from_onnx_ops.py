"""`from_onnx`: each op against ONNX's own reference."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import (
    I64,
    IMAGE,
    NEWEST,
    QKV,
    X,
    check,
    close,
    expected_of,
    helper,
    integers,
    ints,
    model_of,
    normal,
    onnx,
    positive,
    rng,
    scalar,
)
from rows import each

# op, inputs, constants (by position after the inputs), attributes
UNARY = [
    *[
        (kind, X)
        for kind in (
            "Relu",
            "Sigmoid",
            "Tanh",
            "Exp",
            "Abs",
            "Softplus",
            "Mish",
            "HardSwish",
            "Neg",
            "LeakyRelu",
            "Elu",
            "Selu",
            "Celu",
            "Softsign",
            "HardSigmoid",
            "Identity",
            "Round",
        )
    ],
    *[(kind, positive(2, 3, 4)) for kind in ("Log", "Sqrt", "Reciprocal")],
]


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
    "gemm-transposed": (
        "Gemm",
        [normal(4, 3)],
        [normal(5, 4, seed=1), normal(5, seed=2)],
        {"transA": 1, "transB": 1},
    ),
    "gemm-scaled": (
        "Gemm",
        [normal(3, 4)],
        [normal(4, 5, seed=1), normal(3, 1)],
        {"alpha": 0.5, "beta": 2.0},
    ),
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
    "batch-norm-f16": (
        "BatchNormalization",
        [IMAGE.astype("f2")],
        [np.ones(4, "f2"), np.zeros(4, "f2"), np.zeros(4, "f2"), np.ones(4, "f2")],
        {},
    ),
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
    "conv": (
        "Conv",
        [IMAGE],
        [normal(5, 4, 3, 2, seed=1), normal(5)],
        {"pads": [1, 0, 0, 1], "strides": [2, 1], "dilations": [1, 2]},
    ),
    "conv-groups": ("Conv", [IMAGE], [normal(6, 2, 3, 3, seed=1)], {"group": 2}),
    "conv-same": (
        "Conv",
        [IMAGE],
        [normal(5, 4, 3, 3, seed=1)],
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "conv-1d": ("Conv", [normal(2, 4, 9)], [normal(5, 4, 3, seed=1)], {"pads": [1, 1]}),
    "conv-transpose": (
        "ConvTranspose",
        [IMAGE],
        [normal(4, 5, 3, 2, seed=1), normal(5)],
        {"strides": [2, 3], "pads": [1, 0, 1, 0], "output_padding": [1, 2]},
    ),
    "max-pool": ("MaxPool", [IMAGE], [], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
    "max-pool-ceil": ("MaxPool", [IMAGE], [], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    "average-pool": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "average-pool-counted": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    ),
    # The last windows reach beyond the padding at the end, which ONNX counts in no average.
    "average-pool-ceil": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    ),
    "average-pool-ceil-counted": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
    ),
    "average-pool-end": ("AveragePool", [IMAGE], [], {"kernel_shape": [3, 3], "pads": [0, 0, 2, 1]}),
    "average-pool-end-counted": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "pads": [0, 0, 2, 1], "count_include_pad": 1},
    ),
    "average-pool-begin-counted": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "pads": [2, 1, 0, 0], "count_include_pad": 1},
    ),
    "average-pool-end-ceil": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": 1},
    ),
    # With these pads the windows end where the padding does, and ceil rounding adds nothing.
    "average-pool-end-ceil-counted": (
        "AveragePool",
        [normal(2, 3, 7, 5)],
        [],
        {
            "kernel_shape": [2, 3],
            "strides": [2, 2],
            "pads": [0, 0, 1, 2],
            "ceil_mode": 1,
            "count_include_pad": 1,
        },
    ),
    "batch-norm-default": (
        "BatchNormalization",
        [IMAGE],
        [normal(4), normal(4, seed=1), normal(4, seed=2), np.float32([1e-5, 1e-6, 0, 1e-4])],
        {},
    ),
    "layer-norm-default": ("LayerNormalization", [1e-3 * X], [normal(4), normal(4, seed=1)], {}),
    "instance-norm-default": ("InstanceNormalization", [1e-3 * IMAGE], [normal(4), normal(4, seed=1)], {}),
    "group-norm-default": (
        "GroupNormalization",
        [1e-3 * IMAGE],
        [normal(4), normal(4, seed=1)],
        {"num_groups": 2},
    ),
    **(
        {
            "rms-norm-default": ("RMSNormalization", [1e-3 * X], [normal(4)], {}),
            "rms-norm-of-two": ("RMSNormalization", [X], [normal(3, 4)], {"axis": -2}),
        }
        if NEWEST >= 23
        else {}
    ),
    "batch-norm": (
        "BatchNormalization",
        [IMAGE],
        [normal(4), normal(4, seed=1), normal(4, seed=2), positive(4)],
        {"epsilon": 1e-3},
    ),
    "layer-norm": ("LayerNormalization", [X], [normal(4), normal(4, seed=1)], {}),
    "layer-norm-1": ("LayerNormalization", [X], [normal(3, 4)], {"axis": 1}),
    "instance-norm": ("InstanceNormalization", [IMAGE], [normal(4), normal(4, seed=1)], {}),
    "group-norm": ("GroupNormalization", [IMAGE], [normal(4), normal(4, seed=1)], {"num_groups": 2}),
    "rms-norm": ("RMSNormalization", [X], [normal(4)], {}) if NEWEST >= 23 else ("Abs", [X], [], {}),
    **(
        {
            "attention": ("Attention", QKV, [], {}),
            "attention-mask": ("Attention", [*QKV, normal(5, 7)], [], {"scale": 0.4}),
            "attention-bool": ("Attention", QKV, [np.tri(5, 7, 2, np.bool_)], {}),
            "attention-bool-input": ("Attention", [*QKV, np.tri(5, 7, 2, np.bool_)], [], {}),
            "attention-causal": (
                "Attention",
                [normal(2, 4, 5, 8), normal(2, 2, 5, 8, seed=1), normal(2, 2, 5, 8, seed=2)],
                [],
                {"is_causal": 1},
            ),
            "attention-flat": (
                "Attention",
                [normal(2, 5, 24), normal(2, 7, 24, seed=1), normal(2, 7, 12, seed=2)],
                [],
                {"q_num_heads": 3, "kv_num_heads": 3},
            ),
        }
        if NEWEST >= 23
        else {}
    ),
    "resize-nearest-2": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([1, 1, 2, 2])],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    ),
    "resize-linear": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([]), ints(2, 4, 14, 9)],
        {"mode": "linear"},
    ),
    "resize-thirds": (
        "Resize",
        [normal(1, 2, 3, 6)],
        [np.float32([]), np.float32([1, 1, 4 / 3, 4 / 3])],
        {"mode": "linear"},
    ),
    "average-pool-same": (
        "AveragePool",
        [IMAGE],
        [],
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "count_include_pad": 1},
    ),
    "resize-symmetric": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([]), ints(2, 4, 14, 9)],
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
    ),
    "resize-symmetric-parts": (
        "Resize",
        [normal(1, 2, 5, 5)],
        [np.float32([]), np.float32([1, 1, 1.15, 2.3])],
        {"coordinate_transformation_mode": "half_pixel_symmetric"},
    ),
    "resize-corners": (
        "Resize",
        [IMAGE],
        [np.float32([]), np.float32([]), ints(2, 4, 9, 11)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    "quantize": ("QuantizeLinear", [3 * X], [scalar(0.05), scalar(10, np.uint8)], {}),
    "quantize-channels": (
        "QuantizeLinear",
        [IMAGE],
        [np.float32([0.1, 0.2, 0.3, 0.4]), np.int8([0, 1, -1, 0])],
        {},
    ),
    "dequantize": (
        "DequantizeLinear",
        [rng().integers(0, 255, (2, 3), np.uint8)],
        [scalar(0.1), scalar(7, np.uint8)],
        {},
    ),
}


@each("name", CASES)
def test_an_op(name):
    kind, arrays, constants, attributes = CASES[name]
    inputs = {f"x{i}": a for i, a in enumerate(arrays)}
    values = {f"c{i}": a for i, a in enumerate(constants)}
    node = helper.make_node(kind, [*inputs, *values], ["y"], **attributes)
    check(model_of([node], inputs, ["y"], values), inputs)


def test_every_op_of_the_table_is_tried():
    from onednn_graph.graph.onnx.table import TABLE  # which needs onnx
    from test_from_onnx_hosted import HOSTED
    from test_from_onnx_sampling import EXACT, ROUNDED

    rows = (*CASES.values(), *HOSTED.values(), *EXACT.values(), *ROUNDED.values())
    tried = {kind for kind, *_ in rows} | {kind for kind, _ in UNARY}
    elsewhere = {
        "Split",
        "Dropout",
        "CastLike",
        "Upsample",
        "Scatter",
    }  # Scatter is ScatterElements' former name
    layers = {
        "LSTM",
        "GRU",
        "RNN",
        "GridSample",
        "OneHot",
        "LRN",
        "LpPool",
        "GlobalLpPool",
        "MeanVarianceNormalization",
    }
    elsewhere |= layers  # test_from_onnx_sampling.py
    elsewhere |= {"ConvInteger", "DynamicQuantizeLinear", "MatMulInteger"}  # test_onnx_integers.py
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
        assert [(op.kind, op.name) for op in imported.ops if op.kind == "MaxPool"] == [
            ("MaxPool", "slice_parts"),
            ("MaxPool", "slice_parts.2"),
        ]


@pytest.mark.parametrize(("name", "wanted"), [("/a/b.0/f", "/a/b.0/slice_f"), ("a.b.f", "a.b.slice_f")])
def test_a_part_stays_in_the_module_of_its_node(name, wanted):
    node = helper.make_node("Split", ["x"], ["a", "b"], name=name, axis=1, num_outputs=2)
    x = normal(2, 8, 3)
    imported = check(model_of([node], {"x": x}, ["a"], opset=18), {"x": x}, exact=True)
    assert [op.name for op in imported.ops] == [wanted]


def test_outputs_that_nobody_needs():
    x = normal(2, 4)
    node = helper.make_node("Dropout", ["x"], ["h", "mask"])
    relu = helper.make_node("Relu", ["h"], ["y"])
    assert [op.kind for op in check(model_of([node, relu], {"x": x}, ["y"]), {"x": x}).ops] == ["ReLU"]
    pool = helper.make_node("MaxPool", ["x"], ["y", "indices"], kernel_shape=[2])
    with pytest.raises(og.UnsupportedError, match="its output 'indices', number 1, has no counterpart"):
        og.from_onnx(model_of([pool], {"x": normal(1, 2, 4)}, ["y", "indices"]), reference=False)


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
