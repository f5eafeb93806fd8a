"""BatchNorm in the weights before it: exact on statistics that are powers of two, and left alone where it must be."""

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each

RNG = np.random.default_rng(0)


def whole(*shape):
    return RNG.integers(-3, 4, shape).astype(np.float32)


def normalised(graph, y, channels, layout, *, exact=True, training=False, name="bn"):
    """A BatchNorm whose scales are powers of two: √(variance + epsilon) is 1, 2 or 4, with ε of 1."""
    if exact:
        arrays = [whole(channels), whole(channels), whole(channels), np.resize([0.0, 3.0, 15.0], channels)]
    else:
        arrays = [RNG.standard_normal(channels) for _ in range(3)] + [RNG.uniform(0.1, 2, channels)]
    gamma, beta, mean, variance = (
        graph.parameter(a.astype(np.float32), name=f"{name}.{port}")
        for port, a in zip(("gamma", "beta", "mean", "variance"), arrays, strict=True)
    )
    attributes = {"epsilon": 1.0, "data_format": layout}
    if not training:
        return graph.batch_norm_inference(y, gamma, beta, mean, variance, **attributes)
    found, new_mean, new_variance, *_ = graph.batch_norm_forward_training(
        y, mean, variance, gamma, beta, momentum=0.9, **attributes
    )
    graph.assign(mean, new_mean)
    graph.assign(variance, new_variance)
    return found


def windows(spatial):
    return {
        "strides": [2, 1, 1][:spatial], "pads_begin": [1] * spatial, "pads_end": [0] * spatial,
        "dilations": [1] * spatial,
    }  # fmt: skip


def convolved(data_format, weights_format, groups=1, spatial=2, bias=False, kind="Convolution", outputs=6):
    def made(graph):
        inner = 6 if groups > 1 else 3
        shape = [2, *[5] * spatial, inner] if data_format == "NXC" else [2, inner, *[5] * spatial]
        sizes = {"O": [outputs], "I": [inner // groups], "X": [3, 2, 2][:spatial]}
        w = graph.parameter(whole(*(d for c in weights_format for d in sizes[c])), name="conv.weight")
        more = [graph.parameter(whole(outputs), name="conv.bias")] if bias else []
        x = graph.input("x", "f32", shape)
        y = graph.op(
            kind,
            x,
            w,
            *more,
            groups=groups,
            data_format=data_format,
            weights_format=weights_format,
            **windows(spatial),
        )
        return y, outputs, data_format

    return made


def dense(*shape, transpose_b=False, bias=None):
    def made(graph):
        x = graph.input("x", "f32", shape)
        w = graph.parameter(whole(6, shape[-1]) if transpose_b else whole(shape[-1], 6), name="conv.weight")
        more = [] if bias is None else [graph.parameter(whole(*bias), name="conv.bias")]
        return graph.matmul(x, w, *more, transpose_b=transpose_b), 6, "NXC"

    return made


FORMS = {
    "NCX OIX": convolved("NCX", "OIX"),
    "NXC XIO with a bias": convolved("NXC", "XIO", bias=True),
    "NXC OIX in 1-D": convolved("NXC", "OIX", spatial=1),
    "NCX XIO in 3-D": convolved("NCX", "XIO", spatial=3, bias=True),
    "groups": convolved("NCX", "OIX", groups=3, bias=True),
    "depthwise": convolved("NXC", "XIO", groups=6),
    "transposed": convolved("NCX", "IOX", kind="ConvTranspose"),
    "transposed with groups": convolved("NXC", "XOI", kind="ConvTranspose", groups=2, bias=True),
    "a matmul": dense(4, 3),
    "a matmul of torch's Linear": dense(4, 3, transpose_b=True, bias=(6,)),
    "a matmul with a bias of one number": dense(4, 3, bias=(1,)),
    "a matmul in 3-D": dense(2, 4, 3),
}


def kinds(graph):
    return [op.kind for op in graph.ops]


def feeds_of(graph):
    return {t.name: whole(*t.dims) for t in graph.inputs}


@each("name", FORMS)
def test_it_is_exact_on_powers_of_two(name):
    for training in (False, True):
        graph = og.Graph()
        y, channels, layout = FORMS[name](graph)
        graph.output(graph.relu(normalised(graph, y, channels, layout, training=training)), name="y")
        plain, folded = graph.for_inference(), graph.for_inference(fold_batch_norm=True)
        assert "BatchNormInference" in kinds(plain)
        assert len(folded.ops) == 2
        assert set(folded.constants) == {
            "conv.weight",
            "conv.bias" if "conv.bias" in plain.constants else "bn.beta",
        }
        feeds = feeds_of(graph)
        for backend in (None, "numpy"):
            expected, found = (g.compile(backend=backend)(feeds)["y"] for g in (plain, folded))
            np.testing.assert_array_equal(found, expected)


@pytest.mark.no_cover
@settings(max_examples=20, deadline=None)
@given(name=st.sampled_from(sorted(FORMS)), seed=st.integers(0, 9))
def test_it_is_right_within_rounding(name, seed):
    graph = og.Graph()
    y, channels, layout = FORMS[name](graph)
    graph.output(normalised(graph, y, channels, layout, exact=False), name="y")
    feeds = {
        n: a + np.random.default_rng(seed).standard_normal(a.shape).astype(np.float32)
        for n, a in feeds_of(graph).items()
    }
    expected = graph.compile(backend="numpy")(feeds)["y"]
    found = graph.for_inference(fold_batch_norm=True).compile()(feeds)["y"]
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


def two_readers(graph):
    y, channels, layout = FORMS["NCX OIX"](graph)
    graph.output(graph.add(normalised(graph, y, channels, layout), y), name="y")


def an_output(graph):
    y, channels, layout = FORMS["NCX OIX"](graph)
    graph.output(y, name="before")
    graph.output(normalised(graph, y, channels, layout), name="y")


def no_weights(graph):
    x = graph.input("x", "f32", [2, 6, 4])
    graph.output(normalised(graph, graph.relu(x), 6, "NCX"), name="y")


def fed_weights(graph):
    x, w = graph.input("x", "f32", [2, 3]), graph.input("w", "f32", [3, 6])
    graph.output(normalised(graph, graph.matmul(x, w), 6, "NXC"), name="y")


def other_channels(graph):
    y, *_ = dense(2, 6, 3)(graph)
    graph.output(normalised(graph, y, 6, "NCX"), name="y")


def first_of_a_matmul(graph):
    x, w = graph.input("x", "f32", [2, 3, 6]), graph.parameter(whole(4, 3), name="w")
    graph.output(normalised(graph, graph.matmul(w, x), 6, "NXC"), name="y")


def fed_statistics(graph):
    y, channels, layout = FORMS["NCX OIX"](graph)
    vectors = [graph.input(n, "f32", [channels]) for n in "gbm"]
    variance = graph.constant(np.ones(channels, np.float32))
    graph.output(graph.batch_norm_inference(y, *vectors, variance, epsilon=1.0, data_format=layout), name="y")


@each("build", [pytest.param(f, id=f.__name__) for f in (
    two_readers, an_output, no_weights, fed_weights, other_channels, first_of_a_matmul, fed_statistics
)])  # fmt: skip
def test_others_stay(build):
    graph = og.Graph()
    build(graph)
    folded = graph.for_inference(fold_batch_norm=True)
    assert kinds(folded) == kinds(graph.for_inference())
    feeds = feeds_of(graph)
    plain, found = (g.compile()(feeds) for g in (graph.for_inference(), folded))
    np.testing.assert_array_equal(found["y"], plain["y"])


def test_weights_that_others_read_stay_for_these():
    graph = og.Graph()
    x = graph.input("x", "f32", [4, 6])
    w = graph.parameter(whole(6, 6), name="w")
    first = normalised(graph, graph.matmul(x, w), 6, "NXC", name="first")
    second = normalised(graph, graph.matmul(first, w), 6, "NXC", name="second")
    graph.output(graph.matmul(graph.relu(second), w), name="y")
    plain, folded = graph.for_inference(), graph.for_inference(fold_batch_norm=True)
    assert kinds(folded) == ["MatMul", "MatMul", "ReLU", "MatMul"]
    np.testing.assert_array_equal(folded.constants["w"], graph.parameters["w"])
    feeds = {"x": whole(4, 6)}
    np.testing.assert_allclose(folded.compile()(feeds)["y"], plain.compile()(feeds)["y"], rtol=1e-5)


def test_bf16_stays_and_what_becomes_bf16_afterwards_does_not():
    graph = og.Graph()
    y, channels, layout = FORMS["NCX OIX"](graph)
    graph.output(normalised(graph, y, channels, layout), name="y")
    assert "BatchNormInference" in kinds(graph.to("bf16").for_inference(fold_batch_norm=True))
    assert "BatchNormInference" not in kinds(graph.for_inference(fold_batch_norm=True).to("bf16"))


def test_a_trained_model_goes_to_onnxruntime(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    graph = og.Graph()
    x, target = graph.input("x", "f32", [4, 3, 8, 8]), graph.input("target", "f32", [4, 6])
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    layout = {"data_format": "NCX", "weights_format": "OIX"}
    y = x
    for n, channels in enumerate((3, 6)):
        w = graph.parameter((RNG.standard_normal((6, channels, 3, 3)) / 5).astype(np.float32), name=f"w{n}")
        y = normalised(
            graph,
            graph.convolution(y, w, **same, **layout),
            6,
            "NCX",
            exact=False,
            training=True,
            name=f"bn{n}",
        )
        y = graph.relu(y)
    y = graph.output(graph.reduce_mean(y, axes=[2, 3]), name="y")
    loss = graph.reduce_mean(graph.squared_difference(y, target), axes=[0, 1])
    trainer = og.training.Trainer(graph, loss, og.training.SGD(0.05))
    for _ in range(3):
        trainer.step({"x": whole(4, 3, 8, 8), "target": whole(4, 6)})
    plain, folded = trainer.model(), trainer.model(fold_batch_norm=True)
    assert kinds(folded) == ["Convolution", "ReLU"] * 2 + ["ReduceMean"]
    feeds = {"x": whole(4, 3, 8, 8)}
    expected = plain.compile()(feeds)["y"]
    np.testing.assert_allclose(folded.compile()(feeds)["y"], expected, rtol=1e-4, atol=1e-5)
    folded.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(["y"], feeds)[0], expected, rtol=1e-4, atol=1e-5)
