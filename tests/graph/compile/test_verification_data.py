"""The data that verification makes up fits what its numbers stand for."""

from __future__ import annotations

import numpy as np
import onednn_graph as og
import pytest
from onednn_graph.ops.registry import REGISTRY

INDEXED = [schema.kind for schema in (*REGISTRY, *REGISTRY.host) if any(port.index for port in schema.inputs)]


def test_every_port_of_indices_says_what_it_counts():
    named = {
        schema.kind
        for schema in (*REGISTRY, *REGISTRY.host)
        if any(port.name == "indices" for port in schema.inputs)
    }
    assert named == set(INDEXED)


def call(graph, kind, indices):
    """An op on a table of two rows."""
    table = graph.input("table", "f32", [2, 8])
    attributes = {"axis": 0} if "ND" not in kind else {}
    if kind.endswith("Backward"):
        wide = {
            "HostGatherBackward": [4, 8, 8],
            "HostGatherElementsBackward": [4, 8],
            "HostGatherNDBackward": [4],
        }
        gradient = graph.input("gradient", "f32", wide[kind])
        return graph.op(kind, gradient, indices, src_shape=[2, 8], **attributes)
    if kind == "HostScatterElements":
        return graph.op(
            kind, graph.input("four", "f32", [4, 8]), indices, graph.input("u", "f32", [4, 8]), axis=0
        )
    if kind == "HostScatterND":
        return graph.op(kind, table, indices, graph.input("u", "f32", [4]))
    return graph.op(kind, table, indices, **attributes)


@pytest.mark.parametrize("kind", INDEXED)
@pytest.mark.parametrize("cast", [False, True])
@pytest.mark.parametrize("backend", ["numpy", None])
def test_tables_of_two_rows_are_verified(kind, cast, backend):
    graph = og.Graph()
    shape = [4, 2] if "ND" in kind else [4, 8]
    indices = graph.input("indices", "s32" if cast else "s64", shape)
    if cast:
        indices = graph.op("HostCast", indices, output_type="s64")
    made = call(graph, kind, indices)
    graph.output(graph.op("ReLU", made), name="y")
    model = graph.compile(verify=True, backend=backend)
    assert all(one.verified for one in model.explain().values())


def test_data_that_numpy_refuses_is_a_reason_to_take_numpy():
    graph = og.Graph()
    indices = graph.op("HostAdd", graph.input("indices", "s64", [4]), graph.constant(np.int64([9] * 4)))
    rows = graph.op("HostGather", graph.input("table", "f32", [2, 8]), indices, axis=0)
    graph.output(graph.op("MatMul", rows, graph.input("w", "f32", [8, 8])), name="y")
    model = graph.compile(verify=True)
    given = {"indices": np.int64([-9, -8, -9, -8]), "table": np.eye(2, 8, dtype=np.float32)}
    y = model(given | {"w": np.eye(8, dtype=np.float32)})["y"]
    np.testing.assert_array_equal(y, np.eye(2, 8)[[0, 1, 0, 1]])
