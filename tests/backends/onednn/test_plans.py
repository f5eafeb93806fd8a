"""Plans over time and in memory: arrays that change in place, results over inputs, views, outputs of one content."""

import gc
import weakref

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from compile_requests import request_of
from onednn_graph.backends.onednn import executable as executables
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.lowering import blocks
from onednn_graph.backends.onednn.plan.arena import GUARDS
from onednn_graph.backends.onednn.plan.frame import Frame
from onednn_graph.graph.compile import verification
from strategies import has_isa

SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
NO_PADS = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}


def integers(*shape, seed=0, low=-3, high=4):
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def on_numpy(graph, arrays):
    return graph.compile(backend="numpy")(arrays)


def on_onednn(model):
    return {e.backend for e in model.explain().values() if e is not None} == {"onednn"}


# --- what changes between calls -------------------------------------------------------------------------


def fused_convolution(graph, constant):
    x = graph.input("x", "f32", (2, 8, 8, 16))
    w = graph.input("w", "f32", (3, 3, 16, 32), property_type="constant" if constant else "undef")
    b = graph.input("b", "f32", (32,))
    return graph.op("ReLU", graph.op("BiasAdd", graph.op("Convolution", x, w, **SAME), b))


def fused_product(graph, constant):
    kind = "constant" if constant else "undef"
    x, w = graph.input("x", "f32", (6, 24)), graph.input("w", "f32", (16, 24), property_type=kind)
    b = graph.input("b", "f32", (16,))
    return graph.op("ReLU", graph.op("Add", graph.op("MatMul", x, w, transpose_b=True), b))


def normalised_convolution(graph, constant):
    x = graph.input("x", "f32", (2, 8, 8, 16))
    w = graph.input("w", "f32", (3, 3, 16, 32), property_type="constant" if constant else "undef")
    vectors = [graph.input(n, "f32", (32,)) for n in ("gamma", "beta", "mean", "b")]
    return graph.op("BatchNormInference", graph.op("Convolution", x, w, **SAME), *vectors, epsilon=4.0)


FUSED = [fused_convolution, fused_product, normalised_convolution]


@pytest.mark.parametrize("build", FUSED, ids=lambda build: build.__name__)
def test_arrays_that_are_no_constants_may_change_in_place(onednn, build):
    graph = og.Graph()
    y = build(graph, constant=False)
    model = graph.compile()
    assert on_onednn(model)
    arrays = {t.name: integers(*t.shape, seed=i) for i, t in enumerate(graph.inputs)}
    arrays["b"] = np.abs(arrays["b"])  # a variance in one of the graphs
    (partition,) = model.partitions
    compiled = partition.compile()
    out = np.empty(y.shape, np.float32)
    bound = compiled.bind([arrays[t.name] for t in compiled.inputs], [out])
    for name in ("w", "b", "x", "w"):
        arrays[name] *= 2
        want = on_numpy(graph, arrays)[y]
        np.testing.assert_allclose(model(arrays)[y], want, rtol=1e-5, atol=1e-3)
        out[...] = np.nan
        bound()
        np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("build", [fused_convolution, fused_product], ids=lambda build: build.__name__)
def test_a_constant_is_prepared_again_for_another_array_only(onednn, build, monkeypatch):
    """A new array takes the place of the old one, which was freed, at another address or at the same."""
    from onednn_graph.backends.onednn.plan.plan import Plan

    graph = og.Graph()
    y = build(graph, constant=True)
    model = graph.compile()
    (explanation,) = model.explain().values()
    assert explanation.prepared
    ran = []
    run = Plan.run
    monkeypatch.setattr(Plan, "run", lambda self, *given, **how: (ran.append(self), run(self, *given, **how)))
    arrays = {t.name: integers(*t.shape, seed=i) for i, t in enumerate(graph.inputs)}
    for factor in (1, 1, 2, 2, 3):
        arrays["w"] = integers(*arrays["w"].shape, seed=9) * factor if factor > 1 else arrays["w"]
        np.testing.assert_array_equal(model(arrays)[y], on_numpy(graph, arrays)[y])
        model(arrays)
        arrays["x"] = arrays["x"] + 1
    plans = {plan: ran.count(plan) for plan in ran}
    assert sorted(plans.values()) == [4, 10]  # prepared for the first array and three more; run ten times


@pytest.mark.parametrize("build", [fused_convolution, fused_product], ids=lambda build: build.__name__)
def test_constants_are_prepared_from_addresses_alone(onednn, build):
    graph = og.Graph()
    y = build(graph, constant=True)
    model = graph.compile()
    (partition,) = model.partitions
    executable = partition.compile().executable
    arrays = {t.name: integers(*t.shape, seed=i) for i, t in enumerate(graph.inputs)}
    out = np.empty(y.shape, np.float32)
    places = [arrays[t.name].ctypes.data for t in executable.inputs]
    prepared = executable.prepare(places)
    assert prepared is not None
    executable.run_at([*places, out.ctypes.data], prepared)
    np.testing.assert_array_equal(out, on_numpy(graph, arrays)[y])


@pytest.mark.parametrize("kind", ["constant", "parameter"])
def test_memory_in_which_constants_were_prepared_is_given_back(onednn, kind):
    """What is between a constant and what is made of it, here in f32, is needed again where it may change alone."""
    graph = og.Graph()
    weights = getattr(graph, kind)(integers(256, 128).astype(np.int8))
    real = graph.op("DynamicDequantize", weights, graph.constant(np.ones(1, np.float32)))
    graph.output(graph.matmul(graph.input("x", "f32", [4, 256]), real), name="y")
    model, arrays = graph.compile(), {"x": integers(4, 256)}
    np.testing.assert_array_equal(model(arrays)["y"], on_numpy(graph, arrays)["y"])
    prepared = model._stages[0].executable.prepared
    if not prepared.plan.scratch_bytes:
        pytest.skip("this CPU's kernels take weights as they lie")
    assert prepared.plan.is_ready is (kind == "parameter")


def test_a_look_at_a_plan_leaves_other_plans_without_guards(onednn, monkeypatch):
    """Others that are made meanwhile, in another thread say, would keep theirs, and be slow for ever."""
    graph, others = og.Graph(), []
    fused_product(graph, constant=False)
    (partition,) = graph.compile().partitions
    compiled = partition.compile()

    def made(*args):
        others.append(GUARDS.arena(8))
        return Frame(*args)

    monkeypatch.setattr(executables, "Frame", made)
    arrays = [integers(*t.dims) for t in compiled.inputs]
    (out,) = (np.empty(t.dims, np.float32) for t in compiled.outputs)
    assert compiled.executable.run_tapped(arrays, [out], lambda tensor, array, writable: None)
    assert [one.zone for one in others] == [0]


def test_prepared_constants_that_are_read_through_views(onednn):
    """Weights turned and reshaped on the way: what is prepared depends on the constant under the views."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 8, 8, 16))
    w = graph.input("w", "f32", (32, 3, 3, 16), property_type="constant")
    turned = graph.op("StaticTranspose", w, order=[1, 2, 3, 0])
    y = graph.op("ReLU", graph.op("Convolution", x, turned, **SAME))
    arrays = {"x": integers(*x.shape), "w": integers(*w.shape, seed=1)}
    flat = graph.input("v", "f32", (512,), property_type="constant")
    product = graph.op("StaticReshape", flat, shape=[16, 32], special_zero=False)
    z = graph.op("MatMul", x, product)
    arrays["v"] = integers(512, seed=2)
    lowered = lowered_as_one(graph)
    for factor in (1, 2):
        arrays |= {"w": arrays["w"] * factor, "v": arrays["v"] * factor}
        got = dict(zip((t.id for t in lowered.outputs), run_all(lowered, arrays), strict=True))
        want = on_numpy(graph, arrays)
        np.testing.assert_array_equal(got[y.id], want[y])
        np.testing.assert_array_equal(got[z.id], want[z])
    assert lowered.prepared is not None
    assert {name.split(" (")[0] for name in lowered.explanation.prepared} == {"reorder weights"}


def lowered_as_one(graph):
    """All ops of a graph as one plan of the oneDNN backend, whatever the patterns would make of them."""
    from onednn_graph.graph.compile.backend import BACKENDS

    return next(BACKENDS.get("onednn").compile(request_of(graph, forced=True)))


def run_all(executable, arrays):
    outputs = [np.full(t.dims, np.nan, np.float32) for t in executable.outputs]
    executable.run([arrays[t.name] for t in executable.inputs], outputs)
    return outputs


# --- one content, several outputs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "second",
    [
        lambda graph, y: graph.op("Reorder", y),
        lambda graph, y: graph.op("StaticReshape", y, shape=list(y.shape), special_zero=False),
        lambda graph, y: graph.op("StaticTranspose", y, order=[0, 1]),
        lambda graph, y: graph.op("StaticTranspose", y, order=[1, 0]),
        lambda graph, y: graph.op("TypeCast", y),
    ],
    ids=["reorder", "reshape", "the same order", "turned", "cast"],
)
def test_outputs_of_one_content_have_memory_of_their_own(onednn, second):
    """A result and a view of it are both asked for: one buffer can't be both arrays of the user."""
    graph = og.Graph()
    x = graph.input("x", "f32", (6, 6))
    y = graph.output(graph.op("ReLU", x))
    z = graph.output(second(graph, y))
    arrays = {"x": integers(6, 6)}
    want = on_numpy(graph, arrays)
    executable = lowered_as_one(graph)
    got = dict(zip((t.id for t in executable.outputs), run_all(executable, arrays), strict=True))
    np.testing.assert_array_equal(got[y.id], want[y])
    np.testing.assert_array_equal(got[z.id], want[z])
    assert z.id != y.id


def test_a_view_of_an_input_is_an_output_of_its_own(onednn):
    graph = og.Graph()
    x = graph.input("x", "f32", (3, 4))
    y = graph.output(graph.op("StaticReshape", x, shape=[4, 3], special_zero=False))
    z = graph.output(graph.op("StaticTranspose", x, order=[1, 0]))
    arrays = {"x": integers(3, 4)}
    executable = lowered_as_one(graph)
    got = dict(zip((t.id for t in executable.outputs), run_all(executable, arrays), strict=True))
    np.testing.assert_array_equal(got[y.id], arrays["x"].reshape(4, 3))
    np.testing.assert_array_equal(got[z.id], arrays["x"].T)


# --- results over inputs --------------------------------------------------------------------------------

OVER = {
    "StaticTranspose": lambda graph: graph.op(
        "StaticTranspose", graph.input("x", "f32", (5, 5)), order=[1, 0]
    ),
    "MatMul": lambda graph: graph.op(
        "MatMul", graph.input("x", "f32", (40, 40)), graph.input("w", "f32", (40, 40))
    ),
    "MaxPool": lambda graph: graph.op(
        "MaxPool",
        graph.input("x", "f32", (1, 9, 9, 3)),
        kernel=[3, 3],
        rounding_type="floor",
        **NO_PADS | {"pads_begin": [2, 2]},
    ),
    "ReduceMax": lambda graph: graph.op(
        "ReduceMax", graph.input("x", "f32", (4, 9)), axes=[1], keep_dims=True
    ),
    "Concat": lambda graph: graph.op(
        "Concat", graph.input("x", "f32", (4, 3)), graph.input("w", "f32", (4, 3)), axis=1
    ),
    "SoftMax": lambda graph: graph.op("SoftMax", graph.input("x", "f32", (4, 9)), axis=0),
}


@pytest.mark.parametrize("moved", [0, 1, -1], ids=["in place", "one behind", "one before"])
@pytest.mark.parametrize("kind", OVER)
def test_a_result_may_lie_over_an_input(onednn, kind, moved):
    """At the same place, or moved by one element, where it would be written over what is still to be read."""
    graph = og.Graph()
    y = OVER[kind](graph)
    arrays = {t.name: integers(*t.shape, seed=3 + i) for i, t in enumerate(graph.inputs)}
    want = on_numpy(graph, arrays)[y].copy()
    (partition,) = graph.compile(backend="onednn").partitions
    compiled = partition.compile()
    size = 2 + max(arrays["x"].size, want.size)
    for name in arrays:
        memory = np.full(size, np.nan, np.float32)
        given = arrays | {name: memory[1 : 1 + arrays[name].size].reshape(arrays[name].shape)}
        given[name][...] = arrays[name]
        first = 1 + moved
        out = memory[first : first + want.size].reshape(want.shape)
        compiled.execute(None, [given[t.name] for t in compiled.inputs], [out])
        np.testing.assert_allclose(out, want, rtol=1e-6)
        with pytest.raises(og.ArgumentError, match="share memory"):
            compiled.bind([given[t.name] for t in compiled.inputs], [out])


# --- shapes that change ---------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["onednn", "numpy"])
def test_of_two_unknown_shapes_only_one_changes(onednn, backend):
    graph = og.Graph()
    x, w = graph.input("x", "f32", [-1, 4]), graph.input("w", "f32", [4, -1])
    y = graph.op("MatMul", x, w)
    model = graph.compile(backend=backend)
    for rows, columns in ((2, 3), (2, 5), (2, 1), (6, 1), (6, 3), (2, 3)):
        a, b = integers(rows, 4), integers(4, columns, seed=1)
        got = model({"x": a, "w": b})[y]
        np.testing.assert_array_equal(got, a @ b)


def test_a_broadcast_shape_that_comes_and_goes(onednn):
    """The sizes of the second input decide how the first is read, though the result's stay."""
    graph = og.Graph()
    x, w = graph.input("x", "f32", [4, 6]), graph.input("w", "f32", [-1, -1])
    y = graph.op("Multiply", graph.op("ReLU", x), w)
    model = graph.compile()
    for shape in ((4, 6), (1, 6), (4, 1), (1, 1), (4, 6)):
        a, b = integers(4, 6), integers(*shape, seed=1)
        np.testing.assert_array_equal(model({"x": a, "w": b})[y], np.maximum(a, 0) * b)


# --- attention in blocks of heads -----------------------------------------------------------------------


@pytest.mark.parametrize("together", [1, 2, 3, 6])
@pytest.mark.parametrize(
    "mask",
    [(2, 1, 1, 7), (2, 1, 5, 7), (1, 6, 1, 7), (2, 6, 5, 7), (1, 1, 5, 7), (6, 1, 1), (5, 7), ()],
    ids=str,
)
def test_several_blocks_of_heads_read_their_own_part_of_the_mask(onednn, monkeypatch, mask, together):
    monkeypatch.setattr(blocks, "SCORES_BYTES", together * blocks.F32_BYTES * 5 * 7 / load().threads)
    graph = og.Graph()
    q, k = graph.input("q", "f32", (2, 6, 5, 8)), graph.input("k", "f32", (2, 6, 7, 8))
    v = graph.input("v", "f32", (2, 6, 7, 8))
    scores = graph.op("Add", graph.op("MatMul", q, k, transpose_b=True), graph.input("mask", "f32", mask))
    y = graph.op("MatMul", graph.op("SoftMax", scores, axis=-1), v)
    model = graph.compile(scratch_limit=1024, threads=load().threads)
    assert f"in {2 * 6 // together} blocks of heads" in str(model.explain())
    arrays = {t.name: integers(*t.shape, seed=i) for i, t in enumerate(graph.inputs)}
    np.testing.assert_allclose(model(arrays)[y], on_numpy(graph, arrays)[y], rtol=2e-5, atol=1e-6)


# --- proof at compile -----------------------------------------------------------------------------------


def test_a_weight_gradient_with_bias_is_verified_where_it_is_asked_for(onednn, monkeypatch):
    """The fuzzer has covered the two in one, so that nothing need be proven at each compile."""
    common = SAME | {"weights_shape": [3, 3, 16, 32]}
    graph = og.Graph()
    x, dy = graph.input("x", "f32", (2, 8, 8, 16)), graph.input("dy", "f32", (2, 8, 8, 32))
    graph.op("ConvolutionBackwardWeights", x, dy, **common)
    graph.op("BiasAddBackward", dy)
    (together,) = graph.compile().explain().values()
    assert together.backend == "onednn"
    assert together.trusted
    assert not together.verified
    from onednn_graph.backends.numpy import kernels

    right = kernels.KERNELS["BiasAddBackward"]

    def wrong(op, inputs, outputs):
        right(op, inputs, outputs)
        outputs[0][0] += 1

    monkeypatch.setitem(kernels.KERNELS, "BiasAddBackward", wrong)
    with pytest.raises(og.UnsupportedError, match="failed verification, 1 of 32 elements"):
        graph.compile(backend="onednn", verify=True)


# --- int8 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zps", [[0] * 32, [3] * 32, list(range(-16, 16))], ids=["none", "equal", "unequal"])
@pytest.mark.parametrize("scales", [[4.0] * 32, [2.0, 4.0, 8.0, 1.0] * 8], ids=["equal", "unequal"])
def test_an_int8_convolution_to_a_quantize_per_channel(onednn, scales, zps):
    graph = og.Graph()
    x = graph.op("Dequantize", graph.input("x", "u8", (2, 6, 6, 16)), scales=[0.5], zps=[3])
    w = graph.input("w", "s8", (3, 3, 16, 32), property_type="constant")
    w = graph.op("Dequantize", w, scales=[0.25, 0.5] * 16, zps=[0] * 32, qtype="per_channel", axis=3)
    y = graph.op("Convolution", x, w, **SAME)
    y = graph.op("Quantize", y, scales=scales, zps=zps, output_type="s8", qtype="per_channel", axis=-1)
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.integers(0, 9, (2, 6, 6, 16)).astype(np.uint8),
        "w": rng.integers(-4, 5, (3, 3, 16, 32)).astype(np.int8),
    }
    model = graph.compile()
    assert on_onednn(model)
    # All scales are powers of two: sums are exact, and both sides round the same halves to even.
    a = (arrays["x"].astype(np.float64) - 3) * 0.5
    b = arrays["w"] * np.tile([0.25, 0.5], 16)
    padded = np.pad(a, [(0, 0), (1, 1), (1, 1), (0, 0)])
    real = sum(padded[:, i : i + 6, j : j + 6] @ b[i, j] for i in range(3) for j in range(3))
    want = np.clip(np.rint(real / scales + zps), -128, 127)
    np.testing.assert_array_equal(model(arrays)[y], want)
    assert len(np.unique(want)) > 20


# --- what the library does otherwise, and is not given --------------------------------------------------


@pytest.mark.parametrize("backend", ["onednn", "numpy"])
@pytest.mark.parametrize("mode", ["none", "inf_as_zero", "log"])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16], ids=["f32", "bf16", "f16"])
def test_rows_of_nothing_but_minus_infinity(onednn, backend, mode, dtype):
    """Zeros for such a row where the mode says so, NaN otherwise; a NaN in a row is no such row."""
    x = np.zeros((2, 4, 32), dtype)
    x[0, 1] = x[1, 3] = -np.inf
    x[1, 0, 8:] = -np.inf
    x[0, 2, 5] = np.nan
    if mode == "log":
        got = np.exp(og.log_softmax(x, axis=-1, backend=backend).astype(np.float32))
    else:
        got = og.softmax(x, axis=-1, mode=mode, backend=backend).astype(np.float32)
    want = np.full(x.shape, np.float32(1 / 32))
    want[1, 0], want[1, 0, :8] = 0, 1 / 8
    want[0, 1] = want[1, 3] = 0 if mode == "inf_as_zero" else np.nan
    assert np.isnan(got[0, 2, 5])
    want[0, 2] = got[0, 2]  # whether it spreads is another question
    np.testing.assert_allclose(got, want, rtol=0.03, atol=1e-6)


def windows_of(x, begin, end, dilation=1):
    """The elements of each window of 3, NaN for padding, along a first axis."""
    size, extent = x.shape[1], 2 * dilation + 1
    padded = np.full((1, begin + size + end, x.shape[2]), np.nan)
    padded[:, begin : begin + size] = x
    count = begin + size + end - extent + 1
    return np.stack([padded[:, i : i + count] for i in range(0, extent, dilation)])


BEYOND = [(2, 0), (0, 2), (3, 0), (0, 3), (4, 5)]


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("begin", "end"), [*BEYOND, (5, 0)])
def test_pads_beyond_a_window_of_max_pool(onednn, backend, begin, end, dilation):
    """Windows that lie in the padding alone are least."""
    x = integers(1, 6, 2, low=1, high=9)
    common = {"strides": [1], "pads_begin": [begin], "pads_end": [end], "kernel": [3]}
    windows = windows_of(x, begin, end, dilation)
    want = np.where(np.isnan(windows), -np.inf, windows).max(axis=0)
    np.testing.assert_array_equal(og.max_pool(x, dilations=[dilation], backend=backend, **common), want)


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize(("begin", "end"), BEYOND)
def test_pads_beyond_a_window_of_avg_pool(onednn, backend, begin, end):
    """Windows that lie in the padding alone are 0 where it counts, and NaN otherwise."""
    x = integers(1, 6, 2, low=1, high=9)
    common = {"strides": [1], "pads_begin": [begin], "pads_end": [end], "kernel": [3]}
    windows = windows_of(x, begin, end)
    total, count = np.nansum(windows, axis=0), np.count_nonzero(~np.isnan(windows), axis=0)
    got = og.avg_pool(x, exclude_pad=False, backend=backend, **common)
    np.testing.assert_allclose(got, total / 3, rtol=1e-6)
    got = og.avg_pool(x, exclude_pad=True, backend=backend, **common)
    want = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize(
    ("shape", "axis"), [((4, 3, 1), 1), ((1, 1, 3, 4), 2), ((6, 3), 1), ((2, 5), 1)], ids=str
)
def test_scales_of_grouped_weights(onednn, backend, dtype, shape, axis):
    """Twice as many scales as channels: those of the first group stand before those of the second."""
    channels = shape[axis]
    scales = [2.0**i for i in range(2 * channels)]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, shape).astype(dtype)
    other = 0 if axis == 1 else len(shape) - 1
    want = x.astype(np.float32)
    for place in np.ndindex(shape):
        group = place[other] // (shape[other] // 2)
        want[place] *= scales[group * channels + place[axis]]
    got = og.dequantize(x, scales=scales, qtype="per_channel", axis=axis, backend=backend)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("way", ["static", "dynamic"])
def test_scales_stand_at_their_axis(onednn, way, axis):
    """As many scales as each axis has elements, so that another axis would be taken without a word."""
    x = integers(4, 4, 4, low=-20, high=20)
    scales = np.float32([0.5, 1, 2, 4])
    shape = tuple(4 if a == axis % 3 else 1 for a in range(3))
    want = np.rint(x / scales.reshape(shape))
    common = {"qtype": "per_channel", "axis": axis, "backend": "onednn"}
    if way == "static":
        got = og.quantize(x, scales=scales.tolist(), output_type="s8", **common)
        back = og.dequantize(got, scales=scales.tolist(), **common)
    else:
        got = og.dynamic_quantize(x, scales, output_type="s8", **common)
        back = og.dynamic_dequantize(got, scales, **common)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(back, want * scales.reshape(shape))


@pytest.mark.parametrize("zps", [[3], [3, -1, 0, 7]], ids=["one", "per channel"])
def test_dynamic_zero_points(onednn, zps):
    """One goes along with the library; one per channel does not, and is computed by NumPy."""
    x, scales = integers(4, 6, low=-20, high=20), np.float32([0.5, 1, 2, 4])
    points = np.int32(zps)
    more = {"qtype": "per_channel", "axis": 0}
    got = og.dynamic_quantize(x, scales, np.broadcast_to(points, 4).copy(), output_type="s8", **more)
    want = np.rint(x / scales[:, None] + np.broadcast_to(points, 4)[:, None])
    np.testing.assert_array_equal(got, want)
    got = og.dynamic_dequantize(want.astype(np.int8), scales, np.broadcast_to(points, 4).copy(), **more)
    np.testing.assert_array_equal(got, (want - np.broadcast_to(points, 4)[:, None]) * scales[:, None])


def test_all_that_is_made_of_a_constant_is_prepared(onednn):
    """Weights in f16 are converted first, and what comes of that is put in order: neither is left for each call."""
    graph = og.Graph()
    x = graph.input("x", "f16", (2, 8, 8, 16))
    w = graph.input("w", "f16", (3, 3, 16, 32), property_type="constant")
    y = graph.op("ReLU", graph.op("Convolution", x, w, **SAME))
    model = graph.compile(backend="onednn")
    (explanation,) = model.explain().values()
    converted = [] if has_isa("avx512_core_fp16") else ["convert w"]
    assert [name.split(" (")[0] for name in explanation.prepared] == [*converted, "reorder weights"]
    assert not any("w (" in name or "weights" in name for name in explanation.implementations)
    arrays = {"x": integers(*x.shape).astype(np.float16), "w": integers(*w.shape, seed=1).astype(np.float16)}
    np.testing.assert_array_equal(model(arrays)[y], on_numpy(graph, arrays)[y])


@pytest.mark.parametrize("kind", ["Convolution", "MatMul"])
@pytest.mark.parametrize("of", ["data", "weights"])
def test_unequal_zero_points_of_int8_operands(onednn, kind, of):
    """The library has one zero point for the data and none for weights; the first of several is not that of all."""
    rng = np.random.default_rng(0)
    shapes = ((2, 6, 6, 16), (3, 3, 16, 32)) if kind == "Convolution" else ((6, 16), (16, 32))
    channels = {"data": 16, "weights": 32}
    graph, operands, real = og.Graph(), [], []
    arrays = {
        name: rng.integers(-4, 5, shape).astype(np.int8) for name, shape in zip("xw", shapes, strict=True)
    }
    for name, which in (("x", "data"), ("w", "weights")):
        zps = [0] * channels[which] if which != of else [0, *range(1, channels[which])]
        tensor = graph.input(name, "s8", arrays[name].shape)
        operands.append(
            graph.op(
                "Dequantize",
                tensor,
                scales=[0.5] * channels[which],
                zps=zps,
                qtype="per_channel",
                axis=len(tensor.shape) - 1,
            )
        )
        real.append((arrays[name].astype(np.float32) - np.float32(zps)) * 0.5)
    y = graph.op(kind, *operands, **(SAME if kind == "Convolution" else {}))
    x, w = real
    if kind == "MatMul":
        want = x @ w
    else:
        padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
        want = sum(padded[:, i : i + 6, j : j + 6] @ w[i, j] for i in range(3) for j in range(3))
    np.testing.assert_array_equal(graph.compile()(arrays)[y], want)


@pytest.mark.parametrize(
    "then",
    [
        lambda graph, y: graph.op("Multiply", y, graph.output(graph.op("Sigmoid", y))),
        lambda graph, y: graph.op("Add", y, y),
        lambda graph, y: graph.op("Subtract", graph.op("ReLU", y), graph.op("Abs", y)),
        lambda graph, y: graph.op("ReLU", graph.output(y)),
        lambda graph, y: graph.op("Tanh", graph.output(graph.op("ReLU", y))),
    ],
    ids=[
        "the gate is asked for",
        "with itself",
        "two ways",
        "the middle is asked for",
        "a link is asked for",
    ],
)
def test_what_is_read_elsewhere_too_is_no_post_op(onednn, then):
    """All stays on the library, and nothing that somebody reads is swallowed."""
    graph = og.Graph()
    x, w = graph.input("x", "f32", (2, 8, 8, 16)), graph.input("w", "f32", (3, 3, 16, 32))
    graph.output(then(graph, graph.op("Convolution", x, w, **SAME)))
    model = graph.compile()
    assert on_onednn(model)
    arrays = {t.name: integers(*t.shape, seed=i, low=-1, high=2) for i, t in enumerate(graph.inputs)}
    got, want = model(arrays), on_numpy(graph, arrays)
    for tensor in graph.outputs:
        np.testing.assert_allclose(got[tensor], want[tensor], rtol=1e-5, atol=1e-5)


INT8 = {
    "columns of a turned matrix": ("MatMul", (8, 16), (16, 16), {"axis": 0}, {"transpose_b": True}),
    "rows of a turned matrix": ("MatMul", (8, 16), (16, 16), {"axis": 1}, {"transpose_b": True}),
    "columns": ("MatMul", (8, 16), (16, 16), {"axis": 1}, {}),
    "rows": ("MatMul", (8, 16), (16, 16), {"axis": 0}, {}),
    "output channels": ("Convolution", (1, 5, 5, 16), (3, 3, 16, 16), {"axis": 3}, SAME),
    "input channels": ("Convolution", (1, 5, 5, 16), (3, 3, 16, 16), {"axis": 2}, SAME),
    "output channels of groups": (
        "Convolution",
        (1, 5, 5, 64),
        (3, 3, 16, 16),
        {"axis": 3},
        SAME | {"groups": 4},
    ),
    "input channels of groups": (
        "Convolution",
        (1, 5, 5, 64),
        (3, 3, 16, 16),
        {"axis": 2},
        SAME | {"groups": 4},
    ),
    "output channels, transposed": ("ConvTranspose", (1, 5, 5, 16), (3, 3, 16, 16), {"axis": 2}, SAME),
}


@pytest.mark.parametrize("zero_point", [0, 2])
@pytest.mark.parametrize("name", INT8)
def test_scales_and_zero_points_of_int8_weights(onednn, name, zero_point):
    """Sixteen scales fit every axis; what the library has no mask for, and zero points, must not be left out."""
    kind, x_shape, w_shape, where, more = INT8[name]
    graph = og.Graph()
    x = graph.op("Dequantize", graph.input("x", "u8", x_shape), scales=[0.5], zps=[3])
    w = graph.input("w", "s8", w_shape, property_type="constant")
    scales = [0.25, 0.5, 1.0, 2.0] * 4
    w = graph.op("Dequantize", w, scales=scales, zps=[zero_point] * 16, qtype="per_channel", **where)
    y = graph.op(kind, x, w, **more)
    rng = np.random.default_rng(0)
    arrays = {
        "x": rng.integers(0, 9, x_shape).astype(np.uint8),
        "w": rng.integers(-4, 5, w_shape).astype(np.int8),
    }
    np.testing.assert_array_equal(graph.compile()(arrays)[y], on_numpy(graph, arrays)[y])


@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
def test_a_transposed_convolution_of_as_many_channels_in_as_out(onednn, data_format):
    """Weights whose channels were exchanged would fit too."""
    shape = (1, 5, 6, 16) if data_format == "NXC" else (1, 16, 5, 6)
    x, w = integers(*shape), integers(3, 3, 16, 16, seed=1)
    got = og.conv_transpose(x, w, data_format=data_format, backend="onednn", **SAME)
    np.testing.assert_array_equal(
        got, og.conv_transpose(x, w, data_format=data_format, backend="numpy", **SAME)
    )


def test_statistics_of_an_empty_row(onednn):
    x = np.zeros((4, 32), np.float32)
    x[1] = -np.inf
    for backend in ("onednn", "numpy"):
        got, statistics = og.softmax(x, axis=-1, mode="inf_as_zero", outputs=2, backend=backend)
        assert not got[1].any()
        np.testing.assert_allclose(statistics[:, 0], [np.log(32), 0, np.log(32), np.log(32)], rtol=1e-6)


def test_a_constant_lives_as_long_as_what_was_made_of_it(onednn):
    """Another array at the same address would be taken for it."""
    graph = og.Graph()
    fused_convolution(graph, constant=True)
    model = graph.compile()
    arrays = {t.name: integers(*t.shape, seed=i) for i, t in enumerate(graph.inputs)}
    model(arrays)
    kept = weakref.ref(arrays["w"])
    del arrays["w"]
    gc.collect()
    assert kept() is not None
    model(arrays | {"w": integers(3, 3, 16, 32, seed=5)})
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("shared", [(0, 1), (0, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("backend", ["onednn", "numpy"])
def test_two_outputs_in_one_memory_are_refused(onednn, backend, shared):
    x, dy = og.LogicalTensor(0, "f32", (4, 6)), og.LogicalTensor(1, "f32", (4, 6))
    vectors = [og.LogicalTensor(i, "f32", shape) for i, shape in ((2, (4,)), (3, (4,)), (4, (6,)), (5, (6,)))]
    outputs = [og.LogicalTensor(6, "f32", (4, 6)), *(og.LogicalTensor(i, "f32", (6,)) for i in (7, 8))]
    graph = og.Graph()
    graph.add_op(og.Op(0, "LayerNormBackward", [x, dy, *vectors], outputs))
    graph.finalize()
    compiled = graph.get_partitions(backend=backend)[0].compile()
    ins = [np.ones(t.dims, np.float32) for t in compiled.inputs]
    outs = [np.empty(t.dims, np.float32) for t in compiled.outputs]
    compiled.execute(None, ins, outs)
    first, second = shared
    outs[second] = outs[first].reshape(-1)[: outs[second].size].reshape(outs[second].shape)
    for call in (compiled.execute, compiled.bind):
        with pytest.raises(og.ArgumentError, match="two outputs share memory"):
            call(*((None, ins, outs) if call == compiled.execute else (ins, outs)))


@pytest.mark.parametrize(
    ("dtype", "step"), [(np.float32, 2.0**-23), (ml_dtypes.bfloat16, 2.0**-7), (np.float16, 2.0**-7)]
)
def test_how_far_off_verification_lets_a_number_be(dtype, step):
    """64 roundings of its type, relative to the largest number or one; both halves are as bf16."""
    want = np.array([0.0, 1.0, 8.0], dtype)
    for share, close in ((0.9, True), (1.2, False)):
        have = (want.astype(np.float64) + share * 64 * step * 8).astype(dtype)
        assert (verification._close(have, want, step) == close).all()
    assert verification._close(np.int8([3, 4, -5]), np.int8([4, 4, -5]), step).all()
    assert not verification._close(np.int8([3]), np.int8([5]), step).any()
    assert not verification._close(np.uint8([0]), np.uint8([255]), step).any()


@pytest.mark.parametrize("size", [1 << 60, 1 << 63])
def test_temporaries_that_no_memory_holds(size):
    with pytest.raises(og.errors.OutOfMemoryError, match=f"takes {size} bytes of memory"):
        GUARDS.arena(size)
