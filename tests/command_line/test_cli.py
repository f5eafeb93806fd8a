"""The command line on real files, as a shell would call it."""

import json
import os
import pickle
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import ml_dtypes
import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn.weight_gradients.tuning import BETTER
from onednn_graph.ops.registry import REGISTRY

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")

from cli_calls import call, wide_terminal  # noqa: F401 -- a fixture that all tests have
from onednn_graph.ops.data_types import DataType
from onednn_graph.tools.bench import bench, flops_by_type, peak_flops
from onednn_graph.tools.cli import app
from onednn_graph.tools.data_files import inputs_of, save_outputs
from onednn_graph.tools.machine import Fit
from typer.testing import CliRunner

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


@pytest.fixture
def file(tmp_path):
    """A convolution with ReLU and a mask, of which oneDNN runs the one and NumPy the other."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 8, 8, 4])
    y = graph.op("Convolution", x, graph.input("w", "f32", [3, 3, 4, 8]), **CONV)
    y = graph.op("ReLU", y)
    graph.output(y)
    graph.op("GreaterEqual", y, y)
    path = tmp_path / "graph.json"
    graph.save(path)
    return path


@pytest.fixture
def gradient(tmp_path):
    """A weight gradient, whose ways can be tuned."""
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [2, 8, 8, 16]), graph.input("dy", "f32", [2, 8, 8, 32])
    graph.op("ConvolutionBackwardWeights", x, dy, weights_shape=[3, 3, 16, 32], **CONV)
    path = tmp_path / "gradient.json"
    graph.save(path)
    return path


class TestOps:
    def test_all_are_listed(self):
        text = call("ops")
        assert all(schema.kind in text for schema in REGISTRY)

    def test_a_page_has_ports_attributes_and_rules(self):
        text = call("ops", "ConvolutionBackwardWeights")
        for expected in (
            "weights_shape",
            "diff_dst",
            "data_format",
            "NXC",
            "og.convolution_backward_weights",
        ):
            assert expected in text

    def test_a_legacy_name_leads_to_the_page(self):
        assert "ConvolutionBackpropFilters" in call("ops", "ConvolutionBackpropFilters")

    def test_a_function_leads_to_the_page(self):
        assert call("ops", "leaky_relu") == call("ops", "LeakyReLU")
        assert call("ops", "convolution_backprop_filters") == call("ops", "ConvolutionBackpropFilters")

    def test_json_is_the_registry(self):
        data = {op["kind"]: op for op in json.loads(call("ops", "--json"))}
        assert set(data) == {schema.kind for schema in REGISTRY}
        strides = next(a for a in data["Convolution"]["attributes"] if a["name"] == "strides")
        assert strides["required"]
        assert strides["type"] == "s64[]"
        assert json.loads(call("ops", "MatMul", "--json")) == data["MatMul"]

    def test_an_unknown_op_is_named_with_the_nearest(self):
        assert "Convolution" in call("ops", "Convolutoin", code=2)


class TestShow:
    def test_ops_tensors_and_partitions_are_shown(self, file):
        text = call("show", file)
        for expected in ("Convolution+ReLU", "GreaterEqual", "f32 2x8x8x4", "numpy", "strides=1x1"):
            assert expected in text

    def test_json_has_it_all(self, file):
        data = json.loads(call("show", file, "--json"))
        assert [p["label"] for p in data["partitions"]] == ["Convolution+ReLU", "GreaterEqual"]

    def test_a_backend_can_be_forced(self, file):
        data = json.loads(call("show", file, "--backend", "numpy", "--json"))
        assert {p["backend"] for p in data["partitions"]} == {"numpy"}

    def test_pictures_are_written(self, file, tmp_path):
        call("show", file, "--dot", tmp_path / "graph.dot", "--html", tmp_path / "graph.html")
        assert (tmp_path / "graph.dot").read_text().startswith("digraph")
        assert "GreaterEqual" in (tmp_path / "graph.html").read_text()

    def test_a_bad_file_is_a_line_and_no_traceback(self, tmp_path):
        (tmp_path / "bad.json").write_text("{")
        message = call("show", tmp_path / "bad.json", code=2)
        assert "bad.json" in message
        assert "Traceback" not in message
        assert "nowhere.json" in call("show", tmp_path / "nowhere.json", code=2)

    def test_an_unknown_backend_is_a_usage_error(self, file):
        assert "cuda" in call("show", file, "--backend", "cuda", code=2)


class TestRun:
    def arrays(self):
        random = np.random.default_rng(0)
        return {
            "0": random.integers(-2, 3, (2, 8, 8, 4)).astype(np.float32),
            "1": random.integers(-2, 3, (3, 3, 4, 8)).astype(np.float32),
        }

    def test_outputs_are_those_of_the_graph(self, file, tmp_path):
        arrays = self.arrays()
        np.savez(tmp_path / "in.npz", **arrays)
        call("run", file, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
        graph = og.Graph.load(file)
        expected = graph.compile(backend="numpy")({int(k): v for k, v in arrays.items()})
        with np.load(tmp_path / "out.npz") as written:
            assert set(written.files) == set(expected)
            for name in expected:
                assert np.array_equal(written[name], expected[name])

    def test_missing_inputs_are_made_up_from_the_seed(self, file):
        first, same, other = (json.loads(call("run", file, "--json", "--seed", seed)) for seed in (1, 1, 2))
        assert first == same
        assert first != other

    def test_bf16_goes_through_npz(self, tmp_path):
        graph = og.Graph()
        graph.op("ReLU", graph.input("x", "bf16", [5]))
        graph.save(tmp_path / "g.json")
        values = np.array([-2, -1, 0, 1, 2.5], ml_dtypes.bfloat16)
        np.savez(tmp_path / "in.npz", **{"0": values})
        call("run", tmp_path / "g.json", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz") as written:
            (raw,) = [written[name] for name in written.files]
        assert np.array_equal(raw.view(ml_dtypes.bfloat16), np.maximum(values, 0))

    def test_an_array_for_no_input_is_an_error(self, file, tmp_path):
        np.savez(tmp_path / "in.npz", weights=np.zeros(3))
        assert "'weights'" in call("run", file, "--inputs", tmp_path / "in.npz", code=2)

    def test_a_file_that_is_no_npz_is_an_error(self, file, tmp_path):
        (tmp_path / "in.npz").write_text("x")
        assert "in.npz" in call("run", file, "--inputs", tmp_path / "in.npz", code=2)

    def test_an_array_of_another_shape_is_an_error(self, file, tmp_path):
        np.savez(tmp_path / "in.npz", **{"0": np.zeros((2, 8, 8, 5), np.float32)})
        assert "shape" in call("run", file, "--inputs", tmp_path / "in.npz", code=2)

    def test_a_single_array_is_an_error(self, file, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros(3))
        assert "np.savez" in call("run", file, "--inputs", tmp_path / "x.npy", code=2)

    def test_damaged_files_are_errors(self, file, tmp_path):
        np.savez_compressed(tmp_path / "in.npz", **self.arrays())
        good = (tmp_path / "in.npz").read_bytes()
        random = np.random.default_rng(0)
        for _ in range(30):
            bad = bytearray(good)
            for place in random.integers(0, len(bad), 4):
                bad[place] = random.integers(256)
            (tmp_path / "bad.npz").write_bytes(bad)
            result = CliRunner().invoke(app, ["run", str(file), "--inputs", str(tmp_path / "bad.npz")])
            assert result.exit_code in (0, 2), result.output
            assert result.exception is None or isinstance(result.exception, SystemExit)

    def test_a_file_of_objects_is_refused_without_advice_to_unpickle_it(self, file, tmp_path):
        for content in (pickle.dumps([1]), None):
            if content is None:
                np.savez(tmp_path / "in.npz", **{"0": np.array([{}, None])})
            else:
                (tmp_path / "in.npz").write_bytes(content)
            said = call("run", file, "--inputs", tmp_path / "in.npz", code=2)
            assert "pickle" not in said
            assert "holds no arrays of numbers; write one by np.savez" in said

    @pytest.mark.parametrize("name", ["file", "allow_pickle", "x y", "ü"])
    def test_outputs_of_any_name_are_written(self, name, tmp_path):
        save_outputs(tmp_path / "out.npz", {name: np.arange(3)})
        with np.load(tmp_path / "out.npz") as written:
            assert np.array_equal(written[name], np.arange(3))

    def test_profile_and_trace(self, file, tmp_path):
        text = call("run", file, "--profile", "--trace", tmp_path / "trace.json")
        assert "partition 0: Convolution+ReLU" in text
        assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]


class TestBench:
    def test_a_file(self, file):
        data = json.loads(call("bench", file, "--seconds", "0.02", "--no-peak", "--json"))
        assert data["flops"] == 2 * 2 * 8 * 8 * 3 * 3 * 4 * 8
        assert data["bytes"] == 4 * (2 * 8 * 8 * 4 + 3 * 3 * 4 * 8 + 2 * 8 * 8 * 8) + 2 * 8 * 8 * 8
        assert 0 < data["seconds"]["min"] <= data["seconds"]["median"] <= data["seconds"]["max"]
        assert data["flops_per_second"] == data["flops"] / data["seconds"]["min"]
        assert data["share_of_peak_flops"] is None
        assert {step["partition"] for step in data["steps"]} == {0, 1}

    @pytest.mark.parametrize(
        ("arguments", "flops"),
        [
            (["MatMul", "--in", "f32:6x4", "--in", "f32:4x5"], 2 * 6 * 4 * 5),
            (
                ["MatMul", "--in", "f32:3x4x6", "--in", "f32:3x4x5", "--attr", "transpose_a=true"],
                2 * 3 * 6 * 4 * 5,
            ),
            (
                [
                    "Convolution",
                    "--in",
                    "f32:2x8x8x4",
                    "--in",
                    "f32:3x3x2x6",
                    "--attr",
                    "groups=2",
                    "--attr",
                    "strides=2x2",
                    "--attr",
                    "pads_begin=1x1",
                    "--attr",
                    "pads_end=1x1",
                    "--attr",
                    "dilations=1x1",
                ],
                2 * 2 * 4 * 4 * 3 * 3 * 2 * 6,
            ),
            (
                [
                    "ConvolutionBackwardWeights",
                    "--in",
                    "bf16:2x4x8x8",
                    "--in",
                    "bf16:2x6x8x8",
                    "--attr",
                    "data_format=NCX",
                    "--attr",
                    "strides=1x1",
                    "--attr",
                    "pads_begin=1x1",
                    "--attr",
                    "pads_end=1x1",
                    "--attr",
                    "dilations=1x1",
                    "--attr",
                    "weights_shape=3x3x4x6",
                ],
                2 * 2 * 8 * 8 * 3 * 3 * 4 * 6,
            ),
            (
                [
                    "ConvTranspose",
                    "--in",
                    "f32:2x4x4x6",
                    "--in",
                    "f32:2x2x5x6",
                    "--attr",
                    "strides=2x2",
                    "--attr",
                    "pads_begin=0x0",
                    "--attr",
                    "pads_end=0x0",
                    "--attr",
                    "dilations=1x1",
                ],
                2 * 2 * 4 * 4 * 2 * 2 * 5 * 6,
            ),
            (["ReLU", "--in", "f32:6"], 0),
        ],
    )
    def test_one_op_and_its_flops(self, arguments, flops):
        data = json.loads(call("bench", "--op", *arguments, "--seconds", "0.01", "--no-peak", "--json"))
        assert data["flops"] == flops

    def test_each_product_counts_in_its_own_type(self, monkeypatch):
        """An int8 product has more than twice the peak of f32."""
        graph = og.Graph()
        u8 = graph.dequantize(graph.input("a", "u8", [2, 4]), scales=[0.5])
        s8 = graph.dequantize(graph.constant(np.ones((4, 8), np.int8)), scales=[0.5])
        y = graph.matmul(u8, s8)
        graph.matmul(y, graph.input("w", "f32", [8, 3]))
        graph.matmul(graph.input("b", "bf16", [5, 6]), graph.input("v", "bf16", [6, 7]))
        graph.finalize()
        counts = {DataType.s8: 2 * 2 * 4 * 8, DataType.f32: 2 * 2 * 8 * 3, DataType.bf16: 2 * 5 * 6 * 7}
        assert flops_by_type(graph) == counts
        peaks = {DataType.s8: 400.0, DataType.f32: 100.0, DataType.bf16: 200.0}
        monkeypatch.setattr("onednn_graph.tools.bench.peak_flops", peaks.__getitem__)
        monkeypatch.setattr("onednn_graph.tools.bench.peak_bandwidth", float)
        result = bench(graph, graph.compile(), inputs_of(graph, {}, 0).arrays, seconds=0.01)
        least = sum(count / peaks[data_type] for data_type, count in counts.items())
        share = result.as_data()["share_of_peak_flops"]
        assert share == pytest.approx(least / result.timing.least)
        assert result.peak_bandwidth == result.nbytes

    @pytest.mark.parametrize("data_type", ["f32", "bf16", "s8"])
    def test_peaks_of_all_types_are_measured(self, data_type, monkeypatch):
        monkeypatch.setattr("onednn_graph.tools.bench.PEAK_SIZE", 64)
        monkeypatch.setattr("onednn_graph.tools.bench.PEAK_SECONDS", 0.0)
        assert peak_flops(DataType(data_type)) > 0

    def test_shares_of_the_peak_are_shown(self, file, monkeypatch):
        monkeypatch.setattr("onednn_graph.tools.bench.PEAK_SIZE", 64)
        monkeypatch.setattr("onednn_graph.tools.bench.PEAK_BYTES", 1 << 12)
        monkeypatch.setattr("onednn_graph.tools.bench.PEAK_SECONDS", 0.0)
        assert "of what this machine was seen to do" in call("bench", file, "--seconds", "0.01")

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ([], "one of them"),
            (["graph.json", "--in", "f32:3x3"], "for --op"),
            (["--op", "MatMul", "--in", "f32"], "TYPE:SHAPE"),
            (["--op", "MatMul", "--in", "f32:2xa"], "sizes are integers"),
            (["--op", "MatMul", "--in", "f32:2x2", "--in", "f32:2x2", "--attr", "transpose"], "NAME=VALUE"),
            (
                ["--op", "MatMul", "--in", "f32:2x2", "--in", "f32:2x2", "--attr", "transpos_a=1"],
                "transpose_a",
            ),
            (["--op", "ReLU", "--in", "f32:4", "--seconds", "0"], "above 0"),
            (["--op", "MatMull"], "MatMul"),
        ],
    )
    def test_command_lines_without_sense(self, arguments, said):
        assert said in call("bench", *arguments, code=2)


class TestCompile:
    def test_what_it_writes_is_loaded(self, gradient, tmp_path):
        call("compile", gradient, "-o", tmp_path / "m.ogc")
        loaded = og.Graph.load_compiled(tmp_path / "m.ogc")
        model = og.Graph.load(gradient).compile()
        feeds = [np.ones(t.dims, np.float32) for t in model.inputs]
        for name, array in model(*feeds).items():
            np.testing.assert_array_equal(loaded(*feeds)[name], array)

    def test_a_place_that_is_none(self, gradient, tmp_path):
        assert "can't be written" in call("compile", gradient, "-o", tmp_path / "none" / "m.ogc", code=2)
        assert "--output" in call("compile", gradient, code=2)


class TestTune:
    def test_candidates_are_timed_and_remembered(self, gradient, tmp_path):
        if og.list_backends()["onednn"] is not None:
            pytest.skip("the oneDNN library is not here")
        data = json.loads(call("tune", gradient, "--seconds", "0.2", "--json"))
        measured = [c for c in data["0"]["considered"] if c["measured_seconds"]]
        (chosen,) = (c for c in measured if c["strategy"] == data["0"]["strategy"])
        # What is slower than the fastest by no more than chance stays, if it was the choice before.
        assert chosen["measured_seconds"] * BETTER <= min(c["measured_seconds"] for c in measured)
        assert list((tmp_path / "cache").glob("*.json"))
        assert "chosen" in call("tune", gradient, "--seconds", "0.2")

    def test_where_there_is_nothing_to_choose(self, file):
        assert "there is nothing to choose" in call("tune", file, "--seconds", "0.1")


class TestTuneMachine:
    """The times themselves are tested elsewhere; here is what people type."""

    @pytest.fixture(autouse=True)
    def made_up(self, monkeypatch):
        if og.list_backends()["onednn"] is not None:
            pytest.skip("the oneDNN library is not here")
        self.asked = []

        def measured(seconds, seed, show):
            self.asked.append(seconds)
            show(0.5, 1)
            yield ()
            if seed == 7:
                raise KeyboardInterrupt

        def fitted(layers):
            return Fit(len(layers), 1.2, 1.1, {}, True)

        monkeypatch.setattr("onednn_graph.tools.tune.measured", measured)
        monkeypatch.setattr("onednn_graph.tools.tune.fitted", fitted)

    def test_it_says_what_came_of_it(self):
        assert "1 layers: the choice took 1.200 times" in call("tune", "--machine")
        data = json.loads(call("tune", "--machine", "--seconds", "5000", "--json"))
        assert data == {"layers": 1, "before": 1.2, "after": 1.1, "kept": True}
        assert self.asked == [300.0, 600.0]

    def test_an_interrupt_keeps_what_is_there(self):
        result = CliRunner().invoke(app, ["tune", "--machine", "--seed", "7", "--json"])
        assert json.loads(result.stdout)["layers"] == 1
        assert result.exit_code == 130
        assert "what was measured is kept" in result.stderr

    def test_forgetting(self):
        assert "nothing to forget" in call("tune", "--machine", "--forget")
        assert json.loads(call("tune", "--machine", "--forget", "--json")) == {"forgotten": False}

    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ([], "a FILE or --machine"),
            (["g.json", "--machine"], "a FILE or --machine"),
            (["g.json", "--forget"], "--forget goes with --machine"),
            (["--machine", "--seconds", "0"], "--seconds must be above 0"),
        ],
    )
    def test_bad_command_lines(self, arguments, text):
        assert text in call("tune", *arguments, code=2)


class TestInfo:
    def test_it_says_what_is_used(self):
        data = json.loads(call("info", "--json"))
        assert data["onednn-graph"] == version("onednn-graph")
        assert data["backends"]["numpy"] == "available"
        assert "tuning cache" in call("info")


@pytest.mark.parametrize(
    "name", ["ops", "show", "run", "check", "compare", "bench", "compile", "tune", "info", "view"]
)
def test_every_command_has_help_with_an_example(name):
    text = call(name, "--help")
    assert f"onednn-graph {name}" in text


def test_the_package_is_the_command_too(file):
    done = subprocess.run(
        [sys.executable, "-m", "onednn_graph", "show", file, "--json"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert json.loads(done.stdout)["partitions"]


@pytest.mark.parametrize("options", [[], ["--all"]], ids=["default", "all"])
def test_output_for_scripts_is_readable_and_has_whole_lines_on_request(file, options):
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    done = processes.run(
        ["-m", "onednn_graph", "show", file, *options], env=environment | {"PYTHONIOENCODING": "utf-8"}
    )
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    whole = any("Convolution" in line and "pads_end=1x1, dilations=1x1" in line for line in lines)
    if options:
        assert whole
    else:
        assert max(map(len, lines)) <= 120


def test_the_installed_script_runs(file):
    script = Path(sys.executable).with_name("onednn-graph")
    if not script.exists():
        pytest.skip("the package's scripts are not installed beside this Python")
    done = subprocess.run(
        [script, "show", file, "--json"], capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(done.stdout)["partitions"]


def test_shell_completion_is_offered():
    script = Path(sys.executable).with_name("onednn-graph")
    if not script.exists():
        pytest.skip("the package's scripts are not installed beside this Python")
    environment = os.environ | {
        "_ONEDNN_GRAPH_COMPLETE": "complete_bash",
        "COMP_WORDS": "onednn-graph b",
        "COMP_CWORD": "1",
    }
    done = subprocess.run([script], capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert "bench" in done.stdout


def test_a_graph_with_weights_beside_it(tmp_path):
    pytest.importorskip("safetensors", reason="install the extra 'weights'")
    graph = og.Graph()
    w = np.arange(12, dtype=np.float32).reshape(3, 4)
    graph.output(graph.matmul(graph.input("x", "f32", [2, 3]), graph.constant(w, name="w")), name="y")
    graph.save(tmp_path / "m.json", weights=True)
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), np.float32))
    call("run", tmp_path / "m.json", "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["y"], [w.sum(0)] * 2)


def test_statistics_are_those_of_the_numbers(tmp_path):
    """Not of a zero beside them; and JSON has no NaN."""
    graph = og.Graph()
    x = graph.input("x", "f32", [4])
    graph.output(graph.exp(x), name="exp")
    graph.output(graph.op("Log", graph.op("Subtract", x, x)), name="infinite")
    graph.output(
        graph.op(
            "Sqrt", graph.op("LeakyReLU", graph.op("Subtract", graph.op("Subtract", x, x), x), alpha=1.0)
        ),
        name="none",
    )
    graph.save(tmp_path / "g.json")
    (name,) = og.Graph.load(tmp_path / "g.json").input_names
    np.savez(tmp_path / "in.npz", **{name: np.arange(1, 5, dtype=np.float32)})
    arguments = ("run", tmp_path / "g.json", "--inputs", tmp_path / "in.npz")

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    told = json.loads(call(*arguments, "--json"), parse_constant=refuse)["outputs"]
    exponentials, *others = told.values()
    assert exponentials["min"] == pytest.approx(np.exp(1))
    assert exponentials["max"] == pytest.approx(np.exp(4))
    assert [one[key] for one in others for key in ("min", "max", "mean")] == [None] * 6
    assert "2.71828" in call(*arguments)


class TestGlobals:
    def test_threads_stand_before_the_command(self, monkeypatch, onednn):
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert json.loads(call("--threads", "1", "info", "--json"))["threads"] == 1
        result = CliRunner().invoke(app, ["--threads", "0", "info"])
        assert result.exit_code == 2

    def test_an_unknown_backend_is_told_plainly(self, file):
        result = CliRunner().invoke(app, ["show", str(file), "--backend", "foo"])
        assert result.exit_code == 2
        assert "must be one of onednn, numpy, native, got 'foo'" in result.stderr
        assert "Value error" not in result.stderr


def test_check_writes_data(file):
    data = json.loads(call("check", "--json", file))
    assert (data["passed"], data["failed"], data["skipped"]) == (1, 0, 0)
    (one,) = data["cases"]
    assert (one["state"], one["reason"]) == ("passed", None)
    assert one["tensors"][0]["ok"] is True
