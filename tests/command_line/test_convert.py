"""`onednn-graph convert`: other files, other numbers."""

import numpy as np
import onednn_graph as og
import pytest
from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have

onnx = pytest.importorskip("onnx")
W = np.arange(-6, 6, dtype=np.float32).reshape(4, 3)
X = np.array([[1, -2, 3, 4], [0, 1, 0, -1]], np.float32)


@pytest.fixture
def file(tmp_path):
    """A product and a ReLU, with its weights."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 4])
    graph.output(graph.relu(graph.matmul(x, graph.constant(W, name="w"))), name="y")
    graph.save(tmp_path / "graph.json", weights=True)
    return tmp_path / "graph.json"


def result(path):
    graph = og.from_onnx(path) if path.suffix == ".onnx" else og.Graph.load(path)
    return graph.compile(backend="numpy")(X)["y"]


def test_there_and_back(file, tmp_path):
    told = call("convert", file, "-o", tmp_path / "there.onnx")
    assert told == f"{tmp_path / 'there.onnx'}: 2 ops, x → y\n"
    call("convert", tmp_path / "there.onnx", "-o", tmp_path / "back.json")
    for path in (tmp_path / "there.onnx", tmp_path / "back.json"):
        np.testing.assert_array_equal(result(path), np.maximum(X @ W, 0))


def test_to_bf16(file, tmp_path):
    call("convert", file, "-o", tmp_path / "narrow.json", "--to", "bf16")
    graph = og.Graph.load(tmp_path / "narrow.json")
    assert {op.inputs[0].data_type for op in graph.ops if op.kind == "MatMul"} == {og.DataType.bf16}
    np.testing.assert_array_equal(result(tmp_path / "narrow.json"), np.maximum(X @ W, 0))


@pytest.mark.parametrize("examples", [X, np.stack([X, X / 2])], ids=["one", "several"])
def test_to_int8(file, tmp_path, examples):
    np.savez(tmp_path / "data.npz", x=examples)
    call("convert", file, "-o", tmp_path / "small.onnx", "--to", "int8", "--data", tmp_path / "data.npz")
    kinds = [node.op_type for node in onnx.load(tmp_path / "small.onnx").graph.node]
    assert {"QuantizeLinear", "DequantizeLinear"} <= set(kinds)
    np.testing.assert_allclose(result(tmp_path / "small.onnx"), np.maximum(X @ W, 0), atol=0.3)


def test_to_int8_with_weights_of_seven_bits(file, tmp_path):
    np.savez(tmp_path / "data.npz", x=X)
    small = tmp_path / "small.json"
    call("convert", file, "-o", small, "--to", "int8", "--reduce-range", "--data", tmp_path / "data.npz")
    assert np.abs(og.Graph.load(small).constants["w.s8"].astype(int)).max() == 64
    np.testing.assert_allclose(result(small), np.maximum(X @ W, 0), atol=0.5)


def test_to_int8_without_examples(file, tmp_path):
    call("convert", file, "-o", tmp_path / "small.json", "--to", "int8-dynamic")
    assert og.Graph.load(tmp_path / "small.json").constants["w.s8"].dtype == np.int8
    np.testing.assert_allclose(result(tmp_path / "small.json"), np.maximum(X @ W, 0), atol=0.3)


def open_file(path, *, positions):
    """A model of ONNX whose reshape counts the rows; with positions, its constants hang on how many there are."""
    helper, numbers = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Shape", ["x"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "zero"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["p", "shape"], ["r"]),
    ]
    if positions:
        nodes += [
            helper.make_node("Squeeze", ["rows"], ["count"]),
            helper.make_node("Range", ["start", "count", "step"], ["at"]),
            helper.make_node("Cast", ["at"], ["places"], to=numbers.FLOAT),
            helper.make_node("Reshape", ["places", "as_rows"], ["column"]),
            helper.make_node("Add", ["r", "column"], ["y"]),
        ]
    else:
        nodes.append(helper.make_node("Relu", ["r"], ["y"]))
    held = [
        onnx.numpy_helper.from_array(np.array(array), name)
        for name, array in {
            "w": W, "zero": [0], "rest": [3, 1], "start": 0, "step": 1, "as_rows": [-1, 1, 1]
        }.items()
    ]  # fmt: skip
    ports = [
        helper.make_tensor_value_info(name, numbers.FLOAT, shape)
        for name, shape in (("x", ["rows", 4]), ("y", ["rows", 3, 1]))
    ]
    graph = helper.make_graph(nodes, "open", ports[:1], ports[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_sizes_that_are_open_stay_so(tmp_path):
    open_file(tmp_path / "open.onnx", positions=False)
    call("convert", tmp_path / "open.onnx", "-o", tmp_path / "open.json")
    graph = og.Graph.load(tmp_path / "open.json")
    assert graph.inputs[0].shape == (-1, 4)
    for rows in (X, X[:1], np.concatenate([X, X])):
        np.testing.assert_array_equal(graph.compile()(rows).only[..., 0], np.maximum(rows @ W, 0))


def test_sizes_that_must_be_given(tmp_path):
    open_file(tmp_path / "open.onnx", positions=True)
    told = call("convert", tmp_path / "open.onnx", "-o", tmp_path / "open.json", code=2)
    assert "give them by --shape NAME=SIZES" in told
    call("convert", tmp_path / "open.onnx", "-o", tmp_path / "open.json", "--shape", "x=2x4")
    got = og.Graph.load(tmp_path / "open.json").compile()(X).only
    np.testing.assert_array_equal(got[..., 0], X @ W + [[0], [1]])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-o", "graph.txt"], 2, "convert writes .json and .onnx files, got 'graph.txt'"),
        (["-o", "a.onnx", "--to", "int8"], 2, "needs examples, by which it sees the range of each tensor"),
        (["-o", "a.onnx", "--data", "x.npz"], 2, "--data is for --to int8"),
        (["-o", "a.onnx", "--to", "bf16", "--reduce-range"], 2, "--reduce-range is for --to int8"),
        (["-o", "a.onnx", "--to", "int8", "--data", "x.npz"], 2, "lacks an array for input 'x'; it has none"),
        (["-o", "a.onnx", "--to", "int8", "--data", "y.npz"], 2, "in front, equally long; got x [1, 1, 2, 4]"),
    ],
)  # fmt: skip
def test_what_does_not_fit(file, tmp_path, monkeypatch, arguments, code, says):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz")
    np.savez("y.npz", x=X[None, None])
    assert says in call("convert", file, *arguments, code=code)
    assert not (tmp_path / "a.onnx").exists()
