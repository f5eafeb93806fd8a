"""Trials of what works element by element, or along axes; see `primitive_trials.py`."""

from __future__ import annotations

import ctypes
import math
from ctypes import c_float, c_void_p

import numpy as np
from onednn_graph.backends.onednn.library.enumerators import Algorithm, Arg, Propagation, Query
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import PrimitiveAttributes, described
from onednn_graph.graph.runtime.arrays import numpy_type
from onednn_graph.ops.data_types import DataType as D
from trial_maker import (
    FLOATS,
    POST_BINARY,
    Trial,
    Undrawn,
    name_of,
)


def reorder(m):
    rng = m.rng
    types = (D.f32, D.bf16, D.f16, D.s32, D.s8, D.u8)
    a, b = rng.choice(types), rng.choice(types)
    if rng.random() < 0.3:
        a, b = rng.choice([(D.f32, D.u8), (D.f32, D.s8), (D.u8, D.f32), (D.s8, D.f32), (D.f32, D.f32)])
    rank = rng.choice([1, 2, 3, 4, 4, 4, 5])
    shape = (rng.choice([1, 5, 64, 6145, 20001]),) if rank == 1 and not m.wide else m.shape(rank)
    if rng.random() < 0.1 and rank > 1:
        shape = (rng.choice([1, 7, 96]), rng.choice([64, 100, 999]), *([1] * (rank - 2)))

    def layout(dtype):
        if rank > 1 and rng.random() < 0.3:
            return m.blocked(shape, dtype, of_weights=True)
        return m.plain(shape, dtype)

    source = layout(a)
    target = layout(b)
    packing = rank in (2, 3) and rng.random() < 0.5
    if packing:  # of a product's weights, by a kernel of its own
        a = b = rng.choice([D.f32, D.bf16, D.s8])
        source = m.dense(shape, a)
        target = m.packed(shape, b)
    if (
        rng.random() < 0.1 and rank > 2
    ):  # the transposes of 8 and 16 channels, which have a kernel of their own
        a = b = D.f32
        shape = (shape[0], rng.choice([8, 16]), *shape[2:])
        source, target = m.dense(shape, a), m.dense(shape, b)
    if not packing and rng.random() < 0.15 and source.strides is not None:
        target = m.like(source, b)
    scales, points, words = {}, {}, []
    factor = np.ones((1,) * rank)
    kind = "none" if packing else rng.choice(["none", "none", "src", "dst", "both"])
    mask = 0 if rng.random() < 0.5 else 1 << rng.randrange(rank)
    own = tuple(d if mask >> axis & 1 else 1 for axis, d in enumerate(shape))
    for side, argument in (("src", Arg.SRC), ("dst", Arg.DST)):
        if kind in (side, "both"):
            values = m.data.choice([0.5, 1.0, 2.0, 0.25], own)
            scales[argument] = (mask, values)
            factor = factor * (values if side == "src" else 1 / values)
            words.append(f"{side} scales mask {mask}")
    zero = {}
    for side, argument in (("src", Arg.SRC), ("dst", Arg.DST)):
        if not packing and rng.random() < 0.35 and (kind != "none" or rng.random() < 0.3):
            zero[argument] = rng.choice([1, -3, 7, 100])
            words.append(f"{side} zero point {zero[argument]}")
    points = zero
    low, high = {D.u8: (0, 256), D.s8: (-128, 128)}.get(a, (-300, 301))
    if b is D.bf16 or a is D.bf16 or rng.random() < 0.5:
        low, high = max(low, -60), min(high, 61)
    x = m.data.integers(low, high, shape).astype(np.float64)
    attributes, inputs, _, _ = m.attributes(shape, b, False, scales, points)
    y = factor * (x - zero.get(Arg.SRC, 0)) + zero.get(Arg.DST, 0)
    return Trial(
        "reorder",
        [source, m.engine, target, m.engine, attributes],
        {Arg.SRC: (source, x), **inputs},
        {Arg.DST: (target, y)},
        {"from": name_of(source), "to": name_of(target), "attributes": words},
    )


ELTWISE = {
    "eltwise_relu": (lambda x, a, b: np.where(x > 0, x, a * x), [(0, 0), (0.5, 0)]),
    "eltwise_abs": (lambda x, a, b: np.abs(x), [(0, 0)]),
    "eltwise_square": (lambda x, a, b: x * x, [(0, 0)]),
    "eltwise_clip_v2": (lambda x, a, b: np.clip(x, a, b), [(-2, 1)]),
    "eltwise_round": (lambda x, a, b: np.rint(x), [(0, 0)]),
    "eltwise_pow": (lambda x, a, b: a * np.where(x == 0, np.nan, x) ** b, [(1, 2), (1, -1), (1, 3)]),
    "eltwise_exp": (lambda x, a, b: np.exp(x), [(0, 0)]),
    "eltwise_tanh": (lambda x, a, b: np.tanh(x), [(0, 0)]),
    "eltwise_logistic": (lambda x, a, b: 1 / (1 + np.exp(-x)), [(0, 0)]),
    "eltwise_elu": (lambda x, a, b: np.where(x > 0, x, a * np.expm1(x)), [(1, 0)]),
    "eltwise_gelu_tanh": (
        lambda x, a, b: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        [(0, 0)],
    ),
    "eltwise_gelu_erf": (
        lambda x, a, b: 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
        [(0, 0)],
    ),
    "eltwise_hardsigmoid": (lambda x, a, b: np.clip(a * x + b, 0, 1), [(0.25, 0.5)]),
    "eltwise_hardswish": (lambda x, a, b: x * np.clip(a * x + b, 0, 1), [(0.25, 0.5)]),
    "eltwise_soft_relu": (lambda x, a, b: np.log1p(np.exp(a * x)) / a, [(1, 0), (2, 0)]),
    "eltwise_mish": (lambda x, a, b: x * np.tanh(np.log1p(np.exp(x))), [(0, 0)]),
    "eltwise_swish": (lambda x, a, b: x / (1 + np.exp(-a * x)), [(1, 0)]),
    "eltwise_log": (lambda x, a, b: np.log(np.where(x > 0, x, np.nan)), [(0, 0)]),
    "eltwise_sqrt": (lambda x, a, b: np.sqrt(np.where(x >= 0, x, np.nan)), [(0, 0)]),
}
DERIVATIVES = {
    "eltwise_relu": lambda x: (x > 0) * 1.0,
    "eltwise_abs": np.sign,
    "eltwise_square": lambda x: 2 * x,
    "eltwise_logistic": lambda x: 1 / (1 + np.exp(-x)) * (1 - 1 / (1 + np.exp(-x))),
    "eltwise_tanh": lambda x: 1 - np.tanh(x) ** 2,
    "eltwise_clip_v2": lambda x: ((x > -2) & (x < 1)) * 1.0,
}
"""By the data, with an alpha and a beta of zero, or between -2 and 1."""


def eltwise(m):
    rng = m.rng
    name = rng.choice(list(ELTWISE))
    what, parameters = ELTWISE[name]
    alpha, beta = rng.choice(parameters)
    exact = name in ("eltwise_relu", "eltwise_abs", "eltwise_square", "eltwise_clip_v2", "eltwise_round")
    a = rng.choice(
        [D.f32, D.f32, D.bf16, D.f16, D.s32, D.s8, D.u8] if exact else [D.f32, D.f32, D.bf16, D.f16]
    )
    b = a if rng.random() < 0.9 else rng.choice([D.f32, D.bf16, D.u8])
    shape = m.shape(rng.choice([2, 3, 4, 5, 6])) if rng.random() < 0.9 else (rng.choice([1, 7, 1000]),)
    source = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.2 else m.plain(shape, a)
    target = m.any(shape, b) if source.strides is None or rng.random() < 0.5 else m.like(source, b)
    scales, points, quantize = m.quantization(b)
    attributes, inputs, after, words = m.attributes(shape, b, True, scales, points)
    x = m.values(shape, a)
    with np.errstate(all="ignore"):
        y = quantize(after(what(x, alpha, beta)))
    return Trial(
        "eltwise_forward",
        [
            m.engine,
            Propagation.forward_inference,
            getattr(Algorithm, name),
            source,
            target,
            alpha,
            beta,
            attributes,
        ],
        {Arg.SRC: (source, x), **inputs},
        {Arg.DST: (Query.dst_md, y)},
        {
            "algorithm": name,
            "alpha": alpha,
            "beta": beta,
            "src": name_of(source),
            "dst": name_of(target),
            "post": words,
        },
        2.0,
        0.0 if exact else 2e-4,
    )


def eltwise_backward(m):
    rng = m.rng
    name, derivative = rng.choice(list(DERIVATIVES.items()))
    alpha, beta = (-2.0, 1.0) if name == "eltwise_clip_v2" else (0.0, 0.0)
    a = rng.choice(FLOATS)
    shape = m.shape()
    data = m.blocked(shape, a) if rng.random() < 0.15 else m.plain(shape, a)
    attributes, _, _, _ = m.attributes(shape, a, False)
    hint = described(
        m.engine,
        "eltwise_forward",
        m.engine,
        Propagation.forward_training,
        getattr(Algorithm, name),
        data,
        data,
        alpha,
        beta,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    x, dy = m.values(shape), m.values(shape)
    return Trial(
        "eltwise_backward",
        [m.engine, getattr(Algorithm, name), data, data, data, alpha, beta, hint, attributes],
        {Arg.SRC: (data, x), Arg.DIFF_DST: (data, dy)},
        {Arg.DIFF_SRC: (Query.diff_src_md, dy * derivative(x))},
        {"algorithm": name, "data": name_of(data)},
        2.0,
        2e-4,
    )


def binary(m):
    rng = m.rng
    name, what = rng.choice([*POST_BINARY, ("binary_div", np.divide)])
    a, b = rng.choice(
        [
            (D.f32, D.f32),
            (D.bf16, D.bf16),
            (D.f16, D.f16),
            (D.f32, D.f32),
            (D.s8, D.s8),
            (D.u8, D.s8),
            (D.f32, D.bf16),
            (D.u8, D.u8),
        ]
    )
    dst = rng.choice([a, a, D.f32, D.u8, D.s8])
    shape = m.shape(rng.choice([1, 2, 2, 3, 4, 4, 5])) if rng.random() < 0.9 else (rng.choice([1, 9, 100]),)
    if rng.random() < 0.15 and len(shape) > 1:
        source = m.blocked(shape, a)
        second = MemoryDesc.clone(m.lib, source.handle) if a is b else m.dense(shape, b, "rows")
        keep = [True] * len(shape)
        other = shape
    else:
        source = m.plain(shape, a)
        keep = [rng.random() < 0.5 for _ in shape] if rng.random() < 0.7 else [True] * len(shape)
        other = tuple(d if k else 1 for d, k in zip(shape, keep, strict=True))
        second = m.dense(other, b, "rows") if other != shape or rng.random() < 0.5 else m.plain(other, b)
    target = m.any(shape, dst) if source.strides is None or rng.random() < 0.6 else m.like(source, dst)
    scales, points, quantize = m.quantization(dst)
    attributes, inputs, after, words = m.attributes(shape, dst, True, scales, points)
    x, y = m.values(shape, a), m.values(other, b)
    if name == "binary_div":
        y = m.data.choice([1.0, 2.0, 4.0], other)
    return Trial(
        "binary",
        [m.engine, getattr(Algorithm, name), source, second, target, attributes],
        {Arg.SRC: (source, x), Arg.SRC_1: (second, y), **inputs},
        {Arg.DST: (Query.dst_md, quantize(after(what(x, y))))},
        {
            "algorithm": name,
            "src": name_of(source),
            "src1": name_of(second),
            "dst": name_of(target),
            "post": words,
            "scales": str(scales),
            "points": str(points),
        },
        2.0,
        1e-5,
    )


REDUCTIONS = {
    "reduction_sum": (0.0, lambda x, axes: x.sum(axes, keepdims=True)),
    "reduction_mean": (0.0, lambda x, axes: x.mean(axes, keepdims=True)),
    "reduction_max": (0.0, lambda x, axes: x.max(axes, keepdims=True)),
    "reduction_min": (0.0, lambda x, axes: x.min(axes, keepdims=True)),
    "reduction_mul": (0.0, lambda x, axes: x.prod(axes, keepdims=True)),
    "reduction_norm_lp_power_p_sum": (1.0, lambda x, axes: np.abs(x).sum(axes, keepdims=True)),
    "reduction_norm_lp_sum": (2.0, lambda x, axes: np.sqrt((x * x).sum(axes, keepdims=True))),
}


def reduction(m):
    rng = m.rng
    name = rng.choice(list(REDUCTIONS))
    p, what = REDUCTIONS[name]
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8])
    dst = rng.choice([a, a, D.f32])
    shape = m.shape(rng.choice([1, 2, 3, 4, 5])) if rng.random() < 0.9 else (rng.choice([2, 100, 1000]),)
    count = rng.randint(1, len(shape))
    axes = tuple(rng.sample(range(len(shape)), count))
    if rng.random() < 0.5:
        axes = tuple(range(len(shape) - count, len(shape)))
    kept = tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    if kept == shape:
        raise Undrawn("nothing is reduced")
    source = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.15 else m.plain(shape, a)
    target = rng.choice([m.any(kept, dst), m.dense(kept, dst, "rows")])
    x = m.values(shape, a)
    if name == "reduction_mul":
        x = m.data.choice([1.0, 1.0, 1.0, 2.0], shape) if math.prod(shape) < 60 else np.ones(shape)
    attributes, inputs, after, words = m.attributes(kept, dst, True)
    return Trial(
        "reduction",
        [m.engine, getattr(Algorithm, name), source, target, p, 0.0, attributes],
        {Arg.SRC: (source, x), **inputs},
        {Arg.DST: (Query.dst_md, after(what(x, axes)))},
        {
            "algorithm": name,
            "src": name_of(source),
            "dst": name_of(target),
            "axes": list(axes),
            "post": words,
        },
        4.0,
        1e-4,
    )


def softmax(m, backward=False):
    rng = m.rng
    log = rng.random() < 0.5
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    shape = (
        m.shape(rng.choice([1, 2, 3, 4, 4, 5])) if rng.random() < 0.9 else (rng.choice([1, 3, 100, 1001]),)
    )
    axis = rng.randrange(len(shape)) if rng.random() < 0.6 else len(shape) - 1
    if m.wide and rng.random() < 0.7:
        axis = shape.index(max(shape))
    data = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.1 else m.plain(shape, a)
    algorithm = Algorithm.softmax_log if log else Algorithm.softmax_accurate
    attributes, _, _, _ = m.attributes(shape, a, False)
    x = m.values(shape)
    if shape[axis] > 64:
        # A few that count: each one's share of many would drown in the tolerance.
        x = np.where(m.data.random(shape) < 8 / shape[axis], x, -20.0)
    e = np.exp(x - x.max(axis, keepdims=True))
    y = e / e.sum(axis, keepdims=True)
    y = np.log(y) if log else y
    if not backward:
        dst = rng.choice([a, a, D.f32] if log else [a, a, D.f32, D.u8, D.s8])
        if dst in (D.u8, D.s8):
            attributes, more, _, _ = m.attributes(shape, dst, False, {Arg.DST: (0, np.array([2.0**-7]))})
            y = y * 2**7
        else:
            more = {}
        target = m.any(shape, dst) if data.strides is None or rng.random() < 0.6 else m.plain(shape, dst)
        return Trial(
            "softmax_forward",
            [m.engine, Propagation.forward_inference, algorithm, data, target, axis, attributes],
            {Arg.SRC: (data, x), **more},
            {Arg.DST: (Query.dst_md, y)},
            {"src": name_of(data), "dst": name_of(target), "axis": axis, "log": log},
            2.0,
            1e-5,
        )
    y = y.astype(np.float32).astype(numpy_type(a)).astype(np.float64)
    dy = m.values(shape)
    along = (dy if log else dy * y).sum(axis, keepdims=True)
    dx = dy - np.exp(y) * along if log else y * (dy - along)
    hint = described(
        m.engine,
        "softmax_forward",
        m.engine,
        Propagation.forward_training,
        algorithm,
        data,
        data,
        axis,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    target = rng.choice([m.any(shape, a), MemoryDesc.clone(m.lib, data.handle)])
    return Trial(
        "softmax_backward",
        [m.engine, algorithm, target, data, data, axis, hint, attributes],
        {Arg.DST: (data, y), Arg.DIFF_DST: (data, dy)},
        {Arg.DIFF_SRC: (Query.diff_src_md, dx)},
        {"data": name_of(data), "axis": axis, "log": log},
        4.0,
        1e-3,
    )


def prelu(m, backward=False):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16] if backward else [D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8])
    shape = m.shape(rng.choice([1, 2, 3, 4, 5]))
    keep = rng.choice(
        [
            [a == 1 for a in range(len(shape))],
            [True] * len(shape),
            [False] * len(shape),
            [rng.random() < 0.5 for _ in shape],
            [a == len(shape) - 1 for a in range(len(shape))],
        ]
    )
    own = tuple(d if k else 1 for d, k in zip(shape, keep, strict=True))
    data = (
        m.dense(shape, a, "rows")
        if backward
        else (m.blocked(shape, a) if rng.random() < 0.1 else m.plain(shape, a))
    )
    slope = m.dense(own, a, "rows")
    attributes, _, _, _ = m.attributes(shape, a, False)
    x, w = m.values(shape, a), m.values(own, a)
    words = {"data": name_of(data), "slope": name_of(slope)}
    if not backward:
        return Trial(
            "prelu_forward",
            [m.engine, Propagation.forward_inference, data, slope, data, attributes],
            {Arg.SRC: (data, x), Arg.WEIGHTS: (slope, w)},
            {Arg.DST: (Query.dst_md, np.where(x > 0, x, x * w))},
            words,
            2.0,
        )
    dy = m.values(shape)
    hint = described(
        m.engine, "prelu_forward", m.engine, Propagation.forward_training, data, slope, data, attributes
    )
    if hint is None:
        raise Undrawn("no hint")
    axes = tuple(axis for axis, k in enumerate(keep) if not k)
    dw = np.where(x > 0, 0, x * dy).sum(axes, keepdims=True) if axes else np.where(x > 0, 0, x * dy)
    return Trial(
        "prelu_backward",
        [m.engine, data, slope, data, slope, data, hint, attributes],
        {Arg.SRC: (data, x), Arg.WEIGHTS: (slope, w), Arg.DIFF_DST: (data, dy)},
        {
            Arg.DIFF_SRC: (Query.diff_src_md, np.where(x > 0, dy, dy * w)),
            Arg.DIFF_WEIGHTS: (Query.diff_weights_md, dw),
        },
        words,
        4.0,
        1e-3,
    )


def total(m):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    dst = rng.choice([a, a, D.f32])
    shape = m.shape(rng.choice([1, 2, 3, 4, 5])) if rng.random() < 0.8 else (rng.choice([1, 5, 100, 4097]),)
    count = rng.choice([2, 2, 3, 5])
    layout = m.blocked(shape, a) if len(shape) > 1 and rng.random() < 0.15 else m.plain(shape, a)
    terms = [
        MemoryDesc.clone(m.lib, layout.handle) if rng.random() < 0.8 else m.plain(shape, a)
        for _ in range(count)
    ]
    target = m.like(layout, dst) if layout.strides is not None and rng.random() < 0.7 else m.any(shape, dst)
    factors = [rng.choice([1.0, 1.0, 0.5, 2.0, 0.25]) for _ in range(count)]
    arrays = [m.values(shape, a) for _ in range(count)]
    attributes = PrimitiveAttributes(m.lib)
    return Trial(
        "sum",
        [
            m.engine,
            target,
            count,
            (c_float * count)(*factors),
            (c_void_p * count)(*[t.handle for t in terms]),
            attributes,
        ],
        {Arg.MULTIPLE_SRC + k: (t, x) for k, (t, x) in enumerate(zip(terms, arrays, strict=True))},
        {Arg.DST: (Query.dst_md, sum(f * x for f, x in zip(factors, arrays, strict=True)))},
        {"terms": [name_of(t) for t in terms], "dst": name_of(target), "factors": factors},
        4.0,
        1e-5,
        [terms],
    )


def concat(m):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8, D.s32])
    shape = m.shape(rng.choice([1, 2, 3, 4, 4, 5]))
    axis = rng.randrange(len(shape))
    count = rng.choice([1, 2, 2, 3, 5])
    shapes = [
        tuple(rng.choice([1, 2, 3, 8, 16, d]) if k == axis else d for k, d in enumerate(shape))
        for _ in range(count)
    ]
    result = tuple(sum(s[axis] for s in shapes) if k == axis else d for k, d in enumerate(shape))
    kind = m.some("rows", "last", "order", None)
    terms = [m.plain(s, a, kind if kind != "order" else None) for s in shapes]
    if rng.random() < 0.1 and len(shape) > 1:
        terms = [m.blocked(s, a) for s in shapes]
    target = m.any(result, a) if rng.random() < 0.5 else m.plain(result, a, rng.choice([kind, None]))
    arrays = [m.values(s, a) for s in shapes]
    attributes = PrimitiveAttributes(m.lib)
    descs = (c_void_p * count)(*[t.handle for t in terms])
    return Trial(
        "concat",
        [m.engine, target, count, axis, ctypes.cast(descs, ctypes.POINTER(c_void_p)), attributes],
        {Arg.MULTIPLE_SRC + k: (t, x) for k, (t, x) in enumerate(zip(terms, arrays, strict=True))},
        {Arg.DST: (Query.dst_md, np.concatenate(arrays, axis))},
        {"terms": [name_of(t) for t in terms], "dst": name_of(target), "axis": axis},
        0.0,
        0.0,
        [terms, descs],
    )
