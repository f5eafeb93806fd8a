"""What is made of constants once is what each call would make of them."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from support.op_calls import EXAMPLES

pytestmark = pytest.mark.usefixtures("onednn")

CALLS = [example for examples in EXAMPLES.values() for example in examples]


@pytest.mark.parametrize("inputs_change", [True, False])
def test_rows_of_infinity_of_a_constant_are_zeros_in_what_follows(inputs_change):
    """The zeros are put into what the softmax has made; before it, they would be gone again."""
    table = np.arange(12, dtype=np.float32).reshape(3, 4)
    table[1] = -np.inf
    graph = og.Graph()
    x = graph.constant(table, name="x")
    weights = graph.op("SoftMax", x, axis=-1, mode="inf_as_zero")
    other = graph.input("w", "f32", [4, 5]) if inputs_change else graph.constant(np.ones((4, 5), np.float32))
    graph.output(graph.op("MatMul", weights, other), name="y")
    given = {"w": np.ones((4, 5), np.float32)} if inputs_change else {}
    model = graph.compile()
    for _ in range(3):
        np.testing.assert_allclose(model(given)["y"], [[1] * 5, [0] * 5, [1] * 5], atol=1e-6)


@pytest.mark.no_cover
@each("example", CALLS, ids=lambda one: f"{one.kind}{one.shapes}")
def test_an_op_of_constants_gives_what_it_gives_of_inputs(example):
    results = []
    arrays = example.arrays()
    for property_type in ("constant", "variable"):
        op = example.op()
        graph = og.Graph()
        inputs = [
            og.LogicalTensor(t.id, t.data_type, t.shape, name=t.name, property_type=property_type)
            for t in op.inputs
        ]
        op = op.with_tensors(inputs, op.outputs)
        graph.add_op(op)
        # What is an output of the graph is made at each call, what lies between is not.
        zero = graph.input("zero", "f32", [1])
        for number, tensor in enumerate(op.outputs):
            if tensor.data_type is og.DataType.f32:
                graph.output(graph.op("Add", tensor, zero), name=f"sum{number}")
            else:
                graph.output(tensor)
        model = graph.compile()
        given = {t.name: array for t, array in zip(inputs, arrays, strict=True)}
        given["zero"] = np.zeros(1, np.float32)
        results.append([{name: np.array(one) for name, one in model(given).items()} for _ in range(2)])
    for name, want in results[1][0].items():
        for got in (*results[0], results[1][1]):
            np.testing.assert_array_equal(got[name], want)


def test_primitives_and_what_they_write_through_views_are_made_once_too():
    """The binaries of groups see their result with more axes; a product of what they make packs it once."""
    draws = np.random.default_rng(0)
    w, scales = draws.integers(-9, 9, (64, 48)).astype(np.int8), draws.integers(1, 4, (8, 48)).astype("f4")
    graph = og.Graph()
    x = graph.input("x", "f32", [3, 64])
    groups = {"qtype": "per_group", "group_shape": [8, 1]}
    real = graph.op("DynamicDequantize", graph.constant(w), graph.constant(scales), **groups)
    table = draws.integers(-9, 9, (3, 48)).astype("f4")
    above = graph.op("ReLU", graph.constant(table))
    graph.output(graph.op("Add", graph.op("MatMul", x, real), above), name="y")
    model = graph.compile(backend="onednn")
    told = [step for one in model.explain().values() for step in one.steps]
    assert {step.name.partition(" ")[0] for step in told if not step.prepared} == {"matmul"}
    assert any(step.name.startswith("dequantize groups") for step in told if step.prepared)
    assert "\n  kernels: none at a call\n  once for constants: " in str(model.explain()[0])
    data = draws.integers(-4, 5, (3, 64)).astype("f4")
    exact = data @ (w * np.repeat(scales, 8, axis=0)) + np.maximum(table, 0)
    for _ in range(2):
        np.testing.assert_array_equal(model(data)["y"], exact)


def test_what_a_sum_is_written_over_is_made_once_where_it_is_of_constants():
    """It would have had the memory of the output, in which each call had to make it anew."""
    small = np.arange(8, dtype=np.float32).reshape(1, 2, 4)
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 2, 8])
    large = graph.op("Interpolate", graph.constant(small), mode="nearest", sizes=[8], data_format="NCX")
    graph.output(graph.op("Add", x, large), name="y")
    model = graph.compile(backend="onednn")
    told = [step for one in model.explain().values() for step in one.steps]
    assert [step.prepared for step in told] == [True, False]
    for data in (np.ones((1, 2, 8), np.float32), np.zeros((1, 2, 8), np.float32)):
        np.testing.assert_array_equal(model(data)["y"], data + small.repeat(2, axis=-1))
