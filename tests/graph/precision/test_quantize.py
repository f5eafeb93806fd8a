"""graph.quantize_static: where integers go, their scales, and how far results may be off."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.precision.ranges import Method, Observed, scale_of
from strategies import has_isa

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
IMAGES = {**CONV, "data_format": "NCX", "weights_format": "OIX"}


def whole(*shape, seed=0, most=127):
    """Integers of which some are as large as they may be, in every slice of the first two axes."""
    array = np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)
    array.reshape(shape[0], -1)[:, 0] = most
    return array


def pixels(*shape, seed=0):
    """u8's whole range, in quarters."""
    array = np.random.default_rng(seed).integers(0, 256, shape).astype(np.float32)
    array.reshape(-1)[:2] = 0, 255
    return array / 4


def ops(graph, kind):
    return [op for op in graph.ops if op.kind == kind]


def stored(graph):
    """Tensor → type, scales and zero points of what is quantised."""
    return {
        op.inputs[0].name: (
            op.outputs[0].data_type.value,
            op.attributes["scales"][0],
            op.attributes["zps"][0],
        )
        for op in ops(graph, "Quantize")
    }


def net(*, bias=True, relu="ReLU"):
    """Two convolutions with a residual, a pooling, and a matmul at the end."""
    rng = np.random.default_rng(5)
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 16, 8, 8])

    def conv(y, name, seed):
        w = graph.constant(rng.standard_normal((16, 16, 3, 3)).astype(np.float32) / 12, name=f"{name}.w")
        b = [graph.constant(rng.standard_normal(16).astype(np.float32), name=f"{name}.b")] if bias else []
        return graph.convolution(y, w, *b, **IMAGES, name=name)

    first = graph.op(relu, conv(x, "first", 1), name="relu")
    second = graph.op(relu, graph.add(conv(first, "second", 2), first, name="sum"), name="out")
    pooled = graph.max_pool(
        second,
        kernel=[2, 2],
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        data_format="NCX",
        name="pool",
    )
    third = graph.op(relu, conv(pooled, "third", 3), name="last")
    means = graph.reduce_mean(third, axes=[2, 3], name="means")
    graph.matmul(means, graph.constant(rng.standard_normal((16, 10)).astype(np.float32), name="fc"), name="y")
    return graph


def feeds(count=3, *, seed=0):
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal((2, 16, 8, 8)).astype(np.float32)} for _ in range(count)]


def far(got, expected):
    return float(np.linalg.norm(got - expected) / np.linalg.norm(expected))


# --- exact where everything lies on the grid ---------------------------------------------------------------

CONVOLUTIONS = {
    "dense": ((2, 6, 9, 9), (8, 6, 3, 3), {}),
    "grouped": ((2, 6, 9, 9), (8, 3, 3, 3), {"groups": 2}),
    "depthwise": ((2, 6, 9, 9), (6, 1, 3, 3), {"groups": 6}),
    "weights XIO": ((2, 6, 9, 9), (3, 3, 6, 8), {"weights_format": "XIO"}),
    "channels last": ((2, 9, 9, 6), (8, 6, 3, 3), {"data_format": "NXC"}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_are_exact_on_the_grid(case):
    shape, weights, more = CONVOLUTIONS[case]
    w = np.random.default_rng(1).integers(-127, 128, weights).astype(np.float32)
    outputs = w.reshape(-1, w.shape[-1]).T if "XIO" in case else w.reshape(len(w), -1)
    outputs[:, 0] = 127  # each channel's scale is a power of two then
    factors = 2.0 ** -np.arange(len(outputs))
    w = (w * factors if "XIO" in case else w * factors.reshape(-1, 1, 1, 1)).astype(np.float32)
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    graph.convolution(x, graph.constant(w, name="w"), **{**IMAGES, **more}, name="y")
    data = pixels(*shape)
    quantized = graph.quantize_static([data])
    held = quantized.constants["w.s8"]
    assert (held.dtype, held.shape) == (np.int8, w.shape)
    (weight,) = [op for op in ops(quantized, "Dequantize") if op.inputs[0].name == "w.s8"]
    assert weight.attributes["scales"] == tuple(factors)
    assert stored(quantized) == {"x": ("u8", 0.25, 0)}
    expected = graph.compile(backend="numpy")(data)["y"]
    for backend in ("numpy", None):
        np.testing.assert_array_equal(quantized.compile(backend=backend)(data)["y"], expected)


@pytest.mark.parametrize("groups", [1, 2])
def test_transposed_convolutions_are_exact_on_the_grid(groups):
    w = whole(4, 6 // groups, 3, 3)
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 4, 5, 5])
    more = {**CONV, "strides": [2, 2], "data_format": "NCX", "weights_format": "IOX", "groups": groups}
    graph.conv_transpose(x, graph.constant(w, name="w"), **more, name="y")
    data = pixels(2, 4, 5, 5)
    quantized = graph.quantize_static([data])
    (weight,) = [op for op in ops(quantized, "Dequantize") if op.inputs[0].name == "w.s8"]
    # The axis of the output channels counts those of one group.
    assert (weight.attributes["qtype"] == "per_channel") == (groups == 1)
    expected = graph.compile(backend="numpy")(data)["y"]
    got = quantized.compile()(data)["y"]
    if groups > 1:
        np.testing.assert_array_equal(got, expected)
    else:  # slices whose largest is below 127
        assert far(got, expected) < 0.01


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("shape", [(5, 12), (3, 5, 12)])
def test_matmuls_are_exact_on_the_grid(shape, turned):
    w = whole(7, 12)
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    weights = graph.constant(w if turned else np.ascontiguousarray(w.T), name="w")
    graph.matmul(x, weights, graph.constant(np.arange(7, dtype=np.float32)), transpose_b=turned, name="y")
    data = pixels(*shape)
    quantized = graph.quantize_static([data])
    (weight,) = [op for op in ops(quantized, "Dequantize") if op.inputs[0].name == "w.s8"]
    assert weight.attributes["axis"] == (0 if turned else 1)
    np.testing.assert_array_equal(
        quantized.compile()(data)["y"], (data @ w.T + np.arange(7)).astype(np.float32)
    )


def test_a_product_of_two_activations():
    """The second factor has no zero point: kernels have none there."""
    graph = og.Graph()
    q, k = graph.input("q", "f32", [2, 3, 4, 8]), graph.input("k", "f32", [2, 3, 5, 8])
    scores = graph.matmul(q, k, transpose_b=True, name="scores")
    v = graph.input("v", "f32", [2, 3, 5, 8])
    graph.matmul(graph.softmax(scores, axis=-1, name="p"), v, name="y")
    rng = np.random.default_rng(0)
    data = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in graph.inputs}
    quantized = graph.quantize_static([data])
    found = stored(quantized)
    assert {name: kind for name, (kind, _, _) in found.items()} == {
        "q": "u8",
        "k": "s8",
        "p": "u8",
        "v": "s8",
    }
    assert found["p"][1:] == (float(np.float32(1 / 255)), 0)
    assert found["k"][2] == found["v"][2] == 0
    expected = graph.compile(backend="numpy")(data)["y"]
    assert far(quantized.compile()(data)["y"], expected) < 0.03


# --- what rounding may do -----------------------------------------------------------------------------------


def test_weights_of_seven_bits_are_the_nearest_of_their_steps():
    rng = np.random.default_rng(0)
    graph = og.Graph()
    w = rng.standard_normal((32, 24)).astype(np.float32)
    x = graph.input("x", "f32", [6, 32])
    graph.matmul(x, graph.constant(w, name="w"), name="y")
    data = rng.standard_normal((6, 32)).astype(np.float32)
    quantized = graph.quantize_static([data], reduce_range=True)
    held = quantized.constants["w.s8"]
    steps = (np.abs(w).max(axis=0) / 64).astype(np.float32)
    np.testing.assert_array_equal(held, np.rint(w / steps))
    assert set(np.abs(held.astype(int)).max(axis=0)) == {64}
    expected = quantized.compile(backend="numpy")(data)["y"]
    np.testing.assert_allclose(quantized.compile()(data)["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("method", ["minmax", "percentile", "mse"])
def test_two_layers_within_half_steps(seed, method):
    """Each rounding is off by half a step at most, and the second layer adds up what the first one's is off by."""
    rng = np.random.default_rng(seed)
    graph = og.Graph()
    x = graph.input("x", "f32", [6, 32])
    w = [rng.standard_normal(s).astype(np.float32) for s in ((32, 24), (24, 8))]
    inner = graph.relu(graph.matmul(x, graph.constant(w[0])), name="inner")
    graph.matmul(inner, graph.constant(w[1]), name="y")
    data = rng.standard_normal((6, 32)).astype(np.float32)
    quantized = graph.quantize_static([data], method=method)
    found = stored(quantized)
    exact = [data.astype(np.float64)]
    exact.append(np.maximum(exact[0] @ w[0], 0))
    exact.append(exact[1] @ w[1])
    error = np.zeros(data.shape)
    for number, name in enumerate(("x", "inner")):
        kind, scale, zero_point = found[name]
        first, last = (0, 255) if kind == "u8" else (-127, 127)
        reach = scale * (first - zero_point), scale * (last - zero_point)
        cut = np.abs(exact[number] - np.clip(exact[number], *reach))
        if method == "minmax":
            assert cut.max() <= scale / 2 * 1.001
        error = error + scale / 2 + cut
        steps = np.abs(w[number]).max(axis=0) / 127
        error = error @ np.abs(w[number]) + (np.abs(exact[number]) + error).sum(1, keepdims=True) * steps / 2
    got = quantized.compile()(data)["y"]
    assert (np.abs(got - exact[2]) <= error + 1e-4).all()
    assert (error < 3 * np.abs(exact[2]).max()).all() or method != "minmax"


@pytest.mark.parametrize("relu", ["ReLU", "Sigmoid", "Tanh", "HardSwish", "Abs"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_net_is_near(relu, bias):
    graph = net(relu=relu, bias=bias)
    quantized = graph.quantize_static(feeds())
    data = feeds(1, seed=9)[0]
    expected = graph.compile(backend="numpy")(data)["y"]
    for backend in ("numpy", None):
        assert far(quantized.compile(backend=backend)(data)["y"], expected) < 0.06


# --- where integers go ---------------------------------------------------------------------------------------


def test_what_is_stored_as_integers():
    quantized = net().quantize_static(feeds())
    found = stored(quantized)
    # Neither what a ReLU follows nor what goes into a sum beside a residual is stored.
    assert set(found) == {"x", "relu", "out", "pool", "means"}
    assert found["out"] == found["pool"]  # a pooling chooses, and computes nothing
    assert all(kind == "u8" for kind, _, _ in found.values())
    assert {
        k: v.dtype.name for k, v in quantized.constants.items() if k.endswith(("w", "s8", "fc"))
    } == dict.fromkeys(("first.w.s8", "second.w.s8", "third.w.s8", "fc.s8"), "int8")
    assert {k: v.dtype.name for k, v in quantized.constants.items() if k.endswith("b")} == dict.fromkeys(
        ("first.b", "second.b", "third.b"), "float32"
    )


def test_names_and_types_at_the_border_stay():
    graph = net()
    before = str(graph)
    quantized = graph.quantize_static(feeds())
    assert str(graph) == before
    assert not quantized.finalized
    assert not graph.finalized
    for old, new in ((graph.inputs, quantized.inputs), (graph.outputs, quantized.outputs)):
        assert [(t.id, t.name, t.data_type) for t in old] == [(t.id, t.name, t.data_type) for t in new]
    graph.finalize()
    assert stored(graph.quantize_static(feeds())) == stored(quantized)


def test_it_compiles_to_kernels_of_integers():
    """Convolution, sum, ReLU and Quantize are one kernel each, on bytes from the first to the last."""
    data = feeds(1)[0]
    model = net().quantize_static(feeds()).compile()
    with og.profile() as prof:
        model(data)
    steps = [s for e in model.explain().values() for s in e.steps if not s.prepared]
    assert not any(s.host for s in steps)
    if not (
        has_isa("avx512_core_vnni") or has_isa("avx2_vnni")
    ):  # sums of products would saturate at 16 bits
        return
    fused = [s.fused for s in steps if s.fused.startswith("Convolution")]
    assert fused == ["Convolution+ReLU+Quantize", "Convolution+Add+ReLU+Quantize", "Convolution+ReLU"]
    convolutions = [line for line in prof.steps if line.name == "convolution"]
    assert len(convolutions) == 3
    for line in convolutions:
        assert "src u8" in line.tensors[0]
        assert any("weights s8" in tensor for tensor in line.tensors)


def test_a_gate_of_its_own_stays_between():
    """x · sigmoid(x) goes along with the convolution before it; nothing in it is stored."""
    graph = og.Graph()
    rng = np.random.default_rng(0)
    y = graph.input("x", "f32", [1, 8, 6, 6])
    for number in range(2):
        w = graph.constant(rng.standard_normal((8, 8, 3, 3)).astype(np.float32) / 8)
        y = graph.convolution(y, w, **IMAGES, name=f"c{number}")
        y = graph.multiply(y, graph.sigmoid(y), name=f"gated{number}")
    data = rng.standard_normal((1, 8, 6, 6)).astype(np.float32)
    quantized = graph.quantize_static([data])
    assert set(stored(quantized)) == {"x", "gated0"}
    assert far(quantized.compile()(data)["gated1"], graph.compile()(data)["gated1"]) < 0.03


def test_a_join_has_one_scale():
    graph = og.Graph()
    rng = np.random.default_rng(0)
    a, b = (graph.input(n, "f32", [2, 4]) for n in "ab")
    both = graph.concat(a, b, axis=1, name="both")
    graph.matmul(both, graph.constant(rng.standard_normal((8, 3)).astype(np.float32)), name="y")
    found = stored(graph.quantize_static([(np.full((2, 4), -1, "f4"), np.full((2, 4), 254, "f4"))]))
    assert found == dict.fromkeys(("a", "b", "both"), ("u8", 1.0, 1))


def test_joins_of_joins_have_one_scale():
    """A tensor that is joined twice, as layers do that read all before them."""
    graph = og.Graph()
    rng = np.random.default_rng(0)
    a, b = (graph.input(n, "f32", [2, 4]) for n in "ab")
    both = graph.concat(a, b, axis=1, name="both")
    all_of_them = graph.concat(a, both, b, axis=1, name="all")
    graph.matmul(both, graph.constant(rng.standard_normal((8, 3)).astype(np.float32)), name="y")
    graph.matmul(all_of_them, graph.constant(rng.standard_normal((16, 3)).astype(np.float32)), name="z")
    found = stored(graph.quantize_static([(np.full((2, 4), -1, "f4"), np.full((2, 4), 254, "f4"))]))
    assert found == dict.fromkeys(("a", "b", "both", "all"), ("u8", 1.0, 1))


def test_a_join_beside_a_constant_has_a_range_of_its_own():
    graph = og.Graph()
    x, w = graph.input("x", "f32", [2, 4]), graph.constant(whole(8, 3))
    joined = graph.concat(x, graph.constant(np.full((2, 4), 255, "f4")), axis=1, name="joined")
    graph.matmul(x, graph.constant(whole(4, 3)), name="z")
    graph.matmul(joined, w, name="y")
    data = pixels(2, 4)
    quantized = graph.quantize_static([data])
    assert stored(quantized) == {"x": ("u8", 0.25, 0), "joined": ("u8", 1.0, 0)}


@pytest.mark.parametrize(
    ("scaled", "factor"),
    [
        (lambda g, x: g.multiply(x, g.constant(np.float32(0.5))), 0.5),
        (lambda g, x: g.multiply(g.constant(np.full((1, 1), 4, "f4")), x), 4.0),
        (lambda g, x: g.divide(x, g.constant(np.float32(8))), 0.125),
    ],
)
def test_a_factor_goes_into_the_scale(scaled, factor):
    """The integers stay: nothing is computed, and nothing rounded again."""
    graph = og.Graph()
    y = scaled(graph, graph.input("x", "f32", [2, 4]))
    turned = graph.static_transpose(y, order=[1, 0], name="turned")
    graph.matmul(turned, graph.constant(whole(3, 2)), transpose_b=True, name="y")
    data = pixels(2, 4)
    quantized = graph.quantize_static([data])
    assert stored(quantized) == {"x": ("u8", 0.25, 0)}
    assert ops(quantized, "Dequantize")[0].attributes["scales"] == (0.25 * factor,)
    assert not ops(quantized, "Multiply") + ops(quantized, "Divide")
    assert quantized.output_names == graph.output_names == ("y",)
    expected = (data * np.float32(factor)).T @ whole(3, 2).T
    for backend in ("numpy", None):
        np.testing.assert_array_equal(quantized.compile(backend=backend)(data)["y"], expected)


@pytest.mark.parametrize(
    "scaled",
    [
        lambda g, x: g.multiply(x, g.constant(np.float32(-1))),
        lambda g, x: g.divide(g.constant(np.float32(8)), g.add(x, g.constant(np.float32(1)))),
        lambda g, x: g.multiply(x, g.constant(np.float32(0))),
        lambda g, x: g.output(g.multiply(x, g.constant(np.float32(2)))),
        lambda g, x: g.multiply(g.constant(np.array([1, 2, 0.5, 4], np.float32)), x),
        lambda g, x: g.multiply(
            g.constant(np.full((1, 1), 2, np.float32)), g.multiply(x, g.constant(np.float32(-1)))
        ),
    ],
)
def test_other_factors_are_computed(scaled):
    graph = og.Graph()
    y = scaled(graph, graph.input("x", "f32", [2, 4]))
    graph.matmul(y, graph.constant(whole(4, 3)), name="y")
    data = pixels(2, 4)
    quantized = graph.quantize_static([data])
    assert len(ops(quantized, "Multiply") + ops(quantized, "Divide")) == 1
    expected = graph.compile(backend="numpy")(data)["y"]
    np.testing.assert_allclose(quantized.compile()(data)["y"], expected, atol=0.01 * np.abs(expected).max())


def test_weights_that_constants_make():
    """Weights that are reshaped or turned before they are used are constants too, and what made them goes."""
    graph = og.Graph()
    w = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
    turned = graph.static_transpose(graph.constant(w, name="w"), order=[1, 0], name="turned")
    graph.matmul(graph.input("x", "f32", [2, 4]), turned, name="y")
    quantized = graph.quantize_static([pixels(2, 4)])
    assert not ops(quantized, "StaticTranspose")
    assert list(quantized.constants) == ["turned.s8"]


def test_weights_of_several_ops_are_held_once():
    graph = og.Graph()
    w = graph.constant(whole(4, 4), name="w")
    graph.matmul(graph.matmul(graph.input("x", "f32", [2, 4]), w), w, name="y")
    assert list(graph.quantize_static([pixels(2, 4)]).constants) == ["w.s8"]


def test_nothing_to_quantise():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [3]), name="y")
    assert str(graph.quantize_static([np.ones(3, np.float32)])) == str(graph)


# --- keep ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        (["first"], {"relu", "out", "pool", "means"}),
        (["Convolution"], {"means"}),
        (["fc"], {"x", "relu", "out", "pool"}),
        (["relu"], {"x", "out", "pool", "means"}),
        (["MatMul", "third"], {"x", "relu"}),
        (["SoftMax", "x"], {"relu", "out", "pool", "means"}),
    ],
)
def test_keep(keep, left):
    quantized = net().quantize_static(feeds(), keep=keep)
    assert set(stored(quantized)) == left
    data = feeds(1, seed=9)[0]
    assert far(quantized.compile()(data)["y"], net().compile()(data)["y"]) < 0.04


def test_what_only_kept_ops_read_is_not_stored():
    graph = net()
    quantized = graph.quantize_static(feeds(), keep=["second", "third", "sum", "MaxPool", "MatMul"])
    assert set(stored(quantized)) == {"x"}
    assert quantized.output_names == graph.output_names


def test_what_is_kept_reads_f32():
    quantized = net().quantize_static(feeds(), keep=["sum"])
    (kept,) = [op for op in quantized.ops if op.name == "sum"]
    assert [t.name for t in kept.inputs] == ["second", "relu"]


# --- feeds, ranges, errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        lambda: [f["x"] for f in feeds()],
        lambda: [(f["x"],) for f in feeds()],
        lambda: (f for f in feeds()),
        lambda: tuple(feeds()),
    ],
)
def test_feeds_come_in_any_form(given):
    assert stored(net().quantize_static(given())) == stored(net().quantize_static(feeds()))
    assert net().quantize_static(given(), method="mse")


@pytest.mark.parametrize(
    ("low", "high", "kind", "scale", "zero_point"),
    [
        (0, 255, "u8", 1, 0),
        (-255, 0, "u8", 1, 255),
        (-1, 254, "u8", 1, 1),
        (10, 255, "u8", 1, 0),
        (-255, -10, "u8", 1, 255),
        (0, 0, "u8", 1, 0),
        (0, 1e-42, "u8", 1, 0),
        (-127, 3, "s8", 1, 0),
        (-3, 63.5, "s8", 0.5, 0),
        (0, 0, "s8", 1, 0),
    ],
)
def test_scales(low, high, kind, scale, zero_point):
    found = scale_of(low, high, og.DataType(kind))
    assert (found.scale, found.zero_point) == (scale, zero_point)


@pytest.mark.parametrize("value", [0.0, 3.0, -3.0])
def test_constant_activations(value):
    graph = og.Graph()
    graph.matmul(graph.input("x", "f32", [2, 4]), graph.constant(whole(4, 3)), name="y")
    data = np.full((2, 4), value, np.float32)
    got = graph.quantize_static([data]).compile()(data)["y"]
    np.testing.assert_allclose(got, graph.compile()(data)["y"], rtol=0.01, atol=1e-4)


def test_channels_of_zeros():
    graph = og.Graph()
    w = np.zeros((4, 3), np.float32)
    graph.matmul(graph.input("x", "f32", [2, 4]), graph.constant(w), name="y")
    np.testing.assert_array_equal(graph.quantize_static([pixels(2, 4)]).compile()(pixels(2, 4))["y"], 0)


def test_outliers_are_cut_off():
    """One number in ten thousand that is a thousand times as large."""
    rng = np.random.default_rng(0)
    data = np.abs(rng.standard_normal(40000)).astype(np.float32)
    data[:2] = 0, 1000
    seen = Observed()
    seen.widen(data)
    seen.count(data)
    assert seen.range(Method.minmax, og.DataType.u8) == (0, 1000)
    assert seen.range(Method.percentile, og.DataType.u8)[1] < 10
    assert seen.range(Method.mse, og.DataType.u8)[1] <= 1000
    assert sum(seen.counts) == data.size


def test_the_least_error_is_less():
    """What mse chooses is nowhere worse in the mean than the whole range, and better where one number lies far out."""
    rng = np.random.default_rng(1)
    normal = rng.standard_normal(400_000).astype(np.float32)
    for data, gain in ((normal[:20000], 0.99), (normal[:20000] ** 3, 0.99), (np.append(normal, 30), 1.1)):
        seen = Observed()
        seen.widen(data)
        seen.count(data)
        errors: list[float] = []
        for method in (Method.minmax, Method.mse):
            s = scale_of(*seen.range(method, og.DataType.u8), og.DataType.u8)
            q = np.clip(np.rint(data / s.scale) + s.zero_point, 0, 255)
            errors.append(float(np.mean(((q - s.zero_point) * s.scale - data.astype(np.float64)) ** 2)))
        assert errors[0] >= gain * errors[1]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda g: g.quantize_static([]), og.ArgumentError, "must have at least one feed"),
        (lambda g: g.quantize_static(iter(())), og.ArgumentError, "must have at least one feed"),
        (
            lambda g: g.quantize_static(feeds(1)[0]),
            og.ArgumentTypeError,
            r"must be an iterable of feeds.*\[feed\]",
        ),
        (lambda g: g.quantize_static(3), og.ArgumentTypeError, "must be an iterable of feeds"),
        (lambda g: g.quantize_static([{"z": 1}]), og.ArgumentError, "'z'"),
        (
            lambda g: g.quantize_static(feeds(), method="max"),
            og.ArgumentError,
            "method must be one of minmax",
        ),
        (lambda g: g.quantize_static(feeds(), keep=["frist"]), og.ArgumentError, "keep has 'frist'.*'first'"),
        (
            lambda g: g.quantize_static([*feeds(1), np.full((2, 16, 8, 8), np.nan, np.float32)]),
            og.ArgumentError,
            "calibration feed 1 gives NaN in tensor 'x'",
        ),
        (
            lambda g: g.quantize_static([np.full((2, 16, 8, 8), 3e38, np.float32)]),
            og.ArgumentError,
            "calibration feed 0 gives .* in tensor '.*', for which there is no range",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(net())


def test_weights_must_be_numbers():
    graph = og.Graph()
    w = whole(4, 3)
    w[1, 1] = np.nan
    graph.matmul(graph.input("x", "f32", [2, 4]), graph.constant(w, name="w"), name="y")
    with pytest.raises(og.ArgumentError, match="constant 'w' has NaN or an infinity"):
        graph.quantize_static([pixels(2, 4)])


def test_the_op_has_its_function_still():
    got = og.quantize(np.array([0.0, 1.0, 300.0], np.float32), scales=[1.0], zps=[1], output_type="u8")
    np.testing.assert_array_equal(got, np.array([1, 2, 255], np.uint8))


def test_the_function_takes_graphs_for_one_more_version():
    with pytest.warns(
        DeprecationWarning, match=r"quantize\(graph, feeds\) is deprecated.*Graph.quantize_static\(feeds\)"
    ) as told:
        former = og.quantize(net(), feeds(), keep=["sum"])
    assert told[0].filename == __file__
    assert stored(former) == stored(net().quantize_static(feeds(), keep=["sum"]))


def test_saved_and_loaded(tmp_path):
    quantized = net().quantize_static(feeds())
    quantized.save(tmp_path / "m.json", weights=True)
    loaded = og.Graph.load(tmp_path / "m.json")
    data = feeds(1)[0]
    np.testing.assert_array_equal(loaded.compile()(data)["y"], quantized.compile()(data)["y"])
    assert (tmp_path / "m.safetensors").stat().st_size < 16 * 16 * 9 * 4 * 2


def test_a_graph_that_was_rewritten_already_is_refused():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 8])
    w = graph.constant(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))
    graph.output(graph.relu(graph.matmul(x, w)), name="y")
    feeds = [np.ones((4, 8), np.float32)]
    for again in (graph.quantize_static(feeds), graph.to("bf16")):
        with pytest.raises(
            og.ArgumentError, match="no convolution or matmul in f32, and .* is (u8|s8|bf16); take the"
        ):
            again.quantize_static(feeds)


def test_a_number_that_adds_axes_is_no_scale():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 8])
    y = graph.op("Multiply", x, graph.constant(np.full((1, 1, 1), 2, np.float32)))
    graph.output(graph.op("MatMul", y, graph.constant(np.ones((8, 3), np.float32))), name="z")
    feeds = {"x": np.random.default_rng(0).random((4, 8), np.float32)}
    expected = graph.compile()(feeds)["z"]
    found = graph.quantize_static([feeds]).compile()(feeds)["z"]
    np.testing.assert_allclose(found, expected, atol=0.1)


@pytest.mark.parametrize("method", [Method.percentile, Method.mse])
@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0 + 2.0**-23), (1000.0, 1000.003), (0.0, 2.0**-149), (-3.4e38, 3.4e38)]
)
def test_numbers_as_close_or_as_far_apart_as_f32_has_them_have_a_histogram(method, low, high):
    data = np.linspace(low, high, 1000).astype(np.float32)
    seen = Observed()
    seen.widen(data)
    seen.count(data)
    assert sum(seen.counts) == data.size
    first, last = seen.range(method, og.DataType.u8)
    assert min(low, 0) <= first <= last <= np.float32(high)
