"""Rows in groups by a matrix each: against a product for each row, and what is no division into groups."""

import numpy as np
import onednn_graph as og
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each


def graph_of(kind, *arrays):
    graph = og.Graph()
    names = {np.dtype(np.float32): "f32", np.dtype(np.int64): "s64"}
    inputs = [graph.input(f"x{n}", names[a.dtype], a.shape) for n, a in enumerate(arrays)]
    graph.output(graph.op(kind, *inputs, name="y"))
    return graph.compile()


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 2))
def test_each_row_meets_its_matrix(counts, more):
    ends, rng = np.cumsum(counts), np.random.default_rng(0)
    x = rng.integers(-4, 5, (int(ends[-1]) + more, 3)).astype(np.float32)
    w = rng.integers(-4, 5, (len(counts), 3, 2)).astype(np.float32)
    slope = rng.integers(-4, 5, (len(x), 2)).astype(np.float32)
    group = np.searchsorted(ends, np.arange(len(x)), side="right")
    whole = np.concatenate([w, np.zeros((1, 3, 2), np.float32)])  # rows behind the last group
    made = graph_of("HostGroupedMatMul", x, w, ends)(x, w, ends)["y"]
    np.testing.assert_array_equal(made, np.einsum("mk,mkn->mn", x, whole[group]))
    by_row = np.einsum("mk,mn->mkn", x, slope)
    sums = np.stack([by_row[group == number].sum(0) for number in range(len(counts))])
    np.testing.assert_array_equal(
        graph_of("HostGroupedMatMulWeights", x, slope, ends)(x, slope, ends)["y"], sums
    )


@each("ends", [[2, 1, 5], [1, 2, 6], [-1, 2, 5]])
def test_ends_that_divide_nothing(ends):
    x, w, places = np.ones((5, 3), np.float32), np.ones((3, 3, 2), np.float32), np.array(ends)
    model = graph_of("HostGroupedMatMul", x, w, places)
    with pytest.raises(og.ArgumentError, match="'ends' must not fall and lie between 0 and 5"):
        model(x, w, places)
