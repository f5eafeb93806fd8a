"""Infinities, NaN and the ends of a type's range: where the library's kernels lose them, that doesn't show."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest

LEAST = -np.inf


def ours(build, arrays, **options):
    """What the default backends make of it, where some of it runs on the library; inputs by name."""
    graph = og.Graph()
    tensors = [graph.input(name, str(a.dtype), a.shape) for name, a in arrays.items()]
    build(graph, *tensors)
    model = graph.compile(**options)
    (result,) = model(arrays).values()
    return result, model


DIVISIONS = [
    *((1e-30, 1e-39), (-1e-30, 1e-39), (1e-10, 3e-45), (1e30, 1e38), (3e38, 1e38), (3e38, 3e38)),
    *((1.0, np.inf), (np.inf, 1.0), (np.inf, np.inf), (0.0, 0.0), (0.0, np.inf), (5.0, 0.0), (5.0, -0.0)),
    *((1e30, 1e-30), (1e-30, 1e30)),
]
"""Dividend and divisor."""


@pytest.mark.parametrize("like", [(4, len(DIVISIONS)), (1, len(DIVISIONS))], ids=["whole", "vector"])
@pytest.mark.parametrize("before", ["Multiply", "Abs+Multiply"])
def test_a_quotient_keeps_its_range_where_the_divisor_is_a_chain(onednn, like, before):
    dividend, divisor = np.float32(DIVISIONS).T
    with np.errstate(all="ignore"):
        expected = (dividend.astype(np.float64) / divisor).astype(np.float32)
    shape = (4, len(DIVISIONS))

    def build(graph, c, x, ones):
        y = graph.op("Multiply", x, ones)
        if before != "Multiply":
            y = graph.op("Multiply", y, ones)
        graph.op("Divide", c, y)

    arrays = {
        "c": np.ascontiguousarray(np.broadcast_to(dividend, like)),
        "x": np.ascontiguousarray(np.broadcast_to(divisor, shape)),
        "ones": np.ones(shape, np.float32),
    }
    got, model = ours(build, arrays)
    assert ("Divide" in str(model.explain())) == (
        like != shape
    )  # by a primitive of its own it is rounded once
    np.testing.assert_allclose(got, np.broadcast_to(expected, shape), rtol=1e-5)
    assert (np.signbit(got) == np.signbit(expected))[:, ~np.isnan(expected)].all()


FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}


def rows_with_extremes(dtype, count=12, size=40):
    """Rows of integers, and of these with −∞, ∞ and NaN here and there or all through, and with the lowest number."""
    rows = np.random.default_rng(0).integers(-9, 9, (count, size)).astype(np.float64)
    rows[0, 3] = np.nan
    rows[1, 0] = np.nan
    rows[2] = -np.inf
    rows[3] = np.inf
    rows[4, -1] = np.inf
    rows[5, :-1] = -np.inf
    rows[6] = float(ml_dtypes.finfo(dtype).min)
    rows[7] = float(ml_dtypes.finfo(dtype).max)
    rows[8, :] = [-np.inf, np.nan] * (size // 2)
    rows[9, 1:] = np.inf
    return rows.astype(dtype)


def runs_on_the_library(model):
    return any(
        "jit" in name or "simple" in name for e in model.explain().values() for name in e.implementations
    )


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_of_rows_are_numpy_s(onednn, dtype, kind, keep):
    x = rows_with_extremes(FLOATS[dtype])
    got, model = ours(lambda g, t: g.op(kind, t, axes=[1], keep_dims=keep), {"x": x})
    wide = x.astype(np.float64)
    expected = (np.max if kind == "ReduceMax" else np.min)(wide, axis=1, keepdims=keep)
    np.testing.assert_array_equal(got.astype(np.float64), expected)
    assert runs_on_the_library(model)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mode", ["none", "inf_as_zero", "log"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_of_rows_is_numpy_s(onednn, dtype, mode, axis):
    x = rows_with_extremes(FLOATS[dtype])
    x = np.ascontiguousarray(x.T) if axis == 0 else x
    more = {"mode": mode} if mode != "log" else {}
    kind = "LogSoftmax" if mode == "log" else "SoftMax"
    got, model = ours(lambda g, t: g.op(kind, t, axis=axis, **more), {"x": x})
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        exponentials = np.exp(wide - wide.max(axis=axis, keepdims=True))
        expected = exponentials / exponentials.sum(axis=axis, keepdims=True)
        if mode == "log":
            shifted = wide - wide.max(axis=axis, keepdims=True)
            expected = shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    if mode == "inf_as_zero":
        expected = np.where((wide == -np.inf).all(axis=axis, keepdims=True), 0, expected)
    step = float(ml_dtypes.finfo(FLOATS[dtype]).eps)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=4 * step, atol=max(4 * step, 1e-5))
    assert runs_on_the_library(model)


def images_with_extremes(dtype):
    """Images (2, 16, 6, 6) of integers whose windows of 2 × 2 have −∞ alone, some of it, the lowest number."""
    x = np.random.default_rng(0).integers(-9, 9, (2, 16, 6, 6)).astype(np.float64)
    x[0, 0] = -np.inf
    x[0, 1, :2, :2] = -np.inf
    x[1, 15, 4:, 4:] = -np.inf
    x[1, 3, 0, 1] = -np.inf
    x[1, 4, 2:4, 2:4] = float(ml_dtypes.finfo(dtype).min)
    x[1, 5, 0, 0] = np.inf
    return x.astype(dtype)


WINDOW = {"kernel": [2, 2], "strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}


@pytest.mark.parametrize("behind", ["", "Multiply"], ids=["alone", "with what follows"])
@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_largest_of_windows_are_numpy_s(onednn, dtype, data_format, behind):
    images = images_with_extremes(FLOATS[dtype])
    expected = images.astype(np.float64).reshape(2, 16, 3, 2, 3, 2).max(axis=(3, 5))
    x = images if data_format == "NCX" else np.ascontiguousarray(np.moveaxis(images, 1, -1))

    def build(graph, t):
        y = graph.op("MaxPool", t, data_format=data_format, **WINDOW)
        if behind:
            y = graph.op("Multiply", y, graph.constant(np.full((1,), 0.5, FLOATS[dtype]), name="half"))
        return y

    got, model = ours(build, {"x": x})
    expected = expected * 0.5 if behind else expected
    expected = expected if data_format == "NCX" else np.moveaxis(expected, 1, -1)
    np.testing.assert_array_equal(got.astype(np.float64), expected)
    assert runs_on_the_library(model)


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_the_gradient_of_a_window_of_minus_infinity_goes_to_one_of_its_elements(onednn, data_format):
    x = images_with_extremes(np.float32)
    x = x if data_format == "NCX" else np.ascontiguousarray(np.moveaxis(x, 1, -1))
    shape = (2, 16, 3, 3) if data_format == "NCX" else (2, 3, 3, 16)
    gradient = np.random.default_rng(1).integers(1, 9, shape).astype(np.float32)

    def build(graph, src, diff_dst):
        return graph.op("MaxPoolBackward", src, diff_dst, data_format=data_format, **WINDOW)

    got, model = ours(build, {"src": x, "diff_dst": gradient})
    assert got.sum() == gradient.sum()
    np.testing.assert_array_equal((got != 0).sum(), gradient.size)
    assert runs_on_the_library(model)


def test_nothing_is_looked_for_behind_what_is_bounded(onednn):
    def build(graph, t):
        return graph.op("MaxPool", graph.op("ReLU", t), data_format="NCX", **WINDOW)

    _, model = ours(build, {"x": images_with_extremes(np.float32)})
    assert "-inf" not in str(model.explain())


BELOW_HALVES = {
    "Clamp": ("f32", {"min": -1e6, "max": 0.0}, "f16"),
    "Elu": ("f32", {"alpha": 1e6}, "f16"),
    "Dequantize": ("s8", {"scales": [1e4]}, "f16"),
    "Clamp to the lowest": ("f32", {"min": -3.4e38, "max": 0.0}, "bf16"),
}
"""Kind → type of its input, attributes that let it make less than a shorter type holds, and that type."""


@pytest.mark.parametrize("what", BELOW_HALVES)
def test_what_is_minus_infinity_in_a_shorter_type_is_looked_for(onednn, what):
    wide, attributes, short = BELOW_HALVES[what]
    x = np.full((1, 16, 4, 4), -100, wide.replace("s8", "i1").replace("f32", "f4"))
    x[:, :, :2] = -np.inf if wide == "f32" else -128

    def build(graph, t):
        made = graph.op(what.split()[0], t, **attributes)
        made = graph.op("TypeCast", made, output_type=short)
        made = graph.op("MaxPool", made, data_format="NCX", **WINDOW)
        return graph.op(
            "TypeCast", made, output_type="f32"
        )  # the shorter type has no number for what is lost

    graph = og.Graph()
    build(graph, graph.input("x", wide, x.shape))
    (got,), (expected,) = (graph.compile(backend=b)({"x": x}).values() for b in (None, "numpy"))
    assert np.isneginf(expected).any()
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("zero_points", [{}, {"zps": [3]}], ids=str)
@pytest.mark.parametrize("dtype", ["s8", "f8_e5m2"])
def test_the_least_of_what_was_quantized(onednn, dtype, zero_points):
    x = np.full((1, 16, 4, 4), -3, np.int8 if dtype == "s8" else ml_dtypes.float8_e5m2)
    if dtype != "s8":
        zero_points = {}  # floats have none
        x[0, :, :2, :2] = -np.inf
    graph = og.Graph()
    made = graph.op("Dequantize", graph.input("x", dtype, x.shape), scales=[0.5], **zero_points)
    graph.op("MaxPool", made, data_format="NCX", **WINDOW)
    (got,), (expected,) = (graph.compile(backend=b)({"x": x}).values() for b in (None, "numpy"))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "before", ["Elu", "Clamp", "Dequantize", "symmetric", "GELU", "swish", "Maximum", "AvgPool"]
)
def test_nothing_is_looked_for_in_halves_that_hold_it_all(onednn, before):
    def build(graph, t):
        if before == "swish":
            made = graph.op("Multiply", t, graph.op("Sigmoid", t))
        elif before == "Maximum":
            made = graph.op("Maximum", t, graph.op("Sigmoid", t))
        elif before == "AvgPool":
            made = graph.op("ReLU", t)
            made = graph.op("AvgPool", made, data_format="NCX", exclude_pad=True, **WINDOW)
        elif before == "symmetric":
            made = graph.op("Dequantize", t, scales=[0.5])
        else:
            numbers = {"Elu": {"alpha": 1.0}, "Clamp": {"min": -6e4, "max": 0.0}}
            scales = {"Dequantize": {"scales": [0.5], "zps": [3]}}
            made = graph.op(before, t, **{**numbers, **scales}.get(before, {}))
        made = graph.op("TypeCast", made, output_type="f16")
        return graph.op("MaxPool", made, data_format="NCX", **WINDOW)

    graph = og.Graph()
    build(graph, graph.input("x", "s8" if before in ("Dequantize", "symmetric") else "f32", (1, 16, 8, 8)))
    assert "-inf" not in str(graph.compile().explain())


def test_a_row_that_a_mask_empties_is_told_by_its_largest_share(onednn):
    """Softmax → largest == −∞ → Where, as exporters write a mask that leaves nothing."""
    scores = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    scores[:, :, 2] = -np.inf
    scores[0, 1, 5, 3:] = -np.inf

    def build(graph, x):
        largest = graph.op("ReduceMax", x, axes=[3], keep_dims=True)
        empty = graph.op("HostEqual", largest, graph.constant(np.float32([[[[-np.inf]]]]), name="least"))
        shares = graph.op("SoftMax", x, axis=3)
        return graph.op(
            "Select", empty, graph.constant(np.zeros((1, 1, 1, 1), np.float32), name="zero"), shares
        )

    got, _ = ours(build, {"x": scores})
    assert (got[:, :, 2] == 0).all()
    np.testing.assert_allclose(got.sum(axis=3)[:, :, [0, 1, 3, 4, 5, 6, 7]], 1, rtol=1e-5)


def test_what_logarithms_of_sigmoids_have_of_minus_infinity_is_looked_for(onednn):
    """SoftPlus with beta = −1 is log(sigmoid(x)), which is −∞ at −∞."""

    def build(graph, t):
        return graph.op("MaxPool", graph.op("SoftPlus", t, beta=-1), data_format="NCX", **WINDOW)

    got, _ = ours(build, {"x": np.full((1, 1, 2, 2), -np.inf, np.float32)})
    np.testing.assert_array_equal(got, [[[[-np.inf]]]])


LAYOUTS = {
    "as rows": lambda shape: None,
    "turned": lambda shape: tuple(int(np.prod(shape[:a])) for a in range(len(shape))),
    "channels last": lambda shape: (shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]),
    "with gaps": lambda shape: (shape[1] * shape[2] * shape[3] * 6, shape[2] * shape[3] * 3, shape[3] * 2, 2),
}
"""Strides of images."""
LOOKED_AT = {
    "ReduceMax": {"axes": [1], "keep_dims": True},
    "ReduceMin": {"axes": [2, 3], "keep_dims": False},
    "SoftMax": {"axis": 1},
    "LogSoftmax": {"axis": 2},
    "MaxPool": {"data_format": "NCX", **WINDOW},
}


@pytest.mark.parametrize("behind", ["", "Convolution"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", LOOKED_AT)
def test_extremes_are_found_however_the_elements_lie(onednn, kind, layout, behind):
    """Also where the library lays them out, behind a convolution of nothing."""
    shape = (2, 16, 6, 6)
    strides = LAYOUTS[layout](shape)
    x = np.ascontiguousarray(images_with_extremes(np.float32))
    x[1, :, 2, 3], x[0, :, 1], x[1, 2, 5, 5] = np.inf, -np.inf, 1 if kind == "MaxPool" else np.nan
    lies = x
    if strides is not None:
        memory = np.zeros(1 + sum((d - 1) * s for d, s in zip(shape, strides, strict=True)), np.float32)
        lies = np.lib.stride_tricks.as_strided(memory, shape, [4 * s for s in strides])
        lies[...] = x
    graph = og.Graph()
    tensor = graph.input("x", "f32", shape, strides=strides)
    arrays = {"x": lies}
    if behind:
        arrays["image"] = np.zeros((2, 8, 8, 8), np.float32)
        taps = graph.constant(np.ones((16, 8, 3, 3), np.float32), name="taps")
        numbers = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
        formats = {"data_format": "NCX", "weights_format": "OIX"}
        made = graph.op("Convolution", graph.input("image", "f32", (2, 8, 8, 8)), taps, **numbers, **formats)
        tensor = graph.op("Add", made, tensor)
    graph.op(kind, tensor, **LOOKED_AT[kind])
    model = graph.compile()
    (got,), (expected,) = (each(arrays).values() for each in (model, graph.compile(backend="numpy")))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    done = [name for told in model.explain().values() for name in told.implementations]
    assert kind != "MaxPool" or any(name.startswith("pooling") for name in done)
