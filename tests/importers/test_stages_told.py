"""What models that run in stages tell of themselves: numbers of partitions, control flow, and before the first call."""

import numpy as np
import onednn_graph as og
import pytest

onnx = pytest.importorskip("onnx", reason="these tests need onnx; install the extra 'onnx'")

from onnx import TensorProto, helper  # noqa: E402

X = np.linspace(-1, 3, 20, dtype=np.float32).reshape(4, 5)


def value(name, shape=(4, 5), kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.fixture
def model():
    """A loop over max(x) ones of `v + x`, and a stage on each side of it."""
    body = helper.make_graph(
        [helper.make_node("Add", ["v", "x"], ["vo"]), helper.make_node("Identity", ["ci"], ["co"])],
        "body",
        [value("i", (), TensorProto.INT64), value("ci", (), TensorProto.BOOL), value("v")],
        [value("co", (), TensorProto.BOOL), value("vo")],
    )
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["n"], to=TensorProto.INT64),
        helper.make_node("Loop", ["n", "", "x"], ["l"], body=body, name="turns"),
        helper.make_node("Relu", ["l"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y", None)])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return og.from_onnx(made).compile()


def test_each_partition_has_a_number_of_its_own(model):
    for x in (X, X[::-1] * 0.9):
        model(x)
        numbers = [partition.id for partition in model.partitions]
        assert len(numbers) == len(set(numbers)) > 2
        assert list(model.explain()) == numbers
    assert numbers[0] == 0


def test_control_flow_is_in_the_report(model):
    model(X)
    assert "node 'turns' (Loop) by itself, on numpy: its graphs ran 3 times, in stages" in str(
        model.explain()
    )
    report = model.report(X)
    assert "Loop of ONNX: its graphs ran 3 times, in stages" in str(report)
    assert all(seconds >= 0 for seconds in report.seconds.values())


def test_before_a_call_it_is_said_that_there_was_none(model):
    assert "call it once before explain()" in str(model.explain())
    assert not model.explain()
    model(X)
    assert "call it once" not in str(model.explain())


def test_one_partition_is_one():
    graph = og.Graph()
    graph.relu(graph.input("x", "f32", [4]), name="y")
    assert str(graph.compile().report(np.ones(4, np.float32))).startswith("1 partition:")
