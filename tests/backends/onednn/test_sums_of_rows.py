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
