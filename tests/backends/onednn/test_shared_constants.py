"""What is made of constants is made, and held, once for all shapes that a model is compiled for."""

import gc
import tracemalloc

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.runtime.shared_constants import MadeConstant, SharedConstants

WINDOW = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
LAYOUT = {"data_format": "NCX", "weights_format": "OIX"}
CHANNELS, SIZE = 128, 5


@pytest.fixture
def known(monkeypatch, swept):
    """How often something was looked up, and how often it was there; what is verified makes constants of its own."""
    del swept
    counts = {"there": 0, "new": 0}

    def get(self, key, real=SharedConstants.get):
        found = real(self, key)
        counts["new" if found is None else "there"] += 1
        return found

    monkeypatch.setattr(SharedConstants, "get", get)
    return counts


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def built(*weights, shape=(-1, CHANNELS, SIZE, SIZE)):
    graph = og.Graph()
    y = graph.input("x", "f32", shape)
    for array in weights:
        y = graph.relu(graph.convolution(y, graph.constant(array), **WINDOW, **LAYOUT))
    return graph


def reordered(compiled):
    return any(told.prepared for told in compiled.explain().values() if told is not None)


def test_a_size_more_takes_no_memory_for_weights(known):
    weights = drawn(CHANNELS, CHANNELS, 3, 3)
    compiled = built(weights).compile(backend="onednn")
    first = compiled(drawn(1, CHANNELS, SIZE, SIZE))
    if not reordered(compiled):
        pytest.skip("this CPU's kernels take weights as they lie")
    for batch in range(2, 8):
        compiled(drawn(batch, CHANNELS, SIZE, SIZE))
    assert known == {"new": 1, "there": 6}
    again = compiled(drawn(1, CHANNELS, SIZE, SIZE))
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)


def test_memory_is_that_of_one_size():
    weights = drawn(CHANNELS, CHANNELS, 3, 3)
    compiled = built(weights).compile(backend="onednn")
    tracemalloc.start()
    try:
        compiled(drawn(1, CHANNELS, SIZE, SIZE))
        before = tracemalloc.get_traced_memory()[0]
        for batch in range(2, 8):
            compiled(drawn(batch, CHANNELS, SIZE, SIZE))
        more = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert more < 3 * weights.nbytes  # buffers of six sizes; each size's own weights would be six times


@pytest.mark.parametrize("same", [True, False])
def test_layers_of_the_same_weights_and_of_others(same):
    first = drawn(CHANNELS, CHANNELS, 3, 3)
    second = first if same else drawn(CHANNELS, CHANNELS, 3, 3, seed=1)
    graph = built(first, second)
    x = drawn(2, CHANNELS, SIZE, SIZE)
    (got,) = graph.compile(backend="onednn")(x).values()
    (want,) = graph.compile(backend="numpy")(x).values()
    np.testing.assert_array_equal(got, want)


def test_ops_make_their_own_of_the_same_weights():
    weights = drawn(CHANNELS, CHANNELS, 3, 3)
    graph = og.Graph()
    x = graph.input("x", "f32", (-1, CHANNELS, SIZE, SIZE))
    held = graph.constant(weights)
    y = graph.convolution(x, held, **WINDOW, **LAYOUT)
    graph.conv_transpose(y, held, **WINDOW, data_format="NCX", weights_format="IOX")
    array = drawn(2, CHANNELS, SIZE, SIZE)
    (got,) = graph.compile(backend="onednn")(array).values()
    (want,) = graph.compile(backend="numpy")(array).values()
    np.testing.assert_array_equal(got, want)


def test_models_of_their_own_share_nothing():
    """Who has dropped one model may write into the array, and make another of it."""
    weights = drawn(CHANNELS, CHANNELS, 3, 3)
    x = drawn(1, CHANNELS, SIZE, SIZE)
    kept = built(weights).compile(backend="onednn")
    (first,) = kept(x).values()
    np.negative(weights, out=weights)
    graph = built(weights)
    (got,) = graph.compile(backend="onednn")(x).values()
    (want,) = graph.compile(backend="numpy")(x).values()
    np.testing.assert_array_equal(got, want)
    assert not np.array_equal(got, first)


def test_parameters_are_made_anew_for_each_size():
    graph = og.Graph()
    weights = graph.parameter(drawn(CHANNELS, CHANNELS, 3, 3), name="w")
    graph.convolution(graph.input("x", "f32", (-1, CHANNELS, SIZE, SIZE)), weights, **WINDOW, **LAYOUT)
    compiled, reference = graph.compile(backend="onednn"), graph.compile(backend="numpy")
    for round_ in range(3):
        graph.set_parameters({"w": drawn(CHANNELS, CHANNELS, 3, 3, seed=round_)})
        for batch in (1, 2, 3):
            x = drawn(batch, CHANNELS, SIZE, SIZE)
            np.testing.assert_array_equal([*compiled(x).values()], [*reference(x).values()])


def test_what_nobody_uses_is_gone():
    shared = SharedConstants()
    made = shared.keep("a", MadeConstant(np.empty(1), 0, ()))
    assert shared.keep("a", MadeConstant(np.empty(1), 0, ())) is made
    assert shared.get("a") is made
    del made
    gc.collect()
    assert shared.get("a") is None


@pytest.mark.parametrize("kind", ["s8", "s4"])
def test_weights_that_are_expanded_are_put_in_order_once_for_all_sizes(known, kind):
    """Integers of which no product here takes the groups: what is read at each call lies as a kernel likes it."""
    graph = og.Graph()
    x = graph.input("x", "f32", (-1, 256))
    graph.matmul(x, graph.constant(drawn(384, 256)), transpose_b=True, name="y")
    model = graph.quantize_weights(kind, group=64).compile()
    exact = graph.quantize_weights(kind, group=64).compile(backend="numpy")
    for rows in range(1, 6):
        array = drawn(rows, 256, seed=rows)
        np.testing.assert_allclose(model(array)["y"], exact(array)["y"], rtol=1e-5, atol=1e-4)
    steps = [step for told in model.explain().values() for step in told.steps]
    if not any("DynamicDequantize" in step.name for step in steps):
        pytest.skip("this library's products take such weights as they are")
    assert known == {"new": 1, "there": 4}
    assert all(step.prepared for step in steps if "matmul" not in step.name)


def test_halves_that_are_converted_are_held_once_for_all_sizes(known):
    graph = og.Graph()
    x = graph.input("x", "f16", (-1, 128))
    graph.matmul(x, graph.constant(drawn(128, 192).astype(np.float16)), name="y")
    model = graph.compile(backend="onednn")
    for rows in range(1, 6):
        array = drawn(rows, 128, seed=rows).astype(np.float16)
        np.testing.assert_array_equal(model(array)["y"], graph.compile(backend="numpy")(array)["y"])
    if not reordered(model):
        pytest.skip("this CPU's kernels take weights as they lie")
    assert known == {"new": 1, "there": 4}


def test_results_of_one_step_are_not_taken_for_each_other():
    """Means and variances of the same shape, which NumPy makes of a constant: rows that fall into no parts."""
    src = np.random.default_rng(0).standard_normal((2, 2, 65537)).astype(np.float32) * 2 + 3
    graph = og.Graph()
    x = graph.input("x", "f32", (-1, 2))
    dst, mean, variance = graph.op(
        "GroupNorm", graph.constant(src), groups=2, use_affine=False, keep_stats=True, data_format="NCX"
    )
    y = graph.op("Subtract", graph.matmul(x, mean), graph.matmul(x, variance))
    graph.op("Add", y, graph.op("ReduceMax", dst, axes=[0, 1, 2], keep_dims=False), name="y")
    means, variances = src.mean(2, dtype=np.float64), src.var(2, dtype=np.float64)
    highest = ((src.max(2) - means) / np.sqrt(variances + 1e-5)).max()
    model = graph.compile()
    for rows in range(1, 4):
        array = drawn(rows, 2, seed=rows)
        np.testing.assert_allclose(model(array)["y"], array @ (means - variances) + highest, rtol=1e-4)


def test_what_each_step_reads_twice_is_told_once():
    """Else a recipe would double with each step."""
    graph = og.Graph()
    held = graph.constant(np.ones((4, 4), np.float32))
    for _ in range(22):
        held = graph.op("HostPower", held, held)
    graph.matmul(graph.input("x", "f32", (-1, 4)), held, name="y")
    np.testing.assert_array_equal(graph.compile()(np.ones((2, 4), np.float32))["y"], np.full((2, 4), 4))
