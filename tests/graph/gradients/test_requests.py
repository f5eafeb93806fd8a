"""What `Graph.gradients` is asked for, what it adds, and what it refuses."""

import numpy as np
import onednn_graph as og
import pytest

BACKENDS = [name for name in ("numpy", "onednn") if og.list_backends()[name] is None]


def integers(*shape, seed=0):
    """Small integers, on which sums are exact in any order."""
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(np.float32)


def kinds(graph, start=0):
    return [op.kind for op in graph.ops[start:]]


def ran(graph, arrays, *tensors, backend=None):
    results = graph.compile(backend=backend)(arrays)
    return [results[t] for t in tensors]


@pytest.fixture
def graph():
    return og.Graph()


# --- losses and seeds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_loss_of_one_element_needs_no_seed(graph, shape):
    x = graph.input("x", "f32", shape)
    (found,) = graph.gradients(graph.op("Square", x), [x])
    assert found.shape == shape
    np.testing.assert_array_equal(
        ran(graph, {"x": np.full(shape, 3, np.float32)}, found)[0], np.full(shape, 6)
    )


def test_other_losses_need_one(graph):
    x = graph.input("x", "f32", [2, 3])
    with pytest.raises(og.ShapeError, match="must be one number where no seed is given.*relu_1"):
        graph.gradients(graph.op("ReLU", x), [x])
    open_sizes = graph.op("ReLU", graph.input("y", "f32", [-1]))
    with pytest.raises(og.ShapeError, match="must have known sizes where its seed is no tensor"):
        graph.gradients(open_sizes, [x])


@pytest.mark.parametrize("how", ["tensor", "array", "number", "a list of one"])
def test_seeds(graph, how):
    x = graph.input("x", "f32", [2, 3])
    loss = graph.op("Square", x)
    array = np.full((2, 3), 4, np.float32)
    seed = {
        "tensor": lambda: graph.input("seed", "f32", [2, 3]),
        "array": lambda: array,
        "number": lambda: 4,
        "a list of one": lambda: [array],
    }[how]()
    (found,) = graph.gradients(loss, [x], seed)
    arrays = {"x": integers(2, 3), **({"seed": array} if how == "tensor" else {})}
    np.testing.assert_array_equal(ran(graph, arrays, found)[0], 8 * integers(2, 3))


def test_several_losses_are_added(graph):
    x = graph.input("x", "f32", [3])
    first, second = graph.op("Square", x), graph.op("ReduceSum", x, axes=[0])
    (found,) = graph.gradients([first, second], [x], [np.array([1, 0, 2], np.float32), 5.0])
    np.testing.assert_array_equal(
        ran(graph, {"x": np.array([1, 2, 3], np.float32)}, found)[0], [2 + 5, 5, 12 + 5]
    )


REFUSED = {
    "no tensor": (
        lambda g, x, y: g.gradients("loss", [x]),
        og.ArgumentTypeError,
        "loss must be a list of tensors",
    ),
    "no list": (lambda g, x, y: g.gradients(y, x), og.ArgumentTypeError, "wrt must be a list of tensors"),
    "no tensors": (
        lambda g, x, y: g.gradients(y, [x, 3]),
        og.ArgumentTypeError,
        "wrt must be a list of tensors",
    ),
    "another graph's": (
        lambda g, x, y: g.gradients(y, [og.Graph().input("z", "f32", [2])]),
        og.ArgumentError,
        "wrt must hold tensors of the graph",
    ),
    "integers": (
        lambda g, x, y: g.gradients(y, [g.input("i", "s32", [2])]),
        og.DataTypeError,
        "wrt must be of floating-point numbers.*'i'",
    ),
    "integers in the loss": (
        lambda g, x, y: g.gradients(g.op("GenIndex", x, axis=0), [x], 1),
        og.DataTypeError,
        "loss must be of floating-point numbers",
    ),
    "seed's shape": (
        lambda g, x, y: g.gradients(y, [x], np.ones(3)),
        og.ShapeError,
        r"seed must have the shape.*\[2\]",
    ),
    "seed tensor's shape": (
        lambda g, x, y: g.gradients(y, [x], g.input("s", "f32", [3])),
        og.ShapeError,
        "seed must have the shape",
    ),
    "seed's type": (
        lambda g, x, y: g.gradients(y, [x], g.input("s", "f64", [2])),
        og.DataTypeError,
        "seed must have the type",
    ),
    "too many seeds": (
        lambda g, x, y: g.gradients(y, [x], [1, 2]),
        og.ArgumentError,
        "a value for each of 1 losses",
    ),
    "recomputed input": (
        lambda g, x, y: g.gradients(y, [x], 1, recompute=[x]),
        og.ArgumentError,
        "recompute must hold tensors that ops make, and tensor 'x'",
    ),
    "finalized": (lambda g, x, y: (g.finalize(), g.gradients(y, [x], 1)), og.GraphError, "finalized"),
    "quantised": (
        lambda g, x, y: g.gradients(g.op("Quantize", x, scales=[0.5]), [x], 1),
        og.DataTypeError,
        "loss must be of floating-point numbers",
    ),
    "through quantisation": (
        lambda g, x, y: g.gradients(through_integers(g, x), [x], 1),
        og.UnsupportedError,
        "Dequantize .*straight_through=True",
    ),
    "axes known at execution": (
        lambda g, x, y: g.gradients(g.op("ReduceSum", x, g.input("a", "s32", [1])), [x], 1),
        og.OneDNNGraphError,
        "axes|sizes",
    ),
    "statistics": (
        lambda g, x, y: g.gradients(
            g.op("SoftMax", g.op("StaticReshape", x, shape=[1, 2], special_zero=False), axis=1, outputs=2)[1],
            [x],
            1,
        ),
        og.UnsupportedError,
        "the gradient of its output 'stats' has no rule",
    ),
    "probability": (
        lambda g, x, y: probability(g, x),
        og.UnsupportedError,
        "the gradient by its input 'probability' has no rule",
    ),
}


def through_integers(graph, x):
    return graph.op("Dequantize", graph.op("Quantize", x, scales=[0.5]), scales=[0.5])


def probability(graph, x):
    given = [graph.input("seed", "s64", []), graph.input("offset", "s64", []), graph.input("p", "f32", [])]
    graph.gradients(graph.op("Dropout", x, *given), [given[2]], 1)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, graph):
    call, error, message = REFUSED[name]
    x = graph.input("x", "f32", [2])
    with pytest.raises(error, match=message):
        call(graph, x, graph.op("ReLU", x))


def test_an_error_leaves_the_graph_as_it_was(graph):
    """Half of the ops were made before the one that has no gradient is reached."""
    x = graph.input("x", "f32", [2, 3])
    y = graph.op("Square", graph.op("Tanh", through_integers(graph, x)))
    before = str(graph)
    with pytest.raises(og.UnsupportedError, match="straight_through"):
        graph.gradients(y, [x], 1)
    assert str(graph) == before
    assert not graph.constants


def test_a_tensor_is_told_by_its_id(graph):
    x = graph.input("x", "f32", [3])
    y = graph.op("Square", x)
    (found,) = graph.gradients(og.LogicalTensor(y.id, "f32"), [og.LogicalTensor(x.id, "f32")], 1)
    np.testing.assert_array_equal(ran(graph, {"x": integers(3)}, found)[0], 2 * integers(3))


# --- what depends on what -------------------------------------------------------------------------------


def test_none_where_nothing_depends(graph):
    x, y = graph.input("x", "f32", [2]), graph.input("y", "f32", [2])
    steps = graph.op("Select", graph.op("GreaterEqual", y, x), x, graph.op("Round", y))
    assert graph.gradients(x, [y], 1) == [None]
    by_x, by_y = graph.gradients(steps, [x, y], 1)
    assert by_x is not None
    assert by_y is None


def test_a_tensor_by_itself_has_the_seed(graph):
    x = graph.input("x", "f32", [2])
    y = graph.op("ReLU", x)
    (found,) = graph.gradients(y, [y], graph.input("seed", "f32", [2]))
    assert found.name == "seed"


def test_inner_tensors_and_constants(graph):
    x, w = graph.input("x", "f32", [3]), graph.constant(np.array([2, 3, 4], np.float32))
    inner = graph.op("Multiply", x, w)
    loss = graph.op("ReduceSum", graph.op("Square", inner), axes=[0])
    found = graph.gradients(loss, [inner, w, x, inner])
    array = np.array([1, 2, -1], np.float32)
    by_inner = 2 * array * [2, 3, 4]
    results = ran(graph, {"x": array}, *found)
    for mine, expected in zip(
        results, [by_inner, by_inner * array, by_inner * [2, 3, 4], by_inner], strict=True
    ):
        np.testing.assert_array_equal(mine, expected)


def test_only_what_is_needed_is_added(graph):
    """The gradient by the weights of the last layer needs nothing of the first one."""
    x = graph.input("x", "f32", [4, 3])
    first, second = graph.input("first", "f32", [3, 5]), graph.input("second", "f32", [5, 2])
    hidden = graph.op("ReLU", graph.op("MatMul", x, first))
    loss = graph.op("MatMul", hidden, second)
    start = len(graph.ops)
    graph.gradients(loss, [second], graph.input("seed", "f32", [4, 2]))
    assert kinds(graph, start) == ["MatMul"]


def test_forward_values_are_read_only_where_a_rule_needs_them(graph):
    """Add, Subtract and the moves keep nothing, and the functions whose slope is in their result keep that alone."""
    x = graph.input("x", "f32", [4])
    added = graph.op("Add", x, x)
    tanh = graph.op("Tanh", added)
    loss = graph.op("StaticReshape", graph.op("Subtract", tanh, x), shape=[2, 2], special_zero=False)
    start = len(graph.ops)
    graph.gradients(loss, [x], graph.input("seed", "f32", [2, 2]))
    read = {t.id for op in graph.ops[start:] for t in op.inputs} & {
        t.id for op in graph.ops[:start] for t in op.outputs
    }
    assert read == {tanh.id}
    assert "HostExpand" not in kinds(graph, start)


def test_sums_come_back_without_being_spread_out(graph):
    """One number times the weights: the gradient of the sum is never as large as what was summed."""
    x, weights = graph.input("x", "f32", [4, 6]), graph.input("weights", "f32", [4, 6])
    loss = graph.op("ReduceMean", graph.op("Multiply", graph.op("Square", x), weights), axes=[0, 1])
    start = len(graph.ops)
    (found,) = graph.gradients(loss, [x])
    assert kinds(graph, start) == ["Multiply"] * 3
    arrays = {"x": integers(4, 6), "weights": integers(4, 6, seed=1)}
    expected = arrays["x"] * arrays["weights"] / 12
    np.testing.assert_allclose(ran(graph, arrays, found)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_that_are_not_spread_out_count_what_they_stand_for(backend, graph):
    """A sum over what a broadcast made many of: every element counts."""
    a, b = graph.input("a", "f32", [3, 1]), graph.input("b", "f32", [4])
    loss = graph.op("ReduceSum", graph.op("Add", a, b), axes=[0, 1])
    found = graph.gradients(loss, [a, b])
    arrays = {"a": integers(3, 1), "b": integers(4)}
    by_a, by_b = ran(graph, arrays, *found, backend=None if backend == "onednn" else backend)
    np.testing.assert_array_equal(by_a, np.full((3, 1), 4))
    np.testing.assert_array_equal(by_b, np.full(4, 3))


# --- outputs --------------------------------------------------------------------------------------------


def test_outputs_stay_and_gradients_join_them(graph):
    x = graph.input("x", "f32", [2, 2])
    tanh = graph.op("Tanh", x, name="tanh")
    other = graph.op("ReLU", x, name="other")
    assert graph.output_names == ("tanh", "other")
    (found,) = graph.gradients(tanh, [x], 1)
    assert [t.id for t in graph.outputs] == [tanh.id, other.id, found.id]


def test_what_gradient_ops_make_beside_is_no_output(graph):
    """BatchNorm's gradient by gamma alone comes with one by the data that nobody asked for."""
    image = graph.input("x", "f32", [2, 3, 3, 4])
    vectors = [graph.input(name, "f32", [4]) for name in ("mean", "variance", "gamma", "beta")]
    made = graph.op("BatchNormForwardTraining", image, *vectors, epsilon=0.1)
    before = graph.outputs
    (found,) = graph.gradients(made[0], [vectors[2]], 1)
    assert [t.id for t in graph.outputs] == [*(t.id for t in before), found.id]
    beside = graph.ops[-1].outputs[0]
    assert beside.id != found.id
    graph.output(beside, name="by data")
    assert "by data" in graph.output_names
    with pytest.raises(og.GraphError, match="output.. has not marked"):
        graph.drop_output(beside)
    with pytest.raises(og.GraphError, match="must be the output of an op"):
        graph.drop_output(image)


def test_a_layer_norm_without_statistics_keeps_them_then(graph):
    x = graph.input("x", "f32", [4, 8])
    y = graph.op("LayerNorm", x, keep_stats=False, name="norm")
    (found,) = graph.gradients(y, [x], 1)
    norm = graph.ops[0]
    assert (norm.name, norm.attributes["keep_stats"], len(norm.outputs)) == ("norm", True, 3)
    assert [t.id for t in graph.outputs] == [y.id, found.id]
    assert graph.compile().partitions


# --- ties ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("kind", "largest"), [("ReduceMax", 3), ("ReduceMin", 0)])
def test_several_largest_elements_share(kind, largest, backend, graph):
    x = graph.input("x", "f32", [3, 4])
    (found,) = graph.gradients(graph.op(kind, x, axes=[1]), [x], 12.0)
    array = np.array([[3, 0, 3, 0], [0, 3, 1, 2], [3, 0, 0, 0]], np.float32)
    at = array == largest
    result = ran(graph, {"x": array}, found, backend="numpy" if backend == "numpy" else None)[0]
    np.testing.assert_array_equal(result, 12 * at / at.sum(1, keepdims=True))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["Maximum", "Minimum"])
def test_equal_operands_have_half_each(kind, backend, graph):
    a, b = graph.input("a", "f32", [3]), graph.input("b", "f32", [3])
    found = graph.gradients(graph.op(kind, a, b), [a, b], 2.0)
    arrays = {"a": np.array([1, 2, -np.inf], np.float32), "b": np.array([1, 3, -np.inf], np.float32)}
    by_a, by_b = ran(graph, arrays, *found, backend="numpy" if backend == "numpy" else None)
    first = [1, 0, 1] if kind == "Maximum" else [1, 2, 1]
    np.testing.assert_array_equal(by_a, first)
    np.testing.assert_array_equal(by_b, 2 - np.array(first))


# --- recomputation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_recomputed_values_are_ops_of_their_own(backend):
    arrays = {"x": integers(3, 4), "w": integers(4, 4)}

    def built(names):
        graph = og.Graph()
        x, w = graph.input("x", "f32", [3, 4]), graph.input("w", "f32", [4, 4])
        inner = {"product": graph.op("MatMul", x, w, name="product")}
        inner["square"] = graph.op("Square", inner["product"], name="square")
        loss = graph.op("ReduceSum", graph.op("Square", inner["square"]), axes=[0, 1])
        found = graph.gradients(loss, [x, w], recompute=[inner[name] for name in names])
        return graph, found

    plain, expected = built(())
    again, found = built(("product", "square"))
    assert kinds(again).count("MatMul") == kinds(plain).count("MatMul") + 1
    forward = {op.outputs[0].id for op in again.ops[:4]}
    for op in again.ops[4:]:
        if op.kind in ("Multiply", "MatMul"):
            assert not forward & {t.id for t in op.inputs}
    mine, want = ran(again, arrays, *found, backend=backend), ran(plain, arrays, *expected, backend=backend)
    for a, b in zip(mine, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_dropout_is_the_same_when_computed_again(graph):
    x = graph.input("x", "f32", [50])
    seed, offset = graph.constant(np.array(7)), graph.constant(np.array(0))
    dropped = graph.op("Dropout", x, seed, offset, graph.constant(np.array(0.5, np.float32)))
    (found,) = graph.gradients(graph.op("Square", dropped), [x], 1, recompute=[dropped])
    array = np.arange(1, 51, dtype=np.float32)
    result, gradient = ran(graph, {"x": array}, graph.outputs[0], found)
    np.testing.assert_array_equal(gradient, np.where(result == 0, 0, 8 * array))
    assert 0 < (result == 0).sum() < 50


# --- types, quantisation, sizes ---------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", ["f32", "bf16", "f16", "f64"])
def test_gradients_have_the_type_of_what_they_are_by(data_type, graph):
    x = graph.input("x", data_type, [2, 3, 4])
    gamma, beta = (graph.input(n, "f64" if data_type == "f64" else "f32", [4]) for n in ("gamma", "beta"))
    weights = graph.input("w", data_type, [4, 5])
    y = graph.op("MatMul", graph.op("LayerNorm", x, gamma, beta, keep_stats=False), weights)
    wide = graph.op("TypeCast", y, output_type="f32")
    found = graph.gradients(wide, [x, gamma, beta, weights], 1)
    assert [t.data_type for t in found] == [x.data_type, gamma.data_type, beta.data_type, weights.data_type]
    assert graph.compile().partitions


def test_straight_through(graph):
    x = graph.input("x", "f32", [3])
    y = graph.op("Multiply", graph.op("Round", through_integers(graph, x)), graph.input("w", "f32", [3]))
    (found,) = graph.gradients(y, [x], 1, straight_through=True)
    w = np.array([2, -3, 4], np.float32)
    np.testing.assert_array_equal(ran(graph, {"x": np.array([0.3, 99, -2], np.float32), "w": w}, found)[0], w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_known_at_execution(backend, graph):
    x, w, b = graph.input("x", "f32", [-1, 4]), graph.input("w", "f32", [4, 3]), graph.input("b", "f32", [3])
    hidden = graph.op("ReLU", graph.op("Add", graph.op("MatMul", x, w), b))
    both = graph.op("Add", hidden, graph.op("Multiply", hidden, hidden))
    loss = graph.op("ReduceMean", both, axes=[0, 1])
    found = graph.gradients(loss, [x, w, b])
    model = graph.compile(backend=None if backend == "onednn" else backend)
    for batch in (1, 5):
        arrays = {"x": integers(batch, 4), "w": integers(4, 3), "b": integers(3)}
        product = arrays["x"] @ arrays["w"] + arrays["b"]
        slope = np.where(product > 0, 1 + 2 * product, 0) / product.size
        results = model(arrays)
        for tensor, expected in zip(
            found, (slope @ arrays["w"].T, arrays["x"].T @ slope, slope.sum(0)), strict=True
        ):
            np.testing.assert_allclose(results[tensor], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [(1, 1), (1, 4), (4, 1), (4, 4)])
@pytest.mark.parametrize("kind", ["Add", "Multiply", "Subtract"])
def test_a_size_that_turns_out_to_be_one_was_broadcast(kind, rows, graph):
    a, b = graph.input("a", "f32", [-1, 3]), graph.input("b", "f32", [-1, 3])
    loss = graph.op("ReduceSum", graph.op("Square", graph.op(kind, a, b)), axes=[0, 1])
    found = graph.gradients(loss, [a, b])
    arrays = {"a": integers(rows[0], 3), "b": integers(rows[1], 3, seed=1)}
    x, y = arrays.values()
    function, by_a, by_b = {
        "Add": (np.add, 1, 1),
        "Subtract": (np.subtract, 1, -1),
        "Multiply": (np.multiply, y, x),
    }[kind]
    slope = 2 * function(x, y)
    for mine, slope_by, like in zip(ran(graph, arrays, *found), (by_a, by_b), (x, y), strict=True):
        whole = slope * slope_by
        np.testing.assert_array_equal(mine, whole.sum(0, keepdims=True) if len(like) < len(whole) else whole)


@pytest.mark.parametrize("size", [7, 8, 9])
def test_a_convolution_of_a_batch_known_at_execution(size, graph):
    """Strides leave elements over at the end, which the gradient by the data has as well."""
    conv = {"strides": [3, 2], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [1, 2]}
    x, w = graph.input("x", "f32", [-1, size, size, 2]), graph.input("w", "f32", [2, 3, 2, 4])
    y = graph.op("Convolution", x, w, **conv)
    found = graph.gradients(graph.op("Square", y), [x, w], graph.input("seed", "f32", [-1, *y.shape[1:]]))
    model = graph.compile()
    for batch in (1, 3):
        arrays = {"x": integers(batch, size, size, 2), "w": integers(2, 3, 2, 4)}
        made = og.convolution(arrays["x"], arrays["w"], backend="numpy", **conv)
        results = model({**arrays, "seed": np.ones_like(made)})
        shapes = {"dst_shape": list(arrays["x"].shape)}, {"weights_shape": [2, 3, 2, 4]}
        by_x = og.convolution_backward_data(2 * made, arrays["w"], backend="numpy", **conv, **shapes[0])
        by_w = og.convolution_backward_weights(arrays["x"], 2 * made, backend="numpy", **conv, **shapes[1])
        np.testing.assert_array_equal(results[found[0]], by_x)
        np.testing.assert_array_equal(results[found[1]], by_w)
    same = og.Graph()
    x, w = same.input("x", "f32", [-1, 7, 2]), same.input("w", "f32", [3, 2, 4])
    y = same.op("Convolution", x, w, **{**{k: v[:1] for k, v in conv.items()}, "auto_pad": "SAME_UPPER"})
    with pytest.raises(og.UnsupportedError, match="all sizes of tensor 'x'"):
        same.gradients(y, [x], same.input("seed", "f32", [-1, 3, 4]))


def test_sizes_that_a_gradient_needs_are_named(graph):
    image = graph.input("image", "f32", [-1, 8, 8, 4])
    pooled = graph.op(
        "AvgPool", image, kernel=[2, 2], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0], exclude_pad=True
    )
    with pytest.raises(og.UnsupportedError, match="all sizes of tensor 'image'"):
        graph.gradients(pooled, [image], graph.input("seed", "f32", [-1, 4, 4, 4]))


def test_shapes_that_were_not_inferred_yet(graph):
    """Ops that were added one by one have shapes once the graph is finalized; gradients need them before."""
    x, y, z = og.LogicalTensor(0, "f32", [2, 3]), og.LogicalTensor(1, "f32"), og.LogicalTensor(2, "f32")
    graph.add_op(og.Op(1, "ReduceSum", [y], [z], axes=[0, 1]))
    graph.add_op(og.Op(0, "Square", [x], [y]))
    (found,) = graph.gradients(z, [x])
    assert found.shape == (2, 3)
    np.testing.assert_array_equal(graph.compile()({"0": integers(2, 3)})[found], 2 * integers(2, 3))


def test_a_wildcard_passes_gradients_on(graph):
    x = graph.input("x", "f32", [3])
    made = og.LogicalTensor(50, "f32", [3])
    graph.add_op(og.Op(60, "Wildcard", [x], [made]))
    (found,) = graph.gradients(graph.op("Square", made), [x], 1)
    np.testing.assert_array_equal(ran(graph, {"x": integers(3)}, found)[0], 2 * integers(3))


# --- exactness, and derivatives of derivatives -------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_integers_are_exact(backend, graph):
    """Convolutions, products, sums and moves of small integers, against the ops one by one."""
    conv = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    x, w, b = (
        graph.input("x", "f32", [2, 6, 6, 3]),
        graph.input("w", "f32", [3, 3, 3, 8]),
        graph.input("b", "f32", [8]),
    )
    dense = graph.input("dense", "f32", [8, 5])
    image = graph.op("ReLU", graph.op("Convolution", x, w, b, **conv))
    rows = graph.op("StaticReshape", image, shape=[72, 8], special_zero=False)
    loss = graph.op("MatMul", rows, dense)
    found = graph.gradients(loss, [x, w, b, dense], graph.input("seed", "f32", [72, 5]))
    arrays = {"x": integers(2, 6, 6, 3), "w": integers(3, 3, 3, 8), "b": integers(8), "dense": integers(8, 5)}
    seed = integers(72, 5, seed=3)
    results = ran(graph, {**arrays, "seed": seed}, *found, backend=backend)
    made = og.convolution(arrays["x"], arrays["w"], arrays["b"], backend="numpy", **conv)
    hidden = np.maximum(made, 0).reshape(72, 8)
    slope = ((seed @ arrays["dense"].T) * (hidden > 0)).reshape(made.shape)
    expected = (
        og.convolution_backward_data(slope, arrays["w"], dst_shape=[2, 6, 6, 3], backend="numpy", **conv),
        og.convolution_backward_weights(
            arrays["x"], slope, weights_shape=[3, 3, 3, 8], backend="numpy", **conv
        ),
        slope.sum((0, 1, 2)),
        hidden.T @ seed,
    )
    for mine, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(mine, want)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_derivatives_of_derivatives(order, graph):
    """Of tanh(x) · x³, at some points."""
    x = graph.input("x", "f64", [5])
    tensor = graph.op("Multiply", graph.op("Tanh", x), graph.op("Pow", x, beta=3.0))
    for _ in range(order):
        (tensor,) = graph.gradients(tensor, [x], np.ones(5))
    points = np.array([-1.5, -0.4, 0.3, 0.9, 2.0])
    h = 2e-3

    def value(at):
        return np.tanh(at) * at**3

    weights = {1: (-0.5, 0, 0.5), 2: (1, -2, 1), 3: (-0.5, 1, 0, -1, 0.5)}[order]
    reach = len(weights) // 2
    expected = sum(w * value(points + (n - reach) * h) for n, w in enumerate(weights)) / h**order
    np.testing.assert_allclose(ran(graph, {"x": points}, tensor, backend="numpy")[0], expected, atol=2e-4)


# --- ops of one's own ---------------------------------------------------------------------------------------


@pytest.fixture
def cube():
    def kernel(op, inputs, outputs):
        np.power(inputs[0], 3, out=outputs[0])

    schema = og.extend.OpSchema(
        kind="Cube",
        summary="Third power.",
        inputs=[og.extend.Port("x", "T")],
        outputs=[og.extend.Port("y", "T")],
        types={"T": ["f32"]},
        infer_shapes=og.extend.shape_of_first_input,
    )
    yield og.extend.register_op(schema, kernel)
    og.extend.unregister_op("Cube")


def test_an_op_of_ones_own(cube, graph):
    x = graph.input("x", "f32", [3])
    y = graph.op("Cube", x)
    with pytest.raises(og.UnsupportedError, match=r"register_gradient\('Cube', rule\)"):
        graph.gradients(y, [x], 1)

    def rule(context):
        slope = context.make.scale(context.make.op("Square", context.input("x")), 3)
        yield "x", context.make.multiply(context.gradient, slope)

    og.extend.register_gradient("Cube", rule)
    (found,) = graph.gradients(y, [x], 1)
    np.testing.assert_array_equal(ran(graph, {"x": integers(3)}, found)[0], 3 * integers(3) ** 2)


def test_what_a_rule_may_not_do(cube, graph):
    x = graph.input("x", "f32", [3])
    with pytest.raises(og.errors.SchemaError, match="must be a function of a GradientContext"):
        og.extend.register_gradient("Cube", 3)
    with pytest.raises(og.errors.SchemaError, match="built in"):
        og.extend.register_gradient("ReLU", lambda context: [])
    with pytest.raises(og.errors.UnknownOpError):
        og.extend.register_gradient("Cub", lambda context: [])
    og.extend.register_gradient("Cube", lambda context: [("z", context.gradient)])
    with pytest.raises(og.UnsupportedError, match="yields a gradient by 'z', which is no input"):
        graph.gradients(graph.op("Cube", x), [x], 1)
    og.extend.register_gradient("Cube", lambda context: [])
    with pytest.raises(og.UnsupportedError, match="the gradient by its input 'x' has no rule"):
        graph.gradients(graph.op("Cube", x), [x], 1)


# --- replacing an op ------------------------------------------------------------------------------------------


def test_an_op_is_replaced(graph):
    x = graph.input("x", "f32", [4, 8])
    y = graph.op("LayerNorm", x, keep_stats=False)
    former = graph.ops[0]
    more = [og.LogicalTensor(100 + n, "f32", [4]) for n in range(2)]
    fuller = og.Op(former.id, "LayerNorm", [x], [y, *more], keep_stats=True)
    with pytest.raises(og.GraphError, match="can't make .* which the graph has"):
        graph.replace_ops([og.Op(former.id, "LayerNorm", [x], [y, x, more[1]], keep_stats=True)])
    graph.replace_ops([fuller])
    assert graph.ops == (fuller,)
    with pytest.raises(og.GraphError, match="the op with the id 77 must be one of the graph"):
        graph.replace_ops([og.Op(77, "ReLU", [x], [y])])
    with pytest.raises(og.GraphError, match="make the same tensors"):
        graph.replace_ops([og.Op(former.id, "ReLU", [x], [more[0]])])
    with pytest.raises(og.ShapeError):
        graph.replace_ops([og.Op(former.id, "LayerNorm", [x], [y.with_shape([9]), *more])])
    assert graph.ops == (fuller,)
    graph.compile()


def test_many_tensors_may_be_computed_again_one_from_the_other():
    graph = og.Graph()
    x = graph.input("x", "f32", [2])
    chain = [x]
    for _ in range(1500):
        chain.append(graph.op("Tanh", chain[-1]))
    y = graph.op("ReduceSum", chain[-1], axes=[0])
    assert graph.gradients(y, [x], recompute=chain[1:])[0] is not None


def test_what_gradients_read_is_no_output_that_was_marked():
    """The statistics of a batch normalisation are outputs as long as nobody reads them, and not by being marked."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 3, 4, 4])
    vectors = [graph.input(name, "f32", [3]) for name in ("mean", "variance", "gamma", "beta")]
    y, *_ = graph.op("BatchNormForwardTraining", x, *vectors, epsilon=1e-5, momentum=0.1, data_format="NCX")
    loss = graph.op("ReduceSum", graph.op("Square", y), axes=[0, 1, 2, 3])
    graph.output(loss, name="loss")
    (gradient,) = graph.gradients(loss, [x])
    marked = {number for _, number in graph.marked_outputs}
    assert marked <= {loss.id, gradient.id}
    assert {loss.id, gradient.id} <= {t.id for t in graph.outputs}
