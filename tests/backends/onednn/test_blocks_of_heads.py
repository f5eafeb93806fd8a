"""Attention in blocks of heads gives what attention as a whole does, whatever op stands beside it."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn import backend
from onednn_graph.backends.onednn.lowering import blocks
from onednn_graph.ops.registry import REGISTRY
from onednn_graph.tools.op_examples import CALLS
from support.op_calls import TYPES

pytestmark = pytest.mark.usefixtures("onednn")

IMAGES, HEADS, SIZE = 2, 4, 4
"""As many tokens, and elements of each, as heads: shapes alone must not tell which axis is which."""
F32 = og.DataType.f32
EIGHT_BITS = (og.DataType.u8, og.DataType.s8)
PLACES = ("query", "turned query", "scores", "weights", "result", "turned result")
TURN = [0, 2, 1, 3]
OTHERS = (
    {},
    {"axes": [1], "keep_dims": True},
    {"axes": [0], "keep_dims": True},
    {"axes": [0, 1]},
    {"axes": [3], "keep_dims": True},
    {"axis": 0},
    {"axis": 1},
    {"axis": -3},
    {"axis": 2},
    {"axis": 3},
    {"order": [1, 0, 2, 3]},
    {"order": [0, 2, 1, 3]},
    {"order": [2, 1, 3, 0]},
    {"data_format": "NCX"},
    {"data_format": "NXC"},
    {"qtype": "per_channel", "scales": [0.25, 0.5, 1.0, 2.0], "zps": [0] * 4, "axis": 1},
    {"qtype": "per_channel", "scales": [0.25, 0.5, 1.0, 2.0], "zps": [0] * 4, "axis": 3},
    {"qtype": "per_group", "group_shape": [1, 1, 1, 2]},
    {"qtype": "per_group", "group_shape": [1, 2, 1, 1]},
    {"qtype": "per_group", "group_shape": [2, 1, 1, 1]},
    {"qtype": "per_group", "group_shape": [1, 4, 1, 2]},
    {"transpose_a": True},
    {"auto_broadcast": "none"},
)
"""Attributes to try beside those of the op's example."""
SCHEMAS = {
    schema.kind: schema
    for schema in (*REGISTRY, *REGISTRY.host)
    if schema.pure and schema.inputs and schema.kind != "Wildcard"
}


@pytest.fixture
def found(monkeypatch):
    """What attention was found to be in blocks of one head each, however small they are."""
    found = []

    def seen(request, threads):
        found.append(blocks.in_blocks(request, threads))
        return found[-1]

    monkeypatch.setattr(blocks, "SCORES_BYTES", 0)
    monkeypatch.setattr(backend, "in_blocks", seen)
    return found


def calls(kind):
    """Attributes of an op that it may have, each once."""
    schema = SCHEMAS[kind]
    names = {spec.name for spec in schema.attributes}
    known = CALLS[kind].attributes if kind in CALLS else {}
    example = {name: value for name, value in known.items() if name in names}
    required = {spec.name for spec in schema.attributes if spec.required}
    for other in OTHERS:
        if set(other) <= names and required <= set(other) | set(example):
            yield example | other


def beside(graph, kind, tensor, attributes):
    """The op's first result on a tensor, with further inputs that fit it; None where there is none."""
    schema = SCHEMAS[kind]
    types = {port: schema.types[port.type] for port in schema.inputs}
    first = tensor.data_type if tensor.data_type in types[schema.inputs[0]] else types[schema.inputs[0]][0]
    if first is not tensor.data_type:
        try:
            cast = (
                "GreaterEqual"
                if first is og.DataType.boolean
                else "Quantize"
                if first in EIGHT_BITS
                else "TypeCast"
            )
            more = [graph.input("least", "f32", [1])] if cast == "GreaterEqual" else []
            scales = {"scales": [0.25], "zps": [0]} if cast == "Quantize" else {}
            tensor = graph.op(cast, tensor, *more, output_type=first, **scales)
        except og.OneDNNGraphError:
            return None
    group = attributes.get("group_shape", ())
    groups = (
        [tuple(d // g for d, g in zip(tensor.dims, group, strict=True))]
        if len(group) == len(tensor.dims)
        else []
    )
    shapes = (
        *groups,
        tensor.dims,
        tensor.dims[-1:],
        (1, HEADS, 1, 1),
        (HEADS, SIZE, SIZE),
        tensor.dims[-2:],
        (),
    )
    for attempt, shape in enumerate(shapes):
        more = [
            graph.input(f"x{attempt}_{number}", F32 if F32 in types[port] else types[port][0], shape)
            for number, port in enumerate(schema.inputs[1:])
            if port.required
        ]
        try:
            made = graph.op(kind, tensor, *more, **attributes)
        except og.OneDNNGraphError:
            continue
        return made if isinstance(made, og.LogicalTensor) else made[0] if made else None
    return None


def attention(kind, place, attributes):
    """An attention with the op somewhere in it; behind it, where what comes out has another shape."""
    graph = og.Graph()
    shape = (IMAGES, HEADS, SIZE, SIZE)
    q, k, v = (graph.input(name, "f32", shape) for name in "qkv")

    def with_op(where, tensor):
        if where != place.removeprefix("turned "):
            return tensor
        turned = place.startswith("turned")
        seen = graph.op("StaticTranspose", tensor, order=TURN) if turned else tensor
        made = beside(graph, kind, seen, attributes)
        if made is None:
            return None
        if made.dims != shape or made.data_type is not F32:
            graph.output(made, name="other")
            return tensor
        return graph.op("StaticTranspose", made, order=TURN) if turned else made

    steps = (
        ("query", lambda t: t),
        ("scores", lambda t: graph.op("MatMul", t, k, transpose_b=True)),
        ("weights", lambda t: graph.op("SoftMax", t, axis=-1)),
        ("result", lambda t: graph.op("MatMul", t, v)),
    )
    tensor = q
    for where, step in steps:
        tensor = with_op(where, step(tensor))
        if tensor is None:
            return None
    graph.output(tensor, name="y")
    return graph


def arrays(graph):
    rng = np.random.default_rng(0)
    return {t.name: np.asarray(0.5 + rng.random(t.dims)).astype(TYPES[t.data_type]) for t in graph.inputs}


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_any_op_beside_attention_in_blocks_of_heads(found, kind):
    taken = 0
    for place in PLACES:
        for attributes in calls(kind):
            graph = attention(kind, place, attributes)
            if graph is None:
                continue
            found.clear()
            model = graph.compile(scratch_limit=0)
            if not any(found):
                continue
            taken += 1
            given = arrays(graph)
            got, want = model(given), graph.compile(backend="numpy")(given)
            for name in want:
                np.testing.assert_allclose(
                    np.asarray(got[name], np.float64),
                    np.asarray(want[name], np.float64),
                    rtol=1e-3,
                    atol=1e-3,
                    err_msg=f"{name}, {kind} on {place} with {attributes}",
                )
    if kind in {*blocks.ELEMENTWISE, *blocks.ALONG} - {"SoftMax"}:
        assert taken, f"{kind} is listed, and never runs in blocks"


def test_a_sum_over_heads_does_not_go_in_blocks(found):
    rng = np.random.default_rng(3)
    graph = og.Graph()
    q, k, v = (graph.input(name, "f32", [1, 8, 64, 8]) for name in "qkv")
    weights = graph.op("SoftMax", graph.op("MatMul", q, k, transpose_b=True), axis=-1)
    graph.output(graph.op("ReduceSum", graph.op("MatMul", weights, v), axes=[1], keep_dims=True), name="y")
    given = {name: rng.standard_normal((1, 8, 64, 8)).astype(np.float32) for name in "qkv"}
    got = graph.compile(scratch_limit=0)(given)["y"]
    assert not any(found)
    np.testing.assert_allclose(got, graph.compile(backend="numpy")(given)["y"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "size", [(HEADS, 1), (HEADS, SIZE), (IMAGES, 1, SIZE), (1, HEADS, 1), (SIZE,), (1, 1), ()]
)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3], [2, 1, 0, 3], [2, 3, 0, 1]])
def test_what_is_turned_meets_operands_of_fewer_axes(found, order, size):
    rng = np.random.default_rng(4)
    graph = og.Graph()
    shape = (IMAGES, HEADS, 3, 5)
    q, k, v = (graph.input(name, "f32", shape) for name in "qkv")
    weights = graph.op("SoftMax", graph.op("MatMul", q, k, transpose_b=True), axis=-1)
    turned = graph.op("StaticTranspose", graph.op("MatMul", weights, v), order=order)
    sizes = [1 if d == 1 else turned.dims[len(turned.dims) - len(size) + axis] for axis, d in enumerate(size)]
    gate = graph.input("gate", "f32", sizes)
    graph.output(graph.op("Multiply", turned, gate), name="y")
    given = {name: rng.standard_normal(shape).astype(np.float32) for name in "qkv"}
    given["gate"] = np.asarray(rng.standard_normal(sizes), np.float32)
    got = graph.compile(scratch_limit=0)(given)["y"]
    assert found
    np.testing.assert_allclose(got, graph.compile(backend="numpy")(given)["y"], rtol=1e-4, atol=1e-4)
