"""NumPy kernels of the normalisation family."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...graph.model.op import Op
from .binary import channel_axis
from .kernels import Array, along, kernel, moments, store, total, wide
from .kernels import mean as mean_of


def _like(values: Array, data: Array) -> Array:
    """Statistics or parameters in the type that the data are computed in."""
    return values.astype(data.dtype, copy=False)


def _deviation(op: Op, variance: Array, data: Array) -> Array:
    """√(variance + epsilon) in the type that the data are computed in."""
    return np.sqrt(variance + op.attributes.real("epsilon")).astype(data.dtype, copy=False)


def _other_axes(rank: int, channel: int) -> tuple[int, ...]:
    return tuple(a for a in range(rank) if a != channel)


@kernel("BatchNormInference")
def batch_norm_inference(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Dst = gamma · (src − mean) / √(variance + epsilon) + beta."""
    src = wide(inputs[0])
    channel = channel_axis(op, src.ndim)
    gamma, beta, mean, variance = (along(_like(v, src), channel, src.ndim) for v in inputs[1:])
    scale = gamma / np.sqrt(variance + op.attributes.real("epsilon"))
    store(outputs[0], (src - mean) * scale + beta)


@kernel("BatchNormForwardTraining")
def batch_norm_training(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Normalises by the batch's statistics, and moves the running ones."""
    src = wide(inputs[0])
    channel = channel_axis(op, src.ndim)
    axes = _other_axes(src.ndim, channel)
    distances, mean, variance = moments(src, axes)
    result = distances / _deviation(op, variance, src)
    if len(inputs) > 3:
        result = result * along(_like(inputs[3], src), channel, src.ndim)
    if len(inputs) > 4:
        result = result + along(_like(inputs[4], src), channel, src.ndim)
    store(outputs[0], result)
    momentum = op.attributes.real("momentum") if "momentum" in op.attributes else 0.0
    for index, (batch, running) in enumerate(((mean.ravel(), inputs[1]), (variance.ravel(), inputs[2]))):
        store(outputs[1 + index], momentum * wide(running) + (1 - momentum) * batch)
        store(outputs[3 + index], batch)


@kernel("BatchNormTrainingBackward")
def batch_norm_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Gradients of the data, gamma and beta."""
    src, diff_dst = wide(inputs[0]), wide(inputs[1])
    channel = channel_axis(op, src.ndim)
    axes = _other_axes(src.ndim, channel)
    count = math.prod(src.shape[a] for a in axes)
    mean, variance = (along(_like(v, src), channel, src.ndim) for v in inputs[2:4])
    inverse = 1 / np.sqrt(variance + op.attributes.real("epsilon"))
    normalised = (src - mean) * inverse
    diff_beta = total(diff_dst, axes, keepdims=True)
    diff_gamma = total(diff_dst * normalised, axes, keepdims=True)
    scale = along(_like(inputs[4], src), channel, src.ndim) * inverse if len(inputs) > 4 else inverse
    mean_beta, mean_gamma = (_like(np.asarray(sums / count), src) for sums in (diff_beta, diff_gamma))
    store(outputs[0], scale * (diff_dst - (mean_beta + normalised * mean_gamma)))
    for target, value in zip(outputs[1:], (diff_gamma, diff_beta), strict=False):
        store(target, value.reshape(target.shape))


def _affine(op: Op, values: Array, gamma: Array | None, beta: Array | None, shape: tuple[int, ...]) -> Array:
    """Values times gamma plus beta, both of `shape`, where they are given and wanted."""
    if not op.attributes.get("use_affine", True):
        return values
    if gamma is not None:
        values = values * _like(gamma, values).reshape(shape)
    return values if beta is None else values + _like(beta, values).reshape(shape)


def _given(inputs: Sequence[Array], index: int) -> Array | None:
    return inputs[index] if len(inputs) > index else None


@kernel("LayerNorm")
def layer_norm(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Normalises over the last axes."""
    src = wide(inputs[0])
    first = op.attributes.integer("begin_norm_axis") % src.ndim
    axes = tuple(range(first, src.ndim))
    distances, mean, variance = moments(src, axes)
    result = distances / _deviation(op, variance, src)
    store(outputs[0], _affine(op, result, _given(inputs, 1), _given(inputs, 2), src.shape[first:]))
    for target, value in zip(outputs[1:], (mean, variance), strict=False):
        store(target, value.reshape(target.shape))


@kernel("LayerNormBackward")
def layer_norm_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Gradients of the data, gamma and beta."""
    src, diff_dst = wide(inputs[0]), wide(inputs[1])
    first = op.attributes.integer("begin_norm_axis") % src.ndim
    axes = tuple(range(first, src.ndim))
    kept = (*src.shape[:first], *[1] * len(axes))
    mean, variance = (_like(v, src).reshape(kept) for v in inputs[2:4])
    inverse = 1 / np.sqrt(variance + op.attributes.real("epsilon"))
    normalised = (src - mean) * inverse
    gradient = _affine(op, diff_dst, _given(inputs, 4), None, src.shape[first:])
    average = _like(mean_of(gradient, axes, True), src)
    along_normalised = _like(mean_of(gradient * normalised, axes, True), src)
    store(outputs[0], (gradient - average - normalised * along_normalised) * inverse)
    outer = tuple(range(first))
    for target, value in zip(outputs[1:], (diff_dst * normalised, diff_dst), strict=False):
        store(target, total(value, outer).reshape(target.shape))


@kernel("GroupNorm")
def group_norm(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Normalises each image's groups of channels."""
    channel = channel_axis(op, inputs[0].ndim)
    groups = op.attributes.integer("groups")
    src = np.moveaxis(wide(inputs[0]), channel, 1)
    grouped = src.reshape(src.shape[0], groups, math.prod(src.shape[1:]) // groups)
    distances, mean, variance = moments(grouped, 2)
    normalised = (distances / _deviation(op, variance, src)).reshape(src.shape)
    shape = (-1, *[1] * (src.ndim - 2))
    result = _affine(op, normalised, _given(inputs, 1), _given(inputs, 2), shape)
    store(outputs[0], np.moveaxis(result, 1, channel))
    for target, value in zip(outputs[1:], (mean, variance), strict=False):
        store(target, value.reshape(target.shape))


@kernel("GroupNormBackward")
def group_norm_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Gradients of the data, gamma and beta."""
    channel = channel_axis(op, inputs[0].ndim)
    groups = op.attributes.integer("groups")
    src, diff_dst = (np.moveaxis(wide(one), channel, 1) for one in inputs[:2])
    grouped = (src.shape[0], groups, math.prod(src.shape[1:]) // groups)
    mean, variance = (_like(one, src).reshape(*grouped[:2], 1) for one in inputs[2:4])
    inverse = 1 / np.sqrt(variance + op.attributes.real("epsilon"))
    normalised = (src.reshape(grouped) - mean) * inverse
    shape = (-1, *[1] * (src.ndim - 2))
    gradient = _affine(op, diff_dst, _given(inputs, 4), None, shape).reshape(grouped)
    average = _like(mean_of(gradient, (2,), True), src)
    along_normalised = _like(mean_of(gradient * normalised, (2,), True), src)
    result = (gradient - average - normalised * along_normalised) * inverse
    store(outputs[0], np.moveaxis(result.reshape(src.shape), 1, channel))
    others = tuple(axis for axis in range(src.ndim) if axis != 1)
    for target, value in zip(outputs[1:], (diff_dst * normalised.reshape(src.shape), diff_dst), strict=False):
        store(target, total(value, others).reshape(target.shape))


@kernel("RMSNorm")
def rms_norm(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Divides by the root of the mean square over the last axes."""
    src = wide(inputs[0])
    first = op.attributes.integer("begin_norm_axis") % src.ndim
    square = mean_of(np.square(src), tuple(range(first, src.ndim)), True)
    result = src / _deviation(op, square, src)
    if math.prod(src.shape[first:]) and len(inputs) > 1:
        result = result * _like(inputs[1], src).reshape(src.shape[first:])
    store(outputs[0], result)
