"""Gradients of convolutions, poolings and resizings, in ops of oneDNN Graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...importing.expressions import (
    reshape,
    unsqueeze,
)
from ...importing.layers import nearest_agrees
from ...importing.tables import Entries
from ...importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from ..layers import redivided, spread
from ..resizing import by_sizes, nearest_places
from ..schema import Translate

OPS = Entries[Translate]("aten.")
"""Op → its translation."""
OWN = Entries[Translate]("onednn_graph.")
"""The same for ops of our own, which torch.compile puts into torch's graphs."""
Mask = Sequence[bool]
"""Which gradients are wanted."""


# --- convolutions ----------------------------------------------------------------------------------------


@OPS.enter("convolution_backward")
def _convolution(
    t: Translation,
    gradient: Value,
    x: Value,
    weight: Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    mask: Mask,
) -> list[Value | None]:
    spatial = len(shape_of(weight)) - 2
    if len(shape_of(x)) == spatial + 1:
        image, given = (unsqueeze(t, value, [0]) for value in (x, gradient))
        window = (stride, padding, dilation, transposed, output_padding, groups)
        made = _convolution(t, given, image, weight, bias_sizes, *window, mask)
        if made[0] is not None:
            made[0] = reshape(t, made[0], shape_of(x))
        return made
    strides, pads, dilations = (spread(v, spatial) for v in (stride, padding, dilation))
    if min(pads, default=0) < 0:
        raise Unmapped(f"negative padding, {pads}")
    attributes: dict[str, Any] = {
        "strides": strides,
        "pads_begin": pads,
        "pads_end": pads,
        "dilations": dilations,
        "groups": groups,
        "data_format": "NCX",
        "weights_format": "IOX" if transposed else "OIX",
    }
    family = "ConvTranspose" if transposed else "Convolution"
    data: Value | None = None
    weights: Value | None = None
    bias: Value | None = None
    if mask[0]:
        whole = {} if transposed else {"dst_shape": list(sizes(x))}
        data = t.op(f"{family}BackwardData", gradient, weight, **attributes, **whole)
    if mask[1]:
        more = {"output_padding": spread(output_padding, spatial)} if transposed else {}
        shape = {"weights_shape": list(sizes(weight))}
        weights = t.op(f"{family}BackwardWeights", x, gradient, **attributes, **shape, **more)
    if mask[2]:
        bias = t.op("BiasAddBackward", gradient, data_format="NCX")
    return [data, weights, bias]


# --- poolings -------------------------------------------------------------------------------


def _max_pool(
    t: Translation,
    gradient: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
) -> Value:
    shape, count = sizes(x), len(kernel)
    if len(shape) == count + 1:
        one, whole = (unsqueeze(t, value, [0]) for value in (gradient, x))
        return reshape(t, _max_pool(t, one, whole, kernel, stride, padding, dilation, ceil), shape)
    windows = sizes(gradient)[2:]
    reach = [
        (number - 1) * step + spread * (taps - 1) + 1
        for number, step, spread, taps in zip(windows, stride, dilation, kernel, strict=True)
    ]
    after = [
        max(pad, far - size - pad) if ceil else pad
        for pad, far, size in zip(padding, reach, shape[2:], strict=True)
    ]
    return t.op(
        "MaxPoolBackward",
        x,
        gradient,
        kernel=list(kernel),
        strides=list(stride),
        pads_begin=list(padding),
        pads_end=after,
        dilations=list(dilation),
        data_format="NCX",
    )


OWN.add({"max_pool_backward": _max_pool})


@OPS.enter("avg_pool2d_backward", "avg_pool3d_backward")
def _average(
    t: Translation,
    gradient: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    count_pads: bool,
    divisor: int | None,
) -> Value:
    shape = sizes(x)
    spatial = len(shape) - 2 if len(shape) > 3 else 2
    if len(shape) != spatial + 2:
        raise Unmapped("a pooling without a batch")
    window, pads = spread(kernel, spatial), spread(padding, spatial)
    steps = spread(stride or window, spatial)
    if divisor is not None and ceil:
        raise Unmapped("an average pooling with a divisor of its own where windows have fewer elements")
    if ceil and any(
        (size + 2 * p - k) % s for size, p, k, s in zip(shape[2:], pads, window, steps, strict=True)
    ):
        raise Unmapped("an average pooling with ceil rounding whose last window is a part of one")
    return t.op(
        "AvgPoolBackward",
        redivided(t, gradient, math.prod(window), divisor),
        src_shape=list(shape),
        kernel=window,
        strides=steps,
        pads_begin=pads,
        pads_end=pads,
        exclude_pad=not count_pads and divisor is None,
        data_format="NCX",
    )


@OPS.enter("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _adaptive(t: Translation, gradient: Value, x: Value) -> Value:
    shape, wanted = sizes(x), sizes(gradient)
    if len(shape) < 4 or any(old % new for old, new in zip(shape[2:], wanted[2:], strict=True)):
        raise Unmapped("windows of different sizes")
    window = [old // new for old, new in zip(shape[2:], wanted[2:], strict=True)]
    return _average(t, gradient, x, window, window, [0], ceil=False, count_pads=False, divisor=None)


# --- sizes -----------------------------------------------------------------------------------------------


def _resized(
    t: Translation,
    gradient: Value,
    shape: Sequence[int],
    scales: Sequence[float | None],
    mode: str,
    coordinates: str,
) -> Value:
    """The gradient of an interpolation; of what was interpolated there is only the shape."""
    pairs = list(zip(shape[2:], sizes(gradient)[2:], strict=True))
    for (old, new), scale in zip(pairs, scales, strict=False):
        if mode == "nearest":
            places = nearest_places(old, new, scale).tolist()
            agrees = places == list(range(new)) if old == new else nearest_agrees(old, new, places)
            if not agrees:
                raise Unmapped(f"nearest elements of {old} for {new}, which are others in Interpolate")
        elif coordinates != "align_corners" and not by_sizes(old, new, scale):
            raise Unmapped(f"a resizing by {scale} from {old} elements, which leaves a part of one")
    if all(old == new for old, new in pairs):
        return gradient
    return t.op(
        "InterpolateBackward",
        np.zeros(shape, dtype_of(gradient)),
        gradient,
        mode=mode,
        sizes=[new for _, new in pairs],
        coordinate_transformation_mode=coordinates,
        data_format="NCX",
    )


@OPS.enter("upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward")
def _nearest(
    t: Translation, gradient: Value, wanted: Sequence[int], shape: Sequence[int], *scales: float | None
) -> Value:
    return _resized(t, gradient, shape, scales, "nearest", "half_pixel")


@OPS.enter("upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_trilinear3d_backward")
def _linear(
    t: Translation,
    gradient: Value,
    wanted: Sequence[int],
    shape: Sequence[int],
    align: bool,
    *scales: float | None,
) -> Value:
    return _resized(t, gradient, shape, scales, "linear", "align_corners" if align else "half_pixel")
