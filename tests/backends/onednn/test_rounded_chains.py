"""A Quantize and a Dequantize in the middle of a chain go along with the op before, as models of 8 bits have them."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from strategies import has_isa

pytestmark = pytest.mark.usefixtures("onednn")

CONV = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
CHANNELS = 32


def whole(*shape, seed=0, most=3):
    return np.random.default_rng(seed).integers(-most, most + 1, shape).astype(np.float32)


def rounded(graph, tensor, kind, scale=0.5, zero_point=0):
    how = {"scales": [scale], "zps": [zero_point]}
    return graph.dequantize(graph.quantize(tensor, **how, output_type=kind), **how)


def product(graph, anchor):
    """A convolution or matmul on integers, and its data's shape."""
    shape = {"NCX": [2, CHANNELS, 5, 5], "NXC": [2, 5, 5, CHANNELS], "MatMul": [2, 6, CHANNELS]}[anchor]
    x = rounded(graph, graph.input("x", "f32", shape), "u8", zero_point=9)
    taps = () if anchor == "MatMul" else (3, 3)
    w = graph.constant(whole(CHANNELS, CHANNELS, *taps).astype(np.int8))
    w = graph.dequantize(w, scales=[0.125], zps=[0])
    if anchor == "MatMul":
        return graph.matmul(x, w), shape
    return graph.convolution(x, w, **CONV, data_format=anchor, weights_format="OIX"), shape


def sum_of_two(anchor, kind, zero_point, residual, then="Add"):
    """What a product gives, in 8 bits that it leaves, with another tensor of 8 bits."""
    graph = og.Graph()
    y, shape = product(graph, anchor)
    y = rounded(graph, y, kind, 0.125, zero_point)
    other = rounded(graph, graph.input("r", "f32", shape), *residual)
    y = graph.relu(graph.op(then, y, other))
    graph.output(graph.quantize(y, scales=[0.25], zps=[3], output_type="u8"), name="y")
    return graph


def steps(model):
    return [s.name for e in model.explain().values() for s in e.steps]


def check(graph):
    """The compiled graph, which gives what NumPy does."""
    arrays = [whole(*t.shape, seed=seed) for seed, t in enumerate(graph.inputs)]
    model = graph.compile()
    expected = graph.compile(backend="numpy")(*arrays)
    for name, array in model(*arrays).items():
        np.testing.assert_array_equal(array, expected[name])
    return model


@each("residual", [("u8", 0.5, 0), ("u8", 0.25, 7), ("s8", 1.0, -3)])
@each("then", ["Add", "Subtract"])
@each(("kind", "zero_point"), [("u8", 0), ("u8", 100), ("s8", 0), ("s8", -20)])
@each("anchor", ["NCX", "NXC", "MatMul"])
def test_the_sum_behind_costs_no_pass(anchor, kind, zero_point, then, residual):
    """Results leave the range of the integers in the middle, where they are cut off."""
    model = check(sum_of_two(anchor, kind, zero_point, residual, then))
    if has_isa("avx512_core_vnni") or has_isa("avx2_vnni"):
        assert not [name for name in steps(model) if name.startswith(("binary", "dequantize"))], steps(model)


@each("most", ["tensor", "integers"])
def test_what_is_wanted_between_is_not_taken_along(most):
    graph = og.Graph()
    y, shape = product(graph, "NXC")
    integers = graph.quantize(y, scales=[0.125], zps=[5], output_type="u8")
    y = graph.dequantize(integers, scales=[0.125], zps=[5])
    graph.output(integers if most == "integers" else y, name="between")
    y = graph.add(y, rounded(graph, graph.input("r", "f32", shape), "u8"))
    graph.output(graph.quantize(y, scales=[0.25], zps=[3], output_type="u8"), name="y")
    check(graph)


def test_another_scale_on_the_way_back():
    graph = og.Graph()
    y, shape = product(graph, "NXC")
    y = graph.dequantize(graph.quantize(y, scales=[0.125], zps=[5], output_type="u8"), scales=[0.5], zps=[-2])
    y = graph.add(y, rounded(graph, graph.input("r", "f32", shape), "u8"))
    graph.output(graph.quantize(y, scales=[0.5], zps=[3], output_type="u8"), name="y")
    check(graph)


@each("zero_point", [0, 4])
def test_a_factor_is_read_as_integers_or_leaves_the_chain(zero_point):
    graph = sum_of_two("NXC", "u8", 9, ("u8", 0.5, zero_point), "Multiply")
    model = check(graph)
    if has_isa("avx512_core_vnni"):
        passes = [name for name in steps(model) if name.startswith("binary")]
        assert len(passes) == (1 if zero_point else 0), steps(model)


def test_what_ends_in_f32_ends_in_integers_before():
    """Nothing quantises what follows, so that the product makes 8 bits, which is less to write."""
    graph = og.Graph()
    y, shape = product(graph, "NXC")
    y = graph.add(rounded(graph, y, "u8", 0.125, 9), graph.input("r", "f32", shape))
    graph.output(y, name="y")
    model = check(graph)
    arrays = [whole(*shape, seed=seed) for seed in range(2)]
    if has_isa("avx512_core_vnni"):
        made = [e.tensors[-1] for e in profiled(model, *arrays) if e.name == "convolution"]
        assert [text.split()[1] for text in made] == ["u8"]


def profiled(model, *arrays):
    with og.profile() as profile:
        model(*arrays)
    return [e for e in profile.events if e.kind.value != "partition"]


def chain_of_two_sums(graph, x, names, zero_points):
    for name, zero_point in zip(names, zero_points, strict=True):
        x = graph.add(x, rounded(graph, graph.input(name, "f32", x.shape), "u8", 0.25, zero_point))
        x = rounded(graph, x, "u8", 0.25, 11)
    return x


@each("zero_points", [(0, 0), (3, 0), (0, 6), (3, 6)])
def test_sums_of_sums(zero_points):
    graph = og.Graph()
    x = rounded(graph, graph.input("x", "f32", [2, 6, 40]), "u8", 0.25, 20)
    graph.output(chain_of_two_sums(graph, x, "ab", zero_points), name="y")
    model = check(graph)
    if has_isa("avx512_core_vnni") or has_isa("avx2"):
        assert len([name for name in steps(model) if name.startswith("binary")]) == 1, steps(model)


# --- copies that quantise ------------------------------------------------------------------------


@each("order", ["as it lies", "turned"])
@each(("kind", "zero_point"), [("u8", 0), ("u8", 9), ("s8", 0), ("s8", -7)])
def test_f32_is_quantised_by_a_binary(kind, zero_point, order):
    graph = og.Graph()
    x = graph.input("x", "f32", [3, 5, 33], strides=[165, 33, 1] if order == "as it lies" else [165, 1, 5])
    graph.output(graph.quantize(x, scales=[0.25], zps=[zero_point], output_type=kind), name="y")
    x = whole(3, 5, 33, most=400) / 8
    x[0, 0, :4] = np.inf, -np.inf, 3e38, -3e38
    if order == "turned":
        x = np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)
    least, most = (0, 255) if kind == "u8" else (-128, 127)
    expected = np.clip(np.rint(x.astype(np.float64) * 4 + zero_point), least, most)
    model = graph.compile()
    np.testing.assert_array_equal(model(x)["y"], expected)
    if has_isa("avx2"):
        (event,) = [e for e in profiled(model, x) if e.name == "quantize"]
        assert any(text.startswith("src_1") for text in event.tensors)


def test_integers_become_those_of_another_scale_by_a_binary():
    graph = og.Graph()
    x = graph.dequantize(graph.input("x", "u8", [256]), scales=[0.5], zps=[9])
    graph.output(graph.quantize(x, scales=[0.25], zps=[-100], output_type="s8"), name="y")
    x = np.arange(256, dtype=np.uint8)
    expected = np.clip((x.astype(int) - 9) * 2 - 100, -128, 127)
    model = graph.compile()
    np.testing.assert_array_equal(model(x)["y"], expected)
    if has_isa("avx2"):
        (event,) = [e for e in profiled(model, x) if e.name == "quantize"]
        assert any(text.startswith("src_1") for text in event.tensors)


# --- gates: means of integers, and products with what they become ----------------------------------


@each("turned", [False, True])
@each("points", [(0, 0), (9, 0), (0, 4), (9, 4)])
@each("shape", [(2, 24, 5, 5), (1, 40, 7, 3), (3, 7, 11)])
def test_a_gate_of_integers_is_not_made_real(shape, points, turned):
    graph = og.Graph()
    x, gate = graph.input("x", "u8", shape), graph.input("gate", "u8", [*shape[:2], *(1 for _ in shape[2:])])
    real = [
        graph.dequantize(t, scales=[scale], zps=[z])
        for t, scale, z in zip((x, gate), (0.5, 0.25), points, strict=True)
    ]
    y = graph.multiply(*(real[::-1] if turned else real))
    graph.output(graph.quantize(y, scales=[4.0], zps=[20], output_type="u8"), name="y")
    rng = np.random.default_rng(5)
    arrays = [rng.integers(0, 256, t.shape, np.uint8) for t in graph.inputs]
    model = graph.compile()
    np.testing.assert_array_equal(model(*arrays)["y"], graph.compile(backend="numpy")(*arrays)["y"])
    if has_isa("avx2") and not points[1]:
        assert not [name for name in steps(model) if name.startswith("dequantize")], steps(model)


@each("keep", [True, False])
@each(
    ("shape", "axes"),
    [((2, 33, 7, 5), (2, 3)), ((2, 6, 5, 20), (1, 2)), ((1, 64, 9), (2,)), ((1, 5, 3, 4, 6), (2, 3, 4))],
)
@each(("kind", "points"), [("u8", (0, 0)), ("u8", (7, 100)), ("s8", (-20, 11))])
def test_a_mean_of_integers_is_rounded_once(kind, points, shape, axes, keep):
    graph = og.Graph()
    x = graph.dequantize(graph.input("x", kind, shape), scales=[0.5], zps=[points[0]])
    y = graph.op("ReduceMean", x, axes=list(axes), keep_dims=keep)
    graph.output(graph.quantize(y, scales=[0.125], zps=[points[1]], output_type=kind), name="y")
    least, most = (0, 255) if kind == "u8" else (-128, 127)
    x = np.random.default_rng(6).integers(least, most + 1, shape)
    means = (x - float(points[0])).mean(axes, keepdims=keep) * 4 + points[1]
    model = graph.compile()
    made = model(x.astype(np.uint8 if kind == "u8" else np.int8))["y"]
    assert np.abs(np.clip(means, least, most) - made).max() < 0.5001
    if has_isa("avx512_core") and axes == (1, 2):
        assert [name.split(":")[0] for name in steps(model)] == ["pooling (jit_int"]
