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


def chain():
    graph = og.Graph()
    x = graph.input("x", "f32", [2])
    graph.output(graph.relu(graph.abs(x, name="y"), name="z"))
    return graph


def seen(graph):
    return [(t.id, t.name) for t in (*graph.inputs, *graph.outputs)], [(op.id, op.kind) for op in graph.ops]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda graph: graph.prune("y"), r"takes a list of tensors.*write one as \[graph\.tensor\('y'\)\]"),
        (lambda graph: graph.prune(["y"]), r"got 'y' of type str; graph\.tensor\('y'\) gives the tensor"),
        (lambda graph: graph.prune([graph.tensor("y"), "z"]), "got 'z' of type str"),
        (lambda graph: graph.prune(3), r"got one int; write one as \[tensor\]"),
        (lambda graph: graph.prune([3]), "got 3 of type int"),
        (lambda graph: graph.prune([None]), "got None of type NoneType"),
        (lambda graph: graph.prune(graph.tensor("y")), r"got one LogicalTensor; write one as \[tensor\]"),
        (lambda graph: graph.prune([graph.ops[0]]), "of type Op"),
        (lambda graph: graph.prune({"z": "y"}), "prune's output 'z' takes a LogicalTensor, got 'y'"),
        (lambda graph: graph.prune({3: graph.tensor("y")}), "name must be a non-empty string"),
        (lambda graph: graph.prune({"": graph.tensor("y")}), "name must be a non-empty string"),
        (lambda graph: graph.output("y"), r"output takes a LogicalTensor.*graph\.tensor\('y'\)"),
        (lambda graph: graph.output(graph.tensor("y"), name=3), "name must be a non-empty string"),
        (lambda graph: graph.replace_ops(["y"]), "takes a list of ops, got 'y'"),
        (lambda graph: graph.replace_ops(3), "takes a list of ops, got 3"),
        (lambda graph: graph.drop_constant("y"), "drop_constant takes a LogicalTensor"),
        (lambda graph: graph.drop_assignment("y"), "drop_assignment takes a LogicalTensor"),
        (lambda graph: graph.drop_output("y"), "drop_output takes a LogicalTensor"),
        (lambda graph: graph.with_shapes(3), "with_shapes takes shapes by the inputs' names"),
    ],
)
def test_what_changes_a_graph_refuses_all_else_and_leaves_the_graph_as_it_was(change, told):
    graph = chain()
    before = seen(graph)
    with pytest.raises(og.errors.ArgumentTypeError, match=told):
        change(graph)
    assert seen(graph) == before
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(graph.compile()(x)["z"], np.abs(x))


def test_a_prune_that_fails_on_the_way_changes_nothing():
    """What was dropped stays dropped, and what was marked stays marked, with its name."""
    graph, other = chain(), chain()
    y = graph.tensor("y")
    graph.output(y, name="middle")
    dropped = graph.exp(y, name="dropped")
    graph.drop_output(dropped)
    before = seen(graph)
    foreign = other.exp(other.tensor("z"), name="far")
    with pytest.raises(og.errors.GraphError):
        graph.prune({"dropped": dropped, "far": other.sqrt(foreign)})
    assert seen(graph) == before


FEEDS = [{"x": np.ones(2, np.float32)}]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda graph: graph.quantize([{}]),
        lambda graph: graph.quantize(FEEDS),
        lambda graph: graph.quantize(FEEDS[0]),
        lambda graph: graph.quantize(weights="s4", group=128),
        lambda graph: graph.quantize("s8"),
        lambda graph: graph.quantize(),
        lambda graph: graph.op("Quantize", FEEDS),
    ],
)
def test_who_wants_a_quantised_graph_is_led_to_it(wrong):
    graph = chain()
    with pytest.raises(
        og.errors.ArgumentTypeError, match=r"quantize_static\(feeds\).*quantize_weights\(\"s4\""
    ):
        wrong(graph)
    assert graph.quantize(graph.tensor("z"), scales=[0.5], zps=[0], output_type="u8").data_type == "u8"


@pytest.mark.parametrize("arguments", [(FEEDS,), ([{}],), ()])
def test_a_compiled_graph_is_not_quantised(arguments):
    model = chain().compile()
    with pytest.raises(
        og.errors.ArgumentTypeError, match=r"graph\.quantize_static\(feeds\) of the graph that"
    ):
        og.quantize(model, *arguments)
    with pytest.raises(og.errors.ArgumentTypeError, match="compiled graph stays as it is"):
        og.quantize(src=model)
