"""The table of ops that a graph may begin or go on with, and the families that have no file of their own here.

A function takes the draw, the kind and a tensor to work on, or None for new inputs, and returns the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from wide_draws import INNER

from .drawing import Draw, Impossible
from .elementwise import (
    BINARY,
    ELTWISE,
    ELTWISE_BACKWARD,
    bias,
    binary,
    eltwise,
    eltwise_backward,
    greater_equal,
    prelu,
    select,
    small,
)
from .windows import convolution, interpolate, pool

REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")

MOST_POWERS = 120
"""Of two, in a product that f32 holds."""

Root = Callable[[Draw, str, "int | None"], list[int]]


def is_image(draw: Draw, x: int) -> bool:
    return 3 <= len(draw.dims(x)) <= 5


def matmul(draw: Draw, kind: str, x: int | None) -> list[int]:
    rng = draw.rng
    sizes = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 33, 64, 65, *(INNER if draw.deep else ()))
    if x is None:
        batch = [rng.choice((1, 1, 2, 3, 4)) for _ in range(rng.choice((0, 0, 1, 1, 2, 2, 3)))]
        rows, inner = rng.choice(sizes), rng.choice(sizes)
        if draw.empty:
            rows, inner, sizes = rng.choice((0, 2)), rng.choice((0, 2)), (0, 1, 5)
        turned = draw.chance(0.25)
        if draw.chance(0.05):
            x = draw.input([inner])
            batch = []
        else:
            x = draw.input([*batch, inner, rows] if turned else [*batch, rows, inner])
    else:
        shape = draw.dims(x)
        if not shape:
            raise Impossible
        batch, turned, inner = list(shape[:-2]), False, shape[-1]
        if len(shape) > 1 and draw.chance(0.2):
            turned, inner = True, shape[-2]
    columns = rng.choice(sizes)
    other = draw.chance(0.35)
    matrix = [columns, inner] if other else [inner, columns]
    front = rng.choice(([], batch, [d if draw.chance(0.5) else 1 for d in batch], batch[1:]))
    if len(draw.dims(x)) == 1 and draw.chance(0.3):
        front = [rng.choice((1, 2, 3))]
    w = draw.weights([*front, *matrix] if not draw.chance(0.04) else [inner])
    attributes: dict[str, Any] = {"transpose_a": turned, "transpose_b": other}
    extra = []
    if draw.chance(0.3) and len(draw.dims(w)) > 1:
        extra = [draw.weights([columns])]
    to = draw.type if draw.chance(0.9) else rng.choice(("f32", "bf16", "f16"))
    return draw.ops(kind, x, w, *extra, to=to, **attributes)


def reduction(draw: Draw, kind: str, x: int | None) -> list[int]:
    data = "power" if kind == "ReduceProd" else "any"
    x = draw.input(draw.shape(), data=data) if x is None else x
    rank = len(draw.dims(x))
    if not rank or (kind == "ReduceProd" and not small(draw, x, 2)):
        raise Impossible
    axes = draw.rng.sample(range(rank), draw.rng.randint(1, rank))
    if draw.chance(0.4) and rank > 2:
        axes = [a for a in range(rank) if a not in (0, draw.channel_axis(rank))]
    axes = [a - rank if draw.chance(0.2) else a for a in axes]
    if kind == "ReduceProd" and not _stays_finite(draw.values[x], axes):
        raise Impossible
    keep = draw.chance(0.6)
    if draw.chance(0.06):
        return draw.ops(kind, x, draw.integers(axes), keep_dims=keep)
    return draw.ops(kind, x, axes=axes, keep_dims=keep)


def _stays_finite(values: np.ndarray, axes: list[int]) -> bool:
    """Whether a product along axes neither overflows nor vanishes on its way, in whatever order it is taken."""
    factors = np.abs(values.astype(np.float64))
    powers = np.abs(np.log2(np.where(factors > 0, factors, 1.0)))
    return bool((powers.sum(tuple(axes)) < MOST_POWERS).all())


def softmax(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    shape = draw.dims(x)
    if not shape:
        raise Impossible
    axis = draw.rng.randrange(-len(shape), len(shape))
    if kind in ("SoftMaxBackward", "LogSoftmaxBackward"):
        dst = draw.input(shape, data="fraction")
        return draw.ops(kind, x, dst, axis=axis)
    if kind == "SoftMax" and draw.chance(0.15):
        return draw.ops(kind, x, axis=axis, outputs=2)
    return draw.ops(kind, x, axis=axis)


def batch_norm(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image() if draw.chance(0.85) else [draw.batch, draw.channels()]) if x is None else x
    shape = draw.dims(x)
    if len(shape) < 2:
        raise Impossible
    channels = shape[draw.channel_axis(len(shape))]
    kept = "bf16" if draw.type == "bf16" and draw.chance(0.3) else "f32"
    vector = lambda data="any": draw.weights([channels], kept, data)  # noqa: E731
    attributes: dict[str, Any] = {"epsilon": draw.rng.choice((0.1, 0.01, 1.0)), "data_format": draw.format}
    if kind == "BatchNormInference":
        return draw.ops(kind, x, vector(), vector(), vector(), vector("positive"), **attributes)
    if kind == "BatchNormForwardTraining":
        affine = [vector(), vector()] if draw.chance(0.6) else []
        if draw.chance(0.5):
            attributes["momentum"] = 0.25
        return draw.ops(kind, x, vector(), vector("positive"), *affine, **attributes)
    src = draw.input(shape)
    affine = draw.chance(0.6)
    ins = [src, x, vector(), vector("positive"), *([vector()] if affine else [])]
    return draw.ops(kind, *ins, outputs=3 if affine else 1, **attributes)


def layer_norm(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    shape = draw.dims(x)
    if not shape:
        raise Impossible
    begin = len(shape) - 1 if draw.chance(0.7) else draw.rng.randrange(len(shape))
    kept = draw.rng.choice(("f32", "f32", "bf16")) if draw.type == "bf16" else "f32"
    attributes: dict[str, Any] = {
        "begin_norm_axis": draw.rng.choice((begin, begin - len(shape))),
        "epsilon": 0.1,
    }
    normal = int(np.prod(shape[begin:]))
    affine = draw.chance(0.6)
    if kind == "RMSNorm":
        gamma = [draw.weights(shape[begin:], draw.type)] if affine else []
        return draw.ops(kind, x, *gamma, **attributes)
    if kind == "LayerNorm":
        keep = draw.chance(0.4)
        scale = [draw.weights([normal], kept), draw.weights([normal], kept)] if affine else []
        attributes |= {"keep_stats": keep, "use_affine": affine}
        return draw.ops(kind, x, *scale, outputs=3 if keep else 1, **attributes)
    src = draw.input(shape)
    stats = [draw.input(shape[:begin], kept), draw.input(shape[:begin], kept, "positive")]
    scale = [draw.weights([normal], kept), draw.weights([normal], kept)] if affine else []
    attributes["use_affine"] = affine
    return draw.ops(kind, src, x, *stats, *scale, outputs=3 if affine else 1, **attributes)


def group_norm(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image()) if x is None else x
    shape = draw.dims(x)
    if len(shape) < 3:
        raise Impossible
    channels = shape[draw.channel_axis(len(shape))]
    groups = draw.rng.choice(
        [g for g in (1, 2, 3, 4, 8, 16, channels) if channels and channels % g == 0] or [1]
    )
    keep, affine = draw.chance(0.4), draw.chance(0.6)
    scale = [draw.weights([channels], "f32"), draw.weights([channels], "f32")] if affine else []
    attributes = {"groups": groups, "use_affine": affine, "data_format": draw.format, "epsilon": 0.1}
    if kind == "GroupNormBackward":
        of_groups = [shape[0], groups]
        stats = [draw.input(of_groups, "f32"), draw.input(of_groups, "f32", "positive")]
        count = 3 if affine else 1
        return draw.ops(kind, draw.input(shape), x, *stats, *scale[:1], outputs=count, **attributes)
    attributes["keep_stats"] = keep
    return draw.ops(kind, x, *scale, outputs=3 if keep else 1, **attributes)


def concat(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    shape = list(draw.dims(x))
    if not shape:
        raise Impossible
    axis = draw.rng.choice(
        (0, draw.channel_axis(len(shape)) if len(shape) > 1 else 0, draw.rng.randrange(len(shape)))
    )
    parts = [x]
    for _ in range(draw.rng.choice((0, 1, 1, 2, 3))):
        size = shape[axis] if draw.chance(0.5) else draw.rng.choice((1, 2, 3, 8, 16))
        parts.append(draw.input([size if a == axis else d for a, d in enumerate(shape)]))
    draw.rng.shuffle(parts)
    return draw.ops(kind, *parts, axis=axis if draw.chance(0.7) else axis - len(shape))


def reshape(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    shape = list(draw.dims(x))
    if not shape or 0 in shape:
        raise Impossible
    r, at = draw.rng.random(), draw.rng.randrange(len(shape))
    if r < 0.35:
        target = [*shape[:at], int(np.prod(shape[at:]))]
    elif r < 0.6:
        target = [*shape[:at], 1, *shape[at:]]
    elif r < 0.8:
        factor = draw.rng.choice([f for f in range(1, shape[at] + 1) if shape[at] % f == 0])
        target = [*shape[:at], factor, shape[at] // factor, *shape[at + 1 :]]
    else:
        target = [d for d in shape if d != 1] or [1]
    if draw.chance(0.4):
        target[draw.rng.randrange(len(target))] = -1
    return draw.ops(kind, x, shape=target, special_zero=draw.chance(0.5))


def transpose(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    order = list(range(len(draw.dims(x))))
    if draw.chance(0.4) and len(order) > 2:
        order = [0, *order[2:], 1]
    elif draw.chance(0.3) and len(order) > 1:
        order[-1], order[-2] = order[-2], order[-1]
    else:
        draw.rng.shuffle(order)
    return draw.ops(kind, x, order=order)


def part(draw: Draw, kind: str, x: int | None) -> list[int]:
    """Parts along axes with steps: HostSlice, or the MaxPool that importers make of one along a spatial axis."""
    x = draw.input(draw.shape()) if x is None else x
    shape = draw.dims(x)
    if not shape:
        raise Impossible
    if len(shape) in (3, 4, 5) and 0 not in shape and draw.chance(0.3):
        return [_pooled_part(draw, x)]
    axes = draw.rng.sample(range(len(shape)), draw.rng.choice((1, 1, 1, min(2, len(shape)), len(shape))))
    bounds = [_bounds(draw, shape[axis]) for axis in axes]
    starts, stops, steps = (list(one) for one in zip(*bounds, strict=True))
    named = [axis if draw.chance(0.8) else axis - len(shape) for axis in axes]
    return draw.ops(kind, x, axes=named, starts=starts, stops=stops, steps=steps)


def _bounds(draw: Draw, size: int) -> tuple[int, int, int]:
    """Start, stop and step of a part of an axis, which is empty only where sizes may be zero."""
    rng = draw.rng
    step = rng.choice((1, 1, 1, 2, 3)) * (-1 if draw.chance(0.05) else 1)
    for _ in range(8):
        start, stop = (
            rng.choice((0, size // 2, rng.randint(0, size), -rng.randint(1, size + 1))),
            rng.choice((size, 2**31 - 1, size // 2, rng.randint(0, size), -rng.randint(1, size + 1))),
        )
        if step < 0:
            start, stop = stop, start
        if draw.empty or range(size)[start:stop:step]:
            return start, stop, step
    return (0, size, 1) if step > 0 else (size, -size - 1, -1)


def _pooled_part(draw: Draw, x: int) -> int:
    """A part along a spatial axis by windows of one element and padding that cuts off."""
    shape, rank = draw.dims(x), len(draw.dims(x)) - 2
    place = draw.rng.randrange(rank)
    size = shape[place + (2 if draw.format == "NCX" else 1)]
    chosen = range(draw.rng.randrange(size), size, draw.rng.choice((1, 1, 2, 3)))
    chosen = chosen[: draw.rng.randint(1, len(chosen))]
    begin, end, strides = [0] * rank, [0] * rank, [1] * rank
    begin[place], end[place], strides[place] = -chosen[0], chosen[-1] + 1 - size, chosen.step
    return draw.op(
        "MaxPool",
        x,
        kernel=[1] * rank,
        strides=strides,
        pads_begin=begin,
        pads_end=end,
        data_format=draw.format,
    )


def plain(draw: Draw, kind: str, x: int | None) -> list[int]:
    """Reorder, GenIndex."""
    x = draw.input(draw.shape()) if x is None else x
    if kind == "GenIndex":
        if not draw.dims(x):
            raise Impossible
        return draw.ops(kind, x, axis=draw.rng.randrange(-len(draw.dims(x)), len(draw.dims(x))))
    return draw.ops(kind, x)


def cast(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    to = draw.rng.choice([t for t in ("f32", "bf16", "f16") if t != draw.wire(x).type])
    made = draw.ops(kind, x, to=to)
    draw.type = to
    return made


def dropout(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    one = draw.rng.choice(([], [1]))
    seed, offset = (draw.input(one, "s64") for _ in range(2))
    return draw.ops(
        kind, x, seed, offset, draw.input(one, "f32", "fraction"), outputs=draw.rng.choice((1, 2))
    )


SCALES = (0.5, 0.25, 1.0, 2.0, 0.1, 0.037)


def quantization(draw: Draw, rank: int, shape: tuple[int, ...], signed: bool) -> dict[str, Any]:
    """Attributes of Quantize and Dequantize."""
    rng = draw.rng
    zero = (lambda: rng.randint(-20, 20)) if signed else (lambda: rng.choice((0, 1, 7, 128, 130, 255)))
    if rank and draw.chance(0.4):
        axis = draw.channel_axis(rank) if draw.chance(0.7) and rank > 1 else rng.randrange(rank)
        count = shape[axis]
        if not count:
            raise Impossible
        attributes: dict[str, Any] = {
            "qtype": "per_channel",
            "axis": axis if draw.chance(0.8) else axis - rank,
            "scales": [rng.choice(SCALES) for _ in range(count)],
        }
        if draw.chance(0.5):
            attributes["zps"] = [zero() for _ in range(count)]
        return attributes
    attributes = {"scales": [rng.choice(SCALES)]}
    if draw.chance(0.6):
        attributes["zps"] = [zero()]
    return attributes


def quantize(draw: Draw, kind: str, x: int | None) -> list[int]:
    if x is None:
        x = draw.input(draw.shape(), "f32")
    if draw.wire(x).type != "f32":
        x = draw.op("TypeCast", x, to="f32")
    to = draw.rng.choice(("s8", "u8"))
    shape = draw.dims(x)
    if kind == "DynamicQuantize":
        scales = draw.rng.choice(([], [1]))
        zps = [draw.input(scales, "s8")] if draw.chance(0.5) else []
        return draw.ops(kind, x, draw.input(scales, "f32", "positive"), *zps, to=to)
    return draw.ops(kind, x, to=to, **quantization(draw, len(shape), shape, to == "s8"))


def dequantize(draw: Draw, kind: str, x: int | None) -> list[int]:
    del x
    stored = draw.rng.choice(("s8", "u8"))
    x = draw.input(draw.shape(), stored)
    shape = draw.dims(x)
    draw.type = "f32"
    if kind == "DynamicDequantize":
        draw.type = draw.rng.choice(("f32", "bf16", "f16"))
        one = draw.rng.choice(([], [1]))
        zps = [draw.input(one, draw.rng.choice(("s8", "s32")))] if draw.chance(0.5) else []
        return draw.ops(kind, x, draw.input(one, draw.type, "positive"), *zps)
    return draw.ops(kind, x, **quantization(draw, len(shape), shape, stored == "s8"))


FAMILIES: dict[Root, tuple[str, ...]] = {
    eltwise: tuple(ELTWISE),
    eltwise_backward: tuple(ELTWISE_BACKWARD),
    binary: BINARY,
    greater_equal: ("GreaterEqual",),
    select: ("Select",),
    bias: ("BiasAdd", "BiasAddBackward"),
    prelu: ("PReLU", "PReLUBackward"),
    convolution: (
        "Convolution",
        "ConvolutionBackwardData",
        "ConvolutionBackwardWeights",
        "ConvTranspose",
        "ConvTransposeBackwardData",
        "ConvTransposeBackwardWeights",
    ),
    pool: ("AvgPool", "AvgPoolBackward", "MaxPool", "MaxPoolBackward"),
    interpolate: ("Interpolate", "InterpolateBackward"),
    matmul: ("MatMul",),
    reduction: REDUCTIONS,
    softmax: ("SoftMax", "SoftMaxBackward", "LogSoftmax", "LogSoftmaxBackward"),
    batch_norm: ("BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"),
    layer_norm: ("LayerNorm", "LayerNormBackward", "RMSNorm"),
    group_norm: ("GroupNorm", "GroupNormBackward"),
    concat: ("Concat",),
    reshape: ("StaticReshape",),
    transpose: ("StaticTranspose",),
    part: ("HostSlice",),
    plain: ("Reorder", "GenIndex"),
    cast: ("TypeCast",),
    dropout: ("Dropout",),
    quantize: ("Quantize", "DynamicQuantize"),
    dequantize: ("Dequantize", "DynamicDequantize"),
}
ROOTS: dict[str, Root] = {kind: function for function, kinds in FAMILIES.items() for kind in kinds}
"""Kind → what draws it. End marks outputs and Wildcard has no meaning of its own; both have no numbers."""
IMAGES = frozenset({convolution, pool, interpolate, group_norm})
"""Functions whose kinds take data with spatial axes."""
