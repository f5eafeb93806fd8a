"""Graph.to("bf16"): what a graph assigns to its own state keeps the digits of f32."""

import numpy as np
import onednn_graph as og
import pytest


def test_a_moving_average_moves_by_little():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 3])
    mean = graph.parameter(np.ones(3, np.float32), name="mean")
    now = graph.reduce_mean(graph.relu(x), axes=[0])
    moved = graph.add(
        graph.multiply(mean, graph.constant(np.float32(0.999))),
        graph.multiply(now, graph.constant(np.float32(0.001))),
    )
    graph.assign(mean, moved)
    graph.output(graph.subtract(x, moved), name="y")
    narrow = graph.to("bf16")
    model = narrow.compile()
    wanted = 1.0
    for _ in range(100):
        model(np.full((4, 3), 2, np.float32))
        wanted = 0.999 * wanted + 0.002
    np.testing.assert_allclose(narrow.parameters["mean"], wanted, rtol=1e-5)


def test_an_average_of_weights_moves_by_little():
    graph = og.Graph()
    w = graph.parameter(np.full(3, 1.001, np.float32), name="w")
    mean = graph.parameter(np.ones(3, np.float32), name="mean")
    away = graph.subtract(w, mean)
    graph.assign(mean, graph.add(mean, graph.multiply(away, graph.constant(np.float32(0.01)))))
    x = graph.input("x", "f32", [2, 3])
    graph.output(graph.multiply(x, w), name="y")
    narrow = graph.to("bf16")
    narrow.compile()(np.ones((2, 3), np.float32))
    np.testing.assert_allclose(narrow.parameters["mean"], 1 + 0.01 * 0.001, rtol=1e-7)


def test_what_is_not_of_the_state_is_bf16():
    """A layer whose result a buffer keeps is no state, nor is what reads the state."""
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 3])
    w = graph.parameter(np.eye(3, dtype=np.float32), name="w")
    kept = graph.parameter(np.zeros((4, 3), np.float32), name="kept")
    hidden = graph.op("ReLU", graph.matmul(x, w, name="layer"), name="hidden")
    graph.assign(kept, graph.op("Add", hidden, kept, name="state"))
    graph.output(graph.op("Multiply", hidden, hidden, name="square"), name="y")
    types = {op.name: op.inputs[0].data_type.value for op in graph.to("bf16").ops}
    assert (types["layer"], types["hidden"], types["state"], types["square"]) == (
        "bf16",
        "bf16",
        "f32",
        "bf16",
    )


def test_running_statistics_of_torch_in_bf16_are_those_of_f32():
    torch = pytest.importorskip("torch", reason="this test needs torch; install the extra 'test-oracles'")
    module = torch.nn.BatchNorm2d(3)
    x = torch.arange(24.0).reshape(2, 3, 4, 1) % 7
    graph = og.from_torch(module, (x,), training=True).to("bf16")
    model = graph.compile()
    for _ in range(60):
        model(x)
        module(x)
    for name, want in module.state_dict().items():
        if name.startswith("running"):
            np.testing.assert_allclose(graph.parameters[name], want.numpy(), rtol=1e-5)
