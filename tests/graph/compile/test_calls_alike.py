"""Compiled graphs and partitions are called, bound and explained in one way."""

import re
from itertools import product

import numpy as np
import onednn_graph as og
import pytest

A, W = np.arange(-3, 3, dtype=np.float32).reshape(2, 3), np.ones((3, 2), np.float32)
SUM = np.maximum(A, 0) @ W


def graph(hold=False):
    made = og.Graph()
    a = made.input("a", "f32", [2, 3])
    w = made.constant(W, name="w") if hold else made.input("w", "f32", [3, 2])
    product = made.matmul(made.relu(a, name="r"), w, name="y")
    made.output(product)
    made.finalize()
    return made


def compiled(of, hold=False, backend="numpy"):
    made = graph(hold)
    if of == "graph":
        return made.compile(backend=backend, policy="debug")
    (relu, product) = made.get_partitions("debug", backend=backend)
    assert relu.label == "ReLU"
    return product.compile()


FIRST = {"graph": ("a", A), "partition": ("r", np.maximum(A, 0))}
"""Name and array of what stands before `w`."""
BOTH = [*product(("graph", "partition"), ("numpy", "onednn"))]


@pytest.mark.parametrize(("of", "backend"), BOTH)
def test_calls_take_and_give_the_same(of, backend, onednn):
    model = compiled(of, backend=backend)
    name, x = FIRST[of]
    number = next(t.id for t in model.inputs if t.name == name)
    out = np.empty_like(SUM)
    for results in (
        model(x, W),
        model(x, w=W),
        model({number: x, "w": W}),
        model({name: x, "w": W}, outputs={"y": out}),
        model({name: x, "w": W}, [out]),
        model(x, W, outputs=[None], stream=og.Stream(model.engine)),
        model.bind([x, W])(),
        model.bind({name: x, "w": W}, {"y": out})(),
        model.bind([x, W], [out])(),
        model.bind([x, W], [None])(),
    ):
        assert isinstance(results, og.Results)
        assert list(results) == ["y"]
        np.testing.assert_array_equal(results.only, SUM)
        np.testing.assert_array_equal(results[model.outputs[0]], SUM)
    assert model(x, W, outputs=[out]).only is out


@pytest.mark.parametrize("of", FIRST)
def test_bound_calls_give_the_same_arrays_each_time(of):
    model = compiled(of)
    x = FIRST[of][1].copy()
    run = model.bind([x, W])
    assert isinstance(run, og.Bound)
    first = run()["y"]
    x += 1
    assert run()["y"] is first is run.outputs["y"]
    np.testing.assert_array_equal(first, np.maximum(x, 0) @ W)
    assert repr(run) == "Bound(y)"


@pytest.mark.parametrize("of", FIRST)
def test_what_the_graph_holds_is_left_out(of):
    model = compiled(of, hold=True)
    name, x = FIRST[of]
    np.testing.assert_array_equal(model(x)["y"], SUM)
    np.testing.assert_array_equal(model({name: x})["y"], SUM)
    np.testing.assert_array_equal(model.bind({name: x})()["y"], SUM)


@pytest.mark.parametrize("of", FIRST)
def test_mistakes_are_named_alike(of):
    model = compiled(of)
    name, x = FIRST[of]
    for call, says in (
        (lambda: model(x), f"input 'w' is missing; the {of} takes '{name}', 'w', got '{name}'"),
        (lambda: model(x, W, x), f"the {of} takes 2 inputs, '{name}', 'w', got 3 by position"),
        (lambda: model(x, v=W), f"the {of} has no input 'v'"),
        (lambda: model(x, W, w=W), "input 'w' is given twice"),
        (lambda: model(x, W, outputs=[None, None]), f"the {of} has 1 output, 'y', got 2 arrays"),
        (lambda: model(x, W)["z"], f"the {of} has no output 'z'"),
        (lambda: model.bind({name: x}), "input 'w' is missing"),
    ):
        with pytest.raises(og.ArgumentError, match=re.escape(says)):
            call()


def test_ports_of_one_name_go_by_their_ids():
    made = og.Graph()
    tensors = [og.LogicalTensor(i, "f32", [2], name="same") for i in range(2)]
    made.add_op(og.Op(0, "Subtract", tensors, [og.LogicalTensor(2, "f32")]))
    made.finalize()
    model = made.get_partitions()[0].compile()
    x, y = np.float32([3, 4]), np.float32([1, 1])
    for results in (model(x, y), model({0: x, 1: y}), model({"0": x, "1": y}), model.bind([x, y])()):
        np.testing.assert_array_equal(results[2], [2, 3])


def test_explanations_are_by_partition_everywhere():
    made = graph()
    model = made.compile(backend="numpy")
    parts = [p.compile() for p in made.get_partitions("debug", backend="numpy")]
    found = [model.explain(), made.tune(0.01, backend="numpy"), *(part.explain() for part in parts)]
    for one in found:
        assert isinstance(one, og.profiling.Explanations)
        assert str(one).startswith("partition ")
    assert [list(part.explain()) for part in parts] == [[0], [1]]
    assert parts[1].explain().only == parts[1].explanation
    with pytest.raises(og.ArgumentError, match="there are 2 partitions, 0, 1; take one by its id"):
        _ = made.compile(backend="numpy", policy="debug").explain().only


def test_the_former_explanation_of_a_partition_works_for_one_more_version():
    part = compiled("partition")
    with pytest.warns(
        DeprecationWarning, match=r"explain\(\).backend is .* use explain\(\).only.backend$"
    ) as told:
        assert part.explain().backend == "numpy"
    assert told[0].filename == __file__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = part.explain().nothing
