"""Slices as views: every kind of reader of one, in both layouts of images, against NumPy, exactly or to rounding."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

DENSE = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
HALF = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
POOL = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "kernel": [2, 2]}
N, C, H, W = 2, 16, 10, 12
"""Of the slice."""


def weights(graph, *shape):
    return graph.input(f"w{len(graph.inputs)}", "f32", shape)


def images(graph, last):
    return weights(graph, *((N, H, W, C) if last else (N, C, H, W)))


def formats(last):
    return {"data_format": "NXC" if last else "NCX"}


def both(last):
    return formats(last) | {"weights_format": "OIX"}


def half_as_large(graph, last):
    return weights(graph, *((N, H // 2, W // 2, C) if last else (N, C, H // 2, W // 2)))


READERS = {
    "ReLU": lambda g, s, last: g.op("ReLU", s),
    "Add": lambda g, s, last: g.op("Add", images(g, last), s),
    "Add first": lambda g, s, last: g.op("Add", s, images(g, last)),
    "Add a part of it": lambda g, s, last: g.op("Add", s, weights(g, 1)),
    "Add twice": lambda g, s, last: g.op("Add", s, s),
    "BiasAdd": lambda g, s, last: g.op("BiasAdd", s, weights(g, C), **formats(last)),
    "BiasAddBackward": lambda g, s, last: g.op("BiasAddBackward", s, **formats(last)),
    "Concat": lambda g, s, last: g.op("Concat", s, images(g, last), axis=1),
    "Convolution": lambda g, s, last: g.op("Convolution", s, weights(g, 8, C, 3, 3), **DENSE, **both(last)),
    "Convolution and Add": lambda g, s, last: g.op(
        "Add", g.op("Convolution", images(g, last), weights(g, C, C, 3, 3), **DENSE, **both(last)), s
    ),
    "ConvTranspose": lambda g, s, last: g.op(
        "ConvTranspose", s, weights(g, C, 8, 2, 2), **HALF, **formats(last), weights_format="IOX"
    ),
    "ConvolutionBackwardData": lambda g, s, last: g.op(
        "ConvolutionBackwardData",
        s,
        weights(g, C, 8, 3, 3),
        dst_shape=[N, H, W, 8] if last else [N, 8, H, W],
        **DENSE,
        **both(last),
    ),
    "ConvolutionBackwardWeights of src": lambda g, s, last: g.op(
        "ConvolutionBackwardWeights", s, images(g, last), weights_shape=[C, C, 3, 3], **DENSE, **both(last)
    ),
    "ConvolutionBackwardWeights of diff_dst": lambda g, s, last: g.op(
        "ConvolutionBackwardWeights", images(g, last), s, weights_shape=[C, C, 3, 3], **DENSE, **both(last)
    ),
    "ConvTransposeBackwardData": lambda g, s, last: g.op(
        "ConvTransposeBackwardData", s, weights(g, 8, C, 2, 2), **HALF, **formats(last), weights_format="IOX"
    ),
    "ConvTransposeBackwardWeights": lambda g, s, last: g.op(
        "ConvTransposeBackwardWeights",
        half_as_large(g, last),
        s,
        weights_shape=[C, C, 2, 2],
        **HALF,
        **formats(last),
        weights_format="IOX",
    ),
    "MaxPool": lambda g, s, last: g.op("MaxPool", s, **POOL, **formats(last)),
    "MaxPoolBackward": lambda g, s, last: g.op(
        "MaxPoolBackward", s, half_as_large(g, last), **POOL, **formats(last)
    ),
    "AvgPool": lambda g, s, last: g.op("AvgPool", s, **POOL, **formats(last), exclude_pad=False),
    "AvgPoolBackward": lambda g, s, last: g.op(
        "AvgPoolBackward",
        s,
        src_shape=[N, 2 * H, 2 * W, C] if last else [N, C, 2 * H, 2 * W],
        **POOL,
        **formats(last),
        exclude_pad=False,
    ),
    "ReLUBackward": lambda g, s, last: g.op("ReLUBackward", images(g, last), s),
    "ReLUBackward of src": lambda g, s, last: g.op("ReLUBackward", s, images(g, last)),
    "Interpolate": lambda g, s, last: g.op(
        "Interpolate", s, mode="nearest", sizes=[2 * H, 2 * W], **formats(last)
    ),
    "BatchNormInference": lambda g, s, last: g.op(
        "BatchNormInference",
        s,
        *[weights(g, C) for _ in range(3)],
        g.op("Square", weights(g, C)),
        epsilon=0.5,
        **formats(last),
    ),
    "BatchNormForwardTraining": lambda g, s, last: g.op(
        "BatchNormForwardTraining",
        s,
        *[weights(g, C) for _ in range(2)],
        epsilon=0.5,
        momentum=0.5,
        **formats(last),
    ),
    "LayerNorm": lambda g, s, last: g.op(
        "LayerNorm", s, *[weights(g, s.shape[-1]) for _ in range(2)], keep_stats=False
    ),
    "SoftMax": lambda g, s, last: g.op("SoftMax", s, axis=1),
    "PReLU": lambda g, s, last: g.op("PReLU", s, weights(g, C), **formats(last)),
    "MatMul": lambda g, s, last: g.op("MatMul", s, weights(g, s.shape[-1], 5)),
    "MatMul of two": lambda g, s, last: g.op("MatMul", s, s, transpose_b=True),
    "ReduceSum": lambda g, s, last: g.op("ReduceSum", s, axes=[0, 1, 2]),
    "ReduceMax": lambda g, s, last: g.op("ReduceMax", s, axes=[1], keep_dims=True),
    "ReduceMean": lambda g, s, last: g.op("ReduceMean", s, axes=[1, 2] if last else [2, 3]),
    "StaticReshape": lambda g, s, last: g.op("StaticReshape", s, shape=[N, -1], special_zero=False),
    "StaticTranspose": lambda g, s, last: g.op("StaticTranspose", s, order=[0, 2, 3, 1]),
    "TypeCast": lambda g, s, last: g.op(
        "TypeCast", g.op("TypeCast", s, output_type="bf16"), output_type="f32"
    ),
    "Quantize": lambda g, s, last: g.op("Quantize", s, scales=[0.5], zps=[3], output_type="u8"),
    "HostSlice": lambda g, s, last: g.op(
        "HostSlice", s, axes=[0, 2], starts=[1, 1], stops=[2, -1], steps=[1, 1]
    ),
    "HostCumSum": lambda g, s, last: g.op("HostCumSum", s, axis=1),
    "nobody": lambda g, s, last: s,
}
"""Kind of reader → adds it."""

SLICES = {
    "channels": (lambda c: [slice(None), slice(c, 2 * c)], 2),
    "every second channel": (lambda c: [slice(None), slice(1, None, 2)], 2),
    "rows from the end": (lambda c: [slice(None), slice(None), slice(-H, None)], 1),
    "backwards": (lambda c: [slice(None), slice(None, None, -1)], 1),
    "images": (lambda c: [slice(1, None, 2)], 1),
}


def sliced(graph, which, last):
    """A slice of a sum, of N × C × H × W in its order."""
    cut, channels = SLICES[which]
    slices = (cut(C) + [slice(None)] * 4)[:4]
    sizes = [2 * N if which == "images" else N, channels * C, H + 3 if "rows" in which else H, W]
    order = (0, 2, 3, 1) if last else (0, 1, 2, 3)
    x = weights(graph, *[sizes[a] for a in order])
    taken = [(axis, slices[a]) for axis, a in enumerate(order) if slices[a] != slice(None)]
    most = 2**31
    return graph.op(
        "HostSlice",
        graph.op("Add", x, x),
        axes=[axis for axis, _ in taken],
        starts=[(0 if (one.step or 1) > 0 else most) if one.start is None else one.start for _, one in taken],
        stops=[
            (most if (one.step or 1) > 0 else -most) if one.stop is None else one.stop for _, one in taken
        ],
        steps=[one.step or 1 for _, one in taken],
    )


@pytest.mark.no_cover
@each("last", [True, False], ids=["last", "first"])
@each("which", SLICES)
@each("reader", READERS)
def test_readers_see_the_slice_and_nothing_else(reader, which, last):
    graph = og.Graph()
    result = READERS[reader](graph, sliced(graph, which, last), last)
    for tensor in result if isinstance(result, tuple) else (result,):
        graph.output(tensor)
    feeds = {
        tensor.name: np.random.default_rng(number).integers(-2, 3, tensor.shape).astype(np.float32)
        for number, tensor in enumerate(graph.inputs)
    }
    mine, expected = graph.compile()(feeds), graph.compile(backend="numpy")(feeds)
    assert mine.keys() == expected.keys()
    for name, want in expected.items():
        if reader in ("BatchNormInference", "BatchNormForwardTraining", "LayerNorm", "SoftMax", "ReduceMean"):
            np.testing.assert_allclose(mine[name], want, rtol=2e-5, atol=2e-5)
        else:
            np.testing.assert_array_equal(mine[name], want)


@pytest.mark.parametrize("which", [name for name in SLICES if name != "backwards"])
def test_a_slice_is_no_step(which):
    graph = og.Graph()
    graph.op("Convolution", sliced(graph, which, True), weights(graph, 8, C, 3, 3), **DENSE, **both(True))
    names = [name for told in graph.compile().explain().values() for name in told.implementations]
    assert not any("numpy" in name for name in names), names


def test_integers_behind_a_slice():
    """What is quantised is sliced as integers, and convolved so."""
    graph = og.Graph()
    x = graph.input("x", "u8", (2, 9, 9, 32))
    y = graph.op("Dequantize", x, scales=[0.5], zps=[3])
    y = graph.op("HostSlice", y, axes=[3], starts=[8], stops=[24], steps=[1])
    w = graph.op("Dequantize", graph.input("w", "s8", (8, 16, 3, 3)), scales=[0.25], zps=[0])
    graph.op("Convolution", y, w, **DENSE, **both(True))
    rng = np.random.default_rng(3)
    feeds = {
        "x": rng.integers(0, 9, (2, 9, 9, 32)).astype(np.uint8),
        "w": rng.integers(-3, 4, (8, 16, 3, 3)).astype(np.int8),
    }
    mine, expected = graph.compile()(feeds), graph.compile(backend="numpy")(feeds)
    for name, want in expected.items():
        np.testing.assert_array_equal(mine[name], want)
