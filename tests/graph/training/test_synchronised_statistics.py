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


def test_a_product_of_the_variance_that_the_running_one_does_not_get_is_left_alone():
    """The factor is known by where it stands: the same number elsewhere stays."""
    graph = og.Graph()
    x = graph.input("x", "f32", [2, 2, 2, 1])
    mean, variance = (graph.input(name, "f32", [2]) for name in ("mean", "variance"))
    _, _, running, _, batch = graph.op(
        "BatchNormForwardTraining",
        x,
        mean,
        variance,
        epsilon=0.25,
        momentum=0.75,
        data_format="NCX",
        outputs=5,
    )
    share = graph.constant(np.float32(0.25 / 3))
    graph.output(graph.op("Add", running, graph.op("Multiply", batch, share)), name="corrected")
    graph.output(graph.op("Multiply", batch, share), name="apart")
    synchronise_batch_norm(graph, Twins())
    data = np.array([[[[1.0], [4]], [[2], [2]]], [[[7], [0]], [[-2], [6]]]], np.float32)
    feeds = {"x": data, "mean": np.zeros(2, np.float32), "variance": np.ones(2, np.float32)}
    found = graph.compile(backend="numpy")(feeds)
    of_batch = data.var(axis=(0, 2, 3), dtype=np.float64)
    np.testing.assert_allclose(found["apart"], of_batch * 0.25 / 3, rtol=1e-6)
    corrected = 0.75 + 0.25 * of_batch * 8 / 7
    np.testing.assert_allclose(found["corrected"], corrected, rtol=1e-6)
