"""`onednn-graph compare`: ours beside native oneDNN Graph, and native's crashes as results."""

import ctypes
import json
import platform
import sys

import numpy as np
import onednn_graph as og
import pytest
from conftest import ROOT
from onednn_graph.tools import compare as compare_module
from onednn_graph.tools import native_child
from onednn_graph.tools.compare import compare_graph
from onednn_graph.tools.comparisons import difference, interleaved, on_shifting_stack, ours, placed_inputs
from onednn_graph.tools.native_child import GRAPH, child, run_in_child

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
POOL = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}

pytestmark = pytest.mark.usefixtures("onednn")


def good():
    """A convolution with ReLU and a pooling, whose middle is wanted too."""
    graph = og.Graph()
    x, w = (
        graph.input("x", "f32", [2, 8, 8, 4]),
        graph.input("w", "f32", [3, 3, 4, 8], property_type="constant"),
    )
    y = graph.op("ReLU", graph.op("Convolution", x, w, **CONV))
    graph.output(y)
    graph.op("MaxPool", y, **POOL)
    graph.finalize()
    return graph


def misplaced():
    """Native fuses the sum into the pooling, and gets it wrong."""
    graph = og.Graph()
    y = graph.op("MaxPool", graph.input("x", "f32", [2, 8, 8, 16]), **POOL)
    graph.op("Add", y, graph.input("o", "f32", [2, 4, 4, 16]))
    graph.finalize()
    return graph


def deadly():
    """Aborts native, if it gets there."""
    graph = og.Graph()
    graph.op("ReduceSum", graph.input("x", "f32", [1, 8]), axes=[0])
    graph.finalize()
    return graph


@pytest.fixture
def unbarred(monkeypatch):
    """Children that hand everything to the library."""
    script = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from native_cases import unbar; "
        "from onednn_graph.tools.native_child import main; unbar(); main()"
    )

    def command(folder, task):
        return [sys.executable, "-c", script, str(ROOT / "tests" / "support"), folder, task]

    monkeypatch.setattr(native_child, "_command", command)


def test_both_are_right():
    graph = good()
    result = compare_graph(graph, seconds=0.05)
    assert result.ok
    assert not result.native_is_wrong
    assert result.native.problem == ""
    ids = {op.kind: op.id for op in graph.ops}
    assert [[result.kinds[i] for i in ids] for ids in result.native.partitions] == [
        ["Convolution", "ReLU"],
        ["MaxPool"],
    ]
    assert sorted(i for part in result.partitions for i in part) == sorted(ids.values())
    assert len(result.told) == len(result.partitions)
    assert any("convolution" in kernel for kernel in result.native.kernels)
    assert len(result.outputs) == 2
    for output in result.outputs:
        assert output.apart == 0
        assert output.ours.ok
        assert output.native.ok
    least, median = result.ratios
    assert least > 0 < median
    data = json.loads(json.dumps(result.as_data(), allow_nan=False))
    assert data["ok"] is True
    assert data["native"]["problem"] is None
    assert data["native_over_ours"]["min"] == pytest.approx(least)
    assert data["outputs"][0]["ours_against_reference"]["ok"] is True
    assert [p["kinds"] for p in data["native"]["partitions"]] == [["Convolution", "ReLU"], ["MaxPool"]]


def test_native_is_wrong():
    result = compare_graph(misplaced(), seconds=0.05)
    (output,) = result.outputs
    assert result.ok
    assert result.native_is_wrong
    assert output.apart > 0
    assert output.ours.ok
    assert not output.native.ok
    assert "elements of type f32 differ" in output.native.message
    assert result.as_data()["native"]["wrong"] is True


def test_native_refuses():
    graph = og.Graph()
    graph.op("GroupNorm", graph.input("x", "f32", [2, 4, 4]), groups=2, use_affine=False, keep_stats=False)
    graph.finalize()
    result = compare_graph(graph, seconds=0.05)
    assert result.ok
    assert result.native.problem.startswith("it can't run the graph")
    assert "no op GroupNorm" in result.native.problem
    assert (result.native.signal, result.native.partitions, result.ratios) == ("", (), None)
    assert result.outputs[0].apart is None
    assert result.ours.least > 0


def test_native_crashes(unbarred):
    result = compare_graph(deadly(), seconds=0.05)
    assert result.ok
    assert result.native.signal == "SIGABRT"
    assert "crashed: SIGABRT" in result.native.problem
    assert "terminate called" in result.native.problem
    assert result.native.problem.endswith("while partitioning and compiling natively")
    assert result.ratios is None
    assert result.ours.runs >= 1
    assert result.outputs[0].ours.ok
    assert result.as_data()["native"]["signal"] == "SIGABRT"


def test_a_child_that_takes_too_long(monkeypatch):
    monkeypatch.setattr(
        native_child, "_command", lambda folder, task: [sys.executable, "-c", "import time; time.sleep(60)"]
    )
    run = run_in_child(good(), limit=0.3)
    assert run.problem == "it took longer than 0.3 s and was stopped, while starting"
    assert run.outputs == {}


def test_a_child_that_fails(monkeypatch):
    monkeypatch.setattr(native_child, "_command", lambda folder, task: [sys.executable, "-c", "1 / 0"])
    run = run_in_child(good())
    assert "exit code 1" in run.problem
    assert "ZeroDivisionError" in run.problem
    assert run.signal == ""


def test_ours_is_wrong(monkeypatch):
    """A wrong result of ours is found; native's own is not blamed."""

    def spoiled(*arguments, **options):
        rival = ours(*arguments, **options)
        call = rival.call

        def run():
            call()
            for array in rival.outputs.values():
                array[...] += 1

        object.__setattr__(rival, "call", run)
        return rival

    monkeypatch.setattr(compare_module, "ours", spoiled)
    result = compare_graph(good(), seconds=0.05)
    assert not result.ok
    assert not result.native_is_wrong
    assert result.outputs[0].apart == 1


def test_no_reference(monkeypatch):
    monkeypatch.setattr(compare_module, "REFERENCE_ELEMENTS", 10)
    result = compare_graph(good(), seconds=0.05)
    assert result.ok
    assert "too many" in result.unjudged
    assert result.outputs[0].ours is None
    assert result.outputs[0].apart == 0
    assert "too many" in result.as_data()["no_reference"]


def test_what_makes_no_sense():
    graph = og.Graph()
    graph.op("Abs", graph.input("x", "f32", [-1, 3]))
    graph.finalize()
    with pytest.raises(og.ArgumentError, match="known only at execution"):
        compare_graph(graph)
    with pytest.raises(og.ArgumentError, match="above 0"):
        compare_graph(good(), seconds=float("nan"))


def test_the_child_by_itself(tmp_path, capfd):
    """What it tells and writes, in this process."""
    graph = good()
    (tmp_path / GRAPH).write_text(graph.to_json(), encoding="utf-8")
    told = {}
    child(tmp_path, {"seed": 3, "seconds": 0.02, "backend": None}, lambda **facts: told.update(facts))
    assert told["step"] == "finishing"
    assert set(told["times"]) == {"native", "ours"}
    assert len(told["partitions"]) == 2
    assert "onednn_verbose" in capfd.readouterr().out
    inputs = placed_inputs(graph, 3)
    mine = ours(graph, inputs, backend="numpy")
    mine.call()
    for number, array in mine.outputs.items():
        got = np.frombuffer((tmp_path / f"{number}.bin").read_bytes(), array.dtype).reshape(array.shape)
        np.testing.assert_array_equal(got, array)
    other = og.Graph()
    other.op("GreaterEqual", other.input("a", "f32", [4]), other.input("b", "f32", [4]))
    (tmp_path / GRAPH).write_text(other.to_json(), encoding="utf-8")
    child(tmp_path, {"seed": 0, "seconds": 0, "backend": None}, lambda **facts: told.update(facts))
    assert "no op GreaterEqual" in told["problem"]


def test_turns_and_differences():
    calls = [0, 0]

    def count(which):
        def call():
            calls[which] += 1

        return call

    times = interleaved([on_shifting_stack(count(0)), count(1)], 0.02)
    assert [len(t) + 1 for t in times] == calls
    assert min(map(len, times)) >= 6
    nan, inf = np.array([1, np.nan, np.inf]), np.array([1, np.nan, np.inf])
    assert difference(nan, inf) == 0
    assert difference(np.array([1.0, 2]), np.array([1.0, -1])) == 3
    assert difference(np.array([np.nan]), np.array([1.0])) == np.inf
    assert difference(np.zeros((0, 2)), np.zeros((0, 2))) == 0


def test_what_a_call_raises_comes_through_a_shifted_stack():
    """An interrupt was lost in a callback of ctypes, and the command went on."""

    def interrupted():
        raise KeyboardInterrupt

    call = on_shifting_stack(interrupted)
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            call()


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="it knows where registers lie there"
)
def test_the_stack_takes_all_positions():
    context, pointers = (ctypes.c_uint64 * 256)(), []
    behind_flags_and_stack, rsp = 5, 15

    def call():
        ctypes.CDLL(None).getcontext(context)
        pointers.append(context[behind_flags_and_stack + rsp])

    shifting = on_shifting_stack(call)
    for _ in range(4):
        shifting()
    assert sorted((pointer - pointers[0]) % 64 for pointer in pointers) == [0, 16, 32, 48]


# --- the command ----------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch, tmp_path):
    """The command on a graph: exit code and what it printed."""
    pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
    from onednn_graph.tools.cli import app
    from typer.testing import CliRunner

    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("onednn_graph.tools.console.console.width", 300, raising=False)

    def invoke(graph, *options):
        path = tmp_path / "graph.json"
        graph.save(path)
        result = CliRunner().invoke(app, ["compare", str(path), "--seconds", "0.05", *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout + result.stderr

    return invoke


def test_the_command(run):
    code, text = run(good())
    assert code == 0
    assert "2 by native" in text
    for word in ("Convolution", "MaxPool", "ours − native", "native ÷ ours", "median"):
        assert word in text
    code, text = run(good(), "--json")
    assert code == 0
    assert json.loads(text)["ok"] is True


def test_the_command_shows_what_native_gets_wrong(run, unbarred):
    code, text = run(misplaced())
    assert code == 0
    assert "native is wrong: " in text
    code, text = run(deadly())
    assert code == 0
    assert "native: it crashed: SIGABRT" in text


def test_the_exit_codes(run, monkeypatch):
    assert run(good(), "--seconds", "0")[0] == 2
    monkeypatch.setattr(compare_module.Compared, "ok", property(lambda self: False))
    assert run(good())[0] == 1


def test_constants_reach_the_child():
    pytest.importorskip("safetensors", reason="install the extra 'weights'")
    graph = og.Graph()
    w = np.random.default_rng(0).integers(-4, 5, (4, 5)).astype(np.float32)
    y = graph.matmul(graph.input("x", "f32", [3, 4]), graph.constant(w, name="w"), name="y")
    graph.finalize()
    theirs = run_in_child(graph, seed=3)
    assert not theirs.problem
    inputs = placed_inputs(graph, 3)
    np.testing.assert_array_equal(theirs.outputs[y.id], inputs[graph.inputs[0].id] @ w)
    assert compare_graph(graph, seconds=0.02).ok
