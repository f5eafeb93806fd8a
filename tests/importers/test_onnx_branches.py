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


def test_names_inside_of_a_branch_that_the_branch_around_it_has_later():
    """It was left out as done already: the sum was of what the inner branch had made."""
    inner = asked("i", branch([node("Exp", "x", "late")], "late"), name="two")
    then = branch([*inner, node("Neg", "x", "late"), node("Add", "i late", "s")], "s")
    model = whole(asked("y", then), {"x": (TYPES.FLOAT, [1, 4])}, constants=ONE)
    x = normal(1, 4)
    np.testing.assert_allclose(og.from_onnx(model).compile()(x)["y"], np.exp(x) - x, rtol=1e-5)


def test_branches_with_the_same_names_inside():
    nodes = [
        *asked("a", branch([node("Mul", "x by", "it")], "it", {"by": np.float32(2)})),
        *asked("b", branch([node("Mul", "x by", "it")], "it", {"by": np.float32(3)}), name="two"),
        node("Sub", "a b", "y"),
    ]
    model = whole(nodes, {"x": (TYPES.FLOAT, [1, 4])}, constants=ONE)
    graph = og.from_onnx(model)
    assert type(graph) is og.Graph
    x = normal(1, 4)
    check(model, {"x": x}, graph.compile()(x))


def products(seed):
    """A branch with weights of 4 bits of its own, named as those of others, and what they are."""
    draws = np.random.default_rng(seed)
    q, scales = draws.integers(0, 256, (8, 1, 16), np.uint8), draws.integers(1, 4, 8).astype(np.float32)
    product = node("MatMulNBits", "x q s", "out", domain="com.microsoft", K=32, N=8, bits=4, block_size=32)
    integers = np.stack([q & 15, q >> 4], axis=-1).reshape(8, 32).astype(np.float32) - 8
    return branch([product], "out", {"q": q, "s": scales}), (integers * scales[:, None]).T


def test_weights_inside_of_a_branch_are_the_same_for_all_sizes():
    weights = normal(4, 8, seed=1)
    other = branch([node("MatMul", "x w", "e")], "e", {"w": weights})
    model = whole(asked(other=other), {"x": (TYPES.FLOAT, ["n", 4])}, constants=ONE)
    graph = og.from_onnx(model)
    held = [graph.with_shapes({"x": (rows, 4)}).constants for rows in (2, 3)]
    (first,), (second,) = ([a for a in arrays.values() if a.shape == (4, 8)] for arrays in held)
    assert np.shares_memory(first, second)


def few_bits(nodes, inputs, constants):
    model = whole(nodes, inputs, constants=constants)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def test_branches_with_the_same_names_keep_weights_of_their_own_from_size_to_size():
    (then, first), (other, second) = products(1), products(2)
    compiled = og.from_onnx(few_bits(asked("y", then, other), {"x": (TYPES.FLOAT, ["n", 32])}, ONE)).compile()
    for rows in (1, 2, 1, 3):
        x = np.random.default_rng(rows).integers(-3, 4, (rows, 32)).astype(np.float32)
        np.testing.assert_array_equal(compiled(x)["y"], x @ (first if rows == 1 else second))


def test_branches_that_values_decide_keep_weights_of_their_own():
    (then, first), (other, second) = products(1), products(2)
    nodes = [node("If", "c", "y", then_branch=then, else_branch=other)]
    model = few_bits(nodes, {"x": (TYPES.FLOAT, [2, 32]), "c": (TYPES.BOOL, [])}, {})
    compiled = og.from_onnx(model).compile()
    x = np.random.default_rng(0).integers(-3, 4, (2, 32)).astype(np.float32)
    for taken in (True, False, True):
        made = compiled({"x": x, "c": np.asarray(taken)})
        np.testing.assert_array_equal(made["y"], x @ (first if taken else second))


def test_several_branches_of_one_model_have_weights_of_their_own():
    (one, first), (two, second) = products(1), products(2)
    nodes = [*asked("a", one), *asked("b", two, name="two"), node("Sub", "a b", "y")]
    graph = og.from_onnx(few_bits(nodes, {"x": (TYPES.FLOAT, [1, 32])}, ONE))
    assert type(graph) is og.Graph
    x = np.random.default_rng(0).integers(-3, 4, (1, 32)).astype(np.float32)
    np.testing.assert_array_equal(graph.compile()(x)["y"], x @ (first - second))


def test_nodes_of_one_name_whose_op_is_defined_by_others():
    """What lies between the nodes of a definition has a name that begins with the node's."""
    nodes = [
        node("SoftmaxCrossEntropyLoss", "x labels", "a", name="loss", reduction="sum"),
        node("Neg", "x", "m"),
        node("SoftmaxCrossEntropyLoss", "m labels", "b", name="loss", reduction="mean"),
        node("Sub", "a b", "y"),
    ]
    model = whole(nodes, {"x": (TYPES.FLOAT, [2, 3])}, constants={"labels": np.int64([0, 1])})
    x = normal(2, 3)
    check(model, {"x": x}, og.from_onnx(model).compile()(x))


def test_a_branch_that_is_a_value_which_is_in_no_graph():
    nodes = [node("NonZero", "x", "n"), node("Cast", "n", "t", to=TYPES.FLOAT), *asked("b", branch([], "t"))]
    model = whole([*nodes, node("Neg", "b", "y")], {"x": (TYPES.FLOAT, [1, 4])}, constants=ONE)
    x = np.float32([[0, 1, -2, 0]])
    check(model, {"x": x}, og.from_onnx(model).compile()(x))


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
