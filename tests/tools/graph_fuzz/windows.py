"""Ops with spatial axes as roots and followers: convolutions, poolings and interpolations."""

from __future__ import annotations

from typing import Any

from .drawing import Draw, Impossible


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
        if draw.deep:
            base = draw.channels() if draw.chance(0.7) else 1
            groups = rng.choice((1, 1, 1, 2, draw.channels())) if base == 1 else rng.choice((1, 1, 1, 2, 4))
        elif draw.chance(0.15):
            groups, base = rng.choice((2, 3, 8, 16, 17, 32, 64)), 1
        channels = groups * base if draw.deep or groups * base <= 128 else groups
        x = draw.input(draw.image(channels))
        shape = draw.dims(x)
    out = groups * rng.choice((1, 1, 2, 3, 4, 8, 16, 32, 64) if groups < 5 else (1, 1, 2))
    if draw.deep and groups < 5 and draw.chance(0.5):
        out = groups * draw.channels()
    if channels * out // groups > draw.most if draw.deep else channels * out > 8192 or out > 256:
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
    probe = draw.probe()
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
    probe = draw.probe()
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
