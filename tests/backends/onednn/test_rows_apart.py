"""Constant weights of products whose rows would share few sets of the cache get a gap behind each row."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.usefixtures("onednn")


def product(rows, inner, columns, constant=True, turned=False, batch=()):
    graph = og.Graph()
    x = graph.input("x", "f32", [*batch, rows, inner])
    kind = {"property_type": "constant"} if constant else {}
    w = graph.input("w", "f32", [columns, inner] if turned else [inner, columns], **kind)
    graph.output(graph.op("ReLU", graph.op("MatMul", x, w, transpose_b=turned), name="y"))
    return graph


def prepared(model):
    """Whether the product packs its weights at each call, and whether they were brought to another layout before."""
    steps = [step for one in model.explain().values() for step in one.steps]
    packs = any(
        step.implementation.startswith("gemm:jit") for step in steps if step.name.startswith("matmul")
    )
    return packs, any(step.prepared and step.name.startswith("reorder weights") for step in steps)


@each("batch", [(), (3,), (1, 2)])
@each("turned", [False, True])
@each("columns", [512, 1000, 1536])
def test_exact_with_gaps_and_without(columns, turned, batch):
    graph = product(16, 65, columns, turned=turned, batch=batch)
    model = graph.compile()
    rng = np.random.default_rng(columns)
    feeds = {t.name: rng.integers(-8, 9, t.dims).astype(np.float32) for t in graph.inputs}
    want = graph.compile(backend="numpy")(feeds)["y"]
    for _ in range(2):  # the second call has weights that were made before
        np.testing.assert_array_equal(model(feeds)["y"], want)
    packs, brought = prepared(model)
    if packs and not turned:
        assert brought == (columns % 512 == 0)


@each(
    ("rows", "inner", "columns", "constant"), [(16, 65, 512, False), (16, 1, 512, True), (16, 65, 513, True)]
)
def test_no_gaps_where_they_give_nothing(rows, inner, columns, constant):
    """Weights of an execution would be copied each time, and a single row has no neighbours."""
    packs, brought = prepared(product(rows, inner, columns, constant).compile())
    assert not (packs and brought)


@each("columns", [2048, 2000])
def test_integers_of_7_bits(columns):
    rng = np.random.default_rng(columns)
    given, weights = rng.integers(0, 256, (16, 65), np.uint8), rng.integers(-64, 65, (65, columns), np.int8)
    graph = og.Graph()
    x, w = graph.input("x", "u8", given.shape), graph.constant(weights, name="w")
    a = graph.op("Dequantize", x, scales=[0.5], zps=[3], qtype="per_tensor")
    b = graph.op("Dequantize", w, scales=[0.25] * columns, zps=[0] * columns, qtype="per_channel", axis=1)
    graph.output(graph.op("MatMul", a, b, name="y"))
    want = (given.astype(np.float64) - 3) @ weights.astype(np.float64) / 8
    model = graph.compile()
    np.testing.assert_array_equal(model(given)["y"], want)
    packs, brought = prepared(model)
    if packs:
        assert brought == (columns == 2048)


def test_saved_models_do_not_keep_what_lay_in_the_gaps(tmp_path):
    """Files of one model are the same, whatever was in the memory before."""
    files = []
    for garbage in (0.0, np.nan):
        graph = og.Graph()
        x = graph.input("x", "f32", [16, 8])
        w = graph.constant(np.arange(8 * 512, dtype=np.float32).reshape(8, 512), name="w")
        graph.output(graph.op("MatMul", x, w, name="y"))
        old = [np.full(8 * 528 + count, garbage, np.float32) for count in range(64)]
        del old  # what is allocated next finds these
        model = graph.compile()
        model(np.ones((16, 8), np.float32))
        model.save_compiled(tmp_path / "model")
        files.append((tmp_path / "model").read_bytes())
    assert files[0] == files[1]
