"""Products by constant matrices that are convolutions of an image of one row, with all that follows them."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from strategies import has_isa

pytestmark = pytest.mark.usefixtures("onednn")
WIDE = 256


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float32)


def ways(model):
    """What the products run as."""
    steps = [step for one in model.explain().values() for step in one.steps]
    return [step.name.partition(" (")[0] for step in steps if step.name.startswith("matmul")]


def expected(rows):
    """How such a product runs on this machine."""
    alone = has_isa("avx2") and not has_isa("avx512_core")
    return "matmul as convolution" if alone and rows > 1 else "matmul"


FOLLOWS = {
    "nothing": lambda g, y, x: y,
    "a function": lambda g, y, x: g.relu(y),
    "a residual": lambda g, y, x: g.relu(g.add(y, x)),
    "a column": lambda g, y, x: g.multiply(y, g.constant(numbers(x.shape[-2], 1, seed=5))),
    "a number": lambda g, y, x: g.multiply(y, g.constant(np.float32(2))),
    "a row and a function": lambda g, y, x: g.abs(g.add(y, g.constant(numbers(WIDE, seed=6)))),
}


@each("turned", [False, True])
@each("bias", [False, True])
@each("shape", [(1,), (2,), (7,), (16,), (40,), (3, 5), (2, 1, 9)])
@each("name", FOLLOWS)
def test_exact(name, shape, bias, turned):
    graph = og.Graph()
    x = graph.input("x", "f32", (*shape, WIDE))
    weights = numbers(WIDE, WIDE, seed=1)
    w = graph.constant(np.ascontiguousarray(weights.T) if turned else weights)
    more = [graph.constant(numbers(WIDE, seed=2))] if bias else []
    x2 = graph.relu(x)
    graph.output(FOLLOWS[name](graph, graph.matmul(x2, w, *more, transpose_b=turned), x2), name="y")
    model, array = graph.compile(), numbers(*shape, WIDE, seed=3)
    np.testing.assert_array_equal(model(array)["y"], graph.compile(backend="numpy")(array)["y"])
    rows = int(np.prod(shape))
    assert ways(model) == [expected(rows)]


def test_parts_of_rows_and_results_in_another_order():
    """Columns that lie apart, and what lies by columns, stay products."""
    graph = og.Graph()
    x = graph.input("x", "f32", (8, 2 * WIDE))
    part = graph.op("HostSlice", x, axes=[1], starts=[0], stops=[2 * WIDE], steps=[2])
    y = graph.matmul(part, graph.constant(numbers(WIDE, WIDE)))
    graph.output(graph.static_transpose(y, order=[1, 0]), name="y")
    array = numbers(8, 2 * WIDE, seed=3)
    np.testing.assert_array_equal(graph.compile()(array)["y"], graph.compile(backend="numpy")(array)["y"])


def test_many_rows_of_any_number_do_not_hold_weights_twice():
    graph = og.Graph()
    x = graph.input("x", "f32", (-1, WIDE))
    graph.output(graph.matmul(x, graph.constant(numbers(WIDE, WIDE)), name="y"))
    model, closed = graph.compile(), graph.compile(backend="numpy")
    for rows, way in ((1, "matmul"), (4, expected(4)), (64, "matmul")):
        array = numbers(rows, WIDE, seed=3)
        np.testing.assert_array_equal(model(array)["y"], closed(array)["y"])
        assert ways(model) == [way]


def test_small_matrices_stay_products():
    graph = og.Graph()
    graph.output(graph.matmul(graph.input("x", "f32", (8, 32)), graph.constant(numbers(32, 32)), name="y"))
    assert ways(graph.compile()) == ["matmul"]


@each("shape", [(1,), (5,), (33,), (2, 7)])
@each("result", ["f32", "u8", "u8 and a residual"])
@each("many", [False, True])
def test_integers_of_7_bits_are_exact(many, result, shape):
    """With zero points, a scale for each column, a bias, and what is rounded again; extremes among the numbers."""
    rng = np.random.default_rng(len(result))
    weights = rng.choice([-64, -1, 0, 3, 64], (WIDE, WIDE)).astype(np.int8)
    scales = (2.0 ** rng.integers(-9, -6, WIDE)).tolist() if many else [2.0**-8]
    graph = og.Graph()
    x = graph.input("x", "u8", (*shape, WIDE))
    points = {"scales": [0.5], "zps": [7], "qtype": "per_tensor"}
    how = "per_channel" if many else "per_tensor"
    a = graph.op("Dequantize", x, **points)
    w = graph.op(
        "Dequantize",
        graph.constant(weights, name="w"),
        scales=scales,
        zps=[0] * len(scales),
        qtype=how,
        axis=1,
    )
    y = graph.op("MatMul", a, w, graph.constant(numbers(WIDE, seed=2)))
    if "residual" in result:
        y = graph.op("Add", y, a)
    if result != "f32":
        y = graph.op("Quantize", y, scales=[4.0], zps=[100], qtype="per_tensor")
    graph.output(y, name="y")
    array = rng.choice([0, 1, 200, 255], (*shape, WIDE)).astype(np.uint8)
    model = graph.compile()
    np.testing.assert_array_equal(model(array)["y"], graph.compile(backend="numpy")(array)["y"])
    alone = has_isa("avx2") and not has_isa("avx512_core")
    assert not alone or shape == (1,) or ways(model) == ["matmul as convolution"]
