"""Products of matrices."""

from __future__ import annotations

from ...ops.data_types import DataType
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from .entries import Writers
from .writing import Writing

WRITERS = Writers()


@WRITERS.of("MatMul", "HostMatMul")
def _matmul(out: Writing, op: Op) -> str:
    src, weights, *bias = op.inputs
    kind = op.outputs[0].data_type
    # Results that are wider than the factors are made of wider factors; narrower ones are rounded once.
    wide = kind if kind in (DataType.f32, DataType.f64) else src.data_type
    if kind in (DataType.s8, DataType.u8):  # which ONNX has no products of; their last bits are the same
        wide = DataType.s32

    def factor(tensor: LogicalTensor, flag: str) -> str:
        rank = len(out.shape(tensor, op))
        if not op.attributes.flag(flag) or rank < 2:
            return out.cast(out.name(tensor), tensor.data_type, wide)
        return out.cast(out.ordered(tensor, (*range(rank - 2), rank - 1, rank - 2)), tensor.data_type, wide)

    made = out.node("MatMul", factor(src, "transpose_a"), factor(weights, "transpose_b"))
    for one in bias:
        made = out.node("Add", made, out.cast(out.name(one), one.data_type, wide))
    return out.cast(made, wide, kind)
