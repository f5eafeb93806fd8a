"""Names of modules that exporters write into the metadata of nodes, and how ops of the graph are called after them."""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.onnx.modules import SCOPES, module_titles
from onednn_graph.graph.pictures.modules import places

onnx = pytest.importorskip("onnx", reason="these tests need onnx; install the extra 'onnx'")
helper = onnx.helper


def node(name, scopes, inputs=("x",), output=None, kind="Relu"):
    made = helper.make_node(kind, list(inputs), [output or f"{name}_out"], name=name)
    if scopes is not None:
        made.metadata_props.add(key="namespace", value="nothing that is read")
        made.metadata_props.add(key=SCOPES, value=scopes if isinstance(scopes, str) else repr(scopes))
    return made


def titles(*nodes, constants=()):
    return list(module_titles(nodes, constants).values())


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        # The only op of a module, one of the outermost module, and one that says nothing.
        ([node("node_Conv_7", ["", "a", "a.conv", "conv2d"])], ["a.conv"]),
        ([node("node_view", ["", "view"]), node("node_cos", None)], []),
        # Several of one module, and one beside a submodule.
        (
            [node("node_MatMul_36", ["", "q", "linear"]), node("node_linear", ["", "q", "linear"])],
            ["q.MatMul", "q.linear"],
        ),
        (
            [node("node_relu", ["", "a", "a.act", "relu"]), node("node_add_2", ["", "a", "add_2"])],
            ["a.act", "a.add"],
        ),
        # A module of one op that is called twice.
        ([node("node_relu", ["", "r", "relu"]), node("node_relu_1", ["", "r", "relu_1"])], ["r", "r"]),
        # A name that is nothing but a number, and none.
        ([node("node__1", ["", "a", "f"]), node("b", ["", "a", "g"])], ["a.Relu", "a.b"]),
        # What anybody may have written there.
        ([node("a", text) for text in ("", "[", "1", "['a', 1]", "{}", "('a', 'b')", "[" * 9999, "[]")], []),
    ],
)
def test_titles(nodes, wanted):
    assert titles(*nodes) == wanted


def test_what_becomes_no_op_does_not_count():
    scopes = ["", "fc", "linear"]
    turned = node("node_Transpose_1", scopes, ["fc.weight"], "w", kind="Transpose")
    product = node("node_linear", scopes, ["x", "w"], kind="MatMul")
    assert titles(turned, product, constants=["fc.weight"]) == ["fc"]
    assert titles(turned, product) == ["fc.Transpose", "fc.linear"]


def test_what_says_nothing_stands_where_both_its_neighbours_do():
    before = node("node_linear", ["", "a", "a.b", "a.b.fc", "linear"], output="l")
    silent = [node("node_Split_3", None, ["l"], "s"), node("node_Cast_4", None, ["s"], "c")]
    after = node("node_mul", ["", "a", "a.b", "mul"], ["s"])
    last = node("node_end", None, ["c"])  # nobody reads it
    assert titles(before, *silent, after, last) == ["a.b.fc", "a.b.Split", "a.b.mul"]
    away = node("node_mul", ["", "mul"], ["s"])
    assert titles(before, silent[0], away) == ["a.b.fc"]


@pytest.mark.parametrize(
    ("weight", "wanted"),
    [
        ("a.conv1.weight", "a.conv1"),
        ("b.conv1.weight", "a.bn1"),
        ("conv1.weight", "a.bn1"),
        ("val_1", "a.bn1"),
    ],
)
def test_a_folded_normalisation_leaves_the_name_to_the_convolution(weight, wanted):
    scopes = ["", "a", "a.bn1", "_native_batch_norm_legit_no_training"]
    assert titles(node("node_Conv_754", scopes, ["x", weight], kind="Conv")) == [wanted]


def test_an_imported_model_is_called_after_its_modules():
    """A block that is called twice, in the manner of PyTorch's exporter."""
    w = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "block.0.weight")
    nodes = [
        node("node_linear", ["", "block", "block.0", "linear"], ["x", w.name], "l", "MatMul"),
        node("node_relu", ["", "block", "block.1", "relu"], ["l"], "r"),
        node("node_tanh", ["", "tanh"], ["r"], "t", "Tanh"),
        node("node_linear_1", ["", "block", "block.0", "linear_1"], ["t", w.name], "m", "MatMul"),
        node("node_relu_1", ["", "block", "block.1", "relu_1"], ["m"], "y"),
    ]
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 4]) for n in "xy")
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [w]), opset_imports=opsets)
    graph = og.from_onnx(model)
    assert [op.name for op in graph.ops] == ["block.0", "block.1", "node_tanh", "block.0.2", "block.1.2"]
    found = places({op.id: op.name for op in graph.ops})
    assert [place.path for place in found.values()] == [("block",), ("block",), (), ("block",), ("block",)]
