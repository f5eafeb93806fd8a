"""ATen ops that only autograd makes, and forward ops that keep more for it, in ops of oneDNN Graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..importing.expressions import (
    FLOATS,
    Operand,
    axis_of,
    binary,
    cast,
    concat,
    cut,
    matmul,
    negative,
    pad,
    reduce,
    reshape,
    unsqueeze,
)
from ..importing.layers import nearest_agrees
from ..importing.translation import Translation, Unmapped, Value, dtype_of, shape_of, sizes
from .elementwise import numpy_type_of
from .layers import spread
from .training import TRAINING, inverse_deviation

BACKWARD: dict[str, Callable[..., Any]] = {}
"""Name → translation, in the manner of the importers' tables."""
Mask = Sequence[bool]
"""Which gradients are wanted."""
_WIDE = np.dtype(np.float32)
"""In which statistics are computed: those of halves are rounded once, as torch does."""


def _enter(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        BACKWARD.update({f"aten.{name}": function for name in names})
        return function

    return enter


# --- convolutions ----------------------------------------------------------------------------------------


@_enter("convolution_backward")
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
        outer = [unsqueeze(t, value, [0]) for value in (gradient, x)]
        made = _convolution(
            t, *outer, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask
        )
        if made[0] is not None:
            made[0] = reshape(t, made[0], shape_of(x))
        return made
    strides, pads, dilations = (spread(v, spatial) for v in (stride, padding, dilation))
    if min(pads, default=0) < 0:
        raise Unmapped(f"negative padding, {pads}")
    window: dict[str, Any] = {
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
        data = t.op(f"{family}BackwardData", gradient, weight, **window, **whole)
    if mask[1]:
        more = {"output_padding": spread(output_padding, spatial)} if transposed else {}
        shape = {"weights_shape": list(sizes(weight))}
        weights = t.op(f"{family}BackwardWeights", x, gradient, **window, **shape, **more)
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


BACKWARD["onednn_graph.max_pool_backward"] = _max_pool


@_enter("avg_pool2d_backward", "avg_pool3d_backward")
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
    if divisor is not None:
        raise Unmapped(f"an average pooling that divides by {divisor}")
    if ceil and any(
        (size + 2 * p - k) % s for size, p, k, s in zip(shape[2:], pads, window, steps, strict=True)
    ):
        raise Unmapped("an average pooling with ceil rounding whose last window is a part of one")
    return t.op(
        "AvgPoolBackward",
        gradient,
        src_shape=list(shape),
        kernel=window,
        strides=steps,
        pads_begin=pads,
        pads_end=pads,
        exclude_pad=not count_pads,
        data_format="NCX",
    )


@_enter("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _adaptive(t: Translation, gradient: Value, x: Value) -> Value:
    shape, wanted = sizes(x), sizes(gradient)
    if len(shape) < 4 or any(old % new for old, new in zip(shape[2:], wanted[2:], strict=True)):
        raise Unmapped("windows of different sizes")
    window = [old // new for old, new in zip(shape[2:], wanted[2:], strict=True)]
    zeros = [0] * len(window)
    return t.op(
        "AvgPoolBackward",
        gradient,
        src_shape=list(shape),
        kernel=window,
        strides=window,
        pads_begin=zeros,
        pads_end=zeros,
        exclude_pad=True,
        data_format="NCX",
    )


# --- element by element ----------------------------------------------------------------------------------


@_enter("threshold_backward")
def _threshold(t: Translation, gradient: Value, x: Value, threshold: float) -> Value:
    if threshold != 0:
        raise Unmapped(f"a threshold of {threshold}")
    return t.op("ReLUBackward", x, gradient, use_dst=False)


def _of_input(t: Translation, gradient: Value, x: Value, *, kind: str) -> Value:
    return t.op(kind, x, gradient)


def _of_result(t: Translation, gradient: Value, result: Value, *, kind: str) -> Value:
    return t.op(kind, result, gradient, use_dst=True)


BACKWARD.update(
    {
        "aten.hardswish_backward": partial(_of_input, kind="HardSwishBackward"),
        "aten.mish_backward": partial(_of_input, kind="MishBackward"),
        "aten.sigmoid_backward": partial(_of_result, kind="SigmoidBackward"),
        "aten.tanh_backward": partial(_of_result, kind="TanhBackward"),
    }
)


@_enter("hardsigmoid_backward")
def _hard_sigmoid(t: Translation, gradient: Value, x: Value) -> Value:
    return t.op("HardSigmoidBackward", x, gradient, alpha=1 / 6, beta=0.5)


@_enter("gelu_backward")
def _gelu(t: Translation, gradient: Value, x: Value, approximate: str = "none") -> Value:
    return t.op("GELUBackward", x, gradient, mode="gelu_tanh" if approximate == "tanh" else "gelu_erf")


@_enter("silu_backward")
def _silu(t: Translation, gradient: Value, x: Value) -> Value:
    """With s = sigmoid(x): gradient · (s + x · s · (1 − s))."""
    slope = t.op("Sigmoid", x)
    slope = t.op("Add", slope, t.op("SigmoidBackward", slope, x, use_dst=True))
    return t.op("Multiply", gradient, slope)


@_enter("hardtanh_backward")
def _hard_tanh(t: Translation, gradient: Value, x: Value, low: float, high: float) -> Value:
    return t.op("ClampBackward", x, gradient, min=float(low), max=float(high), use_dst=False)


@_enter("elu_backward")
def _elu(
    t: Translation,
    gradient: Value,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    x: Value,
) -> Value:
    if scale != 1 or input_scale != 1 or (is_result and alpha < 0):
        raise Unmapped(f"alpha {alpha}, scales {scale} and {input_scale}")
    return t.op("EluBackward", x, gradient, alpha=float(alpha), use_dst=is_result)


@_enter("leaky_relu_backward")
def _leaky(t: Translation, gradient: Value, x: Value, slope: float, is_result: bool) -> Value:
    if is_result and slope < 0:
        raise Unmapped(f"a slope of {slope}, by which the result does not tell the sign")
    above = t.op("ReLUBackward", x, gradient, use_dst=False)
    rest = binary(t, "Multiply", t.op("Subtract", gradient, above), slope)
    return t.op("Add", above, rest)


@_enter("softplus_backward")
def _soft_plus(t: Translation, gradient: Value, x: Value, beta: float, threshold: float) -> Value:
    if threshold < 20:
        raise Unmapped(f"a threshold of {threshold}")
    return t.op("SoftPlusBackward", x, gradient, beta=float(beta))


@_enter("log_sigmoid_backward")
def _log_sigmoid(t: Translation, gradient: Value, x: Value, buffer: Value) -> Value:
    return t.op("Multiply", gradient, t.op("Sigmoid", negative(t, x)))


@_enter("_prelu_kernel")
def _prelu(t: Translation, x: Value, slope: Value) -> Value:
    """The slope has as many axes as the data, all of one element but that of the channels."""
    return t.op("PReLU", x, _slopes(t, x, slope), data_format="NCX", per_channel_broadcast=True)


def _slopes(t: Translation, x: Value, slope: Value) -> Value:
    count = math.prod(sizes(slope))
    if count > 1 and (len(shape_of(x)) < 2 or sizes(slope)[1] != count):
        raise Unmapped(f"slopes of shape {list(sizes(slope))}")
    return reshape(t, slope, [count])


@_enter("_prelu_kernel_backward")
def _prelu_backward(t: Translation, gradient: Value, x: Value, slope: Value) -> list[Value]:
    """By the data, and by the slope before anything is added up."""
    data, _ = t.ops("PReLUBackward", x, _slopes(t, x, slope), gradient, data_format="NCX")
    return [data, t.op("Multiply", gradient, binary(t, "Minimum", x, 0.0))]


def _halves(t: Translation, x: Value, axis: int) -> tuple[Value, Value]:
    size = sizes(x)[axis]
    return cut(t, x, axis, 0, size // 2), cut(t, x, axis, size // 2, size)


@_enter("glu")
def _glu(t: Translation, x: Value, axis: int = -1) -> Value:
    data, gate = _halves(t, x, axis)
    return binary(t, "Multiply", data, t.op("Sigmoid", gate))


@_enter("glu_backward")
def _glu_backward(t: Translation, gradient: Value, x: Value, axis: int) -> Value:
    data, gate = _halves(t, x, axis)
    opened = t.op("Sigmoid", gate)
    by_gate = t.op("SigmoidBackward", opened, binary(t, "Multiply", gradient, data), use_dst=True)
    return concat(t, [binary(t, "Multiply", gradient, opened), by_gate], axis)


@_enter("addcmul")
def _add_product(t: Translation, x: Value, a: Value, b: Value, factor: float = 1) -> Value:
    return _add_part(t, x, a, b, factor, "Multiply")


@_enter("addcdiv")
def _add_quotient(t: Translation, x: Value, a: Value, b: Value, factor: float = 1) -> Value:
    return _add_part(t, x, a, b, factor, "Divide")


def _add_part(t: Translation, x: Value, a: Value, b: Value, factor: float, kind: str) -> Value:
    types = {dtype_of(one) for one in (x, a, b)}
    if types != {np.dtype(np.float32)}:  # torch rounds halves once only
        raise Unmapped(f"types {', '.join(sorted(map(str, types)))}")
    part: Value = binary(t, kind, a, b)
    return binary(t, "Add", x, part if factor == 1 else binary(t, "Multiply", part, factor))


@_enter("fill.Scalar")
def _filled(t: Translation, x: Value, value: float) -> Value:
    return np.full(sizes(x), value, dtype_of(x))


@_enter("new_full")
def _new_full(
    t: Translation, x: Value, shape: Sequence[int], value: float, dtype: object = None, *_: object
) -> Value:
    return np.full(shape, value, dtype_of(x) if dtype is None else numpy_type_of(dtype))


@_enter("new_zeros")
def _new_zeros(t: Translation, x: Value, shape: Sequence[int], dtype: object = None, *_: object) -> Value:
    return _new_full(t, x, shape, 0, dtype)


@_enter("new_ones")
def _new_ones(t: Translation, x: Value, shape: Sequence[int], dtype: object = None, *_: object) -> Value:
    return _new_full(t, x, shape, 1, dtype)


@_enter("div.Tensor_mode", "div.Scalar_mode")
def _rounded_quotient(t: Translation, a: Value, b: Operand, mode: str | None = None) -> Value:
    if mode is not None and any(
        dtype_of(one) in FLOATS for one in (a, b) if not isinstance(one, int | float)
    ):
        raise Unmapped("a rounded quotient, which a rounding before that would change")
    if mode is not None and isinstance(b, float):
        raise Unmapped(f"integers divided by {b}")
    return TRAINING["aten.div.Tensor_mode"](t, a, b, mode)


@_enter("floor_divide")
def _floor_divide(t: Translation, a: Value, b: Operand) -> Value:
    return _rounded_quotient(t, a, b, "floor")


@_enter("mse_loss_backward")
def _squares(t: Translation, gradient: Value, x: Value, target: Value, reduction: int) -> Value:
    factor = 2 / math.prod(sizes(x)) if reduction == 1 else 2.0
    away = binary(t, "Multiply", binary(t, "Subtract", x, target), factor)
    return binary(t, "Multiply", away, gradient)


@_enter("mse_loss")
def _mean_squares(t: Translation, x: Value, target: Value, reduction: int = 1) -> Value:
    made = binary(t, "SquaredDifference", x, target)
    if reduction == 0:
        return made
    return reduce(t, "ReduceMean" if reduction == 1 else "ReduceSum", made, [], keep=False)


# --- softmax ---------------------------------------------------------------------------------------------


def _softmax(
    t: Translation, gradient: Value, result: Value, axis: int, input_type: object, *, kind: str
) -> Value:
    made = t.op(kind, gradient, result, axis=axis_of(result, axis))
    return cast(t, made, numpy_type_of(input_type))


BACKWARD.update(
    {
        "aten._softmax_backward_data": partial(_softmax, kind="SoftMaxBackward"),
        "aten._log_softmax_backward_data": partial(_softmax, kind="LogSoftmaxBackward"),
    }
)


# --- normalisation ---------------------------------------------------------------------------------------


def _variance(t: Translation, inverse: Value) -> Value:
    """The variance with epsilon, of which `inverse` is 1 / √: gradient ops are given it with an epsilon of 0."""
    return t.op("Pow", inverse, beta=-2.0)


def _along(t: Translation, vector: Value, rank: int) -> Value:
    """One value per channel, with as many axes as the data."""
    return reshape(t, vector, [1, -1, *[1] * (rank - 2)])


@_enter("native_batch_norm_backward")
def _batch_norm(
    t: Translation,
    gradient: Value,
    x: Value,
    gamma: Value | None,
    mean: Value | None,
    variance: Value | None,
    batch_mean: Value | None,
    batch_inverse: Value | None,
    train: bool,
    epsilon: float,
    mask: Mask,
) -> list[Value | None]:
    if not train:
        return _batch_norm_by_statistics(t, gradient, x, gamma, mean, variance, epsilon, mask)
    if batch_mean is None or batch_inverse is None:
        raise Unmapped("statistics of the batch are missing")
    scale = np.ones(sizes(x)[1], _WIDE) if gamma is None else cast(t, gamma, _WIDE)
    data, *rest = t.ops(
        "BatchNormTrainingBackward",
        x,
        gradient,
        cast(t, batch_mean, _WIDE),
        _variance(t, cast(t, batch_inverse, _WIDE)),
        scale,
        epsilon=0.0,
        data_format="NCX",
    )
    kept = dtype_of(batch_mean if gamma is None else gamma)
    made = [data, *(cast(t, one, kept) for one in rest)]
    return [value if wanted else None for value, wanted in zip(made, mask, strict=True)]


def _batch_norm_by_statistics(
    t: Translation,
    gradient: Value,
    x: Value,
    gamma: Value | None,
    mean: Value | None,
    variance: Value | None,
    epsilon: float,
    mask: Mask,
) -> list[Value | None]:
    """Of a normalisation by statistics that are given, and so constant."""
    if mean is None or variance is None:
        raise Unmapped("running statistics are missing")
    kept, rank = dtype_of(mean if gamma is None else gamma), len(shape_of(x))
    wide = cast(t, gradient, _WIDE)
    inverse = inverse_deviation(t, cast(t, variance, _WIDE), epsilon)
    data: Value | None = None
    scale: Value | None = None
    if mask[0]:
        factor = inverse if gamma is None else t.op("Multiply", inverse, cast(t, gamma, _WIDE))
        data = cast(t, t.op("Multiply", wide, _along(t, factor, rank)), dtype_of(x))
    if mask[1]:
        away = t.op("Subtract", cast(t, x, _WIDE), _along(t, cast(t, mean, _WIDE), rank))
        total = t.op("BiasAddBackward", t.op("Multiply", wide, away), data_format="NCX")
        scale = cast(t, t.op("Multiply", total, inverse), kept)
    shift = cast(t, t.op("BiasAddBackward", wide, data_format="NCX"), kept) if mask[2] else None
    return [data, scale, shift]


@_enter("_native_batch_norm_legit_functional")
def _batch_norm_moving(
    t: Translation,
    x: Value,
    gamma: Value | None,
    beta: Value | None,
    mean: Value,
    variance: Value,
    training: bool,
    momentum: float,
    epsilon: float,
) -> list[Value]:
    """The importers' with statistics in f32, also where weights and running statistics are half."""
    scale, shift = (None if one is None else cast(t, one, _WIDE) for one in (gamma, beta))
    running = (cast(t, one, _WIDE) for one in (mean, variance))
    importers = TRAINING["aten._native_batch_norm_legit_functional"]
    return importers(t, x, scale, shift, *running, training, momentum, epsilon)


@_enter("native_layer_norm")
def _layer_norm_kept(
    t: Translation,
    x: Value,
    normalised: Sequence[int],
    gamma: Value | None,
    beta: Value | None,
    epsilon: float,
) -> list[Value]:
    axis = len(shape_of(x)) - len(normalised)
    kept = dtype_of(next(one for one in (gamma, beta, x) if one is not None))
    affine: list[Value] = []
    if gamma is not None or beta is not None:
        affine = [
            np.ones(normalised, _WIDE) if gamma is None else cast(t, gamma, _WIDE),
            np.zeros(normalised, _WIDE) if beta is None else cast(t, beta, _WIDE),
        ]
    dst, mean, variance = t.ops(
        "LayerNorm",
        x,
        *affine,
        begin_norm_axis=axis,
        keep_stats=True,
        use_affine=bool(affine),
        epsilon=epsilon,
    )
    column = [*shape_of(x)[:axis], *[1] * len(normalised)]
    inverse = inverse_deviation(t, variance, epsilon)
    return [dst, *(cast(t, reshape(t, one, column), kept) for one in (mean, inverse))]


@_enter("native_layer_norm_backward")
def _layer_norm(
    t: Translation,
    gradient: Value,
    x: Value,
    normalised: Sequence[int],
    mean: Value,
    inverse: Value,
    gamma: Value | None,
    beta: Value | None,
    mask: Mask,
) -> list[Value | None]:
    shape = sizes(x)
    axis = len(shape) - len(normalised)
    row = list(shape[:axis])
    affine: list[Value] = []
    if gamma is not None:
        affine = [cast(t, gamma, _WIDE), np.zeros(normalised, _WIDE)]
    wanted = any(mask[1:]) and bool(affine)
    made = t.ops(
        "LayerNormBackward",
        x,
        gradient,
        reshape(t, cast(t, mean, _WIDE), row),
        _variance(t, reshape(t, cast(t, inverse, _WIDE), row)),
        *affine,
        begin_norm_axis=axis,
        use_affine=bool(affine),
        epsilon=0.0,
        outputs=3 if wanted else 1,
    )
    results: list[Value | None] = [made[0], None, None]
    if wanted and gamma is not None:
        results[1:] = [cast(t, one, dtype_of(gamma)) for one in made[1:]]
    if mask[2] and not wanted and beta is not None:
        total = reduce(t, "ReduceSum", cast(t, gradient, _WIDE), range(axis), keep=False)
        results[2] = cast(t, total, dtype_of(beta))
    return [value if want else None for value, want in zip(results, mask, strict=True)]


def _rows(x: Value, groups: int) -> list[int]:
    """The shape with one row for each group of channels of each sample."""
    shape = sizes(x)
    return [shape[0] * groups, math.prod(shape) // (shape[0] * groups)]


@_enter("native_group_norm")
def _group_norm_kept(
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
    """Each group of channels is a row of a layer normalisation."""
    own = dtype_of(x if gamma is None else gamma)
    made, mean, variance = t.ops(
        "LayerNorm",
        reshape(t, cast(t, x, _WIDE), _rows(x, groups)),
        begin_norm_axis=1,
        keep_stats=True,
        use_affine=False,
        epsilon=epsilon,
    )
    dst = reshape(t, made, shape_of(x))
    for kind, vector in (("Multiply", gamma), ("Add", beta)):
        if vector is not None:
            dst = binary(t, kind, dst, _along(t, cast(t, vector, _WIDE), len(shape_of(x))))
    inverse = inverse_deviation(t, variance, epsilon)
    kept = [cast(t, reshape(t, one, [batch, groups]), own) for one in (mean, inverse)]
    return [cast(t, dst, dtype_of(x)), *kept]


@_enter("native_group_norm_backward")
def _group_norm(
    t: Translation,
    gradient: Value,
    x: Value,
    mean: Value,
    inverse: Value,
    gamma: Value | None,
    batch: int,
    channels: int,
    elements: int,
    groups: int,
    mask: Mask,
) -> list[Value | None]:
    rows = _rows(x, groups)
    results: list[Value | None] = [None, None, None]
    mean, inverse = (cast(t, one, _WIDE) for one in (mean, inverse))
    if mask[0]:
        scaled = cast(t, gradient, _WIDE)
        if gamma is not None:
            scaled = binary(t, "Multiply", scaled, _along(t, cast(t, gamma, _WIDE), len(shape_of(x))))
        made = t.ops(
            "LayerNormBackward",
            reshape(t, cast(t, x, _WIDE), rows),
            reshape(t, scaled, rows),
            reshape(t, mean, rows[:1]),
            _variance(t, reshape(t, inverse, rows[:1])),
            begin_norm_axis=1,
            use_affine=False,
            epsilon=0.0,
            outputs=1,
        )
        results[0] = cast(t, reshape(t, made[0], shape_of(x)), dtype_of(x))
    if not any(mask[1:]):
        return results
    own = dtype_of(x if gamma is None else gamma)
    images, ones = [batch * channels, elements], np.ones((elements, 1), _WIDE)
    given = reshape(t, cast(t, gradient, _WIDE), images)
    parts = [batch, groups, channels // groups]
    shifted = reshape(t, matmul(t, given, ones), parts)
    if mask[1]:
        # Σ dy·(x − mean) as Σ dy·x − mean · Σ dy, as torch has it: products with ones, and no image that is shifted.
        both = binary(t, "Multiply", given, reshape(t, cast(t, x, _WIDE), images))
        scaled = reshape(t, matmul(t, both, ones), parts)
        away = binary(t, "Multiply", shifted, reshape(t, mean, [batch, groups, 1]))
        total = binary(
            t, "Multiply", binary(t, "Subtract", scaled, away), reshape(t, inverse, [batch, groups, 1])
        )
        results[1] = cast(t, reshape(t, reduce(t, "ReduceSum", total, [0], keep=False), [channels]), own)
    if mask[2]:
        results[2] = cast(t, reshape(t, reduce(t, "ReduceSum", shifted, [0], keep=False), [channels]), own)
    return results


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
        if scale is not None and Fraction(scale) * old != new:
            raise Unmapped(f"a resizing by {scale} from {old} elements, which leaves a part of one")
        exact = [p * old // new for p in range(new)]
        if mode == "nearest" and old != new and not nearest_agrees(old, new, exact):
            raise Unmapped(f"nearest elements of {old} for {new}, which are others in Interpolate")
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


@_enter("upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward")
def _nearest(
    t: Translation, gradient: Value, wanted: Sequence[int], shape: Sequence[int], *scales: float | None
) -> Value:
    return _resized(t, gradient, shape, scales, "nearest", "half_pixel")


@_enter("upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_trilinear3d_backward")
def _linear(
    t: Translation,
    gradient: Value,
    wanted: Sequence[int],
    shape: Sequence[int],
    align: bool,
    *scales: float | None,
) -> Value:
    return _resized(t, gradient, shape, scales, "linear", "align_corners" if align else "half_pixel")


# --- parts -----------------------------------------------------------------------------------------------


@_enter("slice_backward")
def _slice(
    t: Translation, gradient: Value, shape: Sequence[int], axis: int, start: int, end: int, step: int
) -> Value:
    if step != 1:
        raise Unmapped(f"a step of {step}")
    rank = len(shape)
    axis %= rank
    first, last, _ = slice(start, end, step).indices(shape[axis])
    begin, after = [0] * rank, [0] * rank
    begin[axis], after[axis] = first, shape[axis] - max(first, last)
    return pad(t, gradient, begin, after, 0.0)


@_enter("select_backward")
def _select(t: Translation, gradient: Value, shape: Sequence[int], axis: int, index: int) -> Value:
    rank = len(shape)
    axis %= rank
    index %= shape[axis]
    begin, after = [0] * rank, [0] * rank
    begin[axis], after[axis] = index, shape[axis] - index - 1
    return pad(t, unsqueeze(t, gradient, [axis]), begin, after, 0.0)
