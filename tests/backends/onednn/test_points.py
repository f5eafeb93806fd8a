"""Transposed convolutions of images of one position: products with the weights, exact, in every format and type."""

import numpy as np
import onednn_graph as og
import pytest

pytestmark = pytest.mark.skipif(og.backends()["onednn"] is not None, reason=str(og.backends()["onednn"]))

KERNELS = {"1-D": (5,), "2-D": (4, 3), "3-D": (2, 3, 2), "1 × 1": (1, 1)}
BATCH, READ, MADE = 5, 70, 34


def case(kind, data_type, layout, weights_format, kernel, after, strides=2, pads=0):
    """A graph, its arrays, and what is expected: each point times the weights at each position."""
    rng = np.random.default_rng(len(kernel) + len(after))
    points = rng.integers(-1, 2, (BATCH, READ)).astype(np.float32)
    weights = rng.integers(-1, 2, (READ, MADE, *kernel)).astype(np.float32)
    bias = rng.integers(-3, 4, MADE).astype(np.float32)
    expected = np.einsum("nr,rm...->nm...", points, weights)
    numpy_type = np.float32 if data_type == "f32" else pytest.importorskip("ml_dtypes").bfloat16
    orders = {"I": 0, "O": 1} if kind == "ConvTranspose" else {"O": 0, "I": 1}
    rest = tuple(range(2, weights.ndim))
    at = {"X": rest, **{letter: (axis,) for letter, axis in orders.items()}}
    lying = weights.transpose([axis for letter in weights_format for axis in at[letter]])
    ones = [1] * len(kernel)
    image = points.reshape((BATCH, *ones, READ) if layout == "NXC" else (BATCH, READ, *ones))
    arrays = {"x": image, "w": lying, "b": bias}
    graph = og.Graph()
    inputs = [graph.input(name, data_type, arrays[name].shape) for name in ("x", "w")]
    if after == "bias":
        inputs.append(graph.input("b", data_type, bias.shape))
        expected = expected + bias.reshape(-1, *[1] * len(kernel))
    y = graph.op(
        kind, *inputs, data_format=layout, weights_format=weights_format, name="y",
        strides=[strides] * len(kernel), dilations=[1] * len(kernel),
        pads_begin=[pads] * len(kernel), pads_end=[0] * len(kernel),
    )  # fmt: skip
    if after == "ReLU":
        graph.op("ReLU", y)
        expected = np.maximum(expected, 0)
    if pads:
        expected = expected[(..., *[slice(pads, None)] * len(kernel))]
    given = {tensor.name: arrays[tensor.name].astype(numpy_type) for tensor in graph.inputs}
    return graph, given, np.moveaxis(expected, 1, -1) if layout == "NXC" else expected


@pytest.mark.parametrize("after", ["", "ReLU", "bias"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("data_type", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("kind", "weights_format"),
    [
        ("ConvTranspose", "IOX"),
        ("ConvTranspose", "XOI"),
        ("ConvolutionBackwardData", "OIX"),
        ("ConvolutionBackwardData", "XIO"),
    ],
)
def test_exact(kind, weights_format, data_type, layout, name, after):
    if kind != "ConvTranspose" and after == "bias":
        pytest.skip("a gradient has no bias")
    graph, arrays, expected = case(kind, data_type, layout, weights_format, KERNELS[name], after)
    compiled = graph.compile()
    (made,) = compiled(arrays).values()
    np.testing.assert_array_equal(made.astype(np.float32), expected)
    assert "matmul" in str(next(iter(compiled.explain().values())))


def test_what_is_cut_off_is_a_transposed_convolution():
    graph, arrays, expected = case("ConvTranspose", "f32", "NCX", "IOX", (4, 4), "", pads=1)
    (made,) = graph.compile()(arrays).values()
    np.testing.assert_array_equal(made, expected)
