"""Gradients at the bounds of a clamp, which torch 2.14 has changed."""

import numpy as np
import onednn_graph as og
import pytest

torch = pytest.importorskip("torch", reason="these tests need torch; install the extra 'test-oracles'")

BEFORE, SINCE = "2.13.0", "2.14.1"
CLAMPS = {
    "by numbers": (lambda p: p.clamp(-1, 1), [0, 1, 1, 1, 0], [0, 0, 1, 0, 0]),
    "from below": (lambda p: p.clamp(min=-1), [0, 1, 1, 1, 1], [0, 0, 1, 1, 1]),
    "from above": (lambda p: torch.clamp_max(p, 1), [1, 1, 1, 1, 0], [1, 1, 1, 0, 0]),
    "the wrong way round": (lambda p: p.clamp(1, -1), [0] * 5, [0] * 5),
    "by tensors": (
        lambda p: p.clamp(torch.full((5,), -1.0), torch.ones(5)),
        [0, 1, 1, 1, 0],
        [0, 0.5, 1, 0.5, 0],
    ),
    "by equal tensors": (lambda p: p.clamp(torch.ones(5), torch.ones(5)), [0, 0, 0, 1, 0], [0, 0, 0, 1, 0]),
    "by a tensor": (lambda p: p.clamp(min=torch.full((5,), -1.0)), [0, 1, 1, 1, 1], [0, 0.5, 1, 1, 1]),
}


@pytest.mark.parametrize("version", [BEFORE, SINCE])
@pytest.mark.parametrize("name", CLAMPS)
def test_gradients_are_those_of_the_version_of_torch(name, version, monkeypatch):
    clamp, before, since = CLAMPS[name]

    class Edge(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]))

        def forward(self, x):
            return clamp(self.p).sum() * x.sum()

    monkeypatch.setattr(torch, "__version__", torch.torch_version.TorchVersion(version))
    graph = og.from_torch(Edge(), (torch.ones(1),), training=True)
    (found,) = graph.gradients(graph.outputs[0], graph.parameter_tensors)
    for backend in ("numpy", None):
        made = 0 if found is None else graph.compile(backend=backend)(torch.ones(1))[found]
        np.testing.assert_array_equal(np.broadcast_to(made, 5), {BEFORE: before, SINCE: since}[version])
