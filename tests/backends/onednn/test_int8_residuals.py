"""Residuals of 8-bit integers: added by a post-op as they lie, without a copy in f32, where the result is rounded."""

import numpy as np
import onednn_graph as og
from rows import each
from strategies import has_isa

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}


def whole(*shape, seed=0, most=3):
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


def rounded(graph, tensor, kind, zero_point):
    how = {"scales": [0.5], "zps": [zero_point]}
    return graph.dequantize(graph.quantize(tensor, **how, output_type=kind), **how)


def block(anchor, kind, turned, residual_type, zero_point, quantized, channels=32):
    """A convolution or matmul on integers, and the sum or difference with what came in."""
    graph = og.Graph()
    if anchor == "MatMul":
        x = graph.input("x", "f32", [2, 6, channels])
        w = graph.dequantize(graph.constant(whole(channels, channels).astype(np.int8)), scales=[1.0], zps=[0])
        y = graph.matmul(rounded(graph, x, "u8", 9), w)
    else:
        x = graph.input("x", "f32", [2, channels, 5, 5] if anchor == "NCX" else [2, 5, 5, channels])
        w = graph.dequantize(
            graph.constant(whole(channels, channels, 3, 3).astype(np.int8)), scales=[1.0], zps=[0]
        )
        y = graph.convolution(rounded(graph, x, "u8", 9), w, **CONV, data_format=anchor, weights_format="OIX")
    residual = rounded(graph, graph.input("r", "f32", x.shape), residual_type, zero_point)
    y = graph.relu(graph.op(kind, *((residual, y) if turned else (y, residual))))
    if quantized:
        y = rounded(graph, graph.multiply(y, graph.constant(np.float32(1 / 16))), "u8", 0)
    graph.output(y, name="y")
    return graph


@each("quantized", [False, True])
@each(("residual_type", "zero_point"), [("u8", 0), ("u8", 7), ("s8", 0), ("s8", -3)])
@each("turned", [False, True])
@each("kind", ["Add", "Subtract"])
@each("anchor", ["NCX", "NXC", "MatMul"])
def test_it_is_exact_and_no_copy(anchor, kind, turned, residual_type, zero_point, quantized):
    graph = block(anchor, kind, turned, residual_type, zero_point, quantized)
    shapes = [t.shape for t in graph.inputs]
    arrays = [whole(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    model = graph.compile()
    expected = block(anchor, kind, turned, residual_type, zero_point, quantized).compile(backend="numpy")
    np.testing.assert_array_equal(model(*arrays)["y"], expected(*arrays)["y"])
    if has_isa("avx512_core_vnni") or has_isa("avx2_vnni"):
        steps = [s.name for e in model.explain().values() for s in e.steps]
        # Of the result if that was quantised; of the residual otherwise, for the post-ops would round it.
        assert [name for name in steps if name.startswith("dequantize")] == ["dequantize (jit:uni)"], steps


def test_a_residual_of_integers_does_not_round_a_result_in_f32():
    """(q − z)·s is what is left where the product is 0, to the last bit."""
    graph = og.Graph()
    a, b = graph.input("a", "f32", [4, 16]), graph.input("b", "f32", [16, 16])
    r = graph.dequantize(graph.input("r", "s8", [4, 16]), scales=[0.1], zps=[3])
    graph.output(graph.add(graph.matmul(a, b), r), name="y")
    q = np.random.default_rng(2).integers(-128, 128, (4, 16)).astype(np.int8)
    zeros = np.zeros((4, 16), np.float32), np.ones((16, 16), np.float32)
    expected = (q.astype(np.float32) - 3) * np.float32(0.1)
    np.testing.assert_array_equal(graph.compile()(*zeros, q)["y"], expected)


def test_one_that_broadcasts_is_read_in_f32():
    graph = og.Graph()
    x, r = graph.input("x", "f32", [4, 32]), graph.input("r", "f32", [1, 32])
    w = graph.dequantize(graph.constant(whole(32, 32).astype(np.int8)), scales=[1.0], zps=[0])
    graph.add(graph.matmul(rounded(graph, x, "u8", 9), w), rounded(graph, r, "u8", 7), name="y")
    arrays = whole(4, 32), whole(1, 32, seed=1)
    expected = arrays[0] @ whole(32, 32) + arrays[1]
    np.testing.assert_array_equal(graph.compile()(*arrays)["y"], expected)


def test_what_is_asked_for_early_is_fused_still():
    """The second branch of a sum is lowered when the first one takes the sum along, and makes integers itself."""
    graph = og.Graph()
    x = rounded(graph, graph.input("x", "f32", [1, 32, 8, 8]), "u8", 0)

    def conv(seed):
        w = graph.constant(whole(32, 32, 3, 3, seed=seed).astype(np.int8))
        w = graph.dequantize(w, scales=[1.0], zps=[0])
        return graph.convolution(x, w, **CONV, data_format="NCX", weights_format="OIX")

    first, second = conv(1), conv(2)
    how = {"scales": [8.0], "zps": [128]}
    second = graph.dequantize(graph.quantize(second, **how, output_type="u8"), **how)
    graph.relu(graph.add(first, second), name="y")
    data = np.abs(whole(1, 32, 8, 8))
    model = graph.compile()
    steps = [s.name for e in model.explain().values() for s in e.steps if not s.prepared]
    if has_isa("avx512_core_vnni") or has_isa("avx2_vnni"):
        assert sum(name.startswith("quantize") for name in steps) == 1, steps  # the input's
    np.testing.assert_array_equal(model(data)["y"], graph.compile(backend="numpy")(data)["y"])
