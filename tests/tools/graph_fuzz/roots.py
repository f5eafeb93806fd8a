"""Ops that a graph may begin with, or that may follow on a tensor: one function for each family.

A function takes the draw, the kind and a tensor to work on, or None for new inputs, and returns the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .drawing import Draw, Impossible

ELTWISE: dict[str, dict[str, Any]] = {
    "Abs": {}, "Clamp": {"min": -1.25, "max": 1.75}, "Elu": {"alpha": 0.5}, "Exp": {}, "GELU": {},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "HardSwish": {}, "LeakyReLU": {"alpha": 0.25}, "Log": {}, "Mish": {},
    "Pow": {"beta": 2.0}, "ReLU": {}, "Reciprocal": {}, "Round": {}, "Sigmoid": {}, "SoftPlus": {"beta": 1.5},
    "Sqrt": {}, "Square": {}, "Tanh": {},
}  # fmt: skip
DOMAINS = {"Log": "positive", "Sqrt": "positive", "Pow": "positive"}
ELTWISE_BACKWARD: dict[str, dict[str, Any]] = {
    "AbsBackward": {}, "ClampBackward": {"min": -1.25, "max": 1.75}, "EluBackward": {"alpha": 1.0}, "GELUBackward": {},
    "HardSigmoidBackward": {"alpha": 0.3, "beta": 0.4}, "HardSwishBackward": {}, "MishBackward": {}, "ReLUBackward": {},
    "SigmoidBackward": {}, "SoftPlusBackward": {"beta": 1.5}, "SqrtBackward": {}, "TanhBackward": {},
}  # fmt: skip
BINARY = ("Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference")
REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")

Root = Callable[[Draw, str, "int | None"], list[int]]


def small(draw: Draw, x: int, most: float) -> bool:
    values = draw.values[x]
    return bool(values.size == 0 or np.abs(values).max() <= most)


def positive(draw: Draw, x: int) -> bool:
    values = draw.values[x]
    return bool(values.size == 0 or values.min() > 0.05)


def apart(draw: Draw, x: int) -> bool:
    """Whether no element is near zero."""
    values = draw.values[x]
    return bool(values.size == 0 or np.abs(values).min() > 0.05)


def is_image(draw: Draw, x: int) -> bool:
    return 3 <= len(draw.dims(x)) <= 5


def eltwise(draw: Draw, kind: str, x: int | None) -> list[int]:
    attributes = dict(ELTWISE[kind])
    if kind == "GELU" and draw.chance(0.4):
        attributes = {"mode": "gelu_tanh"}
    if kind == "Pow":
        attributes = {"beta": draw.rng.choice((2.0, 0.5, -1.0, 3.0, 1.0, 0.0, -0.5, 1.7))}
    if kind == "SoftPlus":
        attributes = {"beta": draw.rng.choice((1.0, 2.0, 1.5, -1.0, 0.5))}
    if x is None:
        x = draw.input(draw.shape(), data=DOMAINS.get(kind, "any"))
    elif (
        (kind in ("Exp", "SoftPlus", "Mish") and not small(draw, x, 8))
        or (kind in ("Square", "Pow") and not small(draw, x, 60))
        or (kind in DOMAINS and not positive(draw, x))
        or (kind == "Reciprocal" and not apart(draw, x))
    ):
        raise Impossible
    return draw.ops(kind, x, **attributes)


def eltwise_backward(draw: Draw, kind: str, x: int | None) -> list[int]:
    attributes = dict(ELTWISE_BACKWARD[kind])
    if kind == "GELUBackward" and draw.chance(0.4):
        attributes = {"mode": "gelu_tanh"}
    data = "any"
    if kind in (
        "ClampBackward",
        "EluBackward",
        "ReLUBackward",
        "SigmoidBackward",
        "SqrtBackward",
        "TanhBackward",
    ):
        attributes["use_dst"] = draw.chance(0.5)
        if attributes["use_dst"]:
            data = {"SigmoidBackward": "fraction", "TanhBackward": "fraction", "EluBackward": "fraction"}.get(
                kind, data
            )
    data = "positive" if kind == "SqrtBackward" else data
    shape = draw.shape() if x is None else draw.dims(x)
    src = draw.input(shape, data=data)
    return draw.ops(kind, src, x if x is not None else draw.input(shape), **attributes)


def binary(draw: Draw, kind: str, x: int | None) -> list[int]:
    if x is None:
        x = draw.input(draw.shape())
    types = draw.type
    if kind in ("Add", "Subtract", "Multiply", "Divide") and draw.chance(0.07):
        types = draw.rng.choice(("f32", "bf16", "f16"))
    other = draw.operand(draw.dims(x), data="power" if kind == "Divide" else "any", kind=types)
    pair = (x, other)
    if draw.chance(0.3) and (kind != "Divide" or apart(draw, x)):
        pair = (other, x)
    return draw.ops(kind, *pair)


def greater_equal(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    return draw.ops(kind, x, draw.operand(draw.dims(x)))


def select(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.shape()) if x is None else x
    shape = draw.dims(x)
    condition = draw.operand(shape, kind="boolean")
    other = draw.operand(shape)
    return draw.ops(kind, condition, *((x, other) if draw.chance(0.5) else (other, x)))


def bias(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image() if draw.chance(0.8) else [draw.batch, draw.channels()]) if x is None else x
    if len(draw.dims(x)) < 2:
        raise Impossible
    if kind == "BiasAddBackward":
        return draw.ops(kind, x, data_format=draw.format)
    channels = draw.dims(x)[draw.channel_axis(len(draw.dims(x)))]
    return draw.ops(kind, x, draw.weights([channels]), data_format=draw.format)


def prelu(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image() if draw.chance(0.8) else draw.shape()) if x is None else x
    shape = draw.dims(x)
    if not shape:
        raise Impossible
    axis = draw.channel_axis(len(shape)) if len(shape) > 1 else 0
    slope = draw.rng.choice((
        [shape[axis]], [1], [1] * len(shape), [d if a == axis else 1 for a, d in enumerate(shape)], list(shape),
        [d if draw.chance(0.5) else 1 for d in shape], list(shape[draw.rng.randrange(len(shape)) :]),
    ))  # fmt: skip
    attributes: dict[str, Any] = {"data_format": draw.format}
    weights = draw.weights(slope)
    if kind == "PReLUBackward":
        src = draw.input(shape)
        return draw.ops(kind, src, weights, x, outputs=2, **attributes)
    if draw.chance(0.3):
        attributes["per_channel_broadcast"] = draw.chance(0.5)
    return draw.ops(kind, x, weights, **attributes)


# --- windows ---------------------------------------------------------------------------------------------


def window(
    draw: Draw, spatial: list[int], *, kernels: tuple[int, ...] = (1, 1, 2, 3, 3, 5)
) -> dict[str, Any]:
    rng = draw.rng
    kernel = [min(rng.choice(kernels), max(1, s + 1)) for s in spatial]
    if draw.chance(0.15):
        kernel = [1] * len(spatial)
    attributes: dict[str, Any] = {
        "kernel": kernel,
        "strides": [rng.choice((1, 1, 1, 2, 3)) for _ in spatial],
        "pads_begin": [rng.randint(0, max(0, k - 1)) if draw.chance(0.6) else 0 for k in kernel],
        "pads_end": [rng.randint(0, max(0, k - 1)) if draw.chance(0.6) else 0 for k in kernel],
        "dilations": [rng.choice((1, 1, 1, 1, 2, 3)) if s > 3 else 1 for s in spatial],
        "data_format": draw.format,
    }
    if draw.chance(0.1):
        attributes["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return attributes


def spatial_of(draw: Draw, shape: tuple[int, ...] | list[int]) -> list[int]:
    return list(shape[2:] if draw.format == "NCX" else shape[1:-1])


def in_format(draw: Draw, batch: int, channels: int, spatial: list[int]) -> list[int]:
    return [batch, channels, *spatial] if draw.format == "NCX" else [batch, *spatial, channels]


def convolution(draw: Draw, kind: str, x: int | None) -> list[int]:
    rng = draw.rng
    transposed = kind.startswith("ConvTranspose")
    groups, base = rng.choice((1, 1, 1, 2, 3, 4)), rng.choice((1, 2, 3, 4, 8, 16, 5, 32, 64))
    if x is not None:
        shape = draw.dims(x)
        channels = shape[draw.channel_axis(len(shape))]
        groups = rng.choice([g for g in (1, 1, 2, 3, 4, channels) if channels and channels % g == 0] or [0])
        if not groups:
            raise Impossible
    else:
        if draw.chance(0.15):
            groups, base = rng.choice((2, 3, 8, 16, 17, 32, 64)), 1
        channels = groups * base if groups * base <= 128 else groups
        x = draw.input(draw.image(channels))
        shape = draw.dims(x)
    out = groups * rng.choice((1, 1, 2, 3, 4, 8, 16, 32, 64) if groups < 5 else (1, 1, 2))
    if channels * out > 8192 or out > 256:
        out = groups
    spatial = spatial_of(draw, shape)
    attributes = window(draw, spatial)
    kernel = attributes.pop("kernel")
    first, last = ("XOI", "IOX") if transposed else ("XIO", "OIX")
    attributes |= {"groups": groups, "weights_format": rng.choice((first, last))}

    def weights_shape(rows: int, columns: int) -> list[int]:
        """Of the op that goes from `rows` to `columns` channels forward."""
        if transposed:
            i, o = rows, columns // groups
            return [*kernel, o, i] if attributes["weights_format"] == "XOI" else [i, o, *kernel]
        i, o = rows // groups, columns
        return [*kernel, i, o] if attributes["weights_format"] == "XIO" else [o, i, *kernel]

    if kind in ("Convolution", "ConvTranspose"):
        extra = [draw.weights([out])] if draw.chance(0.4) else []
        if transposed and draw.chance(0.15):
            attributes["output_padding"] = [rng.randrange(s) for s in attributes["strides"]]
        return draw.ops(kind, x, draw.weights(weights_shape(channels, out)), *extra, **attributes)
    if kind.endswith("Data"):
        # x is the gradient of the forward op's output, which has `channels` channels.
        if kind == "ConvolutionBackwardData" and draw.chance(0.2):
            attributes["output_padding"] = [rng.randrange(s) for s in attributes["strides"]]
        return draw.ops(kind, x, draw.weights(weights_shape(out, channels)), **attributes)
    shapes = weights_shape(channels, out)
    forward = kind.removesuffix("BackwardWeights")
    probe = Draw(rng)
    probe.format, probe.batch, probe.type = draw.format, draw.batch, draw.type
    produced = probe.op(forward, probe.input(shape), probe.input(shapes), **attributes)
    dst = draw.input(probe.dims(produced))
    if draw.chance(0.2):
        return draw.ops(kind, x, dst, draw.integers(shapes), **attributes)
    return draw.ops(kind, x, dst, weights_shape=shapes, **attributes)


def pool(draw: Draw, kind: str, x: int | None) -> list[int]:
    x = draw.input(draw.image()) if x is None else x
    shape = draw.dims(x)
    attributes = window(draw, spatial_of(draw, shape))
    if kind.startswith("Avg"):
        del attributes["dilations"]
        attributes["exclude_pad"] = draw.chance(0.5)
    if not kind.endswith("Backward"):
        attributes["rounding_type"] = draw.rng.choice(("floor", "floor", "ceil"))
        return draw.ops(kind, x, **attributes)
    probe = Draw(draw.rng)
    probe.format, probe.batch, probe.type = draw.format, draw.batch, draw.type
    more = {"exclude_pad": True} if kind.startswith("Avg") else {}
    produced = probe.op(kind.removesuffix("Backward"), probe.input(shape), **{**attributes, **more})
    dst = draw.input(probe.dims(produced))
    if kind == "MaxPoolBackward":
        return draw.ops(kind, draw.input(shape, data="distinct"), dst, **attributes)
    if draw.chance(0.3):
        return draw.ops(kind, dst, draw.integers(shape), **attributes)
    return draw.ops(kind, dst, src_shape=list(shape), **attributes)


def interpolate(draw: Draw, kind: str, x: int | None) -> list[int]:
    rng = draw.rng
    x = draw.input(draw.image()) if x is None else x
    shape = draw.dims(x)
    spatial = spatial_of(draw, shape)
    linear = (
        "linear",
        "bilinear" if len(spatial) == 2 else "linear",
        "trilinear" if len(spatial) == 3 else "linear",
    )
    attributes: dict[str, Any] = {"mode": rng.choice(("nearest", *linear)), "data_format": draw.format}
    if draw.chance(0.3):
        attributes["coordinate_transformation_mode"] = rng.choice(("half_pixel", "align_corners"))
    sizes = [rng.choice((1, 2, s, 2 * s, rng.randint(1, 12))) for s in spatial]
    if draw.chance(0.3):
        attributes["scales"] = [rng.choice((2.0, 1.0, 0.5)) for _ in spatial]
        sizes = [int(s * f) for s, f in zip(spatial, attributes["scales"], strict=True)]
        if 0 in sizes:
            raise Impossible
    else:
        attributes["sizes"] = [max(1, s) for s in sizes]
    if kind == "Interpolate":
        return draw.ops(kind, x, **attributes)
    channels = shape[draw.channel_axis(len(shape))]
    return draw.ops(kind, x, draw.input(in_format(draw, shape[0], channels, sizes)), **attributes)


# --- the rest --------------------------------------------------------------------------------------------


def matmul(draw: Draw, kind: str, x: int | None) -> list[int]:
    rng = draw.rng
    sizes = (1, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 32, 33, 64, 65)
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
    keep = draw.chance(0.6)
    if draw.chance(0.06):
        return draw.ops(kind, x, draw.integers(axes), keep_dims=keep)
    return draw.ops(kind, x, axes=axes, keep_dims=keep)


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
    attributes = {
        "groups": groups,
        "keep_stats": keep,
        "use_affine": affine,
        "data_format": draw.format,
        "epsilon": 0.1,
    }
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
            "qtype": "per_channel", "axis": axis if draw.chance(0.8) else axis - rank,
            "scales": [rng.choice(SCALES) for _ in range(count)],
        }  # fmt: skip
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
        "Convolution", "ConvolutionBackwardData", "ConvolutionBackwardWeights", "ConvTranspose",
        "ConvTransposeBackwardData", "ConvTransposeBackwardWeights",
    ),
    pool: ("AvgPool", "AvgPoolBackward", "MaxPool", "MaxPoolBackward"),
    interpolate: ("Interpolate", "InterpolateBackward"),
    matmul: ("MatMul",),
    reduction: REDUCTIONS,
    softmax: ("SoftMax", "SoftMaxBackward", "LogSoftmax", "LogSoftmaxBackward"),
    batch_norm: ("BatchNormInference", "BatchNormForwardTraining", "BatchNormTrainingBackward"),
    layer_norm: ("LayerNorm", "LayerNormBackward", "RMSNorm"),
    group_norm: ("GroupNorm",),
    concat: ("Concat",),
    reshape: ("StaticReshape",),
    transpose: ("StaticTranspose",),
    plain: ("Reorder", "GenIndex"),
    cast: ("TypeCast",),
    dropout: ("Dropout",),
    quantize: ("Quantize", "DynamicQuantize"),
    dequantize: ("Dequantize", "DynamicDequantize"),
}  # fmt: skip
ROOTS: dict[str, Root] = {kind: function for function, kinds in FAMILIES.items() for kind in kinds}
"""Kind → what draws it. End marks outputs and Wildcard has no meaning of its own; both have no numbers."""
IMAGES = frozenset({convolution, pool, interpolate, group_norm})
"""Functions whose kinds take data with spatial axes."""
