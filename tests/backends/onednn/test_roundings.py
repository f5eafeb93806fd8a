"""What a graph casts to halves and back is rounded, whatever primitive stands before it."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from support.op_calls import TYPES

pytestmark = pytest.mark.usefixtures("onednn")

BEFORE = {
    "nothing": lambda g, x: x,
    "ReLU": lambda g, x: g.op("ReLU", x),
    "Multiply": lambda g, x: g.op("Multiply", x, x),
    "MatMul": lambda g, x: g.op("MatMul", x, x),
    "ReduceSum": lambda g, x: g.op("ReduceSum", x, axes=[0], keep_dims=True),
    "SoftMax": lambda g, x: g.op("SoftMax", x, axis=0),
    "LayerNorm": lambda g, x: g.op("LayerNorm", x, keep_stats=False, use_affine=False),
    "MatMul, ReLU": lambda g, x: g.op("ReLU", g.op("MatMul", x, x)),
}
HALVES = ("bf16", "f16")
BEHIND = {
    "nothing": lambda g, y: y,
    "ReLU": lambda g, y: g.op("ReLU", y),
    "Add": lambda g, y: g.op("Add", y, y),
}


@each("behind", BEHIND)
@each("before", BEFORE)
@each("halves", HALVES)
def test_what_is_cast_to_halves_and_back_is_rounded(halves, before, behind):
    graph = og.Graph()
    y = BEFORE[before](graph, graph.input("x", "f32", (4, 4)))
    rounded = BEHIND[behind](graph, graph.op("TypeCast", y, output_type=halves))
    graph.output(graph.op("TypeCast", rounded, output_type="f32"), name="y")
    got = graph.compile()(np.random.default_rng(0).random((4, 4), np.float32))["y"]
    np.testing.assert_array_equal(got, got.astype(TYPES[og.DataType(halves)]).astype(np.float32))


def test_what_halves_do_not_hold_is_infinite_behind_them():
    graph = og.Graph()
    y = graph.op("Multiply", *[graph.input(name, "f32", (8,)) for name in "ab"])
    graph.output(
        graph.op("TypeCast", graph.op("TypeCast", y, output_type="f16"), output_type="f32"), name="y"
    )
    large = np.full(8, 300, np.float32)
    np.testing.assert_array_equal(graph.compile()(large, large)["y"], np.inf)


PRODUCTS = {
    "MatMul": lambda g, y: y,
    "MatMul, Multiply": lambda g, y: g.op("Multiply", y, y),
    "MatMul, Sigmoid": lambda g, y: g.op("Sigmoid", y),
    "MatMul, SoftMax": lambda g, y: g.op("SoftMax", y, axis=1),
}
READERS = {
    "MatMul": lambda g, y, eye: g.op("MatMul", y, eye, output_type="f32"),
    "MatMul, weights": lambda g, y, eye: g.op("MatMul", eye, y, output_type="f32"),
    "Reshape, MatMul": lambda g, y, eye: g.op(
        "MatMul", g.op("StaticReshape", y, shape=[2, 4, 8], special_zero=False), eye, output_type="f32"
    ),
    "ReLU": lambda g, y, eye: g.op("TypeCast", g.op("ReLU", y), output_type="f32"),
}


@each("reader", READERS)
@each("product", PRODUCTS)
@each("halves", HALVES)
def test_what_is_cast_behind_a_product_of_halves_is_rounded_for_who_reads_it(halves, product, reader):
    graph = og.Graph()
    x, eye = (graph.input(name, halves, (8, 8)) for name in ("x", "eye"))
    y = PRODUCTS[product](graph, graph.op("MatMul", x, x, output_type="f32"))
    graph.output(READERS[reader](graph, graph.op("TypeCast", y, output_type=halves), eye), name="y")
    half = TYPES[og.DataType(halves)]
    data = np.random.default_rng(0).random((8, 8), np.float32).astype(half)
    got = graph.compile()(data, np.eye(8).astype(half))["y"]
    np.testing.assert_array_equal(got, got.astype(half).astype(np.float32))
