"""Models in stages on the command line: data-dependent sizes, If and Loop are run and timed, and skipped by `check`."""

import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
pytest.importorskip("onnx", reason="these tests need onnx; install the extra 'onnx'")

import onnx
from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have
from onnx import TensorProto, helper


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, **attributes)


def value(name, shape=(4, 5), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def inner(name, nodes, outputs, inputs=()):
    return helper.make_graph(nodes, name, list(inputs), list(outputs))


MODELS = {
    "sizes": [
        node("NonZero", ["x"], ["n"]),
        node("Transpose", ["n"], ["t"]),
        node("GatherND", ["x", "t"], ["g"]),
        node("Relu", ["g"], ["y"]),
    ],
    "if": [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Constant", [], ["z"], value_float=0.0),
        node("Greater", ["s", "z"], ["c"]),
        node(
            "If",
            ["c"],
            ["y"],
            then_branch=inner("one", [node("Relu", ["x"], ["a"])], [value("a")]),
            else_branch=inner("other", [node("Neg", ["x"], ["b"])], [value("b")]),
        ),
    ],
    "loop": [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Cast", ["m"], ["n"], to=TensorProto.INT64),
        node(
            "Loop",
            ["n", "", "x"],
            ["y"],
            body=inner(
                "body",
                [node("Add", ["v", "x"], ["vo"]), node("Identity", ["ci"], ["co"])],
                [value("co", (), TensorProto.BOOL), value("vo")],
                [value("i", (), TensorProto.INT64), value("ci", (), TensorProto.BOOL), value("v")],
            ),
        ),
    ],
}


@pytest.fixture(params=MODELS)
def file(request, tmp_path):
    graph = helper.make_graph(MODELS[request.param], "g", [value("x")], [value("y", None)])
    path = tmp_path / f"{request.param}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def test_run_takes_arrays_and_says_what_ran(file, tmp_path):
    x = np.linspace(-1, 3, 20, dtype=np.float32).reshape(4, 5)
    np.savez(tmp_path / "in.npz", x=x)
    told = json.loads(
        call("run", file, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz", "--json")
    )
    want = {"sizes": np.maximum(x, 0).ravel(), "if": np.maximum(x, 0), "loop": 4 * x}[file.stem]
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["y"], want, rtol=1e-6)
    assert told["outputs"]["y"]["shape"] == list(want.shape)
    assert told["partitions"]
    if file.stem == "sizes":
        assert any(name.startswith("NonZero on ") for name in told["nodes"])
        assert "NonZero on " in call("run", file)


def test_bench_times_them(file):
    told = json.loads(call("bench", file, "--seconds", "0.05", "--no-peak", "--json"))
    assert told["runs"] >= 5
    assert told["steps"]


def test_check_skips_them_with_the_reason(file):
    line = call("check", file).splitlines()[0]
    assert "SKIPPED" in line
    assert "it runs in stages" in line


def test_what_nothing_can_be_made_up_for_is_named(tmp_path):
    info = helper.make_tensor_value_info("words", TensorProto.STRING, [3])
    graph = helper.make_graph(
        [node("Identity", ["words"], ["y"])], "g", [info], [value("y", None, TensorProto.STRING)]
    )
    path = tmp_path / "text.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    assert "input 'words', which is no tensor of numbers; give it by --inputs" in call("run", path, code=2)
    np.savez(tmp_path / "in.npz", words=np.array(["a", "b", "c"]))
    assert json.loads(call("run", path, "--inputs", tmp_path / "in.npz", "--json"))["outputs"]["y"][
        "shape"
    ] == [3]
