"""Constants that a graph holds: made, used, compiled, and taken by partitions."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest


def whole(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


X, W, B = whole(3, 4), whole(4, 5, seed=1), whole(5, seed=2)
EXPECTED = np.maximum(X @ W + B, 0)


def dense(shape=X.shape):
    graph = og.Graph()
    x = graph.input("x", "f32", shape)
    w, b = graph.constant(W, name="w"), graph.constant(B, name="b")
    graph.relu(graph.matmul(x, w, b), name="y")
    return graph


BACKENDS = pytest.mark.parametrize("backend", [None, "numpy", "onednn", "native"])
POLICIES = pytest.mark.parametrize("policy", ["fusion", "debug"])


@BACKENDS
@POLICIES
def test_a_constant_is_no_input(backend, policy):
    graph = dense()
    assert graph.input_names == ("x",)
    assert [t.name for t in graph.constant_tensors] == ["w", "b"]
    assert all(t.property_type is og.PropertyType.constant for t in graph.constant_tensors)
    model = graph.compile(backend=backend, policy=policy)
    assert model.input_names == ("x",)
    for _ in range(2):
        np.testing.assert_array_equal(model(X)["y"], EXPECTED)


@POLICIES
@pytest.mark.parametrize("backend", [None, "numpy"])
def test_open_sizes(backend, policy):
    model = dense([-1, 4]).compile(backend=backend, policy=policy)
    for rows in (1, 3, 1):
        np.testing.assert_array_equal(model(X[:rows])["y"], EXPECTED[:rows])


def test_what_is_made_of_constants_is_made_once():
    """The plan's steps for constants: packed weights, here an int8 copy in another layout."""
    graph = og.Graph()
    x = graph.input("x", "f32", [1, 16, 8, 8])
    k = whole(16, 16, 3, 3)
    conv = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    graph.convolution(x, graph.constant(k), **conv, data_format="NCX", weights_format="OIX", name="y")
    model = graph.compile(backend="onednn")
    data = whole(1, 16, 8, 8, seed=3)
    expected = og.convolution(data, k, **conv, data_format="NCX", weights_format="OIX", backend="numpy")
    np.testing.assert_array_equal(model(data)["y"], expected)
    [explanation] = model.explain().values()
    assert bool(explanation.prepared) == bool(explanation.prepared_bytes)
    assert model.memory_bytes >= explanation.prepared_bytes + explanation.scratch_bytes
    with og.profile() as seen:
        model(data)
    names = [event.name for event in seen.events]
    assert not any(step.rpartition(" (")[0] in names for step in explanation.prepared)


def test_it_is_held_without_a_copy_where_it_lies_well():
    graph = og.Graph()
    graph.constant(W, name="plain")
    graph.constant(W.T, name="transposed")
    graph.constant(W.astype(">f4"), name="swapped")
    graph.constant(np.frombuffer(b"\0" + W.tobytes(), np.uint8)[1:].view("f4"), name="unaligned")
    graph.constant(og.Tensor(og.LogicalTensor(0, "f32", W.shape), W), name="tensor")
    held = graph.constants
    assert np.shares_memory(held["plain"], W)
    assert np.shares_memory(held["tensor"], W)
    assert W.flags.writeable
    np.testing.assert_array_equal(held["transposed"], W.T)
    np.testing.assert_array_equal(held["swapped"], W)
    np.testing.assert_array_equal(held["unaligned"], W.ravel())
    for array in held.values():
        assert array.flags.c_contiguous
        assert array.flags.aligned
        assert array.dtype == np.float32
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("dtype", ["f2", ml_dtypes.bfloat16, "i1", "u1", "f8", ml_dtypes.int4, "?", "i8"])
def test_its_type_is_that_of_the_array(dtype):
    graph = og.Graph()
    array = np.ones((2, 3), dtype)
    tensor = graph.constant(array)
    assert (tensor.shape, graph.constants[tensor.name].dtype) == ((2, 3), array.dtype)


def test_names():
    graph = og.Graph()
    made = graph.constant(1.0)
    assert made.shape == ()
    assert made.name == f"constant_{made.id}"
    graph.constant([1, 2], name="w")
    assert list(graph.constants) == [made.name, "w"]
    assert "w: s64 2 (held constant)" in str(graph)
    assert repr(graph) == "Graph(0 ops, 2 constants)"


def test_a_copy_of_a_graph_has_its_own():
    import copy

    graph = dense()
    twin = copy.copy(graph)
    twin.constant(W, name="more")
    assert "more" not in graph.constants


def test_a_tensor_of_the_users_own():
    graph = og.Graph()
    x, w, y = (
        og.LogicalTensor(7, "f32", [3, 4], name="x"),
        og.LogicalTensor(8, "f32", property_type="constant", name="w"),
        og.LogicalTensor(9, "f32", name="y"),
    )
    graph.add_input(x)
    assert graph.add_constant(w, W).shape == W.shape
    graph.add_op(og.Op(0, "MatMul", [x, w], [y]))
    graph.finalize()
    assert graph.tensor(9).shape == (3, 5)
    np.testing.assert_array_equal(graph.compile()(X)["y"], X @ W)


def test_a_value_that_shapes_depend_on():
    graph = og.Graph()
    x, dy = graph.input("x", "f32", [2, 5, 5, 4]), graph.input("dy", "f32", [2, 3, 3, 6])
    options = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    shape = np.int32([3, 3, 4, 6])
    graph.convolution_backward_weights(x, dy, graph.constant(shape), **options, name="dw")
    data, diff = whole(2, 5, 5, 4), whole(2, 3, 3, 6, seed=1)
    expected = og.convolution_backward_weights(data, diff, weights_shape=[3, 3, 4, 6], **options)
    model = graph.compile()
    np.testing.assert_array_equal(model(data, diff)["dw"], expected)
    target = np.empty((3, 3, 4, 6), np.float32)
    model.bind([data, diff], {"dw": target})()
    np.testing.assert_array_equal(target, expected)


def test_partitions_take_them_or_none():
    graph = dense()
    graph.finalize()
    [part] = graph.get_partitions()
    assert [t.name for t in part.input_ports] == ["x", "w", "b"]
    assert set(part.constants) == {t.id for t in part.input_ports[1:]}
    compiled = part.compile()
    [y] = compiled.execute(None, [X, None, None])
    np.testing.assert_array_equal(y, EXPECTED)
    [y] = compiled.execute(None, [X, 2 * W, None])
    np.testing.assert_array_equal(y, np.maximum(X @ (2 * W) + B, 0))
    [y] = compiled.execute(None, [X, None, None])
    np.testing.assert_array_equal(y, EXPECTED)
    out = np.empty_like(EXPECTED)
    compiled.bind([X, None, None], [out])()
    np.testing.assert_array_equal(out, EXPECTED)
    with pytest.raises(og.ArgumentTypeError, match="input 'src'"):
        compiled.execute(None, [None, None, None])


def test_a_partition_that_was_compiled_for_other_strides():
    graph = dense()
    graph.finalize()
    [part] = graph.get_partitions()
    x, w, b = part.input_ports
    columns = og.LogicalTensor(w.id, "f32", W.shape, strides=[1, 4], property_type="constant", name="w")
    compiled = part.compile(inputs=[x, columns, b])
    [y] = compiled.execute(None, [X, None, None])
    np.testing.assert_array_equal(y, EXPECTED)


REFUSED = {
    "no array": (lambda g: g.constant("w"), og.ArgumentTypeError, "a constant must be a NumPy array"),
    "objects": (
        lambda g: g.constant(np.array([object()])),
        og.DataTypeError,
        "a constant has NumPy dtype object",
    ),
    "a taken name": (lambda g: g.constant(W, name="x"), og.GraphError, "'x' is taken"),
    "an empty name": (lambda g: g.constant(W, name=""), og.ArgumentTypeError, "a constant's name must be"),
    "an input of its name": (lambda g: g.input("w", "f32"), og.GraphError, "'w' is taken"),
    "not constant": (
        lambda g: g.add_constant(og.LogicalTensor(50, "f32"), W),
        og.GraphError,
        "must have property_type 'constant' to be held, got 'undef'",
    ),
    "another type": (
        lambda g: g.add_constant(og.LogicalTensor(50, "f16", property_type="constant"), W),
        og.DataTypeError,
        "must be an array of f16",
    ),
    "another shape": (
        lambda g: g.add_constant(og.LogicalTensor(50, "f32", [9], property_type="constant"), W),
        og.ShapeError,
        "must have shape",
    ),
    "a second value": (
        lambda g: g.add_constant(g.constant_tensors[0], W),
        og.GraphError,
        "has a value already",
    ),
    "no tensor": (lambda g: g.add_constant(W, W), og.ArgumentTypeError, "add_constant takes a LogicalTensor"),
    "no tensor as an input": (
        lambda g: g.add_input(W),
        og.ArgumentTypeError,
        "add_input takes a LogicalTensor",
    ),
    "what an op makes": (lambda g: g.add_input(g.outputs[0]), og.GraphError, "and can't be an input too"),
    "made by an op": (
        lambda g: g.add_op(og.Op(90, "ReLU", [g.inputs[0]], [g.constant_tensors[0]])),
        og.GraphError,
        "is a constant of the graph and can't be an output of",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, message = REFUSED[name]
    graph = dense()
    before = str(graph)
    with pytest.raises(error, match=message):
        call(graph)
    assert str(graph) == before


def test_refused_once_finalized():
    graph = dense()
    graph.finalize()
    for call in (
        lambda: graph.constant(W),
        lambda: graph.add_input(og.LogicalTensor(50, "f32")),
        lambda: graph.add_constant(og.LogicalTensor(50, "f32", property_type="constant"), W),
        graph.prune,
    ):
        with pytest.raises(og.GraphError, match="the graph is finalized"):
            call()


def test_prune_keeps_what_marked_outputs_need():
    graph = dense()
    y = graph.outputs[0]
    unread = graph.input("unread", "f32")
    graph.exp(graph.add(y, graph.constant(B, name="other")))
    graph.output(y)
    graph.prune()
    assert [op.kind for op in graph.ops] == ["MatMul", "ReLU"]
    assert list(graph.constants) == ["w", "b"]
    assert graph.input_names == ("x", "unread")
    assert graph.output_names == ("y",)
    assert unread in graph.tensors
    np.testing.assert_array_equal(graph.compile()(X)["y"], EXPECTED)


def test_an_op_in_the_place_of_another():
    graph = dense()
    product, relu = graph.ops
    graph.replace_ops([og.Op(relu.id, "Abs", relu.inputs, relu.outputs, name="other")])
    assert [str(op) for op in graph.ops] == [str(product), "Abs 'other'"]
    assert graph.output_names == ("y",)
    want = np.abs(X @ W + B)
    np.testing.assert_array_equal(graph.compile()(X)["y"], want)
    graph.finalize()
    with pytest.raises(og.GraphError, match="the graph is finalized"):
        graph.replace_ops([relu])


def test_what_can_not_stand_in_the_place_of_another():
    graph = dense()
    product, relu = graph.ops
    strange = og.LogicalTensor(77, "f32", (1,))
    for op, message in (
        (og.Op(99, "Abs", relu.inputs, relu.outputs), "the id 99 must be one of the graph"),
        (og.Op(relu.id, "Abs", relu.inputs, [strange]), "make the same tensors"),
        (og.Op(relu.id, "Abs", [strange], relu.outputs), "is no tensor of the graph"),
    ):
        with pytest.raises(og.GraphError, match=message):
            graph.replace_ops([op])
    with pytest.raises(og.ShapeError):
        graph.replace_ops([og.Op(relu.id, "Abs", [product.inputs[1]], relu.outputs)])
    with pytest.raises(og.GraphError, match="cycle"):
        graph.replace_ops([og.Op(product.id, "Abs", relu.outputs, product.outputs)])
    assert graph.ops == (product, relu)


def test_constants_are_drawn():
    from onednn_graph.graph.pictures.description import describe, describe_compiled

    graph = dense()
    graph.output(graph.inputs[0], name="same")
    model = graph.compile()
    for described in (describe(graph), describe_compiled(model)):
        roles = {t.name: (t.role, t.property_type) for t in described.tensors}
        assert roles["w"] == roles["b"] == ("constant", "constant")
        assert roles["x"] == ("input", "undef")
        assert roles["y"] == ("output", "undef")
        assert described.inputs == (graph.inputs[0].id,)
        assert described.outputs == tuple(t.id for t in graph.outputs)


def test_constants_in_dot(tmp_path):
    graph = dense()
    x = graph.inputs[0]
    graph.output(x, name="same")
    graph.to_dot(tmp_path / "g.dot")
    text = (tmp_path / "g.dot").read_text()
    w = graph.constant_tensors[0]
    assert f'input_{w.id} [shape=oval, label="w\nf32 4x5"' in text.replace("\\n", "\n")
    assert f"input_{x.id} -> output_{x.id};" in text
