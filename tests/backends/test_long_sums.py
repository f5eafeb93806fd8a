"""Sums of many numbers: every op that adds up keeps the digits that adding in double keeps.

The numbers are alike, so that a sum in f32 loses the same digits at each addition; results are held against f64.
"""

from functools import lru_cache

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.lowering.long_sums import check_products
from onednn_graph.backends.onednn.plan.unfit import Unfit
from rows import each
from strategies import BACKENDS

MANY = 3_000_000
LARGE = 10000.5
CLOSE = 1e-4
"""What may be off of the largest number of a result; sums in one f32 are off by more than 1e-3."""


def filled(*shape):
    return np.full(shape, LARGE, np.float32)


def around(*shape, seed=0):
    """Mean 10000 and deviation 1."""
    return (10000 + np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def normalised(x, axes, epsilon):
    x = x.astype(np.float64)
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon), mean, variance


def reductions():
    places = {
        "rows": (filled(2, MANY), [1]),
        "columns": (filled(MANY // 8, 8), [0]),
        "few-columns": (filled(MANY, 1), [0]),
        "all": (filled(3, 100, MANY // 300), [0, 1, 2]),
        "images": (filled(2, 4, 600, 700), [0, 2, 3]),
        "last-images": (filled(2, 600, 700, 4), [0, 1, 2]),
    }
    functions = {
        "ReduceSum": lambda x, axes: x.sum(axes, keepdims=True),
        "ReduceMean": lambda x, axes: x.mean(axes, keepdims=True),
        "ReduceL1": lambda x, axes: np.abs(x).sum(axes, keepdims=True),
        "ReduceL2": lambda x, axes: np.sqrt((x * x).sum(axes, keepdims=True)),
    }
    for kind, function in functions.items():
        for name, (x, axes) in places.items():
            expected = function(x.astype(np.float64), tuple(axes))
            yield f"{kind}-{name}", kind, {"axes": axes, "keep_dims": True}, [x], [expected]


def others():
    x = filled(1, 1, 1500, 1500)
    window = {"strides": [1, 1], "kernel": [1500, 1500], "pads_begin": [0, 0], "pads_end": [0, 0]}
    yield "AvgPool", "AvgPool", {**window, "exclude_pad": False, "data_format": "NCX"}, [x], [x[:, :, :1, :1]]
    for name, axis, x in (("NCX", 1, filled(4, 2, 600, 600)), ("NXC", 3, filled(4, 600, 600, 2))):
        expected = x.sum(tuple({0, 1, 2, 3} - {axis}), dtype=np.float64)
        yield f"BiasAddBackward-{name}", "BiasAddBackward", {"data_format": name}, [x], [expected]
    attributes = {"epsilon": 1e-5, "momentum": 0.5}
    for name, axis, x in (("NCX", 1, around(4, 16, 150, 400)), ("NXC", 3, around(4, 150, 400, 16))):
        axes = tuple({0, 1, 2, 3} - {axis})
        result, mean, variance = normalised(x, axes, 1e-5)
        zeros, mean, variance = np.zeros(16, np.float32), mean.reshape(-1), variance.reshape(-1)
        expected = [result, mean / 2, variance / 2, mean, variance]
        attributes_here = {**attributes, "data_format": name}
        yield f"BatchNorm-{name}", "BatchNormForwardTraining", attributes_here, [x, zeros, zeros], expected
        shape = [1, 1, 1, 1]
        shape[axis] = 16
        mean32, variance32 = mean.astype(np.float32), variance.astype(np.float32)
        inverse = (1 / np.sqrt(variance32.astype(np.float64) + 1e-5)).reshape(shape)
        result = (x.astype(np.float64) - mean32.reshape(shape)) * inverse
        slope = np.full(x.shape, 1.25, np.float32)
        slope[0] = 3
        diff_beta = slope.sum(axes, dtype=np.float64)
        diff_gamma = (slope * result).sum(axes)
        count = x.size // 16
        diff_src = inverse * (
            slope - diff_beta.reshape(shape) / count - result * diff_gamma.reshape(shape) / count
        )
        yield (
            f"BatchNormBackward-{name}",
            "BatchNormTrainingBackward",
            {"epsilon": 1e-5, "data_format": name},
            [x, slope, mean32, variance32, np.ones(16, np.float32)],
            [diff_src, diff_gamma, diff_beta],
        )
    x = around(2, 400_000)
    result, mean, variance = normalised(x, (1,), 1e-5)
    yield (
        "LayerNorm",
        "LayerNorm",
        {"use_affine": False, "keep_stats": True, "begin_norm_axis": -1, "epsilon": 1e-5},
        [x],
        [result, mean.reshape(-1), variance.reshape(-1)],
    )
    x = around(1, 2, 800, 500)
    result, *_ = normalised(x.reshape(1, -1), (1,), 1e-5)
    attributes = {
        "groups": 1,
        "use_affine": False,
        "keep_stats": False,
        "epsilon": 1e-5,
        "data_format": "NCX",
    }
    yield "GroupNorm", "GroupNorm", attributes, [x], [result.reshape(x.shape)]
    x = np.full((1, MANY), np.log(0.1), np.float32)
    x[0, 0] = 0
    shares = np.exp(x.astype(np.float64))
    shares /= shares.sum()
    yield "SoftMax", "SoftMax", {"axis": 1}, [x], [shares]
    yield "LogSoftmax", "LogSoftmax", {"axis": 1}, [x], [np.log(shares)]
    y = np.full((1, MANY), 0.1, np.float32)
    exact = y.astype(np.float64)
    yield "SoftMaxBackward", "SoftMaxBackward", {"axis": 1}, [y, y], [exact * (exact - (exact * exact).sum())]
    yield (
        "LogSoftmaxBackward",
        "LogSoftmaxBackward",
        {"axis": 1},
        [y, -y],
        [exact - np.exp(-exact) * exact.sum()],
    )
    x = filled(1, MANY)
    yield "HostCumSum", "HostCumSum", {"axis": 1}, [x], [np.cumsum(x, 1, dtype=np.float64)]
    yield (
        "HostSumTo",
        "HostSumTo",
        {},
        [x, np.zeros((1, 1), np.float32)],
        [x.sum(1, keepdims=True, dtype=np.float64)],
    )
    x = filled(2, MANY // 4)
    ones = np.ones_like(x)
    expected = np.asarray([x.sum(dtype=np.float64)])
    yield (
        "PReLUBackward",
        "PReLUBackward",
        {},
        [-ones, np.ones(1, np.float32), -x],
        [-x.astype(np.float64), expected],
    )
    x = filled(MANY, 1)
    matrix = [x, np.ones((1, MANY), np.float32)]
    yield "MatMul", "MatMul", {}, matrix[::-1], [x.sum(0, keepdims=True, dtype=np.float64)]


@lru_cache(1)
def rows_of(cases):
    """Of one table at a time, whose arrays are large, for one backend after the other."""
    return [pytest.param(*row, id=name) for name, *row in cases()]


@pytest.mark.parametrize("cases", [reductions, others])
@pytest.mark.parametrize("backend", BACKENDS)
def test_digits_are_kept(cases, backend):
    @each("kind, attributes, arrays, expected", rows_of(cases))
    def in_each_case(kind, attributes, arrays, expected):
        digits_are_kept(kind, attributes, arrays, expected, backend)

    in_each_case()


def digits_are_kept(kind, attributes, arrays, expected, backend):
    graph = og.Graph()
    inputs = [graph.input(f"x{number}", "f32", array.shape) for number, array in enumerate(arrays)]
    made = graph.op(kind, *inputs, **attributes)
    outputs = made if isinstance(made, tuple) else (made,)
    for number, tensor in enumerate(outputs):
        graph.output(tensor, name=f"y{number}")
    model = graph.compile(backend=None if backend == "onednn" else backend)
    found = model({f"x{number}": array for number, array in enumerate(arrays)})
    for number, exact in enumerate(expected):
        if exact is not None:
            off = np.max(np.abs(found[f"y{number}"].astype(np.float64) - exact)) / np.max(np.abs(exact))
            assert off < (5e-4 if "Norm" in kind and number == 0 else CLOSE), f"output {number}: {off:.1e}"


@pytest.mark.parametrize("data_type", ["f32", "bf16"])
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("channels", [3, 16, 24])
def test_channels_far_from_zero_among_others_before_a_relu(onednn, channels, layout, data_type):
    """The gradient reads from the primitive's own notes where the result is above zero."""
    rng = np.random.default_rng(1)
    far = np.where(np.arange(channels) % 3 == 1, 200 if data_type == "bf16" else 10000, 0)
    values = rng.standard_normal((4, 60, 70, channels)) + far
    graph = og.Graph()
    feeds = {}

    def given(name, array):
        feeds[name] = array.astype(np.float32)
        return graph.input(name, "f32", array.shape)

    x = given("x", values if layout == "NXC" else np.moveaxis(values, 3, 1))
    w = given("w", rng.standard_normal(x.shape))
    vectors = [given(name, rng.random(channels) + 0.5) for name in ("mean", "variance", "gamma", "beta")]
    narrow = x if data_type == "f32" else graph.op("TypeCast", x, output_type="bf16")
    y, *rest = graph.op(
        "BatchNormForwardTraining", narrow, *vectors, epsilon=1e-5, momentum=0.1, data_format=layout
    )
    wide = graph.relu(y) if data_type == "f32" else graph.op("TypeCast", graph.relu(y), output_type="f32")
    graph.output(wide, name="y")
    for number, tensor in enumerate(rest):
        graph.output(tensor, name=f"statistic{number}")
    loss = graph.op("ReduceSum", graph.op("Multiply", wide, w), axes=[0, 1, 2, 3])
    for name, gradient in zip(
        ("dx", "dgamma", "dbeta"), graph.gradients(loss, [x, *vectors[2:]]), strict=True
    ):
        graph.output(gradient, name=name)
    expected, found = graph.compile(backend="numpy")(feeds), graph.compile()(feeds)
    for name, exact in expected.items():
        bound = (2e-2 if data_type == "bf16" else 1e-3) * np.max(np.abs(exact))
        off = np.abs(found[name] - exact)
        assert np.quantile(off, 0.999) <= bound, name  # what is rounded across zero may differ there


@pytest.mark.parametrize("data_type", ["f32", "bf16"])
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@each(
    "channels, size",
    [(16, (8, 56, 56)), (24, (2, 113, 113)), (27, (8, 56, 56)), (1, (8, 56, 56)), (13, (3, 61, 67))],
)
def test_statistics_of_a_batch_whose_numbers_are_alike(onednn, channels, size, layout, data_type):
    """Half of them zeros, as behind a ReLU: an addition to one long sum of them always loses the same."""
    rng = np.random.default_rng(0)
    x = np.maximum(rng.standard_normal((size[0], channels, *size[1:])), 0).astype(np.float32)
    x = x if layout == "NCX" else np.moveaxis(x, 1, -1).copy()
    if data_type == "bf16":
        x = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
    axes = (0, 2, 3) if layout == "NCX" else (0, 1, 2)
    exact = x.astype(np.float64)
    expected = [exact.mean(axes), exact.var(axes)]
    graph = og.Graph()
    given = graph.input("x", "f32", x.shape)
    ones = graph.constant(np.ones(channels, np.float32))
    narrow = given if data_type == "f32" else graph.op("TypeCast", given, output_type="bf16")
    attributes = {"epsilon": 1e-5, "momentum": 0.5, "data_format": layout}
    result, *_, mean, variance = graph.op("BatchNormForwardTraining", narrow, ones, ones, **attributes)
    graph.output(graph.op("TypeCast", result, output_type="f32") if data_type == "bf16" else result, name="y")
    for name, tensor in (("mean", mean), ("variance", variance)):
        graph.output(tensor, name=name)
    found = graph.compile()({"x": x})
    for name, values in zip(("mean", "variance"), expected, strict=True):
        np.testing.assert_allclose(found[name], values, rtol=1e-6, err_msg=name)
    along = [-1 if axis not in axes else 1 for axis in range(4)]
    y = (exact - expected[0].reshape(along)) / np.sqrt(expected[1].reshape(along) + 1e-5)
    np.testing.assert_allclose(found["y"], y, atol=3e-6 if data_type == "f32" else 2e-2)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", ["u8", "s8"])
@pytest.mark.parametrize("zero_point", [0, -7])
@pytest.mark.parametrize("kind", ["MatMul", "Convolution"])
def test_products_of_integers_do_not_wrap(backend, source, zero_point, kind):
    """More products of 8-bit integers than a sum in 32 bits holds."""
    points, long = abs(zero_point) if source == "u8" else zero_point, 8000
    shapes = ((2, 9 * long), (9 * long, 8)) if kind == "MatMul" else ((1, long, 3, 3), (8, long, 3, 3))
    largest = 255 if source == "u8" else 127
    data = np.full(shapes[0], largest, np.uint8 if source == "u8" else np.int8)
    weights = np.full(shapes[1], 127, np.int8)
    graph = og.Graph()
    x, w = graph.input("x", source, data.shape), graph.constant(weights)
    a = graph.op("Dequantize", x, scales=[1.0], zps=[points], qtype="per_tensor")
    b = graph.op("Dequantize", w, scales=[1.0], zps=[0], qtype="per_tensor")
    attributes = {
        **{"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]},
        **{"data_format": "NCX", "weights_format": "OIX"},
    }
    graph.output(graph.op(kind, a, b, **(attributes if kind == "Convolution" else {})), name="y")
    found = graph.compile(backend=None if backend == "onednn" else backend)({"x": data})["y"]
    exact = 9 * long * (largest - points) * 127
    assert np.max(np.abs(found - exact)) <= 1e-3 * exact  # in f32 where integers would not do
    if kind == "MatMul":
        np.testing.assert_array_equal(found, np.float32(exact))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["MatMul", "Convolution"])
@pytest.mark.parametrize(("count", "zero_point"), [(65_900, 0), (576, 100_000), (576, -(10**9))])
def test_products_of_the_least_integers_do_not_wrap(backend, kind, count, zero_point):
    """255 · −128, and zero points that lie far from all integers."""
    shapes = ((2, count), (count, 8)) if kind == "MatMul" else ((1, count, 1, 1), (8, count, 1, 1))
    graph = og.Graph()
    x, w = graph.input("x", "u8", shapes[0]), graph.constant(np.full(shapes[1], -128, np.int8))
    a = graph.op("Dequantize", x, scales=[1.0], zps=[zero_point], qtype="per_tensor")
    b = graph.op("Dequantize", w, scales=[1.0], zps=[0], qtype="per_tensor")
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    graph.output(graph.op(kind, a, b, **(window | formats if kind == "Convolution" else {})), name="y")
    model = graph.compile(backend=None if backend == "onednn" else backend)
    found = model({"x": np.full(shapes[0], 255, np.uint8)})["y"]
    np.testing.assert_allclose(found, count * (255 - zero_point) * -128, rtol=1e-3)


def test_products_of_integers_are_counted_before_they_wrap():
    """Whether this CPU multiplies integers or not."""
    largest = 255 * 128
    check_products((2**31 - 1) // largest, largest)
    with pytest.raises(Unfit, match="wrap"):
        check_products(2**31 // largest + 1, largest)
    with pytest.raises(Unfit, match="wrap"):
        check_products(576, 128 * 100_000)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_a_long_gradient_of_a_bias_beside_one_of_weights_keeps_its_digits(backend, data_format):
    shape = (2, 1, 1024, 1024) if data_format == "NCX" else (2, 1024, 1024, 1)
    graph = og.Graph()
    src, diff_dst = (graph.input(name, "f32", shape) for name in ("src", "diff_dst"))
    window = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    formats = {"data_format": data_format, "weights_format": "OIX"}
    shapes = {"weights_shape": [1, 1, 1, 1]}
    graph.output(graph.op("ConvolutionBackwardWeights", src, diff_dst, **shapes, **window, **formats))
    graph.output(graph.op("BiasAddBackward", diff_dst, data_format=data_format), name="bias")
    model = graph.compile(backend=None if backend == "onednn" else backend)
    value = np.float32(100.05)
    found = model(np.ones(shape, np.float32), np.full(shape, value))["bias"]
    np.testing.assert_allclose(found, float(value) * np.prod(shape), rtol=1e-5)
