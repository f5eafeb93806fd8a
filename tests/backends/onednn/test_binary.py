"""Arithmetic on two operands of which one or both are broadcast: right, and the library's where it can do it."""

import numpy as np
import onednn_graph as og
import pytest

pytestmark = pytest.mark.usefixtures("onednn")


def checked(kind, *shapes):
    """The kernels that did it."""
    graph = og.Graph()
    graph.op(kind, *(graph.input(f"x{number}", "f32", shape) for number, shape in enumerate(shapes)))
    rng = np.random.default_rng(0)
    arrays = {t.name: rng.integers(1, 9, t.dims).astype(np.float32) for t in graph.inputs}
    model = graph.compile()
    (got,), (expected,) = (each(arrays).values() for each in (model, graph.compile(backend="numpy")))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    return [name for told in model.explain().values() for name in told.implementations]


@pytest.mark.parametrize("kind", ["Add", "Subtract", "Multiply", "Maximum", "Minimum", "SquaredDifference"])
@pytest.mark.parametrize("shapes", [((8, 1, 16), (8, 4, 16)), ((8, 4, 16), (1, 4, 16))], ids=str)
def test_one_operand_that_is_broadcast_is_left_to_the_library(kind, shapes):
    assert any("jit" in name for name in checked(kind, *shapes))


@pytest.mark.parametrize("kind", ["Add", "Subtract", "Multiply", "Divide", "SquaredDifference"])
def test_both_operands_are_broadcast(kind):
    checked(kind, (8, 1, 16), (1, 4, 16))


@pytest.mark.parametrize(("shape", "data_format"), [((1, 8, 64, 64), "NCX"), ((4, 6, 6, 8), "NXC")])
def test_the_gradient_of_a_bias_is_left_to_the_library(shape, data_format):
    graph = og.Graph()
    graph.op("BiasAddBackward", graph.input("x", "f32", shape), data_format=data_format)
    model = graph.compile()
    assert {told.backend for told in model.explain().values()} == {"onednn"}
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    (got,) = model(x).values()
    np.testing.assert_array_equal(got, x.sum((0, 2, 3) if data_format == "NCX" else (0, 1, 2)))
