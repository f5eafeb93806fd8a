"""What users give and get by name has a name of its own; inside, everything goes by ids."""

import itertools

import numpy as np
import onednn_graph as og
import pytest
from rows import each

A, B = np.array([300, 400], "f4"), np.array([100, 101], "f4")


def constant(number, name, property_type="constant"):
    return og.LogicalTensor(number, "f32", [2], property_type=property_type, name=name)


ADDERS = {
    "constant": lambda graph, number, name: graph.add_constant(constant(number, name), A),
    "parameter": lambda graph, number, name: graph.add_parameter(constant(number, name, "variable"), A),
    "input": lambda graph, number, name: graph.add_input(og.LogicalTensor(number, "f32", [2], name=name)),
    "op": lambda graph, number, name: graph.add_op(
        og.Op(number, "ReLU", [graph.tensor(0)], [og.LogicalTensor(number, "f32", name=name)])
    ),
}


@each(("first", "second"), [*itertools.product(ADDERS, repeat=2)])
@each(("one", "other"), [("w", "w"), ("", "7"), ("8", "")])
def test_two_tensors_of_one_name(first, second, one, other):
    """An unnamed tensor goes by its id."""
    if first == second == "op":
        return  # what is inside is looked up by id, and an output's name is looked at when it is one
    graph = og.Graph()
    graph.add_input(og.LogicalTensor(0, "f32", [2], name="x"))
    ADDERS[first](graph, 7, one)
    before = str(graph)
    with pytest.raises(
        og.GraphError, match="would have the name of another tensor.*give each a name of its own"
    ):
        ADDERS[second](graph, 8, other)
    assert str(graph) == before
    ADDERS[second](graph, 9, "v")


def test_constants_by_id():
    graph = og.Graph()
    tensors = [graph.constant(A, name="a"), graph.constant(B)]
    assert {i: array.tolist() for i, array in graph.held_constants.items()} == {
        tensors[0].id: A.tolist(),
        tensors[1].id: B.tolist(),
    }
    graph.drop_constant(tensors[0])
    graph.constant(B, name="a")  # whose name is free again
