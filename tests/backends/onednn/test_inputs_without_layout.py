"""Inputs that lie as no layout of the library tells are copied, or left to steps on the host: the rest stays there."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from support.op_calls import EXAMPLES

pytestmark = pytest.mark.usefixtures("onednn")

CALLS = [example for examples in EXAMPLES.values() for example in examples]


def repeated(array):
    """The first part of an array along its first axis, as often as it is long."""
    return np.broadcast_to(array[:1], array.shape)


def strides_of(array):
    return tuple(step // array.itemsize for step in array.strides)


@pytest.mark.no_cover
@each("example", CALLS, ids=lambda one: f"{one.kind}{one.shapes}")
def test_an_op_takes_inputs_whose_elements_share_memory(example):
    """By the same backend as others, with the same numbers."""
    sizes, arrays = example.values, example.arrays()
    shared = [
        array if number in sizes or not array.ndim else repeated(array) for number, array in enumerate(arrays)
    ]
    results = []
    for given in (shared, [array.copy() for array in shared]):
        op = example.op()
        inputs = [
            og.LogicalTensor(t.id, t.data_type, t.shape, strides=strides_of(array), name=t.name)
            for t, array in zip(op.inputs, given, strict=True)
        ]
        graph = og.Graph()
        graph.add_op(op.with_tensors(inputs, op.outputs))
        graph.finalize()
        (partition,) = graph.get_partitions()
        compiled = partition.compile()
        outputs = compiled.execute(None, given)
        results.append((compiled.backend, outputs))
    (backend, got), (usual, want) = results
    assert backend == usual
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def windows(graph):
    """Eight numbers from each place on."""
    array = np.lib.stride_tricks.sliding_window_view(np.arange(11, dtype=np.float32), 8)
    tensor = og.LogicalTensor(1000, "f32", array.shape, strides=strides_of(array), name="odd")
    return graph.add_input(tensor), array


def many_axes(graph):
    array = np.arange(2**14, dtype=np.float32).reshape((2,) * 14)
    return graph.input("odd", "f32", array.shape), array


def wide_integers(graph):
    array = np.broadcast_to(np.arange(4), (4, 4))
    return graph.add_input(og.LogicalTensor(1000, "s64", (4, 4), strides=(0, 1), name="odd")), array


@pytest.mark.parametrize("odd", [windows, many_axes, wide_integers])
@pytest.mark.parametrize("constant", [False, True])
def test_one_odd_input_does_not_send_a_program_to_numpy(odd, constant):
    graph = og.Graph()
    tensor, array = odd(graph)
    if constant:
        graph = og.Graph()
        tensor = graph.constant(array, name="odd")
    x = graph.input("x", "f32", [16, 16])
    graph.output(graph.op("ReLU", graph.op("MatMul", x, x)), name="y")
    graph.output(graph.op("HostAbs", tensor) if odd is wide_integers else graph.op("Abs", tensor), name="z")
    model = graph.compile()
    given = {"x": np.eye(16, dtype=np.float32)} | ({} if constant else {"odd": array})
    for _ in range(2):
        got = model(given)
        np.testing.assert_array_equal(got["y"], np.eye(16))
        np.testing.assert_array_equal(got["z"], np.abs(array))
    told = {part.label: model.explain()[part.id] for part in model.partitions}
    (product,) = (one for label, one in told.items() if "MatMul" in label)
    assert product.backend == "onednn"


def test_the_explanation_says_what_is_copied():
    graph = og.Graph()
    tensor, array = windows(graph)
    graph.output(graph.op("MatMul", tensor, graph.input("w", "f32", [8, 8])), name="y")
    model = graph.compile()
    (told,) = model.explain().values()
    assert told.backend == "onednn"
    assert "'odd' has strides [1, 1], under which elements share memory; it is copied first" in str(told)
    np.testing.assert_array_equal(model({"odd": array, "w": np.eye(8, dtype=np.float32)})["y"], array)
