"""Each op's NumPy kernel against torch on the CPU: ops that move elements."""

import math

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import (
    DTYPES,
    SIGNIFICANT_BITS,
)
from torch_oracle import FLOATS, close, exact_tensor, normal, run, same_bits, tensors, torch

pytestmark = pytest.mark.usefixtures("one_thread")


@settings(max_examples=50)
@given(tensors(), st.data())
def test_concat(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    for _ in range(data.draw(st.integers(1, 5))):
        own = list(shape)
        own[axis] = data.draw(st.integers(0, 3))
        parts.append(normal(rng, own, dtype))
    exact = torch.cat([exact_tensor(v) for v in parts], axis).numpy().astype(DTYPES[dtype])
    same_bits(run("Concat", *parts, axis=axis), exact)


def test_concat_of_as_many_as_it_takes():
    parts = [np.full((1, 2), i, np.float32) for i in range(64)]
    same_bits(run("Concat", *parts, axis=0), np.repeat(np.arange(64, dtype=np.float32)[:, None], 2, 1))


@settings(max_examples=50)
@given(tensors(), st.data())
def test_static_reshape(drawn, data):
    """With 0 for a size that stays and -1 for what remains."""
    shape, dtype, rng = drawn
    x = normal(rng, shape, dtype)
    # The axes of the new shape: those of src up to some place, and all that is behind it, split in two.
    keep = data.draw(st.integers(0, len(shape)))
    rest = math.prod(shape[keep:])
    factor = data.draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0]))
    wanted = [*shape[:keep], factor, rest // factor]
    special = data.draw(st.booleans())
    told = [0 if special and a < keep and data.draw(st.booleans()) else n for a, n in enumerate(wanted)]
    if data.draw(st.booleans()):
        told[data.draw(st.integers(keep, keep + 1))] = -1
    result = run("StaticReshape", x, shape=told, special_zero=special)
    same_bits(result, exact_tensor(x).reshape(wanted).numpy().astype(x.dtype))


@settings(max_examples=50)
@given(tensors(), st.data())
def test_static_transpose(drawn, data):
    shape, dtype, rng = drawn
    order = data.draw(st.permutations(range(len(shape))))
    told = [a - len(shape) if data.draw(st.booleans()) else a for a in order]
    x = normal(rng, shape, dtype)
    exact = exact_tensor(x).permute(*order).numpy().astype(x.dtype)
    same_bits(run("StaticTranspose", x, order=told), exact)


@settings(max_examples=30)
@given(tensors(), st.data())
def test_gen_index(drawn, data):
    shape, dtype, rng = drawn
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    result = run("GenIndex", normal(rng, shape, dtype), axis=axis)
    view = [-1 if a == axis % len(shape) else 1 for a in range(len(shape))]
    exact = torch.arange(shape[axis]).reshape(view).expand(shape)
    assert result.dtype == np.int32
    np.testing.assert_array_equal(result, exact)


@settings(max_examples=30)
@given(tensors())
def test_reorder(drawn):
    shape, dtype, rng = drawn
    x = normal(rng, shape, dtype)
    same_bits(run("Reorder", x.swapaxes(0, -1)), np.ascontiguousarray(x.swapaxes(0, -1)))


def test_reorder_into_another_layout():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    graph = og.Graph()
    output = og.LogicalTensor(1, "f32", x.shape, strides=[1, 8, 2])
    graph.add_op(og.Op(0, "Reorder", [og.LogicalTensor(0, "f32", x.shape)], [output]))
    graph.finalize()
    (result,) = graph.get_partitions(backend="numpy")[0].compile().execute(None, [x])
    assert [s // 4 for s in result.strides] == [1, 8, 2]
    same_bits(result, x)


TORCH_TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


@pytest.mark.parametrize("target", FLOATS)
@settings(max_examples=40)
@given(tensors())
def test_type_cast(target, drawn):
    """To the bit, beyond the range, to numbers below the normal ones, and with halves to even."""
    shape, dtype, rng = drawn
    exponents = rng.integers(-45, 45, shape) if dtype != "f16" else rng.integers(-20, 15, shape)
    x = np.ldexp(rng.standard_normal(shape), exponents).astype(DTYPES[dtype])
    if dtype == "f32" and target != "f32":  # a number halfway between two of the target
        bits = SIGNIFICANT_BITS.get(target, 24)
        if bits < 24:
            x.flat[0] = 1 + rng.integers(0, 2**6) * 2.0 ** (1 - bits) + 2.0**-bits
    result = run("TypeCast", x, output_type=target)
    exact = torch.tensor(x.astype(np.float64)).to(TORCH_TYPES[dtype]).to(TORCH_TYPES[target]).double()
    assert result.dtype == DTYPES[target]
    np.testing.assert_array_equal(result.astype(np.float64), exact)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_wildcard_passes_its_inputs_on(count):
    rng = np.random.default_rng(0)
    types = ["f32", "bf16", "f16", "f64", "f32"][:count]
    arrays = [normal(rng, (2, 3 + i), t) for i, t in enumerate(types)]
    graph = og.Graph()
    ins = [og.LogicalTensor(i, t, a.shape) for i, (t, a) in enumerate(zip(types, arrays, strict=True))]
    outs = [og.LogicalTensor(10 + i, t, a.shape) for i, (t, a) in enumerate(zip(types, arrays, strict=True))]
    graph.add_op(og.Op(0, "Wildcard", ins, outs))
    graph.finalize()
    results = graph.get_partitions(backend="numpy")[0].compile().execute(None, arrays)
    for result, array in zip(results, arrays, strict=True):
        same_bits(result, array)
        assert not np.shares_memory(result, array)


def test_wildcard_that_is_no_identity_is_refused():
    graph = og.Graph()
    tensors_ = [og.LogicalTensor(0, "f32", [2, 3]), og.LogicalTensor(1, "f32", [3, 2])]
    graph.add_op(og.Op(0, "Wildcard", tensors_[:1], tensors_[1:]))
    graph.finalize()
    compiled = graph.get_partitions(backend="numpy")[0].compile()
    with pytest.raises(og.UnsupportedError, match=r"Wildcard.*\[2, 3\] of float32 does not fit \[3, 2\]"):
        compiled.execute(None, [np.zeros((2, 3), np.float32)])


@pytest.mark.parametrize("dtype", FLOATS)
def test_end_only_marks_an_output(dtype):
    x = normal(np.random.default_rng(0), (2, 3), dtype)
    graph = og.Graph()
    y = graph.op("Square", graph.input("x", dtype, x.shape), name="y")
    assert graph.op("End", y) == ()
    result = graph.compile(backend="numpy")({"x": x})["y"]
    close(result, exact_tensor(x) ** 2, dtype, terms=1)
