"""Second derivatives: of every rule against central differences of the first ones, both in f64 on NumPy."""

import numpy as np
import pytest
from gradient_calls import GRADIENT_CALLS
from rows import each
from test_every_rule import built

STEP, TOLERANCE = 1e-5, 5e-8
CASES = [
    pytest.param(k, c, id=f"{k} {n}") for k, calls in GRADIENT_CALLS.items() for n, c in enumerate(calls)
]
THIRD = {"HostCTCBackward": {"x1"}}
"""Kind → inputs by which the second derivative would need a third one that is refused."""


def twice(kind, call):
    """A graph of an op with its gradients; all inputs by name, and those gradients that there are."""
    graph, inputs, dst = built(kind, call)
    seed = graph.input("seed", "f64", dst.dims)
    sources = [inputs[n] for n in call.places]
    firsts = [t for t in graph.gradients(dst, sources, seed=seed) if t is not None]
    allowed = [t for t in sources if t.name not in THIRD.get(kind, ())]
    return graph, [*allowed, seed], firsts


@pytest.mark.no_cover
@each(("kind", "call"), CASES)
def test_the_second_derivative_is_that_of_central_differences(kind, call):
    """Of ⟨gradients, others⟩ by all inputs and by the seed."""
    graph, sources, firsts = twice(kind, call)
    if not firsts:
        return
    rng = np.random.default_rng(11)
    arrays = {f"x{n}": np.array(a) for n, a in enumerate(call.inputs)}
    arrays["seed"] = rng.standard_normal(sources[-1].dims)
    others = [rng.standard_normal(t.dims) for t in firsts]
    first = graph.compile(backend="numpy")

    def loss():
        made = first(arrays)
        return sum(np.sum(made[t] * other) for t, other in zip(firsts, others, strict=True))

    again, sources, firsts = twice(kind, call)
    seconds = again.gradients(firsts, sources, seed=list(others))
    results = again.compile(backend="numpy")(arrays)
    for source, second in zip(sources, seconds, strict=True):
        flat = arrays[source.name].reshape(-1)
        found = np.zeros_like(flat)
        for n in range(flat.size):
            before = flat[n]
            flat[n] = before + STEP
            above = loss()
            flat[n] = before - STEP
            found[n] = (above - loss()) / (2 * STEP)
            flat[n] = before
        expected = found.reshape(source.dims)
        got = np.zeros_like(expected) if second is None else results[second]
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE * scale, err_msg=source.name)
