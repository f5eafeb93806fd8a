"""Integers with scales and zero points for groups become real numbers in the library, rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn import backend
from onednn_graph.backends.onednn.lowering import blocks

pytestmark = pytest.mark.usefixtures("onednn")

REAL = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
INTEGERS = {"u8": (np.uint8, 0, 255), "s8": (np.int8, -128, 127), "s32": (np.int32, -300, 300)}
FOUR_BITS = {"u4": (ml_dtypes.uint4, 0, 15), "s4": (ml_dtypes.int4, -8, 7)}
ROWS, COLUMNS, BOTH = (1, 1, 1, 8), (1, 1, 8, 1), (1, 1, 24, 8)


def integers(rng, kind, shape):
    """All numbers of a type, at random."""
    dtype, least, most = (INTEGERS | FOUR_BITS)[kind]
    return rng.integers(least, most + 1, shape).astype(dtype)


def few_bits(rng, kind, shape):
    """Scales by which products are exact in f32, and not in halves."""
    return (rng.choice([1.0, 3.0, 5.0, 7.0], shape) * 2.0 ** rng.integers(-3, 4, shape)).astype(REAL[kind])


def real(x, scales, points, group):
    """What they stand for, in f64."""
    values = x.astype(np.float64)
    for numbers, apply in ((points, np.subtract), (scales, np.multiply)):
        if numbers is None:
            continue
        wide = numbers.astype(np.float64)
        if wide.size > 1:
            for axis, size in enumerate(group):
                wide = wide.repeat(size, axis)
        values = apply(values, wide.reshape(wide.shape if wide.size > 1 else (1,) * x.ndim))
    return values


def compiled(shape, group, kind, points, to, *, one_point=False, order=None):
    """The op's model, and the shape of its scales; its input lies in another order where one is given."""
    groups = tuple(d // g for d, g in zip(shape, group, strict=True))
    graph = og.Graph()
    lies = None
    if order is not None:
        lies = [0] * len(shape)
        step = 1
        for axis in reversed(order):
            lies[axis], step = step, step * shape[axis]
    more = {} if lies is None else {"strides": lies}
    inputs = [graph.input("x", kind, shape, **more), graph.input("scales", to, groups)]
    if points is not None:
        inputs.append(graph.input("points", points, (1,) if one_point else groups))
    graph.output(graph.dynamic_dequantize(*inputs, qtype="per_group", group_shape=group, name="y"))
    return graph.compile(), groups


def check(shape, group, kind, points, to, *, one_point=False, order=None, on="onednn"):
    """Exactly what they stand for, rounded once, and by whom."""
    rng = np.random.default_rng(7)
    model, groups = compiled(shape, group, kind, points, to, one_point=one_point, order=order)
    feeds = {"x": integers(rng, kind, shape), "scales": few_bits(rng, to, groups)}
    if points is not None:
        feeds["points"] = integers(rng, points, (1,) if one_point else groups)
    expected = real(feeds["x"], feeds["scales"], feeds.get("points"), group).astype(REAL[to])
    if order is not None:
        feeds["x"] = np.ascontiguousarray(feeds["x"].transpose(order)).transpose(np.argsort(order))
    made = model(feeds)["y"]
    assert np.array_equal(np.asarray(made), expected)
    assert [part.backend for part in model.partitions] == [on]


@pytest.mark.parametrize("to", REAL)
@pytest.mark.parametrize("points", [None, "u8", "s8", "s32"])
@pytest.mark.parametrize("kind", ["u8", "s8"])
@pytest.mark.parametrize("group", [ROWS, COLUMNS, BOTH], ids=["rows", "columns", "both"])
def test_groups(group, kind, points, to):
    where = "numpy" if group == BOTH else "onednn"  # no kernel broadcasts to two axes apart
    check((2, 3, 24, 16), group, kind, points, to, on=where)


@pytest.mark.parametrize("shape", [(24,), (24, 16), (3, 24, 16), (2, 2, 3, 24, 16)], ids=str)
def test_ranks(shape):
    check(shape, (*(1,) * (len(shape) - 1), 8), "u8", "u8", "f32")


@pytest.mark.parametrize("group", [(1, 8), (24, 1), (1, 16), (24, 16), (1, 1)], ids=str)
@pytest.mark.parametrize("one_point", [False, True])
def test_groups_of_whole_axes(group, one_point):
    check((24, 16), group, "s8", "s8", "f32", one_point=one_point)


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (0, 2, 1, 3)], ids=str)
@pytest.mark.parametrize("group", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_integers_in_another_order(group, order):
    check((2, 3, 24, 16), group, "u8", None, "f32", order=order)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_zero_point_for_each_channel(axis):
    shape = (4, 6, 5)
    rng = np.random.default_rng(8)
    graph = og.Graph()
    count = (shape[axis],)
    inputs = [graph.input("x", "u8", shape), graph.input("s", "bf16", count), graph.input("z", "u8", count)]
    graph.output(graph.dynamic_dequantize(*inputs, qtype="per_channel", axis=axis, name="y"))
    model = graph.compile()
    x, s, z = integers(rng, "u8", shape), few_bits(rng, "bf16", count), integers(rng, "u8", count)
    along = tuple(-1 if a == axis % 3 else 1 for a in range(3))
    expected = (x.astype(float) - z.astype(float).reshape(along)) * s.astype(float).reshape(along)
    made = model({"x": x, "s": s, "z": z})["y"]
    assert np.array_equal(np.asarray(made), expected.astype(ml_dtypes.bfloat16))
    assert [part.backend for part in model.partitions] == ["onednn"]


def attention(keys, values, group=8, tokens=16, images=2, heads=3, size=16):
    """Attention over keys and values that are integers in groups: the model, feeds, and its result in f64."""
    rng = np.random.default_rng(9)
    shape, groups = (images, heads, tokens, size), (images, heads, tokens, size // group)
    graph = og.Graph()
    feeds = {"q": rng.standard_normal(shape).astype(np.float32)}
    q, stand_for = graph.input("q", "f32", shape), {}
    made = {}
    for name, kind in (("k", keys), ("v", values)):
        x, s, z = (
            integers(rng, kind, shape),
            rng.random(groups).astype(np.float32),
            integers(rng, kind, groups),
        )
        s *= np.float32(4 / (INTEGERS | FOUR_BITS)[kind][2])
        inputs = [
            graph.input(name, kind, shape),
            graph.input(f"{name}s", "f32", groups),
            graph.input(f"{name}z", kind, groups),
        ]
        feeds |= {name: x, f"{name}s": s, f"{name}z": z}
        made[name] = graph.dynamic_dequantize(*inputs, qtype="per_group", group_shape=[1, 1, 1, group])
        stand_for[name] = real(x, s, z, (1, 1, 1, group))
    weights = graph.softmax(graph.matmul(q, made["k"], transpose_b=True), axis=-1)
    graph.output(graph.matmul(weights, made["v"], name="y"))
    scores = feeds["q"].astype(float) @ stand_for["k"].swapaxes(2, 3)
    powers_of_e = np.exp(scores - scores.max(-1, keepdims=True))
    return graph, feeds, powers_of_e / powers_of_e.sum(-1, keepdims=True) @ stand_for["v"]


def check_attention(model, feeds, expected):
    """As near to f64 as f32 is."""
    made = np.asarray(model(feeds)["y"])
    assert np.abs(made - expected).max() < 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("keys", ["u8", "s8"])
@pytest.mark.parametrize("values", ["u8", "s8"])
def test_compressed_keys_and_values_are_part_of_attention(keys, values):
    graph, feeds, expected = attention(keys, values)
    model = graph.compile()
    assert [part.backend for part in model.partitions] == ["onednn"]
    check_attention(model, feeds, expected)


def test_four_bits_do_not_break_attention_up():
    graph, feeds, expected = attention("s4", "u4")
    model = graph.compile()
    assert [part.label for part in model.partitions if part.backend == "onednn"] == ["MatMul+SoftMax+MatMul"]
    check_attention(model, feeds, expected)


def test_compressed_attention_in_blocks_of_heads(monkeypatch):
    graph, feeds, expected = attention("u8", "s8")
    found = []

    def seen(request, threads):
        found.append(blocks.in_blocks(request, threads))
        return found[-1]

    monkeypatch.setattr(blocks, "SCORES_BYTES", 0)
    monkeypatch.setattr(blocks, "MOST_BYTES", 0)
    monkeypatch.setattr(backend, "in_blocks", seen)
    model = graph.compile()
    assert [len(one.offsets) for one in found if one is not None] == [6]
    check_attention(model, feeds, expected)
