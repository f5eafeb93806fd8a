"""Each op's NumPy kernel against torch on the CPU, which computes in float64 from the very values that the kernel gets.

A result may be off by half a unit of its type, for the one rounding at the end, and by what the arithmetic before it
costs: kernels compute in f32, in f64 for f64, so that is a number of roundings, mostly the number of summands, times
2⁻²⁴ or 2⁻⁵³ times the size of what is summed. Sums of small integers have no error before the rounding, so those must
be equal to the last bit.
"""

from dataclasses import dataclass

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import strategies as st
from onednn_graph.graph.model.builder import snake_case
from oracle import (
    DTYPES,
    SIGNIFICANT_BITS,
    from_ncx,
    rounded,
    to_ncx,
)

torch = pytest.importorskip(
    "torch", reason="torch is the oracle of these tests; install the extra 'test-oracles'"
)
functional = torch.nn.functional


FLOATS = ("f32", "f64", "bf16", "f16")

SMALLEST_EXPONENT = {"f32": -126, "bf16": -126, "f16": -14, "f64": -1022}

SEEDS = st.integers(0, 2**32 - 1)

DATA_FORMATS = ("NXC", "NCX")


def roundoff(*dtypes):
    """The relative error of one operation in the type that kernels compute in."""
    return 2.0 ** -(53 if "f64" in dtypes else 24)


def half_unit(values, dtype):
    """Half the distance of neighbouring numbers of `dtype` around each value."""
    exponent = np.frexp(np.abs(values))[1] - 1
    exponent = np.maximum(np.where(values == 0, -10_000, exponent), SMALLEST_EXPONENT[dtype])
    return np.ldexp(0.5, exponent - SIGNIFICANT_BITS[dtype] + 1)


def close(result, exact, dtype, *, terms=0, scale=None, slack=0, compute=None):
    """Asserts that `result` is `exact` up to one rounding to `dtype` and `terms` roundings of numbers like `scale`.

    Args:
        exact: a float64 tensor or array.
        scale: of each element; |exact| if None.
        slack: more error that each element may have.
        compute: data types that the kernel saw, where `dtype` does not tell what it computes in.
    """
    exact = np.asarray(exact, np.float64)
    assert result.dtype == DTYPES[dtype]
    assert result.shape == exact.shape
    values = result.astype(np.float64)
    finite = np.isfinite(exact)
    np.testing.assert_array_equal(values[~finite], exact[~finite])
    assert np.isfinite(values[finite]).all()
    scale = np.abs(exact) if scale is None else np.asarray(scale)
    u = roundoff(*(compute or (dtype,)))
    # torch's own float64 roundings are as many again, which only f64 can see.
    error = terms * u * (2 if u < 1e-10 else 1) * scale + np.asarray(slack) + 2.0**-148
    allowed = half_unit(np.maximum(np.abs(values), np.abs(exact)), dtype) + error
    off = np.abs(values - np.where(finite, exact, 0)) > allowed
    off &= finite
    if off.any():
        at = tuple(np.argwhere(off)[0])
        allowed = np.broadcast_to(allowed, exact.shape)
        raise AssertionError(
            f"{int(off.sum())} of {off.size} elements are off, first at {[int(i) for i in at]}: {values[at]!r} "
            f"instead of {exact[at]!r}, which may differ by {allowed[at]:.3g}"
        )


def equal(result, exact, dtype):
    """Asserts that `result` is `exact` rounded once."""
    expected = rounded(np.asarray(exact, np.float64), dtype)
    assert result.dtype == expected.dtype
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result.astype(np.float64), expected.astype(np.float64))


def normal(rng, shape, dtype, spread=1.0):
    """Random numbers, rounded to `dtype`."""
    return (spread * rng.standard_normal(shape)).astype(DTYPES[dtype])


def integers(rng, shape, dtype):
    """Small integers, whose products and sums are exact in f32."""
    return rng.integers(-3, 4, shape).astype(DTYPES[dtype])


def exact_tensor(array):
    """The array's values in float64, as a tensor of its own."""
    return torch.tensor(np.asarray(array).astype(np.float64))


def run(kind, *arrays, **attributes):
    """One op eagerly, by its own function, on the NumPy backend."""
    return getattr(og, snake_case(kind))(*arrays, backend="numpy", **attributes)


def run_with_operand(kind, arrays, operand, **attributes):
    """One op with the shape operand as an input whose value is known at execution only."""
    value = np.asarray(operand, np.int32)
    names = {numpy_type: name for name, numpy_type in DTYPES.items()}
    tensors = [og.LogicalTensor(i, names[a.dtype], a.shape) for i, a in enumerate(arrays)]
    operand_tensor = og.LogicalTensor(len(arrays), "s32", value.shape)
    output = og.LogicalTensor(99, tensors[0].data_type)
    graph = og.Graph()
    graph.add_op(og.Op(0, kind, [*tensors, operand_tensor], [output], **attributes))
    graph.finalize()
    (partition,) = graph.get_partitions(backend="numpy")
    (result,) = partition.compile().execute(None, [*arrays, value])
    return result


def gradients(function, inputs, upstream):
    """Gradients of ⟨function(*inputs), upstream⟩ by each input."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    return torch.autograd.grad(function(*inputs), inputs, upstream)


def tuples(rank, low, high):
    return st.tuples(*[st.integers(low, high)] * rank)


def statistics_type(draw, dtype):
    """A type that means, variances and affine parameters may have beside `dtype`."""
    return draw(st.sampled_from({"f64": ["f64"], "bf16": ["f32", "bf16"]}.get(dtype, ["f32"])))


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """Data, with parameters that are far from 0 and 1; f64 data are off centre too."""

    shape: tuple[int, ...]
    data_format: str
    dtype: str
    second: str
    affine: bool
    epsilon: float
    seed: int

    @property
    def rng(self):
        return np.random.default_rng(self.seed)

    def src(self, rng):
        return (1.5 + 2 * rng.standard_normal(self.shape)).astype(DTYPES[self.dtype])

    def vector(self, rng, size, *, positive=False):
        values = rng.standard_normal(size) + 0.5
        return (np.abs(values) + 0.3 if positive else values).astype(DTYPES[self.second])

    @property
    def compute(self):
        return (self.dtype, self.second)

    def data(self, array):
        return from_ncx(array, self.data_format)

    def undo(self, array):
        return to_ncx(array, self.data_format)


@st.composite
def normalisations(draw, axes=(2, 5)):
    dtype = draw(st.sampled_from(FLOATS))
    rank = draw(st.integers(*axes))
    return Normalisation(
        shape=(draw(st.integers(2, 3)), draw(st.sampled_from([1, 2, 4, 6])), *draw(tuples(rank - 2, 2, 4))),
        data_format=draw(st.sampled_from(DATA_FORMATS)),
        dtype=dtype,
        second=statistics_type(draw, dtype),
        affine=draw(st.booleans()),
        epsilon=draw(st.sampled_from([1e-5, 0.25])),
        seed=draw(SEEDS),
    )


def along_channels(vector, rank):
    return vector.reshape(1, -1, *[1] * (rank - 2))


@st.composite
def tensors(draw, ranks=(1, 4), largest=6, dtypes=FLOATS):
    """(shape, dtype, rng)"""
    shape = draw(st.lists(st.integers(1, largest), min_size=ranks[0], max_size=ranks[1]))
    return tuple(shape), draw(st.sampled_from(dtypes)), np.random.default_rng(draw(SEEDS))


def same_bits(result, exact):
    """Equal in shape, type and value."""
    assert result.dtype == exact.dtype
    assert result.shape == exact.shape
    np.testing.assert_array_equal(result.astype(np.float64), exact.astype(np.float64))
