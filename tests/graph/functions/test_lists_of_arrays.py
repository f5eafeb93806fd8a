"""Lists where arrays belong: an op of any number of inputs takes them as one list, every other input refuses one.

NumPy would stack the list to an array of one axis more, and an op that takes any shape would run on that.
"""

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.graph.model.builder import snake_case
from op_calls import EXAMPLES, SCHEMAS
from rows import each

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = 10 + A
FUNCTIONS = sorted(kind for kind in SCHEMAS if hasattr(og, snake_case(kind)))


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("together", [list, tuple])
def test_concat_takes_its_inputs_as_one_list_too(axis, together):
    expected = np.concatenate([A, B, A], axis)
    np.testing.assert_array_equal(og.concat(together([A, B, A]), axis=axis), expected)
    np.testing.assert_array_equal(og.concat(A, B, A, axis=axis), expected)
    np.testing.assert_array_equal(og.run_op("Concat", [[A, B, A]], {"axis": axis}), expected)


def test_concat_of_lists_of_numbers():
    np.testing.assert_array_equal(og.concat([[1.0, 2.0], [3.0]], axis=0), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(og.concat([1.0, 2.0], [3.0], axis=0), [1.0, 2.0, 3.0])


def test_concat_of_one_tensor_is_that_tensor():
    np.testing.assert_array_equal(og.concat(A, axis=0), A)
    np.testing.assert_array_equal(og.concat([A], axis=0), A)


@pytest.mark.parametrize("kind", ["Concat", "Wildcard"])
@pytest.mark.parametrize("together", [list, tuple])
def test_the_builder_takes_one_list_too(kind, together):
    graph = og.Graph()
    x, y = (graph.input(name, "f32", (2, 3)) for name in "xy")
    given = {"axis": 0} if kind == "Concat" else {}
    graph.op(kind, together([x, y]), **given)
    (op,) = graph.ops
    assert [t.id for t in op.inputs] == [x.id, y.id]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: og.concat([A], B, axis=0),
            "input 'src_i' must be one array, got a list that holds a ndarray",
        ),
        (lambda: og.concat(axis=0), "input 'src_i' is missing"),
        (lambda: og.concat([], axis=0), "input 'src_i' is missing"),
        (lambda: og.concat([[A], [B]], axis=0), "input 'src_i' must be one array, got a list that holds"),
        (
            lambda: og.relu([A.tolist(), B]),
            "ReLU: input 'src' must be one array, got a list that holds a ndarray",
        ),
        (lambda: og.relu(([A], [B])), "ReLU: input 'src' must be one array, got a list that holds a ndarray"),
        (
            lambda: og.relu([np.array(1.0)]),
            "got a list that holds a ndarray; pass the array itself, or np.stack",
        ),
    ],
)
def test_lists_of_arrays_are_refused(call, says):
    with pytest.raises(og.OneDNNGraphError, match=says):
        call()


def test_numbers_of_numpy_in_a_list_are_numbers():
    np.testing.assert_array_equal(og.relu([np.float32(1), np.float32(-1)]), [1, 0])


def test_every_function_has_a_row():
    assert {kind for kind in SCHEMAS if kind not in FUNCTIONS} == {"End", "Wildcard"}


@each("kind", FUNCTIONS)
def test_every_function_refuses_a_list_of_arrays_for_each_input(kind):
    example = EXAMPLES[kind][0]
    arrays = example.arrays()
    function = getattr(og, snake_case(kind))
    ports = SCHEMAS[kind].input_ports(len(arrays))
    attributes = {spec.name for spec in SCHEMAS[kind].attributes}
    for number, port in enumerate(ports):
        if port.name in attributes:  # a list of sizes is the attribute
            continue
        given = [[a, a] if i == number else a for i, a in enumerate(arrays)]
        if port.repeat > 1 and len(given) == 1:
            continue
        with pytest.raises(og.ArgumentTypeError, match=f"'{port.name}' must be one array, got a list that"):
            function(*given, **example.attributes)
