"""sync_batch_norm: running statistics of torch are those of the data of all ranks."""

import numpy as np
import onednn_graph as og
import pytest
from lone import Lone
from onednn_graph.graph.training.batch_norm import synchronise_batch_norm


class Twins(Lone):
    """One of two ranks that have the same data."""

    size = 2

    def total(self, values, out):
        np.multiply(values, 2, out=out)


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_the_running_variance_is_corrected_by_the_count_of_all(precision):
    torch = pytest.importorskip("torch", reason="this test needs torch; install the extra 'test-oracles'")
    module = torch.nn.BatchNorm2d(2, momentum=0.25)
    x = torch.tensor([[[[1.0], [4]], [[2], [2]]], [[[7], [0]], [[-2], [6]]]])  # 4 numbers a channel
    graph = og.from_torch(module, (x,), training=True).with_shapes({})
    if precision == "bf16":
        graph = graph.to("bf16")
    synchronise_batch_norm(graph, Twins())
    graph.compile()(x)
    module(torch.cat([x, x]))
    for name, want in module.state_dict().items():
        if name.startswith("running"):
            np.testing.assert_allclose(graph.parameters[name], want.numpy(), rtol=1e-6)
