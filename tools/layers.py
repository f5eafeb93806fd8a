"""Random layers of the kinds that networks have, for fitting costs and for timing what nobody has looked at."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from ..graph.model.logical_tensor import LogicalTensor
from ..graph.model.op import Op
from ..ops.data_types import DataType
from ..ops.records import define

CONVOLUTION, TRANSPOSED = "ConvolutionBackwardWeights", "ConvTransposeBackwardWeights"
MOST_FLOPS, MOST_ELEMENTS, MOST_WEIGHTS = 4e9, 1.5e7, 3.2e7
"""Of a layer: its multiplications and additions, the elements of src and dst together, and those of the weights."""
LEAST_FLOPS = 2e3
WIDTHS: Mapping[int, Sequence[int]] = {
    1: [64, 128, 500, 1024, 4096],
    2: [5, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224],
    3: [4, 8, 14, 16, 28, 32],
}
"""Spatial rank → sizes of an axis."""
CHANNELS = [4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024]


class Layer(TypedDict):
    """A layer as `benchmarks/wgrad.py --shapes` reads it: a weight gradient's attributes, and sizes without formats."""

    name: str
    op: str
    batch: int
    groups: int
    in_channels: int
    out_channels: int
    src_spatial: list[int]
    dst_spatial: list[int]
    kernel: list[int]
    strides: list[int]
    pads_begin: list[int]
    pads_end: list[int]
    dilations: list[int]
    output_padding: list[int]


@define
class _Drawn:
    """What a kind of layer changes of one that is drawn from everything.

    Attributes:
        k, s, d: size of the window, stride and dilation, of every axis.
        padded: whether it may have padding.
    """

    rng: random.Random
    rank: int
    spatial: list[int]
    ci: int
    co: int
    k: int
    s: int
    d: int = 1
    groups: int = 1
    op: str = CONVOLUTION
    padded: bool = True


def _as_it_is(one: _Drawn) -> None:
    del one


def _pointwise(one: _Drawn) -> None:
    one.k, one.s = 1, one.rng.choice([1, 1, 1, 2])
    if one.rng.random() < 0.2:
        one.groups = one.rng.choice([2, 3, 4, 8])


def _large_pointwise(one: _Drawn) -> None:
    one.k = one.s = 1
    sizes = {1: [1024, 2048], 2: [28, 32, 56], 3: [8, 14, 16]}
    one.spatial = [one.rng.choice(sizes[one.rank])] * one.rank
    one.ci = one.rng.choice([64, 96, 128, 192, 256])
    one.co = one.rng.choice([64, 128, 160, 256, 512])


def _first(one: _Drawn) -> None:
    """The first layer of a network."""
    one.ci, one.s = one.rng.choice([1, 1, 2, 3, 3, 4]), one.rng.choice([1, 2, 2])


def _depthwise(one: _Drawn) -> None:
    one.co = one.groups = one.ci
    one.k = one.rng.choice([3, 3, 3, 5, 7, 9])


def _grouped(one: _Drawn) -> None:
    per_group = one.rng.choice([2, 4, 4, 8, 16, 32])
    one.groups = one.rng.choice([2, 4, 8, 16, 32, 64])
    one.ci = one.co = per_group * one.groups


def _patch(one: _Drawn) -> None:
    one.k = one.s = one.rng.choice([2, 2, 4, 8, 14, 16])
    one.ci = one.rng.choice([1, 3, 32, 64, 128])
    one.padded = False


def _dilated(one: _Drawn) -> None:
    one.d, one.s = one.rng.choice([2, 2, 4, 6, 12]), 1


def _transposed(one: _Drawn) -> None:
    one.op, one.s = TRANSPOSED, 2
    one.k = one.rng.choice([2, 3, 4, 4])


def _wide_transposed(one: _Drawn) -> None:
    one.op, one.s, one.k = TRANSPOSED, 2, one.rng.choice([2, 4, 4, 5])
    one.rank, one.spatial = 2, [one.rng.choice([32, 40, 56, 64, 100, 112])] * 2
    one.ci, one.co = one.rng.choice([16, 32, 64, 128]), one.rng.choice([3, 16, 32, 64])


def _long(one: _Drawn) -> None:
    """A front end or an encoder of sound."""
    windows = [(10, 5), (16, 8), (8, 4), (4, 2), (11, 1), (25, 1), (31, 1), (400, 160)]
    one.k, one.s = one.rng.choice(windows)
    one.ci = 1 if one.k == 400 or one.rng.random() < 0.2 else one.ci
    one.spatial = [one.rng.choice([400, 500, 1000, 1024, 3999, 4096, 16000])]


def _long_transposed(one: _Drawn) -> None:
    """A vocoder."""
    one.op = TRANSPOSED
    windows = [(16, 8), (16, 8), (20, 10), (11, 5), (10, 5), (8, 4), (12, 6), (4, 2)]
    one.k, one.s = one.rng.choice(windows)
    one.spatial = [one.rng.choice([32, 50, 64, 100, 128, 200, 256, 400, 800])]
    one.ci = one.rng.choice([32, 64, 128, 192, 256, 512])
    one.co = one.rng.choice([one.ci // 2, one.ci // 2, one.ci // 4, 1])


def _odd(one: _Drawn) -> None:
    """Sizes and channels that no vector divides."""
    sizes = [9, 11, 13, 17, 19, 27, 33, 37, 55, 57, 65] if one.rank < 3 else [7, 9, 11, 13]
    one.spatial = [one.rng.choice(sizes)] * one.rank
    one.ci = one.rng.choice([3, 5, 7, 10, 12, 20, 24, 36, 40, 60, 72, 100, 112, 200])
    one.co = one.rng.randint(3, 260)
    one.s = one.rng.choice([1, 1, 2])


def _deep(one: _Drawn) -> None:
    """The last stages."""
    one.spatial = [one.rng.choice([3, 4, 5, 6, 7, 8])] * one.rank
    one.ci = one.rng.choice([256, 320, 512, 960, 1024])
    one.co = one.rng.choice([256, 320, 512, 1024, 1280])
    one.k, one.s = one.rng.choice([1, 1, 3, 3, 5]), one.rng.choice([1, 1, 1, 2])


def _whole(one: _Drawn) -> None:
    """A window as large as the image."""
    one.rank, one.s, one.padded = 2, 1, False
    one.k = one.rng.choice([4, 4, 5, 6, 7, 8])
    one.op = one.rng.choice([CONVOLUTION, TRANSPOSED])
    one.spatial = [1 if one.op == TRANSPOSED else one.k] * 2
    one.ci = one.rng.choice([64, 100, 128, 256, 512])
    one.co = one.rng.choice([1, 10, 128, 256, 512, 1000, 4096])


def _many_groups(one: _Drawn) -> None:
    per_group = one.rng.choice([1, 2, 3, 4, 4, 8])
    one.groups = one.rng.choice([16, 32, 32, 48, 64, 96])
    one.ci, one.co = per_group * one.groups, per_group * one.groups * one.rng.choice([1, 1, 1, 2])
    one.k = one.rng.choice([1, 3, 3, 5])
    one.s = one.rng.choice([1, 1, 2])


KINDS: Mapping[str, tuple[int, Callable[[_Drawn], None]]] = {
    "dense": (8, _as_it_is),
    "pointwise": (8, _pointwise),
    "large pointwise": (3, _large_pointwise),
    "first": (4, _first),
    "depthwise": (5, _depthwise),
    "grouped": (4, _grouped),
    "patch": (3, _patch),
    "dilated": (3, _dilated),
    "transposed": (4, _transposed),
    "wide transposed": (3, _wide_transposed),
    "long": (3, _long),
    "long transposed": (4, _long_transposed),
    "odd": (5, _odd),
    "deep": (4, _deep),
    "whole": (2, _whole),
    "many groups": (3, _many_groups),
}
"""What layers are called by, how often they come, and what makes them what they are."""
OF_ONE_AXIS = ("long", "long transposed")


def draw(rng: random.Random, most_flops: float = MOST_FLOPS, most_elements: float = MOST_ELEMENTS) -> Layer:
    """One layer, with at most so many multiplications and additions, and elements of src and dst together."""
    while True:
        layer = _draw(rng)
        elements = layer["batch"] * (
            layer["in_channels"] * math.prod(layer["src_spatial"])
            + layer["out_channels"] * math.prod(layer["dst_spatial"])
        )
        fits = min(layer["dst_spatial"]) >= 1 and elements <= most_elements
        if fits and LEAST_FLOPS <= flops(layer) <= most_flops and _weights(layer) <= MOST_WEIGHTS:
            return layer


def _draw(rng: random.Random) -> Layer:
    """One layer, be it too large or without a result."""
    kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    rank = 1 if kind in OF_ONE_AXIS else rng.choice([1, 2, 2, 2, 2, 2, 2, 3])
    size = rng.choice(WIDTHS[rank])
    spatial = [size] * rank if rng.random() < 0.8 else [rng.choice(WIDTHS[rank]) for _ in range(rank)]
    ci, co = rng.choice(CHANNELS), rng.choice(CHANNELS)
    k, s = rng.choice([2, 3, 3, 3, 3, 4, 5, 5, 7]), rng.choice([1, 1, 1, 2])
    one = _Drawn(rng, rank, spatial, ci, co, k, s)
    KINDS[kind][1](one)
    ci, co = (max(one.groups, channels // one.groups * one.groups) for channels in (one.ci, one.co))
    k, s, d, rank, spatial = one.k, one.s, one.d, one.rank, one.spatial
    half = ((k - 1) * d + 1) // 2
    pad = rng.choice([half, half, 0]) if one.padded and k != s else 0
    batch = rng.choice([1, 2, 4, 8, 8, 16, 16, 32, 32, 64])
    sizes = "x".join(map(str, spatial))
    return complete(
        {
            "name": f"{kind} {rank}-D {batch}x{ci}x{sizes} to {co} g{one.groups} k{k} s{s} d{d} p{pad}",
            "op": one.op,
            "batch": batch,
            "groups": one.groups,
            "in_channels": ci,
            "out_channels": co,
            "src_spatial": spatial,
            "kernel": [k] * rank,
            "strides": [s] * rank,
            "pads_begin": [pad] * rank,
            "pads_end": [pad] * rank,
            "dilations": [d] * rank,
        }
    )


def complete(layer: Mapping[str, Any]) -> Layer:
    """A layer with defaults and the spatial size of dst filled in."""
    rank = len(layer["kernel"])
    full: Any = {
        "op": CONVOLUTION,
        "groups": 1,
        "strides": [1] * rank,
        "dilations": [1] * rank,
        "pads_begin": [0] * rank,
        "pads_end": [0] * rank,
        "output_padding": [0] * rank,
        **layer,
    }
    if "dst_spatial" not in full:
        full["dst_spatial"] = [_dst_size(full, axis) for axis in range(rank)]
    return full


def _dst_size(layer: Mapping[str, Any], axis: int) -> int:
    stride, pads = layer["strides"][axis], layer["pads_begin"][axis] + layer["pads_end"][axis]
    extent = layer["dilations"][axis] * (layer["kernel"][axis] - 1) + 1
    size = layer["src_spatial"][axis]
    if layer["op"] == TRANSPOSED:
        return stride * (size - 1) + extent - pads + layer["output_padding"][axis]
    return (size + pads - extent) // stride + 1


def flops(layer: Layer) -> int:
    """Multiplications and additions of its weight gradient."""
    positions = layer["src_spatial"] if layer["op"] == TRANSPOSED else layer["dst_spatial"]
    return 2 * layer["batch"] * math.prod(positions) * _weights(layer)


def _weights(layer: Layer) -> int:
    return layer["in_channels"] * layer["out_channels"] // layer["groups"] * math.prod(layer["kernel"])


def shapes(layer: Layer, data_format: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Shapes of src, of diff_dst and of the weights, which are in `attributes`' format.

    Args:
        data_format: of src and diff_dst, `NXC` or `NCX`.
    """
    groups, rows, columns = layer["groups"], layer["out_channels"], layer["in_channels"]

    def data(channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        n = layer["batch"]
        return (n, *spatial, channels) if data_format == "NXC" else (n, channels, *spatial)

    outer, inner = (columns, rows // groups) if layer["op"] == TRANSPOSED else (rows, columns // groups)
    return (
        data(columns, layer["src_spatial"]),
        data(rows, layer["dst_spatial"]),
        (outer, inner, *layer["kernel"]),
    )


def attributes(layer: Layer, data_format: str) -> dict[str, Any]:
    """Attributes of its weight gradient; weights lie as other frameworks have them."""
    return {
        "strides": layer["strides"],
        "pads_begin": layer["pads_begin"],
        "pads_end": layer["pads_end"],
        "dilations": layer["dilations"],
        "groups": layer["groups"],
        "data_format": data_format,
        "weights_format": "IOX" if layer["op"] == TRANSPOSED else "OIX",
        "weights_shape": shapes(layer, data_format)[2],
    }


def op_of(layer: Layer, data_format: str, data_type: DataType | str) -> Op:
    """Its weight gradient, on tensors that lie as they are declared."""
    tensors = [
        LogicalTensor(number, data_type, shape) for number, shape in enumerate(shapes(layer, data_format))
    ]
    return Op(0, layer["op"], tensors[:2], tensors[2:], **attributes(layer, data_format))
