"""Weighted means over ranks: what a rank divides by."""

import numpy as np
import onednn_graph as og
import pytest
from lone import Lone
from onednn_graph.graph.training.weighted_means import weigh_over_ranks


class Part(Lone):
    """One of two ranks, with a quarter of the examples; the other one has weights of 10."""

    size, share = 2, 0.5

    def total(self, values, out):
        np.copyto(out, values + 10)


@pytest.mark.parametrize("data_type", ["f32", "f64"])
def test_a_rank_divides_by_its_share_of_all_weights(data_type):
    graph = og.Graph()
    x, y = graph.input("x", data_type, [3, 2]), graph.input("y", "s64", [3])
    loss = og.training.negative_log_likelihood(graph, x, y, class_weights=[1, 5])
    (slope,) = graph.gradients(loss, [x])
    graph.output(loss, name="loss")
    logs, labels = (
        np.array([[1, 2], [3, 4], [5, 6]], np.dtype(data_type.replace("f", "float"))),
        np.array([0, 1, 1]),
    )
    alone = graph.compile()(x=logs, y=labels)
    np.testing.assert_allclose(alone["loss"], -(1 + 5 * 4 + 5 * 6) / 11)
    weigh_over_ranks(graph, Part())
    found = graph.compile()(x=logs, y=labels)
    np.testing.assert_allclose(found["loss"], -(1 + 5 * 4 + 5 * 6) / ((11 + 10) / 4))
    np.testing.assert_allclose(found[slope], alone[slope] * 11 / ((11 + 10) / 4))
