"""Logarithms near 1, whose own size is that of rounding, and of subnormal numbers."""

import numpy as np
import onednn_graph as og
import pytest

PLACES = {
    "subnormal": np.float32(2.0) ** -np.arange(127, 150, dtype=np.float32),
    "near-one": (1 + np.arange(-500, 501) * 2.0**-23).astype(np.float32),
    "all": np.exp(np.linspace(-80, 80, 200_001)).astype(np.float32),
    "long": np.exp(np.linspace(-1, 1, 1_000_003)).astype(np.float32),
}


@pytest.mark.parametrize("backend", [None, "numpy"])
@pytest.mark.parametrize("place", PLACES)
def test_logarithms_are_right_by_their_own_size(place, backend):
    x = PLACES[place]
    graph = og.Graph()
    graph.output(graph.op("Log", graph.input("x", "f32", x.shape)), name="y")
    np.testing.assert_allclose(
        graph.compile(backend=backend)({"x": x})["y"], np.log(x.astype(np.float64)), 5e-7
    )
