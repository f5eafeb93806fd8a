"""What moves elements: shapes, orders, parts, look-ups and resizing."""

from __future__ import annotations

import math

import numpy as np

from ...ops.convolution_geometry import axis_positions
from ...ops.data_types import DataType
from ...ops.schema import UNKNOWN_DIM
from ..model.op import Op
from .entries import Writers
from .writing import Writing

WRITERS = Writers()


@WRITERS.of("HostReshape", "StaticReshape")
def _reshape(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    shape, zeros = op.attributes.integers("shape"), op.attributes.flag("special_zero")
    open_copy = zeros and UNKNOWN_DIM in out.shape(op.outputs[0], op)
    if 0 in shape and -1 in shape and not open_copy:
        # ONNX does not take them together, but where the 0 is an old size that is not 0.
        shape, zeros = out.dims(op.outputs[0], op, "the shape"), False
    return out.node("Reshape", out.name(src), out.integers(shape), allowzero=int(not zeros and 0 in shape))


@WRITERS.of("HostTranspose", "StaticTranspose")
def _transpose(out: Writing, op: Op) -> str:
    order = op.attributes.integers("order")
    if not order:
        return out.node("Identity", out.name(op.inputs[0]))
    return out.node("Transpose", out.name(op.inputs[0]), perm=[axis % len(order) for axis in order])


@WRITERS.of("Concat", "HostConcat")
def _concat(out: Writing, op: Op) -> str:
    return out.node("Concat", *map(out.name, op.inputs), axis=op.attributes.integer("axis"))


@WRITERS.of("GenIndex")
def _gen_index(out: Writing, op: Op) -> str:
    dims = out.dims(op.inputs[0], op, "the result")
    axis = op.attributes.integer("axis") % len(dims)
    along = [-1 if place == axis else 1 for place in range(len(dims))]
    numbers = np.arange(dims[axis]).astype(np.int32).reshape(along)
    return out.node("Expand", out.constant(numbers), out.integers(dims))


@WRITERS.of("HostSlice")
def _slice(out: Writing, op: Op) -> str:
    given = {name: op.attributes.integers(name) for name in ("starts", "stops", "axes", "steps")}
    return out.node("Slice", out.name(op.inputs[0]), *map(out.integers, given.values()))


@WRITERS.of("HostPad")
def _pad(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    mode, first, last = (
        op.attributes.string("mode"),
        op.attributes.integers("pads_begin"),
        op.attributes.integers("pads_end"),
    )
    value = [out.number(op.attributes.real("value"), src.data_type)] if mode == "constant" else []
    return out.node("Pad", out.name(src), out.integers((*first, *last)), *value, mode=mode)


@WRITERS.of("HostExpand")
def _expand(out: Writing, op: Op) -> str:
    shape = [max(size, 1) if size == UNKNOWN_DIM else size for size in op.attributes.integers("shape")]
    return out.node("Expand", out.name(op.inputs[0]), out.integers(shape))


@WRITERS.of("HostExpandTo")
def _expand_to(out: Writing, op: Op) -> str:
    src, like = map(out.name, op.inputs)
    return out.node("Expand", src, out.node("Shape", like))


@WRITERS.of("HostSumTo")
def _sum_to(out: Writing, op: Op) -> str:
    src, like = op.inputs
    have, want = out.shape(src, op), out.dims(like, op, "what is summed")
    more = len(have) - len(want)
    axes = [a for a in range(len(have)) if a < more or (want[a - more] == 1 and have[a] != 1)]
    return (
        out.reshape(out.node("ReduceSum", out.name(src), out.integers(axes), keepdims=0), want)
        if axes
        else (out.node("Identity", out.name(src)))
    )


# --- look-ups --------------------------------------------------------------------------------------------


@WRITERS.of("HostGather")
def _gather(out: Writing, op: Op) -> str:
    return out.node("Gather", *map(out.name, op.inputs), axis=op.attributes.integer("axis"))


@WRITERS.of("HostGatherElements")
def _gather_elements(out: Writing, op: Op) -> str:
    return out.node("GatherElements", *map(out.name, op.inputs), axis=op.attributes.integer("axis"))


@WRITERS.of("HostGatherND")
def _gather_nd(out: Writing, op: Op) -> str:
    src, indices = op.inputs
    places = out.cast(out.name(indices), indices.data_type, DataType.s64)
    return out.node("GatherND", out.name(src), places, batch_dims=op.attributes.integer("batch_dims"))


@WRITERS.of("HostScatterND")
def _scatter_nd(out: Writing, op: Op) -> str:
    src, indices, updates = op.inputs
    places = out.cast(out.name(indices), indices.data_type, DataType.s64)
    reduction, axis = op.attributes.string("reduction"), op.attributes.integer("axis")
    if axis == 0:
        return out.node("ScatterND", out.name(src), places, out.name(updates), reduction=reduction)
    rank, wide = len(out.dims(src, op, "the result")), len(out.dims(updates, op, "the result"))
    axis %= rank
    first = out.ordered(src, [*range(axis, rank), *range(axis)])
    parts = out.ordered(updates, [*range(axis, wide), *range(axis)])
    made = out.node("ScatterND", first, places, parts, reduction=reduction)
    return out.transpose(made, [*range(rank - axis, rank), *range(rank - axis)])


@WRITERS.of("HostScatterElements")
def _scatter_elements(out: Writing, op: Op) -> str:
    axis, reduction = op.attributes.integer("axis"), op.attributes.string("reduction")
    return out.node("ScatterElements", *map(out.name, op.inputs), axis=axis, reduction=reduction)


@WRITERS.of("HostGridSample")
def _grid_sample(out: Writing, op: Op) -> str:
    return out.node(
        "GridSample",
        *map(out.name, op.inputs),
        mode=op.attributes.string("mode"),
        padding_mode=op.attributes.string("padding_mode"),
        align_corners=int(op.attributes.flag("align_corners")),
    )


@WRITERS.of("HostTopK")
def _top_k(out: Writing, op: Op) -> list[str]:
    axis, largest = op.attributes.integer("axis"), int(op.attributes.flag("largest"))
    count = out.integers([op.attributes.integer("k")])
    inputs = [out.name(op.inputs[0]), count]
    values, places = out.nodes_of("TopK", inputs, 2, {"axis": axis, "largest": largest})
    return [values, out.cast(places, DataType.s64, op.outputs[1].data_type)]


# --- resizing --------------------------------------------------------------------------------------------


@WRITERS.of("Interpolate")
def _interpolate(out: Writing, op: Op) -> str:
    src = op.inputs[0]
    rank = len(out.shape(src, op))
    spatial = axis_positions(op.attributes.string("data_format"), rank - 2)["X"]
    mode = op.attributes.string("mode")
    result = out.shape(op.outputs[0], op)
    sizes = [result[axis] for axis in spatial]
    scales = op.attributes.get("scales")
    x = out.channels_first(src, op)
    line = rank == 3 and mode != "nearest"  # which runtimes have for images only
    if line:
        x = out.node("Unsqueeze", x, out.integers([2]))
    if UNKNOWN_DIM not in sizes:
        wanted = ("", "", _sizes(out, op, x, [1, *sizes] if line else sizes))
    elif len(op.inputs) == 1 and isinstance(scales, tuple) and all(s == math.floor(s) for s in scales):
        wanted = ("", out.constant(np.asarray([1, 1, 1, *scales] if line else [1, 1, *scales], np.float32)))
    else:
        raise out.unknown(op.outputs[0], op, "the result")
    made = out.node(
        "Resize",
        x,
        *wanted,
        mode="nearest" if mode == "nearest" else "linear",
        coordinate_transformation_mode=op.attributes.string("coordinate_transformation_mode"),
        nearest_mode="round_prefer_ceil" if mode == "nearest" else None,
    )
    if line:
        made = out.node("Squeeze", made, out.integers([2]))
    return out.as_data(made, rank, op)


def _sizes(out: Writing, op: Op, x: str, spatial: list[int]) -> str:
    """Sizes of all axes of the result, of which those of batch and channels may be known only at execution."""
    shape = out.shape(op.inputs[0], op)
    known = (shape[0], shape[1 if op.attributes.string("data_format") == "NCX" else -1])
    if UNKNOWN_DIM not in known:
        return out.integers([*known, *spatial])
    around = out.node("Slice", out.node("Shape", x), out.integers([0]), out.integers([2]))
    return out.node("Concat", around, out.integers(spatial), axis=0)
