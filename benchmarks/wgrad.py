"""Weight gradients of real layers: ours beside native oneDNN Graph and torch, interleaved, as ratios.

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

import ml_dtypes
import native
import numpy as np
import onednn_graph as og

DTYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
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
        data_type = "bf16" if self.src.dtype.name == "bfloat16" else f"f{self.src.itemsize * 8}"
        src = og.LogicalTensor(0, data_type, self.src.shape)
        dst = og.LogicalTensor(1, data_type, self.diff_dst.shape)
        graph = og.Graph()
        out = og.LogicalTensor(2, data_type)
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
        layer, pads = self.layer, self.layer["pads_begin"]
        if layer["pads_begin"] != layer["pads_end"]:  # torch pads alike on both sides: pad before, untimed
            both = zip(reversed(layer["pads_begin"]), reversed(layer["pads_end"]), strict=True)
            x, pads = torch.nn.functional.pad(x, [v for pair in both for v in pair]), [0] * len(pads)
        w = torch.zeros(self.weights_shape, dtype=x.dtype)
        if self.format == "NXC" and w.ndim in (4, 5):
            w = w.to(memory_format=torch.channels_last if w.ndim == 4 else torch.channels_last_3d)
        latest: list[Any] = [None]

        def call() -> None:
            latest[0] = torch.ops.aten.convolution_backward(
                dy, x, w, None, layer["strides"], pads, layer["dilations"], self.transposed,
                layer["output_padding"] if self.transposed else [0] * len(layer["kernel"]), layer["groups"],
                [False, True, False],
            )[1]  # fmt: skip

        return call, lambda: latest[0].float().numpy()


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


def peers_of(case: Case, names: list[str]) -> dict[str, tuple[Callable[[], None], Callable[[], np.ndarray]]]:
    """Name → (call, its latest result as f32) of the peers that are installed."""
    peers: dict[str, tuple[Callable[[], None], Callable[[], np.ndarray]]] = {}
    if "native" in names:
        out = np.empty(case.weights_shape, case.src.dtype)
        call = native.bound_call(case.layer["op"], case.attributes, case.src, case.diff_dst, out)
        peers["native"] = (call, lambda: out.astype(np.float32))
    if "torch" in names:
        peers["torch"] = case.torch()
    return peers


def main() -> None:
    parser = argparse.ArgumentParser(description="Weight gradients beside native oneDNN Graph and torch.")
    parser.add_argument("--backend", default=None, help="numpy, onednn, or the default choice")
    parser.add_argument("--shapes", type=Path, default=None, help="JSON list of layers")
    parser.add_argument("--dtype", default="f32", choices=["f32", "bf16", "f16"])
    parser.add_argument("--formats", default="NXC,NCX")
    parser.add_argument("--peers", default="native,torch")
    parser.add_argument("--seconds", type=float, default=1.0, help="per layer and format")
    parser.add_argument("--only", default="", help="part of the layers' names")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    args = parser.parse_args()
    names = args.peers.split(",")
    layers = json.loads(args.shapes.read_text()) if args.shapes else BUILT_IN
    print(
        f"{os.cpu_count()} cores, NumPy {np.__version__}, {args.dtype}; peer ÷ ours by minimum (by median):"
    )
    print("above 1 ours is faster")
    ratios: dict[tuple[str, str], list[float]] = {}
    rows: list[dict[str, Any]] = []
    for data_format in args.formats.split(","):
        for layer in map(complete, layers):
            if args.only not in layer["name"]:
                continue
            case = Case(layer, data_format, DTYPES[args.dtype])
            call, result, explanation = case.ours(args.backend)
            reference, exact, _ = case.ours("numpy")
            peers = peers_of(case, names)
            call()
            reference()
            notes = [] if np.array_equal(result, exact) else ["OURS WRONG"]
            for name, (peer, value) in peers.items():
                peer()
                if not np.array_equal(value(), exact.astype(np.float32)):
                    notes.append(f"{name} wrong")
            ours, *theirs = interleaved([call, *(peer for peer, _ in peers.values())], args.seconds)
            row: dict[str, Any] = {
                "layer": layer["name"], "format": data_format, "dtype": args.dtype, "ours_ms": min(ours) * 1e3,
                "strategy": explanation.strategy, "kernels": explanation.implementations, "notes": notes,
            }  # fmt: skip
            text = f"{data_format} {layer['name']:24} {row['ours_ms']:9.3f} ms"
            for name, times in zip(peers, theirs, strict=True):
                ratio = row[f"{name}/ours"] = min(times) / min(ours)
                median = row[f"{name}/ours median"] = statistics.median(times) / statistics.median(ours)
                ratios.setdefault((data_format, name), []).append(ratio)
                text += f"  {name} {ratio:6.2f} ({median:5.2f})"
            rows.append(row)
            print(f"{text}  {explanation.strategy} {', '.join(notes)}", flush=True)
    for (data_format, name), values in ratios.items():
        mean, least = statistics.geometric_mean(values), min(values)
        print(f"{data_format} {name:8} geometric mean {mean:.3f}, least {least:.3f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
