"""Random layers of the kinds that networks have, for fitting and for trying what was never looked at."""

from __future__ import annotations

import math
import random
from typing import Any

KINDS = (
    "dense",
    "dense",
    "pointwise",
    "pointwise",
    "first",
    "depthwise",
    "grouped",
    "patch",
    "dilated",
    "transposed",
)


def complete(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer with defaults and the spatial size of diff_dst filled in."""
    rank = len(layer["kernel"])
    full = {
        "op": "ConvolutionBackwardWeights",
        "groups": 1,
        "strides": [1] * rank,
        "dilations": [1] * rank,
        "pads_begin": [0] * rank,
        "pads_end": [0] * rank,
        "output_padding": [0] * rank,
        **layer,
    }
    if "dst_spatial" not in full:
        sizes: list[int] = []
        for axis in range(rank):
            s, pads = full["strides"][axis], full["pads_begin"][axis] + full["pads_end"][axis]
            extent = full["dilations"][axis] * (full["kernel"][axis] - 1) + 1
            size = full["src_spatial"][axis]
            transposed = s * (size - 1) + extent - pads + full["output_padding"][axis]
            plain = (size + pads - extent) // s + 1
            sizes.append(transposed if "Transpose" in full["op"] else plain)
        full["dst_spatial"] = sizes
    return full


def draw(rng: random.Random, most_flops: float = 4e9, most_elements: float = 1.5e7) -> dict[str, Any]:
    """One layer, in the fields of the benchmark's shapes."""
    while True:
        layer = _draw(rng)
        data = layer["batch"] * (
            layer["in_channels"] * math.prod(layer["src_spatial"])
            + layer["out_channels"] * math.prod(layer["dst_spatial"])
        )
        transposed = "Transpose" in layer["op"]
        positions = math.prod(layer["src_spatial"] if transposed else layer["dst_spatial"])
        weights = layer["in_channels"] * layer["out_channels"] // layer["groups"] * math.prod(layer["kernel"])
        flops = 2 * layer["batch"] * positions * weights
        if min(layer["dst_spatial"]) >= 1 and data <= most_elements and 2e3 <= flops <= most_flops:
            return layer


def _draw(rng: random.Random) -> dict[str, Any]:
    kind = rng.choice(KINDS)
    rank = rng.choice([1, 2, 2, 2, 2, 2, 2, 3])
    top = {
        1: [64, 128, 500, 1024, 4096],
        2: [5, 7, 8, 14, 16, 28, 32, 56, 64, 112, 128, 224],
        3: [4, 8, 14, 16, 28, 32],
    }
    size = rng.choice(top[rank])
    spatial = [size] * rank if rng.random() < 0.8 else [rng.choice(top[rank]) for _ in range(rank)]
    wide = [4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 384, 512, 768, 1024]
    ci, co, groups = rng.choice(wide), rng.choice(wide), 1
    k = rng.choice([2, 3, 3, 3, 3, 4, 5, 5, 7])
    s, d = rng.choice([1, 1, 1, 2]), 1
    op = "ConvolutionBackwardWeights"
    if kind == "pointwise":
        k, s = 1, rng.choice([1, 1, 1, 2])
        if rng.random() < 0.2:
            groups = rng.choice([2, 3, 4, 8])
    elif kind == "first":
        ci, s = rng.choice([1, 1, 2, 3, 3, 4]), rng.choice([1, 2, 2])
    elif kind == "depthwise":
        co = groups = ci
        k = rng.choice([3, 3, 3, 5, 7, 9])
    elif kind == "grouped":
        per = rng.choice([2, 4, 4, 8, 16, 32])
        groups = rng.choice([2, 4, 8, 16, 32, 64])
        ci = co = per * groups
    elif kind == "patch":
        k = s = rng.choice([2, 2, 4, 8, 14, 16])
        ci = rng.choice([1, 3, 32, 64, 128])
    elif kind == "dilated":
        d, s = rng.choice([2, 2, 4, 6, 12]), 1
    elif kind == "transposed":
        op, s = "ConvTransposeBackwardWeights", 2
        k = rng.choice([2, 3, 4, 4])
    ci, co = (max(groups, c // groups * groups) for c in (ci, co))
    extent = (k - 1) * d + 1
    pad = 0 if kind == "patch" or k == s else rng.choice([extent // 2, extent // 2, 0])
    layer = {
        "name": kind,
        "op": op,
        "batch": rng.choice([1, 2, 4, 8, 16, 32]),
        "groups": groups,
        "in_channels": ci,
        "out_channels": co,
        "src_spatial": spatial,
        "kernel": [k] * rank,
        "strides": [s] * rank,
        "pads_begin": [pad] * rank,
        "pads_end": [pad] * rank,
        "dilations": [d] * rank,
        "output_padding": [0] * rank,
    }
    layer["dst_spatial"] = [
        s * (n - 1) + extent - 2 * pad if "Transpose" in op else (n + 2 * pad - extent) // s + 1
        for n in spatial
    ]
    layer["name"] = (
        f"{kind} {rank}-D {layer['batch']}x{ci}x{'x'.join(map(str, spatial))} to {co} g{groups} k{k} s{s} d{d} p{pad}"
    )
    return layer
