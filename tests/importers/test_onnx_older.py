"""`from_onnx`: models of old op sets that onnx.version_converter does not take as a whole."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import helper, integers, model_of, onnx, scalar

X = integers(2, 3, 4, 5)
IMAGE = np.abs(X)
NODE = helper.make_node
TRUTH = X > 0


def run(nodes, inputs, opset, constants=None, shapes=None, domains=()):
    model = model_of(nodes, inputs, ["y"], constants, opset, shapes)
    model.opset_import.extend(helper.make_opsetid(domain, 1) for domain in domains)
    return og.from_onnx(model).compile()(inputs)["y"]


ARITHMETIC = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply}
PLACES = {  # shape of the second input, axis → the shape that NumPy wants
    "a channel": ((3,), 1, (3, 1, 1)),
    "two in the middle": ((3, 4), 1, (3, 4, 1)),
    "the first": ((2,), 0, (2, 1, 1, 1)),
    "the last": ((5,), 3, (5,)),
    "counted from behind": ((3, 4), -3, (3, 4, 1)),
    "none said": ((4, 5), None, (4, 5)),
}


@pytest.mark.parametrize("opset", [1, 6])
@pytest.mark.parametrize("place", PLACES)
def test_second_inputs_that_lie_where_an_attribute_says(place, opset):
    shape, axis, wanted = PLACES[place]
    y = integers(*shape, seed=1)
    more = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    for kind, function in ARITHMETIC.items():
        old = {"consumed_inputs": [0, 0]} if opset == 1 else {}
        got = run([NODE(kind, ["x", "b"], ["y"], **more, **old)], {"x": X, "b": y}, opset)
        np.testing.assert_array_equal(got, function(X, y.reshape(wanted)), err_msg=kind)


@pytest.mark.parametrize(
    ("kind", "function", "x"),
    [
        ("And", np.logical_and, TRUTH),
        ("Or", np.logical_or, TRUTH),
        ("Xor", np.logical_xor, TRUTH),
        ("Equal", np.equal, X.astype(np.int32)),
        ("Less", np.less, X),
        ("Greater", np.greater, X),
    ],
)
def test_truths_that_lie_where_an_attribute_says(kind, function, x):
    b = x[0, :, 1, 1].copy()
    got = run([NODE(kind, ["x", "b"], ["y"], broadcast=1, axis=1)], {"x": x, "b": b}, 4)
    np.testing.assert_array_equal(got, function(x, b.reshape(3, 1, 1)))


def test_axes_of_what_other_nodes_make():
    """The rank of the first input is known from the nodes before it alone."""
    nodes = [
        NODE("Relu", ["x"], ["h"], consumed_inputs=[0]),
        NODE("Mul", ["h", "b"], ["p"], broadcast=1, axis=1),
        NODE("Add", ["p", "b"], ["y"], broadcast=1, axis=1),
    ]
    b = integers(3, seed=2)
    wide = b.reshape(3, 1, 1)
    np.testing.assert_array_equal(run(nodes, {"x": X, "b": b}, 5), np.maximum(X, 0) * wide + wide)


def test_axes_that_nobody_knows():
    model = model_of([NODE("Add", ["x", "b"], ["y"], broadcast=1, axis=1)], {"x": X, "b": X}, ["y"], opset=6)
    model.graph.input[1].type.tensor_type.ClearField("shape")
    with pytest.raises(og.UnsupportedError, match=r"node 'y' \(Add\) can't be converted: how many axes"):
        og.from_onnx(model)


def test_slopes_of_channels():
    slopes = integers(3, seed=3)
    nodes = [NODE("Relu", ["z"], ["b"]), NODE("PRelu", ["x", "b"], ["y"])]
    z = np.abs(slopes)
    got = run(nodes, {"x": X, "z": z}, 6)
    np.testing.assert_array_equal(got, np.where(X < 0, X * z.reshape(3, 1, 1), X))


@pytest.mark.parametrize("opset", [7, 9, 10])
def test_ops_of_onnxruntime_in_old_models(opset):
    onnxruntime = pytest.importorskip("onnxruntime")
    nodes = [
        NODE("Clip", ["x"], ["h"], min=-2.0, max=3.0),
        NODE("Gelu", ["h"], ["g"], domain="com.microsoft"),
        NODE("Slice", ["g"], ["y"], starts=[1], ends=[3], axes=[2])
        if opset < 10
        else NODE("Slice", ["g", "from", "to", "axes"], ["y"]),
    ]
    places = {"from": [1], "to": [3], "axes": [2]} if opset >= 10 else {}
    constants = {name: np.array(value, np.int64) for name, value in places.items()}
    model = model_of(nodes, {"x": X}, ["y"], constants, opset)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.ir_version = 5
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, ["a", "b", "c", "d"]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": X})
    np.testing.assert_allclose(og.from_onnx(model).compile()(X)["y"], want, rtol=1e-5, atol=1e-6)


def test_sizes_that_nobody_knows():
    """onnx.version_converter gives up at the whole model: one of its adapters wants the sizes of an input."""
    nodes = [NODE("Add", ["x", "x"], ["h"]), NODE("Clip", ["h"], ["y"], min=-3.0, max=5.0)]
    model = model_of(nodes, {"x": X}, ["y"], opset=6)
    model.graph.input[0].type.tensor_type.ClearField("shape")
    np.testing.assert_array_equal(og.from_onnx(model).compile()(X)["y"], np.clip(X + X, -3, 5))


def test_bodies_of_loops():
    """What onnx.version_converter leaves as it is: nodes inside of nodes."""
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            NODE("Identity", ["c"], ["on"]),
            NODE("Add", ["v", "x"], ["s"]),
            NODE("Clip", ["s"], ["w"], min=-6.0, max=6.0),
        ],
        "body",
        [info("n", onnx.TensorProto.INT64, []), info("c", onnx.TensorProto.BOOL, []), info("v", 1, X.shape)],
        [info("on", onnx.TensorProto.BOOL, []), info("w", 1, X.shape)],
    )
    constants = {"most": scalar(3, np.int64), "go": scalar(True, bool)}
    got = run([NODE("Loop", ["most", "go", "x"], ["y"], body=body)], {"x": X}, 9, constants)
    want = X
    for _ in range(3):
        want = np.clip(want + X, -6, 6)
    np.testing.assert_array_equal(got, want)


EXPERIMENTS = {
    "ImageScaler": (
        {"scale": 2.0, "bias": [1.0, -1.0, 3.0]},
        lambda x: x * 2 + np.reshape([1, -1, 3], (3, 1, 1)),
    ),
    "Affine": ({"alpha": 2.0, "beta": -3.0}, lambda x: x * 2 - 3),
    "ScaledTanh": ({"alpha": 2.0, "beta": 0.5}, lambda x: 2 * np.tanh(x / 2)),
    "ParametricSoftplus": ({"alpha": 2.0, "beta": 0.5}, lambda x: 2 * np.log1p(np.exp(x / 2))),
}


@pytest.mark.parametrize("kind", EXPERIMENTS)
def test_experiments_of_onnx(kind):
    attributes, formula = EXPERIMENTS[kind]
    got = run([NODE(kind, ["x"], ["y"], **attributes)], {"x": X}, 7)
    np.testing.assert_allclose(got, formula(X.astype(np.float64)), rtol=1e-5)


def test_normalisation_of_old_inference():
    parts = {name: np.abs(integers(3, seed=n)) + 1 for n, name in enumerate("sbmv", 4)}
    node = NODE(
        "BatchNormalization", ["x", *"sbmv"], ["y"], consumed_inputs=[0, 0, 0, 1, 1], epsilon=0.0, is_test=1
    )
    s, b, m, v = (parts[name].reshape(3, 1, 1) for name in "sbmv")
    got = run([node], {"x": X}, 1, parts)
    np.testing.assert_allclose(got, (X - m) / np.sqrt(v) * s + b, rtol=1e-5, atol=1e-5)


FIRST = {
    "Pad": (NODE("Pad", ["x"], ["y"], paddings=[0, 0, 1, 0, 0, 0, 0, 2], value=3.0), {}),
    "Tile": (NODE("Tile", ["x", "n", "a"], ["y"]), {"n": scalar(2.0), "a": scalar(1.0)}),
    "Split": (NODE("Split", ["x", "n"], ["z", "y"], axis=1), {"n": np.array([1, 2], np.float32)}),
    "Cast": (NODE("Cast", ["x"], ["y"], to="INT32"), {}),
    "GlobalLpPool": (NODE("GlobalLpPool", ["x"], ["y"], p=1.0), {}),
}
FORMULAS = {
    "Pad": lambda x: np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=3),
    "Tile": lambda x: np.tile(x, (1, 2, 1, 1)),
    "Split": lambda x: x[:, 1:],
    "Cast": lambda x: x.astype(np.int32),
    "GlobalLpPool": lambda x: np.abs(x).sum((2, 3), keepdims=True),
}


@pytest.mark.parametrize("kind", FIRST)
def test_forms_of_the_first_op_set(kind):
    node, constants = FIRST[kind]
    got = run([node], {"x": X}, 1, constants)
    want = FORMULAS[kind](X)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 3], [1, 1, 0.5, 0.6], [1, 1, 1.5, 2.5]])
@pytest.mark.parametrize("opset", [7, 9, 10])
def test_resizing_of_before_half_pixels(opset, scales, mode):
    onnxruntime = pytest.importorskip("onnxruntime")
    if opset < 10 and min(scales) < 1:
        pytest.skip("Upsample makes nothing less")
    kind = "Resize" if opset == 10 else "Upsample"
    held = {"s": np.array(scales, np.float32)}
    node = NODE(kind, ["x", "s"], ["y"], mode=mode)
    if opset == 7:
        node, held = NODE(kind, ["x"], ["y"], mode=mode, scales=[float(s) for s in scales]), {}
    model = model_of([node], {"x": X}, ["y"], held, opset)
    model.ir_version = 5
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, ["a", "b", "c", "d"]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": X})
    np.testing.assert_allclose(og.from_onnx(model).compile()(X)["y"], want, rtol=1e-5, atol=1e-5)


def test_pads_of_other_modes():
    node = NODE("Pad", ["x"], ["y"], mode="edge", pads=[0, 0, 1, 0, 0, 0, 0, 2])
    np.testing.assert_array_equal(
        run([node], {"x": X}, 5), np.pad(X, [(0, 0), (0, 0), (1, 0), (0, 2)], "edge")
    )


@pytest.mark.parametrize("opset", [2, 7, 10])
@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_pads_of_other_modes_with_a_value_that_nothing_reads(mode, opset):
    node = NODE("Pad", ["x"], ["y"], mode=mode, pads=[0, 0, 1, 0, 0, 0, 0, 2], value=1.5)
    np.testing.assert_array_equal(
        run([node], {"x": X}, opset), np.pad(X, [(0, 0), (0, 0), (1, 0), (0, 2)], mode)
    )


def test_a_scan_with_lengths_of_sequences_is_no_invalid_model():
    infos = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in ("s", "x", "s2", "y")
    ]
    nodes = [NODE("Add", ["s", "x"], ["s2"]), NODE("Neg", ["s2"], ["y"])]
    body = helper.make_graph(nodes, "body", infos[:2], infos[2:])
    node = NODE("Scan", ["", "first", "all"], ["last", "y"], body=body, num_scan_inputs=1)
    inputs = {"first": integers(2, 3), "all": integers(2, 4, 3)}
    with pytest.raises(og.UnsupportedError, match="nothing converts Scan"):
        og.from_onnx(model_of([node], inputs, ["y"], opset=8))


@pytest.mark.parametrize(
    ("node", "opset", "message"),
    [
        (
            NODE("BatchNormalization", ["x", *"vvvv"], ["y"], name="n", spatial=0),
            7,
            "can't convert node 'n' .Batch",
        ),
        (
            NODE("Cast", ["x"], ["y"], to="NUMBER"),
            1,
            r"node 'y' \(Cast\) can't be converted: there is no type 'NUMBER'",
        ),
        (NODE("Tile", ["x", "v", "x"], ["y"]), 1, "its axis, how often it repeats or how many axes"),
        (NODE("GlobalLpPool", ["x"], ["y"], p=1.5), 1, "its power 1.5 is no integer"),
        (NODE("Affine", ["x"], ["y"], alpha=1.5), 1, "its attributes alpha and beta must both be there"),
    ],
)
def test_what_can_not_be_converted_is_named(node, opset, message):
    with pytest.raises(og.UnsupportedError, match=message):
        og.from_onnx(model_of([node], {"x": X}, ["y"], {"v": np.ones(3, np.float32)}, opset))
