"""Each op's NumPy kernel against torch on the CPU: softmax, reductions and products of matrices."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    DTYPES,
)
from torch_oracle import (
    FLOATS,
    SEEDS,
    close,
    equal,
    exact_tensor,
    integers,
    normal,
    run,
    run_with_operand,
    tensors,
    torch,
)

pytestmark = pytest.mark.usefixtures("one_thread")


# --- softmax ------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(tensors(), st.data())
def test_softmax(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    mode = data.draw(st.sampled_from([None, "none", "inf_as_zero"]))
    stats = data.draw(st.booleans())
    target = data.draw(st.sampled_from(FLOATS))
    x = normal(rng, shape, dtype, data.draw(st.sampled_from([1.0, 5.0])))
    if mode == "inf_as_zero":
        x[rng.random(shape) < 0.3] = -np.inf
        np.moveaxis(x, axis, -1).reshape(-1, shape[axis])[
            0
        ] = -np.inf  # a copy for some axes; then none is all −inf
    more = {} if mode is None else {"mode": mode}
    result = run("SoftMax", x, axis=axis, outputs=1 + stats, output_type=target, **more)
    x = exact_tensor(x)
    exact = torch.softmax(x, axis)
    empty = torch.isneginf(x).all(dim=axis, keepdim=True)
    if mode == "inf_as_zero":
        exact = torch.where(empty, 0.0, exact)
    size = torch.where(torch.isneginf(x), 0, x).abs().amax(dim=axis, keepdim=True)
    terms = shape[axis] + 10
    compute = (dtype,)
    close(
        result[0] if stats else result,
        exact,
        target,
        terms=terms,
        scale=exact * (1 + 2 * size),
        compute=compute,
    )
    if stats:
        wanted = torch.where(empty, 0.0, torch.logsumexp(x, axis, keepdim=True))
        told = target if target in ("f32", "f64") else {"f64": "f64"}.get(dtype, "f32")
        close(result[1], wanted, told, terms=terms, scale=1 + size, compute=compute)


def test_a_row_of_minus_infinity_is_among_those_that_were_drawn():
    """`test_softmax` writes one through a view where the axis is the last one."""
    x = np.zeros((2, 3))
    np.moveaxis(x, 1, -1).reshape(-1, 3)[0] = -np.inf
    assert np.isneginf(x[0]).all()


@settings(max_examples=40)
@given(tensors(), st.data())
def test_softmax_backward(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    target = data.draw(st.sampled_from(FLOATS))
    dy, y = normal(rng, shape, dtype), rng.dirichlet(np.ones(4), shape)[..., 0].astype(DTYPES[dtype])
    result = run("SoftMaxBackward", dy, y, axis=axis, output_type=target)
    dy, y = exact_tensor(dy), exact_tensor(y)
    exact = torch.ops.aten._softmax_backward_data(dy, y, axis, torch.float64)
    scale = y * (dy.abs() + (dy * y).abs().sum(dim=axis, keepdim=True))
    close(result, exact, target, terms=shape[axis] + 3, scale=scale, compute=(dtype,))


@settings(max_examples=40)
@given(tensors(), st.data())
def test_log_softmax(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = normal(rng, shape, dtype, 4.0)
    result = run("LogSoftmax", x, axis=axis)
    exact = torch.log_softmax(exact_tensor(x), axis)
    size = 1 + exact_tensor(x).abs().amax(dim=axis, keepdim=True)
    close(result, exact, dtype, terms=shape[axis] + 10, scale=size + exact.abs())


@settings(max_examples=40)
@given(tensors(), st.data())
def test_log_softmax_backward(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    dy, y = normal(rng, shape, dtype), -np.abs(normal(rng, shape, dtype))
    result = run("LogSoftmaxBackward", dy, y, axis=axis)
    dy, y = exact_tensor(dy), exact_tensor(y)
    exact = torch.ops.aten._log_softmax_backward_data(dy, y, axis, torch.float64)
    total = dy.abs().sum(dim=axis, keepdim=True)
    scale = dy.abs() + torch.exp(y) * total * (1 + y.abs())
    close(result, exact, dtype, terms=shape[axis] + 10, scale=scale)


# --- reductions ---------------------------------------------------------------------------------------


def _product(x, axes, keep):
    for axis in sorted(axes, reverse=True):
        x = x.prod(dim=axis, keepdim=keep)
    return x


REDUCTIONS = {
    "ReduceL1": lambda x, axes, keep: x.abs().sum(dim=axes, keepdim=keep),
    "ReduceL2": lambda x, axes, keep: torch.linalg.vector_norm(x, 2, dim=axes, keepdim=keep),
    "ReduceMax": lambda x, axes, keep: x.amax(dim=axes, keepdim=keep),
    "ReduceMean": lambda x, axes, keep: x.mean(dim=axes, keepdim=keep),
    "ReduceMin": lambda x, axes, keep: x.amin(dim=axes, keepdim=keep),
    "ReduceProd": _product,
    "ReduceSum": lambda x, axes, keep: x.sum(dim=axes, keepdim=keep),
}


@pytest.mark.parametrize("kind", REDUCTIONS)
@settings(max_examples=40)
@given(tensors(), st.data())
def test_reductions(kind, drawn, data):
    shape, dtype, rng = drawn
    axes = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    signed = [a - len(shape) if data.draw(st.booleans()) else a for a in axes]
    keep = data.draw(st.booleans())
    x = normal(rng, shape, dtype)
    if data.draw(st.booleans()):
        result = run(kind, x, axes=signed, keep_dims=keep)
    else:
        more = {"axes": [0]} if data.draw(st.booleans()) else {}  # the input wins
        result = run_with_operand(kind, [x], signed, keep_dims=keep, **more)
    x = exact_tensor(x)
    if axes:
        exact, size = (REDUCTIONS[kind](v, axes, keep) for v in (x, x.abs()))
    else:  # each element alone, where torch would take all axes
        exact = x.abs() if kind in ("ReduceL1", "ReduceL2") else x
        size = x.abs()
    terms = 0 if kind in ("ReduceMax", "ReduceMin") else math.prod(shape[a] for a in axes) + 2
    close(result, exact, dtype, terms=terms, scale=size)


@pytest.mark.parametrize("kind", ["ReduceSum", "ReduceL1", "ReduceProd"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions_of_integers_are_exact(kind, dtype):
    """Also where the sum is far beyond what a half precision tells apart."""
    x = np.random.default_rng(7).integers(1, 4, (3, 700)).astype(DTYPES[dtype])
    if kind == "ReduceProd":
        x = x[:, :9]
    equal(run(kind, x, axes=[1]), REDUCTIONS[kind](exact_tensor(x), (1,), False), dtype)


# --- products of matrices -----------------------------------------------------------------------------


@st.composite
def products(draw):
    """Shapes of src and weights, as torch takes them, whose batches broadcast."""
    m, k, n = (draw(st.integers(1, 5)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=2))
    batches = []
    for _ in range(2):
        own = [1 if draw(st.booleans()) else b for b in batch]
        batches.append(own[draw(st.integers(0, len(own))) :])
    src = (k,) if draw(st.integers(0, 4)) == 0 else (*batches[0], m, k)
    weights = (k,) if draw(st.integers(0, 4)) == 0 else (*batches[1], k, n)
    return src, weights


@settings(max_examples=150)
@given(products(), st.booleans(), st.booleans(), st.sampled_from(FLOATS), st.booleans(), SEEDS, st.data())
def test_matmul(shapes, transpose_a, transpose_b, dtype, whole, seed, data):
    """The flags say nothing of vectors."""
    rng = np.random.default_rng(seed)
    target = data.draw(st.sampled_from(FLOATS))
    mode = data.draw(st.sampled_from(["strict", "relaxed", "any", "f32", "s32", "f16"]))
    a, b = ((integers if whole else normal)(rng, s, dtype) for s in shapes)
    exact = torch.matmul(exact_tensor(a), exact_tensor(b))
    scale = torch.matmul(exact_tensor(a).abs(), exact_tensor(b).abs())
    arrays = [
        v.swapaxes(-1, -2) if flag and v.ndim > 1 else v for v, flag in ((a, transpose_a), (b, transpose_b))
    ]
    if data.draw(st.booleans()):
        shape = tuple(n if data.draw(st.booleans()) else 1 for n in exact.shape)
        shape = shape[data.draw(st.integers(0, len(shape))) :]
        bias = (integers if whole else normal)(rng, shape, dtype)
        arrays.append(bias)
        exact, scale = exact + exact_tensor(bias), scale + exact_tensor(bias).abs()
    result = run(
        "MatMul",
        *arrays,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        output_type=target,
        accumulation_mode=mode,
    )
    if whole:
        equal(result, exact, target)
    else:
        close(result, exact, target, terms=a.shape[-1] + 1, scale=scale, compute=(dtype,))
