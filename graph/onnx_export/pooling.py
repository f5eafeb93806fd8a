"""Poolings."""

from __future__ import annotations

from ...ops.pooling import Windows, pooling_attributes, windows
from ...ops.schema import UNKNOWN_DIM
from ..model.op import Op
from .entries import Writers
from .writing import FAR, Writing

WRITERS = Writers()


@WRITERS.of("AvgPool", "MaxPool")
def _pool(out: Writing, op: Op) -> str:
    (src,) = op.inputs
    shape = out.shape(src, op)
    pooling = pooling_attributes(op.attributes, len(shape) - 2)
    sizes = [shape[axis] for axis in pooling.window.spatial_axes]
    if UNKNOWN_DIM in sizes and (pooling.ceil or pooling.window.auto_pad.startswith("SAME")):
        raise out.unknown(src, op, "the padding")
    found = windows(pooling, sizes)
    if set(found.kernel) == {1} and max(*found.pads_begin, *found.pads_end) <= 0:
        return _part(out, op, found, pooling.window.spatial_axes)
    name = _without_left_out(out, out.channels_first(src, op), found)
    kind = "AveragePool" if op.kind == "AvgPool" else "MaxPool"
    first, last = ([max(0, pad) for pad in pads] for pads in (found.pads_begin, found.pads_end))
    last = [end + more for end, more in zip(last, found.beyond, strict=True)]
    counted = int(not pooling.exclude_pad) if op.kind == "AvgPool" else None
    made = out.node(
        kind,
        name,
        kernel_shape=list(found.kernel),
        strides=list(found.strides),
        dilations=list(found.dilations) if kind == "MaxPool" else None,
        pads=[*first, *last],
        count_include_pad=counted,
    )
    return out.as_data(made, len(shape), op)


def _without_left_out(out: Writing, name: str, found: Windows) -> str:
    """The data without the elements at its ends that a negative padding leaves out."""
    less = [0, 0, *(min(0, p) for p in found.pads_begin), 0, 0, *(min(0, p) for p in found.pads_end)]
    return out.node("Pad", name, out.integers(less)) if any(less) else name


def _part(out: Writing, op: Op, found: Windows, axes: tuple[int, ...]) -> str:
    """Windows of one element without padding: a part of the data."""
    starts = [-pad for pad in found.pads_begin]
    stops = [FAR if pad == 0 else pad for pad in found.pads_end]
    given = (starts, stops, axes, found.strides)
    return out.node("Slice", out.name(op.inputs[0]), *map(out.integers, given))
