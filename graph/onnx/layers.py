"""ONNX ops in ops of oneDNN Graph: convolutions, poolings, normalisation, resizing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...ops.spatial import effective_kernel, same_pads
from ..importing.attention import attention
from ..importing.expressions import axis_of, binary, reshape, transpose
from ..importing.layers import (
    batch_norm,
    convolution,
    group_norm,
    interpolate,
    layer_norm,
    nearest_agrees,
    pooling,
    transposed_convolution,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, shape_of, sizes
from ..runtime.arrays import Array
from .node import Node, Translate

OPS = Entries[Translate]()
"""ONNX op → its translation."""

MOST_POSITIONS = 1 << 16
"""Elements of an axis of which each one's place is worked out."""
F32_ROUNDING = Fraction(1, 2**23)


def _auto_pad(node: Node) -> str:
    """OneDNN Graph's word for it."""
    given = node.get("auto_pad", "NOTSET") or "NOTSET"
    return "None" if given == "NOTSET" else given


def _halves(pads: Sequence[int], spatial: int) -> tuple[list[int], list[int]]:
    """ONNX's pads, which are all the first and then all the last."""
    pads = list(pads) or [0] * (2 * spatial)
    if len(pads) != 2 * spatial:
        raise Unmapped(f"pads {pads} for {spatial} spatial axes; each takes one before and one behind")
    return pads[:spatial], pads[spatial:]


def _check_kernel(node: Node, kernel: Sequence[int]) -> None:
    """Checks that the size of the window is that of the weights, where the node says it too."""
    said: Sequence[int] = node.get("kernel_shape", kernel)
    if len(said) != len(kernel) or any(b not in (a, -1) for a, b in zip(said, kernel, strict=True)):
        raise Unmapped(f"kernel_shape {list(said)} for weights of {list(kernel)}")


@OPS.enter("Conv")
def _conv(t: Translation, node: Node) -> Value:
    return convolution(t, node[0], node[1], node.optional(2), **convolution_attributes(node))


def convolution_attributes(node: Node) -> dict[str, Any]:
    """What a convolution's node says, as `convolution` takes it."""
    spatial = len(shape_of(node[1])) - 2
    _check_kernel(node, shape_of(node[1])[2:])
    begin, end = _halves(node.get("pads", []), spatial)
    return {
        "strides": node.get("strides", [1] * spatial),
        "begin": begin,
        "end": end,
        "dilations": node.get("dilations", [1] * spatial),
        "groups": node.get("group", 1),
        "auto_pad": _auto_pad(node),
    }


@OPS.enter("ConvTranspose")
def _conv_transpose(t: Translation, node: Node) -> Value:
    kernel = sizes(node[1])[2:]
    _check_kernel(node, kernel)
    spatial = len(kernel)
    strides = node.get("strides", [1] * spatial)
    dilations = node.get("dilations", [1] * spatial)
    extra = node.get("output_padding", [0] * spatial)
    begin, end = _halves(node.get("pads", []), spatial)
    auto_pad = _auto_pad(node)
    wanted = node.get("output_shape")
    if auto_pad == "VALID":
        begin, end = [0] * spatial, [0] * spatial
    elif auto_pad != "None" or wanted:
        src = sizes(node[0])[2:]
        extra = list(extra)
        begin.clear()
        end.clear()
        for axis in range(spatial):
            extent = effective_kernel(kernel[axis], dilations[axis])
            size = wanted[axis - spatial] if wanted else src[axis] * strides[axis]
            total = strides[axis] * (src[axis] - 1) + extra[axis] + extent - size
            # ONNX splits like SAME_LOWER unless the word is SAME_UPPER.
            if total < 0:  # more than the windows reach: zeros behind them, as output_padding adds
                extra[axis] -= total
                total = 0
            first, last = same_pads(total, "SAME_UPPER" if auto_pad == "SAME_UPPER" else "SAME_LOWER")
            begin.append(first)
            end.append(last)
    return transposed_convolution(
        t,
        node[0],
        node[1],
        node.optional(2),
        strides=strides,
        begin=begin,
        end=end,
        dilations=dilations,
        output_padding=extra,
        groups=node.get("group", 1),
    )


@OPS.enter("MaxPool", "AveragePool")
def _pool(t: Translation, node: Node) -> Value:
    kernel = node.get("kernel_shape")
    spatial = len(kernel)
    begin, end = _halves(node.get("pads", []), spatial)
    return pooling(
        t,
        "MaxPool" if node.kind == "MaxPool" else "AvgPool",
        node[0],
        kernel=kernel,
        strides=node.get("strides", [1] * spatial),
        begin=begin,
        end=end,
        dilations=node.get("dilations", [1] * spatial),
        ceil=bool(node.get("ceil_mode", 0)),
        exclude_pad=not node.get("count_include_pad", 0),
        auto_pad=_auto_pad(node),
    )


@OPS.enter("BatchNormalization")
def batch_normalization(t: Translation, node: Node) -> Value:
    """By the statistics of the model."""
    # Before opset 14, more outputs than one say that it is in training.
    if node.get("training_mode", 0) or (node.opset < 14 and node.listed > 1):
        raise Unmapped("a batch normalisation in training mode")
    return batch_norm(t, node[0], node[1], node[2], node[3], node[4], node.get("epsilon", 1e-5))


@OPS.enter("LayerNormalization")
def _layer_normalization(t: Translation, node: Node) -> Value:
    axis, epsilon = axis_of(node[0], node.get("axis", -1)), node.get("epsilon", 1e-5)
    scale, bias, shape = node[1], node.optional(2), shape_of(node[0])
    given = [shape_of(one) for one in (scale, bias) if one is not None]
    known = -1 not in itertools.chain(shape, *given)
    if not known or all(one == shape[axis:] for one in given):
        return layer_norm(t, node[0], scale, bias, axis, epsilon)
    if any(np.broadcast_shapes(shape, one) != shape for one in given):
        raise Unmapped(f"scale and bias of shapes {[list(one) for one in given]} for {list(shape)}")
    # One number for each of the last axis, say, where several axes are normalised together.
    made = binary(t, "Multiply", layer_norm(t, node[0], None, None, axis, epsilon), scale)
    return made if bias is None else binary(t, "Add", made, bias)


@OPS.enter("RMSNormalization")
def _rms_normalization(t: Translation, node: Node) -> Value:
    axis = axis_of(node[0], node.get("axis", -1))
    return t.op("RMSNorm", node[0], node[1], begin_norm_axis=axis, epsilon=node.get("epsilon", 1e-5))


@OPS.enter("InstanceNormalization")
def _instance_normalization(t: Translation, node: Node) -> Value:
    channels = sizes(node[1])[0]
    return group_norm(t, node[0], channels, node[1], node[2], node.get("epsilon", 1e-5))


@OPS.enter("GroupNormalization")
def _group_normalization(t: Translation, node: Node) -> Value:
    groups, channels = node.positive("num_groups"), shape_of(node[0])[1]
    gamma, beta = node[1], node[2]
    if node.opset < 21:  # one number per group then
        if channels < 0 or not isinstance(gamma, np.ndarray) or not isinstance(beta, np.ndarray):
            raise Unmapped("a group normalisation whose parameters are computed, one per group")
        gamma, beta = (np.repeat(one, channels // groups) for one in (gamma, beta))
    return group_norm(t, node[0], groups, gamma, beta, node.get("epsilon", 1e-5))


@OPS.enter("Attention")
def _attention(t: Translation, node: Node) -> Value:
    if any(node.optional(index) is not None for index in range(4, 7)):
        raise Unmapped("attention with keys and values of the past, or with lengths")
    query, key, value = node[0], node[1], node[2]
    flat = len(shape_of(query)) == 3  # (N, L, heads · E)
    if flat:
        query = _heads(t, query, node.positive("q_num_heads"))
        key, value = (_heads(t, x, node.positive("kv_num_heads")) for x in (key, value))
    mask = node.optional(3)
    if mask is not None and shape_of(mask)[-1:] != shape_of(key)[-2:-1]:
        raise Unmapped("attention with a mask for fewer keys than there are")
    result = attention(
        t,
        query,
        key,
        value,
        mask,
        causal=bool(node.get("is_causal", 0)),
        scale=node.get("scale"),
        grouped=True,
    )
    if not flat:
        return result
    n, heads, length, each = sizes(result)
    return reshape(t, transpose(t, result, (0, 2, 1, 3)), (n, length, heads * each))


def _heads(t: Translation, x: Value, count: int) -> Value:
    n, length, width = sizes(x)
    return transpose(t, reshape(t, x, (n, length, count, width // count)), (0, 2, 1, 3))


# --- resizing --------------------------------------------------------------------------------------------


def _per_axis(given: Array, axes: Sequence[int], what: str) -> list[float]:
    values = [float(value) for value in given.reshape(-1)]
    if len(values) != len(axes) or any(not math.isfinite(value) or value <= 0 for value in values):
        raise Unmapped(f"{what} {values} for {len(axes)} axes; each takes one above 0")
    return values


def _sizes_wanted(node: Node, have: tuple[int, ...]) -> tuple[list[int], list[Fraction]]:
    """Output sizes of all axes, and the scales that coordinates are computed with."""
    if 0 in have:
        raise Unmapped("a resizing of a tensor without elements")
    axes = [axis_of(node[0], axis) for axis in node.get("axes", range(len(have)))]
    given = node.constant(3, "sizes") if node.kind == "Resize" else None
    if given is not None and given.size:
        if node.get("keep_aspect_ratio_policy", "stretch") != "stretch":
            raise Unmapped(f"keep_aspect_ratio_policy {node.get('keep_aspect_ratio_policy')!r}")
        wanted = list(have)
        for axis, size in zip(axes, _per_axis(given, axes, "sizes"), strict=True):
            wanted[axis] = int(size)
        return wanted, [Fraction(b, a) for a, b in zip(have, wanted, strict=True)]
    factors = node.constant(2 if node.kind == "Resize" else 1, "scales")
    if factors is None or not factors.size:
        raise Unmapped("neither sizes nor scales are given")
    scales = [Fraction(1)] * len(have)
    for axis, factor in zip(axes, _per_axis(factors, axes, "scales"), strict=True):
        scales[axis] = Fraction(factor)
    wanted = [math.floor(d * s) for d, s in zip(have, scales, strict=True)]
    if 0 in wanted:
        raise Unmapped(f"a resizing of {list(have)} to {wanted}")
    return wanted, [_exact(s, Fraction(w, d)) for s, w, d in zip(scales, wanted, have, strict=True)]


def _exact(scale: Fraction, ratio: Fraction) -> Fraction:
    """The ratio of the sizes where the scale is it but for its rounding to f32."""
    return ratio if abs(scale - ratio) <= ratio * F32_ROUNDING else scale


def _coordinate(kind: str, position: int, size: int, wanted: int, scale: Fraction) -> Fraction:
    """Where an element of the output lies in the input."""
    if kind == "align_corners":
        return Fraction(position * (size - 1), wanted - 1) if wanted > 1 else Fraction(0)
    if kind == "asymmetric":
        return position / scale
    if kind == "half_pixel_symmetric":  # the middles of both lie on each other
        return (position + Fraction(1, 2) - Fraction(wanted, 2)) / scale + Fraction(size - 1, 2)
    if kind == "half_pixel" or (kind == "pytorch_half_pixel" and wanted > 1):
        return (position + Fraction(1, 2)) / scale - Fraction(1, 2)
    if kind == "pytorch_half_pixel":
        return Fraction(0)
    raise Unmapped(f"coordinates of kind {kind!r}")


def _nearest(at: Fraction, rounding: str) -> int:
    if rounding == "floor":
        return math.floor(at)
    if rounding == "ceil":
        return math.ceil(at)
    if rounding == "round_prefer_ceil":
        return math.floor(at + Fraction(1, 2))
    if rounding != "round_prefer_floor":
        raise Unmapped(f"nearest_mode {rounding!r}")
    return math.ceil(at - Fraction(1, 2))


@OPS.enter("Resize", "Upsample")
def _resize(t: Translation, node: Node) -> Value:
    have = sizes(node[0])
    wanted, scales = _sizes_wanted(node, have)
    if wanted[:2] != list(have[:2]) or scales[:2] != [1, 1]:
        raise Unmapped("a resizing of the batch or the channels")
    if max(wanted) > MOST_POSITIONS:
        raise Unmapped(f"a resizing to {wanted}; an axis may have {MOST_POSITIONS:,} elements")
    old_upsample = node.kind == "Upsample"
    kind = "asymmetric" if old_upsample else node.get("coordinate_transformation_mode", "half_pixel")
    mode = node.get("mode", "nearest")
    rounding = "floor" if old_upsample else node.get("nearest_mode", "round_prefer_floor")
    if mode not in ("nearest", "linear"):
        raise Unmapped(f"a resizing of mode {mode!r}")
    # Also where an axis keeps its size: a scale that leaves a part of an element over moves the others.
    for size, want, scale in zip(have[2:], wanted[2:], scales[2:], strict=True):
        if kind == "align_corners" and scale * size != want:
            raise Unmapped(f"a scale of {float(scale)} for {size} elements with coordinates of kind {kind!r}")
        positions = range(want) if mode == "nearest" else (0, want - 1)  # two say where a line goes
        places = [_coordinate(kind, p, size, want, scale) for p in positions]
        if mode == "nearest":
            indices = [min(max(_nearest(at, rounding), 0), size - 1) for at in places]
            if not nearest_agrees(size, want, indices):
                raise Unmapped(
                    f"nearest elements of {size} for {want}, {kind} and {rounding}, are others in Interpolate"
                )
        elif kind != "align_corners":
            usual = [_coordinate("half_pixel", p, size, want, Fraction(want, size)) for p in positions]
            if places != usual:
                raise Unmapped(
                    f"linear interpolation from {size} to {want} with coordinates of kind {kind!r} and the scale "
                    f"{float(scale)}"
                )
    coordinates = "align_corners" if kind == "align_corners" and mode == "linear" else "half_pixel"
    return interpolate(t, node[0], wanted[2:], mode, coordinates)
