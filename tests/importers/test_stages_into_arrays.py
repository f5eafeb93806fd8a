"""Results of models that run in stages: nobody else's memory, and arrays of the user's that they are written to."""

import numpy as np
import onednn_graph as og
import pytest

onnx = pytest.importorskip("onnx", reason="these tests need onnx; install the extra 'onnx'")

from onnx import TensorProto, helper  # noqa: E402

X = np.array([1, 2, 0, -3], np.float32)


def value(name, shape=(4,)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def compiled(nodes, outputs):
    graph = helper.make_graph(nodes, "g", [value("x")], outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = og.from_onnx(made).compile()
    assert type(model).__name__ == "CompiledStages"
    return model


@pytest.fixture
def model():
    """y = -x, z = x, and the sorted values, whose number depends on these."""
    nodes = [
        helper.make_node("Neg", ["x"], ["y"]),
        helper.make_node("Identity", ["x"], ["z"]),
        helper.make_node("Unique", ["x"], ["u"]),
    ]
    return compiled(nodes, [value("y"), value("z"), value("u", None)])


@pytest.fixture
def listing():
    """s = [x, x], y = -x."""
    nodes = [helper.make_node("SequenceConstruct", ["x", "x"], ["s"]), helper.make_node("Neg", ["x"], ["y"])]
    return compiled(nodes, [helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [4]), value("y")])


@pytest.mark.parametrize("shift", [0, 1])
def test_a_result_over_the_input_leaves_the_others_as_they_are(model, shift):
    memory = np.zeros(5, np.float32)
    x, target = memory[:4], memory[shift : shift + 4]
    x[:] = X
    found = model(x, outputs={"y": target})
    np.testing.assert_array_equal(target, -X)
    np.testing.assert_array_equal(found["y"], -X)
    np.testing.assert_array_equal(found["z"], X)
    np.testing.assert_array_equal(found["u"], np.unique(X))


def test_two_results_are_not_written_to_one_array(model):
    memory = np.full(4, 7, np.float32)
    with pytest.raises(og.ArgumentError, match="'y'.*'z'|'z'.*'y'"):
        model(X, outputs={"y": memory, "z": memory})
    np.testing.assert_array_equal(memory, [7, 7, 7, 7])


def test_what_does_not_fit_is_told_before_anything_is_written(model):
    first, wrong = np.full(4, 7, np.float32), np.zeros(9, np.float32)
    with pytest.raises(og.ArgumentError, match=r"'u' has shape \[4\]"):
        model(X, outputs={"y": first, "u": wrong})
    np.testing.assert_array_equal(first, [7, 7, 7, 7])


def test_a_sequence_holds_no_memory_of_the_input(listing):
    x = X.copy()
    found = listing(x)
    x[:] = 9
    found["s"][0][:] = 5
    np.testing.assert_array_equal(found["s"], [np.full(4, 5), X])
    x[:] = X
    found = listing(x, outputs={"y": x})
    np.testing.assert_array_equal(found["s"], [X, X])
    np.testing.assert_array_equal(x, -X)
