"""⟨forward(x, w), dy⟩ = ⟨w, dW⟩, exactly, for every layout and group case: an oracle without a gradient in it."""

import numpy as np
import pytest
from oracle import Problem, convolution, transposed
from rows import each
from strategies import BACKENDS, eagerly

GROUPS = {"dense": (1, 3, 2), "groups": (2, 4, 6), "depthwise": (3, 3, 3), "multiplier": (2, 2, 4)}
GEOMETRIES = {
    "plain": {},
    "strided": {"strides": (2, 1), "size": (7, 4)},
    "dilated": {"dilations": (2, 1), "begin": (1, 1), "end": (0, 1)},
    "same": {"auto_pad": "SAME_LOWER", "strides": (2, 3), "size": (5, 7)},
}


def canonical(weights, problem):
    """Weights in the op's format as (O, I/g, K…), or (I, O/g, K…) for a transposed op."""
    if problem.formats[1] in ("XIO", "XOI"):
        weights = np.moveaxis(weights, (-1, -2), (0, 1))
    if problem.transposed and problem.documented:
        weights = np.concatenate(np.split(weights, problem.groups, axis=1))
    return weights


@pytest.mark.no_cover
@pytest.mark.parametrize("backend", BACKENDS)
@each("geometry", GEOMETRIES)
@each("groups", GROUPS)
@each("weights_format", ["XIO", "OIX", "XOI", "IOX", "XOI library", "IOX library"])
@each("data_format", ["NXC", "NCX"])
def test_identity(data_format, weights_format, groups, geometry, backend):
    fmt, _, layout = weights_format.partition(" ")
    count, *channels = GROUPS[groups]
    problem = Problem(
        transposed=fmt in ("XOI", "IOX"),
        batch=1,
        groups=count,
        channels=tuple(channels),
        data_format=data_format,
        weights_format=fmt,
        documented=layout != "library",
        **GEOMETRIES[geometry],
    )
    dw = eagerly(problem, backend).astype(np.float64)
    w = np.random.default_rng(5).integers(-3, 4, problem.weights_shape).astype(np.float64)
    src, dy = problem.canonical_arrays()
    if problem.transposed:
        y = transposed(src, canonical(w, problem), out=problem.out, **problem.geometry)
    else:
        y = convolution(src, canonical(w, problem), **problem.geometry)
    assert np.vdot(y, dy) == np.vdot(w, dw)
    assert np.vdot(w, dw) != 0
