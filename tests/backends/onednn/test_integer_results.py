"""What writes 8-bit integers, or stays with them, beside convolutions and matrix products."""

import numpy as np
import onednn_graph as og
import pytest

pytestmark = pytest.mark.usefixtures("onednn")
RNG = np.random.default_rng(5)


def kernels(model):
    return [name for one in model.explain().values() for name in one.implementations]


@pytest.mark.parametrize("data_type", ["u8", "s8"])
@pytest.mark.parametrize("axis", [1, 3])
@pytest.mark.parametrize("step", [2.0**-8, 2.0**-7, 1 / 255])
def test_a_softmax_writes_integers(data_type, axis, step):
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3, 5, 37])
    soft = graph.op("SoftMax", x, axis=axis)
    graph.output(
        graph.op(
            "Quantize", soft, scales=[step], zps=[0], qtype="per_tensor", output_type=data_type, name="y"
        )
    )
    feeds = {"x": RNG.standard_normal((2, 3, 5, 37)).astype(np.float32) * 3}
    model = graph.compile()
    got = model(feeds)["y"].astype(int)
    wide = np.exp(feeds["x"].astype(np.float64))
    exact = wide / wide.sum(axis, keepdims=True) / step
    limits = np.iinfo(data_type.replace("u8", "uint8").replace("s8", "int8"))
    assert np.abs(got - exact.clip(limits.min, limits.max)).max() <= 0.5 + 1e-4
    soft = [name for name in kernels(model) if name.startswith("softmax")]
    assert soft
    if "avx512" in soft[0]:
        assert not any(name.startswith("quantize") for name in kernels(model))


@pytest.mark.parametrize("zero_point", [0, 5])
def test_what_would_lose_something_is_quantised_after_the_softmax(zero_point):
    """Rows of -inf become zeros on the way, and zero points are none of the library's softmax."""
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 16])
    soft = graph.op("SoftMax", x, axis=1, mode="inf_as_zero" if not zero_point else "none")
    graph.output(graph.op("Quantize", soft, scales=[1 / 255], zps=[zero_point], qtype="per_tensor", name="y"))
    values = RNG.integers(-3, 4, (4, 16)).astype(np.float32)
    if not zero_point:
        values[1] = -np.inf
    feeds = {"x": values}
    want = graph.compile(backend="numpy")(feeds)["y"]
    assert np.array_equal(graph.compile()(feeds)["y"], want)


@pytest.mark.parametrize("data_type", ["u8", "s8"])
@pytest.mark.parametrize(
    ("zero_point", "exclude_pad", "pads", "stays"),
    [
        (0, True, 1, True),
        (0, False, 1, True),
        (3, True, 1, True),
        (3, False, 1, False),
        (3, False, 0, False),
    ],
)
def test_averages_of_integers_of_one_scale_stay_integers(data_type, zero_point, exclude_pad, pads, stays):
    graph = og.Graph()
    x = graph.input("x", data_type, [2, 9, 9, 40])
    real = graph.op("Dequantize", x, scales=[0.5], zps=[zero_point], qtype="per_tensor")
    window = {"strides": [3, 3], "kernel": [3, 3], "pads_begin": [pads, pads], "pads_end": [pads, pads]}
    mean = graph.op("AvgPool", real, exclude_pad=exclude_pad, data_format="NXC", **window)
    scale = {"scales": [0.5], "zps": [zero_point], "qtype": "per_tensor"}
    graph.output(graph.op("Quantize", mean, output_type=data_type, name="y", **scale))
    low = 0 if data_type == "u8" else -100
    feeds = {"x": RNG.integers(low, 120, (2, 9, 9, 40)).astype("u1" if data_type == "u8" else "i1")}
    model = graph.compile()
    got = model(feeds)["y"].astype(int)
    around = np.pad(
        feeds["x"].astype(np.float64) - zero_point,
        ((0, 0), (pads, pads), (pads, pads), (0, 0)),
        constant_values=np.nan,
    )
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (1, 2))[:, ::3, ::3]
    exact = np.nanmean(windows, (-1, -2)) if exclude_pad else np.nansum(windows, (-1, -2)) / 9
    assert np.abs(got - zero_point - exact).max() <= 0.5 + 1e-6  # either way at a tie
    assert (len(kernels(model)) == 1) is stays


@pytest.mark.parametrize("data_type", ["u8", "s8"])
@pytest.mark.parametrize("scale", [0.25, 0.5, 0.7, 3.0, 2.0**-40])
@pytest.mark.parametrize(
    ("points", "exclude_pad", "pads", "stays"),
    [((0, 0), True, 0, True), ((3, 7), True, 1, True), ((0, 9), False, 1, True), ((3, 0), False, 1, False)],
)
def test_averages_of_integers_go_to_another_scale(data_type, scale, points, exclude_pad, pads, stays):
    """The mean of the integers is scaled behind the window; what is beyond the type saturates."""
    graph = og.Graph()
    x = graph.input("x", data_type, [2, 9, 9, 40])
    real = graph.op("Dequantize", x, scales=[0.5], zps=[points[0]], qtype="per_tensor")
    window = {"strides": [3, 3], "kernel": [3, 3], "pads_begin": [pads, pads], "pads_end": [pads, pads]}
    mean = graph.op("AvgPool", real, exclude_pad=exclude_pad, data_format="NXC", **window)
    made = graph.op(
        "Quantize", mean, output_type=data_type, scales=[scale], zps=[points[1]], qtype="per_tensor"
    )
    graph.output(made, name="y")
    least, most = (0, 255) if data_type == "u8" else (-128, 127)
    feeds = {"x": RNG.integers(least, most + 1, (2, 9, 9, 40)).astype("u1" if data_type == "u8" else "i1")}
    model = graph.compile()
    around = np.pad(
        (feeds["x"].astype(np.float64) - points[0]) * 0.5,
        ((0, 0), (pads, pads), (pads, pads), (0, 0)),
        constant_values=np.nan,
    )
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (1, 2))[:, ::3, ::3]
    exact = np.nanmean(windows, (-1, -2)) if exclude_pad else np.nansum(windows, (-1, -2)) / 9
    exact = np.clip(exact / scale + points[1], least, most)
    assert np.abs(model(feeds)["y"] - exact).max() <= 0.5 + 1e-4  # either way at a tie
    assert (len(kernels(model)) == 1) is (stays and scale > 1e-6)


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_scales_along_the_axis_of_a_vector(axis, dynamic):
    steps = np.float32([1, 0.5, 0.25, 2, 1])
    graph = og.Graph()
    x, how = graph.input("x", "f32", [5]), {"qtype": "per_channel", "axis": axis, "name": "y"}
    if dynamic:
        graph.op("DynamicQuantize", x, graph.constant(steps, name="scales"), **how)
    else:
        graph.op("Quantize", x, scales=steps.tolist(), zps=[0] * 5, **how)
    model = graph.compile()
    np.testing.assert_array_equal(model(np.float32([1, 2, 3, 4, 5]))["y"], [1, 4, 12, 2, 5])
    assert any("jit" in name for name in kernels(model))


def test_integers_and_reals_whose_sum_nobody_rounds():
    graph = og.Graph()
    x, real = graph.input("x", "s8", [4, 16]), graph.input("real", "f32", [4, 16])
    graph.op("Add", graph.op("Dequantize", x, scales=[0.5], zps=[0]), real, name="y")
    integers, reals = RNG.integers(-128, 128, (4, 16)).astype(np.int8), np.full((4, 16), 3, np.float32)
    model = graph.compile()
    np.testing.assert_array_equal(model(integers, reals)["y"], integers * np.float32(0.5) + 3)
    assert not any("numpy" in name for name in kernels(model))


@pytest.mark.parametrize("scale", [2.0**-127, 2.0**-140])
@pytest.mark.parametrize(("data_type", "zero_point"), [("u8", 255), ("u8", 3), ("s8", 0), ("s8", -128)])
@pytest.mark.parametrize("before", ["", "ReLU", "Dequantize", "Add"])
def test_steps_that_have_no_finite_reciprocal_leave_zeros_at_the_zero_point(
    scale, data_type, zero_point, before
):
    graph, values = og.Graph(), RNG.integers(-2, 3, (3, 40))
    if before in ("Dequantize", "Add"):
        x = graph.op("Dequantize", graph.input("x", "s8", (3, 40)), scales=[0.25], zps=[1])
        x = graph.op("Add", x, x) if before == "Add" else x
        feeds = {"x": values.astype(np.int8)}
    else:
        x = graph.input("x", "f32", (3, 40))
        x = graph.op(before, x) if before else x
        feeds = {"x": values.astype(np.float32) * np.float32(scale)}
    graph.output(
        graph.op("Quantize", x, scales=[scale], zps=[zero_point], output_type=data_type, name="y"), name="y"
    )
    want = graph.compile(backend="numpy")(feeds)["y"]
    assert zero_point in want
    assert np.array_equal(graph.compile()(feeds)["y"], want)


def test_integers_whose_scales_are_farther_apart_than_f32_reaches_keep_their_zeros():
    graph = og.Graph()
    x = graph.op("Dequantize", graph.input("x", "s8", (3, 40)), scales=[3e38], zps=[1])
    graph.output(graph.op("Quantize", x, scales=[0.25], zps=[3], output_type="s8"), name="y")
    feeds = {"x": RNG.integers(-2, 3, (3, 40)).astype(np.int8)}
    want = graph.compile(backend="numpy")(feeds)["y"]
    assert 3 in want
    assert np.array_equal(graph.compile()(feeds)["y"], want)
