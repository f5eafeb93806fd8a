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


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["-o", "graph.txt"], 2, "convert writes .json and .onnx files, got 'graph.txt'"),
        (["-o", "a.onnx", "--to", "int8"], 2, "needs examples, by which it sees the range of each tensor"),
        (["-o", "a.onnx", "--data", "x.npz"], 2, "--data is for --to int8"),
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
