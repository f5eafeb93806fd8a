"""What people do wrong at first, and what they are told."""

import numpy as np
import onednn_graph as og
import pytest

W = np.zeros((3, 4), np.float32)


def training():
    graph = og.Graph()
    x, labels = graph.input("x", "f32", [4, 3]), graph.input("labels", "s64", [4])
    logits = graph.output(graph.matmul(x, graph.parameter(W, name="w"), name="logits"))
    return graph, logits, og.training.cross_entropy(graph, logits, labels)


def test_all_missing_attributes_are_named_at_once():
    graph = og.Graph()
    x, w = graph.input("x", "f32", [2, 8, 8, 3]), graph.constant(np.zeros((3, 3, 3, 4), np.float32))
    with pytest.raises(
        og.errors.AttributeValueError,
        match=r"^Convolution: required attributes 'strides' \(a list of positive s64 values\), 'pads_begin' \(.*\), "
        r"'pads_end' \(.*\) and 'dilations' \(.*\) are missing; give them$",
    ):
        graph.convolution(x, w)
    with pytest.raises(
        og.errors.AttributeValueError,
        match=r"attribute 'dilations' is missing; give a list of positive s64 values$",
    ):
        graph.convolution(x, w, strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0])


@pytest.mark.parametrize("given", [W, 1.0, [[1.0]], np.float32(2)], ids=lambda value: type(value).__name__)
def test_values_for_tensors(given):
    graph = og.Graph()
    with pytest.raises(og.errors.ArgumentTypeError, match=r"graph\.constant\(…\)"):
        graph.matmul(graph.input("x", "f32", [2, 3]), given)


def test_what_is_no_value_is_not_taken_for_one():
    graph = og.Graph()
    with pytest.raises(og.errors.ArgumentTypeError, match="graph's ops make them") as told:
        graph.matmul(graph.input("x", "f32", [2, 3]), "w")
    assert "constant" not in str(told.value)


@pytest.mark.parametrize("name", ["quantize_static", "to", "for_inference", "save", "gradients"])
def test_a_compiled_graph_is_no_graph(name):
    graph = og.Graph()
    graph.output(graph.relu(graph.input("x", "f32", [2])), name="y")
    model = graph.compile()
    assert hasattr(graph, name)
    with pytest.raises(
        AttributeError, match=rf"is compiled, .* call graph\.{name}\(…\) of the graph, and compile"
    ):
        getattr(model, name)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        _ = model.nothing
    assert not hasattr(model, "_nothing")


def test_a_compiled_graph_is_not_trained():
    graph, _, loss = training()
    with pytest.raises(og.errors.ArgumentTypeError, match="what is compiled can't be trained, the graph can"):
        og.training.Trainer(graph.compile(), loss, og.training.SGD(0.1))


def test_a_loss_that_was_pruned():
    graph, logits, loss = training()
    graph.prune([logits])
    with pytest.raises(
        og.errors.GraphError, match=r"is not in the graph: .*graph\.prune\(\[logits, loss\]\)"
    ):
        og.training.Trainer(graph, loss, og.training.SGD(0.1))


def test_a_tensor_of_another_graph():
    """One whose number another tensor has here: it would be taken for that."""
    graph, _, loss = training()
    h = og.LogicalTensor(loss.id, "f32", [], name="elsewhere")
    with pytest.raises(og.errors.GraphError, match="is of another graph: in this one, tensor .* has its id"):
        og.training.Trainer(graph, h, og.training.SGD(0.1))
    with pytest.raises(og.errors.GraphError, match="of another graph"):
        graph.tensor(h)
    with pytest.raises(og.errors.GraphError, match="another graph|graph that made it"):
        graph.output(h)
