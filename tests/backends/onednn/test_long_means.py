"""Means over whole large images: poolings of one axis after the other, for a single f32 would lose digits."""

import ml_dtypes
import numpy as np
import onednn_graph as og
import pytest
from rows import each

pytestmark = pytest.mark.usefixtures("onednn")

# shape, axes, how many poolings
CASES = {
    "channels last": ((2, 128, 64, 5), [1, 2], 2),
    "volumes": ((1, 32, 16, 32, 3), [1, 2, 3], 3),
    "one long axis": ((1, 4096, 2, 3), [1, 2], 2),
}


def mean(shape, axes, keep=True, data_type="f32"):
    graph = og.Graph()
    x = graph.input("x", data_type, shape)
    graph.output(graph.op("ReduceMean", graph.op("Abs", x), axes=axes, keep_dims=keep, name="y"))
    return graph.compile()


def steps(model):
    return [step for made in model.explain().values() for step in made.steps]


@each("keep", [False, True])
@each("name", CASES)
def test_exact(name, keep):
    """Numbers whose means, and the means of them, are exact."""
    shape, axes, count = CASES[name]
    model = mean(shape, axes, keep)
    x = np.random.default_rng(0).integers(0, 9, shape).astype(np.float32)
    np.testing.assert_array_equal(model(x)["y"], x.astype(np.float64).mean(tuple(axes), keepdims=keep))
    assert sum(step.name.startswith("pooling") for step in steps(model)) == count
    assert not any(step.host for step in steps(model))


def test_all_digits_are_kept():
    shape = (1, 300, 500, 4)
    x = np.random.default_rng(1).random(shape, np.float32) + 1000
    exact = x.astype(np.float64).mean((1, 2), keepdims=True)
    np.testing.assert_allclose(mean(shape, [1, 2])(x)["y"], exact, rtol=5e-7)


@each(
    ("shape", "data_type", "dtype"),
    [((1, 5000, 2, 3), "f32", np.float32), ((2, 128, 64, 4), "bf16", ml_dtypes.bfloat16)],
)
def test_no_digits_are_lost(shape, data_type, dtype):
    """Of an axis that is too long, and of means in bf16, which would be rounded between poolings in it."""
    model = mean(shape, [1, 2], data_type=data_type)
    x = (np.random.default_rng(2).integers(0, 3, shape) + 100).astype(dtype)
    exact = x.astype(np.float64).mean((1, 2), keepdims=True)
    np.testing.assert_allclose(
        model(x)["y"].astype(np.float64), exact, rtol=2**-8 if data_type == "bf16" else 1e-7
    )
    assert any(step.host for step in steps(model)) or data_type == "bf16"
