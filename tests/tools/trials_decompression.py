"""Trials of products that decompress their weights; see `primitive_trials.py`."""

from __future__ import annotations

import math

import numpy as np
from onednn_graph.backends.onednn.library.capabilities import DECOMPRESSION
from onednn_graph.backends.onednn.library.enumerators import Arg, Query
from onednn_graph.backends.onednn.library.loading import LATER_DATA_TYPES
from onednn_graph.backends.onednn.library.memory import MemoryDesc
from onednn_graph.backends.onednn.library.primitive import Decompression, Grouping
from onednn_graph.backends.onednn.lowering.decompression import MODES
from onednn_graph.ops.data_types import DataType as D
from onednn_graph.ops.errors import LibraryError
from trial_maker import LIMITS, Trial, Undrawn, name_of

GROUPS = (1, 2, 8, 16, 24, 32, 48, 64, 100, 128)
COLUMNS = (2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 48, 64, 65, 96, 100, 127, 129, 160)
ROWS = (1, 1, 1, 2, 3, 5, 7, 8, 16, 17, 33, 64, 100)


def matmul(m):
    """Any integers, scales that are powers of two, and sums that f32 holds exactly."""
    rng = m.rng
    if DECOMPRESSION not in m.lib.capabilities.later:
        raise Undrawn("the library decompresses nothing")
    batch, rows = rng.choice([(), (), (), (3,)]), rng.choice(ROWS)
    group, count, columns = rng.choice(GROUPS), rng.choice([1, 1, 2, 3, 4, 7]), rng.choice(COLUMNS)
    if m.wide:
        rows, group, count = rng.choice([1, 1, 3, 512]), rng.choice([32, 64, 128]), rng.choice([8, 16, 31])
        columns = rng.choice([16, 130, 512, 777])
    inner = max(group * count, 2)
    kind = rng.choice([D.s8, D.u8, D.s4, D.u4])
    a = rng.choice([D.f32, D.f32, D.f32, D.bf16])
    dst = a if rng.random() < 0.8 else D.f32
    first, second, result = (
        (*batch, rows, inner),
        (*(1 for _ in batch), inner, columns),
        (*batch, rows, columns),
    )
    try:
        weights = _weights(m, second, kind)
    except LibraryError as error:
        raise Undrawn(str(error)) from error
    low, high = LIMITS[kind]
    x, q = m.values(first, a), m.data.integers(low, high + 1, second).astype(np.float64)
    each = rng.choice(["all", "columns", "groups", "groups", "groups"])
    zeros = rng.choice([None, None, each])
    real = q
    arguments, grouping = {}, {}
    for name, how, number in (("points", zeros, Arg.ATTR_ZERO_POINTS), ("scales", each, Arg.ATTR_SCALES)):
        if how is None:
            grouping[name] = None
            continue
        shape = {"all": (1, 1), "columns": (1, columns), "groups": (inner // group, columns)}[how]
        if name == "scales":
            numbers, data_type = 2.0 ** m.data.integers(-2, 2, shape), D.f32
        else:
            data_type = {D.s4: D.s8, D.u4: D.u8}.get(kind, kind)
            numbers = m.data.integers(low, high + 1, shape).astype(np.float64)
        grouping[name] = grouped(len(second), shape, group, data_type)
        desc = MemoryDesc.strided(m.lib, shape, data_type, (columns if shape[1] > 1 else 1, 1))
        arguments[number | Arg.WEIGHTS] = (desc, numbers)
        spread = numbers.repeat(inner // shape[0], 0)
        real = real * spread if name == "scales" else real - spread
    how = Decompression(grouping["scales"], grouping["points"])
    attributes, inputs, after, words = m.attributes(
        result, dst, True, order=None, channel=len(result) - 1, decompression=how, fpmath=MODES[a]
    )
    y, bias = np.matmul(x, real), None
    if rng.random() < 0.3:
        own = (*(1 for _ in result[:-1]), columns)
        bias, z = m.dense(own, D.f32 if a is D.f32 else a, "rows"), m.values(own)
        inputs[Arg.BIAS] = (bias, z)
        y = y + z
    left, target = m.dense(first, a, "rows"), m.dense(result, dst, "rows")
    inputs |= {Arg.SRC: (left, x), Arg.WEIGHTS: (Query.weights_md, q), **arguments}
    scale = np.abs(x).max() * np.abs(real).max() * math.sqrt(inner)
    return Trial(
        "matmul",
        [m.engine, left, weights, bias, target, attributes],
        inputs,
        {Arg.DST: (Query.dst_md, after(y))},
        {
            "a": name_of(left),
            "b": f"{kind.value} {list(second)}",
            "c": name_of(target),
            "group": group,
            "scales": each,
            "points": zeros,
            "bias": bias is not None,
            "post": words,
        },
        2.0,
        1e-4 if a is D.f32 else 2**-7 * scale,
    )


def grouped(rank, shape, group, data_type):
    """Which weights share one of so many numbers, as the lowering tells it."""
    if shape[0] > 1:
        return Grouping(3 << (rank - 2), (group, 1), data_type)
    return Grouping((1 << (rank - 1)) * (shape[1] > 1), (), data_type)


def _weights(m, shape, kind):
    """As the library likes them, by rows, or by columns; rows of 4 bits begin at whole bytes."""
    if m.rng.random() < 0.4:
        return m.any(shape, kind)
    order = list(range(len(shape)))
    halves = kind in LATER_DATA_TYPES
    if m.rng.random() < 0.4 and not (halves and shape[-2] % 2):
        order[-1], order[-2] = order[-2], order[-1]
    last = shape[order[-1]]
    strides, step = [0] * len(shape), last + last % 2 * halves
    strides[order[-1]], strides[order[-2]] = 1, step
    for axis in reversed(order[:-2]):
        strides[axis] = step * shape[order[-2]]
    return MemoryDesc.strided(m.lib, shape, kind, strides)
