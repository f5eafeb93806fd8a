"""Gradients element by element, of softmax and of parts, in ops of oneDNN Graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from ...importing.expressions import (
    axis_of,
    binary,
    cast,
    concat,
    cut,
    negative,
    pad,
    reshape,
    unsqueeze,
)
from ...importing.tables import Entries
from ...importing.translation import Translation, Unmapped, Value, shape_of, sizes
from ..elementwise import halves, slopes_of
from ..schema import Translate, numpy_type_of
from .by_rules import by_rule

OPS = Entries[Translate]("aten.")
"""Op → its translation."""


# --- element by element ----------------------------------------------------------------------------------


@OPS.enter("threshold_backward")
def _threshold(t: Translation, gradient: Value, x: Value, threshold: float) -> Value:
    if threshold != 0:
        raise Unmapped(f"a threshold of {threshold}")
    return t.op("ReLUBackward", x, gradient, use_dst=False)


def _of_input(t: Translation, gradient: Value, x: Value, *, kind: str) -> Value:
    return t.op(kind, x, gradient)


def _of_result(t: Translation, gradient: Value, result: Value, *, kind: str) -> Value:
    return t.op(kind, result, gradient, use_dst=True)


OPS.add(
    {
        "hardswish_backward": partial(_of_input, kind="HardSwishBackward"),
        "mish_backward": partial(_of_input, kind="MishBackward"),
        "silu_backward": partial(_of_input, kind="SwishBackward"),
        "sigmoid_backward": partial(_of_result, kind="SigmoidBackward"),
        "tanh_backward": partial(_of_result, kind="TanhBackward"),
    }
)


@OPS.enter("hardsigmoid_backward")
def _hard_sigmoid(t: Translation, gradient: Value, x: Value) -> Value:
    return t.op("HardSigmoidBackward", x, gradient, alpha=1 / 6, beta=0.5)


@OPS.enter("gelu_backward")
def _gelu(t: Translation, gradient: Value, x: Value, approximate: str = "none") -> Value:
    return t.op("GELUBackward", x, gradient, mode="gelu_tanh" if approximate == "tanh" else "gelu_erf")


@OPS.enter("hardtanh_backward")
def _hard_tanh(t: Translation, gradient: Value, x: Value, low: float, high: float) -> Value:
    return t.op("ClampBackward", x, gradient, min=float(low), max=float(high), use_dst=False)


@OPS.enter("elu_backward")
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


@OPS.enter("leaky_relu_backward")
def _leaky(t: Translation, gradient: Value, x: Value, slope: float, is_result: bool) -> Value | None:
    if is_result and slope < 0:
        raise Unmapped(f"a slope of {slope}, by which the result does not tell the sign")
    return by_rule(t, "LeakyReLU", gradient, {"src": x}, ("src",), alpha=float(slope))["src"]


@OPS.enter("softplus_backward")
def _soft_plus(t: Translation, gradient: Value, x: Value, beta: float, threshold: float) -> Value:
    if threshold < 20:
        raise Unmapped(f"a threshold of {threshold}")
    return t.op("SoftPlusBackward", x, gradient, beta=float(beta))


@OPS.enter("log_sigmoid_backward")
def _log_sigmoid(t: Translation, gradient: Value, x: Value, buffer: Value) -> Value:
    return t.op("Multiply", gradient, t.op("Sigmoid", negative(t, x)))


@OPS.enter("_prelu_kernel_backward")
def _prelu_backward(t: Translation, gradient: Value, x: Value, slope: Value) -> list[Value]:
    """By the data, and by the slope before anything is added up."""
    data, _ = t.ops("PReLUBackward", x, slopes_of(t, x, slope), gradient, data_format="NCX")
    return [data, t.op("Multiply", gradient, binary(t, "Minimum", x, 0.0))]


@OPS.enter("glu_backward")
def _glu_backward(t: Translation, gradient: Value, x: Value, axis: int) -> Value:
    data, gate = halves(t, x, axis)
    opened = t.op("Sigmoid", gate)
    by_gate = t.op("SigmoidBackward", opened, binary(t, "Multiply", gradient, data), use_dst=True)
    return concat(t, [binary(t, "Multiply", gradient, opened), by_gate], axis)


@OPS.enter("mse_loss_backward")
def _squares(t: Translation, gradient: Value, x: Value, target: Value, reduction: int) -> Value:
    factor = 2 / math.prod(sizes(x)) if reduction == 1 else 2.0
    away = binary(t, "Multiply", binary(t, "Subtract", x, target), factor)
    return binary(t, "Multiply", away, gradient)


# --- softmax ---------------------------------------------------------------------------------------------


def _softmax(
    t: Translation, gradient: Value, result: Value, axis: int, input_type: object, *, kind: str
) -> Value:
    made = t.op(kind, gradient, result, axis=axis_of(result, axis))
    return cast(t, made, numpy_type_of(input_type))


OPS.add(
    {
        "_softmax_backward_data": partial(_softmax, kind="SoftMaxBackward"),
        "_log_softmax_backward_data": partial(_softmax, kind="LogSoftmaxBackward"),
    }
)


# --- parts -----------------------------------------------------------------------------------------------


@OPS.enter("slice_backward")
def _slice(
    t: Translation, gradient: Value, shape: Sequence[int], axis: int, start: int, end: int, step: int
) -> Value:
    rank = len(shape)
    axis %= rank
    first, last, _ = slice(start, end, step).indices(shape[axis])
    if step > 1:  # between its elements there are zeros
        count = shape_of(gradient)[axis]
        none = [0] * (rank + 1)
        between = [*none[: axis + 1], step - 1, *none[axis + 2 :]]
        spread = pad(t, unsqueeze(t, gradient, [axis + 1]), none, between, 0.0)
        whole = reshape(t, spread, [*shape[:axis], count * step, *shape[axis + 1 :]])
        last = min(first + count * step, shape[axis])
        gradient = cut(t, whole, axis, 0, last - first, 1)
    begin, after = [0] * rank, [0] * rank
    begin[axis], after[axis] = first, shape[axis] - max(first, last)
    return pad(t, gradient, begin, after, 0.0)


@OPS.enter("select_backward")
def _select(t: Translation, gradient: Value, shape: Sequence[int], axis: int, index: int) -> Value:
    rank = len(shape)
    axis %= rank
    index %= shape[axis]
    begin, after = [0] * rank, [0] * rank
    begin[axis], after[axis] = index, shape[axis] - index - 1
    return pad(t, unsqueeze(t, gradient, [axis]), begin, after, 0.0)
