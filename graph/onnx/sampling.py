"""ONNX ops that find places by values, choose by bounds, or normalise by neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..importing.expressions import axis_of, binary, cast, concat, cut, pad, power, reduce, reshape, where
from ..importing.hosted import compared, extreme
from ..importing.layers import pooling
from ..importing.sampling import (
    above,
    below,
    local_response,
    log_sum_exp,
    one_hot,
    sampled,
    scattered,
    top_k,
    triangle,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .node import Node, Translate
from .types import numpy_type_of

OPS = Entries[Translate]()
"""ONNX op → its translation."""


@OPS.enter("TopK")
def _top_k(t: Translation, node: Node) -> Sequence[Value]:
    count = node.number(1, "k")
    if count is None:
        raise Unmapped("its k is missing")
    return top_k(t, node[0], int(count), node.get("axis", -1), largest=bool(node.get("largest", 1)))


@OPS.enter("ScatterElements", "Scatter")
def _scatter_elements(t: Translation, node: Node) -> Value:
    reduction = node.get("reduction", "none")
    return scattered(t, node[0], node.get("axis", 0), node[1], node[2], reduction)


@OPS.enter("GridSample")
def _grid_sample(t: Translation, node: Node) -> Value:
    given = str(node.get("mode", "linear"))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(given, given)
    corners = bool(node.get("align_corners", 0))
    return sampled(t, node[0], node[1], mode, node.get("padding_mode", "zeros"), corners)


@OPS.enter("OneHot")
def _one_hot(t: Translation, node: Node) -> Value:
    depth = node.number(1, "depth")
    if depth is None or shape_of(node[2]) != (2,):
        raise Unmapped("its depth, or its two values, are missing")
    off, on = (reshape(t, cut(t, node[2], 0, place, place + 1), []) for place in (0, 1))
    return where(t, one_hot(t, node[0], int(depth), node.get("axis", -1)), on, off)


@OPS.enter("Trilu")
def _trilu(t: Translation, node: Node) -> Value:
    diagonal = node.number(1, "diagonal", 0.0)
    return triangle(t, node[0], int(diagonal or 0), upper=bool(node.get("upper", 1)))


@OPS.enter("Hardmax")
def _hardmax(t: Translation, node: Node) -> Value:
    if node.opset >= 13:
        return _first_largest(t, node[0], axis_of(node[0], node.get("axis", -1)))
    shape, axis = sizes(node[0]), axis_of(node[0], node.get("axis", 1))  # over all axes from this one on
    flat = reshape(t, node[0], (math.prod(shape[:axis]), math.prod(shape[axis:])))
    return reshape(t, _first_largest(t, flat, 1), shape)


def _first_largest(t: Translation, x: Value, axis: int) -> Value:
    """Ones where the largest elements along an axis are, the first of equal ones; zeros elsewhere."""
    found = extreme(t, "ArgMax", x, axis, keep=True)
    t.check_room(sizes(x)[axis : axis + 1], np.dtype(np.int64))
    numbers = np.arange(sizes(x)[axis]).reshape([-1 if a == axis else 1 for a in range(len(sizes(x)))])
    dtype = dtype_of(x)
    return where(t, compared(t, "Equal", found, numbers), np.ones((), dtype), np.zeros((), dtype))


@OPS.enter("ThresholdedRelu")
def _thresholded_relu(t: Translation, node: Node) -> Value:
    return where(t, above(t, node[0], node.get("alpha", 1.0)), node[0], 0.0)


@OPS.enter("Shrink")
def _shrink(t: Translation, node: Node) -> Value:
    bias, bound = node.get("bias", 0.0), node.get("lambd", 0.5)
    x, dtype = node[0], dtype_of(node[0])
    if dtype.kind in "iu":  # whose bounds and sums are of floating point
        x = cast(t, x, np.dtype(np.float32))
    # With a bound below 0 an element is on both sides of it, and ONNX asks for the lower one first.
    upper = where(t, above(t, x, bound), binary(t, "Subtract", x, bias), 0.0)
    made = where(t, below(t, x, -bound), binary(t, "Add", x, bias), upper)
    return cast(t, made, dtype) if dtype.kind in "iu" else made


@OPS.enter("ReduceLogSumExp")
def _reduce_log_sum_exp(t: Translation, node: Node) -> Value:
    axes = node.integers("axes", 1) or []
    if not axes and node.get("noop_with_empty_axes", 0):
        return node[0]
    return log_sum_exp(t, node[0], axes, bool(node.get("keepdims", 1)))


@OPS.enter("LRN")
def _lrn(t: Translation, node: Node) -> Value:
    alpha, beta, bias = (node.get(*known) for known in (("alpha", 1e-4), ("beta", 0.75), ("bias", 1.0)))
    return local_response(t, node[0], node.positive("size"), alpha, beta, bias)


@OPS.enter("MeanVarianceNormalization")
def _mean_variance(t: Translation, node: Node) -> Value:
    axes = node.get("axes", [0, 2, 3])
    centred = binary(t, "Subtract", node[0], reduce(t, "ReduceMean", node[0], axes, keep=True))
    variance = reduce(t, "ReduceMean", t.op("Square", centred), axes, keep=True)
    return binary(t, "Divide", centred, binary(t, "Add", t.op("Sqrt", variance), 1e-9))


@OPS.enter("GlobalLpPool")
def _global_lp_pool(t: Translation, node: Node) -> Value:
    return _norm(t, node[0], node.get("p", 2), list(range(2, len(shape_of(node[0])))))


def _norm(t: Translation, x: Value, order: int, axes: Sequence[int]) -> Value:
    kinds = {1: "ReduceL1", 2: "ReduceL2"}
    if order in kinds:
        return reduce(t, kinds[order], x, axes, keep=True)
    total = reduce(t, "ReduceSum", power(t, t.op("Abs", x), float(order)), axes, keep=True)
    return power(t, total, 1 / order)


@OPS.enter("LpPool")
def _lp_pool(t: Translation, node: Node) -> Value:
    order, kernel = node.get("p", 2), node.get("kernel_shape")
    pads = node.get("pads", [0] * (2 * len(kernel)))
    if node.get("ceil_mode", 0) or node.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unmapped("a pooling of norms with ceil rounding or with padding of its own choice")
    means = pooling(
        t,
        "AvgPool",
        power(t, t.op("Abs", node[0]), float(order)),
        kernel=kernel,
        strides=node.get("strides", [1] * len(kernel)),
        begin=pads[: len(kernel)],
        end=pads[len(kernel) :],
        dilations=node.get("dilations", [1] * len(kernel)),
        ceil=False,
    )
    return power(t, binary(t, "Multiply", means, float(math.prod(kernel))), 1 / order)


@OPS.enter("EyeLike")
def _eye_like(t: Translation, node: Node) -> Value:
    rows, columns = sizes(node[0])
    dtype = numpy_type_of(node.get("dtype")) if node.get("dtype") else dtype_of(node[0])
    t.check_room((rows, columns), dtype)
    return np.eye(rows, columns, node.get("k", 0), np.bool_).astype(dtype)


@OPS.enter("CenterCropPad")
def _center_crop_pad(t: Translation, node: Node) -> Value:
    wanted = node.integers("shape", 1) or []
    shape = sizes(node[0])
    axes = [axis_of(node[0], axis) for axis in node.get("axes", range(len(shape)))]
    result: Value = node[0]
    begin, end = [0] * len(shape), [0] * len(shape)
    for axis, want in zip(axes, wanted, strict=True):
        more = want - shape[axis]
        if more < 0:
            result = cut(t, result, axis, -more // 2, -more // 2 + want)
        begin[axis], end[axis] = max(more, 0) // 2, max(more, 0) - max(more, 0) // 2
    return pad(t, result, begin, end, 0.0)


@OPS.enter("ReverseSequence")
def _reverse_sequence(t: Translation, node: Node) -> Value:
    lengths = node.constant(1, "lengths")
    axis, batch = int(node.get("time_axis", 0)), int(node.get("batch_axis", 1))
    if lengths is None or (axis, batch) not in ((0, 1), (1, 0)):
        raise Unmapped("its lengths are missing, or its axes are not the first two")
    parts: list[Value] = []
    size = sizes(node[0])[axis]
    counts: list[int] = [int(n) for n in lengths.reshape(-1)]
    if len(counts) != sizes(node[0])[batch] or not all(0 <= count <= size for count in counts):
        raise Unmapped(
            f"lengths of sequences of {size} elements in a batch of {sizes(node[0])[batch]} that don't fit"
        )
    t.check_ops(4 * len(counts))
    for number, length in enumerate(counts):
        one = cut(t, node[0], batch, number, number + 1)
        turned = cut(t, one, axis, length - 1, -size - 1, -1) if length > 1 else cut(t, one, axis, 0, length)
        parts.append(
            concat(t, [turned, cut(t, one, axis, length, size)] if length < size else [turned], axis)
        )
    return concat(t, parts, batch)
