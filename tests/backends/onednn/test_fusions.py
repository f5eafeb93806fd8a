"""The table of fusions: what a row says is what patterns claim and primitives take along."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.backends.onednn.lowering.fusions import FUSIONS, PATTERNS, REFUSALS
from onednn_graph.backends.onednn.lowering.links import LINKS
from onednn_graph.backends.onednn.lowering.matching import Fusion
from onednn_graph.backends.onednn.lowering.table import LOWERED
from onednn_graph.ops.registry import REGISTRY
from onednn_graph.profiling import profile

ROWS = [row for row in FUSIONS if isinstance(row, Fusion)]
TAKING = [row for row in ROWS if any(row.anchor.values())]


def test_a_kind_is_the_anchor_of_one_row():
    anchors = [kind for row in ROWS for kind in row.anchor]
    assert len(anchors) == len(set(anchors))


def test_rows_name_kinds_that_there_are():
    kinds = {kind for row in ROWS for kind in (*row.anchor, *row.before, *row.then, *row.last)}
    assert kinds <= {schema.kind for schema in REGISTRY}


def test_who_takes_others_along_has_a_primitive():
    assert set(REFUSALS) <= set(LOWERED)


def test_whatever_follows_an_anchor_that_takes_along_has_a_link():
    assert {kind for row in TAKING for kind in row.then | row.last} <= set(LINKS)


def test_the_first_rows_claim_first():
    priorities = [pattern.priority for pattern in PATTERNS]
    assert priorities == sorted(priorities, reverse=True)


def link(kind, *more, **attributes):
    """Of an op behind a tensor of (2, 3, 1, 1), which its second input may be too."""
    graph = og.Graph()
    x = graph.input("x", "f32", (2, 3, 1, 1))
    y = graph.op(kind, x, *[graph.input(f"i{i}", "f32", shape) for i, shape in enumerate(more)], **attributes)
    (op,) = graph.ops
    return LINKS[kind](op, x, y)


def anchor(kind, **attributes):
    """An op of one input that makes (2, 3, 1, 1)."""
    graph = og.Graph()
    graph.op(kind, graph.input("x", "f32", attributes.pop("shape", (2, 3, 1, 1))), **attributes)
    return graph.ops[0]


POOL = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "data_format": "NCX"}


@pytest.mark.parametrize(
    ("op", "follows", "reason"),
    [
        (anchor("ReLU"), link("Abs"), "type of their result"),
        (anchor("ReLU"), link("Reorder"), None),
        (anchor("SoftMax", axis=1), link("Reorder"), "a scale alone"),
        (anchor("AvgPool", shape=(2, 3, 2, 2), kernel=[2, 2], exclude_pad=False, **POOL), link("Abs"), None),
        (anchor("MaxPool", kernel=[1, 1], **POOL), link("Abs"), "no primitive"),
        (
            anchor("ReduceSum", shape=(2, 3, 2, 2), axes=[2, 3], keep_dims=True),
            link("Add", (1, 3, 1, 1)),
            "different places",
        ),
        (
            anchor("ReduceSum", shape=(2, 3, 2, 2), axes=[2, 3], keep_dims=True),
            link("Add", (2, 3, 1, 1)),
            None,
        ),
    ],
)
def test_why_a_primitive_does_not_take_along_what_follows(op, follows, reason):
    refusal = REFUSALS[op.kind](op, follows)
    assert refusal is None if reason is None else reason in refusal


@pytest.mark.parametrize("alone", [True, False])
def test_a_sigmoid_that_its_argument_is_multiplied_with_is_one_primitive(onednn, alone):
    """Not where the sigmoid is kept."""
    x = np.random.default_rng(0).normal(size=(3, 257)).astype("f4")
    graph = og.Graph()
    given = graph.input("x", "f32", x.shape)
    gate = graph.op("Sigmoid", given)
    outputs = [graph.op("Multiply", given, gate)] if alone else [graph.op("Multiply", given, gate), gate]
    for tensor in outputs:
        graph.output(tensor)
    model = graph.compile()
    with profile() as seen:
        made = model({"x": x})
    exact = 1 / (1 + np.exp(-x.astype("f8")))
    np.testing.assert_allclose(made[outputs[0].name], x * exact, rtol=1e-5, atol=1e-6)
    assert len([event for event in seen.events if event.kind.value == "primitive"]) == (1 if alone else 2)
