"""Trials of convolutions, poolings and resamplings; see `primitive_trials.py`."""

from __future__ import annotations

import itertools
import math

import numpy as np
from onednn_graph.backends.onednn.library.enumerators import Algorithm, Arg, Propagation, Query
from onednn_graph.backends.onednn.library.loading import dims
from onednn_graph.backends.onednn.library.primitive import described
from onednn_graph.ops.data_types import DataType as D
from trial_maker import (
    CHANNELS,
    FLOATS,
    MOST,
    Trial,
    Undrawn,
    name_of,
)
from wide_draws import convolution as wide_convolution
from wide_draws import pooling as wide_pooling
from wide_draws import shape as wide_shape


def windows(m, rank, unit=False):
    """Kernel, strides, dilations, pads, source and destination sizes.

    Args:
        unit: whether each window is one position, for which the library has kernels of their own.
    """
    rng = m.rng
    found = []
    same = rng.random() < 0.5
    first = None
    for _ in range(rank):
        while True:
            if same and first is not None:
                k, s, d = first
            else:
                k, s, d = rng.choice([1, 2, 3, 3, 5, 7]), rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 1, 2])
            if unit:
                k, s, d = 1, 1, 1
            extent = d * (k - 1) + 1
            size = rng.choice([1, 2, 3, 5, 7, 8, 9, 13, 14, 16, 17, 28, 31][: {1: 13, 2: 12, 3: 8}[rank]])
            begin = rng.choice([0, 0, (extent - 1) // 2, rng.randint(0, max(extent - 1, 0))])
            end = rng.choice([begin, begin, 0, rng.randint(0, max(extent - 1, 0))])
            out = (size + begin + end - extent) // s + 1
            if out >= 1 and size + begin + end >= extent:
                break
        first = (k, s, d)
        found.append((k, s, d, begin, end, size, out))
    return [tuple(column) for column in zip(*found, strict=True)]


def patches(x, geometry, fill=0.0):
    """(N, C, out…, taps…) of (N, C, X)."""
    kernel, strides, dilations, begin, end, _, out = geometry
    rank = len(kernel)
    pad = [(0, 0), (0, 0)] + [
        (b, e + s + d * k) for b, e, s, d, k in zip(begin, end, strides, dilations, kernel, strict=True)
    ]
    padded = np.pad(x, pad, constant_values=fill)
    made = np.empty((*x.shape[:2], *out, *kernel))
    for tap in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, dilations, strides, out, strict=True)
        )
        made[(slice(None), slice(None), *[slice(None)] * rank, *tap)] = padded[
            (slice(None), slice(None), *cut)
        ]
    return made


def scattered(grads, geometry, shape):
    """The adjoint of `patches`."""
    kernel, strides, dilations, begin, end, size, out = geometry
    rank = len(kernel)
    pad = [
        b + e + s + d * k + n
        for b, e, s, d, k, n in zip(begin, end, strides, dilations, kernel, size, strict=True)
    ]
    total = np.zeros((*shape[:2], *pad))
    for tap in itertools.product(*map(range, kernel)):
        cut = tuple(
            slice(t * d, t * d + s * (o - 1) + 1, s)
            for t, d, s, o in zip(tap, dilations, strides, out, strict=True)
        )
        total[(slice(None), slice(None), *cut)] += grads[
            (slice(None), slice(None), *[slice(None)] * rank, *tap)
        ]
    inside = tuple(slice(b, b + n) for b, n in zip(begin, size, strict=True))
    return total[(slice(None), slice(None), *inside)]


def _geometry_arguments(geometry):
    kernel, strides, dilations, begin, end, _, _ = geometry
    return dims(strides), dims(kernel), dims(tuple(d - 1 for d in dilations)), dims(begin), dims(end)


def _data_layout(m, shape, dtype, blocked=0.15):
    roll = m.rng.random()
    if roll < blocked:
        return m.blocked(shape, dtype)
    return m.plain(shape, dtype, m.some("rows", "last", "last", "rows", "order", "gaps"))


def pooling(m, backward=False):
    rng = m.rng
    if m.wide:
        n, c, axes = wide_pooling(rng)
        geometry = [tuple(column) for column in zip(*axes, strict=True)]
        rank = len(axes)
    else:
        rank = rng.choice([1, 2, 2, 2, 3])
        geometry = windows(m, rank)
        n, c = rng.choice([1, 2, 3]), rng.choice(CHANNELS)
    size, out = geometry[5], geometry[6]
    while not m.wide and (
        n * c * math.prod(size) > MOST or n * c * math.prod(out) * math.prod(geometry[0]) > 16 * MOST
    ):
        c = max(1, c // 2)
        n = 1
        if c == 1 and n == 1:
            break
    shape, result = (n, c, *size), (n, c, *out)
    name = rng.choice(["pooling_max", "pooling_avg_include_padding", "pooling_avg_exclude_padding"])
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16] if backward else [D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8])
    if backward and any(d * (k - 1) >= s for k, s, d in zip(*geometry[:3], strict=True)):
        a = D.f32  # halves are rounded after each window that an element is in: lowerings don't ask for that
    dst = a if backward or a in FLOATS else rng.choice([a, D.f32])
    source = _data_layout(m, shape, a)
    x = (
        m.data.permutation(math.prod(shape)).reshape(shape) % 200 - 100.0
        if backward and name == "pooling_max"
        else m.values(shape, a)
    )
    found = patches(x, geometry, -np.inf if name == "pooling_max" else 0.0)
    taps = tuple(range(2 + rank, 2 + 2 * rank))
    counts = patches(np.ones((1, 1, *size)), geometry).sum(taps)
    if (counts == 0).any():
        raise Undrawn("a window in the padding alone")
    share = 1 / math.prod(geometry[0]) if name == "pooling_avg_include_padding" else 1 / counts
    y = found.max(taps) if name == "pooling_max" else found.sum(taps) * share
    words = {"algorithm": name, "src": name_of(source), "geometry": [list(g) for g in geometry]}
    numbers = _geometry_arguments(geometry)
    if not backward:
        order = [0, *range(2, rank + 2), 1] if rng.random() < 0.5 else None
        scales, points, quantize = m.quantization(dst)
        attributes, inputs, after, post = m.attributes(result, dst, rng.random() < 0.5, scales, points, order)
        target = rng.choice([m.any(result, dst), m.plain(result, dst, m.some("rows", "last", "gaps"))])
        words |= {"dst": name_of(target), "post": post, "scales": str(scales)}
        return Trial(
            "pooling_forward",
            [
                m.engine,
                Propagation.forward_inference,
                getattr(Algorithm, name),
                source,
                target,
                *numbers,
                attributes,
            ],
            {Arg.SRC: (source, x), **inputs},
            {Arg.DST: (Query.dst_md, quantize(after(y)))},
            words,
            2.0,
            1e-5,
        )
    attributes, _, _, _ = m.attributes(result, dst, False)
    dy = m.values(result)
    forward_target = (
        m.any(result, a) if name == "pooling_max" or rng.random() < 0.5 else m.plain(result, a, "rows")
    )
    hint_source = source if name == "pooling_max" else m.dense(shape, a, "rows")
    hint = described(
        m.engine,
        "pooling_forward",
        m.engine,
        Propagation.forward_training,
        getattr(Algorithm, name),
        hint_source,
        forward_target,
        *numbers,
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    diff_dst = hint.memory_desc(Query.dst_md) if name == "pooling_max" else _data_layout(m, result, a)
    target = source if name == "pooling_max" else m.any(shape, a)
    if name == "pooling_max":
        grads = np.zeros_like(found)
        flat = found.reshape(*found.shape[: 2 + rank], -1)
        at = flat.argmax(-1)
        np.put_along_axis(grads.reshape(flat.shape), at[..., None], dy[..., None], -1)
    else:
        grads = np.broadcast_to((dy * share).reshape(*result, *[1] * rank), found.shape)
    trial = Trial(
        "pooling_backward",
        [m.engine, getattr(Algorithm, name), target, diff_dst, *numbers, hint, attributes],
        {Arg.DIFF_DST: (diff_dst, dy)},
        {Arg.DIFF_SRC: (Query.diff_src_md, scattered(grads, geometry, shape))},
        words | {"diff_dst": name_of(diff_dst)},
        4.0,
        1e-4,
    )
    if name == "pooling_max":
        trial.workspace = (hint, {Arg.SRC: (source, x)}, {Arg.DST: (diff_dst, y)})
    return trial


def resampling(m, backward=False):
    rng = m.rng
    rank = rng.choice([1, 2, 2, 3])
    n, c = rng.choice([1, 2]), rng.choice([x for x in CHANNELS if x <= 65])
    size = tuple(rng.choice([1, 2, 3, 4, 5, 7, 8]) for _ in range(rank))
    out = tuple(rng.choice([1, 2, 3, 4, 6, 7, 8, 14, 16]) for _ in range(rank))
    if m.wide:
        n, c, *size = wide_shape(rng, 2 + rank, MOST)
        size = tuple(min(d, 300) for d in size)
        out = tuple(rng.choice([d, 2 * d, max(1, d // 2), rng.randint(1, 2 * d)]) for d in size)
    linear = rng.random() < 0.5
    shape, result = (n, c, *size), (n, c, *out)
    a = rng.choice([D.f32, D.f32, D.bf16, D.f16, D.s8, D.u8] if not backward else FLOATS)
    source = _data_layout(m, shape, a)
    weights = []
    for i, o in zip(size, out, strict=True):
        w = np.zeros((o, i))
        for k in range(o):
            at = np.float32(np.float32(k + 0.5) * np.float32(i) / np.float32(o))
            if not linear:
                w[k, min(max(int(np.rint(np.float32(at - np.float32(0.5)))), 0), i - 1)] += 1
                if abs((float(at) - 0.5) % 1 - 0.5) < 1e-4:
                    raise Undrawn("a tie between neighbours")
            else:
                place = (k + 0.5) * i / o - 0.5
                left = math.floor(place)
                w[k, min(max(left, 0), i - 1)] += 1 - (place - left)
                w[k, min(max(left + 1, 0), i - 1)] += place - left
        weights.append(w)

    def along(array, turn):
        for axis, w in enumerate(weights):
            array = np.moveaxis(np.tensordot(array, w.T if not turn else w, axes=(2 + axis, 0)), -1, 2 + axis)
        return array

    name = Algorithm.resampling_linear if linear else Algorithm.resampling_nearest
    words = {"linear": linear, "src": name_of(source), "out": list(out)}
    if not backward:
        x = m.values(shape, a)
        dst = rng.choice([a, a, D.f32]) if linear else a
        order = [0, *range(2, rank + 2), 1] if rng.random() < 0.5 else None
        attributes, inputs, after, post = m.attributes(result, dst, rng.random() < 0.5, None, None, order)
        target = rng.choice([m.any(result, dst), m.plain(result, dst, m.some("rows", "last", "gaps"))])
        return Trial(
            "resampling_forward",
            [m.engine, Propagation.forward_inference, name, None, source, target, attributes],
            {Arg.SRC: (source, x), **inputs},
            {Arg.DST: (Query.dst_md, after(along(x, False)))},
            words | {"dst": name_of(target), "post": post},
            2.0,
            1e-4,
        )
    attributes, _, _, _ = m.attributes(result, a, False)
    hint = described(
        m.engine,
        "resampling_forward",
        m.engine,
        Propagation.forward_inference,
        name,
        None,
        m.dense(shape, a, "rows"),
        m.any(result, a),
        attributes,
    )
    if hint is None:
        raise Undrawn("no hint")
    dy = m.values(result)
    diff_dst = _data_layout(m, result, a)
    return Trial(
        "resampling_backward",
        [m.engine, name, None, m.any(shape, a), diff_dst, hint, attributes],
        {Arg.DIFF_DST: (diff_dst, dy)},
        {Arg.DIFF_SRC: (Query.diff_src_md, along(dy, True))},
        words | {"diff_dst": name_of(diff_dst)},
        4.0,
        1e-3,
    )


def _wide_problem(rng):
    """As `_problem`, with something large."""
    p = wide_convolution(rng)
    return (
        p.kind,
        p.batch,
        p.groups,
        p.rows,
        p.columns,
        [tuple(column) for column in zip(*p.axes, strict=True)],
    )


def _problem(m):
    """Kind, batch, groups, channels of a group on both sides, and the geometry, of a convolution."""
    rng = m.rng
    geometry = windows(m, rng.choice([1, 2, 2, 2, 3]), rng.random() < 0.2)
    kernel, size, out = geometry[0], geometry[5], geometry[6]
    kind = rng.choice(["dense", "dense", "few", "grouped", "depthwise", "first"])
    groups, i, o = 1, rng.choice([1, 3, 8, 16, 17, 32, 48, 64]), rng.choice([1, 4, 8, 16, 20, 32, 64])
    if kind == "few":
        i, o = rng.randint(1, 5), rng.randint(1, 5)
    elif kind == "grouped":
        groups, i, o = (
            rng.choice([2, 3, 4, 8]),
            rng.choice([1, 2, 3, 4, 8, 16]),
            rng.choice([1, 2, 3, 4, 8, 16]),
        )
    elif kind == "depthwise":
        groups, i, o = rng.choice([2, 3, 8, 15, 16, 17, 32, 48, 64]), 1, 1
    elif kind == "first":
        i, o = rng.choice([1, 2, 3, 4]), rng.choice([16, 32, 64])
    n = rng.choice([1, 1, 2, 3])
    if (
        n * groups * i * math.prod(out) * math.prod(kernel) > 1 << 21
        or math.prod(size) * groups * max(i, o) * n > 4 * MOST
    ):
        raise Undrawn("too large")
    return kind, n, groups, i, o, geometry


def convolution(m, way="convolution_forward"):
    rng = m.rng
    kind, n, groups, i, o, geometry = _wide_problem(rng) if m.wide else _problem(m)
    kernel, size, out = geometry[0], geometry[5], geometry[6]
    rank = len(kernel)
    kinds = [(D.f32, D.f32, D.f32)] * 3 + [
        (D.bf16, D.bf16, D.bf16),
        (D.bf16, D.bf16, D.f32),
        (D.f16, D.f16, D.f16),
    ]
    if way != "convolution_backward_data":
        kinds += [
            (D.u8, D.s8, rng.choice([D.f32, D.u8, D.s8, D.s32])),
            (D.s8, D.s8, rng.choice([D.f32, D.u8, D.s8])),
        ] * 2
    a, b, dst = rng.choice(kinds)
    integers = a in (D.u8, D.s8)
    small, large = (n, groups * o, *out), (n, groups * i, *size)
    weights = (groups, o, i, *kernel)
    w = m.values(weights, b, -2, 3)
    strides_k = [
        dims(geometry[1]),
        dims(tuple(d - 1 for d in geometry[2])),
        dims(geometry[3]),
        dims(geometry[4]),
    ]

    def data(shape, dtype):
        if shape[1] > 1 and rng.random() < 0.5:
            return m.plain(shape, dtype, "last")
        return m.any(shape, dtype)

    forward = way == "convolution_forward"
    source_shape, result = (large, small) if forward else (small, large)
    x = m.values(source_shape, a)
    large_values = integers and rng.random() < 0.3
    if large_values:
        x, w = m.full(source_shape, a), m.full(weights, b)
        if m.wide and rng.random() < 0.5:
            # Sums beyond what f32 holds exactly.
            x, w = np.minimum(np.abs(x), 127), np.minimum(np.abs(w), 127)
    scales, points, quantize = m.quantization(dst) if integers else ({}, {}, lambda r: r)
    if integers and rng.random() < 0.7:
        scales[Arg.SRC] = (0, np.array([0.5]))
        many = rng.random() < 0.5
        made = groups * (o if forward else i)
        scales[Arg.WEIGHTS] = (
            ((1 if groups == 1 else 3), m.data.choice([0.5, 1.0, 2.0], (made,)))
            if many
            else (0, np.array([2.0]))
        )
        if rng.random() < 0.4:
            points[Arg.SRC] = rng.choice([1, 3])
    order = [0, *range(2, rank + 2), 1] if rng.random() < 0.5 else None
    links = way != "convolution_backward_data"
    attributes, inputs, after, words = m.attributes(result, dst, links, scales, points, order, **m.rounded(a))
    shifted = x - points.get(Arg.SRC, 0)
    if forward:
        found = (
            patches(shifted, geometry)
            if not points.get(Arg.SRC)
            else patches(x, geometry, points[Arg.SRC]) - points[Arg.SRC]
        )
        found = found.reshape(n, groups, i, math.prod(out), math.prod(kernel)).swapaxes(-1, -2)
        found = found.reshape(n, groups, -1, math.prod(out))
        y = np.matmul(w.reshape(groups, o, -1), found).reshape(small)
    else:
        grads = np.matmul(w.reshape(groups, o, -1).swapaxes(1, 2), shifted.reshape(n, groups, o, -1))
        grads = grads.reshape(n, groups, i, math.prod(kernel), math.prod(out)).swapaxes(-1, -2)
        y = scattered(grads.reshape(n, groups * i, *out, *kernel), geometry, large)
    per = (1, -1, *[1] * rank)
    if Arg.SRC in scales:
        y = (
            y
            * scales[Arg.SRC][1]
            * scales[Arg.WEIGHTS][1].reshape(per if scales[Arg.WEIGHTS][1].size > 1 else ())
        )
    deconv = way == "deconvolution_forward"
    own = np.swapaxes(w, 1, 2) if deconv else w
    own = own[0] if groups == 1 else own
    wanted = m.any(own.shape, b)
    bias = None
    if links and rng.random() < 0.4:
        bias = m.vector(result[1], D.f32 if integers else a)
        z = m.values((result[1],))
        inputs[Arg.BIAS] = (bias, z)
        y = y + z.reshape(per)
    source, target = data(source_shape, a), data(result, dst)
    words = {
        "kind": kind,
        "groups": groups,
        "src": name_of(source),
        "dst": name_of(target),
        "weights": list(own.shape),
        "geometry": [list(g) for g in geometry],
        "bias": bias is not None,
        "post": words,
        "w": b.value,
        "large": large_values,
        "scales": str({int(k): v[0] for k, v in scales.items()}),
        "points": str(points),
    }
    expected = quantize(after(y))
    if way == "convolution_backward_data":
        hint = described(
            m.engine,
            "convolution_forward",
            m.engine,
            Propagation.forward_training,
            Algorithm.convolution_direct,
            m.any(large, a),
            wanted,
            None,
            m.any(small, a),
            *strides_k,
            attributes,
        )
        if hint is None:
            raise Undrawn("no hint")
        return Trial(
            way,
            [m.engine, Algorithm.convolution_direct, target, wanted, source, *strides_k, hint, attributes],
            {Arg.DIFF_DST: (Query.diff_dst_md, x), Arg.WEIGHTS: (Query.weights_md, own)},
            {Arg.DIFF_SRC: (Query.diff_src_md, expected)},
            words,
            2.0,
            1e-4,
        )
    algorithm = Algorithm.deconvolution_direct if deconv else Algorithm.convolution_direct
    return Trial(
        way,
        [
            m.engine,
            Propagation.forward_inference,
            algorithm,
            source,
            wanted,
            bias,
            target,
            *strides_k,
            attributes,
        ],
        {Arg.SRC: (Query.src_md, x), Arg.WEIGHTS: (Query.weights_md, own), **inputs},
        {Arg.DST: (Query.dst_md, expected)},
        words,
        2.0,
        1e-4,
    )
