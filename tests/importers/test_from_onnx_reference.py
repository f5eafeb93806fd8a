"""`from_onnx`: nodes that ONNX's reference runs, what ONNX defines by other ops, and models that run in stages."""

import pickle

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.onnx import own
from onednn_graph.graph.onnx.staged_graph import StagedGraph
from onednn_graph.graph.onnx.types import NUMBERS
from onednn_graph.tools.graph_files import with_shapes
from onnx_oracle import IR, NEWEST, helper, ints, model_of, normal, numpy_helper, onnx

X = normal(3, 4, 4)
TYPES = onnx.TensorProto


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def whole(nodes, inputs, outputs, constants=None, opset=18):
    """A model whose inputs and outputs are described by ONNX's own helpers."""
    graph = helper.make_graph(
        nodes,
        "g",
        [
            info if not isinstance(info, tuple) else helper.make_tensor_value_info(name, *info)
            for name, info in inputs.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR)


def test_a_node_of_known_sizes_is_an_op_of_the_graph():
    nodes = [node("Relu", "x", "r"), node("Det", "r", "d", name="volume"), node("Sigmoid", "d", "y")]
    graph = og.from_onnx(model_of(nodes, {"x": X}, ["y"]))
    assert type(graph) is og.Graph
    assert [op.kind for op in graph.ops] == ["ReLU", "HostOnnx", "Sigmoid"]
    wanted = 1 / (1 + np.exp(-np.linalg.det(X.clip(0))))
    compiled = graph.compile()
    np.testing.assert_allclose(compiled(X)["y"], wanted, rtol=1e-5)
    assert "Det of ONNX" in str(compiled.report(X))
    assert pickle.loads(pickle.dumps(graph)).compile()(X)["y"].shape == (3,)


def test_sizes_that_depend_on_values():
    nodes = [node("Relu", "x", "r"), node("Unique", "r", "n"), node("Sigmoid", "n", "y")]
    graph = og.from_onnx(whole(nodes, {"x": (TYPES.FLOAT, ["n", 4])}, ["y"]))
    assert isinstance(graph, StagedGraph)
    compiled = graph.compile()
    for seed in range(3):
        x = normal(2 + seed, 4, seed=seed)
        found = np.unique(x.clip(0))
        np.testing.assert_allclose(compiled(x)["y"], 1 / (1 + np.exp(-found)), rtol=1e-5)
    assert "node 'n' (Unique) by itself, on reference: there is no translation" in str(compiled.explain())
    report = compiled.report(x)
    assert report.ops["reference"]
    assert "on reference: Unique of ONNX" in str(report)
    assert report.seconds["reference"] > 0
    again = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_array_equal(again(x)["y"], compiled(x)["y"])


def test_what_runs_in_stages_is_no_graph_and_says_so():
    model = model_of([helper.make_node("NonZero", ["x"], ["y"])], {"x": normal(2, 3)}, ["y"])
    graph = og.from_onnx(model)
    with pytest.raises(og.ArgumentError, match=r"m\.onnx is no graph, but runs in stages"):
        with_shapes(graph, {}, "m.onnx")
    with pytest.raises(
        og.UnsupportedError, match=r"parts of it run by ONNX's reference.*compile and call it"
    ):
        graph.save("m.json")


def test_what_onnx_defines_by_other_ops_is_these():
    """Statistics of a normalisation are no output of LayerNorm's translation."""
    nodes = [node("LayerNormalization", "x s", "y m v", axis=-1)]
    graph = og.from_onnx(model_of(nodes, {"x": X}, ["y", "m", "v"], {"s": np.ones(4, np.float32)}))
    assert type(graph) is og.Graph
    assert not any(op.kind == "HostOnnx" for op in graph.ops)
    made = graph.compile()(X)
    np.testing.assert_allclose(made["m"], X.mean(-1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(made["v"], 1 / np.sqrt(X.var(-1, keepdims=True) + 1e-5), rtol=1e-5)


def branch(name, kind):
    return helper.make_graph(
        [node(kind, "r", name)], name, [], [helper.make_tensor_value_info(name, 1, None)]
    )


def test_branches_read_what_stands_around_them():
    nodes = [
        node("Relu", "x", "r"),
        node("If", "c", "b", then_branch=branch("t", "Exp"), else_branch=branch("e", "Neg")),
        node("Abs", "b", "y"),
    ]
    inputs = {"x": (TYPES.FLOAT, [3, 4, 4]), "c": (TYPES.BOOL, [])}
    compiled = og.from_onnx(whole(nodes, inputs, ["y"])).compile()
    np.testing.assert_allclose(compiled(X, np.asarray(True))["y"], np.exp(X.clip(0)), rtol=1e-5)
    np.testing.assert_allclose(compiled(X, np.asarray(False))["y"], X.clip(0), rtol=1e-5)


def test_loops_carry_values_and_collect_them():
    body = helper.make_graph(
        [node("MatMul", "v x", "w"), node("Identity", "go", "on"), node("ReduceSum", "w", "s", keepdims=0)],
        "body",
        [
            helper.make_tensor_value_info("i", TYPES.INT64, []),
            helper.make_tensor_value_info("go", TYPES.BOOL, []),
            helper.make_tensor_value_info("v", 1, [4, 4]),
        ],
        [
            helper.make_tensor_value_info("on", TYPES.BOOL, []),
            helper.make_tensor_value_info("w", 1, [4, 4]),
            helper.make_tensor_value_info("s", 1, []),
        ],
    )
    inputs = {"x": (TYPES.FLOAT, [4, 4]), "n": (TYPES.INT64, [])}
    model = whole([helper.make_node("Loop", ["n", "", "x"], ["y", "sums"], body=body)], inputs, ["y", "sums"])
    compiled = og.from_onnx(model).compile()
    x = X[0] / 4
    for count in (3, 0):
        made = compiled(x, np.asarray(count))
        powers = [np.linalg.matrix_power(x.astype("f8"), k + 2) for k in range(count)]
        np.testing.assert_allclose(made["y"], powers[-1] if powers else x, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(made["sums"], [p.sum() for p in powers], rtol=1e-4, atol=1e-5)
        assert made["sums"].shape == (count,)
    assert any(graph.partitions for graph in compiled._trace.graphs) or not count


def test_what_goes_into_a_body_may_be_named_as_a_constant_around_it():
    """The body read the constant, turn after turn."""
    infos = [helper.make_tensor_value_info(name, 1, None) for name in ("carried", "row", "next", "out")]
    body = helper.make_graph(
        [node("MatMul", "carried w", "out"), node("Add", "out row", "next")], "body", infos[:2], infos[2:]
    )
    scan = helper.make_node("Scan", ["start", "x"], ["last", "all"], body=body, num_scan_inputs=1)
    draws = np.random.default_rng(0)
    x, w = (draws.integers(-1, 2, shape).astype(np.float32) for shape in ((2, 32, 64), (64, 64)))
    constants = {"w": w, "carried": np.full((32, 64), 7, np.float32)}
    nodes = [node("Relu", "x", "r"), node("ReduceSum", "r zero", "start", keepdims=0), scan]
    constants["zero"] = np.int64([0])
    model = model_of([*nodes, node("Add", "last carried", "y")], {"x": x}, ["y", "all"], constants)
    made = og.from_onnx(model).compile()(x)
    first = x.clip(0).sum(0) @ w
    second = (first + x[0]) @ w
    np.testing.assert_array_equal(made["all"], [first, second])
    np.testing.assert_array_equal(made["y"], second + x[1] + 7)


def test_types_that_graphs_do_not_have():
    model = whole([node("Add", "x x", "y")], {"x": (TYPES.UINT16, ["n"])}, ["y"])
    graph = og.from_onnx(model)
    assert graph.inputs[0].data_type is og.DataType.undef
    compiled = graph.compile()
    np.testing.assert_array_equal(compiled(np.uint16([1, 40000]))["y"], np.uint16([2, 80000 - 65536]))
    with pytest.raises(og.DataTypeError, match="input 'x' must be an array of uint16, got float32"):
        compiled(np.float32([1]))
    with pytest.raises(og.ShapeError, match="input 'x' must have shape"):
        compiled(np.uint16([[1]]))


def test_text_and_sequences():
    model = whole(
        [node("StringConcat", "x t", "s"), node("SequenceConstruct", "s x", "y")],
        {"x": (TYPES.STRING, [2])},
        ["y"],
        {"t": np.asarray(["!"], object)},
        opset=20,
    )
    if NEWEST < 20:
        pytest.skip("ONNX has StringConcat from opset 20 on")
    first, second = og.from_onnx(model).compile()(np.asarray(["a", "bc"]))["y"]
    assert first.tolist() == ["a!", "bc!"]
    assert second.tolist() == ["a", "bc"]


def test_constants_that_are_inputs():
    model = whole(
        [node("ReduceSum", "x axes", "y")],
        {"x": (TYPES.FLOAT, [3, 4, 4]), "axes": (TYPES.INT64, ["n"])},
        ["y"],
    )
    compiled = og.from_onnx(model).compile()
    for axes in ([0], [1, 2], [-1]):
        wanted = X.sum(tuple(axes), keepdims=True)
        np.testing.assert_allclose(compiled(X, ints(*axes))["y"], wanted, rtol=1e-4, atol=1e-5)


def test_what_contradicts_itself_is_refused_at_once():
    for nodes, message in (
        ([node("Add", "x i", "y")], "don't fit together"),
        ([node("Relu", "x", "r", domain="example")], "r"),
    ):
        with pytest.raises(og.OneDNNGraphError, match=message):
            og.from_onnx(model_of(nodes, {"x": X, "i": np.arange(4)}, ["y"]))


def test_old_opsets_are_converted():
    model = whole([node("Clip", "x", "y", min=0.0, max=1.0)], {"x": (TYPES.FLOAT, [3, 4, 4])}, ["y"], opset=7)
    np.testing.assert_array_equal(og.from_onnx(model).compile()(X)["y"], X.clip(0, 1))


def test_errors_of_calls():
    compiled = og.from_onnx(whole([node("NonZero", "x", "y")], {"x": (TYPES.FLOAT, [4])}, ["y"])).compile()
    x = np.float32([1, 0, 2, 0])
    with pytest.raises(og.UnsupportedError, match=r"can't be saved compiled, for it runs in stages.*graphs;"):
        compiled.save_compiled("never.ogc")
    compiled(x)
    with pytest.raises(og.UnsupportedError, match=r"between its graphs \(NonZero\); save the ONNX model"):
        compiled.save_compiled("never.ogc")
    with pytest.raises(og.ArgumentError, match="can't be bound, for it runs in stages"):
        compiled.bind([x])
    with pytest.raises(og.ArgumentError, match="input 'x' is missing"):
        compiled({})
    with pytest.raises(og.ArgumentError, match=r"output 'y' has shape \[1, 2\]"):
        compiled({"x": x}, {"y": np.empty((1, 3), np.int64)})
    target = np.empty((1, 2), np.int64)
    assert compiled({"x": x}, {"y": target})["y"] is target
    np.testing.assert_array_equal(target, [[0, 2]])


def overlap(a, b):
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = np.prod(np.maximum(sides, 0))
    return shared / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared)


def test_boxes_that_overlap_better_ones_are_left_out():
    low = np.random.default_rng(0).random((1, 30, 2)).astype(np.float32)
    boxes = np.concatenate((low, low + 0.3), -1)
    scores = np.random.default_rng(1).random((1, 2, 30)).astype(np.float32)
    kept = []
    for kind in (0, 1):
        own = []
        for place in np.argsort(-scores[0, kind]):
            if scores[0, kind, place] > 0.1 and all(
                overlap(boxes[0, place], boxes[0, o]) <= 0.4 for o in own
            ):
                own.append(place)
        kept += [(0, kind, place) for place in own[:5]]
    constants = {"m": np.array([5]), "i": np.float32([0.4]), "t": np.float32([0.1])}
    inputs = {"b": (TYPES.FLOAT, [1, "n", 4]), "s": (TYPES.FLOAT, [1, 2, "n"])}
    model = whole([node("NonMaxSuppression", "b s m i t", "y")], inputs, ["y"], constants)
    compiled = og.from_onnx(model).compile()
    np.testing.assert_array_equal(compiled(boxes, scores)["y"], kept)
    assert compiled.nodes[0].by == "numpy"


def test_averages_of_dilated_windows_and_places_of_maxima():
    """Windows that reach beyond the padding count what is there; the reference fails on some of them."""
    x = normal(1, 1, 5)
    attributes = {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1}
    inputs = {"x": (TYPES.FLOAT, [1, 1, 5])}
    model = whole([node("AveragePool", "x", "y", dilations=[2], **attributes)], inputs, ["y"], opset=19)
    wanted = [x[0, 0, 1], x[0, 0, [1, 3]].mean(), x[0, 0, 3]]
    np.testing.assert_allclose(og.from_onnx(model).compile()(x)["y"][0, 0], wanted, rtol=1e-6)
    model = whole([node("MaxPool", "x", "y i", **attributes)], inputs, ["y", "i"])
    made = og.from_onnx(model).compile()(x)
    pairs = [[0], [1, 2], [3, 4]]
    np.testing.assert_array_equal(made["i"][0, 0], [max(pair, key=lambda n: x[0, 0, n]) for pair in pairs])
    np.testing.assert_array_equal(made["y"][0, 0], x[0, 0, made["i"][0, 0]])


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("dtype", ["int16", "float32"])
def test_parts_that_nobody_needs_are_parts_of_a_split(opset, dtype):
    """Of a type that graphs have, and one that they don't."""
    x = np.arange(6, dtype=dtype)
    attributes = {"num_outputs": 3} if opset == 18 else {}
    nodes = [node("Split", "x", "a b c", **attributes)]
    proto = whole(nodes, {"x": (NUMBERS[x.dtype], [6])}, ["a", "b"], opset=opset)
    made = og.from_onnx(proto).compile()(x)
    np.testing.assert_array_equal(made["a"], [0, 1])
    np.testing.assert_array_equal(made["b"], [2, 3])


def test_what_a_kernel_of_ours_ends_in_is_told_as_that(monkeypatch):
    def broken(call):
        raise KeyError("weights")

    monkeypatch.setitem(own.OWN, "NonMaxSuppression", broken)
    model = whole(
        [node("NonMaxSuppression", "boxes scores most", "y")],
        {
            "boxes": (TYPES.FLOAT, [1, 2, 4]),
            "scores": (TYPES.FLOAT, [1, 1, 2]),
            "most": (TYPES.INT64, [1]),
        },
        ["y"],
    )
    call = og.from_onnx(model).compile()
    with pytest.raises(og.UnsupportedError) as caught:
        call(np.zeros((1, 2, 4), np.float32), np.zeros((1, 1, 2), np.float32), np.array([1]))
    assert (
        "its NumPy kernel in onednn_graph ends in KeyError: 'weights', for inputs of float32 [1, 2, 4]"
        in str(caught.value)
    )
    assert "don't fit together" not in str(caught.value)


@pytest.mark.parametrize("first", ["Relu", "NonZero"])
def test_results_of_two_names_are_two_arrays(first):
    """Who writes into one does not change the other; of a graph, and of a model in stages."""
    nodes = [node(first, "x", "a"), node("Identity", "a", "b"), node("Reshape", "a flat", "c")]
    proto = whole(nodes, {"x": (TYPES.FLOAT, ["n", 4])}, ["a", "b", "c"], {"flat": np.int64([-1])})
    made = og.from_onnx(proto).compile()(np.float32([[1, 0, 2, 0]]))
    names = ["a", "b", "c"]
    assert not any(np.may_share_memory(made[a], made[b]) for a in names for b in names if a < b)
    np.testing.assert_array_equal(made["a"], made["b"])
    np.testing.assert_array_equal(made["a"].reshape(-1), made["c"])


def test_what_follows_from_constants_inside_of_a_node_is_computed_once():
    """The indices of a Slice, say, which exporters write as nodes in the graph of an If."""
    inside = [
        node("Constant", "", "one", value=numpy_helper.from_array(np.int64(1))),
        node("Constant", "", "axes", value=numpy_helper.from_array(np.int64([0]))),
        node("Unsqueeze", "one axes", "begin"),
        node("Add", "begin begin", "end"),
        node("Slice", "x begin end", "part"),
    ]
    then = helper.make_graph(inside, "then", [], [onnx.ValueInfoProto(name="part")])
    other = helper.make_graph(
        [node("Identity", "x", "same")], "other", [], [onnx.ValueInfoProto(name="same")]
    )
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other)]
    infos = {"c": (TYPES.BOOL, []), "x": (TYPES.FLOAT, ["n", 4])}
    compiled = og.from_onnx(whole(nodes, infos, ["y"])).compile()
    for seed in range(3):
        x = normal(3, 4, seed=seed)
        np.testing.assert_array_equal(compiled({"c": np.asarray(True), "x": x})["y"], x[1:2])
        assert [ran.kind for ran in compiled.nodes] == ["If"]
        np.testing.assert_array_equal(compiled({"c": np.asarray(False), "x": x})["y"], x)
