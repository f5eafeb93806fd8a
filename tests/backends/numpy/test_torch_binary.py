"""Each op's NumPy kernel against torch on the CPU: functions of two tensors, biases and rectifiers."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import (
    DTYPES,
    to_ncx,
)
from torch_oracle import (
    DATA_FORMATS,
    FLOATS,
    SEEDS,
    along_channels,
    close,
    equal,
    exact_tensor,
    gradients,
    integers,
    normal,
    normalisations,
    run,
    torch,
    tuples,
)

pytestmark = pytest.mark.usefixtures("one_thread")


BINARY = {
    "Add": torch.add,
    "Subtract": torch.subtract,
    "Multiply": torch.multiply,
    "Divide": torch.divide,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
}

MIXED = {"Add": (*FLOATS, "s32"), "Subtract": (*FLOATS, "s32"), "Multiply": FLOATS, "Divide": FLOATS}

TYPES = {**DTYPES, "s32": np.dtype(np.int32)}


@st.composite
def broadcasting(draw, count=2):
    """Shapes that broadcast."""
    whole = draw(st.lists(st.integers(1, 4), max_size=4))
    shapes = []
    for _ in range(count):
        own = [n if draw(st.booleans()) else 1 for n in whole]
        shapes.append(tuple(own[draw(st.integers(0, len(own))) :]))
    return shapes


def values_of(rng, shape, dtype):
    if dtype == "s32":
        return rng.integers(-1000, 1000, shape).astype(np.int32)
    return np.asarray(normal(rng, shape, dtype))


@pytest.mark.parametrize("kind", BINARY)
@settings(max_examples=60)
@given(broadcasting(), SEEDS, st.data())
def test_binary(kind, shapes, seed, data):
    rng = np.random.default_rng(seed)
    allowed = MIXED.get(kind, FLOATS)
    types = [data.draw(st.sampled_from(allowed)) for _ in shapes]
    more = {}
    if kind in MIXED:
        target = more["output_type"] = data.draw(st.sampled_from(allowed))
    else:
        types[1] = target = types[0]
    if data.draw(st.booleans()):
        more["auto_broadcast"] = data.draw(st.sampled_from(["numpy", "NUMPY"]))
    a, b = (values_of(rng, s, t) for s, t in zip(shapes, types, strict=True))
    if shapes[0] == shapes[1] and data.draw(st.booleans()):
        more["auto_broadcast"] = data.draw(st.sampled_from(["none", "None"]))
    result = run(kind, a, b, **more)
    a, b = exact_tensor(a), exact_tensor(b)
    exact = BINARY[kind](a, b)
    if target == "s32":
        exact = torch.round(exact)  # halves to even
        np.testing.assert_array_equal(result, exact)
        assert result.dtype == np.int32
        return
    terms = {"Maximum": 0, "Minimum": 0, "SquaredDifference": 3}.get(kind, 1)
    close(result, exact, target, terms=terms, compute=types)


@settings(max_examples=60)
@given(broadcasting(), SEEDS, st.sampled_from((*FLOATS, "s32")))
def test_greater_equal(shapes, seed, dtype):
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-2, 3, s).astype(TYPES[dtype]) for s in shapes)
    result = run("GreaterEqual", a, b)
    assert result.dtype == np.bool_
    np.testing.assert_array_equal(result, exact_tensor(a) >= exact_tensor(b))


@settings(max_examples=60)
@given(broadcasting(3), SEEDS, st.sampled_from(FLOATS))
def test_select(shapes, seed, dtype):
    rng = np.random.default_rng(seed)
    condition = rng.random(shapes[0]) < 0.5
    a, b = (np.asarray(normal(rng, s, dtype)) for s in shapes[1:])
    result = run("Select", np.asarray(condition), a, b)
    exact = torch.where(torch.tensor(condition), exact_tensor(a), exact_tensor(b))
    close(result, exact, dtype, scale=0)
    assert (result.astype(np.float64) == exact.numpy()).all()


@settings(max_examples=60)
@given(normalisations())
def test_bias_add(p):
    rng = p.rng
    x, bias = p.src(rng), normal(rng, p.shape[1], p.dtype)
    result = run("BiasAdd", p.data(x), bias, data_format=p.data_format)
    exact = exact_tensor(x) + along_channels(exact_tensor(bias), x.ndim)
    close(p.undo(result), exact, p.dtype, terms=1)


@settings(max_examples=60)
@given(normalisations(), st.booleans())
def test_bias_add_backward(p, whole):
    dy = (integers if whole else normal)(p.rng, p.shape, p.dtype)
    result = run("BiasAddBackward", p.data(dy), data_format=p.data_format)
    axes = (0, *range(2, dy.ndim))
    exact, scale = exact_tensor(dy).sum(dim=axes), exact_tensor(dy).abs().sum(dim=axes)
    if whole:
        equal(result, exact, p.dtype)
    else:
        close(result, exact, p.dtype, terms=dy.size // dy.shape[1], scale=scale)


@st.composite
def slopes(draw, p):
    """The slope's own shape, and its shape in (N, C, X): one value, one per channel, or axes of data_format."""
    rank = len(p.shape)
    how = draw(st.sampled_from(["one", "per channel", "last axes"]))
    if how == "one":
        return (1,), (1,) * rank, True
    if how == "per channel":
        return p.shape[1:2], (1, p.shape[1], *[1] * (rank - 2)), True
    # In data_format's order, from the last axis on; each size that of src, or 1.
    order = [0, 1, *range(2, rank)] if p.data_format == "NCX" else [0, *range(2, rank), 1]
    width = draw(st.integers(2, rank))
    sizes = [p.shape[a] if draw(st.booleans()) else 1 for a in order]
    shape = tuple(sizes[rank - width :])
    canonical = [1] * rank
    for a, n in zip(order[rank - width :], shape, strict=True):
        canonical[a] = n
    return shape, tuple(canonical), draw(st.booleans())


def in_order(p, array):
    """An array of the slope's shape, in (N, C, X) with ones for what it lacks."""
    return to_ncx(array.reshape((1,) * (len(p.shape) - array.ndim) + array.shape), p.data_format)


@settings(max_examples=80)
@given(normalisations(), st.data())
def test_prelu(p, data):
    shape, canonical, per_channel = data.draw(slopes(p))
    rng = p.rng
    x, slope = normal(rng, p.shape, p.dtype), normal(rng, shape, p.dtype)
    result = run("PReLU", p.data(x), slope, data_format=p.data_format, per_channel_broadcast=per_channel)
    aligned = slope.reshape(canonical) if slope.ndim == 1 else in_order(p, slope)
    x, aligned = exact_tensor(x), exact_tensor(aligned)
    close(p.undo(result), torch.where(x >= 0, x, aligned * x), p.dtype, terms=1)


@settings(max_examples=80)
@given(normalisations(), st.data())
def test_prelu_backward(p, data):
    shape, canonical, _ = data.draw(slopes(p))
    rng = p.rng
    x, slope, dy = normal(rng, p.shape, p.dtype), normal(rng, shape, p.dtype), normal(rng, p.shape, p.dtype)
    assume(not (x == 0).any())
    results = run("PReLUBackward", p.data(x), slope, p.data(dy), data_format=p.data_format)
    aligned = slope.reshape(canonical) if slope.ndim == 1 else in_order(p, slope)

    def forward(x, w):
        return torch.where(x >= 0, x, w * x)

    x, dy, aligned = map(exact_tensor, (x, dy, aligned))
    exact = gradients(forward, [x, aligned], dy)
    scale = gradients(forward, [-x.abs(), aligned], -dy.abs())[1]
    close(p.undo(results[0]), exact[0], p.dtype, terms=1)
    assert results[1].shape == shape
    diff_slope = results[1].reshape(canonical) if slope.ndim == 1 else in_order(p, results[1])
    close(diff_slope, exact[1], p.dtype, terms=x.numel() + 1, scale=scale)


@settings(max_examples=20)
@given(tuples(3, 2, 4), st.sampled_from(DATA_FORMATS), SEEDS)
def test_a_slope_along_the_last_axis(shape, data_format, seed):
    """A slope of one axis, as long as the last one, with per_channel_broadcast off."""
    rng = np.random.default_rng(seed)
    x, slope = rng.standard_normal(shape), rng.standard_normal(shape[-1])
    result = run("PReLU", x, slope, data_format=data_format, per_channel_broadcast=False)
    close(result, torch.where(torch.tensor(x) >= 0, torch.tensor(x), torch.tensor(x * slope)), "f64", terms=1)
