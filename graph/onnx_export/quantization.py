"""Quantisation: pairs of QuantizeLinear and DequantizeLinear, as runtimes look for them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ..model.logical_tensor import LogicalTensor
from ..model.numpy_types import NUMPY_TYPES
from ..model.op import Op
from ..runtime.arrays import Array
from .entries import Writers
from .writing import NUMBERS, Writing

WRITERS = Writers()
LIMITS = {DataType.s8: (-128, 127), DataType.u8: (0, 255)}


def _scales_and_zeros(op: Op) -> tuple[Array, Array]:
    """Scales and zero points of the attributes, one or one for each element of the axis."""
    scales = np.asarray(op.attributes.get("scales"), np.float32)
    zeros = np.asarray(op.attributes.get("zps") or (0,), np.int64)
    if op.attributes.string("qtype") != "per_channel" or scales.size == 1 == zeros.size:
        return scales[:1].reshape(()), zeros[:1].reshape(())
    scales, zeros = (np.broadcast_to(one, max(scales.size, zeros.size)) for one in (scales, zeros))
    return scales, zeros


def _axis(out: Writing, op: Op, scales: Array) -> dict[str, object]:
    """The attribute that says along which axis scales lie, where they are several."""
    if not scales.ndim:
        return {}
    src = op.inputs[0]
    shape = out.shape(src, op)
    axis = op.attributes.integer("axis") % len(shape)
    if shape[axis] >= 0 and shape[axis] != scales.size:
        raise UnsupportedError(
            f"to_onnx: {op} has {scales.size} scales for {shape[axis]} elements of axis {axis}, as grouped weights "
            "have, which ONNX has not; keep this op in f32"
        )
    return {"axis": axis}


@WRITERS.of("Quantize")
def _quantize(out: Writing, op: Op) -> str:
    (src,), kind = op.inputs, op.outputs[0].data_type
    scales, zeros = _scales_and_zeros(op)
    axis = _axis(out, op, scales)
    lowest, highest = LIMITS.get(kind, (0, 0))
    if bool((zeros >= lowest).all() and (zeros <= highest).all()):
        zero = out.constant(zeros.astype(NUMPY_TYPES[kind]))
        return out.node("QuantizeLinear", out.name(src), out.constant(scales), zero, **axis)
    if kind not in LIMITS:
        raise UnsupportedError(
            f"to_onnx: {op} has zero points of 8-bit floats, which ONNX has not; leave zps out"
        )
    shape = [1] * len(out.shape(src, op))
    if axis:
        shape[op.attributes.integer("axis")] = -1
    scale, zero = (out.constant(one.astype(np.float32).reshape(shape)) for one in (scales, zeros))
    return _rounded(out, out.node("Add", out.node("Div", out.name(src), scale), zero), kind)


@WRITERS.of("Dequantize")
def _dequantize(out: Writing, op: Op) -> str:
    src = op.inputs[0]
    scales, zeros = _scales_and_zeros(op)
    axis = _axis(out, op, scales)
    lowest, highest = LIMITS.get(src.data_type, (0, 0))
    if bool((zeros >= lowest).all() and (zeros <= highest).all()):
        zero = out.constant(zeros.astype(NUMPY_TYPES[src.data_type]))
        return out.node("DequantizeLinear", out.name(src), out.constant(scales), zero, **axis)
    shape = [1] * len(out.shape(src, op))
    if axis:
        shape[op.attributes.integer("axis")] = -1
    scale, zero = (out.constant(one.astype(np.float32).reshape(shape)) for one in (scales, zeros))
    number = out.node("Cast", out.name(src), to=NUMBERS[DataType.f32])
    return out.node("Mul", out.node("Sub", number, zero), scale)


# --- scales that are computed ----------------------------------------------------------------------------


def _place(out: Writing, op: Op) -> tuple[tuple[int, ...] | None, dict[str, object]]:
    """The shape that ONNX wants scales in, None where they have it, and the attributes that say where they lie.

    Raises:
        UnsupportedError: groups along several axes.
    """
    rank = len(out.shape(op.inputs[0], op))
    qtype = op.attributes.string("qtype")
    if qtype == "per_tensor":
        return (), {}
    if qtype == "per_channel":
        return (-1,), {"axis": op.attributes.integer("axis") % rank}
    group = op.attributes.integers("group_shape")
    large = [axis for axis, size in enumerate(group) if size > 1]
    if len(large) > 1:
        raise UnsupportedError(
            f"to_onnx: {op} has groups along several axes, {list(group)}, and ONNX has blocks along one"
        )
    axis = large[0] if large else rank - 1
    out.need()
    return None, {"axis": axis, "block_size": group[axis]}


def _zero_point(out: Writing, op: Op, kind: DataType) -> LogicalTensor | None:
    """The zero points where they are of the integers' type, as ONNX wants them; None where there are none.

    Raises:
        KeyError: they are of another type, of which that one has not all numbers.
    """
    if len(op.inputs) < 3:
        return None
    zeros = op.inputs[2]
    array = out.held(zeros)
    limits = ml_dtypes.iinfo(NUMPY_TYPES[kind])
    if zeros.data_type is kind or (
        array is not None and array.size and limits.min <= array.min() and array.max() <= limits.max
    ):
        return zeros
    raise KeyError(zeros.data_type)


def _shaped(out: Writing, tensor: LogicalTensor, shape: tuple[int, ...] | None) -> str:
    """Scales or zero points in that shape; runtimes have no reshape of 4 bits, so what is held gets it here."""
    array = out.held(tensor)
    if shape is None or tensor.shape == shape:
        return out.name(tensor)
    if array is not None:
        return out.constant(array.reshape(shape))
    if tensor.data_type not in (DataType.s4, DataType.u4):
        return out.reshape(out.name(tensor), shape)
    wide = out.cast(out.name(tensor), tensor.data_type, DataType.s32)
    return out.cast(out.reshape(wide, shape), DataType.s32, tensor.data_type)


def _linear(out: Writing, op: Op, kind: str, integers: DataType) -> str | None:
    """QuantizeLinear or DequantizeLinear; None where zero points are of another type."""
    shape, attributes = _place(out, op)
    try:
        zeros = _zero_point(out, op, integers)
    except KeyError:
        return None
    scales = _shaped(out, op.inputs[1], shape)
    if zeros is None:
        zero = out.zeros_like(scales, op.inputs[1], integers)
    else:
        zero = out.cast(_shaped(out, zeros, shape), zeros.data_type, integers)
        if zeros.shape in ((), (1,)) and op.attributes.string("qtype") == "per_channel":
            zero = out.node("Expand", zero, out.node("Shape", scales))
    return out.node(kind, out.name(op.inputs[0]), scales, zero, **attributes)


def _along(out: Writing, op: Op, tensor: LogicalTensor) -> str:
    """Scales or zero points as f32, so that they broadcast.

    Raises:
        UnsupportedError: they are of groups.
    """
    if op.attributes.string("qtype") == "per_group":
        raise UnsupportedError(
            f"to_onnx: {op} has groups with zero points of {op.inputs[2].data_type.value}, and ONNX wants them in the "
            f"type of the integers, {op.inputs[0].data_type.value}"
        )
    shape = [1] * len(out.shape(op.inputs[0], op))
    if op.attributes.string("qtype") == "per_channel" and tensor.shape not in ((), (1,)):
        shape[op.attributes.integer("axis")] = -1
    return out.reshape(out.cast(out.name(tensor), tensor.data_type, DataType.f32), shape)


@WRITERS.of("DynamicQuantize")
def _dynamic_quantize(out: Writing, op: Op) -> str:
    kind = op.outputs[0].data_type
    made = _linear(out, op, "QuantizeLinear", kind)
    if made is not None:
        return made
    scales, zeros = (_along(out, op, tensor) for tensor in op.inputs[1:])
    return _rounded(out, out.node("Add", out.node("Div", out.name(op.inputs[0]), scales), zeros), kind)


@WRITERS.of("DynamicDequantize")
def _dynamic_dequantize(out: Writing, op: Op) -> str:
    src, scales, *_ = op.inputs
    made = _linear(out, op, "DequantizeLinear", src.data_type)
    if made is not None:
        return out.cast(made, scales.data_type, op.outputs[0].data_type)
    by, zeros = (_along(out, op, tensor) for tensor in op.inputs[1:])
    number = out.cast(out.name(src), src.data_type, DataType.f32)
    made = out.node("Mul", out.node("Sub", number, zeros), by)
    return out.cast(made, DataType.f32, op.outputs[0].data_type)


def _rounded(out: Writing, name: str, kind: DataType) -> str:
    """Numbers of f32 as integers of 8 bits: the nearest ones, within the range of the type."""
    bounds = (out.number(bound, DataType.f32) for bound in LIMITS[kind])
    return out.node("Cast", out.node("Clip", out.node("Round", name), *bounds), to=NUMBERS[kind])
