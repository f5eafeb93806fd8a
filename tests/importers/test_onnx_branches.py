"""Branches of an If that is decided by constants or sizes: part of the graph, as ONNX's reference runs them."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.onnx.staged_graph import StagedGraph
from onnx.reference import ReferenceEvaluator
from onnx_oracle import IR, helper, normal, numpy_helper, onnx

TYPES = onnx.TensorProto


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def branch(nodes, outputs, constants=()):
    infos = [onnx.ValueInfoProto(name=name) for name in outputs.split()]
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    return helper.make_graph(nodes, "branch", [], infos, tensors)


def whole(nodes, inputs, outputs="y", constants=()):
    infos = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    results = [helper.make_tensor_value_info(name, TYPES.FLOAT, None) for name in outputs.split()]
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "branches", infos, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=IR)


def asked(what="y", then=None, other=None, name="one"):
    """Nodes that take a branch by the rows of x: `then` where there is one."""
    then = then or branch([node("Exp", "x", "t")], "t")
    other = other or branch([node("Neg", "x", "e")], "e")
    return [
        node("Shape", "x", f"{name}.rows", end=1),
        node("Squeeze", f"{name}.rows", f"{name}.count"),
        node("Equal", f"{name}.count one", f"{name}.asked"),
        node("If", f"{name}.asked", what, then_branch=then, else_branch=other),
    ]


ONE = {"one": np.int64(1)}


def check(model, feeds, made):
    expected = ReferenceEvaluator(model).run(None, feeds)
    for info, want in zip(model.graph.output, expected, strict=True):
        np.testing.assert_allclose(made[info.name], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
def test_sizes_that_are_known_decide(rows):
    model = whole([*asked("b"), node("Abs", "b", "y")], {"x": (TYPES.FLOAT, [rows, 4])}, constants=ONE)
    graph = og.from_onnx(model)
    assert type(graph) is og.Graph
    assert [op.kind for op in graph.ops] == ["Exp" if rows == 1 else "Multiply", "Abs"]
    x = normal(rows, 4)
    check(model, {"x": x}, graph.compile()(x))


def test_sizes_that_are_open_decide_at_each_call():
    model = whole([*asked("b"), node("Abs", "b", "y")], {"x": (TYPES.FLOAT, ["n", 4])}, constants=ONE)
    graph = og.from_onnx(model)
    assert type(graph) is og.OpenGraph
    compiled = graph.compile()
    for rows in (1, 3, 1):
        x = normal(rows, 4, seed=rows)
        check(model, {"x": x}, compiled(x))
    assert type(graph.with_shapes({"x": (3, 4)})) is og.Graph


def test_branches_inside_of_branches_with_constants_of_their_own():
    inner = asked("i", branch([node("Mul", "m factor", "it")], "it"), branch([], "m"), name="two")
    then = branch([node("Add", "x shift", "m"), *inner], "m i", {"shift": normal(4, seed=1)})
    other = branch([node("Identity", "x", "o")], "o x")
    nodes = [*asked("b c", then, other), node("Sub", "b c", "y")]
    constants = {**ONE, "factor": normal(4, seed=2)}
    for rows in (1, 2):
        model = whole(nodes, {"x": (TYPES.FLOAT, [rows, 4])}, constants=constants)
        graph = og.from_onnx(model)
        assert type(graph) is og.Graph
        x = normal(rows, 4)
        check(model, {"x": x}, graph.compile()(x))


def test_a_branch_with_what_is_in_no_graph_runs_in_stages():
    then = branch([node("NonZero", "x", "n"), node("Cast", "n", "t", to=TYPES.FLOAT)], "t")
    nodes = [node("Relu", "x", "r"), *asked("b", then), node("Neg", "b", "z"), node("Neg", "r", "y")]
    model = whole(nodes, {"x": (TYPES.FLOAT, [1, 4])}, "y z", ONE)
    graph = og.from_onnx(model)
    assert type(graph) is StagedGraph
    x = np.float32([[0, 1, -2, 0]])
    check(model, {"x": x}, graph.compile()(x))
    with pytest.raises(og.UnsupportedError, match="If"):
        og.from_onnx(model, reference=False)


def test_names_that_mean_another_thing_around_the_branch():
    """What files have that nobody has checked; onnxruntime runs them, too."""
    then = branch([node("Exp", "x", "late")], "late")
    nodes = [*asked("b", then), node("Neg", "b", "late"), node("Abs", "late", "y")]
    model = whole(nodes, {"x": (TYPES.FLOAT, [1, 4])}, constants=ONE)
    x = normal(1, 4)
    np.testing.assert_allclose(og.from_onnx(model).compile()(x)["y"], np.exp(x), rtol=1e-5)


def test_inside_of_a_branch_that_values_decide():
    """The graph of an If that is decided at execution is one graph, with what sizes decide in it."""
    inner = branch([node("Relu", "x", "r"), *asked("i"), node("Add", "r i", "a")], "a")
    nodes = [node("If", "c", "y", then_branch=inner, else_branch=branch([], "x"))]
    model = whole(nodes, {"x": (TYPES.FLOAT, ["n", 4]), "c": (TYPES.BOOL, [])}, constants=ONE)
    compiled = og.from_onnx(model).compile()
    for rows in (1, 2, 1):
        for taken in (True, False):
            feeds = {"x": normal(rows, 4, seed=rows), "c": np.asarray(taken)}
            check(model, feeds, compiled(feeds))
            assert [ran.kind for ran in compiled.nodes] == ["If"]


def test_decided_without_a_reference():
    model = whole(asked(), {"x": (TYPES.FLOAT, [1, 4])}, constants=ONE)
    x = normal(1, 4)
    check(model, {"x": x}, og.from_onnx(model, reference=False).compile()(x))
