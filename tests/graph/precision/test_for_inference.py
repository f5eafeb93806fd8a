"""Graph.for_inference: what is left of a graph that trains, held against torch's eval() on the same weights."""

import numpy as np
import onednn_graph as og
import pytest

BATCH = {"epsilon": 1e-5, "momentum": 0.9, "data_format": "NCX"}


def normalised(x, name, graph, *, marked=True):
    """BatchNormForwardTraining with moving statistics of its own."""
    channels = x.dims[1]
    mean = graph.parameter(np.zeros(channels, np.float32), name=f"{name}.mean")
    variance = graph.parameter(np.ones(channels, np.float32), name=f"{name}.variance")
    dst, new_mean, new_variance, *_ = graph.op(
        "BatchNormForwardTraining", x, mean, variance, **BATCH, outputs=5
    )
    graph.assign(mean, new_mean)
    graph.assign(variance, new_variance)
    return dst


def network():
    """A layer with BatchNorm and Dropout, scores, and their loss."""
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [8, 3]), graph.input("labels", "s64", [8])
    seed = graph.input("seed", "s64", [])
    w = graph.parameter(np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32), name="w")
    hidden = normalised(graph.matmul(x, w), "norm", graph)
    zero, half = graph.constant(np.int64(0)), graph.constant(np.float32(0.5))
    scores = graph.output(graph.op("Dropout", hidden, seed, zero, half, outputs=1), name="scores")
    return graph, og.training.cross_entropy(graph, scores, labels), w


FEEDS = {
    "x": np.random.default_rng(1).standard_normal((8, 3)).astype(np.float32) * 3 + 1,
    "labels": np.arange(8) % 4,
}


def expected(graph, x):
    """The scores by moving statistics."""
    held = graph.parameters
    return (x @ held["w"] - held["norm.mean"]) / np.sqrt(held["norm.variance"] + 1e-5)


def is_of_inference(graph):
    assert graph.training_ops == ()
    assert not graph.assignments
    assert not graph.parameters
    kinds = {op.kind for op in graph.ops}
    assert not kinds & {"BatchNormForwardTraining", "Dropout", "HostStopGradient", "HostSGD"}
    assert not any("Backward" in kind for kind in kinds)


def check(graph, trained):
    ready = graph.for_inference()
    is_of_inference(ready)
    assert (ready.input_names, ready.output_names) == (("x",), ("scores",))
    model = ready.compile()
    for _ in range(2):  # nothing moves
        np.testing.assert_allclose(
            model(FEEDS["x"]).only, expected(trained, FEEDS["x"]), rtol=1e-4, atol=1e-5
        )


def trained_network():
    graph, loss, w = network()
    trainer = og.training.Trainer(graph, loss, og.training.SGD(0.1))
    for _ in range(5):
        trainer.step(FEEDS)
    return graph, loss, w


def test_a_trained_graph():
    graph, _, _ = trained_network()
    assert {op.kind for op in graph.training_ops} == {"BatchNormForwardTraining", "Dropout"}
    assert "in training" in repr(graph)
    check(graph, graph)


def test_a_trained_graph_that_was_saved_and_loaded(tmp_path):
    pytest.importorskip("safetensors", reason="needs the extra 'weights'")
    graph, _, _ = trained_network()
    graph.save(tmp_path / "model.json", weights=True)
    loaded = og.Graph.load(tmp_path / "model.json")
    assert "in training" in repr(loaded)
    check(loaded, graph)
    check(loaded.for_inference(["scores"]), graph)
    loaded.for_inference().save(tmp_path / "ready.json", weights=True)
    ready = og.Graph.load(tmp_path / "ready.json")
    is_of_inference(ready)
    np.testing.assert_allclose(
        ready.compile()(FEEDS["x"]).only, expected(graph, FEEDS["x"]), rtol=1e-4, atol=1e-5
    )


def test_gradients_and_updates_are_gone():
    graph, loss, w = network()
    graph.output(loss, name="loss")
    (gradient,) = graph.gradients(loss, [w])
    rate = graph.constant(np.float32(0.1))
    graph.assign(w, graph.subtract(w, graph.multiply(gradient, rate)))
    check(graph, graph)


def test_it_keeps_the_values_of_then():
    graph, loss, _ = trained_network()
    ready = graph.for_inference()
    before = expected(graph, FEEDS["x"])
    og.training.Trainer(graph, loss, og.training.SGD(0.5)).step(FEEDS)
    np.testing.assert_allclose(ready.compile()(FEEDS["x"]).only, before, rtol=1e-4, atol=1e-5)
    assert graph.assignments


def test_outputs_by_name():
    graph, loss, _ = network()
    ready = graph.for_inference([loss])
    assert ready.input_names == ("x", "labels")
    assert set(graph.for_inference(["scores", loss]).output_names) == {"scores", loss.name}
    with pytest.raises(og.ArgumentError, match="outputs has 'score', .*did you mean 'scores'"):
        graph.for_inference(["score"])
    assert graph.for_inference("scores").output_names == ("scores",)


def test_what_there_is_in_training_alone_is_no_output():
    graph = og.Graph()
    x, seed = graph.input("x", "f32", [4]), graph.input("seed", "s64", [])
    zero, half = graph.constant(np.int64(0)), graph.constant(np.float32(0.5))
    _, mask = graph.op("Dropout", x, seed, zero, half, outputs=2)
    graph.output(mask, name="mask")
    with pytest.raises(og.UnsupportedError, match="'mask' is something that there is in training alone"):
        graph.for_inference()
    only = og.Graph()
    w = only.parameter(np.ones(3, np.float32), name="w")
    only.assign(w, only.multiply(w, only.constant(np.float32(2))))
    with pytest.raises(og.ArgumentError, match="no output is left.*outputs="):
        only.for_inference()


# --- modules of torch ------------------------------------------------------------------------------------


def modules():
    from torch import nn

    yield "BatchNorm", nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3))
    yield "frozen", nn.Sequential(nn.BatchNorm2d(3), nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4).eval())
    yield "no statistics", nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    yield "instances", nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Dropout2d(0.2))
    yield "instances, statistics", nn.InstanceNorm2d(3, track_running_stats=True)
    yield (
        "spectral norm",
        nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 4, 1)), nn.Dropout(0.5)),
    )
    yield "alpha dropout", nn.Sequential(nn.Flatten(), nn.Linear(108, 5), nn.SELU(), nn.AlphaDropout(0.3))


NAMES = (
    *("BatchNorm", "frozen", "no statistics", "instances", "instances, statistics"),
    *("alpha dropout",),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_module_of_torch_is_as_its_eval(name):
    torch = pytest.importorskip("torch", reason="this test needs torch; install the extra 'test-oracles'")
    torch.manual_seed(0)
    module = dict(modules())[name].train()
    x = torch.randn(4, 3, 6, 6) * 2 + 1
    graph = og.from_torch(module, (x,), training=True)
    model = graph.compile()
    given = {"input": x} | ({"seed": np.int64(0)} if "seed" in graph.input_names else {})
    for _ in range(3):
        model(given)
    ready = graph.for_inference()
    is_of_inference_but_for_statistics(ready)
    assert ready.input_names == ("input",)
    module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in graph.state.items()})
    with torch.no_grad():
        wanted = module.eval()(x).numpy()
    np.testing.assert_allclose(ready.compile()(x)["output"], wanted, rtol=1e-4, atol=1e-4)
    graph = graph.with_shapes({})
    output = graph.outputs[graph.output_names.index("output")]
    loss = og.training.mean_squared_error(graph, output, graph.input("y", "f32", wanted.shape))
    if [t for t in graph.parameter_tensors if t.data_type == "f32" and "running" not in t.name]:
        trainer = og.training.Trainer(graph, loss, og.training.SGD(0.0))
        np.testing.assert_allclose(trainer.evaluate({"input": x})["output"], wanted, rtol=1e-4, atol=1e-4)


def is_of_inference_but_for_statistics(graph):
    """A norm without moving statistics goes by the batch's in inference too."""
    assert not graph.assignments
    assert not graph.parameters
    assert {op.kind for op in graph.training_ops} <= {"BatchNormForwardTraining"}
