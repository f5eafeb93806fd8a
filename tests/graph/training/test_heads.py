"""`replace_head`: another last layer in the place of the one that an output comes from."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.arrays import Array

T = og.training


def reals(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def network(*, activation: str | None = None, second: bool = False, turned: bool = False) -> og.Graph:
    graph = og.Graph()
    x = graph.input("x", "f32", [-1, 3])
    features = graph.relu(graph.matmul(x, graph.parameter(reals(3, 6), name="body")), name="features")
    old = graph.parameter(reals(5, 6) if turned else reals(6, 5), name="old")
    if turned:
        old = graph.static_transpose(old, order=[1, 0])
    made = graph.add(graph.matmul(features, old), graph.parameter(reals(5), name="bias"))
    graph.output(made if activation is None else graph.op(activation, made, axis=-1), name="logits")
    if second:
        graph.output(graph.exp(features), name="beside")
    return graph


@pytest.mark.parametrize("activation", [None, "SoftMax"])
@pytest.mark.parametrize("turned", [False, True])
def test_features_go_into_a_new_layer(activation: str | None, turned: bool) -> None:
    graph = network(activation=activation, turned=turned)
    made = T.replace_head(graph, 2, seed=3)
    assert graph.output_names == ("logits",)
    assert made.shape == (-1, 2)
    held = graph.parameters
    assert held["head.weight"].shape == (6, 2)
    assert np.abs(held["head.weight"]).max() <= 6**-0.5
    np.testing.assert_array_equal(held["head.bias"], 0)
    x = reals(4, 3, seed=1)
    want = np.maximum(x @ held["body"], 0) @ held["head.weight"]
    np.testing.assert_allclose(graph.compile()(x)["logits"], want, rtol=1e-5, atol=1e-6)
    same, other = network(), network()
    T.replace_head(same, 2, seed=3)
    T.replace_head(other, 2, seed=4)
    np.testing.assert_array_equal(same.parameters["head.weight"], held["head.weight"])
    assert not np.array_equal(other.parameters["head.weight"], held["head.weight"])


def test_only_what_is_read_is_trained_and_served() -> None:
    graph = network()
    logits = T.replace_head(graph, 2, name="mine")
    loss = T.cross_entropy(graph, logits, graph.input("labels", "s64", [-1]))
    trainer = T.Trainer(graph, loss, T.AdamW(0.05))
    x = reals(32, 3, seed=2)
    losses = [trainer.step({"x": x, "labels": (x[:, 0] > x[:, 1]).astype(np.int64)}) for _ in range(60)]
    assert losses[-1] < 0.3 < losses[0]
    served = trainer.model()
    assert served.input_names == ("x",)
    assert set(served.constants) == {"body", "mine.weight", "mine.bias"}
    np.testing.assert_array_equal(served.compile()(x)["logits"], trainer.evaluate({"x": x})["logits"])


def test_other_outputs_stay() -> None:
    graph = network(second=True)
    with pytest.raises(og.ArgumentError, match=r"name the output .* has 'logits', 'beside'"):
        T.replace_head(graph, 2)
    T.replace_head(graph, 2, output="logits")
    assert set(graph.output_names) == {"logits", "beside"}


def test_what_is_refused() -> None:
    with pytest.raises(og.ArgumentError, match="no output 'logit'.*did you mean 'logits'"):
        T.replace_head(network(), 2, output="logit")
    for classes in (True, 2.5):
        with pytest.raises(og.ArgumentTypeError, match="classes must be an integer"):
            T.replace_head(network(), classes)  # pyright: ignore[reportArgumentType]
    with pytest.raises(og.ArgumentError, match="classes must be 1 or more, got 0"):
        T.replace_head(network(), 0)
    graph = network()
    graph.prune([graph.relu(graph.tensor("features"), name="end")])
    with pytest.raises(
        og.UnsupportedError, match="'end' must come from a MatMul by weights.*ReLU.*graph.prune"
    ):
        T.replace_head(graph, 2)
