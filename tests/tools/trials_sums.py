"""Trials of normalisations and products; see `primitive_trials.py`."""

from __future__ import annotations

import math

import numpy as np
from onednn_graph.backends.onednn.library.enumerators import Arg, NormalizationFlags, Propagation, Query
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import described
from onednn_graph.ops.data_types import DataType as D
from trial_maker import (
    Trial,
    Undrawn,
    name_of,
)
from wide_draws import ELEMENTS, LENGTHS, product


def batch_normalization(m, backward=False):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    shape = m.shape(rng.choice([2, 3, 4, 4, 5]))
    axes = (0, *range(2, len(shape)))
    channels = shape[1]
    per = (1, channels, *[1] * (len(shape) - 2))
    x = m.values(shape)
    epsilon = 0.5
    f32 = m.vector(channels)
    training = backward or rng.random() < 0.5
    data = (
        m.blocked(shape, a)
        if rng.random() < 0.2
        else m.plain(
            shape,
            a,
            m.some("rows", "rows", "last", "gaps") if not training else m.some("rows", "rows", "gaps"),
        )
    )
    attributes, _, _, _ = m.attributes(shape, a, False)
    gamma, beta = m.data.choice([0.5, 1.0, 2.0], channels), m.values((channels,))
    if training:
        mean, variance = x.mean(axes), x.var(axes)
    else:
        mean, variance = m.values((channels,)), m.data.choice([0.5, 3.5], channels)
    hat = (x - mean.reshape(per)) / np.sqrt(variance.reshape(per) + epsilon)
    y = hat * gamma.reshape(per) + beta.reshape(per)
    flags = NormalizationFlags.use_scale | NormalizationFlags.use_shift
    words = {"data": name_of(data), "training": training}
    if not backward:
        relu = not training and rng.random() < 0.4
        if not training:
            flags |= NormalizationFlags.use_global_stats
        if relu:
            flags |= NormalizationFlags.fuse_norm_relu
            y = np.maximum(y, 0)
        kind = Propagation.forward_training if training else Propagation.forward_inference
        inputs = {Arg.SRC: (data, x), Arg.SCALE: (f32, gamma), Arg.SHIFT: (f32, beta)}
        outputs = {Arg.DST: (Query.dst_md, y)}
        statistics = {Arg.MEAN: (f32, mean), Arg.VARIANCE: (f32, variance)}
        (outputs if training else inputs).update(statistics)
        return Trial(
            "batch_normalization_forward",
            [m.engine, kind, data, data, epsilon, flags, attributes],
            inputs,
            outputs,
            words | {"relu": relu},
            8.0,
            1e-3,
        )
    hint = described(
        m.engine,
        "batch_normalization_forward",
        m.engine,
        Propagation.forward_training,
        data,
        data,
        epsilon,
        flags,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    dy = m.values(shape)
    count = math.prod(shape) / channels
    dgamma, dbeta = (dy * hat).sum(axes), dy.sum(axes)
    dx = (
        gamma.reshape(per)
        / np.sqrt(variance.reshape(per) + epsilon)
        * (dy - dbeta.reshape(per) / count - hat * dgamma.reshape(per) / count)
    )
    return Trial(
        "batch_normalization_backward",
        [m.engine, Propagation.backward, data, data, data, epsilon, flags, hint, attributes],
        {
            Arg.SRC: (data, x),
            Arg.DIFF_DST: (data, dy),
            Arg.MEAN: (f32, mean),
            Arg.VARIANCE: (f32, variance),
            Arg.SCALE: (f32, gamma),
        },
        {Arg.DIFF_SRC: (Query.diff_src_md, dx), Arg.DIFF_SCALE: (f32, dgamma), Arg.DIFF_SHIFT: (f32, dbeta)},
        words,
        16.0,
        4e-3 * max(1, count / 4096) ** 0.5,
    )


def layer_normalization(m, backward=False):
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    rows, inner = (
        rng.choice([1, 2, 3, 17, 64, 200]),
        rng.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 100, 129]),
    )
    if m.wide:
        inner = rng.choice(LENGTHS)
        rows = rng.choice([n for n in (1, 2, 3, 17, 64, 300) if n * inner <= ELEMENTS])
        rows, inner = (inner, rows) if rng.random() < 0.2 else (rows, inner)
    shape = (rows, inner)
    x = m.values(shape)
    epsilon = 0.5
    source = m.dense(shape, a, "rows")
    statistics, vector = m.vector(rows), m.vector(inner)
    mean, variance = x.mean(1), x.var(1)
    hat = (x - mean[:, None]) / np.sqrt(variance[:, None] + epsilon)
    affine = rng.random() < 0.6
    gamma = m.data.choice([0.5, 1.0, 2.0], inner) if affine else np.ones(inner)
    beta = m.values((inner,)) if affine else np.zeros(inner)
    flags = NormalizationFlags.use_scale | NormalizationFlags.use_shift if affine else NormalizationFlags.none
    vectors = {Arg.SCALE: (vector, gamma), Arg.SHIFT: (vector, beta)} if affine else {}
    if not backward:
        dst = rng.choice([a, a, D.f32, D.u8, D.s8])
        keeps = rng.random() < 0.5
        kind = Propagation.forward_training if keeps else Propagation.forward_inference
        scales, _, _ = m.quantization(dst)
        points = {}
        attributes, inputs, _, _ = m.attributes(shape, dst, False, scales, points)
        scale = scales[Arg.DST][1][0] if scales else 1.0
        y = (hat * gamma + beta) / scale
        outputs = {Arg.DST: (m.dense(shape, dst, "rows"), y)}
        if keeps:
            outputs |= {Arg.MEAN: (statistics, mean), Arg.VARIANCE: (statistics, variance)}
        return Trial(
            "layer_normalization_forward",
            [m.engine, kind, source, outputs[Arg.DST][0], statistics, epsilon, flags, attributes],
            {Arg.SRC: (source, x), **vectors, **inputs},
            outputs,
            {
                "src": name_of(source),
                "dst": dst.value,
                "keeps": keeps,
                "affine": affine,
                "scales": str(scales),
            },
            8.0,
            1e-3,
        )
    attributes, _, _, _ = m.attributes(shape, a, False)
    hint = described(
        m.engine,
        "layer_normalization_forward",
        m.engine,
        Propagation.forward_training,
        source,
        source,
        statistics,
        epsilon,
        flags,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    dy = m.values(shape)
    g = dy * gamma
    dx = (g - g.mean(1)[:, None] - hat * (g * hat).mean(1)[:, None]) / np.sqrt(variance[:, None] + epsilon)
    outputs = {Arg.DIFF_SRC: (Query.diff_src_md, dx)}
    if affine:
        outputs |= {Arg.DIFF_SCALE: (vector, (dy * hat).sum(0)), Arg.DIFF_SHIFT: (vector, dy.sum(0))}
    return Trial(
        "layer_normalization_backward",
        [
            m.engine,
            Propagation.backward if affine else Propagation.backward_data,
            source,
            source,
            source,
            statistics,
            epsilon,
            flags,
            hint,
            attributes,
        ],
        {
            Arg.SRC: (source, x),
            Arg.DIFF_DST: (source, dy),
            Arg.MEAN: (statistics, mean),
            Arg.VARIANCE: (statistics, variance),
            **vectors,
        },
        outputs,
        {"src": name_of(source), "affine": affine},
        16.0,
        4e-3,
    )


def rms_normalization(m):
    """Rows by the roots of their mean squares, which newer libraries have as a flag of layer normalisation."""
    rng = m.rng
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16])
    rows = rng.choice([1, 2, 3, 17, 64, 200])
    inner = rng.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 100, 129, 640, 1000])
    shape, epsilon = (rows, inner), 0.5
    x, dst = m.values(shape), rng.choice([a, a, D.f32])
    source, target = m.dense(shape, a, "rows"), m.dense(shape, dst, "rows")
    flags, inputs, gamma = NormalizationFlags.rms_norm, {Arg.SRC: (source, x)}, 1.0
    if rng.random() < 0.7:
        flags, gamma = flags | NormalizationFlags.use_scale, m.data.choice([0.5, 1.0, 2.0], inner)
        inputs[Arg.SCALE] = (m.vector(inner), gamma)
    attributes, _, _, _ = m.attributes(shape, dst, False)
    kind = Propagation.forward_inference
    y = x / np.sqrt((x * x).mean(1)[:, None] + epsilon) * gamma
    return Trial(
        "layer_normalization_forward",
        [m.engine, kind, source, target, m.vector(rows), epsilon, flags, attributes],
        inputs,
        {Arg.DST: (target, y)},
        {"src": name_of(source), "dst": dst.value, "scale": len(inputs) > 1, "squares": True},
        8.0,
        1e-3,
    )


def matmul(m):
    rng = m.rng
    batch = rng.choice([(), (), (1,), (3,), (2, 3), (2, 1), (1, 1)])
    rows, inner, columns = (
        rng.choice([1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, 64, 65, 100]) for _ in range(3)
    )
    if m.wide:
        batch = rng.choice([(), (), (), (2,), (64,), (8, 16)])
        rows, inner, columns = product(rng)
        if math.prod(batch) * max(rows * inner, inner * columns, rows * columns) > ELEMENTS:
            batch = ()
    kinds = [(D.f32, D.f32, D.f32)] * 3 + [
        (D.bf16, D.bf16, D.bf16),
        (D.bf16, D.bf16, D.f32),
        (D.f16, D.f16, D.f16),
    ]
    kinds += [
        (D.u8, D.s8, rng.choice([D.f32, D.u8, D.s8, D.s32, D.bf16])),
        (D.s8, D.s8, rng.choice([D.f32, D.u8, D.s8])),
    ]
    a, b, dst = rng.choice(kinds)
    integers = a in (D.u8, D.s8)
    wide = tuple(1 if rng.random() < 0.2 else d for d in batch)
    first, second, result = (*batch, rows, inner), (*wide, inner, columns), (*batch, rows, columns)

    def operand(shape, dtype):
        order = list(range(len(shape)))
        if rng.random() < 0.4:
            order[-1], order[-2] = order[-2], order[-1]
        if rng.random() < 0.15 and len(order) == 4:
            order = [0, 2, 1, 3]
        gaps = {rng.randrange(1, len(shape)): rng.choice([1, 4, 8])} if rng.random() < 0.2 else {}
        return MemoryDesc.strided(m.lib, shape, dtype, m.strides(shape, order, gaps))

    left = operand(first, a)
    right = m.any(second, b) if rng.random() < 0.25 and max(wide, default=1) == 1 else operand(second, b)
    target = m.any(result, dst) if rng.random() < 0.5 else operand(result, dst)
    x, w = m.values(first, a), m.values(second, b)
    large = integers and rng.random() < 0.3
    if large:
        x, w = m.full(first, a), m.full(second, b)
    if large and m.wide and rng.random() < 0.5:
        # Sums beyond what f32 holds exactly.
        x, w = np.minimum(np.abs(x), 127), np.minimum(np.abs(w), 127)
    scales, points, quantize = m.quantization(dst) if integers else ({}, {}, lambda r: r)
    if integers and rng.random() < 0.7:
        scales[Arg.SRC] = (0, np.array([0.5]))
        if rng.random() < 0.5:
            scales[Arg.WEIGHTS] = (1 << (len(second) - 1), m.data.choice([0.5, 1.0, 2.0], (columns,)))
        else:
            scales[Arg.WEIGHTS] = (0, np.array([2.0]))
        if rng.random() < 0.5:
            points[Arg.SRC] = rng.choice([1, 3, -2])
    attributes, inputs, after, words = m.attributes(
        result, dst, True, scales, points, None, len(result) - 1, **m.rounded(a)
    )
    y = np.matmul(x - points.get(Arg.SRC, 0), w)
    if Arg.SRC in scales:
        y = y * scales[Arg.SRC][1] * scales[Arg.WEIGHTS][1]
    bias = None
    if rng.random() < 0.3:
        some = rng.random() < 0.3
        own = (
            *(d if some and rng.random() < 0.3 else 1 for d in result[:-1]),
            columns,
        )
        bias = m.dense(own, D.f32 if integers else a, "rows")
        z = m.values(own)
        inputs[Arg.BIAS] = (bias, z)
        y = y + z
    inputs |= {Arg.SRC: (left, x), Arg.WEIGHTS: (Query.weights_md, w)}
    return Trial(
        "matmul",
        [m.engine, left, right, bias, target, attributes],
        inputs,
        {Arg.DST: (Query.dst_md, quantize(after(y)))},
        {
            "a": name_of(left),
            "b": name_of(right),
            "c": name_of(target),
            "bias": bias and name_of(bias),
            "post": words,
            "scales": str({int(k): v[0] for k, v in scales.items()}),
            "points": str(points),
            "large": large,
        },
        2.0,
        1e-4,
    )
