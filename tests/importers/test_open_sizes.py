"""Sizes that a model leaves open: ops that depend on them are made for the sizes of each call."""

import copy
import pickle
import threading

import numpy as np
import onednn_graph as og
import processes
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_oracle import IR, close, expected_of, helper, integers, ints, model_of, normal, numpy_helper, scalar

OPEN = {"x": ["batch", 3, "length"]}
SHAPES = [(2, 3, 4), (1, 3, 7), (5, 3, 1)]


def floats(shape, seed=0):
    return integers(*shape, seed=seed)


# Nodes from x to y whose shapes are computed from the sizes of x, and constants.
SIZED = [
    helper.make_node("Shape", ["x"], ["s"]),
    helper.make_node("Gather", ["s", "zero"], ["n"]),
    helper.make_node("Gather", ["s", "two"], ["m"]),
    helper.make_node("Unsqueeze", ["n", "0"], ["ns"]),
    helper.make_node("Unsqueeze", ["m", "0"], ["ms"]),
]
CONSTANTS = {
    "zero": scalar(0, np.int64),
    "two": scalar(2, np.int64),
    "one": scalar(1, np.int64),
    "0": ints(0),
    "1": ints(1),
    "-1": ints(-1),
    "3": ints(3),
    "table": normal(9, 3, 1),
    "f": scalar(1.0),
    "huge": scalar(-1e9),
}
NODES = {
    "reshape": [
        helper.make_node("Concat", ["ns", "-1"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["y"]),
    ],
    "merged": [
        helper.make_node("Mul", ["ns", "ms"], ["both"]),
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Concat", ["both", "3"], ["to"], axis=0),
        helper.make_node("Reshape", ["t", "to"], ["y"]),
    ],
    "expand": [
        helper.make_node("Expand", ["f", "s"], ["e"]),
        helper.make_node("Add", ["x", "e"], ["y"]),
    ],
    "range": [
        helper.make_node("Range", ["zero", "m", "one"], ["r"]),
        helper.make_node("Cast", ["r"], ["rf"], to=1),
        helper.make_node("Add", ["x", "rf"], ["y"]),
    ],
    "constant-of-shape": [
        helper.make_node("ConstantOfShape", ["s"], ["o"]),
        helper.make_node("Sub", ["o", "x"], ["y"]),
    ],
    "slice": [
        helper.make_node("Sub", ["ms", "1"], ["last"]),
        helper.make_node("Slice", ["x", "last", "ms", "two_axis"], ["y"]),
    ],
    "look-up": [
        helper.make_node("Range", ["zero", "n", "one"], ["r"]),
        helper.make_node("Gather", ["table", "r"], ["g"]),
        helper.make_node("Add", ["x", "g"], ["y"]),
    ],
    "causal": [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "x"], ["scores"]),
        helper.make_node("Range", ["zero", "m", "one"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "1"], ["rows"]),
        helper.make_node("Greater", ["r", "rows"], ["later"]),
        helper.make_node("Where", ["later", "huge", "scores"], ["masked"]),
        helper.make_node("Relu", ["masked"], ["y"]),
    ],
    "where": [
        helper.make_node("Equal", ["ns", "1"], ["single"]),
        helper.make_node("Where", ["single", "3", "1"], ["count"]),
        helper.make_node("Concat", ["count", "1", "1"], ["to"], axis=0),
        helper.make_node("Tile", ["x", "to"], ["y"]),
    ],
    "size": [
        helper.make_node("Size", ["x"], ["all"]),
        helper.make_node("Cast", ["all"], ["count"], to=1),
        helper.make_node("Div", ["x", "count"], ["y"]),
    ],
    "shape-of-computed": [
        helper.make_node("Concat", ["ns", "-1"], ["to"], axis=0),
        helper.make_node("Reshape", ["x", "to"], ["flat"]),
        helper.make_node("Shape", ["flat"], ["again"]),
        helper.make_node("Expand", ["f", "again"], ["e"]),
        helper.make_node("Mul", ["flat", "e"], ["y"]),
    ],
}


def sized(name, shape=SHAPES[0]):
    constants = {**CONSTANTS, "two_axis": ints(2)}
    nodes = [*SIZED, *NODES[name]]
    used = {key for node in nodes for key in node.input}
    # The result's type must stand in the model; its sizes need not.
    model = model_of(
        nodes, {"x": floats(shape)}, ["y"], {k: v for k, v in constants.items() if k in used}, shapes=OPEN
    )
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, None))
    return model


def test_a_head_needs_a_graph_with_parameters():
    graph = og.from_onnx(sized(next(iter(NODES))))
    with pytest.raises(og.errors.GraphError, match=r"got OpenGraph.*give Trainer a function of the loss"):
        og.training.replace_head(graph, 2)


@pytest.mark.parametrize("name", NODES)
def test_an_op_that_depends_on_sizes(name):
    model = sized(name)
    graph = og.from_onnx(model)
    assert isinstance(graph, og.OpenGraph)
    assert (graph.input_names, graph.output_names) == (("x",), ("y",))
    compiled = graph.compile()
    for number, shape in enumerate((*SHAPES, SHAPES[0])):
        x = floats(shape, seed=number)
        close(compiled(x)["y"], expected_of(model, {"x": x})["y"])
    fixed = graph.with_shapes({"x": SHAPES[1]})
    assert not isinstance(fixed, og.OpenGraph)
    x = floats(SHAPES[1])
    np.testing.assert_array_equal(fixed.compile()(x)["y"], compiled(x)["y"])
    assert all(t.is_concrete for t in fixed.tensors)
    given = og.from_onnx(model, shapes={"x": SHAPES[1]})
    assert [op.kind for op in given.ops] == [op.kind for op in fixed.ops]


def test_what_needs_no_size_stays_a_graph():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    graph = og.from_onnx(model_of(nodes, {"x": floats((2, 3, 4))}, ["y"], shapes=OPEN))
    assert type(graph) is og.Graph
    assert [op.kind for op in graph.ops] == ["ReLU"]


def test_an_op_without_translation_is_named_at_once():
    """Also where it reads what depends on sizes; what is computed from sizes alone needs none."""
    model = sized("reshape")
    model.graph.node[-1].output[0] = "flat"
    model.graph.node.append(helper.make_node("Det", ["flat"], ["y"], name="volume"))
    with pytest.raises(og.UnsupportedError, match=r"^1 node .*Det ×1 \('volume'\)"):
        og.from_onnx(model, reference=False)


def test_a_size_that_does_not_fit_is_an_error_of_the_call():
    """A reshape to pairs takes even lengths only; the others still run."""
    nodes = [*SIZED[:3], helper.make_node("Reshape", ["x", "to"], ["y"])]
    nodes.insert(0, helper.make_node("Identity", ["pairs"], ["to"]))
    model = model_of(nodes, {"x": floats((2, 3, 4))}, ["y"], {**CONSTANTS, "pairs": ints(-1, 6)}, shapes=OPEN)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, None))
    compiled = og.from_onnx(model).compile()
    assert compiled(floats((2, 3, 4)))["y"].shape == (4, 6)
    with pytest.raises(og.OneDNNGraphError):
        compiled(floats((1, 3, 5)))
    assert compiled(floats((1, 3, 6)))["y"].shape == (3, 6)


def test_calling_and_binding():
    graph = og.from_onnx(sized("merged"))
    compiled = graph.compile()
    assert compiled.partitions == ()
    assert dict(compiled.explain()) == {}
    x, y = floats(SHAPES[0]), np.empty((8, 3), np.float32)
    wanted = x.transpose(0, 2, 1).reshape(8, 3)
    for given in ({"x": x}, {graph.inputs[0]: x}, {graph.inputs[0].id: x}):
        np.testing.assert_array_equal(compiled(given).only, wanted)
    results = compiled(x=x, outputs={"y": y})
    assert results["y"] is y
    assert results[graph.outputs[0]] is y
    np.testing.assert_array_equal(y, wanted)
    assert compiled.partitions
    assert compiled.explain()
    run = compiled.bind([x], {"y": y})
    x[:] = 7
    run()
    np.testing.assert_array_equal(y, np.full((8, 3), 7))
    report = compiled.report(x)
    assert report.partitions == len(compiled.partitions)
    assert "1 sets of input sizes" in repr(compiled)
    with pytest.raises(og.ArgumentError, match="input 'x' is missing; the graph takes 'x'"):
        compiled()
    with pytest.raises(og.ShapeError, match="input 'x' must have shape"):
        compiled(floats((2, 4, 4)))


def test_the_latest_sizes_are_kept():
    compiled = og.from_onnx(sized("expand")).compile(kept_shapes=3)
    for length in range(1, 7):
        x = floats((1, 3, length))
        np.testing.assert_array_equal(compiled(x)["y"], x + 1)
    assert "3 sets of input sizes" in repr(compiled)
    assert compiled.memory_bytes >= 0


def test_threads_with_different_sizes():
    compiled = og.from_onnx(sized("causal")).compile()
    wanted = {
        shape: og.from_onnx(sized("causal"), shapes={"x": shape}).compile()(floats(shape))["y"]
        for shape in SHAPES
    }
    wrong = []

    def run(shape):
        results = [compiled(floats(shape))["y"] for _ in range(20)]
        wrong.extend(shape for y in results if not np.array_equal(y, wanted[shape]))

    threads = [threading.Thread(target=run, args=(shape,)) for shape in SHAPES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


NOT_HERE = {
    "op": lambda graph: graph.op("ReLU", graph.inputs[0]),
    "input": lambda graph: graph.input("z", "f32", [1]),
    "constant": lambda graph: graph.constant(np.zeros(1)),
    "output": lambda graph: graph.output(graph.inputs[0]),
    "finalize": lambda graph: graph.finalize(),
    "prune": lambda graph: graph.prune(),
    "to_json": lambda graph: graph.to_json(),
    "to_html": lambda graph: graph.to_html("x.html"),
    "tune": lambda graph: graph.tune(),
}


@pytest.mark.parametrize("name", NOT_HERE)
def test_what_needs_the_ops_says_how_to_get_them(name):
    graph = og.from_onnx(sized("reshape"))
    with pytest.raises(
        AttributeError,
        match=rf"'OpenGraph' has no attribute '{name}': its ops depend on sizes that are open, "
        r"\{'x': \[\?, 3, \?\]\}.*with_shapes",
    ):
        NOT_HERE[name](graph)


def test_a_model_of_open_sizes_is_written_again(tmp_path):
    """With the names of its sizes, where its ops are the same for all; else what holds one is named."""
    graph = og.from_onnx(sized("merged"))
    graph.to_onnx(tmp_path / "again.onnx")
    written = pytest.importorskip("onnx").load(tmp_path / "again.onnx").graph
    (dims,) = [info.type.tensor_type.shape.dim for info in written.input]
    assert [d.dim_param or d.dim_value for d in dims] == ["batch", 3, "length"]
    again = og.from_onnx(tmp_path / "again.onnx")
    assert type(again) is og.Graph
    for shape in SHAPES:
        x = floats(shape)
        np.testing.assert_array_equal(again.compile()(x)["y"], x.transpose(0, 2, 1).reshape(-1, 3))
    with pytest.raises(og.UnsupportedError, match="with_unknown_sizes: constant .* is computed from a size"):
        og.from_onnx(sized("causal")).to_onnx(tmp_path / "never.onnx")
    assert not (tmp_path / "never.onnx").exists()


def test_some_sizes_first_and_others_later():
    graph = og.from_onnx(sized("reshape"))
    partly = graph.with_shapes({"x": (2, 3, -1)})
    assert isinstance(partly, og.OpenGraph)
    assert partly.inputs[0].shape == (2, 3, -1)
    assert partly.with_shapes({"x": (2, 3, 5)}).inputs[0].shape == (2, 3, 5)
    assert partly.compile()(floats((2, 3, 4)))["y"].shape == (2, 12)
    with pytest.raises(og.ShapeError, match="only sizes that are open can be chosen"):
        partly.with_shapes({"x": (3, 3, 5)})
    with pytest.raises(og.ArgumentError, match="the graph has no input 'z'"):
        graph.with_shapes({"z": (1,)})


def test_a_size_that_is_a_number_is_not_opened_by_a_shape():
    """Of graphs, templates and files alike: -1 was passed over, or opened what the file has fixed."""
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = model_of(nodes, {"x": floats((2, 3, 4))}, ["y"])
    fixed, opened = og.from_onnx(model), og.from_onnx(sized("reshape"))
    told = r"-1 leaves a size open that is open, and axis 1 has 3: give that, and build or import it with -1 there"
    with pytest.raises(og.ShapeError, match=rf"input 'x' has shape \[2, 3, 4\] in the graph, .*{told}"):
        fixed.with_shapes({"x": (2, -1, 4)})
    with pytest.raises(og.ShapeError, match=rf"input 'x' has shape \[\?, 3, \?\] in the graph, .*{told}"):
        opened.with_shapes({"x": (-1, -1, 4)})
    with pytest.raises(
        og.ArgumentError, match=rf"from_onnx: input 'x' has shape \[2, 3, 4\] in the model, .*{told}"
    ):
        og.from_onnx(model, shapes={"x": (2, -1, 4)})
    assert fixed.with_shapes({"x": (2, 3, 4)}).inputs[0].shape == (2, 3, 4)
    assert opened.with_shapes({"x": (-1, 3, 4)}).inputs[0].shape == (-1, 3, 4)


# --- graphs of any making --------------------------------------------------------------------------------


@pytest.mark.parametrize("finalized", [False, True])
def test_sizes_of_a_graph_that_was_built(finalized):
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 4])
    y = graph.relu(graph.matmul(x, graph.constant(normal(4, 3), name="w")), name="y")
    if finalized:
        graph.finalize()
    fixed = graph.with_shapes({"x": (5, 4)})
    assert fixed.tensor(y.id).shape == (5, 3)
    assert graph.tensor(y.id).shape == (-1, 3)
    a = normal(5, 4, seed=1)
    np.testing.assert_array_equal(fixed.compile()(a)["y"], graph.compile()(a)["y"])
    with pytest.raises(og.ShapeError):
        graph.with_shapes({"x": (5, 3)})


def open_model():
    """A reshape whose target is computed, behind a product, so that its ops depend on the batch."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weights = np.random.default_rng(0).integers(-2, 3, (6, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Shape", ["x"], ["rows"], end=1),
        helper.make_node("Concat", ["rows", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["x", "wanted"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    values = [
        onnx.numpy_helper.from_array(np.array([-1]), "rest"),
        onnx.numpy_helper.from_array(weights, "w"),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 2, 3])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 4])
    graph = helper.make_graph(nodes, "g", [x], [y], values)
    return og.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])), weights


def test_an_open_graph_in_bf16_is_made_for_each_size():
    graph, weights = open_model()
    assert isinstance(graph, og.OpenGraph)
    model = graph.to("bf16").compile()
    for batch in (1, 5):
        x = np.random.default_rng(batch).integers(-2, 3, (batch, 2, 3)).astype(np.float32)
        np.testing.assert_array_equal(model(x)["y"], x.reshape(batch, 6) @ weights)
    kinds = [op.kind for op in graph.to("bf16").with_shapes({"x": (3, 2, 3)}).ops]
    assert "TypeCast" in kinds


def test_what_an_open_graph_can_not_do_says_how():
    graph, _ = open_model()
    feeds = [{"x": np.ones((2, 2, 3), np.float32)}]
    assert not isinstance(graph, og.Graph)
    with pytest.raises(AttributeError, match=r"no attribute 'quantize_static': .* graph.with_shapes"):
        graph.quantize_static(feeds)
    with pytest.raises(AttributeError, match="^'OpenGraph' has no attribute 'nothing'$"):
        graph.nothing  # noqa: B018
    with pytest.raises(og.GraphError, match=r"described by hand, and operators don't know its graph"):
        graph.inputs[0] + 1
    with pytest.raises(
        og.GraphError, match=r"the loss of OpenGraph\(x → y\) as a function: .* graph.with_shapes"
    ):
        og.training.Trainer(graph, graph.outputs[0], og.training.SGD(0.1))
    with pytest.raises(og.GraphError, match="with_shapes"):
        graph.to("bf16", ports=False)
    with pytest.raises(og.ArgumentError, match="data_type"):
        graph.to("bf17")
    assert graph.with_shapes({"x": (2, 2, 3)}).quantize_static(feeds).ops


def elsewhere(tmp_path, model, shapes):
    """What a pickled model gives for arrays of these shapes, in another process."""
    arrays = [floats(shape) for shape in shapes]
    (tmp_path / "model").write_bytes(pickle.dumps((model, arrays)))
    code = (
        "import pickle, sys\n"
        "model, arrays = pickle.load(open(sys.argv[1], 'rb'))\n"
        "pickle.dump([model(x)['y'] for x in arrays], open(sys.argv[2], 'wb'))\n"
    )
    paths = [tmp_path / "model", tmp_path / "results"]
    done = processes.run(["-c", code, *paths])
    assert done.returncode == 0, done.stderr
    return arrays, pickle.loads(paths[1].read_bytes())


def test_an_open_graph_goes_to_another_process(tmp_path):
    proto = sized("reshape")
    graph = og.from_onnx(proto)
    expected = proto.SerializeToString()
    arrays, results = elsewhere(tmp_path, graph.compile(), SHAPES)
    for x, y in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(y, x.reshape(len(x), -1))
    assert proto.SerializeToString() == expected


def test_an_open_graph_comes_back_from_a_pickle():
    graph, weights = open_model()
    x = floats((3, 2, 3))
    for one in (graph, graph.to("bf16"), graph.to("bf16", keep=["y"])):
        again = pickle.loads(pickle.dumps(one))
        assert isinstance(again, og.OpenGraph)
        assert str(again) == str(one)
        assert again.with_shapes({"x": x.shape}).ops == one.with_shapes({"x": x.shape}).ops
        np.testing.assert_array_equal(again.compile()(x)["y"], x.reshape(3, 6) @ weights)


def test_a_compiled_open_graph_is_compiled_anew_as_it_was():
    graph, weights = open_model()
    x = floats((3, 2, 3))
    model = graph.compile(og.Engine(threads=1), backend="numpy")
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        np.testing.assert_array_equal(again(x)["y"], x.reshape(3, 6) @ weights)
        assert again.engine.threads == 1
        assert {p.backend for p in again.partitions} == {"numpy"}


def test_one_graph_for_sizes_that_are_large():
    """Sound in windows of 400 samples: of short inputs no graph comes."""
    nodes = [
        helper.make_node("Shape", ["x"], ["batch"], end=1),
        helper.make_node("Conv", ["x", "w"], ["windows"], strides=[160]),
        helper.make_node("Concat", ["batch", "rest"], ["wanted"], axis=0),
        helper.make_node("Reshape", ["windows", "wanted"], ["y"]),
    ]
    constants = {"w": normal(4, 1, 400, seed=1), "rest": np.int64([2, -1])}
    infos = [helper.make_tensor_value_info("x", 1, ["batch", 1, "length"])]
    graph = helper.make_graph(
        nodes,
        "sound",
        infos,
        [helper.make_tensor_value_info("y", 1, ["batch", 2, None])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=IR)
    compiled = og.from_onnx(model).with_unknown_sizes().compile()
    for shape in ((1, 1, 400), (3, 1, 4001)):
        x = normal(*shape)
        [expected] = ReferenceEvaluator(model).run(None, {"x": x})
        np.testing.assert_allclose(compiled(x)["y"], expected, rtol=1e-4, atol=1e-4)
