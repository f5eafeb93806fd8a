"""Where ops run is said once: partitions, explanations, reports and pictures agree."""

import re

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.pictures.description import describe_compiled


def refused(graph):
    """A Divide of which both operands broadcast, which patterns claim and no primitive does."""
    a, b = graph.input("a", "f32", (4, 1)), graph.input("b", "f32", (1, 5))
    graph.op("Divide", a, b, name="outer")
    return {"a": np.ones((4, 1), np.float32), "b": np.ones((1, 5), np.float32)}


def beside(graph):
    """The same, behind a product and before a function that the library has."""
    x = graph.input("x", "f32", (4, 6))
    a = graph.op(
        "ReduceSum", graph.op("MatMul", x, graph.input("w", "f32", (6, 5))), axes=[1], keep_dims=True
    )
    y = graph.op("Divide", a, graph.input("b", "f32", (1, 5)), name="outer")
    graph.op("Exp", y)
    shapes = {"x": (4, 6), "w": (6, 5), "b": (1, 5)}
    return {name: np.ones(shape, np.float32) for name, shape in shapes.items()}


def claimed_by_numpy(graph):
    """Numbers in double precision, which the library does not take."""
    graph.op("Exp", graph.input("x", "f64", (4,)))
    return {"x": np.ones(4)}


@pytest.mark.parametrize("build", [refused, beside, claimed_by_numpy])
def test_all_that_tells_where_ops_run_tells_the_same(onednn, build):
    graph = og.Graph()
    arrays = build(graph)
    model = graph.compile()
    report, explained = model.report(arrays, repeat=1), model.explain()
    drawn = {one.id: one.backend for one in describe_compiled(model).partitions}
    by_partition = {part.id: part.backend for part in model.partitions}
    assert by_partition == {number: one.backend for number, one in explained.items()} == drawn
    on_host = {step.op for one in explained.values() for step in one.steps if step.host}
    assert report.ops.get("numpy", 0) == len(on_host) > 0
    assert {one.op.id for one in report.record if one.backend == "numpy"} == on_host
    assert sum(report.ops.values()) == sum(len(part.ops) for part in model.partitions)
    for part in model.partitions:
        if part.backend == "numpy":
            assert part.why_not["onednn"]
            assert "numpy" not in part.why_not


def test_a_report_names_the_ops_that_numpy_runs_and_why(onednn):
    graph = og.Graph()
    arrays = beside(graph)
    text = str(graph.compile().report(arrays, repeat=1))
    assert re.search(
        r"on numpy: Divide: .*the dividend broadcasts|on numpy: Divide: .*both operands broadcast", text
    )
