"""What a graph assigns to its parameters, as a cache that goes along from run to run, in graphs rewritten from it."""

import numpy as np
import onednn_graph as og
import pytest

ROWS = 4


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) / 4


def with_cache(held="constant", scaled=False):
    """The product's rows are put behind those of a cache, whose first ones go; the next run reads them.

    Args:
        held: what the weights are, a constant or a parameter. scaled: whether the cache's rows are halved.
    """
    graph = og.Graph()
    x = graph.input("x", "f32", (1, 16))
    w = getattr(graph, held)(drawn(16, 8), name="w")
    cache = graph.parameter(np.zeros((ROWS, 8), np.float32), name="cache")
    row = graph.matmul(x, w)
    longer = graph.concat([cache, row], axis=0)
    later = graph.matmul(graph.constant(np.eye(ROWS, ROWS + 1, 1, np.float32), name="shift"), longer)
    if scaled:
        later = graph.multiply(later, graph.constant(np.float32([0.5]), name="half"))
    graph.assign(cache, later)
    graph.output(graph.reduce_sum(longer, axes=[0], keep_dims=True), name="y")
    return graph


FEEDS = [{"x": drawn(1, 16, seed=n)} for n in range(1, 7)]
REWRITTEN = {
    "quantize_weights s8": lambda g: g.quantize_weights("s8", keep=["shift"]),
    "quantize_weights s4": lambda g: g.quantize_weights("s4", group=4),
    "quantize_dynamic": lambda g: g.quantize_dynamic(keep=["shift"]),
    "quantize_static": lambda g: g.quantize_static(FEEDS),
    "quantize_static mse": lambda g: g.quantize_static(FEEDS, method="mse"),
    "to": lambda g: g.to("bf16"),
    "adapters": lambda g: g.adapters(2, "w"),
    "merge_adapters": lambda g: g.adapters(2, "w").merge_adapters(),
}
WITHIN = {"quantize_weights s4": 0.2, "adapters": 1e-6, "merge_adapters": 1e-6}


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("held", ["constant", "parameter"])
@pytest.mark.parametrize("name", REWRITTEN)
def test_what_is_assigned_goes_on_being_assigned(name, held, scaled):
    graph = with_cache(held, scaled)
    made = REWRITTEN[name](graph)
    assert [(p.name, made.parameters["cache"].shape) for p, _ in made.assignments] == [("cache", (ROWS, 8))]
    np.testing.assert_array_equal(made.parameters["cache"], 0)  # calibration has left it as it was
    np.testing.assert_array_equal(graph.parameters["cache"], 0)
    old, new = with_cache(held, scaled).compile(), made.compile()  # to("bf16") shares the parameters
    largest = 0.0
    for feed in FEEDS:
        expected = old(feed)["y"].copy()
        largest = max(largest, np.abs(expected).max())
        np.testing.assert_allclose(new(feed)["y"], expected, atol=WITHIN.get(name, 0.05) * largest, rtol=0)
    assert np.abs(made.parameters["cache"]).max() > 0
    assert {t.name for t in made.outputs} == {t.name for t in graph.outputs}


@pytest.mark.parametrize(
    ("name", "shared"),
    [("quantize_weights s8", True), ("to", True), ("quantize_static", False), ("adapters", False)],
)
def test_whose_the_state_of_the_new_graph_is(name, shared):
    """What is rewritten only is a graph more that goes on from the same state, as one for other sizes is."""
    graph = with_cache()
    made = REWRITTEN[name](graph)
    made.compile()(FEEDS[0])
    assert bool(np.abs(graph.parameters["cache"]).max()) == shared


@pytest.mark.parametrize("method", ["percentile", "mse"])
def test_the_second_look_at_the_feeds_begins_as_the_first(method):
    """Four calls fill a cache of four rows; a fifth, at the place that it counts, would be past its end."""
    graph = og.Graph()
    x = graph.input("x", "f32", (1, 16))
    row = graph.matmul(x, graph.constant(drawn(16, 8), name="w"))
    cache = graph.parameter(np.zeros((ROWS, 8), np.float32), name="cache")
    count = graph.parameter(np.zeros((1, 1), np.int32), name="count")
    rows = graph.op("HostScatterND", cache, count, row)
    graph.assign(cache, rows)
    graph.assign(count, graph.add(count, graph.constant(np.ones((1, 1), np.int32), name="one")))
    graph.output(graph.matmul(rows, graph.constant(drawn(8, 8), name="v")), name="y")
    small = graph.quantize_static(FEEDS[:ROWS], method=method)
    old, new = graph.compile(), small.compile()
    for feed in FEEDS[:ROWS]:
        expected = old(feed)["y"]
        np.testing.assert_allclose(new(feed)["y"], expected, atol=0.05 * np.abs(expected).max(), rtol=0)


def test_weights_that_are_assigned_are_no_constants():
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 4))
    w = graph.parameter(drawn(4, 4), name="w")
    graph.assign(w, graph.multiply(w, graph.constant(np.float32([2]), name="two")))
    graph.output(graph.matmul(x, w), name="y")
    with pytest.raises(
        og.ArgumentError, match=r"parameters that the graph assigns stay .* for_inference\(\)"
    ):
        graph.quantize_weights("s8")
    assert "w.s8" in graph.for_inference(["y"]).quantize_weights("s8").constants


def test_a_constant_that_is_assigned_stays():
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 4))
    reset = graph.constant(drawn(4, 4), name="reset")
    state = graph.parameter(np.ones((4, 4), np.float32), name="state")
    graph.assign(state, reset)
    graph.output(graph.matmul(graph.matmul(x, reset), state), name="y")
    for made in (graph.quantize_weights("s8"), graph.quantize_static([np.ones((2, 4), np.float32)])):
        made.compile()(np.ones((2, 4), np.float32))
        np.testing.assert_array_equal(made.parameters["state"], drawn(4, 4))
