"""ATen ops in ops of oneDNN Graph: convolutions, poolings, normalisation, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..importing.attention import attention
from ..importing.expressions import (
    HALVES,
    axis_of,
    binary,
    cast,
    concat,
    cut,
    matmul,
    reduce,
    reshape,
    squeeze,
    transpose,
    unsqueeze,
)
from ..importing.layers import (
    batch_norm,
    convolution,
    group_norm,
    layer_norm,
    pooling,
    transposed_convolution,
)
from ..importing.tables import Entries
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .schema import Translate
from .statistics import by_batch

OPS = Entries[Translate]("aten.")
"""Op → its translation, by its name with the overload or without."""


def spread(values: int | Sequence[int], count: int) -> list[int]:
    """One value per spatial axis: torch lets one stand for all."""
    listed = [values] if isinstance(values, int) else list(values)
    return listed * count if len(listed) == 1 else listed


@OPS.enter("convolution")
def _convolution(
    t: Translation,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    count = len(shape_of(weight)) - 2
    if len(shape_of(x)) == count + 1:
        whole = _convolution(
            t,
            unsqueeze(t, x, [0]),
            weight,
            bias,
            stride,
            padding,
            dilation,
            transposed,
            output_padding,
            groups,
        )
        return squeeze(t, whole, [0])
    strides, pads, dilations = (spread(v, count) for v in (stride, padding, dilation))
    if transposed:
        return transposed_convolution(
            t,
            x,
            weight,
            bias,
            strides=strides,
            begin=pads,
            end=pads,
            dilations=dilations,
            output_padding=spread(output_padding, count),
            groups=groups,
        )
    return convolution(
        t, x, weight, bias, strides=strides, begin=pads, end=pads, dilations=dilations, groups=groups
    )


@OPS.enter("conv1d.default", "conv2d.default", "conv3d.default")
def _conv(
    t: Translation,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Value:
    return _convolution(t, x, weight, bias, stride, padding, dilation, False, [0], groups)


@OPS.enter("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def _conv_transpose(
    t: Translation,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    groups: int,
    dilation: Sequence[int],
) -> Value:
    return _convolution(t, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


@OPS.enter("_trilinear")
def _trilinear(
    t: Translation,
    a: Value,
    b: Value,
    c: Value,
    of_a: Sequence[int],
    of_b: Sequence[int],
    of_c: Sequence[int],
    summed: Sequence[int],
    *_: object,
) -> Value:
    """A bilinear layer: rows of a and c on both sides of each matrix of b, by two products."""
    if [list(one) for one in (of_a, of_b, of_c, summed)] != [[1, 3], [0], [1, 2], [2, 3]]:
        raise Unmapped("a product of three tensors that is no bilinear layer")
    outputs, left, right = sizes(b)
    side = reshape(t, transpose(t, b, [1, 0, 2]), [left, outputs * right])
    product = reshape(t, matmul(t, a, side), [-1, outputs, right])
    return reshape(t, matmul(t, product, unsqueeze(t, c, [2])), [sizes(a)[0], outputs])


# --- poolings --------------------------------------------------------------------------------------------


def max_pool(
    t: Translation,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil: bool,
    *,
    count: int,
) -> Value:
    """A max pooling over so many axes."""
    window, pads = spread(kernel, count), spread(padding, count)
    return pooling(
        t,
        "MaxPool",
        x,
        kernel=window,
        strides=spread(stride or window, count),
        begin=pads,
        end=pads,
        dilations=spread(dilation, count),
        ceil=ceil,
    )


def _avg_pool(
    t: Translation,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    count_pads: bool = True,
    divisor: int | None = None,
    *,
    count: int,
) -> Value:
    window, pads = spread(kernel, count), spread(padding, count)
    if divisor is not None and ceil:
        raise Unmapped("an average pooling with a divisor of its own where windows have fewer elements")
    pooled = pooling(
        t,
        "AvgPool",
        x,
        kernel=window,
        strides=spread(stride or window, count),
        begin=pads,
        end=pads,
        dilations=[1] * count,
        ceil=ceil,
        exclude_pad=not count_pads and divisor is None,
    )
    return redivided(t, pooled, math.prod(window), divisor)


def redivided(t: Translation, mean: Value, count: int, divisor: int | None) -> Value:
    """A mean of so many elements as their sum divided by another number."""
    return mean if divisor in (None, count) else binary(t, "Multiply", mean, count / divisor)


def _adaptive(t: Translation, x: Value, wanted: Sequence[int], *, kind: str, count: int) -> Value:
    """A pooling to a size: windows are equal where the size divides, and reduced one by one otherwise."""
    have = sizes(x)[-count:]
    target = [old if new is None else new for new, old in zip(spread(wanted, count), have, strict=True)]  # pyright: ignore[reportUnnecessaryComparison] -- torch takes None
    reduction = "ReduceMean" if kind == "AvgPool" else "ReduceMax"
    if all(size == 1 for size in target):
        return reduce(t, reduction, x, range(-count, 0), keep=True)
    if any(old % new for old, new in zip(have, target, strict=True)):
        own = dtype_of(x)
        if reduction == "ReduceMean" and own in HALVES:  # axis by axis, but rounded once
            x = cast(t, x, np.dtype(np.float32))
        for axis, size in zip(range(-count, 0), target, strict=True):
            x = _reduced_to(t, reduction, x, axis_of(x, axis), size)
        return cast(t, x, own)
    window = [old // new for old, new in zip(have, target, strict=True)]
    zeros = [0] * count
    return pooling(
        t, kind, x, kernel=window, strides=window, begin=zeros, end=zeros, dilations=[1] * count, ceil=False
    )


def _reduced_to(t: Translation, kind: str, x: Value, axis: int, wanted: int) -> Value:
    """One axis of an adaptive pooling. Windows are products of one window of each axis, so that axes go one by one."""
    have = sizes(x)[axis]
    if have == wanted:
        return x
    parts: list[Value] = []
    for place in range(wanted):
        start, stop = place * have // wanted, -(-(place + 1) * have // wanted)
        part = cut(t, x, axis, start, stop)
        parts.append(part if stop == start + 1 else reduce(t, kind, part, [axis], keep=True))
    return parts[0] if wanted == 1 else concat(t, parts, axis)


def _alone(function: Callable[..., Value], *given: Any, **more: Any) -> list[Value]:
    """The first of several results; nobody reads the others."""
    return [function(*given, **more)]


for _count in (1, 2, 3):
    OPS.add(
        {
            f"max_pool{_count}d": partial(max_pool, count=_count),
            f"avg_pool{_count}d": partial(_avg_pool, count=_count),
            f"adaptive_avg_pool{_count}d": partial(_adaptive, kind="AvgPool", count=_count),
            f"adaptive_max_pool{_count}d": partial(_alone, _adaptive, kind="MaxPool", count=_count),
        }
    )
    if _count > 1:
        OPS.add({f"_adaptive_avg_pool{_count}d": partial(_adaptive, kind="AvgPool", count=_count)})


# --- normalisation ---------------------------------------------------------------------------------------


@OPS.enter("_native_batch_norm_legit_no_training")
def _batch_norm_core(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value,
    variance: Value,
    momentum: float,
    epsilon: float,
) -> list[Value]:
    return [batch_norm(t, x, gamma, beta, mean, variance, epsilon)]


@OPS.enter("batch_norm")
def _batch_norm(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value | None,
    variance: Value | None,
    training: bool,
    momentum: float,
    epsilon: float,
    *_: object,
) -> Value:
    if mean is None or variance is None:
        return by_batch(t, x, gamma, beta, epsilon)[0]
    if training:
        raise Unmapped("a batch normalisation that moves statistics which it does not return")
    return batch_norm(t, x, gamma, beta, mean, variance, epsilon)


@OPS.enter("layer_norm")
def _layer_norm(
    t: Translation,
    x: Value,
    normalised: Sequence[int],
    gamma: Value | None,
    beta: Value | None,
    epsilon: float,
    *_: object,
) -> Value:
    return layer_norm(t, x, gamma, beta, len(shape_of(x)) - len(normalised), epsilon)


OPS.add({"native_layer_norm": partial(_alone, _layer_norm)})


@OPS.enter("rms_norm")
def _rms_norm(
    t: Translation, x: Value, normalised: Sequence[int], gamma: Value | None, epsilon: float | None
) -> Value:
    if epsilon is None:
        if dtype_of(x) in HALVES:  # torch's versions differ: that of the halves, or of what it computes in
            raise Unmapped(
                f"an epsilon that depends on torch's version where the data is {dtype_of(x)}; give it"
            )
        epsilon = float(np.finfo(dtype_of(x)).eps)
    axis = len(shape_of(x)) - len(normalised)
    return t.op(
        "RMSNorm", x, *(() if gamma is None else (gamma,)), begin_norm_axis=axis, epsilon=float(epsilon)
    )


@OPS.enter("native_group_norm")
def _group_norm_core(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    batch: int,
    channels: int,
    elements: int,
    groups: int,
    epsilon: float,
) -> list[Value]:
    return [group_norm(t, x, groups, gamma, beta, epsilon)]


@OPS.enter("group_norm")
def _group_norm(
    t: Translation, x: Value, groups: int, gamma: Value | None, beta: Value | None, epsilon: float, *_: object
) -> Value:
    return group_norm(t, x, groups, gamma, beta, epsilon)


@OPS.enter("instance_norm")
def _instance_norm(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value | None,
    variance: Value | None,
    use_input: bool,
    momentum: float,
    epsilon: float,
    *_: object,
) -> Value:
    if use_input:
        return group_norm(t, x, sizes(x)[1], gamma, beta, epsilon)
    if mean is None or variance is None:
        raise Unmapped("an instance normalisation without statistics")
    return batch_norm(t, x, gamma, beta, mean, variance, epsilon)


# --- attention -------------------------------------------------------------------------------------------


def _dropping_nothing(t: Translation, weights: Value, p: float) -> Value:
    if p:
        raise Unmapped("attention with dropout")
    return weights


@OPS.enter("scaled_dot_product_attention")
def attended(
    t: Translation,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
    grouped: bool = False,
    *,
    drop: Callable[[Translation, Value, float], Value] = _dropping_nothing,
) -> Value:
    """Attention, with what is done to the softmax for a chance to drop."""

    def dropped(weights: Value) -> Value:
        return drop(t, weights, dropout)

    return attention(t, query, key, value, mask, causal=causal, scale=scale, grouped=grouped, drop=dropped)


@OPS.enter("_scaled_dot_product_flash_attention_for_cpu")
def _attended_on_cpu(
    t: Translation,
    query: Value,
    key: Value,
    value: Value,
    dropout: float,
    causal: bool,
    mask: Value | None,
    scale: float | None,
) -> list[Value]:
    """What torch makes of attention on the CPU where gradients are not asked for: those read the second result too."""
    if dtype_of(query) != np.float32:
        raise Unmapped(f"attention of {dtype_of(query)}, which torch rounds once")
    return [attended(t, query, key, value, mask, dropout, causal, scale, grouped=True)]
