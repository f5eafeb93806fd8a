"""Each op's NumPy kernel against torch on the CPU: normalisations."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch_oracle import along_channels, close, exact_tensor, functional, normal, normalisations, run, torch

pytestmark = pytest.mark.usefixtures("one_thread")


def spread(x, axes, epsilon):
    """How many roundings of x̂ = (x − mean) / √(variance + ε) cost: the largest |x| over the divisor."""
    x = x.abs()
    size = x.amax(dim=axes, keepdim=True)
    return (x + size) / (x.var(dim=axes, keepdim=True, unbiased=False) + epsilon).sqrt() + 1


@settings(max_examples=60)
@given(normalisations())
def test_batch_norm_inference(p):
    rng = p.rng
    x = p.src(rng)
    gamma, beta, mean = (p.vector(rng, p.shape[1]) for _ in range(3))
    variance = p.vector(rng, p.shape[1], positive=True)
    result = run(
        "BatchNormInference",
        p.data(x),
        gamma,
        beta,
        mean,
        variance,
        epsilon=p.epsilon,
        data_format=p.data_format,
    )
    x, gamma, beta, mean, variance = map(exact_tensor, (x, gamma, beta, mean, variance))
    exact = functional.batch_norm(x, mean, variance, gamma, beta, eps=p.epsilon)
    rank = len(p.shape)
    inverse = along_channels((variance + p.epsilon).rsqrt() * gamma.abs(), rank)
    scale = (x.abs() + along_channels(mean.abs(), rank)) * inverse + along_channels(beta.abs(), rank)
    close(p.undo(result), exact, p.dtype, terms=6, scale=scale, compute=p.compute)


@settings(max_examples=60)
@given(normalisations(), st.sampled_from([None, 0.0, 0.125, 0.75]))
def test_batch_norm_forward_training(p, momentum):
    rng = p.rng
    x, mean, variance = p.src(rng), p.vector(rng, p.shape[1]), p.vector(rng, p.shape[1], positive=True)
    gamma, beta = (p.vector(rng, p.shape[1]) for _ in range(2))
    affine = [gamma, beta] if p.affine else []
    more = {} if momentum is None else {"momentum": momentum}
    results = run(
        "BatchNormForwardTraining",
        p.data(x),
        mean,
        variance,
        *affine,
        epsilon=p.epsilon,
        data_format=p.data_format,
        **more,
    )
    x, mean, variance, gamma, beta = map(exact_tensor, (x, mean, variance, gamma, beta))
    axes = (0, *range(2, x.ndim))
    exact = functional.batch_norm(
        x, None, None, *((gamma, beta) if p.affine else (None, None)), training=True, eps=p.epsilon
    )
    count = x.numel() // x.shape[1]
    scale = spread(x, axes, p.epsilon) * (1 + exact.abs())
    if p.affine:
        scale = scale * along_channels(1 + gamma.abs() + beta.abs(), x.ndim)
    close(p.undo(results[0]), exact, p.dtype, terms=count + 8, scale=scale, compute=p.compute)
    batch_mean, batch_variance = x.mean(dim=axes), x.var(dim=axes, unbiased=False)
    size = x.abs().amax(dim=axes)
    share = momentum or 0.0
    for result, batch, old, error in (
        (results[1], batch_mean, mean, size),
        (results[2], batch_variance, variance, size**2),
        (results[3], batch_mean, None, size),
        (results[4], batch_variance, None, size**2),
    ):
        exact = batch if old is None else share * old + (1 - share) * batch
        close(result, exact, p.second, terms=count + 6, scale=error + abs(exact), compute=p.compute)


@settings(max_examples=60)
@given(normalisations(), st.integers(1, 3))
def test_batch_norm_training_backward(p, outputs):
    """Of any statistics: they count as those of the batch, so the sums are over what is normalised by them."""
    rng = p.rng
    x, dy = p.src(rng), normal(rng, p.shape, p.dtype)
    mean, variance = p.vector(rng, p.shape[1]), p.vector(rng, p.shape[1], positive=True)
    gamma = [p.vector(rng, p.shape[1])] if p.affine else []
    results = run(
        "BatchNormTrainingBackward",
        p.data(x),
        p.data(dy),
        mean,
        variance,
        *gamma,
        epsilon=p.epsilon,
        data_format=p.data_format,
        outputs=outputs,
    )
    results = (results,) if outputs == 1 else results
    assert len(results) == outputs
    x, dy, mean, variance = map(exact_tensor, (x, dy, mean, variance))
    gamma = exact_tensor(gamma[0]) if p.affine else None
    inverse = (variance + p.epsilon).rsqrt()
    exact = torch.ops.aten.native_batch_norm_backward(
        dy, x, gamma, None, None, mean, inverse, True, p.epsilon, [True, True, True]
    )
    rank, axes, count = x.ndim, (0, *range(2, x.ndim)), x.numel() // x.shape[1]
    size = (x.abs() + along_channels(mean.abs(), rank)) * along_channels(inverse, rank)
    along = (dy.abs() * size).sum(dim=axes)
    flat = dy.abs().sum(dim=axes)
    factor = along_channels(inverse * (gamma.abs() if p.affine else 1), rank)
    scale = factor * (dy.abs() + (along_channels(flat, rank) + size * along_channels(along, rank)) / count)
    terms = count + 10
    close(p.undo(results[0]), exact[0], p.dtype, terms=terms, scale=scale, compute=p.compute)
    for result, values, error in zip(results[1:], exact[1:], (along, flat), strict=False):
        close(result, values, p.second, terms=terms, scale=error, compute=p.compute)


def affine_shape(draw, shape):
    """The shape of the normalised axes, or as many elements on one axis."""
    return shape if draw(st.booleans()) else (math.prod(shape),)


@settings(max_examples=60)
@given(normalisations((1, 4)), st.data())
def test_layer_norm(p, data):
    rng, x = p.rng, p.src(p.rng)
    first = data.draw(st.integers(-x.ndim, x.ndim - 1))
    normalised = x.shape[first % x.ndim :]
    stats, use = data.draw(st.booleans()), data.draw(st.booleans())
    gamma, beta = (p.vector(rng, affine_shape(data.draw, normalised)) for _ in range(2))
    given_ = {"begin_norm_axis": first, "epsilon": p.epsilon, "keep_stats": stats, "use_affine": use}
    results = run("LayerNorm", x, *([gamma, beta] if p.affine else []), **given_)
    dst = results[0] if stats else results
    x, gamma, beta = map(exact_tensor, (x, gamma, beta))
    both = (gamma.reshape(normalised), beta.reshape(normalised)) if p.affine and use else (None, None)
    exact = functional.layer_norm(x, normalised, *both, eps=p.epsilon)
    axes = tuple(range(first % x.ndim, x.ndim))
    terms = math.prod(normalised) + 8
    scale = spread(x, axes, p.epsilon) * (1 + exact.abs())
    if both[0] is not None:
        scale = scale * (1 + both[0].abs() + both[1].abs())
    close(dst, exact, p.dtype, terms=terms, scale=scale, compute=p.compute)
    if stats:
        size = x.abs().amax(dim=axes)
        told = p.second if p.affine else {"f16": "f32"}.get(p.dtype, p.dtype)
        close(results[1], x.mean(dim=axes), told, terms=terms, scale=size, compute=p.compute)
        variance = x.var(dim=axes, unbiased=False)
        close(results[2], variance, told, terms=terms, scale=size**2, compute=p.compute)


@settings(max_examples=60)
@given(normalisations((1, 4)), st.data())
def test_layer_norm_backward(p, data):
    rng, x = p.rng, p.src(p.rng)
    first = data.draw(st.integers(-x.ndim, x.ndim - 1))
    normalised, kept = x.shape[first % x.ndim :], x.shape[: first % x.ndim]
    dy, use, ones = normal(rng, p.shape, p.dtype), data.draw(st.booleans()), data.draw(st.booleans())
    mean, variance = p.vector(rng, kept), p.vector(rng, kept, positive=True)
    shape = affine_shape(data.draw, normalised)
    affine = [p.vector(rng, shape) for _ in range(data.draw(st.integers(0, 2)))]
    outputs = data.draw(st.sampled_from([1, 3]))
    # Statistics come with the normalised axes as ones too.
    given_ = [v.reshape(*kept, *[1] * len(normalised)) if ones else v for v in (mean, variance)]
    results = run(
        "LayerNormBackward",
        x,
        dy,
        *given_,
        *affine,
        begin_norm_axis=first,
        use_affine=use,
        epsilon=p.epsilon,
        outputs=outputs,
    )
    results = (results,) if outputs == 1 else results
    x, dy, mean, variance = map(exact_tensor, (x, dy, mean, variance))
    gamma = (
        exact_tensor(affine[0]).reshape(normalised) if affine and use else torch.ones(*normalised).double()
    )
    wide_shape = (*kept, *[1] * len(normalised))
    inverse = (variance + p.epsilon).rsqrt()
    exact = torch.ops.aten.native_layer_norm_backward(
        dy,
        x,
        normalised,
        mean.reshape(wide_shape),
        inverse.reshape(wide_shape),
        gamma,
        torch.zeros_like(gamma),
        [True, True, True],
    )
    axes, count = tuple(range(first % x.ndim, x.ndim)), math.prod(normalised)
    inverse = inverse.reshape(wide_shape)
    size = (x.abs() + mean.reshape(wide_shape).abs()) * inverse
    g = (dy * gamma).abs()
    scale = inverse * (g + g.mean(dim=axes, keepdim=True) + size * (g * size).mean(dim=axes, keepdim=True))
    close(results[0], exact[0], p.dtype, terms=count + 10, scale=scale, compute=p.compute)
    rows = math.prod(kept)
    for result, values, terms in zip(results[1:], exact[1:], (dy.abs() * size, dy.abs()), strict=False):
        error = terms.reshape(rows, *normalised).sum(dim=0).reshape(result.shape)
        values = values.reshape(result.shape)
        assert result.shape == (shape if affine else normalised)
        close(result, values, p.second, terms=rows + 6, scale=error, compute=p.compute)


@settings(max_examples=60)
@given(normalisations(), st.booleans(), st.booleans(), st.data())
def test_group_norm(p, stats, use, data):
    rng, x = p.rng, p.src(p.rng)
    channels = p.shape[1]
    groups = data.draw(st.sampled_from([g for g in range(1, channels + 1) if channels % g == 0]))
    assume(channels // groups * math.prod(p.shape[2:]) > 1)
    gamma, beta = (p.vector(rng, channels) for _ in range(2))
    results = run(
        "GroupNorm",
        p.data(x),
        *([gamma, beta] if p.affine else []),
        groups=groups,
        epsilon=p.epsilon,
        keep_stats=stats,
        use_affine=use,
        data_format=p.data_format,
    )
    dst = results[0] if stats else results
    x, gamma, beta = map(exact_tensor, (x, gamma, beta))
    both = (gamma, beta) if p.affine and use else (None, None)
    exact = functional.group_norm(x, groups, *both, eps=p.epsilon)
    grouped = x.reshape(x.shape[0], groups, -1)
    terms = grouped.shape[2] + 8
    scale = spread(grouped, (2,), p.epsilon).reshape(x.shape) * (1 + exact.abs())
    if both[0] is not None:
        scale = scale * along_channels(1 + gamma.abs() + beta.abs(), x.ndim)
    close(p.undo(dst), exact, p.dtype, terms=terms, scale=scale, compute=p.compute)
    if stats:
        told = p.second if p.affine else {"f16": "f32"}.get(p.dtype, p.dtype)
        size = grouped.abs().amax(dim=2)
        close(results[1], grouped.mean(dim=2), told, terms=terms, scale=size, compute=p.compute)
        variance = grouped.var(dim=2, unbiased=False)
        close(results[2], variance, told, terms=terms, scale=size**2, compute=p.compute)


@settings(max_examples=60)
@given(normalisations((1, 4)), st.data())
def test_rms_norm(p, data):
    x = p.src(p.rng)
    first = data.draw(st.integers(-x.ndim, x.ndim - 1))
    normalised = x.shape[first % x.ndim :]
    gamma = [p.vector(p.rng, affine_shape(data.draw, normalised))] if p.affine else []
    result = run("RMSNorm", x, *gamma, begin_norm_axis=first, epsilon=p.epsilon)
    weight = exact_tensor(gamma[0]).reshape(normalised) if gamma else None
    exact = functional.rms_norm(exact_tensor(x), normalised, weight, eps=p.epsilon)
    close(result, exact, p.dtype, terms=math.prod(normalised) + 6, compute=p.compute)


@pytest.mark.parametrize(
    "kind", ["BatchNormInference", "BatchNormTrainingBackward", "LayerNorm", "LayerNormBackward"]
)
def test_f64_data_with_f32_parameters_are_computed_in_f64(kind):
    """As all kernels promise: in f64 where one array is f64."""
    rng = np.random.default_rng(3)
    x, dy = rng.standard_normal((2, 4, 5))
    vectors = [np.abs(rng.standard_normal(n)).astype(np.float32) + 1 for n in (5, 5, 5, 5, 4, 4)]
    gamma, beta, mean, variance, row_mean, row_variance = vectors
    inputs = {
        "BatchNormInference": (x, gamma, beta, mean, variance),
        "BatchNormTrainingBackward": (x, dy, mean, variance, gamma),
        "LayerNorm": (x, gamma, beta),
        "LayerNormBackward": (x, dy, row_mean, row_variance, gamma),
    }[kind]
    more = {"epsilon": 0.25} | ({"outputs": 1} if kind.endswith("Backward") else {})
    result = run(kind, *inputs, **more)
    exact = run(kind, *[v.astype(np.float64) for v in inputs], **more)
    if kind == "LayerNorm":
        result, exact = result[0], exact[0]
    close(result, exact, "f64", terms=40, scale=1 + np.abs(exact))
