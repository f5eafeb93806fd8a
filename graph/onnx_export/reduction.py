"""Reductions, sums up to each element, and places of extremes."""

from __future__ import annotations

import numpy as np

from ...ops.data_types import DataType
from ..model.op import Op
from .entries import Writers
from .writing import Writing

WRITERS = Writers()
REDUCTIONS = {
    f"{host}Reduce{kind}": f"Reduce{kind}"
    for host in ("", "Host")
    for kind in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")
    if not host or kind in ("Max", "Min", "Prod", "Sum")
}


@WRITERS.of(*REDUCTIONS)
def _reduce(out: Writing, op: Op) -> str:
    src, *given = op.inputs
    if given:
        axes = out.cast(out.name(given[0]), given[0].data_type, DataType.s64)
    else:
        axes = out.integers(op.attributes.integers("axes"))
        if not op.attributes.integers("axes") and op.kind in ("ReduceL1", "ReduceL2"):
            return out.node("Abs", out.name(src))
    keep = int(op.attributes.flag("keep_dims"))
    # Without axes ONNX would reduce all of them, were it not told.
    return out.node(REDUCTIONS[op.kind], out.name(src), axes, keepdims=keep, noop_with_empty_axes=1)


@WRITERS.of("HostCumSum")
def _cumulative_sum(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    axis = out.constant(np.asarray(op.attributes.integer("axis"), np.int64))
    exclusive, reverse = (int(op.attributes.flag(name)) for name in ("exclusive", "reverse"))
    narrow = src.data_type in (DataType.s8, DataType.u8)
    wide = DataType.s32 if narrow else src.data_type
    name = out.cast(out.name(src), src.data_type, wide)
    made = out.node("CumSum", name, axis, exclusive=exclusive, reverse=reverse)
    return out.cast(made, wide, src.data_type)


@WRITERS.of("HostArgMax", "HostArgMin")
def _extreme(out: Writing, op: Op) -> str:
    made = out.node(
        op.kind.removeprefix("Host"),
        out.name(op.inputs[0]),
        axis=op.attributes.integer("axis"),
        keepdims=int(op.attributes.flag("keep_dims")),
        select_last_index=int(op.attributes.flag("last")),
    )
    return out.cast(made, DataType.s64, op.outputs[0].data_type)
