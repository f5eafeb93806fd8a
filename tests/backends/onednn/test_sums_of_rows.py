"""Sums over all that lies outside, as of a bias's gradient: a product with ones, exact, and no step on the host."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.skipif(
    og.list_backends()["onednn"] is not None, reason=str(og.list_backends()["onednn"])
)

# shape, order in which the axes lie, axes that are summed, whether that is a sum of rows
CASES = {
    "rows": ((37, 19), (0, 1), [0], True),
    "columns": ((37, 19), (0, 1), [1], False),
    "words": ((4, 33, 48), (0, 1, 2), [0, 1], True),
    "words, negative": ((4, 33, 48), (0, 1, 2), [-3, -2], True),
    "batches": ((16, 3, 5), (0, 1, 2), [0], True),
    "middle": ((4, 33, 48), (0, 1, 2), [1], False),
    "images, channels last": ((3, 24, 5, 7), (0, 2, 3, 1), [0, 2, 3], True),
    "images, channels first": ((3, 24, 5, 7), (0, 1, 2, 3), [0, 2, 3], False),
    "turned, two stay": ((5, 6, 7), (1, 0, 2), [1], True),
    "turned, two stay the other way": ((5, 6, 7), (1, 2, 0), [1], True),
    "one channel": ((30, 1), (0, 1), [0], False),
    "ones between": ((8, 1, 12), (0, 1, 2), [0, 1], True),
    "many": ((5000, 17), (0, 1), [0], True),
}


@each("keep", [False, True])
@each("data_type", ["f32", "bf16"])
@each("name", CASES)
def test_exact(name, data_type, keep):
    shape, lies, axes, _ = CASES[name]
    dtype = np.float32 if data_type == "f32" else pytest.importorskip("ml_dtypes").bfloat16
    graph = og.Graph()
    x = graph.input("x", data_type, [shape[axis] for axis in lies])
    turned = graph.op(
        "StaticTranspose", graph.op("Add", x, x), order=[lies.index(n) for n in range(len(lies))]
    )
    y = graph.op("ReduceSum", turned, axes=axes, keep_dims=keep)
    graph.output(graph.op("Abs", y))
    rng = np.random.default_rng(len(name))
    values = rng.integers(-1, 2, x.dims) * (rng.random(x.dims) < 0.2)
    array = values.astype(dtype)
    mine, expected = graph.compile()(array), graph.compile(backend="numpy")(array)
    for one, other in zip(mine.values(), expected.values(), strict=True):
        np.testing.assert_array_equal(one, other)
    sums = (2 * values.astype(np.int64)).transpose([lies.index(n) for n in range(len(lies))])
    axes = tuple(axes)
    np.testing.assert_array_equal(
        next(iter(mine.values())).astype(np.int64),
        np.abs(sums.sum(axes, keepdims=keep)).astype(dtype).astype(np.int64),
    )


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[-1]])
def test_nothing_is_left_to_the_host(name):
    shape, lies, axes, _ = CASES[name]
    graph = og.Graph()
    x = graph.input("x", "f32", [shape[axis] for axis in lies])
    turned = graph.op(
        "StaticTranspose", graph.op("Add", x, x), order=[lies.index(n) for n in range(len(lies))]
    )
    graph.op("ReduceSum", turned, axes=axes)
    names = [name for told in graph.compile().explain().values() for name in told.implementations]
    assert not any("numpy" in name for name in names), names


# shape, order in which the axes lie, axes that are summed, whether the rows are many, short and without gaps
SHORT_ROWS = {
    "rows": ((300, 19), (0, 1), [1], True),
    "of a vector register": ((128, 16), (0, 1), [1], True),
    "as long as may be": ((130, 512), (0, 1), [1], True),
    "too long": ((130, 513), (0, 1), [1], False),
    "too few": ((127, 32), (0, 1), [1], False),
    "heads": ((2, 5, 40, 24), (0, 1, 2, 3), [-1], True),
    "heads behind tokens": ((2, 5, 40, 24), (0, 2, 1, 3), [3], True),
    "two axes": ((2, 150, 6, 7), (0, 1, 2, 3), [2, 3], True),
    "one between": ((150, 1, 33), (0, 1, 2), [1, 2], True),
    "images, channels last": ((3, 24, 10, 7), (0, 2, 3, 1), [1], True),
    "not one behind the other": ((30, 24, 10), (0, 1, 2), [1], False),
}


@each("keep", [False, True])
@each("data_type", ["f32", "bf16", "f16"])
@each("kind", ["ReduceSum", "ReduceMean"])
@each("name", SHORT_ROWS)
def test_short_rows(name, kind, data_type, keep):
    shape, lies, axes, by_product = SHORT_ROWS[name]
    dtype = {"f32": np.float32, "f16": np.float16, "bf16": pytest.importorskip("ml_dtypes").bfloat16}[
        data_type
    ]
    graph = og.Graph()
    x = graph.input("x", data_type, [shape[axis] for axis in lies])
    turned = graph.op("StaticTranspose", x, order=[lies.index(n) for n in range(len(lies))])
    graph.output(graph.op(kind, turned, axes=axes, keep_dims=keep, name="y"))
    model = graph.compile()
    given = np.random.default_rng(0).integers(-3, 4, [shape[axis] for axis in lies]).astype(dtype)
    wide = given.astype(np.float64).transpose([lies.index(n) for n in range(len(lies))])
    reduce = np.sum if kind == "ReduceSum" else np.mean
    wanted = reduce(wide, axis=tuple(axes), keepdims=keep)
    # Sums are exact; a mean is rounded to f32, and to the type.
    rounded = wanted.astype(np.float32).astype(dtype) if kind == "ReduceMean" else wanted.astype(dtype)
    assert np.array_equal(np.asarray(model({"x": given})["y"]), rounded)
    if data_type == "f32":
        assert ("sums of rows" in str(model.explain())) is by_product


def test_what_follows_the_sums_of_short_rows():
    rng = np.random.default_rng(1)
    graph = og.Graph()
    x = graph.input("x", "f32", (256, 24))
    mean = graph.op("ReduceMean", graph.op("Square", x), axes=[1], keep_dims=True)
    scale = graph.op(
        "Reciprocal", graph.op("Sqrt", graph.op("Add", mean, graph.constant(np.float32([1e-3]))))
    )
    graph.output(graph.op("Multiply", x, scale, name="y"))
    given = rng.standard_normal((256, 24)).astype(np.float32)
    wide = given.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-3)
    np.testing.assert_allclose(np.asarray(graph.compile()({"x": given})["y"]), wanted, rtol=2e-6, atol=2e-6)


def test_short_rows_are_not_rounded_where_products_may_be():
    graph = og.Graph(fpmath_mode="bf16")
    x = graph.input("x", "f32", (256, 24))
    graph.output(graph.op("ReduceSum", x, axes=[1], name="y"))
    given = np.full((256, 24), 1 + 2.0**-10, np.float32)
    assert np.array_equal(
        np.asarray(graph.compile()({"x": given})["y"]), given.astype(float).sum(1).astype(np.float32)
    )


@each("worst", [np.nan, np.inf, -np.inf])
@each("kind", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean"])
def test_nan_and_infinities_in_short_rows(kind, worst):
    rng = np.random.default_rng(2)
    given = rng.standard_normal((4096, 40)).astype(np.float32)
    given[17, 3] = worst
    given[400] = worst
    graph = og.Graph()
    graph.output(graph.op(kind, graph.input("x", "f32", given.shape), axes=[1], name="y"))
    reduce = {"ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum, "ReduceMean": np.mean}[kind]
    made, wanted = np.asarray(graph.compile()({"x": given})["y"]), reduce(given.astype(np.float64), axis=1)
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5)
