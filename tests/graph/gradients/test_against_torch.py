"""Gradients where functions have kinks, and of small models, as torch has them."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
functional = torch.nn.functional

BACKENDS = [name for name in ("numpy", "onednn") if og.list_backends()[name] is None]
CONV = {"data_format": "NCX", "dilations": [1, 1]}


def compare(graph, tensors, losses, arrays, expected, backend, tolerance=2e-5):
    """Gradients by `tensors`, in the order of `expected`, to a share of the largest element of each."""
    found = graph.gradients(losses, tensors)
    model = graph.compile(backend="numpy" if backend == "numpy" else None)
    results = model(arrays)
    for tensor, want in zip(found, expected, strict=True):
        scale = max(1e-3, float(want.abs().max()))
        np.testing.assert_allclose(results[tensor], want.numpy(), rtol=0, atol=tolerance * scale)
    return model


# --- kinks ------------------------------------------------------------------------------------------------

KINKS = np.array([-3, -2.5, -1, -0.0, 0.0, 1, 2.5, 3, 4], np.float32)
TIES = np.array([[1, 3, 3, 0], [2, 2, 2, 2], [0, 0, -1, 0]], np.float32)
OTHER = np.array([[1, 2, 4, 0]], np.float32)
EDGES = {
    "Abs": (KINKS, {}, torch.abs),
    "ReLU": (KINKS, {}, torch.relu),
    "LeakyReLU": (KINKS, {"alpha": 0.25}, lambda x: functional.leaky_relu(x, 0.25)),
    "Elu": (KINKS, {"alpha": 1.5}, lambda x: functional.elu(x, 1.5)),
    "HardSwish": (KINKS, {}, functional.hardswish),
    "HardSigmoid": (KINKS, {"alpha": 1 / 6, "beta": 0.5}, functional.hardsigmoid),
    # torch.clamp has 1 at the bounds; hardtanh, of which ReLU6 is one, has 0 as oneDNN has.
    "Clamp": (KINKS, {"min": -1.0, "max": 3.0}, lambda x: functional.hardtanh(x, -1.0, 3.0)),
    "ReduceMax": (TIES, {"axes": [1]}, lambda x: torch.amax(x, 1)),
    "ReduceMin": (TIES, {"axes": [0]}, lambda x: torch.amin(x, 0)),
    "ReduceL1": (TIES, {"axes": [0]}, lambda x: torch.linalg.vector_norm(x, 1, 0)),
    "ReduceL2": (TIES * [[1], [1], [0]], {"axes": [1]}, lambda x: torch.linalg.vector_norm(x, 2, 1)),
    "ReduceProd": (TIES, {"axes": [1]}, lambda x: torch.prod(x, 1)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", EDGES)
def test_kinks(kind, backend):
    array, attributes, function = EDGES[kind]
    array = array.astype(np.float32)
    graph = og.Graph()
    x = graph.input("x", "f32", array.shape)
    y = graph.op(kind, x, **attributes)
    (found,) = graph.gradients(y, [x], 1.5)
    mine = graph.compile(backend="numpy" if backend == "numpy" else None)({"x": array})[found]
    its = torch.tensor(array, requires_grad=True)
    (1.5 * function(its)).sum().backward()
    np.testing.assert_allclose(mine, its.grad.numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["Maximum", "Minimum"])
def test_ties_of_two_operands_have_half_each(kind, backend):
    graph = og.Graph()
    a, b = graph.input("a", "f32", TIES.shape), graph.input("b", "f32", OTHER.shape)
    found = graph.gradients(graph.op(kind, a, b), [a, b], 1)
    results = graph.compile(backend="numpy" if backend == "numpy" else None)({"a": TIES, "b": OTHER})
    both = [torch.tensor(array, requires_grad=True) for array in (TIES, OTHER)]
    getattr(torch, kind.lower())(*both).sum().backward()
    for tensor, its in zip(found, both, strict=True):
        np.testing.assert_array_equal(results[tensor], its.grad.numpy())


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_first_of_equal_elements_of_a_window_has_the_gradient(backend):
    array = np.random.default_rng(0).integers(0, 3, (2, 3, 6, 6)).astype(np.float32)
    graph = og.Graph()
    x = graph.input("x", "f32", array.shape)
    pool = {
        "kernel": [3, 3],
        "strides": [2, 2],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
        "data_format": "NCX",
    }
    (found,) = graph.gradients(graph.op("MaxPool", x, **pool), [x], 1)
    mine = graph.compile(backend="numpy" if backend == "numpy" else None)({"x": array})[found]
    its = torch.tensor(array, requires_grad=True)
    functional.max_pool2d(its, 3, 2, 1).sum().backward()
    np.testing.assert_array_equal(mine, its.grad.numpy())


# --- small models -------------------------------------------------------------------------------------------


class Model:
    """A graph and a torch function side by side, on the same parameters."""

    def __init__(self):
        self.graph, self.arrays, self.rng = og.Graph(), {}, np.random.default_rng(0)
        self.tensors = {}

    def parameter(self, name, *shape, scale=None, of=None):
        made = self.rng.standard_normal(shape) * (scale or 1 / np.sqrt(max(1, np.prod(shape[1:]))))
        self.arrays[name] = (made if of is None else of(made)).astype(np.float32)
        self.tensors[name] = self.graph.input(name, "f32", shape)
        return self.tensors[name]

    def cross_entropy(self, scores, classes):
        """Mean of −Σ target · log softmax(scores) over the rows."""
        batch, count = scores.dims
        target = np.eye(count, dtype=np.float32)[self.rng.integers(0, count, batch)]
        self.arrays["target"] = target
        logs = self.graph.op("LogSoftmax", scores, axis=1)
        picked = self.graph.op("Multiply", logs, self.graph.input("target", "f32", target.shape))
        total = self.graph.op("ReduceSum", picked, axes=[0, 1])
        return self.graph.op("Multiply", total, self.graph.constant(np.float32(-1 / batch)))

    def check(self, loss, function, backend, tolerance=1e-4):
        its = {
            name: torch.tensor(array, dtype=torch.float64, requires_grad=name != "target")
            for name, array in self.arrays.items()
        }
        value = function(its)
        names = [name for name in its if name != "target"]
        expected = torch.autograd.grad(value, [its[n] for n in names])
        return compare(
            self.graph, [self.tensors[n] for n in names], loss, self.arrays, expected, backend, tolerance
        )


def entropy(scores, its):
    return functional.cross_entropy(scores, its["target"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cnn(backend):
    """Convolutions with BatchNorm and ReLU, a residual, a strided one, poolings of both kinds, a dense layer."""
    model = Model()
    g, p = model.graph, model.parameter
    x = p("x", 4, 3, 16, 16, scale=1)
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "weights_format": "OIX", **CONV}

    def block(tensor, name, channels, out, **geometry):
        made = g.op("Convolution", tensor, p(f"{name}.w", out, channels, 3, 3), **{**same, **geometry})
        zeros, ones = (g.constant(np.full(out, v, np.float32)) for v in (0, 1))
        gamma, beta = (
            p(f"{name}.gamma", out, scale=0.2, of=lambda a: 1 + a),
            p(f"{name}.beta", out, scale=0.2),
        )
        return g.op(
            "BatchNormForwardTraining",
            made,
            zeros,
            ones,
            gamma,
            beta,
            epsilon=1e-5,
            momentum=0.9,
            data_format="NCX",
        )[0]

    first = g.op("ReLU", block(x, "a", 3, 8))
    second = g.op("ReLU", g.op("Add", block(first, "b", 8, 8), first))
    pooled = g.op(
        "MaxPool",
        second,
        kernel=[2, 2],
        strides=[2, 2],
        pads_begin=[0, 0],
        pads_end=[0, 0],
        data_format="NCX",
    )
    third = g.op("ReLU", block(pooled, "c", 8, 16, strides=[2, 2]))
    mean = g.op("ReduceMean", third, axes=[2, 3])
    scores = g.op("Add", g.op("MatMul", mean, p("w", 10, 16), transpose_b=True), p("bias", 10))
    loss = model.cross_entropy(scores, 10)

    def function(t):
        def norm(values, name):
            return functional.batch_norm(
                values, None, None, t[f"{name}.gamma"], t[f"{name}.beta"], training=True
            )

        a = torch.relu(norm(functional.conv2d(t["x"], t["a.w"], padding=1), "a"))
        b = torch.relu(norm(functional.conv2d(a, t["b.w"], padding=1), "b") + a)
        c = norm(functional.conv2d(functional.max_pool2d(b, 2), t["c.w"], padding=1, stride=2), "c")
        return entropy(functional.linear(torch.relu(c).mean((2, 3)), t["w"], t["bias"]), t)

    model.check(loss, function, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention(backend):
    """LayerNorm, attention of two heads, GELU, a table of embeddings, and a sum over the words."""
    model = Model()
    g, p = model.graph, model.parameter
    batch, words, width, heads = 3, 5, 8, 2
    tokens = np.random.default_rng(3).integers(0, 11, (batch, words))
    table = p("table", 11, width)
    x = g.op("HostGather", table, g.constant(tokens), axis=0)
    x = g.op("Add", x, p("places", words, width))

    def norm(tensor, name):
        gamma, beta = (
            p(f"{name}.gamma", width, scale=0.2, of=lambda a: 1 + a),
            p(f"{name}.beta", width, scale=0.2),
        )
        return g.op("LayerNorm", tensor, gamma, beta, keep_stats=False)

    def dense(tensor, name, a, b):
        return g.op("MatMul", tensor, p(f"{name}.w", a, b, scale=a**-0.5), p(f"{name}.b", b))

    def split(tensor):
        tensor = g.op(
            "StaticReshape", tensor, shape=[batch, words, heads, width // heads], special_zero=False
        )
        return g.op("StaticTranspose", tensor, order=[0, 2, 1, 3])

    inner = norm(x, "first")
    q, k, v = (split(dense(inner, name, width, width)) for name in "qkv")
    weights = g.op(
        "Multiply", g.op("MatMul", q, k, transpose_b=True), g.constant(np.float32((width / heads) ** -0.5))
    )
    seen = g.op("MatMul", g.op("SoftMax", weights, axis=-1), v)
    seen = g.op(
        "StaticReshape",
        g.op("StaticTranspose", seen, order=[0, 2, 1, 3]),
        shape=[batch, words, width],
        special_zero=False,
    )
    x = g.op("Add", x, dense(seen, "o", width, width))
    x = g.op("Add", x, dense(g.op("GELU", dense(norm(x, "second"), "up", width, 16)), "down", 16, width))
    loss = model.cross_entropy(dense(g.op("ReduceMean", x, axes=[1]), "head", width, 7), 7)

    def function(t):
        def norm(values, name):
            return functional.layer_norm(values, (width,), t[f"{name}.gamma"], t[f"{name}.beta"])

        def dense(values, name):
            return values @ t[f"{name}.w"] + t[f"{name}.b"]

        x = functional.embedding(torch.tensor(tokens), t["table"]) + t["places"]
        inner = norm(x, "first")
        parts = [dense(inner, name).reshape(batch, words, heads, -1).transpose(1, 2) for name in "qkv"]
        seen = functional.scaled_dot_product_attention(*parts).transpose(1, 2).reshape(batch, words, width)
        x = x + dense(seen, "o")
        x = x + dense(functional.gelu(dense(norm(x, "second"), "up")), "down")
        return entropy(dense(x.mean(1), "head"), t)

    model.check(loss, function, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_u_net(backend):
    """Down by convolutions and GroupNorm, up by transposed convolutions and Interpolate, joined by Concat."""
    model = Model()
    g, p = model.graph, model.parameter
    x = p("x", 2, 3, 16, 16, scale=1)
    same = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "weights_format": "OIX", **CONV}

    def block(tensor, name, channels, out, **geometry):
        made = g.op(
            "Convolution",
            tensor,
            p(f"{name}.w", out, channels, 3, 3),
            p(f"{name}.b", out),
            **{**same, **geometry},
        )
        gamma, beta = (
            p(f"{name}.gamma", out, scale=0.2, of=lambda a: 1 + a),
            p(f"{name}.beta", out, scale=0.2),
        )
        made = g.op("GroupNorm", made, gamma, beta, groups=2, keep_stats=False, data_format="NCX")
        return g.op("PReLU", made, p(f"{name}.slope", out, scale=0.2), data_format="NCX")

    top = block(x, "a", 3, 4)
    middle = block(top, "b", 4, 8, strides=[2, 2])
    bottom = block(middle, "c", 8, 8, strides=[2, 2])
    up = g.op(
        "ConvTranspose", bottom, p("up.w", 8, 8, 2, 2), p("up.b", 8), strides=[2, 2], pads_begin=[0, 0],
        pads_end=[0, 0], weights_format="IOX", **CONV,
    )  # fmt: skip
    joined = block(g.op("Concat", up, middle, axis=1), "d", 16, 4)
    large = g.op("Interpolate", joined, mode="bilinear", sizes=[16, 16], data_format="NCX")
    scores = g.op("Convolution", g.op("Concat", large, top, axis=1), p("head", 5, 8, 3, 3), **same)
    pixels = g.op("StaticTranspose", scores, order=[0, 2, 3, 1])
    pixels = g.op("StaticReshape", pixels, shape=[512, 5], special_zero=False)
    loss = model.cross_entropy(pixels, 5)

    def function(t):
        def block(values, name, stride=1):
            made = functional.conv2d(values, t[f"{name}.w"], t[f"{name}.b"], stride, 1)
            made = functional.group_norm(made, 2, t[f"{name}.gamma"], t[f"{name}.beta"])
            return functional.prelu(made, t[f"{name}.slope"])

        top = block(t["x"], "a")
        middle = block(top, "b", 2)
        up = functional.conv_transpose2d(block(middle, "c", 2), t["up.w"], t["up.b"], 2)
        joined = block(torch.cat([up, middle], 1), "d")
        large = functional.interpolate(joined, size=(16, 16), mode="bilinear", align_corners=False)
        scores = functional.conv2d(torch.cat([large, top], 1), t["head"], padding=1)
        return entropy(scores.permute(0, 2, 3, 1).reshape(512, 5), t)

    model.check(loss, function, backend)


PLACES = np.array([0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, np.inf, -np.inf], np.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("kind", "name"), [("HostPower", "pow"), ("HostAtan2", "atan2"), ("Maximum", "maximum")]
)
def test_gradients_of_two_numbers_at_zero_and_infinities(kind, name, backend):
    a, b = (each.reshape(-1) for each in np.meshgrid(PLACES, PLACES))
    graph = og.Graph()
    x, y = graph.input("x", "f32", a.shape), graph.input("y", "f32", b.shape)
    seed = graph.constant(np.ones(a.shape, np.float32))
    for port, gradient in zip("xy", graph.gradients(graph.op(kind, x, y), [x, y], seed), strict=True):
        graph.output(gradient, name=f"d{port}")
    found = graph.compile(backend=None if backend == "onednn" else backend)({"x": a, "y": b})
    leaves = [torch.tensor(each, requires_grad=True) for each in (a, b)]
    getattr(torch, name)(*leaves).backward(torch.ones(a.size))
    for port, leaf in zip("xy", leaves, strict=True):
        # infinities may have another sign where that of a zero is lost
        np.testing.assert_allclose(np.abs(found[f"d{port}"]), np.abs(leaf.grad.numpy()), 1e-5, 1e-6)
