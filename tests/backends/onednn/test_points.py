"""Convolutions between whole images and single positions: products, exact, in every format and type."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

KERNELS = {"1-D": (5,), "2-D": (4, 3), "3-D": (2, 3, 2)}
BATCH, READ, MADE = 5, 70, 34


SPREADS = ("ConvTranspose", "ConvolutionBackwardData")


def case(kind, data_type, layout, weights_format, kernel, after, pads=0):
    """A graph, its arrays, and what is expected: points times the weights of each position, or the sum of all."""
    rng = np.random.default_rng(len(kernel) + len(after))
    spreads, ones = kind in SPREADS, [1] * len(kernel)
    data = rng.integers(-1, 2, (BATCH, READ, *(ones if spreads else kernel))).astype(np.float32)
    weights = (rng.integers(-1, 2, (READ, MADE, *kernel)) * (rng.random((READ, MADE, *kernel)) < 0.4)).astype(
        np.float32
    )
    bias = rng.integers(-3, 4, MADE).astype(np.float32)
    if spreads:
        expected = np.einsum("nr,rm...->nm...", data.reshape(BATCH, READ), weights)
    else:
        product = data.reshape(BATCH, -1) @ weights.swapaxes(0, 1).reshape(MADE, -1).T
        expected = product.reshape(BATCH, MADE, *ones)
    numpy_type = np.float32 if data_type == "f32" else pytest.importorskip("ml_dtypes").bfloat16
    forward = kind in ("ConvTranspose", "Convolution")
    at = {"X": tuple(range(2, weights.ndim)), "I": (0 if forward else 1,), "O": (1 if forward else 0,)}
    lying = weights.transpose([axis for letter in weights_format for axis in at[letter]])
    image = np.moveaxis(data, 1, -1) if layout == "NXC" else data
    arrays = {"x": image, "w": lying, "b": bias}
    graph = og.Graph()
    inputs = [graph.input(name, data_type, arrays[name].shape) for name in ("x", "w")]
    if after == "bias":
        inputs.append(graph.input("b", data_type, bias.shape))
        expected = expected + bias.reshape(-1, *ones)
    y = graph.op(
        kind, *inputs, data_format=layout, weights_format=weights_format, name="y",
        strides=[2] * len(kernel), dilations=ones, pads_begin=[pads] * len(kernel), pads_end=[0] * len(kernel),
    )  # fmt: skip
    if after == "ReLU":
        graph.op("ReLU", y)
        expected = np.maximum(expected, 0)
    if pads:
        expected = expected[(..., *[slice(pads, None)] * len(kernel))]
    given = {tensor.name: arrays[tensor.name].astype(numpy_type) for tensor in graph.inputs}
    return graph, given, np.moveaxis(expected, 1, -1) if layout == "NXC" else expected


KINDS = [
    *(
        (kind, form, after)
        for kind, form in (("ConvTranspose", "IOX"), ("ConvTranspose", "XOI"))
        for after in ("", "ReLU", "bias")
    ),
    *(
        (kind, form, after)
        for kind, form in (("Convolution", "OIX"), ("Convolution", "XIO"))
        for after in ("", "ReLU", "bias")
    ),
    *(
        (kind, form, "")
        for kind, form in (("ConvolutionBackwardData", "OIX"), ("ConvolutionBackwardData", "XIO"))
    ),
    *(
        (kind, form, "")
        for kind, form in (("ConvTransposeBackwardData", "IOX"), ("ConvTransposeBackwardData", "XOI"))
    ),
]


@each("name", KERNELS)
@each("layout", ["NCX", "NXC"])
@each("data_type", ["f32", "bf16"])
@each(("kind", "weights_format", "after"), KINDS)
def test_exact(kind, weights_format, data_type, layout, name, after):
    graph, arrays, expected = case(kind, data_type, layout, weights_format, KERNELS[name], after)
    compiled = graph.compile()
    (made,) = compiled(arrays).values()
    np.testing.assert_array_equal(made, expected.astype(made.dtype))
    assert "matmul" in str(next(iter(compiled.explain().values())))


def test_exact_where_the_weights_are_constant():
    graph, arrays, expected = case("Convolution", "f32", "NCX", "OIX", (4, 3), "")
    declared = og.Graph()
    x = declared.input("x", "f32", arrays["x"].shape)
    given = {
        key: graph.ops[0].attributes.get(key) for key in ("strides", "pads_begin", "pads_end", "dilations")
    }
    declared.op(
        "Convolution", x, declared.constant(arrays["w"]), data_format="NCX", weights_format="OIX", **given
    )
    (made,) = declared.compile()(arrays["x"]).values()
    np.testing.assert_array_equal(made, expected)


def test_what_is_cut_off_is_a_transposed_convolution():
    graph, arrays, expected = case("ConvTranspose", "f32", "NCX", "IOX", (4, 4), "", pads=1)
    (made,) = graph.compile()(arrays).values()
    np.testing.assert_array_equal(made, expected)
