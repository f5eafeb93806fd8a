"""RMS normalisation by primitives: exact where that can be, near double precision, not finite where NumPy's is."""

import numpy as np
import onednn_graph as og
import pytest
from rows import each
from strategies import has_isa
from support.op_calls import TYPES

pytestmark = pytest.mark.usefixtures("onednn")

ULP = {"f32": 2.0**-23, "bf16": 2.0**-8, "f16": 2.0**-11}


def graph_of(shape, first, data_type, gamma=None, epsilon=1e-5):
    graph = og.Graph()
    inputs = [graph.input("x", data_type, shape)]
    if gamma is not None:
        inputs.append(graph.input("gamma", gamma, shape[first:]))
    graph.output(graph.op("RMSNorm", *inputs, begin_norm_axis=first, epsilon=epsilon), name="y")
    return graph


def formula(x, first, gamma, epsilon):
    x = x.astype(np.float64)
    axes = tuple(range(first % x.ndim, x.ndim))
    y = x / np.sqrt(np.square(x).mean(axes, keepdims=True) + epsilon)
    return y if gamma is None else y * gamma.astype(np.float64)


CASES = {
    "a row": ((1, 2048), -1),
    "rows of odd length": ((5, 37), -1),
    "short rows": ((9, 3), 1),
    "two axes": ((2, 3, 5, 16), 2),
    "all axes": ((4, 6), 0),
    "one axis": ((100,), 0),
    "long rows": ((2, 3 * 2**15), -1),
    "many rows": ((300, 64), -1),
}


@each("size", [3, 1e-3])
@each("gamma", [False, True])
@each("case", CASES)
@each("data_type", ULP)
def test_it_is_what_double_precision_gives(data_type, case, gamma, size):
    (shape, first), dtype = CASES[case], TYPES[og.DataType(data_type)]
    data = np.random.default_rng(0)
    x = (data.standard_normal(shape) * size).astype(np.float32).astype(dtype)
    scale = data.standard_normal(shape[first:]).astype(np.float32).astype(dtype) if gamma else None
    model = graph_of(shape, first, data_type, data_type if gamma else None).compile()
    (told,) = model.explain().values()
    # Halves are converted to f32 where the CPU has none.
    kernels = [step for step in told.steps if not step.name.startswith("convert")]
    assert all("numpy" not in step.implementation for step in kernels), told
    got = model(*([x] if scale is None else [x, scale]))["y"].astype(np.float64)
    want = formula(x, first, scale, 1e-5)
    assert np.abs(got - want).max() <= (ULP[data_type] + 4 * ULP["f32"]) * np.abs(want).max()


def test_a_gamma_may_have_more_digits_than_the_data():
    x = np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32).astype(TYPES["bf16"])
    gamma = np.linspace(0.9, 1.1, 32, dtype=np.float32)
    got = graph_of((6, 32), -1, "bf16", "f32").compile()(x, gamma)["y"].astype(np.float64)
    want = formula(x, -1, gamma, 1e-5)
    assert np.abs(got - want).max() <= 1.01 * ULP["bf16"] * np.abs(want).max()


@pytest.mark.parametrize("rows", [1, 7])
def test_powers_of_two_are_exact(rows):
    """The mean square of ±2ᵏ is 4ᵏ, and so the result ±γ, whatever is added in which order."""
    data = np.random.default_rng(0)
    x = data.choice([-1.0, 1.0], (rows, 512)) * 2.0 ** data.integers(-8, 9, (rows, 1))
    gamma = data.integers(-5, 6, 512).astype(np.float32)
    got = graph_of((rows, 512), -1, "f32", "f32", epsilon=0.0).compile()(x.astype(np.float32), gamma)["y"]
    np.testing.assert_array_equal(got, np.sign(x) * gamma)


def test_a_row_that_is_not_finite_is_as_in_numpy_and_spoils_no_other():
    x = np.random.default_rng(0).standard_normal((6, 32)).astype(np.float32)
    x[1, 3], x[2, 4], x[3, 5], x[4, 6] = np.inf, -np.inf, np.nan, 1e30
    graph = graph_of((6, 32), -1, "f32")
    got, want = graph.compile()(x)["y"], graph.compile(backend="numpy")(x)["y"]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("shape", [(4, 1), (0, 8), (4, 0)])
def test_rows_of_one_element_or_none_are_right_too(shape):
    graph = graph_of(shape, -1, "f32")
    x = np.full(shape, 3, np.float32)
    np.testing.assert_allclose(
        graph.compile()(x)["y"], formula(x, -1, None, 1e-5) if x.size else x, rtol=1e-6
    )


@pytest.mark.library("3.13")
@pytest.mark.parametrize("gamma", [None, "f32"], ids=["alone", "with a scale"])
def test_a_newer_library_does_it_by_one_primitive(gamma):
    if not has_isa("avx2"):
        pytest.skip("the kernel for rows is of AVX2 on")
    model = graph_of((5, 640), -1, "f32", gamma).compile()
    (name,) = model.explain()[0].implementations
    assert name.startswith("root mean square normalization (jit")
