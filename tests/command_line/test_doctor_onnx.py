"""`onednn-graph doctor` on ONNX models: names of nodes, and onnxruntime beside ours where it is installed."""

import importlib.util
import json

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs the extra 'cli'")
onnx = pytest.importorskip("onnx", reason="the subjects are ONNX models")

from cli_calls import call, wide_terminal  # noqa: E402, F401 -- a fixture that all tests have
from onednn_graph.tools.doctor.onnx_model import OnnxModel  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

ORT = importlib.util.find_spec("onnxruntime") is not None
needs_onnxruntime = pytest.mark.skipif(not ORT, reason="onnxruntime is not installed")
WEIGHTS = np.random.default_rng(0)


def constant(name, *shape, dtype="f"):
    return numpy_helper.from_array(WEIGHTS.standard_normal(shape).astype(dtype), name)


def saved(tmp_path, nodes, held, shape=("n", 8, 12, 12), kind=TensorProto.FLOAT, made=("y",)):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, shape)],
        [helper.make_tensor_value_info(name, kind, None) for name in made],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.fixture
def network(tmp_path):
    """A convolution with ReLU, a sum and a product."""
    return saved(
        tmp_path,
        [
            helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["r"], "relu"),
            helper.make_node("Add", ["r", "x"], ["a"], "add"),
            helper.make_node("GlobalAveragePool", ["a"], ["p"], "pool"),
            helper.make_node("Flatten", ["p"], ["f"], "flatten"),
            helper.make_node("Gemm", ["f", "v"], ["y"], "fc"),
        ],
        [constant("w", 8, 8, 3, 3), constant("b", 8), constant("v", 8, 5)],
    )


def task(path, **more):
    return {"path": str(path), "text": "model.onnx", "inputs": "", "shapes": [], "seed": 0, **more}


class TestModel:
    def test_nodes_of_an_optimized_model_are_found_again(self, network):
        model = OnnxModel.at(str(network))
        optimized = [
            helper.make_node("Conv", ["x", "reorder", "b"], ["reorder_token_0"], "r_nchwc"),
            helper.make_node("ReorderOutput", ["reorder_token_0"], ["a"], "ReorderOutput"),
            helper.make_node("GlobalAveragePool", ["a"], ["InsertedPrecisionFreeCast_p"], "pool_token_3"),
            helper.make_node("Cast", ["x"], ["other"], "InsertedPrecisionFreeCast_x"),
            helper.make_node("Gemm", ["f", "v"], ["y"], "fc/duplicated_token_2"),
        ]
        assert model.covered(optimized) == [{"r", "c"}, {"a"}, {"p"}, set(), {"y", "f"}]

    def test_what_is_done_along_belongs_to_what_it_comes_from(self, network):
        model = OnnxModel.at(str(network))
        optimized = [
            helper.make_node("FusedConv", ["x", "w", "b"], ["strange"], "conv"),
            helper.make_node("Gemm", ["f", "v"], ["y"], "fc"),
        ]
        assert model.covered(optimized) == [{"c", "r", "a"}, {"y", "f", "p"}]

    def test_inputs_are_made_up_and_given(self, network, tmp_path):
        model = OnnxModel.at(str(network))
        arrays, made = model.inputs(task(network))
        assert (arrays["x"].shape, made) == ((1, 8, 12, 12), ("x",))
        arrays, made = model.inputs(task(network, shapes=["x=3x8x12x12"]))
        assert arrays["x"].shape == (3, 8, 12, 12)
        np.savez(tmp_path / "in.npz", x=np.ones((2, 8, 12, 12), "f"))
        arrays, made = model.inputs(task(network, inputs=str(tmp_path / "in.npz")))
        assert (arrays["x"].shape, made) == ((2, 8, 12, 12), ())


def test_usage_errors(network, tmp_path):
    assert "has no input 'z'" in call("doctor", network, "--shape", "z=1", code=2)
    open_sizes = saved(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [], ("n", "channels"))
    assert "whose shape is 1x?" in call("doctor", open_sizes, code=2)
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\x08\x07\x00\xff broken")
    assert "is no ONNX model" in call("doctor", broken, code=2)


def examined(path, *more):
    return json.loads(call("doctor", path, "--json", "--seconds", "0.05", "--threads", "1", *more))


def test_without_onnxruntime_ours_is_told(network, tmp_path, monkeypatch):
    folder = tmp_path / "lacking"
    folder.mkdir()
    (folder / "onnxruntime.py").write_text("raise ModuleNotFoundError('No module', name='onnxruntime')")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    data = examined(network)
    assert data["ok"]
    assert "onnxruntime is not installed" in data["peer"]["problem"]
    assert data["ours"]["seconds"]["min"] > 0
    (found,) = [one for one in data["findings"] if one["code"] == "peer-missing"]
    assert found["do"].startswith("pip install onnxruntime")
    kernels = [name for row in data["layers"] for name in row["ours"]["kernels"]]
    assert any("convolution" in name or "numpy" in name for name in kernels)


@needs_onnxruntime
class TestWhole:
    def test_nodes_stand_side_by_side(self, network):
        data = examined(network)
        assert data["ok"]
        assert data["peer"]["error"] < 1e-5
        assert data["ours"]["error"] < 1e-5
        (row,) = [row for row in data["layers"] if "conv" in row["items"]]
        assert {"conv", "relu"} <= set(row["items"])
        assert row["peer"]["seconds"] > 0
        assert row["ours"]["seconds"] > 0
        assert row["peer"]["error"] < 1e-5

    def test_f16_shows_conversions(self, tmp_path):
        path = saved(
            tmp_path,
            [
                helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
                helper.make_node("Relu", ["c"], ["y"], "relu"),
            ],
            [constant("w", 8, 8, 3, 3, dtype="e")],
            kind=TensorProto.FLOAT16,
        )
        data = examined(path)
        assert data["ok"]
        assert "inserted-casts" in [one["code"] for one in data["findings"]]

    def test_8_bit_layers_in_f32_are_named(self, tmp_path):
        scale = numpy_helper.from_array(np.float32(0.05), "s")
        zero = numpy_helper.from_array(np.uint8(128), "z")
        path = saved(
            tmp_path,
            [
                helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "quantize"),
                helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], "dequantize"),
                helper.make_node("Conv", ["d", "w"], ["y"], "conv"),
            ],
            [constant("w", 8, 8, 3, 3), scale, zero],
        )
        data = examined(path)
        assert data["ok"]
        assert "unfused-quantization" in [one["code"] for one in data["findings"]]

    def test_the_text(self, network):
        text = call("doctor", network, "--seconds", "0", "--threads", "1")
        assert "made up: x" in text
        assert "conv + relu" in text


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones((1, 9, 12, 12), np.float32), "must be float32 ?x8x12x12, got float32 1x9x12x12"),
        (np.ones((8, 12, 12), np.float32), "must be float32 ?x8x12x12, got float32 8x12x12"),
        (np.ones((1, 8, 12, 12), np.float64), "must be float32 ?x8x12x12, got float64 1x8x12x12"),
    ],
)
def test_an_input_that_does_not_fit_is_a_usage_error(network, tmp_path, array, said):
    """Neither side is asked what it thinks of it."""
    np.savez(tmp_path / "in.npz", x=array)
    assert said in call("doctor", network, "--inputs", tmp_path / "in.npz", code=2)
    if array.dtype == np.float32:
        sizes = "x".join(map(str, array.shape))
        assert said in call("doctor", network, "--shape", f"x={sizes}", code=2)


def test_outputs_that_are_one_tensor_are_expected_by_each_of_their_names(tmp_path):
    from onednn_graph.tools.doctor.ours_side import OurSide

    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Identity", ["r"], ["again"]),
        helper.make_node("Neg", ["r"], ["n"], "negative"),
    ]
    path = saved(tmp_path, nodes, [], shape=(2, 3), made=("n", "r", "again", "x"))
    side = OurSide(tmp_path, task(path, kind="onnx", threads=None))
    side.load()
    side.make()
    told = side.expect()
    with np.load(told["file"]) as found:
        x = found["x"]
        np.testing.assert_array_equal(found["r"], np.maximum(x, 0))
        np.testing.assert_array_equal(found["again"], np.maximum(x, 0))
        np.testing.assert_array_equal(found["n"], -np.maximum(x, 0))
    assert side.check(told["file"]) == {"error": 0.0}
