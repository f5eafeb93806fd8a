"""Lowering of the quantisation family: copies with scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....graph.model.op import Op
from ....ops.data_types import DataType
from ..library.enumerators import Arg
from ..library.loading import loaded_library
from ..library.memory import packed
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .decompression import may_decompress
from .dequantized_groups import dequantized, has_groups
from .integers import quantized_by_binary, rescaled
from .links import Link, has_subnormal_scale, one_scale, zero_point_of
from .lowering import Lowered, Lowering
from .tensors import PRIMITIVE_TYPES


def _scale(op: Op, values: Sequence[float], rank: int, channels: int) -> tuple[int, Sequence[float]]:
    """Mask and values of scales."""
    if op.attributes.string("qtype") == "per_tensor" or len(set(values)) == 1:
        return 0, values[:1]
    if len(values) != channels:
        raise Unfit("scales per channel and group")
    return 1 << (op.attributes.integer("axis") % rank), values


def _points(low: Lowering, op: Op) -> Buffer | None:
    zero_point = zero_point_of(op)
    if zero_point is None:
        raise Unfit("the library has one zero point for all elements")
    return low.layouts.constant(np.asarray([zero_point], np.int32)) if zero_point else None


def static(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """Quantize and Dequantize; integers that were dequantised before go from one scale to the other at once."""
    result = op.outputs[0]
    if op.kind == "Quantize" and _requantizes(low, op):
        return
    source = low.tensors.plain(op.inputs[0])
    side = Arg.DST if op.kind == "Quantize" else Arg.SRC
    rank = max(len(result.dims), 1)
    channels = result.dims[op.attributes.integer("axis") % rank] if result.dims else 1
    mask, values = _scale(op, op.attributes.reals("scales"), rank, channels)
    points = _points(low, op)
    target = _target(low, op, source)
    wanted = one_scale(op) if side == Arg.DST and source.desc.data_type is DataType.f32 else None
    if wanted is not None and quantized_by_binary(low, "quantize", source, target, wanted):
        low.tensors.produce(result, target)
        return
    low.emitter.copy_scaled(
        op.kind.lower(),
        source,
        target,
        {side: (mask, low.layouts.constant(np.asarray(values, np.float32)))},
        {} if points is None else {side: points},
    )
    low.tensors.produce(result, target)


def _requantizes(low: Lowering, op: Op) -> bool:
    """Whether the input is integers of one scale, which become those of the result; the same ones if it has theirs."""
    found, wanted, result = low.tensors.quantized(op.inputs[0]), one_scale(op), op.outputs[0]
    if found is None or wanted is None or len(found.scales) > 1:
        return False
    low.tensors.produce(result, rescaled(low, "quantize", found, wanted, result.data_type))
    return True


def dynamic(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """DynamicQuantize and DynamicDequantize: a copy with scales, or binaries where copies have none such."""
    if has_groups(op):
        _in_groups(low, op)
        return
    source, result = low.tensors.plain(op.inputs[0]), op.outputs[0]
    side = Arg.DST if op.kind == "DynamicQuantize" else Arg.SRC
    scales = low.tensors.dense(op.inputs[1], DataType.f32)
    count = max(op.inputs[1].dims, default=1)
    rank = max(len(result.dims), 1)
    mask = 0 if count == 1 else 1 << (op.attributes.integer("axis") % rank)
    vector = low.layouts.view(scales, (count,))
    points: dict[int, Buffer] = {}
    if len(op.inputs) > 2:
        if max(op.inputs[2].dims, default=1) > 1:
            raise Unfit("the library has one zero point for all elements")
        whole = low.tensors.dense(op.inputs[2], DataType.s32)
        points[side] = low.layouts.view(whole, (1,))
    target = _target(low, op, source)
    low.emitter.copy_scaled(op.kind.lower(), source, target, {side: (mask, vector)}, points)
    low.tensors.produce(result, target)


def _in_groups(low: Lowering, op: Op) -> None:
    source = low.tensors.without_gaps(op.inputs[0], low.tensors.plain(op.inputs[0]))
    low.tensors.produce(op.outputs[0], dequantized(low, op, source, _target(low, op, source)))


def _target(low: Lowering, op: Op, source: Buffer) -> Buffer:
    """Memory for the result, with its axes in the order in which those of the source lie."""
    result, desc = op.outputs[0], source.desc
    strides = None if desc.strides is None else packed(desc.shape, desc.strides)
    return low.layouts.temporary(result.dims or (1,), low.tensors.type_of(result), strides)


def type_cast(low: Lowering, op: Op, links: Sequence[Link]) -> None:
    """A copy to another type."""
    made = low.tensors.read(op.inputs[0], low.tensors.type_of(op.outputs[0]))
    low.tensors.produce(op.outputs[0], made)


def static_why_not(op: Op) -> str | None:
    """Scales that the library can't divide by, which it does by a product: of zeros it would make NaN."""
    if has_subnormal_scale(op):
        return "oneDNN multiplies by a scale's reciprocal, and those of subnormal scales are infinite"
    return None


def dynamic_why_not(op: Op) -> str | None:
    """4-bit integers, which reorders and binaries don't have."""
    if all(t.data_type in PRIMITIVE_TYPES for t in op.inputs):
        return None
    reason = "oneDNN's reorders are given no 4-bit integers"
    if may_decompress(op):
        return reason
    return f"{reason}, and {loaded_library()} has no product that takes such weights as they are"


LOWERED = {
    "Quantize": Lowered(static, why_not=static_why_not),
    "Dequantize": Lowered(static),
    "DynamicQuantize": Lowered(dynamic, why_not=dynamic_why_not),
    "DynamicDequantize": Lowered(dynamic, why_not=dynamic_why_not),
    "TypeCast": Lowered(type_cast),
}
