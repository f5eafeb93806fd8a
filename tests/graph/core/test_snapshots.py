"""What is made of a graph leaves it as it is: ops can be added, and what was made before has those of before."""

import copy
import pickle

import numpy as np
import onednn_graph as og
import pytest

X = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)


@pytest.fixture
def graph():
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 2])
    graph.relu(graph.matmul(x, graph.parameter(np.eye(2, dtype=np.float32), name="w")), name="y")
    return graph


WAYS = {
    "compile": lambda graph, _: graph.compile(),
    "tune": lambda graph, _: graph.tune(0.01, backend="numpy"),
    "to_html": lambda graph, folder: graph.to_html(folder / "g.html"),
    "to_dot": lambda graph, folder: graph.to_dot(folder / "g.dot"),
    "quantize_static": lambda graph, _: graph.quantize_static([X]),
    "notebook": lambda graph, _: graph._repr_html_(),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_graph_stays_open(graph, way, tmp_path):
    before = str(graph)
    WAYS[way](graph, tmp_path)
    assert not graph.finalized
    assert str(graph) == before
    graph.add(graph["y"], graph["y"], name="twice")


def test_a_compiled_graph_has_the_ops_of_when_it_was_compiled(graph):
    model = graph.compile()
    graph.output(graph["y"])
    graph.add(graph["y"], graph["y"], name="twice")
    later = graph.compile()
    for one in (model, copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert one.output_names == ("y",)
        np.testing.assert_array_equal(one(X)["y"], np.maximum(X, 0))
    assert later.output_names == ("y", "twice")
    np.testing.assert_array_equal(later(X)["twice"], 2 * np.maximum(X, 0))


def test_parameters_are_shared_with_what_was_compiled(graph):
    model = graph.compile()
    graph.set_parameters({"w": 3 * np.eye(2, dtype=np.float32)})
    np.testing.assert_array_equal(model(X)["y"], 3 * np.maximum(X, 0))
    assert not graph.finalized


def test_operators_go_on_after_compile(graph):
    graph.compile()
    z = graph["y"] * 2
    np.testing.assert_array_equal(graph.compile()(X)[z], 2 * np.maximum(X, 0))


def test_partitions_need_a_finalized_graph_as_ever(graph):
    graph.compile()
    with pytest.raises(og.GraphError, match=r"must be finalized before get_partitions; call finalize\(\)"):
        graph.get_partitions()
    graph.finalize()
    assert graph.get_partitions()
    assert graph.compile()(X)["y"].shape == (2, 2)
