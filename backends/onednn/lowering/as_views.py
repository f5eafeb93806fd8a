"""Ops that compute nothing as views of their inputs: reshapes, transpositions, parts."""

from __future__ import annotations

from collections.abc import Sequence

from ....graph.model.op import Op
from ....ops.formats import axis_positions
from ....ops.movement import permutation
from ..plan.layouts import Layouts
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .views import reshaped_strides

SAME = ("Reorder", "HostStopGradient")
"""Ops whose result is their input."""
MOVES = (*SAME, "StaticReshape", "StaticTranspose", "HostSlice")
"""Ops that compute nothing."""


def is_part(op: Op) -> bool:
    """Whether it takes a part of a tensor: a MaxPool with windows of one element and without padding."""
    a = op.attributes
    return (
        op.kind == "MaxPool"
        and set(a.integers("kernel")) == {1}
        and max((*a.integers("pads_begin"), *a.integers("pads_end")), default=0) <= 0  # none are zeros
        and str(a.get("auto_pad", "None")).lower() == "none"
    )


def is_move(op: Op) -> bool:
    """Whether it computes nothing."""
    return op.kind in MOVES or is_part(op)


def moved(layouts: Layouts, op: Op, source: Buffer) -> Buffer | None:
    """The result of such an op as a view of its input; None where elements would have to move.

    Args:
        source: the op's input, in a layout of strides.

    Raises:
        Unfit: no layout of strides, or a tensor without axes.
    """
    shape, strides, data_type = source.desc.shape, source.desc.strides, source.desc.data_type
    wanted = op.outputs[0].dims or (1,)
    if strides is None:
        raise Unfit("a blocked layout")
    offset = 0
    if op.kind == "StaticReshape":
        steps = reshaped_strides(shape, strides, wanted)
        if steps is None:
            return None
    elif op.kind == "StaticTranspose":
        order = permutation(op.attributes, len(op.inputs[0].dims))
        if not order:
            raise Unfit("a tensor without axes")
        steps = tuple(strides[axis] for axis in order)
    elif op.kind in SAME:
        return source
    elif op.kind == "HostSlice":
        offset, steps = _slice(op, shape, strides)
    else:
        offset, steps = _part(op, strides)
    desc = layouts.desc(wanted, steps, data_type)
    return Buffer(desc, source.root.argument, base=source, offset=offset * desc.itemsize)


def _part(op: Op, strides: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The first element of a part, and its strides."""
    a, steps, first = op.attributes, list(strides), 0
    axes = axis_positions(a.string("data_format"), len(steps) - 2)["X"]
    begins = a.integers("pads_begin") or (0,) * len(axes)
    for axis, begin, step in zip(axes, begins, a.integers("strides"), strict=True):
        first += -begin * steps[axis]
        steps[axis] *= step
    return first, tuple(steps)


def _slice(op: Op, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The first element of what Python's slices leave, and its strides."""
    a, steps, first = op.attributes, list(strides), 0
    bounds = zip(a.integers("starts"), a.integers("stops"), a.integers("steps"), strict=True)
    for axis, (start, stop, step) in zip(a.integers("axes"), bounds, strict=True):
        begin = range(shape[axis])[start:stop:step].start
        first += begin * strides[axis]
        steps[axis] *= step
    return first, tuple(steps)
