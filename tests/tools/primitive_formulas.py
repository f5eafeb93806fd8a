"""What the primitives of problems must give, in float64 by NumPy; see `primitive_problems.py`."""

from __future__ import annotations

import math

import numpy as np
from onednn_graph.backends.onednn.library.enumerators import Algorithm
from trial_maker import POST_BINARY, POST_ELTWISE
from trials_elementwise import DERIVATIVES
from trials_elementwise import ELTWISE as FUNCTIONS
from trials_windows import patches, scattered

BINARY = {**dict(POST_BINARY), "binary_div": np.divide}
ELTWISE = {name: what for name, _, _, what in POST_ELTWISE}


def _geometry(p):
    """Kernel, strides, dilations, pads, and sizes of what windows read and of how many there are."""
    d = p.descriptor
    dilations = tuple(one + 1 for one in d.dilates)
    small, large = (p.shapes["src"], p.shapes["dst"]) if p.function.startswith("de") else p.ends[::-1]
    kernel = getattr(d, "kernel", None) or p.shapes["weights"][-len(small[2:]) :]
    return tuple(kernel), d.strides, dilations, d.pads_begin, d.pads_end, large[2:], small[2:]


def _grouped(weights, rank):
    return weights if weights.ndim == rank + 3 else weights[None]


def convolution(p, src, weights):
    """A zero point of the data is that of the padding too."""
    geometry = _geometry(p)
    w = _grouped(weights, src.ndim - 2)
    groups, rows = w.shape[:2]
    found = patches(src, geometry).reshape(
        src.shape[0], groups, -1, math.prod(geometry[6]), math.prod(geometry[0])
    )
    found = found.swapaxes(-1, -2).reshape(src.shape[0], groups, -1, math.prod(geometry[6]))
    return np.matmul(w.reshape(groups, rows, -1), found).reshape(p.shapes["dst"])


def deconvolution(p, src, weights):
    geometry = _geometry(p)
    w = np.swapaxes(_grouped(weights, src.ndim - 2), 1, 2)  # by the channels that go in
    groups, rows, columns = w.shape[:3]
    grads = np.matmul(w.reshape(groups, rows, -1).swapaxes(1, 2), src.reshape(src.shape[0], groups, rows, -1))
    taps, places = math.prod(geometry[0]), math.prod(geometry[6])
    grads = grads.reshape(src.shape[0], groups, columns, taps, places).swapaxes(-1, -2)
    grads = grads.reshape(src.shape[0], groups * columns, *geometry[6], *geometry[0])
    return scattered(grads, geometry, p.shapes["dst"])


def data_gradient(p, weights, diff_dst):
    geometry = _geometry(p)
    w = _grouped(weights, diff_dst.ndim - 2)
    groups, rows, columns = w.shape[:3]
    batch, taps, places = len(diff_dst), math.prod(geometry[0]), math.prod(geometry[6])
    grads = np.matmul(w.reshape(groups, rows, -1).swapaxes(1, 2), diff_dst.reshape(batch, groups, rows, -1))
    grads = grads.reshape(batch, groups, columns, taps, places).swapaxes(-1, -2)
    grads = grads.reshape(batch, groups * columns, *geometry[6], *geometry[0])
    return scattered(grads, geometry, p.shapes["src"])


def weight_gradient(p, src, diff_dst):
    geometry = _geometry(p)
    shape = p.shapes["weights"]
    groups = shape[0] if len(shape) == src.ndim + 1 else 1
    found = patches(src, geometry).reshape(src.shape[0], groups, -1, *geometry[6], math.prod(geometry[0]))
    found = found.reshape(*found.shape[:3], math.prod(geometry[6]), -1)
    dy = diff_dst.reshape(src.shape[0], groups, -1, math.prod(geometry[6]))
    return np.einsum("ngop,ngipk->goik", dy, found, optimize=True).reshape(shape)


def pooling(p, src):
    geometry = _geometry(p)
    taps = tuple(range(src.ndim, 2 * src.ndim - 2))
    if p.descriptor.algorithm is Algorithm.pooling_max:
        return patches(src, geometry, -np.inf).max(taps)
    total = patches(src, geometry).sum(taps)
    if p.descriptor.algorithm is Algorithm.pooling_avg_include_padding:
        return total / math.prod(geometry[0])
    return total / patches(np.ones((1, 1, *src.shape[2:])), geometry).sum(taps)


def _along_axes(p, array, size, out, *, backward):
    linear = p.descriptor.algorithm is Algorithm.resampling_linear
    for axis, (i, o) in enumerate(zip(size, out, strict=True), 2):
        weights = np.zeros((o, i))
        for k in range(o):
            if linear:
                place = (k + 0.5) * i / o - 0.5
                left = math.floor(place)
                weights[k, min(max(left, 0), i - 1)] += 1 - (place - left)
                weights[k, min(max(left + 1, 0), i - 1)] += place - left
            else:
                at = np.float32(np.float32(k + 0.5) * np.float32(i) / np.float32(o)) - np.float32(0.5)
                weights[k, min(max(int(np.rint(at)), 0), i - 1)] += 1
        along = weights if backward else weights.T
        array = np.moveaxis(np.tensordot(array, along, axes=(axis, 0)), -1, axis)
    return array


def resampling(p, src):
    return _along_axes(p, src, src.shape[2:], p.shapes["dst"][2:], backward=False)


def resampling_backward(p, diff_dst):
    """To the neighbours that the forward one takes."""
    return _along_axes(p, diff_dst, p.shapes["src"][2:], diff_dst.shape[2:], backward=True)


def softmax(p, src):
    shifted = src - src.max(p.descriptor.axis, keepdims=True)
    total = np.exp(shifted).sum(p.descriptor.axis, keepdims=True)
    log = p.descriptor.algorithm is Algorithm.softmax_log
    return shifted - np.log(total) if log else np.exp(shifted) / total


def group_normalization(p, src):
    """Without scale and shift."""
    rows = src.reshape(src.shape[0], p.descriptor.groups, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    return (centred / np.sqrt(rows.var(-1, keepdims=True) + p.descriptor.epsilon)).reshape(src.shape)


def eltwise(p, src):
    d = p.descriptor
    with np.errstate(all="ignore"):
        return FUNCTIONS[d.algorithm.name][0](src, d.alpha, d.beta)


FORMULAS = {
    "binary": lambda p, src_0, src_1: BINARY[p.descriptor.algorithm.name](src_0, src_1),
    "convolution_backward_data": data_gradient,
    "convolution_backward_weights": weight_gradient,
    "convolution_forward": convolution,
    "deconvolution_forward": deconvolution,
    "eltwise_backward": lambda p, data, diff_dst: diff_dst * DERIVATIVES[p.descriptor.algorithm.name](data),
    "eltwise_forward": eltwise,
    "group_normalization_forward": group_normalization,
    "matmul": lambda p, src, weights: np.matmul(src, weights),
    "pooling_forward": pooling,
    "prelu_forward": lambda p, src, weights: np.where(src > 0, src, src * weights),
    "reorder": lambda p, src: src,
    "resampling_backward": resampling_backward,
    "resampling_forward": resampling,
    "softmax_forward": softmax,
}
"""Function → what it makes of its inputs, without scales, bias and post-ops."""
