"""Second derivatives of layers, as torch has them in double precision: by data, parameters and the seed together."""

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
functional = torch.nn.functional

BACKENDS = [name for name in ("numpy", "onednn") if og.list_backends()[name] is None]
NAMES = {"float32": "f32", "float64": "f64"}


def second_derivatives(build, arrays, backend, batch=None):
    """Σ ⟨gradient, weights⟩ by all arrays and the seed; the value of the layer before them."""
    graph = og.Graph()
    shapes = [a.shape if batch is None or a.ndim < 3 else (batch, *a.shape[1:]) for a in arrays]
    tensors = [
        graph.input(f"x{n}", NAMES[a.dtype.name], shape)
        for n, (a, shape) in enumerate(zip(arrays, shapes, strict=True))
    ]
    y = build(graph, *tensors)
    rng = np.random.default_rng(5)
    own = arrays[0].dtype
    seed = graph.input("seed", NAMES[own.name], y.shape)
    firsts = graph.gradients(y, tensors, seed=seed)
    weights = [rng.integers(-3, 4, a.shape).astype(own) for a in arrays]
    found = [n for n, t in enumerate(firsts) if t is not None]
    others = [graph.input(f"w{n}", NAMES[own.name], tensors[n].shape) for n in found]
    seconds = graph.gradients([firsts[n] for n in found], [*tensors, seed], seed=others)
    sizes = [len(arrays[0]) if d < 0 else d for d in y.shape]
    start = rng.integers(-3, 4, sizes).astype(own)
    model = graph.compile(backend="numpy" if backend == "numpy" else None)
    feeds = {f"x{n}": a for n, a in enumerate(arrays)} | {f"w{n}": weights[n] for n in found}
    results = model({**feeds, "seed": start})
    return [None if t is None else results[t] for t in seconds], start, weights


def by_torch(function, arrays, start, weights):
    leaves = [torch.tensor(a.astype(np.float64), requires_grad=True) for a in arrays]
    seed = torch.tensor(start.astype(np.float64), requires_grad=True)
    firsts = torch.autograd.grad(function(*leaves), leaves, seed, create_graph=True, allow_unused=True)
    total = sum(
        (g * torch.tensor(w.astype(np.float64))).sum()
        for g, w in zip(firsts, weights, strict=True)
        if g is not None
    )
    return torch.autograd.grad(total, [*leaves, seed], allow_unused=True)


def check(build, function, arrays, backend, tolerance=2e-4, batch=None):
    found, start, weights = second_derivatives(build, arrays, backend, batch)
    expected = by_torch(function, arrays, start, weights)
    for place, (mine, its) in enumerate(zip(found, expected, strict=True)):
        # Where nothing flows, some versions of torch say None, and some zeros.
        want = np.zeros(()) if its is None else its.numpy()
        got = np.zeros(want.shape) if mine is None else mine
        scale = max(1.0, float(np.abs(want).max(initial=0)))
        np.testing.assert_allclose(
            got, np.broadcast_to(want, got.shape), rtol=0, atol=tolerance * scale, err_msg=str(place)
        )


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def batch_norm(g, x, gamma, beta):
    channels = gamma.dims
    zeros, ones = (g.constant(np.full(channels, v, np.float64)) for v in (0, 1))
    if x.data_type.value != "f64":
        zeros, ones = (g.constant(np.full(channels, v, np.float32)) for v in (0, 1))
    return g.batch_norm_forward_training(x, zeros, ones, gamma, beta, epsilon=0.1, data_format="NCX")[0]


def attention(g, q, k, v):
    return g.matmul(g.softmax(g.matmul(q, k, transpose_b=True), axis=-1), v)


IMAGE, CHANNELS = (2, 4, 6, 5), (4,)
CONV = {
    "strides": [2, 1],
    "pads_begin": [1, 0],
    "pads_end": [1, 2],
    "dilations": [1, 2],
    "data_format": "NCX",
}
POOL = {"kernel": [3, 2], "strides": [2, 1], "pads_begin": [1, 0], "pads_end": [1, 0], "data_format": "NCX"}
LAYERS = {
    "LayerNorm": (
        lambda g, x, w, b: g.layer_norm(x, w, b, epsilon=0.1)[0],
        lambda x, w, b: functional.layer_norm(x, (5,), w, b, 0.1),
        [(3, 4, 5), (5,), (5,)],
    ),
    "LayerNorm over two axes": (
        lambda g, x, w, b: g.layer_norm(x, w, b, begin_norm_axis=1, keep_stats=False, epsilon=0.1),
        lambda x, w, b: functional.layer_norm(x, (4, 5), w, b, 0.1),
        [(3, 4, 5), (4, 5), (4, 5)],
    ),
    "GroupNorm": (
        lambda g, x, w, b: g.group_norm(x, w, b, groups=2, epsilon=0.1, data_format="NCX")[0],
        lambda x, w, b: functional.group_norm(x, 2, w, b, 0.1),
        [IMAGE, CHANNELS, CHANNELS],
    ),
    "BatchNorm of training": (
        batch_norm,
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, True, eps=0.1),
        [IMAGE, CHANNELS, CHANNELS],
    ),
    "BatchNorm of inference": (
        lambda g, x, w, b, m, v: g.batch_norm_inference(
            x, w, b, m, g.square(v), epsilon=0.1, data_format="NCX"
        ),
        lambda x, w, b, m, v: (
            w[:, None, None] * (x - m[:, None, None]) / (v[:, None, None] ** 2 + 0.1) ** 0.5
            + b[:, None, None]
        ),
        [IMAGE, *[CHANNELS] * 4],
    ),
    "MaxPool": (
        lambda g, x: g.max_pool(g.square(x), **POOL),
        lambda x: functional.max_pool2d(x * x, (3, 2), (2, 1), (1, 0)),
        [IMAGE],
    ),
    "PReLU": (
        lambda g, x, s: g.prelu(g.square(x) - 1, s, data_format="NCX"),
        lambda x, s: functional.prelu(x * x - 1, s),
        [IMAGE, CHANNELS],
    ),
    "Convolution": (
        lambda g, x, w, b: g.square(g.convolution(x, w, b, groups=2, weights_format="OIX", **CONV)),
        lambda x, w, b: functional.conv2d(functional.pad(x, (0, 2, 1, 1)), w, b, (2, 1), 0, (1, 2), 2) ** 2,
        [IMAGE, (6, 2, 3, 2), (6,)],
    ),
    "ConvTranspose": (
        lambda g, x, w: g.square(
            g.conv_transpose(x, w, weights_format="IOX", **{**CONV, "pads_end": [1, 0]})
        ),
        lambda x, w: functional.conv_transpose2d(x, w, None, (2, 1), (1, 0), 0, 1, (1, 2)) ** 2,
        [IMAGE, (4, 3, 3, 2)],
    ),
    "attention": (
        attention,
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2), -1) @ v,
        [(2, 3, 4), (2, 5, 4), (2, 5, 3)],
    ),
    "LogSoftmax": (lambda g, x: g.log_softmax(x, axis=-1), lambda x: torch.log_softmax(x, -1), [(3, 5)]),
    "Interpolate": (
        lambda g, x: g.square(g.interpolate(x, mode="bilinear", sizes=[9, 4], data_format="NCX")),
        lambda x: functional.interpolate(x, (9, 4), mode="bilinear") ** 2,
        [IMAGE],
    ),
    "SiLU": (lambda g, x: g.multiply(x, g.sigmoid(x)), functional.silu, [(3, 5)]),
    "GELU": (lambda g, x: g.gelu(x), functional.gelu, [(3, 5)]),
    "GELU by tanh": (
        lambda g, x: g.gelu(x, mode="gelu_tanh"),
        lambda x: functional.gelu(x, approximate="tanh"),
        [(3, 5)],
    ),
    "Mish": (lambda g, x: g.mish(x), functional.mish, [(3, 5)]),
    "HardSwish": (lambda g, x: g.hard_swish(x), functional.hardswish, [(3, 5)]),
    "Elu": (lambda g, x: g.elu(x, alpha=0.5), lambda x: functional.elu(x, 0.5), [(3, 5)]),
    "SoftPlus": (lambda g, x: g.softplus(x, beta=2.0), lambda x: functional.softplus(x, 2.0), [(3, 5)]),
    "RMSNorm": (
        lambda g, x, w: g.rms_norm(x, w, epsilon=0.1),
        lambda x, w: w * x / (x.square().mean(-1, keepdim=True) + 0.1).sqrt(),
        [(3, 4, 5), (5,)],
    ),
    "ReduceProd": (lambda g, x: g.reduce_prod(x, axes=[1]), lambda x: x.prod(1), [(3, 5)]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer(name, backend):
    build, function, shapes = LAYERS[name]
    arrays = [normal(*shape, seed=n).astype(np.float32) for n, shape in enumerate(shapes)]
    check(build, function, arrays, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_products_have_second_derivatives_at_zeros(backend):
    array = np.array([[0, 2, 3, 5], [0, 0, 3, 5], [1, 0, 0, 0], [2, 3, 4, 5]], np.float32)
    check(lambda g, x: g.reduce_prod(x, axes=[1]), lambda x: x.prod(1), [array], backend, 0)


OPEN = ("LayerNorm", "BatchNorm of training", "GroupNorm", "MaxPool", "PReLU", "attention", "RMSNorm", "GELU")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", OPEN)
def test_a_batch_of_any_size(name, backend):
    build, function, shapes = LAYERS[name]
    arrays = [normal(*shape, seed=n).astype(np.float32) for n, shape in enumerate(shapes)]
    check(build, function, arrays, backend, batch=-1)


# --- random ones ----------------------------------------------------------------------------------------


@pytest.mark.no_cover
@settings(max_examples=25, deadline=None)
@given(
    size=st.tuples(st.integers(3, 7), st.integers(3, 7)),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    ceil=st.booleans(),
    last=st.booleans(),
    seed=st.integers(0, 99),
)
def test_pooling_exactly(size, kernel, strides, dilations, ceil, last, seed):
    """Integers with ties: second derivatives of x² through MaxPool are sums of products of integers."""
    pads = [k // 2 for k in kernel]
    if any(d * (k - 1) + 1 > s + 2 * p for s, k, d, p in zip(size, kernel, dilations, pads, strict=True)):
        return
    array = np.random.default_rng(seed).integers(-3, 4, (2, 3, *size)).astype(np.float32)
    order = [0, 2, 3, 1]

    def build(g, x):
        x = g.square(g.static_transpose(x, order=order) if last else x)
        y = g.max_pool(
            x, kernel=kernel, strides=strides, pads_begin=pads, pads_end=pads, dilations=dilations,
            rounding_type="ceil" if ceil else "floor", data_format="NXC" if last else "NCX",
        )  # fmt: skip
        return g.static_transpose(y, order=[0, 3, 1, 2]) if last else y

    for backend in BACKENDS:
        check(
            build,
            lambda x: functional.max_pool2d(x * x, kernel, strides, pads, dilations, ceil),
            [array],
            backend,
            0,
        )


@pytest.mark.no_cover
@settings(max_examples=20, deadline=None)
@given(
    batch=st.integers(1, 3),
    groups=st.integers(1, 3),
    each=st.integers(1, 3),
    spatial=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    kind=st.sampled_from(["group", "batch", "layer", "prelu"]),
    last=st.booleans(),
    affine=st.booleans(),
)
def test_layers_over_channels(batch, groups, each, spatial, kind, last, affine):
    """Ranks 3 to 5, both layouts, with and without gamma and beta."""
    rank, channels = 2 + len(spatial), groups * each
    shape = (batch, channels, *spatial)
    forth, back = [0, *range(2, rank), 1], [0, rank - 1, *range(1, rank - 1)]
    layout = {"data_format": "NXC" if last else "NCX"}
    first = 1 + groups % (rank - 1)

    def build(g, x, *parameters):
        if kind == "layer":
            return g.layer_norm(x, *parameters, begin_norm_axis=first, use_affine=affine, epsilon=0.5)[0]
        x = g.static_transpose(x, order=forth) if last else x
        if kind == "group":
            y = g.group_norm(x, *parameters, groups=groups, use_affine=affine, epsilon=0.5, **layout)[0]
        elif kind == "batch":
            held = [g.constant(np.ones(channels)), g.constant(np.ones(channels))]
            y = g.batch_norm_forward_training(x, *held, *parameters, epsilon=0.5, **layout)[0]
        else:
            y = g.prelu(x, *parameters, **layout)
        return g.static_transpose(y, order=back) if last else y

    def function(x, *parameters):
        if kind == "layer":
            return functional.layer_norm(x, shape[first:], *parameters, eps=0.5)
        if kind == "group":
            return functional.group_norm(x, groups, *parameters, eps=0.5)
        if kind == "batch":
            return functional.batch_norm(x, None, None, *parameters, training=True, eps=0.5)
        return functional.prelu(x, *parameters)

    if kind in ("batch", "group") and batch * np.prod(spatial) == 1:
        return  # torch refuses it
    own = shape[first:] if kind == "layer" else (channels,)
    count = 1 if kind == "prelu" else 2 if affine else 0
    arrays = [normal(*shape), *(normal(*own, seed=n) for n in range(count))]
    check(build, function, arrays, "numpy", 1e-9)
