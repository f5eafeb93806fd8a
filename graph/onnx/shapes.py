"""ONNX ops in ops of oneDNN Graph: shapes, parts, reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate

import numpy as np

from ...ops.movement import resized
from ..importing.expressions import (
    axis_of,
    binary,
    concat,
    cut,
    expand,
    pad,
    reduce,
    repeat,
    reshape,
    squeeze,
    take,
    transpose,
    unreduced,
    unsqueeze,
    where,
)
from ..importing.hosted import bordered, gathered
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, shape_of, sizes
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array
from .node import Node, Translate

OPS = Entries[Translate]()
"""ONNX op → its translation."""


# --- shapes ----------------------------------------------------------------------------------------------


@OPS.enter("Reshape")
def _reshape(t: Translation, node: Node) -> Value:
    wanted = node.integers("shape", 1)
    if wanted is None:
        raise Unmapped("its shape is missing")
    have, zeros = shape_of(node[0]), not node.get("allowzero", 0)
    if -1 not in have:
        wanted = resized(have, wanted, zeros=zeros) or wanted  # else it is told what does not fit
    elif zeros:
        wanted = [have[axis] if size == 0 and axis < len(have) else size for axis, size in enumerate(wanted)]
    if wanted.count(-1) > 1:  # a size that stays open and one that follows
        return t.op("StaticReshape", node[0], shape=node.integers("shape", 1), special_zero=True)
    return reshape(t, node[0], wanted)


@OPS.enter("Flatten")
def _flatten(t: Translation, node: Node) -> Value:
    shape = shape_of(node[0])
    axis = node.get("axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise Unmapped(f"axis {axis} of a tensor of {len(shape)} axes")
    axis = axis + len(shape) if axis < 0 else axis
    first, second = shape[:axis], shape[axis:]
    if -1 not in second:
        return reshape(t, node[0], [-1 if -1 in first else math.prod(first), math.prod(second)])
    return reshape(t, node[0], [math.prod(first) if -1 not in first else -1, -1])


@OPS.enter("Transpose")
def _transpose(t: Translation, node: Node) -> Value:
    return transpose(t, node[0], node.get("perm") or list(reversed(range(len(shape_of(node[0]))))))


@OPS.enter("Squeeze")
def _squeeze(t: Translation, node: Node) -> Value:
    axes = node.integers("axes", 1)
    return squeeze(t, node[0], [a for a, d in enumerate(sizes(node[0])) if d == 1] if axes is None else axes)


@OPS.enter("Unsqueeze")
def _unsqueeze(t: Translation, node: Node) -> Value:
    return unsqueeze(t, node[0], node.integers("axes", 1) or [])


@OPS.enter("Expand")
def _expand(t: Translation, node: Node) -> Value:
    have, wanted = sizes(node[0]), tuple(node.integers("shape", 1) or [])
    try:
        shape = np.broadcast_shapes(have, wanted)
    except ValueError:
        raise Unmapped(f"an expansion of {list(have)} to {list(wanted)}, which don't broadcast") from None
    return expand(t, node[0], shape)


@OPS.enter("Tile")
def _tile(t: Translation, node: Node) -> Value:
    return repeat(t, node[0], node.integers("repeats", 1) or [])


@OPS.enter("Concat")
def _concat(t: Translation, node: Node) -> Value:
    return concat(t, node.given(), node.get("axis"))


@OPS.enter("Pad")
def _pad(t: Translation, node: Node) -> Value:
    mode = node.get("mode", "constant")
    rank = len(shape_of(node[0]))
    pads = node.integers("pads", 1) or []
    axes = node.integers("axes", 3, range(rank)) or []
    if len(pads) != 2 * len(axes):
        raise Unmapped(f"pads {pads} for {len(axes)} axes; each takes one before and one behind")
    begin, end = [0] * rank, [0] * rank
    for place, axis in enumerate(axes):
        begin[axis_of(node[0], axis)], end[axis_of(node[0], axis)] = pads[place], pads[place + len(axes)]
    if mode != "constant":
        # What negative pads take away is not there to be repeated.
        inner = node[0]
        for axis, (before, behind) in enumerate(zip(begin, end, strict=True)):
            if min(before, behind) < 0:
                inner = cut(t, inner, axis, max(-before, 0), shape_of(inner)[axis] - max(-behind, 0))
        return bordered(t, inner, [max(size, 0) for size in begin], [max(size, 0) for size in end], mode)
    return pad(t, node[0], begin, end, node.number(2, "constant value", 0.0) or 0.0)


@OPS.enter("Slice")
def _slice(t: Translation, node: Node) -> Value:
    starts, ends = node.integers("starts", 1) or [], node.integers("ends", 2) or []
    axes = node.integers("axes", 3, range(len(starts))) or []
    steps = node.integers("steps", 4, [1] * len(starts)) or []
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unmapped(
            f"starts {starts}, ends {ends}, axes {axes} and steps {steps}, which are not equally many"
        )
    result = node[0]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        result = cut(t, result, axis, start, end, step)
    return result


@OPS.enter("Split")
def _split(t: Translation, node: Node) -> Sequence[Value]:
    axis = axis_of(node[0], node.get("axis", 0))
    parts = node.positive("num_outputs", node.listed)
    counts = split_counts(sizes(node[0])[axis], node.integers("split", 1), parts, node.listed, node.opset)
    starts = list(accumulate(counts, initial=0))
    return [
        cut(t, node[0], axis, start, start + count)
        for start, count in zip(starts[: node.outputs], counts, strict=False)
    ]


def split_counts(
    size: int, counts: Sequence[int] | None, parts: int, listed: int, opset: int
) -> Sequence[int]:
    """How many elements each output of a Split has.

    Args:
        size: of the axis.
        counts: what the node says; None where it leaves that to the number of parts.
        parts: this number.
        listed: how many outputs the node has.
        opset: before 18, parts are equal.

    Raises:
        Unmapped: there is no such split.
    """
    if counts is None:
        if parts != listed:
            raise Unmapped(f"a split into {parts} for {listed} outputs")
        if size % parts and opset < 18:
            raise Unmapped(f"a split of {size} elements into {parts} equal parts")
        each = -(-size // parts)
        counts = [min(each, size - each * i) for i in range(parts)]
    if len(counts) != listed or sum(counts) != size or min(counts) < 0:
        shown = list(counts) if len(counts) <= 8 else f"{len(counts)} parts"
        raise Unmapped(f"a split of {size} elements into {shown} for {listed} outputs")
    return counts


@OPS.enter("Gather")
def _gather(t: Translation, node: Node) -> Value:
    return take(t, node[0], node.get("axis", 0), node[1])


@OPS.enter("GatherElements")
def _gather_elements(t: Translation, node: Node) -> Value:
    return gathered(t, node[0], node.get("axis", 0), node[1])


@OPS.enter("GatherND")
def _gather_nd(t: Translation, node: Node) -> Value:
    indices, batch = node[1], node.get("batch_dims", 0)
    if not isinstance(indices, np.ndarray) or batch or -1 in shape_of(node[0]):
        return t.op("HostGatherND", node[0], indices, batch_dims=batch)
    have = sizes(node[0])
    rank = indices.shape[-1]
    if rank > len(have) or any(
        ((i < -d) | (i >= d)).any() for i, d in zip(_columns(indices), have, strict=False)
    ):
        raise Unmapped(f"indices beyond the elements of {list(have)}")
    places = np.zeros(indices.shape[:-1], np.int64)
    for index, size in zip(_columns(indices), have, strict=False):
        places = places * size + index % size
    rows = reshape(t, node[0], (math.prod(have[:rank]), *have[rank:]))
    return take(t, rows, 0, places)


def _columns(indices: Array) -> list[Array]:
    """What a look-up's indices say of each axis."""
    return [indices[..., axis] for axis in range(indices.shape[-1])]


@OPS.enter("ScatterND")
def _scatter_nd(t: Translation, node: Node) -> Value:
    reduction = node.get("reduction", "none")
    return t.op("HostScatterND", node[0], node[1], node[2], reduction=reduction)


@OPS.enter("DepthToSpace")
def _depth_to_space(t: Translation, node: Node) -> Value:
    n, c, h, w = sizes(node[0])
    b = node.positive("blocksize")
    if node.get("mode", "DCR") == "DCR":
        parts = transpose(t, reshape(t, node[0], (n, b, b, c // b**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        parts = transpose(t, reshape(t, node[0], (n, c // b**2, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return reshape(t, parts, (n, c // b**2, h * b, w * b))


@OPS.enter("SpaceToDepth")
def _space_to_depth(t: Translation, node: Node) -> Value:
    n, c, h, w = sizes(node[0])
    b = node.positive("blocksize")
    # Blocks go before the channels (DCR, which is all that there was before opset 28) or behind them.
    order = (0, 1, 3, 5, 2, 4) if node.get("mode", "DCR") == "CRD" else (0, 3, 5, 1, 2, 4)
    parts = transpose(t, reshape(t, node[0], (n, c, h // b, b, w // b, b)), order)
    return reshape(t, parts, (n, c * b * b, h // b, w // b))


# --- reductions ------------------------------------------------------------------------------------------


def _reduce(
    t: Translation,
    node: Node,
    kind: str,
    before: str | None = None,
    after: str | None = None,
) -> Value:
    """A reduction, with what is done to each element before and to each sum behind it."""
    axes = node.integers("axes", 1) or []
    result = node[0] if before is None else t.op(before, node[0])
    if axes or not node.get("noop_with_empty_axes", 0):
        result = reduce(t, kind, result, axes, bool(node.get("keepdims", 1)))
    else:
        result = unreduced(t, kind, result)
    return result if after is None else t.op(after, result)


for _kind in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2"):
    OPS.add({_kind: partial(_reduce, kind=_kind)})
OPS.add({"ReduceSumSquare": partial(_reduce, kind="ReduceSum", before="Square")})
OPS.add({"ReduceLogSum": partial(_reduce, kind="ReduceSum", after="Log")})


@OPS.enter("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(t: Translation, node: Node) -> Value:
    kind = "ReduceMean" if node.kind == "GlobalAveragePool" else "ReduceMax"
    spatial = range(2, len(shape_of(node[0])))
    return reduce(t, kind, node[0], spatial, keep=True) if spatial else node[0]


@OPS.enter("Softmax", "LogSoftmax")
def _softmax(t: Translation, node: Node) -> LogicalTensor | Value:
    kind = "SoftMax" if node.kind == "Softmax" else "LogSoftmax"
    shape = shape_of(node[0])
    axis = axis_of(node[0], node.get("axis", -1 if node.opset >= 13 else 1))
    more = {"mode": node.get("mode")} if node.get("mode") else {}  # of a pattern
    if node.opset >= 13 or axis == len(shape) - 1:
        return t.op(kind, node[0], axis=axis, **more)
    # Before opset 13 it goes over all axes from this one on.
    shape = sizes(node[0])
    flat = reshape(t, node[0], (math.prod(shape[:axis]), math.prod(shape[axis:])))
    return reshape(t, t.op(kind, flat, axis=1, **more), shape)


@OPS.enter("LpNormalization")
def _lp_normalization(t: Translation, node: Node) -> Value:
    kinds, order = {1: "ReduceL1", 2: "ReduceL2"}, node.get("p", 2)
    if order not in kinds:
        raise Unmapped(f"a norm of order {order}")
    norm = reduce(t, kinds[order], node[0], [node.get("axis", -1)], keep=True)
    # Zeros stay zeros: divided by infinity, where the norm is 0.
    divisor = where(t, binary(t, "GreaterEqual", 0.0, norm), math.inf, norm)
    return binary(t, "Divide", node[0], divisor)
