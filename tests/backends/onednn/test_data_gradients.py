"""Gradients by a convolution's data, exactly, on images that lie channels-last, and by the kernel that is preferred."""

import numpy as np
import onednn_graph as og
import pytest

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

# groups, input and output channels of each, kernel, strides, dilations, pads before and behind, size
CASES = {
    "depthwise": (16, 1, 1, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (7, 9)),
    "depthwise, stride 2": (96, 1, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (14, 14)),
    "depthwise, stride 2, odd": (24, 1, 1, (3, 3), (2, 2), (1, 1), (0, 1), (1, 0), (13, 8)),
    "depthwise, 5 × 5": (40, 1, 1, (5, 5), (2, 1), (1, 1), (2, 2), (2, 2), (11, 10)),
    "depthwise, few": (3, 1, 1, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (9, 9)),
    "depthwise, dilated": (32, 1, 1, (3, 3), (1, 1), (2, 2), (2, 2), (2, 2), (9, 9)),
    "multiplied": (16, 1, 2, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (9, 9)),
    "grouped": (4, 8, 4, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (6, 7)),
    "dense": (1, 16, 32, (3, 3), (1, 1), (1, 1), (1, 1), (1, 1), (8, 8)),
    "dense, stride 2": (1, 16, 32, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), (8, 9)),
    "dense, 1 × 1": (1, 24, 17, (1, 1), (1, 1), (1, 1), (0, 0), (0, 0), (5, 5)),
    "dense, 1 × 1, stride 2": (1, 64, 16, (1, 1), (2, 2), (1, 1), (0, 0), (0, 0), (8, 8)),
    "images": (1, 3, 16, (7, 7), (2, 2), (1, 1), (3, 3), (3, 3), (16, 18)),
}


def step(name, data_type, layout):
    """The gradient of a convolution of doubled data, doubled again, so that nothing lies as a user has it."""
    groups, inputs, outputs, kernel, strides, dilations, begin, end, size = CASES[name]
    channels = groups * inputs
    graph = og.Graph()
    shape = (2, channels, *size) if layout == "NCX" else (2, *size, channels)
    x = graph.input("x", data_type, shape)
    w = graph.input("w", data_type, (groups * outputs, inputs, *kernel))
    y = graph.op(
        "Convolution", graph.op("Add", x, x), w, data_format=layout, weights_format="OIX", groups=groups,
        strides=strides, dilations=dilations, pads_begin=begin, pads_end=end,
    )  # fmt: skip
    found = graph.gradients(graph.op("Square", y), [x, w], 0.5)
    return graph, found


@pytest.mark.no_cover
@pytest.mark.parametrize("layout", ["NCX", "NXC"])
@pytest.mark.parametrize("data_type", ["f32", "bf16"])
@pytest.mark.parametrize("name", CASES)
def test_exact(name, data_type, layout):
    graph, found = step(name, data_type, layout)
    rng = np.random.default_rng(len(name))
    dtype = np.float32 if data_type == "f32" else pytest.importorskip("ml_dtypes").bfloat16
    arrays = {t.name: (rng.random(t.dims) < 0.1).astype(dtype) for t in graph.inputs}
    mine, expected = graph.compile()(arrays), graph.compile(backend="numpy")(arrays)
    for tensor in found:
        np.testing.assert_array_equal(mine[tensor], expected[tensor], err_msg=str(tensor))


@pytest.mark.parametrize("data_type", ["f32", "bf16"])
def test_depthwise_gradients_have_the_kernel_for_them(data_type):
    graph, _ = step("depthwise, stride 2", data_type, "NXC")
    names = [name for told in graph.compile().explain().values() for name in told.implementations]
    if any("avx512_core_bf16" in name for name in names) or data_type == "f32":
        assert not any("brgconv_strided" in name for name in names)
