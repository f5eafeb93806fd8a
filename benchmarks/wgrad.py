"""Weight gradients of real layers: ours beside torch in one process, interleaved, as ratios.

    pip install '.[bench]'
    python benchmarks/wgrad.py --backend numpy --shapes ../shared/reference/wgrad_shapes.json

`--shapes` is a JSON list of layers; without it a built-in list of common layers is used. Every result is compared
exactly on integer data before anything is timed. Ratios above 1 mean that ours is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og

BUILT_IN: list[dict[str, Any]] = [
    {"name": "3x3 64 at 56", "batch": 16, "in_channels": 64, "out_channels": 64, "src_spatial": [56, 56],
     "kernel": [3, 3], "pads_begin": [1, 1], "pads_end": [1, 1]},
    {"name": "7x7 s2 first layer", "batch": 16, "in_channels": 3, "out_channels": 64, "src_spatial": [224, 224],
     "kernel": [7, 7], "strides": [2, 2], "pads_begin": [3, 3], "pads_end": [3, 3]},
    {"name": "1x1 256 to 64 at 56", "batch": 16, "in_channels": 256, "out_channels": 64, "src_spatial": [56, 56],
     "kernel": [1, 1]},
    {"name": "3x3 256 at 14", "batch": 16, "in_channels": 256, "out_channels": 256, "src_spatial": [14, 14],
     "kernel": [3, 3], "pads_begin": [1, 1], "pads_end": [1, 1]},
    {"name": "3x3 depthwise 128 at 28", "batch": 16, "groups": 128, "in_channels": 128, "out_channels": 128,
     "src_spatial": [28, 28], "kernel": [3, 3], "pads_begin": [1, 1], "pads_end": [1, 1]},
    {"name": "5 at 512, 1-D", "batch": 16, "in_channels": 128, "out_channels": 128, "src_spatial": [512],
     "kernel": [5], "pads_begin": [2], "pads_end": [2]},
    {"name": "4x4 s2 transposed", "op": "ConvTransposeBackwardWeights", "batch": 16, "in_channels": 128,
     "out_channels": 64, "src_spatial": [16, 16], "kernel": [4, 4], "strides": [2, 2], "pads_begin": [1, 1],
     "pads_end": [1, 1]},
]  # fmt: skip


def complete(layer: dict[str, Any]) -> dict[str, Any]:
    """A layer with defaults and the spatial size of diff_dst filled in."""
    rank = len(layer["kernel"])
    full = {
        "op": "ConvolutionBackwardWeights", "groups": 1, "strides": [1] * rank, "dilations": [1] * rank,
        "pads_begin": [0] * rank, "pads_end": [0] * rank, "output_padding": [0] * rank, **layer,
    }  # fmt: skip
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


class Case:
    """One layer in one data format and type: arrays, attributes and the peers' callables."""

    def __init__(self, layer: dict[str, Any], data_format: str, dtype: Any) -> None:
        rng = np.random.default_rng(0)
        self.layer, self.format = layer, data_format
        self.transposed = "Transpose" in layer["op"]
        g, ci, co = layer["groups"], layer["in_channels"], layer["out_channels"]

        def data(channels: int, spatial: list[int]) -> np.ndarray:
            shape = (layer["batch"], channels, *spatial)
            if data_format == "NXC":
                shape = (layer["batch"], *spatial, channels)
            return rng.integers(-2, 3, shape).astype(dtype)

        self.src, self.diff_dst = data(ci, layer["src_spatial"]), data(co, layer["dst_spatial"])
        self.weights_shape = (
            (ci, co // g, *layer["kernel"]) if self.transposed else (co, ci // g, *layer["kernel"])
        )
        self.attributes = {
            "strides": layer["strides"], "pads_begin": layer["pads_begin"], "pads_end": layer["pads_end"],
            "dilations": layer["dilations"], "groups": g, "data_format": data_format,
            "weights_format": "IOX" if self.transposed else "OIX", "weights_shape": self.weights_shape,
        }  # fmt: skip

    def ours(self, backend: str | None) -> tuple[Callable[[], None], np.ndarray, og.Explanation]:
        """A bound call and the array that it writes."""
        types = [
            og.DataType("bf16" if a.dtype.name == "bfloat16" else f"f{a.itemsize * 8}") for a in (self.src,)
        ]
        src = og.LogicalTensor(0, types[0], self.src.shape)
        dst = og.LogicalTensor(1, types[0], self.diff_dst.shape)
        graph = og.Graph()
        out = og.LogicalTensor(2, types[0])
        graph.add_op(og.Op(0, self.layer["op"], [src, dst], [out], **self.attributes))
        graph.finalize()
        compiled = graph.get_partitions(backend=backend)[0].compile()
        result = np.empty(self.weights_shape, self.src.dtype)
        return compiled.bind([self.src, self.diff_dst], [result]), result, compiled.explain()

    def torch(self) -> tuple[Callable[[], None], Callable[[], np.ndarray]]:
        """Torch's weights-only backward on the same memory, channels_last for NXC."""
        import torch

        def tensor(array: np.ndarray) -> Any:
            if array.dtype.name == "bfloat16":
                made = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            else:
                made = torch.from_numpy(array)
            return made.movedim(-1, 1) if self.format == "NXC" else made

        x, dy = tensor(self.src), tensor(self.diff_dst)
        w = torch.zeros(self.weights_shape, dtype=x.dtype)
        layer = self.layer
        if self.format == "NXC" and w.ndim in (4, 5):
            w = w.to(memory_format=torch.channels_last if w.ndim == 4 else torch.channels_last_3d)
        latest: list[Any] = [None]

        def call() -> None:
            latest[0] = torch.ops.aten.convolution_backward(
                dy, x, w, None, layer["strides"], layer["pads_begin"], layer["dilations"], self.transposed,
                layer["output_padding"] if self.transposed else [0] * len(layer["kernel"]), layer["groups"],
                [False, True, False],
            )[1]  # fmt: skip

        return call, lambda: latest[0].float().numpy()


def torch_can(layer: dict[str, Any]) -> bool:
    """Torch pads both sides alike; a layer that doesn't is left out."""
    return layer["pads_begin"] == layer["pads_end"]


def interleaved(calls: list[Callable[[], None]], seconds: float) -> list[list[float]]:
    """Times of the calls, taken in turns until `seconds` are over."""
    times: list[list[float]] = [[] for _ in calls]
    for call in calls:
        call()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 5:
        for number, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[number].append(time.perf_counter() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Weight gradients beside torch, as ratios.")
    parser.add_argument("--backend", default=None, help="numpy, onednn, or the default choice")
    parser.add_argument("--shapes", type=Path, default=None, help="JSON list of layers")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--formats", default="NXC,NCX")
    parser.add_argument("--seconds", type=float, default=1.0, help="per layer and format")
    parser.add_argument("--only", default="", help="part of the layers' names")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    args = parser.parse_args()
    import ml_dtypes
    import torch

    dtype = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[args.dtype]
    layers = json.loads(args.shapes.read_text()) if args.shapes else BUILT_IN
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; NumPy {np.__version__}; {args.dtype}"
    )
    print(f"{os.cpu_count()} cores; torch ÷ ours, by minimum and by median; above 1 ours is faster")
    ratios: dict[str, list[float]] = {}
    rows: list[dict[str, Any]] = []
    for data_format in args.formats.split(","):
        for layer in map(complete, layers):
            if args.only not in layer["name"] or not torch_can(layer):
                continue
            case = Case(layer, data_format, dtype)
            call, result, explanation = case.ours(args.backend)
            peer, peer_result = case.torch()
            call()
            reference, exact, _ = case.ours("numpy")
            reference()
            wrong = "" if np.array_equal(result, exact) else " OURS WRONG"
            peer()
            if not np.array_equal(peer_result(), exact.astype(np.float32)):
                wrong += " torch wrong"
            ours, theirs = interleaved([call, peer], args.seconds)
            ratio = min(theirs) / min(ours)
            ratios.setdefault(data_format, []).append(ratio)
            row = {"layer": layer["name"], "format": data_format, "ours_ms": min(ours) * 1e3,
                   "torch_ms": min(theirs) * 1e3, "ratio": ratio,
                   "ratio_median": statistics.median(theirs) / statistics.median(ours),
                   "strategy": explanation.strategy, "kernels": explanation.implementations}  # fmt: skip
            rows.append(row)
            print(f"{data_format} {layer['name']:24} ours {row['ours_ms']:9.3f} ms  torch {row['torch_ms']:9.3f} ms  "
                  f"{ratio:6.2f} {row['ratio_median']:6.2f}  {explanation.strategy}{wrong}", flush=True)  # fmt: skip
    for data_format, values in ratios.items():
        print(
            f"{data_format} geometric mean {statistics.geometric_mean(values):.3f}, least {min(values):.3f}"
        )
    everything = [v for values in ratios.values() for v in values]
    print(f"all geometric mean {statistics.geometric_mean(everything):.3f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
