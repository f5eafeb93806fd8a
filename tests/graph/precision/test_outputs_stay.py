"""What an op makes beside what is read is no output of a graph, and none of the graphs that are made of it."""

import numpy as np
import onednn_graph as og
import pytest


def network():
    """A layer whose three largest results are looked up by their places: the values of TopK nobody reads."""
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 6])
    draw = np.random.default_rng(0)
    w = graph.parameter(draw.standard_normal((6, 8)).astype(np.float32), name="w")
    scores = graph.matmul(x, w, name="scores")
    values, places = graph.op("HostTopK", scores, axis=1, k=3, outputs=2)
    graph.output(graph.op("HostGatherElements", scores, places, axis=1), name="best")
    graph.drop_output(values)
    return graph


X = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
WAYS = {
    "itself": lambda graph: graph,
    "bf16": lambda graph: graph.to("bf16"),
    "for_inference": lambda graph: graph.for_inference(),
    "folded": lambda graph: graph.for_inference(fold_batch_norm=True),
    "quantize_static": lambda graph: graph.quantize_static([{"x": X}]),
    "quantize_dynamic": lambda graph: graph.quantize_dynamic(),
    "quantize_weights": lambda graph: graph.quantize_weights(),
    "adapters": lambda graph: graph.adapters(2, "*"),
}


@pytest.mark.filterwarnings("ignore::onednn_graph.errors.SlowTypeWarning")
@pytest.mark.parametrize("name", WAYS)
def test_a_graph_made_of_another_has_its_outputs(name):
    made = WAYS[name](network())
    assert made.output_names == ("best",)
    wanted = network().compile()(X).only
    np.testing.assert_allclose(made.compile()(X).only.astype("f4"), wanted, rtol=0.1, atol=0.1)


def test_an_evaluation_of_what_is_trained_has_its_outputs():
    graph = network()
    loss = graph.op("ReduceMean", graph.tensor("best"), axes=[0, 1], keep_dims=False, name="loss")
    trainer = og.training.Trainer(graph, loss, og.training.SGD(0.01))
    assert set(trainer.evaluate({"x": X})) == {"best", "loss"}
    assert trainer.model().output_names == ("best",)
