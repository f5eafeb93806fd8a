"""jvp and hvp: against torch.func in double precision, exact on integers, linear, and with nothing left over."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from test_every_rule import CASES, built


@pytest.mark.no_cover
@each(("kind", "call"), CASES)
def test_the_product_is_the_gradients_transpose(kind, call):
    """⟨seed, J t⟩ is ⟨Jᵀ seed, t⟩ for all rules, which are held against differences elsewhere."""
    rng = np.random.default_rng(3)
    tangents = [rng.standard_normal(call.inputs[n].shape) for n in call.places]
    arrays = {f"x{n}": a for n, a in enumerate(call.inputs)}
    graph, inputs, dst = built(kind, call)
    seed = rng.standard_normal(dst.dims)
    firsts = graph.gradients(dst, [inputs[n] for n in call.places], seed=seed)
    results = graph.compile(backend="numpy")(arrays)
    expected = sum(
        float(np.sum(results[t] * d)) for t, d in zip(firsts, tangents, strict=True) if t is not None
    )
    graph, inputs, dst = built(kind, call)
    before = [t.id for t in graph.outputs]
    (found,) = graph.jvp([dst], [inputs[n] for n in call.places], tangents)
    if found is None:
        assert expected == 0
        return
    assert found.shape == dst.shape
    assert [t.id for t in graph.outputs] == [*before, found.id]
    got = float(np.sum(graph.compile(backend="numpy")(arrays)[found] * seed))
    assert abs(got - expected) <= 1e-10 * max(1, abs(expected))
    read = {t.id for op in graph.ops for t in op.inputs} | {t.id for t in graph.outputs}
    assert all(any(t.id in read for t in op.outputs) for op in graph.ops)


def net(graph, x, w, slope):
    """Piecewise linear, with a shared tensor and a kink."""
    y = graph.prelu(graph.matmul(x, w), slope)
    pooled = graph.max_pool(
        graph.static_reshape(graph.add(y, y), shape=[2, 4, 1], special_zero=False),
        kernel=[2], strides=[2], pads_begin=[0], pads_end=[0],
    )  # fmt: skip
    return graph.relu(pooled), y


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_integers_are_exact(backend):
    rng = np.random.default_rng(1)
    arrays = {
        "x": rng.integers(-3, 4, (2, 3)).astype(np.float32),
        "w": rng.integers(-3, 4, (3, 4)).astype(np.float32),
        "s": np.array([2], np.float32),
    }
    tangents = {f"d{name}": rng.integers(-3, 4, a.shape).astype(np.float32) for name, a in arrays.items()}
    graph = og.Graph()
    t = {name: graph.input(name, "f32", a.shape) for name, a in (arrays | tangents).items()}
    outputs = net(graph, t["x"], t["w"], t["s"])
    found = graph.jvp(outputs, [t[name] for name in arrays], [t[name] for name in tangents])
    results = graph.compile(backend=backend)(arrays | tangents)
    x, w, s = (arrays[name].astype(np.float64) for name in "xws")
    dx, dw, ds = (tangents[f"d{name}"].astype(np.float64) for name in "xws")
    z, dz = x @ w, dx @ w + x @ dw
    dy = np.where(z > 0, dz, s * dz + ds * z)
    y2, dy2 = (2 * np.where(z > 0, z, s * z)).reshape(2, 2, 2), 2 * dy.reshape(2, 2, 2)
    at = np.argmax(y2, axis=2)[..., None]
    top, dtop = np.take_along_axis(y2, at, 2), np.take_along_axis(dy2, at, 2)
    np.testing.assert_array_equal(results[found[0]], np.where(top > 0, dtop, 0))
    np.testing.assert_array_equal(results[found[1]], dy)


def test_a_batch_of_any_size_and_linear_tangents():
    graph = og.Graph()
    x, w = graph.input("x", "f32", [-1, 3]), graph.input("w", "f32", [3, 4])
    dx, dw = graph.input("dx", "f32", [-1, 3]), graph.input("dw", "f32", [3, 4])
    y = graph.square(graph.matmul(x, w))
    (found,) = graph.jvp([y], [x, w], [dx, dw])
    model = graph.compile()
    rng = np.random.default_rng(2)
    for batch in (1, 5):
        a, b, da, db = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((batch, 3), (3, 4)) * 2)
        results = model({"x": a, "w": b, "dx": da, "dw": db})
        np.testing.assert_array_equal(results[found], 2 * (a @ b) * (da @ b + a @ db))
        twice = model({"x": a, "w": b, "dx": 2 * da, "dw": 2 * db})
        np.testing.assert_array_equal(twice[found], 2 * results[found])


def test_marked_outputs_and_ops_of_the_user_stay():
    graph = og.Graph()
    x = graph.input("x", "f32", [3])
    y = graph.exp(x)
    graph.output(graph.tanh(x), name="mine")
    unread = graph.square(x)
    (found,) = graph.jvp([y], [x], [1.0])
    assert {op.kind for op in graph.ops} >= {"Exp", "Tanh", "Square"}
    assert graph.output_names[0] == "mine"
    assert found.id in {t.id for t in graph.outputs}
    assert unread.id in {t.id for t in graph.tensors}


def test_what_does_not_depend_is_none():
    graph = og.Graph()
    x, other = graph.input("x", "f32", [3]), graph.input("other", "f32", [3])
    y, z = graph.exp(x), graph.exp(other)
    before = len(graph.ops)
    assert graph.jvp([z], [x], [1.0]) == [None]
    assert len(graph.ops) == before
    found = graph.jvp([y, z, x], [x], [np.array([1, 2, 3])])
    assert found[1] is None
    results = graph.compile()({"x": np.zeros(3, np.float32), "other": np.ones(3, np.float32)})
    np.testing.assert_array_equal(results[found[0]], [1, 2, 3])


def test_a_hessian_is_that_of_the_loss_and_symmetric():
    """Of ½ xᵀ A x + b · x it is A, and None by what comes in linearly."""
    rng = np.random.default_rng(4)
    half = rng.integers(-3, 4, (4, 4)).astype(np.float32)
    a = half + half.T
    graph = og.Graph()
    x, b = graph.input("x", "f32", [4]), graph.input("b", "f32", [4])
    quadratic = graph.reduce_sum(graph.multiply(x, graph.matmul(graph.constant(half), x)), axes=[0])
    loss = graph.add(quadratic, graph.reduce_sum(graph.multiply(b, graph.constant(a[0])), axes=[0]))
    v = graph.input("v", "f32", [4])
    found, none = graph.hvp(loss, [x, b], [v, 1.0])
    assert none is None
    model = graph.compile()
    for n in range(4):
        feeds = {
            "x": np.arange(4, dtype=np.float32),
            "b": np.zeros(4, np.float32),
            "v": np.eye(4, dtype=np.float32)[n],
        }
        np.testing.assert_array_equal(model(feeds)[found], a[n])


def test_products_of_a_network_are_those_of_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape) for shape in ((6, 4), (4, 5), (5,), (5,), (5, 3))]
    vectors = [rng.standard_normal(a.shape) for a in arrays[1:]]
    graph = og.Graph()
    x, w, gamma, beta, head = (graph.input(f"x{n}", "f64", a.shape) for n, a in enumerate(arrays))
    hidden = graph.gelu(graph.layer_norm(graph.matmul(x, w), gamma, beta, keep_stats=False))
    loss = graph.reduce_mean(graph.square(graph.matmul(hidden, head)), axes=[0, 1])
    found = graph.hvp(loss, [w, gamma, beta, head], vectors)
    results = graph.compile(backend="numpy")({f"x{n}": a for n, a in enumerate(arrays)})

    def function(w, gamma, beta, head):
        inner = torch.tensor(arrays[0]) @ w
        hidden = torch.nn.functional.gelu(torch.nn.functional.layer_norm(inner, (5,), gamma, beta))
        return (hidden @ head).square().mean()

    leaves = tuple(torch.tensor(a) for a in arrays[1:])
    _, expected = torch.autograd.functional.hvp(function, leaves, tuple(map(torch.tensor, vectors)))
    for mine, its in zip(found, expected, strict=True):
        np.testing.assert_allclose(results[mine], its.numpy(), rtol=1e-9, atol=1e-10)


REFUSED = {
    "too few tangents": (
        lambda g, x, y: g.jvp([y], [x, y], [1.0]),
        og.ArgumentError,
        "jvp: tangents .* 2 tensors of wrt",
    ),
    "a shape": (
        lambda g, x, y: g.jvp([y], [x], [np.ones(2)]),
        og.ShapeError,
        "jvp: tangents must have the shape",
    ),
    "a type": (
        lambda g, x, y: g.jvp([y], [x], [g.input("d", "f64", [3])]),
        og.DataTypeError,
        "jvp: tangents must have the type of its tensor of wrt",
    ),
    "no number": (lambda g, x, y: g.hvp(y, [x], [1.0]), og.ShapeError, "hvp: the loss must be one number"),
    "another graph's": (
        lambda g, x, y: g.jvp([y], [og.Graph().input("q", "f32", [3])], [1.0]),
        og.ArgumentError,
        "jvp: wrt must hold tensors of the graph",
    ),
    "integers": (
        lambda g, x, y: g.jvp([y], [g.input("n", "s32", [3])], [1.0]),
        og.DataTypeError,
        "jvp: wrt must be of floating-point numbers",
    ),
    "finalized": (lambda g, x, y: (g.finalize(), g.jvp([y], [x], [1.0])), og.GraphError, "finalized"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    call, error, message = REFUSED[name]
    graph = og.Graph()
    x = graph.input("x", "f32", [3])
    y = graph.exp(x)
    before = len(graph.ops)
    with pytest.raises(error, match=message):
        call(graph, x, y)
    assert len(graph.ops) == before
