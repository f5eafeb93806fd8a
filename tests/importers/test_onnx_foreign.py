"""`from_onnx`: what files of other writers have, which other readers take as well."""

import numpy as np
import onednn_graph as og
import pytest
from onnx_oracle import check, helper, integers, model_of, onnx, scalar

X = integers(2, 3)
NODE = helper.make_node


def tensor(name, shape=(2, 3)):
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


def branches(then, other, **inputs):
    """An If whose branches are one node each, and may have inputs."""
    graphs = {
        name: helper.make_graph(
            [node], name, [tensor(one) for one in inputs.get(name, ())], [tensor(node.output[0])]
        )
        for name, node in (("then_branch", then), ("else_branch", other))
    }
    return NODE("If", ["c"], ["y"], **graphs)


# --- order -----------------------------------------------------------------------------------------------


def in_order_of(numbers):
    nodes = [
        NODE("Relu", ["x"], ["a"]),
        NODE("Add", ["a", "x"], ["b"]),
        NODE("Mul", ["a", "b"], ["c"]),
        NODE("Sub", ["c", "a"], ["y"]),
    ]
    return [nodes[number] for number in numbers]


@pytest.mark.parametrize("numbers", [(3, 2, 1, 0), (1, 0, 3, 2), (0, 2, 1, 3)])
def test_nodes_in_any_order(numbers):
    shuffled, plain = (model_of(in_order_of(n), {"x": X}, ["y"]) for n in (numbers, range(4)))
    before = shuffled.SerializeToString()
    want = check(plain, {"x": X}, exact=True).compile()(X)["y"]
    got = og.from_onnx(shuffled)
    assert [op.kind for op in got.ops] == [op.kind for op in og.from_onnx(plain).ops]
    np.testing.assert_array_equal(got.compile()(X)["y"], want)
    assert shuffled.SerializeToString() == before  # the user's own is not changed


def test_order_inside_of_branches_and_of_what_they_read():
    inside = [NODE("Add", ["h", "late"], ["r"]), NODE("Neg", ["x"], ["h"])]
    then = helper.make_graph(inside, "then", [], [tensor("r")])
    other = helper.make_graph([NODE("Identity", ["late"], ["s"])], "other", [], [tensor("s")])
    nodes = [NODE("If", ["c"], ["y"], then_branch=then, else_branch=other), NODE("Abs", ["x"], ["late"])]
    compiled = og.from_onnx(model_of(nodes, {"x": X, "c": scalar(True, bool)}, ["y"])).compile()
    np.testing.assert_array_equal(compiled({"x": X, "c": np.array(True)})["y"], np.abs(X) - X)
    np.testing.assert_array_equal(compiled({"x": X, "c": np.array(False)})["y"], np.abs(X))


def test_order_inside_of_functions():
    opset = helper.make_opsetid("", 17)
    body = [NODE("Neg", ["h"], ["r"]), NODE("Abs", ["p"], ["h"])]
    function = helper.make_function("own", "f", ["p"], ["r"], body, [opset])
    graph = model_of([NODE("f", ["x"], ["y"], domain="own")], {"x": X}, ["y"]).graph
    model = helper.make_model(
        graph, functions=[function], opset_imports=[opset, helper.make_opsetid("own", 1)]
    )
    np.testing.assert_array_equal(og.from_onnx(model).compile()(X)["y"], -np.abs(X))


# --- graphs inside nodes ---------------------------------------------------------------------------------


def test_branches_with_inputs_that_name_what_stands_around_them():
    node = branches(
        NODE("Neg", ["x"], ["r"]), NODE("Abs", ["x"], ["s"]), then_branch=["x"], else_branch=["x"]
    )
    compiled = og.from_onnx(model_of([node], {"x": X, "c": scalar(True, bool)}, ["y"])).compile()
    for truth, want in ((True, -X), (False, np.abs(X))):
        np.testing.assert_array_equal(compiled({"x": X, "c": np.array(truth)})["y"], want)


def test_branches_with_inputs_that_name_constants_around_them():
    node = branches(
        NODE("Add", ["x", "w"], ["r"]),
        NODE("Sub", ["x", "w"], ["s"]),
        then_branch=["w"],
        else_branch=["x", "w"],
    )
    model = model_of([node], {"x": X, "c": scalar(True, bool)}, ["y"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(X + 1, "w"))
    compiled = og.from_onnx(model).compile()
    for truth, want in ((True, X + X + 1), (False, X - (X + 1))):
        np.testing.assert_array_equal(compiled({"x": X, "c": np.array(truth)})["y"], want)


def test_branches_with_inputs_that_nothing_gives():
    node = branches(NODE("Neg", ["z"], ["r"]), NODE("Abs", ["x"], ["s"]), then_branch=["z"])
    with pytest.raises(
        og.ArgumentError, match="then_branch has 1 inputs and 1 outputs, and must have 0 and 1"
    ):
        og.from_onnx(model_of([node], {"x": X, "c": scalar(True, bool)}, ["y"]))


def test_a_loop_whose_body_takes_its_number_and_condition_with_an_axis():
    run = pytest.importorskip("onnxruntime").InferenceSession
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            NODE("Identity", ["going"], ["on"]),
            NODE("Cast", ["number"], ["f"], to=1),
            NODE("Add", ["f", "x"], ["row"]),
        ],
        "body",
        [info("number", onnx.TensorProto.INT64, [1]), info("going", onnx.TensorProto.BOOL, [1])],
        [info("on", onnx.TensorProto.BOOL, [1]), tensor("row", [3])],
    )
    x = integers(3)
    constants = {"most": np.array([4], np.int64), "c": np.array([True])}
    model = model_of([NODE("Loop", ["most", "c"], ["y"], body=body)], {"x": x}, ["y"], constants, opset=13)
    model.graph.output[0].CopyFrom(tensor("y", [4, 3]))
    (want,) = run(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    got = og.from_onnx(model).compile()(x)["y"]
    np.testing.assert_array_equal(got, want)
    # Without an axis beside them the rows of the number alone show it.
    body.node[2].CopyFrom(NODE("Identity", ["f"], ["row"]))
    body.output[1].CopyFrom(tensor("row", [1]))
    model = model_of([NODE("Loop", ["most", "c"], ["y"], body=body)], {"x": x}, ["y"], constants, opset=13)
    assert og.from_onnx(model).compile()(x)["y"].shape == (4, 1)


# --- initializers ----------------------------------------------------------------------------------------


SPARSE = np.array([[0, 0, 3], [0, -2, 0], [5, 0, 0]], np.float32)


def sparse_of(places, values=(3, -2, 5), shape=(3, 3)):
    places = np.asarray(places, np.int64)
    return helper.make_sparse_tensor(
        onnx.numpy_helper.from_array(np.asarray(values, np.float32), "w"),
        onnx.numpy_helper.from_array(places, "places"),
        shape,
    )


def with_sparse(sparse):
    model = model_of([NODE("MatMul", ["x", "w"], ["y"])], {"x": X}, ["y"])
    model.graph.sparse_initializer.append(sparse)
    return model


PLACES = {"numbers": [2, 4, 6], "rows and columns": [[0, 2], [1, 1], [2, 0]]}


@pytest.mark.parametrize("form", PLACES)
def test_sparse_initializers(form, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(with_sparse(sparse_of(PLACES[form])).SerializeToString())
    np.testing.assert_array_equal(og.from_onnx(path).compile()(X)["y"], X @ SPARSE)


@pytest.mark.parametrize("form", PLACES)
def test_sparse_constants(form):
    constant = NODE("Constant", [], ["w"], sparse_value=sparse_of(PLACES[form]))
    model = model_of([constant, NODE("MatMul", ["x", "w"], ["y"])], {"x": X}, ["y"])
    np.testing.assert_array_equal(og.from_onnx(model).compile()(X)["y"], X @ SPARSE)


@pytest.mark.parametrize(
    ("places", "shape", "message"),
    [
        ([2, 4, 9], (3, 3), r"sparse initializer 'w' \(it names places that are not in its shape \[3, 3\]\)"),
        ([[0, 0], [1, 1], [2, -1]], (3, 3), "it names places that are not in its shape"),
        ([2, 4], (3, 3), r"it has 3 values, and places of shape \[2\]"),
        (
            [2, 4, 6],
            (1 << 20, 1 << 20),
            "takes 4,398,046,511,104 bytes, and one that is computed at import may",
        ),
    ],
)
def test_sparse_initializers_that_are_none(places, shape, message):
    with pytest.raises(og.errors.OneDNNGraphError, match=message):
        og.from_onnx(with_sparse(sparse_of(places, shape=shape)))


@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint32", "uint64", "complex64"])
def test_constants_as_outputs_of_types_that_graphs_do_not_have(dtype):
    held = np.arange(3).astype(dtype)
    nodes = [NODE("Relu", ["x"], ["y"]), NODE("Identity", ["w"], ["z"])]
    results = og.from_onnx(model_of(nodes, {"x": X}, ["y", "z"], {"w": held})).compile()(X)
    np.testing.assert_array_equal(results["y"], np.maximum(X, 0))
    np.testing.assert_array_equal(results["z"], held)
    assert results["z"].dtype == held.dtype


# --- ops -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap", "constant"])
@pytest.mark.parametrize("pads", [[1, -2, -1, 2], [-1, -2, 0, -1], [0, 2, -2, 1], [-1, 1, 2, -3]])
def test_negative_pads(mode, pads):
    run = pytest.importorskip("onnxruntime").InferenceSession
    x = integers(5, 6)
    model = model_of(
        [NODE("Pad", ["x", "pads"], ["y"], mode=mode)], {"x": x}, ["y"], {"pads": np.array(pads)}, 19
    )
    model.graph.output[0].CopyFrom(tensor("y", ["a", "b"]))
    (want,) = run(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_array_equal(og.from_onnx(model).compile()(x)["y"], want)


@pytest.mark.parametrize("opset", [10, 13])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_dequantisation_by_scales_that_are_inputs(opset, shape, dtype):
    """ONNX's reference has the op from opset 19 on, and onnxruntime since it came."""
    if shape == (3,) and opset < 13:
        pytest.skip("one scale for each channel came with opset 13")
    onnxruntime = pytest.importorskip("onnxruntime")
    x = integers(2, 3, 4, low=-100, high=100).astype(dtype)
    inputs = {"x": x, "s": np.asarray(np.abs(integers(*shape, seed=1)) + 0.5, np.float32)}
    names = ["x", "s"]
    if dtype != np.int32:
        inputs["z"] = np.asarray(np.abs(integers(*shape, seed=2)), dtype)
        names.append("z")
    model = model_of([NODE("DequantizeLinear", names, ["y"])], inputs, ["y"], opset=opset)
    model.graph.output[0].CopyFrom(tensor("y", x.shape))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, inputs)
    np.testing.assert_array_equal(og.from_onnx(model).compile()(inputs)["y"], want)


@pytest.mark.parametrize("auto_pad", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("wanted", [[10, 8], [9, 7], [11, 8]])
def test_transposed_convolutions_that_are_larger_than_their_windows_reach(auto_pad, wanted):
    onnxruntime = pytest.importorskip("onnxruntime")
    x, w = integers(1, 2, 3, 3), integers(2, 2, 3, 3, seed=1)
    node = NODE("ConvTranspose", ["x", "w"], ["y"], output_shape=wanted, strides=[3, 2], auto_pad=auto_pad)
    model = model_of([node], {"x": x, "w": w}, ["y"], opset=11)
    model.graph.output[0].CopyFrom(tensor("y", [1, 2, *wanted]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x, "w": w})
    np.testing.assert_array_equal(og.from_onnx(model).compile()({"x": x, "w": w})["y"], want)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_sequences_of_no_steps(kind, gates, constant):
    onnxruntime = pytest.importorskip("onnxruntime")
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    inputs = {
        "x": integers(3, 2, 2),
        "w": integers(1, 2 * gates, 2, seed=1),
        "r": integers(1, 2 * gates, 2, seed=2),
    }
    inputs |= {name: integers(1, 2, 2, seed=3) + 1 for name in states}
    outputs = ["y", *(f"last_{name}" for name in states)]
    node = NODE(kind, ["x", "w", "r", "", "l", *states], outputs, hidden_size=2)
    lengths = {"l": np.array([0, 2], np.int32)}
    model = model_of(
        [node], inputs | ({} if constant else lengths), outputs, lengths if constant else {}, opset=14
    )
    for info in model.graph.output:
        info.CopyFrom(tensor(info.name, None))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    given = inputs if constant else inputs | lengths
    got = og.from_onnx(model).compile()(given)
    for name, want in zip(outputs, session.run(None, given), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6)


def test_a_loop_whose_body_is_described_wrongly():
    info = helper.make_tensor_value_info
    nodes = [NODE("Identity", ["c"], ["on"]), NODE("Add", ["v", "x"], ["w"])]
    body = helper.make_graph(
        nodes,
        "body",
        [info("n", onnx.TensorProto.INT64, []), info("c", onnx.TensorProto.BOOL, []), tensor("v", [3, 3, 3])],
        [info("on", onnx.TensorProto.BOOL, []), tensor("w", [7])],
    )
    constants = {"most": scalar(3, np.int64), "go": scalar(True, bool)}
    model = model_of(
        [NODE("Loop", ["most", "go", "x"], ["y"], body=body)], {"x": X}, ["y"], constants, opset=13
    )
    np.testing.assert_array_equal(og.from_onnx(model).compile()(X)["y"], 4 * X)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint8, np.int32])
@pytest.mark.parametrize(("bias", "lambd"), [(1.0, -5.0), (1.5, 0.5), (-4.5, 5.0), (0.0, -1.0)])
def test_shrinking_with_bounds_below_0(dtype, bias, lambd):
    """An element that is on both sides of the bound goes by the lower one, which ONNX names first."""
    onnxruntime = pytest.importorskip("onnxruntime")
    x = np.arange(0 if dtype == np.uint8 else -8, 9).astype(dtype)
    model = model_of([NODE("Shrink", ["x"], ["y"], bias=bias, lambd=lambd)], {"x": x}, ["y"], opset=19)
    model.graph.output[0].CopyFrom(
        helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": x})
    np.testing.assert_array_equal(og.from_onnx(model).compile()(x)["y"], want)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 3)])
def test_masks_of_attention_are_what_is_above_0(shape):
    onnxruntime = pytest.importorskip("onnxruntime")
    x, w = integers(2, 3, 4), integers(4, 12, seed=1)
    mask = np.array([[3, 2, 0], [1, -1, 4]], np.int32)
    mask = np.broadcast_to(mask[:, None], shape).copy() if len(shape) == 3 else mask
    inputs = {"x": x, "w": w, "b": integers(12, seed=2), "m": mask}
    node = NODE("Attention", list(inputs), ["y"], domain="com.microsoft", num_heads=2)
    model = model_of([node], inputs, ["y"], opset=19)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.output[0].CopyFrom(tensor("y", x.shape))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, inputs)
    np.testing.assert_allclose(og.from_onnx(model).compile()(inputs)["y"], want, rtol=1e-5, atol=1e-5)


def test_outputs_that_are_named_and_that_nobody_reads():
    """Exporters name what is for training alone; the sum behind it is read."""
    onnxruntime = pytest.importorskip("onnxruntime")
    inputs = {"x": integers(2, 3, 4), "s": integers(2, 3, 4, seed=1), "g": integers(4, seed=2)}
    node = NODE(
        "SkipLayerNormalization", list(inputs), ["y", "mean", "deviation", "z"], domain="com.microsoft"
    )
    model = model_of([node], inputs, ["y", "z"], opset=17)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    for info in model.graph.output:
        info.CopyFrom(tensor(info.name, (2, 3, 4)))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = og.from_onnx(model).compile()(inputs)
    for name, want in zip("yz", session.run(None, inputs), strict=True):
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5)


def test_sums_of_einstein_over_axes_that_are_spread():
    x, y = integers(1, 3, 2), integers(2, 2, 4, seed=1)
    model = model_of([NODE("Einsum", ["x", "y"], ["z"], equation="bik,bkj->bij")], {"x": x, "y": y}, ["z"])
    np.testing.assert_array_equal(og.from_onnx(model).compile()({"x": x, "y": y})["z"], x @ y)


@pytest.mark.parametrize("kind", [np.uint16, np.int16])
def test_quantisations_to_16_bits_of_open_sizes(kind):
    x = np.array([[-2.0, 0.5, 3.25], [1.0, -7.5, 100.0]], np.float32)
    model = model_of([NODE("QuantizeLinear", ["x", "s", "z"], ["y"])], {"x": x}, ["y"], opset=21)
    for info, number in zip(
        (*model.graph.input, *model.graph.output),
        (onnx.TensorProto.FLOAT, helper.np_dtype_to_tensor_dtype(np.dtype(kind))),
        strict=True,
    ):
        info.CopyFrom(helper.make_tensor_value_info(info.name, number, ["n", 3]))
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name)
        for name, value in (("s", np.array(0.25, np.float32)), ("z", np.array(100, kind)))
    )
    got = og.from_onnx(model).compile()({"x": x})["y"]
    assert got.dtype == kind
    np.testing.assert_array_equal(got, (x * 4 + 100).astype(kind))


@pytest.mark.parametrize("size", [3, "n"])
@pytest.mark.parametrize("kind", [np.uint16, np.uint32, np.uint64, np.int16])
def test_inputs_of_types_that_graphs_lack_beside_open_sizes(kind, size):
    inputs = {"x": X, "k": np.arange(3).astype(kind), "unread": np.arange(3).astype(kind)}
    nodes = [NODE("Neg", ["x"], ["y"]), NODE("Where", ["c", "k", "k"], ["z"])]
    model = model_of(nodes, inputs, ["y", "z"], {"c": np.asarray(True)}, shapes={"x": (2, size)})
    model.graph.output[0].CopyFrom(tensor("y", (2, size)))
    number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    model.graph.output[1].CopyFrom(helper.make_tensor_value_info("z", number, [3]))
    compiled = og.from_onnx(model).compile()
    assert set(compiled.input_names) == set(inputs)
    got = compiled(inputs)
    np.testing.assert_array_equal(got["y"], -X)
    np.testing.assert_array_equal(got["z"], inputs["k"])
    assert got["z"].dtype == kind
