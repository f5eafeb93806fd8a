"""Whole graphs as models of ONNX: names, open sizes, files, what is refused, and models that came from ONNX."""

import importlib.util
import os

import numpy as np
import onednn_graph as og
import onnx
import pytest
from onednn_graph.graph.onnx_export import exporter
from onednn_graph.graph.onnx_export.exporter import model_of
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from rows import each

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
LAST = {**CONV, "data_format": "NXC", "weights_format": "XIO"}
FIRST = {**CONV, "data_format": "NCX", "weights_format": "OIX"}


def reals(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def classifier(batch=2, formats=FIRST, *, training=False):
    """A convolution, a normalisation, a residual and a product, with a loss where it is to be trained."""
    graph = og.Graph()
    last = formats is LAST
    x = graph.input("image", "f32", (batch, 6, 6, 3) if last else (batch, 3, 6, 6))
    w = reals(3, 3, 3, 3)
    y = graph.convolution(x, graph.parameter(w, name="conv.weight"), name="conv", **formats)
    layout = {"data_format": formats["data_format"], "epsilon": 1e-5}
    statistics = [
        graph.parameter(np.full(3, v, np.float32), name=n) for n, v in (("mean", 0.1), ("variance", 0.9))
    ]
    affine = [graph.parameter(np.full(3, v, np.float32), name=n) for n, v in (("gamma", 1.5), ("beta", -0.2))]
    if training:
        y, *running = graph.op("BatchNormForwardTraining", y, *statistics, *affine, momentum=0.9, **layout)[
            :3
        ]
        for parameter, value in zip(statistics, running, strict=True):
            graph.assign(parameter, value)
    else:
        y = graph.op("BatchNormInference", y, *affine, *statistics, **layout)
    y = graph.relu(graph.add(y, x), name="relu")
    pooled = graph.reduce_mean(y, axes=[1, 2] if last else [2, 3], keep_dims=False, name="pooled")
    logits = graph.matmul(pooled, graph.parameter(reals(3, 5), name="fc.weight"), name="logits")
    graph.output(logits, name="logits")
    return graph


def same(graph, path, feeds):
    """Holds a file against the graph: by our importer, and by onnxruntime where it is installed."""
    want = graph.compile(backend="numpy")(feeds)
    runs = [og.from_onnx(path).compile()(feeds)]
    if importlib.util.find_spec("onnxruntime"):
        import onnxruntime

        session = onnxruntime.InferenceSession(os.fspath(path))
        names = [one.name for one in session.get_outputs()]
        runs.append(dict(zip(names, session.run(None, feeds), strict=True)))
    for run in runs:
        assert list(run) == list(want)
        for name, value in want.items():
            np.testing.assert_allclose(run[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("formats", [FIRST, LAST])
def test_names_are_the_graphs_own(formats, tmp_path):
    graph = classifier(formats=formats)
    path = tmp_path / "model.onnx"
    graph.to_onnx(path)
    model = onnx.load(path)
    assert [one.name for one in model.graph.input] == ["image"]
    assert [one.name for one in model.graph.output] == ["logits"]
    held = {one.name for one in model.graph.initializer}
    assert {"mean", "variance", "gamma", "beta", "fc.weight"} <= held
    names = {name for node in model.graph.node for name in node.output}
    assert {"relu", "pooled", "logits"} <= names
    assert og.from_onnx(path).tensor("pooled").shape == (2, 3)
    assert ("conv.weight" in held) == (formats is FIRST)  # turned here, where it lies otherwise
    same(graph, path, {"image": reals(*graph.inputs[0].dims)})


def test_sizes_that_are_not_known_stay_open(tmp_path):
    graph = classifier(batch=-1)
    path = tmp_path / "model.onnx"
    graph.to_onnx(path)
    batch = onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0]
    assert not batch.HasField("dim_value")
    for size in (1, 5):
        same(graph, path, {"image": reals(size, 3, 6, 6)})


def test_a_graph_that_trains_is_written_without_its_training(tmp_path):
    graph = classifier(training=True)
    with pytest.raises(og.UnsupportedError, match=r"no op for BatchNormForwardTraining.*for_inference"):
        graph.to_onnx(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
    model = graph.for_inference()
    model.to_onnx(tmp_path / "model.onnx")
    same(model, tmp_path / "model.onnx", {"image": reals(2, 3, 6, 6)})


def test_a_model_has_no_state(tmp_path):
    graph = og.Graph()
    total = graph.parameter(np.zeros(3, np.float32), name="total")
    graph.assign(total, graph.add(total, graph.input("x", "f32", [3]), name="sum"))
    with pytest.raises(og.UnsupportedError, match="'total', and a model of ONNX has no state"):
        graph.to_onnx(tmp_path / "model.onnx")


@each(
    ("kind", "attributes"),
    [("ReLUBackward", {}), ("TanhBackward", {})],
)
def test_gradients_are_refused_by_name(kind, attributes, tmp_path):
    graph = og.Graph()
    graph.op(kind, graph.input("x", "f32", [3]), graph.input("d", "f32", [3]), name="grad", **attributes)
    with pytest.raises(og.UnsupportedError, match=f"no op for {kind}, as {kind} 'grad' is"):
        graph.to_onnx(tmp_path / "model.onnx")


def test_what_depends_on_unknown_sizes_is_refused_with_the_way_out(tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 2, -1, 8])
    graph.interpolate(x, mode="nearest", scales=[1.5, 2], data_format="NCX", name="up")
    with pytest.raises(og.UnsupportedError, match=r"the result of Interpolate 'up'.*with_shapes"):
        graph.to_onnx(tmp_path / "model.onnx")
    known = graph.with_shapes({"x": [1, 2, 6, 8]})
    known.to_onnx(tmp_path / "model.onnx")
    same(known, tmp_path / "model.onnx", {"x": reals(1, 2, 6, 8)})


# --- names that meet -------------------------------------------------------------------------------------


def test_a_tensor_that_is_two_outputs_and_an_input_that_is_one(tmp_path):
    graph = og.Graph()
    x = graph.input("x", "f32", [3])
    y = graph.relu(x, name="y")
    graph.output(y, name="first")
    graph.output(y, name="second")
    graph.output(x, name="same")
    path = tmp_path / "model.onnx"
    graph.to_onnx(path)
    assert [one.name for one in onnx.load(path).graph.output] == ["first", "second", "same"]
    onnx.checker.check_model(path)
    same(graph, path, {"x": reals(3)})


def test_what_nobody_reads_is_left_out():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 3])
    made = graph.op("LayerNorm", x, keep_stats=True, use_affine=False, name="norm")
    graph.output(made[0], name="y")
    graph.drop_output(made[1])
    graph.drop_output(made[2])
    model = model_of(graph)
    assert [node.op_type for node in model.graph.node] == ["LayerNormalization"]
    assert len(model.graph.initializer) == 1


def test_statistics_that_are_read():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 6])
    for number, one in enumerate(graph.op("LayerNorm", x, keep_stats=True, use_affine=False)):
        graph.output(one, name=f"y{number}")
    feeds = {"x": reals(4, 6)}
    got = og.from_onnx(model_of(graph)).compile()(feeds)
    for name, value in graph.compile(backend="numpy")(feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


# --- files -----------------------------------------------------------------------------------------------


def test_constants_of_more_than_a_message_lie_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "LARGEST", 100)
    monkeypatch.setattr(exporter, "SMALL", 50)
    graph = classifier()
    path = tmp_path / "model.onnx"
    graph.to_onnx(path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    onnx.checker.check_model(path)
    same(graph, path, {"image": reals(2, 3, 6, 6)})
    with pytest.raises(og.UnsupportedError, match="more than 2 GiB"):
        model_of(graph)


def test_a_file_that_is_there_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")
    graph = classifier()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(og.GraphFileError, match="No space left on device"):
        graph.to_onnx(path)
    assert path.read_bytes() == b"before"
    assert [one.name for one in tmp_path.iterdir()] == ["model.onnx"]


def test_paths_that_are_none(tmp_path):
    with pytest.raises(og.ArgumentTypeError, match="path"):
        classifier().to_onnx(3)
    with pytest.raises(og.GraphFileError, match="No such file"):
        classifier().to_onnx(tmp_path / "not" / "there.onnx")


# --- versions --------------------------------------------------------------------------------------------


def test_the_older_opset_is_enough_for_most():
    assert model_of(classifier()).opset_import[0].version == 20
    graph = og.Graph()
    graph.op(
        "GroupNorm",
        graph.input("x", "f32", [2, 4, 3]),
        groups=2,
        keep_stats=False,
        use_affine=False,
        data_format="NCX",
    )
    newer = model_of(graph)
    assert (newer.opset_import[0].version, newer.ir_version) == (21, 10)
    onnx.checker.check_model(newer, full_check=True)


# --- models that came from ONNX --------------------------------------------------------------------------


def imported(nodes, inputs, outputs, opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return og.from_onnx(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    )


def info(name, kind, *shape):
    return helper.make_tensor_value_info(name, kind, shape)


def test_a_node_that_onnx_computes_goes_back_as_it_was():
    nodes = [
        helper.make_node("Det", ["x"], ["d"], name="det"),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    graph = imported(nodes, [info("x", TensorProto.FLOAT, 2, 3, 3)], [info("y", TensorProto.FLOAT, 2)])
    assert "HostOnnx" in {op.kind for op in graph.ops}
    model = model_of(graph)
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node] == ["Det", "Relu"]
    feeds = {"x": reals(2, 3, 3)}
    got, want = (one.compile()(feeds)["y"] for one in (og.from_onnx(model), graph))
    np.testing.assert_array_equal(got, want)


def test_a_node_that_later_opsets_have_otherwise_is_refused(monkeypatch):
    nodes = [helper.make_node("Det", ["x"], ["y"], name="det")]
    graph = imported(nodes, [info("x", TensorProto.FLOAT, 2, 3, 3)], [info("y", TensorProto.FLOAT, 2)])
    real = onnx.defs.get_schema

    class Later:
        since_version = 19

    monkeypatch.setattr(
        onnx.defs, "get_schema", lambda kind, version: Later if version >= 20 else real(kind, version)
    )
    with pytest.raises(og.UnsupportedError, match=r"Det of opset 17, which is another one in opset 20"):
        model_of(graph)


def test_without_the_package(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(og.UnsupportedError, match="to_onnx needs the package onnx"):
        classifier().to_onnx(tmp_path / "model.onnx")


def test_a_quantised_network_is_that_of_onnxruntime(tmp_path):
    """Integers of a whole network, by pairs of QuantizeLinear and DequantizeLinear; ties may round to either side."""
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = classifier(batch=-1)
    batches = [{"image": reals(4, 3, 6, 6, seed=seed)} for seed in range(3)]
    small = graph.quantize_static(batches)
    path = tmp_path / "small.onnx"
    small.to_onnx(path)
    kinds = [node.op_type for node in onnx.load(path).graph.node]
    assert kinds.count("QuantizeLinear") >= 2
    assert {one.data_type for one in onnx.load(path).graph.initializer} >= {TensorProto.INT8}
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # no sums that saturate at 16 bits
    session = onnxruntime.InferenceSession(os.fspath(path), options)
    for feeds in batches:
        want = small.compile(backend="numpy")(feeds)["logits"]
        step = np.abs(want).max() / 127
        for found in (session.run(None, feeds)[0], og.from_onnx(path).compile()(feeds)["logits"]):
            assert np.abs(found - want).max() <= 1.5 * step
            assert np.abs(found - want).mean() < 0.1 * step


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
def test_products_of_integers(dtype):
    """ONNX has none of bytes: of wider ones the last bits are the same."""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(0, 120, shape).astype(dtype) for shape in ((2, 5, 3), (4, 3)))
    graph = og.Graph()
    kind = {1: "s8" if dtype is np.int8 else "u8", 4: "s32", 8: "s64"}[x.itemsize]
    inputs = [graph.input(name, kind, a.shape) for name, a in (("x", x), ("w", w))]
    graph.output(graph.op("HostMatMul", *inputs, transpose_b=True), name="y")
    (found,) = ReferenceEvaluator(model_of(graph)).run(None, {"x": x, "w": w})
    np.testing.assert_array_equal(found, x @ w.T)
    assert found.dtype == dtype
