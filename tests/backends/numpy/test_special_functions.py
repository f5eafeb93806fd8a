"""NumPy's inverse error function and derivatives of log gamma, in double precision, by other people's formulas."""

import numpy as np
import onednn_graph as og
import pytest


def made(kind, x, **attributes):
    graph = og.Graph()
    graph.output(graph.op(kind, graph.input("x", "f64", x.shape), **attributes), name="y")
    return graph.compile(backend="numpy")(x)["y"]


SMALL = np.concatenate(
    [np.linspace(-1, 1, 401), 1 - 10.0 ** -np.arange(1, 16), 10.0 ** -np.arange(1, 300, 9)]
)
PLACES = np.concatenate([np.linspace(-20.3, 30, 301), [1e-8, -1e-8, -1e-3, 1e6, 1e12]])


def test_the_inverse_of_the_error_function():
    torch = pytest.importorskip("torch")
    expected = torch.erfinv(torch.from_numpy(SMALL)).numpy()
    np.testing.assert_allclose(made("HostErfInv", SMALL), expected, rtol=2e-15)


def test_beyond_one_there_is_none():
    assert np.isnan(made("HostErfInv", np.array([1.5, -2.0, np.nan]))).all()


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_derivatives_of_the_logarithm_of_gamma(order):
    mpmath = pytest.importorskip("mpmath")
    expected = [float(mpmath.psi(order, mpmath.mpf(float(x)))) for x in PLACES]
    np.testing.assert_allclose(made("HostPolygamma", PLACES, order=order), expected, rtol=3e-12)


def test_the_logarithm_of_gamma():
    mpmath = pytest.importorskip("mpmath")
    expected = [float(mpmath.log(abs(mpmath.gamma(mpmath.mpf(float(x)))))) for x in PLACES]
    np.testing.assert_allclose(made("HostLogGamma", PLACES), expected, rtol=1e-13, atol=1e-14)


def test_poles():
    poles = np.array([0.0, -0.0, -3.0, np.inf])
    assert made("HostLogGamma", poles).tolist() == [np.inf] * 4
    digamma = made("HostPolygamma", poles)
    assert digamma[[0, 1, 3]].tolist() == [-np.inf, np.inf, np.inf]
    assert np.isnan(digamma[2])
    assert made("HostPolygamma", poles[:3], order=1).tolist() == [np.inf] * 3
    assert made("HostPolygamma", poles[:3], order=2).tolist() == [-np.inf] * 3


def test_an_order_below_0_is_refused():
    with pytest.raises(og.OneDNNGraphError, match="order"):
        made("HostPolygamma", np.ones(3), order=-1)
