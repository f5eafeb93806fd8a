"""Normalisations and softmax."""

from __future__ import annotations

from ...ops.data_types import DataType
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from .entries import Writers
from .writing import Writing

WRITERS = Writers()


def _wide(out: Writing, op: Op, name: str, data_type: DataType) -> tuple[str, DataType]:
    """Data of 16 bits as f32 where gamma and the like are f32, for ONNX has one type for all."""
    others = {t.data_type for t in op.inputs[1:]} | {t.data_type for t in op.outputs[1:]}
    wide = DataType.f32 if others - {data_type} else data_type
    return out.cast(name, data_type, wide), wide


def _vector(out: Writing, tensor: LogicalTensor, wide: DataType) -> str:
    return out.cast(out.name(tensor), tensor.data_type, wide)


@WRITERS.of("BatchNormInference")
def _batch_norm(out: Writing, op: Op) -> str:
    src, *vectors = op.inputs
    rank = len(out.shape(src, op))
    x, wide = _wide(out, op, out.channels_first(src, op), src.data_type)
    made = out.node(
        "BatchNormalization",
        x,
        *(_vector(out, one, wide) for one in vectors),
        epsilon=op.attributes.real("epsilon"),
    )
    return out.as_data(out.cast(made, wide, src.data_type), rank, op)


def _parameters(out: Writing, op: Op, wide: DataType) -> tuple[LogicalTensor, ...]:
    """Gamma and beta where they are used."""
    used = "use_affine" not in op.attributes or op.attributes.flag("use_affine")
    return op.inputs[1:] if used else ()


@WRITERS.of("LayerNorm")
def _layer_norm(out: Writing, op: Op) -> list[str]:
    src = op.inputs[0]
    shape = out.shape(src, op)
    axis = op.attributes.integer("begin_norm_axis") % len(shape)
    epsilon = op.attributes.real("epsilon")
    x, wide = _wide(out, op, out.name(src), src.data_type)
    sizes = out.dims_of(src, op, range(axis, len(shape)), "the size of gamma")
    affine = [_shaped(out, one, wide, sizes) for one in _parameters(out, op, wide)]
    gamma = affine[0] if affine else out.filled(sizes, 1, wide)
    made = out.node("LayerNormalization", x, gamma, *affine[1:], axis=axis, epsilon=epsilon)
    axes = list(range(axis, len(shape)))
    return [out.cast(made, wide, src.data_type), *_statistics(out, op, x, wide, axes)]


def _shaped(out: Writing, tensor: LogicalTensor, wide: DataType, sizes: tuple[int, ...]) -> str:
    name = _vector(out, tensor, wide)
    return name if tensor.shape == sizes else out.reshape(name, sizes)


def _statistics(out: Writing, op: Op, x: str, wide: DataType, axes: list[int]) -> list[str]:
    """Mean and variance where somebody reads them; names that nobody reads elsewhere."""
    results = op.outputs[1:]
    if not any(out.is_read(t) for t in results):
        return ["" for _ in results]
    over = out.integers(axes)
    mean = out.node("ReduceMean", x, over, keepdims=1)
    away = out.node("Sub", x, mean)
    variance = out.node("ReduceMean", out.node("Mul", away, away), over, keepdims=0)
    found = [out.node("Squeeze", mean, over), variance]
    return [out.cast(name, wide, t.data_type) for name, t in zip(found, results, strict=True)]


@WRITERS.of("GroupNorm")
def _group_norm(out: Writing, op: Op) -> list[str]:
    src = op.inputs[0]
    shape = out.shape(src, op)
    groups = op.attributes.integer("groups")
    out.need()
    x, wide = _wide(out, op, out.channels_first(src, op), src.data_type)
    channels = shape[-1 if op.attributes.string("data_format") == "NXC" else 1]
    affine = [_vector(out, one, wide) for one in _parameters(out, op, wide)]
    if channels < 0 and not affine:
        raise out.unknown(src, op, "the number of channels")
    affine = affine or [out.filled((channels,), 1, wide), out.filled((channels,), 0, wide)]
    made = out.node(
        "GroupNormalization", x, *affine, num_groups=groups, epsilon=op.attributes.real("epsilon")
    )
    dst = out.as_data(out.cast(made, wide, src.data_type), len(shape), op)
    if len(op.outputs) == 1 or not any(out.is_read(t) for t in op.outputs[1:]):
        return [dst, *("" for _ in op.outputs[1:])]
    parts = out.node("Reshape", x, out.integers((0, groups, -1)))
    return [dst, *_statistics(out, op, parts, wide, [2])]


@WRITERS.of("RMSNorm")
def _rms_norm(out: Writing, op: Op) -> str:
    src, *gamma = op.inputs
    shape = out.shape(src, op)
    axis = op.attributes.integer("begin_norm_axis") % len(shape)
    narrow = src.data_type in (DataType.f16, DataType.bf16)
    wide = DataType.f32 if narrow else src.data_type
    x = out.cast(out.name(src), src.data_type, wide)
    square = out.node("ReduceMean", out.node("Mul", x, x), out.integers(range(axis, len(shape))), keepdims=1)
    root = out.node("Sqrt", out.node("Add", square, out.number(op.attributes.real("epsilon"), wide)))
    made = out.node("Div", x, root)
    for one in gamma:
        sizes = out.dims_of(src, op, range(axis, len(shape)), "the size of gamma")
        made = out.node("Mul", made, _shaped(out, one, wide, sizes))
    return out.cast(made, wide, src.data_type)


@WRITERS.of("SoftMax")
def _softmax(out: Writing, op: Op) -> list[str]:
    (src,) = op.inputs
    rank = len(out.shape(src, op))
    axis = op.attributes.integer("axis") % max(rank, 1)
    kind = op.outputs[0].data_type
    wide = kind if src.data_type is kind else DataType.f32
    wide = DataType.f64 if DataType.f64 in (kind, src.data_type) else wide
    x = out.cast(out.name(src), src.data_type, wide)
    made = out.node("Softmax", x, axis=axis)
    if op.attributes.string("mode") == "inf_as_zero":
        largest = out.node("ReduceMax", x, out.integers([axis]), keepdims=1)
        nothing = out.node("Equal", largest, out.number(float("-inf"), wide))
        made = out.node("Where", nothing, out.number(0, wide), made)
    results = [out.cast(made, wide, kind)]
    if len(op.outputs) > 1:
        logs = ""
        if out.is_read(op.outputs[1]):
            logs = out.node("ReduceLogSumExp", x, out.integers([axis]), keepdims=1)
            logs = out.cast(logs, wide, op.outputs[1].data_type)
        results.append(logs)
    return results


@WRITERS.of("LogSoftmax")
def _log_softmax(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    rank = len(out.shape(src, op))
    return out.node("LogSoftmax", out.name(src), axis=op.attributes.integer("axis") % max(rank, 1))
