"""`fpmath_mode` is the leave to multiply f32 in fewer bits, and for no other type.

Where the library has no kernel of f16, for the layout or on the CPU, it is copied to f32, which keeps its digits then.
"""

import numpy as np
import onednn_graph as og
import pytest

ODD = 2 * np.random.default_rng(0).integers(512, 1024, (2, 64, 8, 8)) + 1
"""Of 11 bits, as many as f16 has."""
DENSE = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
FORMATS = {"data_format": "NCX", "weights_format": "OIX"}
EYE = np.eye(64)


def convolution(graph, x):
    weights = graph.constant(EYE.reshape(64, 64, 1, 1).astype(np.float16))
    return graph.op("Convolution", x, weights, **DENSE, **FORMATS)


def gradient_by_data(graph, x):
    weights = graph.constant(EYE.reshape(64, 64, 1, 1).astype(np.float16))
    return graph.op("ConvolutionBackwardData", x, weights, dst_shape=[2, 64, 8, 8], **DENSE, **FORMATS)


def product(graph, x):
    rows = graph.op("StaticReshape", x, shape=[128, 64], special_zero=False)
    return graph.op("MatMul", rows, graph.constant(EYE.astype(np.float16)))


def gradient_by_weights(graph, x):
    """Of one pixel each, so that nothing is added up: (2, 64, 8, 8) of weights, channels before pixels."""
    wide = graph.op("StaticReshape", x, shape=[1, 8192, 1, 1], special_zero=False)
    one = graph.constant(np.ones((1, 1, 1, 1), np.float16))
    return graph.op(
        "ConvolutionBackwardWeights", wide, one, weights_shape=[1, 8192, 1, 1], **DENSE, **FORMATS
    )


@pytest.mark.parametrize("mode", ["strict", "bf16", "any"])
@pytest.mark.parametrize("build", [convolution, gradient_by_data, product, gradient_by_weights])
def test_f16_is_multiplied_as_f16(onednn, build, mode):
    graph = og.Graph(fpmath_mode=mode)
    y = build(graph, graph.input("x", "f16", ODD.shape))
    got = graph.compile()({"x": ODD.astype(np.float16)})[y.name]
    np.testing.assert_array_equal(got.ravel(), ODD.ravel())


@pytest.mark.parametrize("mode", ["strict", "bf16", "any"])
def test_f16_in_layouts_that_are_copied_is_multiplied_as_f16(onednn, mode):
    graph = og.Graph(fpmath_mode=mode)
    a = graph.input("a", "f16", (1, 7, 7))
    b = graph.input("b", "f16", (1, 7), strides=(1, 4))
    y = graph.op("MatMul", a, b, transpose_a=True, transpose_b=True)
    left = ODD[0, :7, 0, :7][None].astype(np.float16)
    right = np.zeros((7, 4), np.float16)[:, :1].T
    right[0, 0] = 1
    got = graph.compile()({"a": left, "b": right})[y.name]
    np.testing.assert_array_equal(got[0, :, 0], left[0, 0])
