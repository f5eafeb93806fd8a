"""What the backends are asked for, without partitions."""

from __future__ import annotations

import onednn_graph as og
from onednn_graph.graph.compile.backend import CompileRequest
from onednn_graph.graph.compile.options import CompileOptions


def request_of(graph, *, forced=False):
    """A request for all ops of a graph at once, which is finalized by it."""
    graph.finalize()
    tensors = {t.id: t for op in graph.ops for t in (*op.inputs, *op.outputs)}
    inputs, outputs = (tuple(tensors[t.id] for t in ts) for ts in (graph.inputs, graph.outputs))
    return CompileRequest(
        ops=tuple(graph.ops),
        inputs=inputs,
        outputs=outputs,
        engine=og.Engine(),
        fpmath_mode="strict",
        values={},
        forced=forced,
        options=CompileOptions(),
        described=inputs,
    )
