"""Commands on graphs with inputs that nobody reads, deep chains, and numbers of 64 bits."""

import json
import os
import warnings

import numpy as np
import onednn_graph as og
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have
from onednn_graph.tools import ending
from onednn_graph.tools.benchdnn.check import run_case
from onednn_graph.tools.benchdnn.options import parse


@pytest.fixture
def unread(tmp_path):
    """y = relu(x), and x is a result too; nobody reads the others, of several types."""
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    graph.output(graph.relu(x, name="y"))
    graph.output(x, name="same")
    for data_type in ("f32", "u8", "boolean", "s64", "bf16"):
        graph.input(f"unread {data_type}", data_type, [3])
    graph.save(tmp_path / "unread.json")
    return tmp_path / "unread.json"


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("run", "--profile"),
        ("compare", "--seconds", "0.01"),
        ("bench", "--seconds", "0.01", "--no-peak"),
        ("check",),
    ],
    ids=" ".join,
)
def test_inputs_that_no_op_reads_have_made_up_data_too(unread, command):
    assert call(*command, unread)


def test_a_model_of_onnx_is_checked_with_them(tmp_path):
    pytest.importorskip("onnx", reason="needs the extra 'onnx'")
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [4]), name="y"))
    graph.output(graph.tensor(0), name="same")
    graph.input("unread", "f32", [3])
    graph.to_onnx(tmp_path / "model.onnx")
    assert "unread" in og.from_onnx(tmp_path / "model.onnx").input_names
    (case,) = json.loads(call("check", "--json", tmp_path / "model.onnx"))["cases"]
    assert case["reason"] is None


def test_a_result_that_is_an_input_is_compared(unread):
    told = json.loads(call("compare", "--seconds", "0.01", "--json", unread))
    assert told["ok"], told


def test_a_chain_is_longer_than_the_stack(tmp_path):
    graph = og.Graph()
    found = graph.input("x", "f32", [4, 4])
    for _ in range(1500):
        found = graph.relu(found)
    graph.save(tmp_path / "deep.json")
    told = json.loads(call("check", "--json", "--mb=2", tmp_path / "deep.json"))
    assert [case["reason"] for case in told["cases"]] == [None]


@pytest.mark.parametrize(
    "argument", ["--seed={}", "--mb={}", "--in-shapes=0:{}x2", "--in-shapes=0:*{}x2", "--in-shapes={}:2x2"]
)
def test_numbers_of_thousands_of_digits_are_none(unread, argument):
    told = call("check", argument.format("9" * 5000), unread, code=2)
    assert " must " in told
    assert "Traceback" not in told


def test_whole_numbers_without_an_end_are_none(tmp_path):
    graph = og.Graph()
    graph.op("ReduceSum", graph.input("x", "f32", [4, 4]), axes=[1], keep_dims=False)
    number = graph.ops[0].id
    graph.save(tmp_path / "sum.json")
    for text in ("inf", "1e400", "1x-inf", "nan"):
        (case,) = parse([f"--op-attrs={number}:axes:{text}", str(tmp_path / "sum.json")]).cases
        assert "'axes' must be of type s64[]" in run_case(case).reason


def test_ranges_of_results_are_exact(tmp_path):
    graph = og.Graph()
    held = np.array([2**60 + 1, -(2**62) - 3], np.int64)
    graph.output(graph.input("x", "s64", [2]), name="y")
    graph.relu(graph.input("other", "f32", [2]))
    graph.save(tmp_path / "large.json")
    np.savez(tmp_path / "x.npz", x=held)
    told = json.loads(call("run", tmp_path / "large.json", "--inputs", tmp_path / "x.npz", "--json"))
    assert (told["outputs"]["y"]["min"], told["outputs"]["y"]["max"]) == (-(2**62) - 3, 2**60 + 1)


def test_infinities_of_both_signs_have_no_mean_and_no_warning(tmp_path):
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [2])), name="y")
    graph.output(graph.tensor(0), name="x")
    graph.save(tmp_path / "graph.json")
    np.savez(tmp_path / "x.npz", x=np.array([np.inf, -np.inf], np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = json.loads(call("run", tmp_path / "graph.json", "--inputs", tmp_path / "x.npz", "--json"))
    assert told["outputs"]["x"]["mean"] is None


def test_sizes_of_a_single_op_are_known():
    told = call("bench", "--op", "ReLU", "--in", "f32:-1x4", "--seconds", "0.01", code=2)
    assert "sizes of 0 or more" in told
    assert "--shape" not in told


def test_a_signal_without_a_name_is_told_by_its_number():
    assert ending.signal_name(9) == "SIGKILL"
    assert ending.signal_name(40) == "signal 40"


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a folder that somebody is in can't be removed")
def test_a_folder_that_is_gone_is_no_output(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ending.Ended, match="is gone") as raised, ending.told():
        os.getcwd()
    assert raised.value.code is ending.Exit.failed
