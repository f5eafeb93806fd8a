"""`onednn_graph.onnx_backend`: ONNX's own test runner, and what else ONNX's interface of backends has."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph import onnx_backend  # behind what skips where there is no package onnx
from onnx_backend_cases import NOT_RIGHT, items
from onnx_oracle import helper, model_of, normal


def wrong_of(step):
    """What is wrong with every `step`th of the runner's cases, by name, and how many cases there are."""
    cases = [(name, run) for category in items().values() for name, run in category.items()]
    wrong = {}
    for name, run in cases[::step]:
        if not any(name.startswith(start) for start in NOT_RIGHT):
            try:
                run()
            except Exception as error:
                wrong[name] = str(error)[:200]
    return wrong, [name for name, _ in cases]


@pytest.mark.filterwarnings("ignore")
def test_some_of_the_runners_cases_are_right(monkeypatch, tmp_path):
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    wrong, names = wrong_of(29)
    assert not wrong
    assert len(names) > 1000


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_the_runners_cases_are_right(monkeypatch, tmp_path):
    """All of them but for those that are listed with a reason."""
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    wrong, names = wrong_of(1)
    assert not wrong
    listed = [name for name in names if any(name.startswith(start) for start in NOT_RIGHT)]
    assert len(listed) <= 0.03 * len(names)


def test_a_model_is_prepared_and_run():
    x = normal(2, 3)
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    model = model_of(nodes, {"x": x}, ["y", "z"])
    prepared = onnx_backend.prepare(model)
    for given in ([x], (x,), x, {"x": x}):
        y, z = prepared.run(given)
        np.testing.assert_array_equal(y, x.clip(0))
        np.testing.assert_array_equal(z, -x)
    np.testing.assert_array_equal(onnx_backend.run_model(model, [x]).z, -x)
    assert onnx_backend.is_compatible(model)
    assert not onnx_backend.is_compatible(
        model_of([helper.make_node("Relu", ["x"], ["y"], domain="example")], {"x": x}, ["y"])
    )


def test_a_node_is_run():
    x = normal(2, 3)
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"])
    made = onnx_backend.run_node(node, [x, np.array([2])])
    np.testing.assert_array_equal(made.values, -np.sort(-x)[:, :2])
    softmax = helper.make_node("Softmax", ["x"], ["y"])
    (rows,) = onnx_backend.run_node(softmax, {"x": x[None]}, opset_version=11)  # over all but the first axis
    np.testing.assert_allclose(rows.sum(), 1, rtol=1e-5)


def test_devices():
    assert onnx_backend.supports_device("CPU")
    assert onnx_backend.supports_device("CPU:0")
    assert not onnx_backend.supports_device("CUDA")
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": normal(2)}, ["y"])
    with pytest.raises(og.ArgumentError, match="device must be 'CPU', got 'CUDA'"):
        onnx_backend.prepare(model, "CUDA")
