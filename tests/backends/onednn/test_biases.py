"""Biases of transposed convolutions, exact: the library adds some in a reference loop, and these go behind."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

# groups, input and output channels of each, kernel, strides, size
CASES = {
    "doubling": (1, 64, 32, (2, 2), (2, 2), (6, 5)),
    "doubling, odd channels": (1, 17, 5, (2, 2), (2, 2), (6, 5)),
    "overlapping": (1, 32, 48, (4, 4), (2, 2), (5, 5)),
    "unstrided": (1, 16, 32, (3, 3), (1, 1), (6, 6)),
    "wide": (1, 512, 64, (4, 4), (2, 2), (3, 3)),
    "grouped": (4, 8, 8, (3, 3), (2, 2), (5, 5)),
    "depthwise": (32, 1, 1, (3, 3), (2, 2), (5, 5)),
    "1-D": (1, 32, 16, (8,), (4,), (20,)),
    "3-D": (1, 16, 16, (2, 2, 2), (2, 2, 2), (3, 4, 3)),
}


@each("behind", ["", "ReLU", "all"])
@each("layout", ["NCX", "NXC"])
@each("data_type", ["f32", "bf16"])
@each("name", CASES)
def test_exact(name, data_type, layout, behind):
    groups, inputs, outputs, kernel, strides, size = CASES[name]
    channels, none = groups * inputs, [0] * len(size)
    shape = (2, channels, *size) if layout == "NCX" else (2, *size, channels)
    graph = og.Graph()
    x = graph.input("x", data_type, shape)
    w = graph.input("w", data_type, (channels, outputs, *kernel))
    b = graph.input("b", data_type, (groups * outputs,))
    y = graph.op(
        "ConvTranspose", x, w, b, data_format=layout, weights_format="IOX", groups=groups, strides=strides,
        dilations=[1] * len(size), pads_begin=none, pads_end=none,
    )  # fmt: skip
    if behind:
        y = graph.op("ReLU", y)
    if behind == "all":
        y = graph.op("Add", y, graph.input("z", data_type, y.dims))
    rng = np.random.default_rng(len(name))
    dtype = np.float32 if data_type == "f32" else pytest.importorskip("ml_dtypes").bfloat16
    arrays = {t.name: rng.integers(-3, 4, t.dims).astype(np.float32) for t in graph.inputs}
    arrays["x"] *= rng.random(shape) < 8 / channels
    arrays["w"] = np.sign(arrays["w"])
    arrays = {key: array.astype(dtype) for key, array in arrays.items()}
    model = graph.compile()
    (mine,), (expected,) = (each(arrays).values() for each in (model, graph.compile(backend="numpy")))
    np.testing.assert_array_equal(mine, expected)


def test_no_reference_loop_adds_it():
    graph = og.Graph()
    x, w = graph.input("x", "f32", (2, 64, 16, 16)), graph.input("w", "f32", (64, 32, 2, 2))
    both = {"data_format": "NCX", "weights_format": "IOX", "pads_begin": [0, 0], "pads_end": [0, 0]}
    bias = graph.input("b", "f32", (32,))
    graph.op("ConvTranspose", x, w, bias, strides=[2, 2], dilations=[1, 1], **both)
    (told,) = graph.compile().explain().values()
    assert not any("conv:any+brgconv" in name for name in told.implementations)


@pytest.mark.parametrize(("channels", "groups"), [(16, 1), (20, 1), (20, 20)])
def test_a_bias_gradient_beside_weights_in_the_primitive_s_own_layout(onednn, channels, groups):
    graph = og.Graph()
    x, dy = (graph.input(name, "f32", (2, channels, 12, 12)) for name in ("x", "dy"))
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    shape = [channels, channels // groups, 3, 3]
    dw = graph.op(
        "ConvolutionBackwardWeights", x, dy, weights_shape=shape, groups=groups, **formats, **same, name="dw"
    )
    db = graph.op("BiasAddBackward", dy, data_format="NCX", name="db")
    for tensor in (dw, db):
        graph.output(tensor)
    graph.finalize()
    (partition,) = graph.get_partitions()
    free = og.LogicalTensor(dw.id, "f32", layout_type="any")
    compiled = partition.compile(None, [free, db])
    assert compiled.explain().only.backend == "onednn"
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, (2, channels, 12, 12)).astype(np.float32) for _ in range(2)]
    expected = graph.compile(backend="numpy")(*arrays)
    weights, bias = compiled.execute(None, arrays)
    lies = compiled.query_logical_tensor(dw.id)
    if lies.layout_type is og.LayoutType.opaque:
        weights = og.Tensor.from_opaque(lies, weights, compiled.engine).numpy()
    np.testing.assert_array_equal(weights, expected["dw"])
    np.testing.assert_array_equal(bias, expected["db"])
