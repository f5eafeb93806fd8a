"""Reductions of many short rows, which cost the library's kernel a call each: products with ones, or columns."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

KINDS = {
    "ReduceL1": lambda x, a: np.abs(x).sum(a),
    "ReduceMax": lambda x, a: x.max(a),
    "ReduceMean": lambda x, a: x.mean(a),
    "ReduceMin": lambda x, a: x.min(a),
    "ReduceProd": lambda x, a: x.prod(a),
    "ReduceSum": lambda x, a: x.sum(a),
}
# shape, axes that are reduced
CASES = {
    "letters of words": ((77, 196, 3), (2,)),
    "two axes": ((50, 9, 2, 4), (2, 3)),
    "long for columns": ((300, 40), (1,)),
    "longest": ((70, 512), (1,)),
    "ones beside": ((200, 1, 5, 1), (1, 2)),
    "few rows": ((7, 3), (1,)),
}


def reduction(kind, shape, axes, keep=False):
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    graph.output(graph.op(kind, x, axes=axes, keep_dims=keep), name="y")
    return graph


@each("keep", [False, True])
@each("name", CASES)
@each("kind", KINDS)
def test_right(kind, name, keep):
    shape, axes = CASES[name]
    x = np.random.default_rng(len(name)).normal(size=shape).astype(np.float32)
    y = reduction(kind, shape, axes, keep).compile()(x)["y"]
    expected = KINDS[kind](x.astype(np.float64), axes)
    assert y.shape == (np.expand_dims(expected, axes).shape if keep else expected.shape)
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@each("kind", ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"])
def test_infinities_and_nan(kind):
    x = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    x[1, 0], x[2, 1], x[3, 2], x[4], x[5] = np.nan, np.inf, -np.inf, -np.inf, np.inf
    x[6, :2] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = KINDS[kind](x.astype(np.float64), 1)
    np.testing.assert_allclose(
        reduction(kind, (500, 3), [1]).compile()(x)["y"], expected, rtol=1e-5, atol=1e-5
    )


@each("kind", ["ReduceMax", "ReduceMean", "ReduceSum"])
def test_rows_that_lie_in_another_order(kind):
    """Rows of (8, 50) after a turn, whose elements still lie one behind the other."""
    graph = og.Graph()
    x = graph.input("x", "f32", [50, 8, 6])
    turned = graph.op("StaticTranspose", graph.op("Tanh", x), order=[1, 0, 2])
    graph.output(graph.op(kind, turned, axes=[2]), name="y")
    array = np.random.default_rng(1).normal(size=(50, 8, 6)).astype(np.float32)
    expected = KINDS[kind](np.tanh(array.astype(np.float64)).transpose(1, 0, 2), 2)
    np.testing.assert_allclose(graph.compile()(array)["y"], expected, rtol=1e-5, atol=1e-5)


@each("rows", [100, 3000])
@each("kind", ["ReduceMean", "ReduceProd", "ReduceSum"])
def test_what_follows(kind, rows):
    graph = og.Graph()
    x = graph.input("x", "f32", [rows, 5])
    reduced = graph.op(kind, x, axes=[1], keep_dims=True)
    graph.output(graph.op("Multiply", x, graph.op("Sqrt", graph.op("Abs", reduced))), name="y")
    array = np.random.default_rng(2).normal(size=(rows, 5)).astype(np.float32)
    wide = array.astype(np.float64)
    expected = wide * np.sqrt(np.abs(KINDS[kind](wide, 1)))[:, None]
    np.testing.assert_allclose(graph.compile()(array)["y"], expected, rtol=1e-4, atol=1e-5)


def implementations(graph):
    return [name for told in graph.compile().explain().values() for name in told.implementations]


@each("kind", ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"])
def test_no_call_for_each_row(kind):
    assert not any(name.startswith("reduction") for name in implementations(reduction(kind, (1000, 3), [1])))


@each("shape, axes", [((20, 3), [1]), ((5000, 4096), [1]), ((100, 7), [0])])
def test_other_maxima_are_the_library_s_or_numpy_s_as_before(shape, axes):
    x = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    np.testing.assert_array_equal(reduction("ReduceMax", shape, axes).compile()(x)["y"], x.max(tuple(axes)))
