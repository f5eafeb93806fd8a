"""What Python people do with any object: operators, `==`, `len`, `in`, indexing, copies, pickles, logging."""

import copy
import gc
import logging
import pickle

import ml_dtypes
import numpy as np
import onednn_graph as og
import processes
import pytest

X = np.array([[-3, -2, -1], [1, 2, 4]], np.float32)
W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
B = np.array([1, -1], np.float32)


def opened(dtype="f32", shape=(2, 3)):
    graph = og.Graph()
    return graph, graph.input("x", dtype, shape)


def result(graph, x=X):
    return graph.compile(backend="numpy")(x).only


# --- operators ---

CALLS = {
    "add a number": (lambda x: x + 2, X + 2),
    "a number plus": (lambda x: 2 + x, X + 2),
    "subtract": (lambda x: x - 2, X - 2),
    "subtract from": (lambda x: 2 - x, 2 - X),
    "multiply": (lambda x: x * 2, X * 2),
    "multiplied": (lambda x: 0.5 * x, X / 2),
    "divide": (lambda x: x / 2, X / 2),
    "divide by": (lambda x: 4 / x, 4 / X),
    "square": (lambda x: x**2, X**2),
    "cube": (lambda x: x**3, X**3),
    "a power of a tensor": (lambda x: (2 * x) ** x, (2 * X) ** X),
    "a power of an array": (lambda x: X**x, X**X),
    "a number to the power": (lambda x: (-2) ** x, np.float32(-2) ** X),
    "to the power of an array": (lambda x: (-x) ** X, (-X) ** X),
    "negative": (lambda x: -x, -X),
    "absolute": (lambda x: abs(x), abs(X)),
    "itself": (lambda x: x + x * x, X + X * X),
    "an array on the right": (lambda x: x + X, X + X),
    "an array on the left": (lambda x: X - 2 * x, -X),
    "a row": (lambda x: x * np.float32([1, 2, 3]), X * [1, 2, 3]),
    "a product": (lambda x: x @ W + B, X @ W + B),
    "a product from the left": (lambda x: W @ x, W @ X),
    "NumPy's numbers": (lambda x: np.float32(2) * x + np.int64(1) - np.float64(3), 2 * X - 2),
    "a number of ml_dtypes": (lambda x: x * ml_dtypes.bfloat16(2), 2 * X),
    "an array without axes": (lambda x: x + np.array(2, np.float32), X + 2),
}


@pytest.mark.parametrize("what", CALLS)
def test_operators_add_ops(what):
    call, expected = CALLS[what]
    graph, x = opened()
    y = call(x)
    assert isinstance(y, og.LogicalTensor)
    assert graph.outputs == (y,)
    np.testing.assert_array_equal(result(graph), expected.astype(np.float32))
    assert result(graph).dtype == np.float32


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f64"])
def test_numbers_have_the_tensors_type(dtype):
    graph, x = opened(dtype)
    y = 2 * x + 1
    assert y.data_type == dtype
    assert {t.data_type for t in graph.constant_tensors} == {og.DataType(dtype)}
    kind = graph.constants[graph.constant_tensors[0].name].dtype
    np.testing.assert_array_equal(result(graph, X.astype(kind)).astype(np.float32), 2 * X + 1)


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("s32", 0.5),
        ("s32", 2**31),
        ("s32", np.inf),
        ("s32", np.nan),
        ("u8", -1),
        ("s8", 128),
        ("f16", 1e6),
        ("bf16", float(np.finfo(np.float32).max)),
        ("f32", np.nextafter(float(np.finfo(np.float32).max), np.inf)),
        ("f32", 1e39),
        ("f32", -(10**400)),
        ("boolean", 1),
    ],
)
def test_a_number_that_the_type_lacks_is_refused(dtype, number):
    graph, x = opened(dtype)
    with pytest.raises(og.DataTypeError, match="is no number of tensor 'x'"):
        x * number
    assert len(graph) == 0
    assert not graph.constants


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_number_of_a_type_is_one_of_it(dtype, sign):
    """By it scores are often masked, `scores + mask * finfo.min`."""
    kind = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}[dtype]
    largest = ml_dtypes.finfo(kind).max
    for number in (float(largest), largest):
        graph, x = opened(dtype)
        x * (sign * number)
        (held,) = graph.constants.values()
        assert held.dtype == kind
        assert held == sign * largest


def test_an_op_that_is_refused_leaves_no_constant():
    graph, x = opened("s32")
    for call in (lambda: x * 2, lambda: x @ W):
        with pytest.raises(og.DataTypeError):
            call()
    assert graph.tensors == (x,)
    kept = graph.constant(B, name="b")
    y = graph.relu(kept)
    for tensor in (kept, x, y):
        with pytest.raises(og.GraphError, match="must be a constant of the graph that nobody reads"):
            graph.drop_constant(tensor)
    assigned = graph.constant(B, name="assigned")
    kept = graph.parameter(B, name="kept")
    graph.assign(kept, assigned)
    with pytest.raises(og.errors.GraphError, match="that nobody reads"):
        graph.drop_constant(assigned)
    graph.drop_assignment(kept)
    graph.drop_constant(assigned)
    graph.drop_constant(graph.constant(B, name="free"))
    graph.constant(B, name="free")


def test_infinities_are_numbers():
    graph, x = opened()
    assert np.isinf(
        graph.constants[graph.constant_tensors[0].name] if (x + np.inf) and graph.constants else 0
    )


@pytest.mark.parametrize("other", [None, "1", [1, 2, 3], True, 1j, object()])
def test_other_operands_are_pythons_type_error(other):
    _, x = opened()
    for call in (lambda: x + other, lambda: other * x, lambda: x / other):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError):
        x @ 2


def test_powers_of_tensors_are_for_types_with_fractions():
    graph, x = opened("s32")
    for call in (lambda: x**x, lambda: 2**x, lambda: x ** np.ones(3, np.int32)):
        with pytest.raises(og.DataTypeError, match="HostPower"):
            call()
    assert not graph.ops
    assert not graph.constants


def test_operators_need_one_graph_that_is_there():
    graph, x = opened()
    other, y = opened()
    with pytest.raises(og.GraphError, match="are of two graphs"):
        x + y
    with pytest.raises(og.GraphError, match="described by hand"):
        og.LogicalTensor(0, "f32", [2]) + 1
    with pytest.raises(og.GraphError, match="described by hand"):
        pickle.loads(pickle.dumps(x)) + 1
    del other
    gc.collect()
    with pytest.raises(og.GraphError, match="is gone"):
        y + 1
    graph.relu(x)
    graph.finalize()
    with pytest.raises(og.GraphError, match="finalized"):
        x + 1


def test_tensors_of_a_copy_belong_to_the_copy():
    graph, x = opened()
    graph.output(x + 1, name="y")
    twin = copy.copy(graph)
    twin.tensor("x") * 2
    assert (len(graph), len(twin)) == (1, 2)
    x * 3
    assert (len(graph), len(twin)) == (2, 2)


def test_gradients_have_operators_too():
    graph, x = opened()
    loss = graph.reduce_sum(x * x, axes=[0, 1])
    (slope,) = graph.gradients(loss, [x])
    graph.output(slope * 2, name="twice")
    graph.prune()
    np.testing.assert_array_equal(result(graph), 4 * X)
    assert slope in graph


def test_tensors_are_compared_and_hashed_as_before():
    graph, x = opened()
    same = og.LogicalTensor(x.id, "f32", [2, 3], name="x")
    assert x == same
    assert hash(x) == hash(same)
    assert {x: 1}[same] == 1
    assert x != og.LogicalTensor(x.id, "f32", [2, 4], name="x")
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    assert repr(x) == repr(same)
    assert graph.relu(same) in graph  # what is described by hand goes into ops as ever


# --- descriptions ---


def an_op(**changes):
    given = {"id": 3, "kind": "Elu", "name": "e", "alpha": 1.0} | changes
    tensors = [og.LogicalTensor(0, "f32", [2])], [og.LogicalTensor(1, "f32")]
    return og.Op(given.pop("id"), given.pop("kind"), *tensors, **given)


def test_ops_are_equal_that_say_the_same():
    assert an_op() == an_op()
    assert hash(an_op()) == hash(an_op())
    for changes in ({"id": 4}, {"kind": "LeakyReLU"}, {"name": ""}, {"alpha": 0.5}):
        assert an_op() != an_op(**changes)
    assert an_op() != 3
    assert copy.deepcopy(an_op()) == an_op()
    assert og.CompileOptions(threads=2) == og.CompileOptions(threads=2)
    assert og.CompileOptions(threads=2) != og.CompileOptions()


def test_an_ops_pickle_keeps_the_words_of_a_legacy_kind():
    src, dy = og.LogicalTensor(0, "f32", [1, 2, 4, 4]), og.LogicalTensor(1, "f32", [1, 3, 4, 4])
    op = og.Op(
        2, "ConvolutionBackpropFilters", [src, dy], [og.LogicalTensor(3, "f32")], name="dw", filter_shape=[3, 2, 1, 1],
        strides=[1, 1], pads_begin=[0, 0], pads_end=[0, 0], dilations=[1, 1],
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(op))
    assert again == op
    assert str(again) == str(op) == "ConvolutionBackpropFilters 'dw'"


def test_a_graph_is_a_collection_of_ops_with_tensors_by_name():
    graph, x = opened()
    y = graph.relu(x, name="y")
    assert len(graph) == 1
    assert list(graph) == list(graph.ops)
    assert graph["y"] == graph.tensor("y") == graph.tensor(y.id) == graph.tensor(y) == y
    assert "y" in graph
    graph.output(y, name="result")
    assert "result" in graph
    assert graph["result"] is graph["y"]
    assert y in graph
    assert graph.ops[0] in graph
    assert "z" not in graph
    assert an_op() not in graph
    assert og.LogicalTensor(77, "f32") not in graph
    assert 0 not in graph
    assert og.Graph()
    assert len(og.Graph()) == 0
    with pytest.raises(
        og.GraphError, match=r"no tensor 'Y' \(did you mean 'y'\?\); it has \['x', 'y', 'result'\]"
    ):
        graph["Y"]


def test_a_name_that_several_tensors_have_is_no_key():
    graph = og.Graph()
    twins = [og.LogicalTensor(i, "f32", [2], name="t") for i in range(2)]
    graph.add_op(og.Op(2, "Add", twins, [og.LogicalTensor(3, "f32")]))
    with pytest.raises(og.GraphError, match=r"2 tensors of the name 't'; take one by its id, \[0, 1\]"):
        graph["t"]
    assert graph["3"].id == 3


# --- copies and pickles ---


def trained():
    graph, x = opened()
    w, b = graph.parameter(W, name="w"), graph.constant(B, name="b")
    y = graph.output(x @ w + b, name="y")
    graph.assign(w, w * 2)
    return graph, y


@pytest.mark.parametrize("finalized", [False, True])
def test_a_graph_comes_back_from_a_pickle(finalized):
    graph, _ = trained()
    if finalized:
        graph.finalize()
    again = pickle.loads(pickle.dumps(graph))
    assert str(again) == str(graph)
    assert again.ops == graph.ops
    assert again.tensors == graph.tensors
    assert again.finalized == finalized
    assert not again.constants["b"].flags.writeable
    model = again.compile()
    for factor in (1, 2, 4):
        np.testing.assert_array_equal(model(X)["y"], X @ (factor * W) + B)
    np.testing.assert_array_equal(graph.parameters["w"], W)
    if not finalized:
        graph.tensor("x") + 1
        again.finalize()
        with pytest.raises(og.GraphError, match="finalized"):
            again["x"] + 1


def test_a_deep_copy_has_parameters_of_its_own_and_a_copy_shares_them():
    graph, _ = trained()
    shared, own = copy.copy(graph), copy.deepcopy(graph)
    graph.set_parameters({"w": 3 * W})
    np.testing.assert_array_equal(shared.parameters["w"], 3 * W)
    np.testing.assert_array_equal(own.parameters["w"], W)
    np.testing.assert_array_equal(own.compile()(X)["y"], X @ W + B)
    np.testing.assert_array_equal(graph.parameters["w"], 3 * W)


def test_state_follows_the_parameters_of_its_graph():
    graph, _ = trained()
    graph.name_state({"layer.weight": graph["w"], "steps": np.array([5])})
    again = pickle.loads(pickle.dumps(graph))
    for one in (again, copy.deepcopy(graph)):
        one.set_parameters({"w": 7 * W})
        np.testing.assert_array_equal(one.state["layer.weight"], 7 * W)
        np.testing.assert_array_equal(one.state["steps"], [5])
    np.testing.assert_array_equal(graph.state["layer.weight"], W)


def test_a_compiled_graph_is_compiled_anew_as_it_was():
    graph, x = opened()
    graph.output(x @ W + B, name="y")
    engine = og.Engine(threads=1)
    for model in (graph.compile(), graph.compile(engine, backend="numpy", policy="debug", verify=True)):
        for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
            np.testing.assert_array_equal(again(X)["y"], X @ W + B)
            assert [p.backend for p in again.partitions] == [p.backend for p in model.partitions]
            assert again.engine.threads == model.engine.threads
            assert (again.engine is og.default_engine()) == (model.engine is og.default_engine())
    engine.close()
    with pytest.raises(og.errors.ResourceError):
        pickle.dumps(model)


def test_a_model_goes_to_another_process(tmp_path):
    graph, x = opened()
    graph.output(x @ W + B, name="y")
    (tmp_path / "model").write_bytes(pickle.dumps((graph.compile(), X)))
    code = "import pickle, sys; m, x = pickle.load(open(sys.argv[1], 'rb')); print(m(x)['y'].astype(int).tolist())"
    assert processes.printed(code, tmp_path / "model") == (X @ W + B).astype(int).tolist()


def test_results_are_pickled():
    graph, x = opened()
    graph.output(x + 1, name="y")
    again = pickle.loads(pickle.dumps(graph.compile()(X)))
    np.testing.assert_array_equal(again["y"], X + 1)


# --- bind ---


def test_bound_outputs_are_allocated_where_none_are_given():
    graph, x = opened()
    y = graph.output(x + 1, name="y")
    graph.output(y, name="again")
    graph.output(x, name="same")
    graph.output(graph.constant(B, name="b"), name="held")
    model = graph.compile()
    array, mine = X.copy(), np.empty_like(X)
    for outputs in (None, {}, {"y": mine}, {"again": mine, "same": np.empty_like(X)}):
        run = model.bind({"x": array}, outputs)
        for shift in (0, 5):
            array[:] = X + shift
            made = run()
            assert made is run.outputs
            for name, expected in (("y", array + 1), ("again", array + 1), ("same", array), ("held", B)):
                np.testing.assert_array_equal(made[name], expected)
        assert len({made[name].ctypes.data for name in made}) == 4
        if outputs:
            assert any(made[name] is mine for name in outputs)


# --- logging ---


def test_nothing_is_said_unless_somebody_listens(capfd, caplog):
    with caplog.at_level(logging.DEBUG, logger="onednn_graph"):
        graph, x = opened("f64")
        graph.output(x + 1, name="y")
        graph.compile()
    texts = [record.getMessage() for record in caplog.records]
    assert any(text.startswith("Add 'add_") and ": numpy (onednn: " in text for text in texts), texts
    assert any(text.startswith("compiled 1 ops") for text in texts)
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="onednn_graph"):
        for _ in range(2):
            og.elu(X, alpha=0.123)
    texts = [record.getMessage() for record in caplog.records]
    assert "Elu: compiled for this call" in texts
    assert "Elu: kept from an equal call" in texts
    assert capfd.readouterr() == ("", "")
    assert any(
        isinstance(handler, logging.NullHandler) for handler in logging.getLogger("onednn_graph").handlers
    )
