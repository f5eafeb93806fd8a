"""The larger operations of frameworks in ops of oneDNN Graph: convolutions, poolings, normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from ..model.logical_tensor import LogicalTensor
from .expressions import cast, reshape
from .translation import Padded, Translation, Unmapped, Value, dtype_of, shape_of, sizes


def convolution(
    t: Translation,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    strides: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    auto_pad: str = "None",
) -> LogicalTensor:
    """A convolution, with zeros that stand around its input already as its own padding."""
    spatial = len(shape_of(weight)) - 2
    begin, end = list(begin) or [0] * spatial, list(end) or [0] * spatial
    if isinstance(x, Padded) and auto_pad == "None" and not any((*x.begin[:2], *x.end[:2])):
        begin = [a + b for a, b in zip(begin, x.begin[2:], strict=True)]
        end = [a + b for a, b in zip(end, x.end[2:], strict=True)]
        x = x.base
    return t.op(
        "Convolution",
        x,
        weight,
        *(() if bias is None else (bias,)),
        strides=list(strides),
        pads_begin=begin,
        pads_end=end,
        dilations=list(dilations),
        groups=groups,
        auto_pad=auto_pad,
        data_format="NCX",
        weights_format="OIX",
    )


def transposed_convolution(
    t: Translation,
    x: Value,
    weight: Value,
    bias: Value | None,
    *,
    strides: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    dilations: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
) -> LogicalTensor:
    """A transposed convolution; weights are (I, O / groups, X)."""
    if min((*begin, *end), default=0) < 0:
        raise Unmapped(f"negative padding, {list(begin)} and {list(end)}")
    return t.op(
        "ConvTranspose",
        x,
        weight,
        *(() if bias is None else (bias,)),
        strides=list(strides),
        pads_begin=list(begin),
        pads_end=list(end),
        dilations=list(dilations),
        output_padding=list(output_padding),
        groups=groups,
        data_format="NCX",
        weights_format="IOX",
    )


def pooling(
    t: Translation,
    kind: str,
    x: Value,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    dilations: Sequence[int],
    ceil: bool,
    exclude_pad: bool = False,
    auto_pad: str = "None",
) -> Value:
    """MaxPool or AvgPool of (N, C, X), or of (C, X)."""
    spatial = len(kernel)
    shape = shape_of(x)
    if len(shape) == spatial + 1:
        with_batch = reshape(t, x, (1, *sizes(x)))
        pooled = pooling(
            t,
            kind,
            with_batch,
            kernel=kernel,
            strides=strides,
            begin=begin,
            end=end,
            dilations=dilations,
            ceil=ceil,
            exclude_pad=exclude_pad,
            auto_pad=auto_pad,
        )
        return reshape(t, pooled, shape_of(pooled)[1:])
    more: dict[str, object] = {"rounding_type": "ceil"} if ceil else {}
    begin, end = list(begin) or [0] * spatial, list(end) or [0] * spatial
    if kind == "MaxPool":
        more["dilations"] = list(dilations)
    else:
        if any(d != 1 for d in dilations):
            raise Unmapped("an average pooling with dilations")
        if auto_pad in ("None", "VALID") and not any((*begin, *end)):
            exclude_pad = True  # only a last window of ceil rounding can reach beyond, and that never counts
        elif ceil and not exclude_pad and _reaches_beyond(sizes(x)[2:], kernel, strides, begin, end):
            raise Unmapped("an average pooling with ceil rounding that counts some padding and some not")
        more["exclude_pad"] = exclude_pad
    return t.op(
        kind,
        x,
        kernel=list(kernel),
        strides=list(strides),
        pads_begin=begin,
        pads_end=end,
        auto_pad=auto_pad,
        data_format="NCX",
        **more,
    )


def _reaches_beyond(
    src: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
) -> bool:
    """Whether the last window of ceil rounding reaches beyond the padding."""
    return any((d + b + e - k) % s for d, k, s, b, e in zip(src, kernel, strides, begin, end, strict=True))


# --- normalisation ---------------------------------------------------------------------------------------


def _statistic(t: Translation, value: Value) -> Value:
    """Statistics and affine parameters are never f16."""
    return cast(t, value, np.dtype(np.float32)) if dtype_of(value) == np.float16 else value


def _or_full(
    t: Translation, value: Value | None, count: int | tuple[int, ...], fill: float, like: Value
) -> Value:
    if value is None:
        t.check_room(count if isinstance(count, tuple) else (count,), dtype_of(like))
        value = np.full(count, fill, dtype_of(like))
    return _statistic(t, value)


def batch_norm(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value,
    variance: Value,
    epsilon: float,
) -> LogicalTensor:
    """Normalisation of each channel by given statistics."""
    channels = sizes(mean)[0]
    gamma, beta = _or_full(t, gamma, channels, 1.0, mean), _or_full(t, beta, channels, 0.0, mean)
    return t.op(
        "BatchNormInference",
        x,
        gamma,
        beta,
        _statistic(t, mean),
        _statistic(t, variance),
        epsilon=epsilon,
        data_format="NCX",
    )


def layer_norm(
    t: Translation, x: Value, gamma: Value | None, beta: Value | None, axis: int, epsilon: float
) -> LogicalTensor:
    """Normalisation over the axes from `axis` on."""
    more: dict[str, object] = {"begin_norm_axis": axis, "keep_stats": False, "epsilon": epsilon}
    if gamma is None and beta is None:
        return t.op("LayerNorm", x, use_affine=False, **more)
    normalised = shape_of(x)[axis:]
    if -1 in normalised:
        sizes(x)
    gamma, beta = _or_full(t, gamma, normalised, 1.0, x), _or_full(t, beta, normalised, 0.0, x)
    return t.op("LayerNorm", x, gamma, beta, **more)


def group_norm(
    t: Translation, x: Value, groups: int, gamma: Value | None, beta: Value | None, epsilon: float
) -> LogicalTensor:
    """Normalisation of each image's groups of channels."""
    more: dict[str, object] = {
        "groups": groups,
        "keep_stats": False,
        "epsilon": epsilon,
        "data_format": "NCX",
    }
    if gamma is None and beta is None:
        return t.op("GroupNorm", x, use_affine=False, **more)
    channels = shape_of(x)[1]
    gamma, beta = _or_full(t, gamma, channels, 1.0, x), _or_full(t, beta, channels, 0.0, x)
    return t.op("GroupNorm", x, gamma, beta, **more)


# --- other sizes -----------------------------------------------------------------------------------------


def interpolate(
    t: Translation, x: Value, wanted: Sequence[int], mode: str, coordinates: str = "half_pixel"
) -> Value:
    """The data at other spatial sizes.

    Args:
        mode: nearest or linear.
        coordinates: half_pixel or align_corners.
    """
    if tuple(wanted) == shape_of(x)[2:]:
        return x
    return t.op(
        "Interpolate",
        x,
        mode=mode,
        sizes=list(wanted),
        coordinate_transformation_mode=coordinates,
        data_format="NCX",
    )


def nearest_agrees(size: int, wanted: int, indices: Sequence[int]) -> bool:
    """Whether Interpolate's nearest elements on an axis are these: floor((p + 1/2) · size / wanted).

    An exact half, where the last bit of a coordinate would decide, does not agree.
    """
    for position, index in enumerate(indices):
        at = Fraction(2 * position + 1, 2) * Fraction(size, wanted)
        if at.denominator == 1 or math.floor(at) != index:
            return False
    return True
