"""Random layers of the kinds that networks have, for fitting and for trying what was never looked at."""

from __future__ import annotations

import math
import random
from typing import Any

KINDS = {
    "dense": 8,
    "pointwise": 8,
    "large pointwise": 3,
    "first": 4,
    "depthwise": 5,
    "grouped": 4,
    "patch": 3,
    "dilated": 3,
    "transposed": 4,
    "wide transposed": 3,
    "long": 3,
    "long transposed": 4,
    "odd": 5,
    "deep": 4,
    "whole": 2,
    "many groups": 3,
}
"""What layers are called by, and how often they come."""
MOST_WEIGHTS = 3.2e7


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
        if min(layer["dst_spatial"]) < 1:
            continue
        if data <= most_elements and 2e3 <= flops <= most_flops and weights <= MOST_WEIGHTS:
            return layer


def _draw(rng: random.Random) -> dict[str, Any]:
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    rank = 1 if kind.startswith("long") else rng.choice([1, 2, 2, 2, 2, 2, 2, 3])
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
    elif kind == "large pointwise":
        k = s = 1
        spatial = [rng.choice({1: [1024, 2048], 2: [28, 32, 56], 3: [8, 14, 16]}[rank])] * rank
        ci, co = rng.choice([64, 96, 128, 192, 256]), rng.choice([64, 128, 160, 256, 512])
    elif kind == "wide transposed":
        op, s, k = "ConvTransposeBackwardWeights", 2, rng.choice([2, 4, 4, 5])
        rank, spatial = 2, [rng.choice([32, 40, 56, 64, 100, 112])] * 2
        ci, co = rng.choice([16, 32, 64, 128]), rng.choice([3, 16, 32, 64])
    elif kind == "long":  # a front end or an encoder of sound
        k, s = rng.choice([(10, 5), (16, 8), (8, 4), (4, 2), (11, 1), (25, 1), (31, 1), (400, 160)])
        ci = 1 if k == 400 or rng.random() < 0.2 else ci
        spatial = [rng.choice([400, 500, 1000, 1024, 3999, 4096, 16000])]
    elif kind == "long transposed":  # a vocoder
        op = "ConvTransposeBackwardWeights"
        k, s = rng.choice([(16, 8), (16, 8), (20, 10), (11, 5), (10, 5), (8, 4), (12, 6), (4, 2)])
        spatial = [rng.choice([32, 50, 64, 100, 128, 200, 256, 400, 800])]
        ci = rng.choice([32, 64, 128, 192, 256, 512])
        co = rng.choice([ci // 2, ci // 2, ci // 4, 1])
    elif kind == "odd":  # sizes and channels that no vector divides
        spatial = [
            rng.choice([9, 11, 13, 17, 19, 27, 33, 37, 55, 57, 65] if rank < 3 else [7, 9, 11, 13])
        ] * rank
        ci, co = rng.choice([3, 5, 7, 10, 12, 20, 24, 36, 40, 60, 72, 100, 112, 200]), rng.randint(3, 260)
        s = rng.choice([1, 1, 2])
    elif kind == "deep":  # the last stages
        spatial = [rng.choice([3, 4, 5, 6, 7, 8])] * rank
        ci, co = rng.choice([256, 320, 512, 960, 1024]), rng.choice([256, 320, 512, 1024, 1280])
        k, s = rng.choice([1, 1, 3, 3, 5]), rng.choice([1, 1, 1, 2])
    elif kind == "whole":
        rank, s = 2, 1
        k = rng.choice([4, 4, 5, 6, 7, 8])
        op = rng.choice(["ConvolutionBackwardWeights", "ConvTransposeBackwardWeights"])
        spatial = [1 if "Transpose" in op else k] * 2
        ci, co = rng.choice([64, 100, 128, 256, 512]), rng.choice([1, 10, 128, 256, 512, 1000, 4096])
    elif kind == "many groups":
        per = rng.choice([1, 2, 3, 4, 4, 8])
        groups = rng.choice([16, 32, 32, 48, 64, 96])
        ci, co = per * groups, per * groups * rng.choice([1, 1, 1, 2])
        k = rng.choice([1, 3, 3, 5])
        s = rng.choice([1, 1, 2])
    ci, co = (max(groups, c // groups * groups) for c in (ci, co))
    extent = (k - 1) * d + 1
    pad = 0 if kind == "whole" or kind == "patch" or k == s else rng.choice([extent // 2, extent // 2, 0])
    layer = {
        "name": kind,
        "op": op,
        "batch": rng.choice([1, 2, 4, 8, 8, 16, 16, 32, 32, 64]),
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
