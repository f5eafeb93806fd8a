"""Masks that are made of places have one element for all heads, whoever reads them, and give what whole ones do."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn import backend
from onednn_graph.backends.onednn.lowering import narrowed
from onednn_graph.graph.compile.backend import CompileRequest
from onednn_graph.graph.compile.options import CompileOptions

pytestmark = pytest.mark.usefixtures("onednn")

SHAPE = 2, 3, 5, 8
"""Images, heads, tokens, and what each of them has."""
QUERIES, KEYS = SHAPE[2], 7


@pytest.fixture
def shapes(monkeypatch):
    """Of what ops in partitions make, by their kinds, as they are lowered."""
    found: dict[str, list[tuple[int, ...]]] = {}

    def seen(request):
        made = narrowed.narrowed(request)
        for op in made.ops:
            found.setdefault(op.kind, []).append(op.outputs[0].dims)
        return made

    monkeypatch.setattr(backend, "narrowed", seen)
    return found


def attention(*, mask=lambda graph, rows, columns: graph.op("GreaterEqual", rows, columns)):
    """Attention with a mask of places, and what it is fed."""
    rng = np.random.default_rng(0)
    graph = og.Graph()
    q = graph.input("q", "f32", SHAPE)
    k, v = (graph.input(name, "f32", (*SHAPE[:2], KEYS, SHAPE[3])) for name in "kv")
    ahead = graph.input("ahead", "s32", ())
    scores = graph.op("MatMul", q, k, transpose_b=True)
    rows = graph.op("Add", graph.op("GenIndex", scores, axis=-2), ahead)
    columns = graph.op("GenIndex", scores, axis=-1)
    allowed = mask(graph, rows, columns)
    masked = graph.op("Select", allowed, scores, graph.input("least", "f32", (1,)))
    graph.output(graph.op("MatMul", graph.op("SoftMax", masked, axis=-1), v, name="y"))
    feeds = {
        name: rng.standard_normal(t.dims).astype(np.float32) for name, t in zip("qkv", (q, k, v), strict=True)
    }
    return graph, feeds | {"ahead": np.int32(KEYS - QUERIES), "least": np.float32([-np.inf])}


def expected(feeds, allowed):
    """In f64."""
    q, k, v = (feeds[name].astype(np.float64) for name in "qkv")
    scores = np.where(allowed, q @ k.swapaxes(2, 3), -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ v


CAUSAL = np.arange(QUERIES)[:, None] + KEYS - QUERIES >= np.arange(KEYS)


def check(graph, feeds, allowed=CAUSAL):
    made = graph.compile()(feeds)
    np.testing.assert_allclose(np.asarray(made["y"]), expected(feeds, allowed), rtol=1e-5, atol=1e-6)
    return made


def test_a_causal_mask_is_one_for_all_heads(shapes):
    check(*attention())
    assert shapes["GenIndex"] == [(1, 1, QUERIES, 1), (1, 1, 1, KEYS)]
    assert shapes["Add"] == [(1, 1, QUERIES, 1)]
    assert shapes["GreaterEqual"] == [(1, 1, QUERIES, KEYS)]
    assert shapes["Select"] == [(*SHAPE[:3], KEYS)]


def test_a_mask_of_which_each_image_has_its_own(shapes):
    first = np.array([3, 6], np.int32).reshape(2, 1, 1, 1)

    def mask(graph, rows, columns):
        return graph.op("GreaterEqual", graph.input("first", "s32", first.shape), columns)

    graph, feeds = attention(mask=mask)
    check(graph, feeds | {"first": first}, first >= np.arange(KEYS))
    assert shapes["GreaterEqual"] == [(2, 1, 1, KEYS)]


def lowered(graph):
    """Shapes of what the ops of a graph make, by the tensors' names, if it is one partition."""
    request = CompileRequest(
        ops=tuple(graph.ops),
        inputs=tuple(graph.inputs),
        outputs=tuple(graph.outputs),
        engine=og.Engine(),
        fpmath_mode="strict",
        values={},
        forced=False,
        options=CompileOptions(),
    )
    return {op.outputs[0].name: op.outputs[0].dims for op in narrowed.narrowed(request).ops}


def places(graph):
    """A tensor of images, and the places of its elements along its last two axes."""
    x = graph.input("x", "f32", SHAPE)
    return x, graph.op("GenIndex", x, axis=2, name="rows"), graph.op("GenIndex", x, axis=-1, name="columns")


def test_what_is_as_small_as_it_differs():
    graph = og.Graph()
    x, rows, columns = places(graph)
    mask = graph.op("GreaterEqual", graph.op("Subtract", rows, columns, name="ahead"), rows, name="mask")
    graph.output(graph.op("Select", mask, x, x, name="y"))
    made = lowered(graph)
    assert made == {
        "rows": (1, 1, SHAPE[2], 1),
        "columns": (1, 1, 1, SHAPE[3]),
        "ahead": (1, 1, *SHAPE[2:]),
        "mask": (1, 1, *SHAPE[2:]),
        "y": SHAPE,
    }


def test_outputs_stay_whole():
    graph = og.Graph()
    x, rows, columns = places(graph)
    mask = graph.output(graph.op("GreaterEqual", rows, columns, name="mask"))
    graph.output(rows)
    graph.output(graph.op("Select", mask, x, x, name="y"))
    assert lowered(graph) == {"rows": SHAPE, "columns": (1, 1, 1, SHAPE[3]), "mask": SHAPE, "y": SHAPE}


def test_what_ops_read_that_do_not_broadcast_stays_whole():
    graph = og.Graph()
    _, rows, columns = places(graph)
    graph.output(graph.op("GreaterEqual", rows, rows, name="all"))
    graph.output(graph.op("GreaterEqual", rows, columns, auto_broadcast="none", name="mask"))
    assert lowered(graph) == {"rows": SHAPE, "columns": SHAPE, "all": SHAPE, "mask": SHAPE}


def test_in_blocks_of_heads(shapes):
    graph, feeds = attention()
    made = graph.compile(scratch_limit=0)(feeds)
    np.testing.assert_allclose(np.asarray(made["y"]), expected(feeds, CAUSAL), rtol=1e-5, atol=1e-6)
