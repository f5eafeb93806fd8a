"""Batch normalisations of training: layouts that they stay in, and the ReLU that they do with both of its gradients."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.lowering import batch_statistics
from rows import each

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

CHANNELS = (1, 5, 8, 16, 24, 48, 64)
FORMATS = ("NCX", "NXC")
TYPES = ("f32", "bf16")


def images(rng, channels, layout):
    """(4, channels, 4, 4) whose channels have an integer as mean and a power of two as deviation."""
    signs = np.stack([rng.permutation(np.repeat([-1, 1], 32)) for _ in range(channels)])
    values = signs * 2.0 ** rng.integers(-1, 3, (channels, 1)) + rng.integers(-3, 4, (channels, 1))
    values = values.reshape(channels, 4, 4, 4).transpose(1, 0, 2, 3)
    return values if layout == "NCX" else values.transpose(0, 2, 3, 1)


def step(data_type, layout, channels, *, relu=True, doubled=False, kept=False):
    """Multiplication by 2, a batch normalisation, perhaps a ReLU; and the gradients by everything."""
    shape = (4, channels, 4, 4) if layout == "NCX" else (4, 4, 4, channels)
    graph = og.Graph()
    x, seed = graph.input("x", data_type, shape), graph.input("seed", data_type, shape)
    vectors = [graph.input(name, "f32", (channels,)) for name in ("mean", "variance", "gamma", "beta")]
    data = graph.op("Add", x, x)
    made = graph.op("BatchNormForwardTraining", data, *vectors, data_format=layout, epsilon=0.0, momentum=0.5)
    y = graph.op("ReLU", made[0]) if relu else made[0]
    if doubled:  # somebody else reads what the ReLU reads
        y = graph.op("Add", y, made[0])
    if kept:
        graph.output(made[0])
    graph.output(y)
    for statistic in made[1:]:
        graph.output(statistic)
    gradients = graph.gradients(y, [x, *vectors[2:]], seed)
    return graph, (*made[1:], y, *gradients, *([made[0]] if kept else []))


def feeds(graph, data_type, layout, channels):
    rng = np.random.default_rng(channels)
    arrays = {
        "x": images(rng, channels, layout),
        "seed": rng.integers(-4, 5, graph.inputs[1].dims),
        "mean": rng.integers(-4, 5, channels),
        "variance": rng.integers(0, 5, channels),
        "gamma": 2.0 ** rng.integers(-1, 2, channels),
        "beta": rng.integers(-1, 2, channels) / 2,
    }
    wide = {"x": np.float32, "seed": np.float32} if data_type == "f32" else {}
    if data_type == "bf16":
        bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
        wide = {"x": bfloat16, "seed": bfloat16}
    return {name: array.astype(wide.get(name, np.float32)) for name, array in arrays.items()}


def strategies(model):
    return " ".join(str(told.strategy) for told in model.explain().values() if told is not None)


def kernels(model):
    return [name for told in model.explain().values() for name in told.implementations]


def check(data_type, layout, channels, **options):
    """Compares with NumPy, exactly: all sums and quotients are numbers that both can hold."""
    graph, tensors = step(data_type, layout, channels, **options)
    arrays = feeds(graph, data_type, layout, channels)
    model = graph.compile()
    mine, expected = model(arrays), graph.compile(backend="numpy")(arrays)
    for tensor in tensors:
        np.testing.assert_array_equal(mine[tensor], expected[tensor], err_msg=str(tensor))
    return model


@each("data_type", TYPES)
@each("layout", FORMATS)
@each("channels", CHANNELS)
@each("relu", [False, True])
def test_training_is_exact(data_type, layout, channels, relu):
    check(data_type, layout, channels, relu=relu)


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize(
    "options", [{"doubled": True}, {"kept": True}, {"doubled": True, "kept": True}], ids=str
)
def test_a_relu_stays_apart_where_its_input_is_read(data_type, layout, options):
    model = check(data_type, layout, 16, **options)
    assert "BatchNormForwardTraining+ReLU" not in strategies(model)


def test_the_relu_goes_along():
    model = check("f32", "NXC", 64)
    fuses = any("bnorm_jit:avx" in name for name in kernels(model))  # that of SSE4.1 has no ReLU
    assert ("BatchNormForwardTraining+ReLU" in strategies(model)) is fuses


def test_the_relu_stays_apart_where_the_kernel_would_keep_signs_one_by_one():
    told = strategies(check("f32", "NCX", 64))
    assert "BatchNormForwardTraining+ReLU" not in told


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("channels", [5, 58])
@pytest.mark.parametrize("relu", [False, True])
def test_inference_by_factors_is_exact(data_type, layout, channels, relu):
    graph = og.Graph()
    shape = (2, channels, 3, 5) if layout == "NCX" else (2, 3, 5, channels)
    x = graph.input("x", data_type, shape)
    vectors = [graph.input(name, "f32", (channels,)) for name in ("gamma", "beta", "mean", "variance")]
    y = graph.op("BatchNormInference", x, *vectors, epsilon=1.0, data_format=layout)
    if relu:
        graph.op("ReLU", y)
    rng = np.random.default_rng(channels)
    numpy_type = np.float32 if data_type == "f32" else pytest.importorskip("ml_dtypes").bfloat16
    arrays = {t.name: rng.integers(-3, 4, t.dims).astype(np.float32) for t in graph.inputs}
    arrays["x"] = arrays["x"].astype(numpy_type)
    arrays["variance"] = np.where(rng.random(channels) < 0.5, 3, 15).astype(np.float32)
    model = graph.compile()
    (mine,), (expected,) = (each(arrays).values() for each in (model, graph.compile(backend="numpy")))
    np.testing.assert_array_equal(mine, expected)
    assert any("its factors" in name for name in kernels(model))


def test_the_gradients_of_both_are_one_where_one_kernel_does_both():
    model = check("f32", "NXC", 64)
    found = {name.split("(")[1] for name in kernels(model) if "normalization" in name}
    one = len(found) == 1 and "bnorm_jit:avx" in str(
        found
    )  # on AVX2 there is one each way, on SSE4.1 it has no ReLU
    assert ("ReLUBackward+BatchNormTrainingBackward" in strategies(model)) is one


@pytest.mark.parametrize("formats", [("NXC", "NCX"), ("NCX", "NXC")], ids="-".join)
def test_a_gradient_by_other_axes_than_the_forward_one_s_is_its_own(formats):
    graph = og.Graph()
    x, seed = (graph.input(name, "f32", (16, 16, 16, 16)) for name in ("x", "seed"))
    vectors = [graph.input(name, "f32", (16,)) for name in ("mean", "variance", "gamma", "beta")]
    numbers = {"epsilon": 1e-5}
    made = graph.op("BatchNormForwardTraining", x, *vectors, data_format=formats[0], momentum=0.5, **numbers)
    y = graph.op("ReLU", made[0])
    through = graph.op("ReLUBackward", y, seed, use_dst=True)
    given = (x, through, made[3], made[4], vectors[2])
    gradients = graph.op("BatchNormTrainingBackward", *given, data_format=formats[1], **numbers)
    for number, tensor in enumerate((y, *made[1:], *gradients)):
        graph.output(tensor, name=f"y{number}")
    rng = np.random.default_rng(0)
    arrays = {t.name: (rng.random(t.dims) + 0.5).astype(np.float32) for t in graph.inputs}
    got, expected = graph.compile()(arrays), graph.compile(backend="numpy")(arrays)
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-4, atol=1e-4 * np.abs(array).max(), err_msg=name)


def test_images_stay_as_they_lie():
    model = check("f32", "NXC", 64)
    names = kernels(model)
    if any("bnorm_jit:avx" in name for name in names):
        assert not any("ncsp" in name or "nspc" in name for name in names)


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("channels", [5, 16, 24])
def test_nan_in_one_channel_stays_in_it(layout, channels):
    graph, tensors = step("f32", layout, channels)
    arrays = feeds(graph, "f32", layout, channels)
    arrays["x"][(slice(None), 2) if layout == "NCX" else (Ellipsis, 2)] = np.nan
    mine, expected = graph.compile()(arrays), graph.compile(backend="numpy")(arrays)
    others = np.arange(channels) != 2
    for tensor in tensors:
        axis = 1 if layout == "NCX" and len(tensor.dims) == 4 else -1
        np.testing.assert_array_equal(
            mine[tensor].compress(others, axis), expected[tensor].compress(others, axis), err_msg=str(tensor)
        )
    assert all(np.isnan(mine[tensor][2]) for tensor in tensors[:4])  # all of the statistics


@pytest.mark.parametrize("data_type", TYPES)
@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("channels", CHANNELS)
def test_channels_that_are_made_again_are_what_the_kernel_made(monkeypatch, data_type, layout, channels):
    """Where nothing was lost, all stays as it is, with the kernel's own signs for the gradient of a ReLU."""
    mark, marked = batch_statistics.mark, []

    def checked(signs, *more):
        before = signs.copy()
        mark(signs, *more)
        np.testing.assert_array_equal(signs, before)
        marked.append(signs)

    monkeypatch.setattr(batch_statistics, "FEW", 0)
    monkeypatch.setattr(batch_statistics, "lost", lambda mean, *_: np.arange(len(mean)))
    monkeypatch.setattr(batch_statistics, "mark", checked)
    model = check(data_type, layout, channels)
    assert any("batch statistics" in name for name in kernels(model))
    assert bool(marked) == ("BatchNormForwardTraining+ReLU" in strategies(model))


def gradients_of(x, dy, gamma, data_format="NXC"):
    """What the op makes of images (N, X, C), and the same in f64."""
    axes = tuple(range(x.ndim - 1))
    wide, gradient = x.astype("f8"), dy.astype("f8")
    mean, variance = wide.mean(axes).astype("f4"), wide.var(axes).astype("f4")
    inverse = 1 / np.sqrt(variance.astype("f8") + 0.1)
    normalised = (wide - mean) * inverse
    along, total, count = (gradient * normalised).sum(axes), gradient.sum(axes), x.size // x.shape[-1]
    wanted = gamma * inverse * (gradient - total / count - normalised * along / count), along, total
    given = [x, dy, mean, variance, gamma]
    more = {"epsilon": 0.1, "data_format": data_format}
    return og.run_op("BatchNormTrainingBackward", given, more, outputs=3, backend="onednn"), wanted


@each("shape", [(2, 20, 19, 27), (4, 33, 31, 50), (3, 17, 20), (2, 9, 9, 9, 12), (8, 30, 30, 3)])
@each("mean", [0.0, 100.0])
def test_gradients_of_any_number_of_adjacent_channels(shape, mean):
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=shape).astype("f4") for _ in range(2))
    made, wanted = gradients_of(x + np.float32(mean), dy, rng.normal(size=shape[-1]).astype("f4"))
    for got, want in zip(made, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-6 * np.abs(want).max())


def test_sums_of_gradients_that_are_alike_keep_their_digits():
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(8, 64, 64, 27)).astype("f4"), np.full((8, 64, 64, 27), 0.7, "f4")
    made, wanted = gradients_of(x, dy, np.ones(27, "f4"))
    np.testing.assert_allclose(made[2], wanted[2], rtol=3e-6)
