"""Weight gradients of real layers: ours beside native oneDNN Graph and torch, interleaved, as ratios.

    pip install '.[bench]'
    python benchmarks/wgrad.py --shapes shapes.json --markdown table.md
    python benchmarks/wgrad.py --random 30
    python benchmarks/wgrad.py --quick
    python benchmarks/wgrad.py --quick --library /opt/a/libdnnl.so --library /opt/b/libdnnl.so

`--shapes` is a JSON list of layers; without it a built-in list of common layers is used. Every result is compared
exactly on integer data before anything is timed. Ratios above 1 mean that ours is faster. Ours is bound once and
called; `tuned` has measured its candidates before. Set OMP_NUM_THREADS for the number of threads, and
OMP_PROC_BIND=true for less noise. `--library`, given more than once, compares builds of oneDNN; an empty one is the
wheel's.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import random
import statistics
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import numpy as np
from builds import compare
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.tools.information import cpu_name, installed
from onednn_graph.tools.layers import Layer, complete, draw
from peers import DTYPES, Case, Peer, interleaved, matmul_peak, ratio

TOO_SLOW = 3.0
"""A peer of which a call takes more seconds is left out from then on: a table of its reference kernels takes hours."""
BUILT_IN: list[dict[str, Any]] = [
    {
        "name": "3x3 64 at 56",
        "batch": 16,
        "in_channels": 64,
        "out_channels": 64,
        "src_spatial": [56, 56],
        "kernel": [3, 3],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
    },
    {
        "name": "7x7 s2 first layer",
        "batch": 16,
        "in_channels": 3,
        "out_channels": 64,
        "src_spatial": [224, 224],
        "kernel": [7, 7],
        "strides": [2, 2],
        "pads_begin": [3, 3],
        "pads_end": [3, 3],
    },
    {
        "name": "1x1 256 to 64 at 56",
        "batch": 16,
        "in_channels": 256,
        "out_channels": 64,
        "src_spatial": [56, 56],
        "kernel": [1, 1],
    },
    {
        "name": "3x3 256 at 14",
        "batch": 16,
        "in_channels": 256,
        "out_channels": 256,
        "src_spatial": [14, 14],
        "kernel": [3, 3],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
    },
    {
        "name": "3x3 depthwise 128 at 28",
        "batch": 16,
        "groups": 128,
        "in_channels": 128,
        "out_channels": 128,
        "src_spatial": [28, 28],
        "kernel": [3, 3],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
    },
    {
        "name": "5 at 512, 1-D",
        "batch": 16,
        "in_channels": 128,
        "out_channels": 128,
        "src_spatial": [512],
        "kernel": [5],
        "pads_begin": [2],
        "pads_end": [2],
    },
    {
        "name": "4x4 s2 transposed",
        "op": "ConvTransposeBackwardWeights",
        "batch": 16,
        "in_channels": 128,
        "out_channels": 64,
        "src_spatial": [16, 16],
        "kernel": [4, 4],
        "strides": [2, 2],
        "pads_begin": [1, 1],
        "pads_end": [1, 1],
    },
]


def contestants(
    case: Case, names: Container[str], backend: str | None
) -> tuple[dict[str, Callable[[], None]], dict[str, str], list[str], dict[str, float]]:
    """The calls by name, what ours chose, who is wrong, and the seconds that a call takes of who is too slow."""
    calls: dict[str, Callable[[], None]] = {}
    chosen: dict[str, str] = {}
    wrong: list[str] = []
    slow: dict[str, float] = {}
    reference, exact, _ = case.ours("numpy")
    reference()
    for name, tune in (("ours", None), ("tuned", "measure")):
        if name == "tuned" and "tuned" not in names:
            continue
        call, result, explanation = case.ours(backend, tune)
        call()
        calls[name], chosen[name] = call, explanation.strategy
        if not np.array_equal(result, exact):
            wrong.append(name)
    makers: dict[str, Callable[[], Peer]] = {
        "native": case.native,
        "torch": case.torch,
        "torch f32": lambda: case.torch(through_f32=True),
        "jax": case.jax,
    }
    for name, make in makers.items():
        if name not in names:
            continue
        try:
            call, value = make()
            begin = time.perf_counter()
            call()
            seconds = time.perf_counter() - begin
        except (ImportError, RuntimeError, ValueError, TypeError) as error:
            print(f"{name} is left out: {error}")
            continue
        if seconds > TOO_SLOW:
            print(f"{name} is left out from here on: a call takes {seconds:.1f} s")
            slow[name] = seconds
        else:
            calls[name] = call
        if not np.array_equal(value(), exact.astype(np.float32)):
            wrong.append(name)
    return calls, chosen, wrong, slow


def measured(
    layer: Layer, data_format: str, dtype: str, peers: Container[str], args: argparse.Namespace, peak: float
) -> dict[str, Any]:
    """One line of the table."""
    case = Case(layer, data_format, DTYPES[dtype])
    calls, chosen, wrong, slow = contestants(case, peers, args.backend)
    times = dict(zip(calls, interleaved(list(calls.values()), args.seconds), strict=True))
    row: dict[str, Any] = {
        "layer": layer["name"],
        "format": data_format,
        "dtype": dtype,
        "wrong": wrong,
        "too slow": slow,
        "chosen": chosen,
        "seconds": {name: {"min": min(t), "median": statistics.median(t)} for name, t in times.items()},
        "share of peak": case.flops / min(times["ours"]) / peak,
        "ratios": {},
    }
    for ours in chosen:
        for peer in times:
            if peer not in chosen:
                least, median = ratio(times[peer], times[ours])
                row["ratios"][f"{peer} ÷ {ours}"] = {"min": least, "median": median}
    return row


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric mean and smallest ratio for each dtype, format and pair."""
    lines: list[dict[str, Any]] = []
    for dtype, data_format in dict.fromkeys((row["dtype"], row["format"]) for row in rows):
        group = [row for row in rows if (row["dtype"], row["format"]) == (dtype, data_format)]
        for pair in group[0]["ratios"]:
            values = {row["layer"]: row["ratios"][pair]["min"] for row in group if pair in row["ratios"]}
            worst = min(values, key=lambda layer: values[layer])
            lines.append(
                {
                    "dtype": dtype,
                    "format": data_format,
                    "pair": pair,
                    "geometric mean": statistics.geometric_mean(values.values()),
                    "least": values[worst],
                    "at": worst,
                }
            )
    return lines


def environment() -> dict[str, Any]:
    """What the numbers depend on."""
    lib = load()
    return {
        "cpu": cpu_name(),
        "isa": lib.effective_isa,
        "threads": lib.threads,
        "oneDNN": ".".join(map(str, lib.version)),
        "date": datetime.date.today().isoformat(),
        **{name: installed(name) for name in ("onednn-graph", "numpy", "torch")},
    }


def as_markdown(rows: list[dict[str, Any]], facts: dict[str, Any], command: str) -> str:
    """The tables of one run."""
    text = [f"## {facts['threads']} threads", "", f"`{command}`", ""]
    text += [", ".join(f"{name} {value}" for name, value in facts.items()) + ".", ""]
    text += ["| dtype | format | ratio | geometric mean | least | at |", "|---|---|---|---|---|---|"]
    for line in summary(rows):
        text.append(
            f"| {line['dtype']} | {line['format']} | {line['pair']} | {line['geometric mean']:.2f} "
            f"| {line['least']:.2f} | {line['at']} |"
        )
    for row in rows:
        for name, seconds in row["too slow"].items():
            where = f"{row['layer']}, {row['dtype']}, {row['format']}"
            text += ["", f"{name} is left out from {where} on, where a call takes {seconds:.1f} s."]
    pairs = list(dict.fromkeys(pair for row in rows for pair in row["ratios"]))
    text += ["", f"| layer | dtype | format | ms | of peak | {' | '.join(pairs)} | chosen |"]
    text.append("|" + "---|" * (6 + len(pairs)))
    for row in rows:
        ratios = [f"{row['ratios'][p]['min']:.2f}" if p in row["ratios"] else "" for p in pairs]
        wrong = f" **wrong: {', '.join(row['wrong'])}**" if row["wrong"] else ""
        chosen = row["chosen"]["ours"]
        if row["chosen"].get("tuned", chosen) != chosen:
            chosen += f"; tuned {row['chosen']['tuned']}"
        text.append(
            f"| {row['layer']} | {row['dtype']} | {row['format']} | {row['seconds']['ours']['min'] * 1e3:.3f} "
            f"| {_share(row['share of peak'])} | {' | '.join(ratios)} | {chosen}{wrong} |"
        )
    return "\n".join([*text, ""])


def _share(part: float) -> str:
    """Nothing for types of which the library has no product to compare with."""
    return "" if math.isnan(part) else f"{part:.0%}"


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """A bar for each layer and peer, by the ratio to ours."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    groups = list(dict.fromkeys((row["dtype"], row["format"]) for row in rows))
    figure, axes = plt.subplots(len(groups), 1, figsize=(14, 3.2 * len(groups)), squeeze=False)
    for axis, (dtype, data_format) in zip(axes[:, 0], groups, strict=True):
        group = [row for row in rows if (row["dtype"], row["format"]) == (dtype, data_format)]
        pairs = [pair for pair in group[0]["ratios"] if pair.endswith("÷ ours")]
        for number, pair in enumerate(pairs):
            values = [row["ratios"].get(pair, {}).get("min", 0.0) for row in group]
            axis.bar(np.arange(len(group)) + number * 0.8 / len(pairs), values, 0.8 / len(pairs), label=pair)
        axis.axhline(1.0, color="black", linewidth=0.8)
        axis.set_yscale("log")
        axis.set_title(f"{dtype} {data_format}: above 1 ours is faster")
        axis.set_xticks(
            np.arange(len(group)), [row["layer"] for row in group], rotation=45, ha="right", fontsize=7
        )
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def measuring(args: argparse.Namespace) -> list[str]:
    """The options that say what is measured, for another process."""
    shapes = [] if args.shapes is None else ["--shapes", str(args.shapes)]
    names = ("random", "seed", "dtypes", "formats", "seconds", "only")
    given = [f"--{name}={getattr(args, name)}" for name in names]
    return [*given, "--peers=", *(["--quick"] if args.quick else []), *shapes]


def main() -> None:
    parser = argparse.ArgumentParser(description="Weight gradients beside native oneDNN Graph and torch.")
    parser.add_argument("--backend", default=None, help="numpy, onednn, or the default choice")
    parser.add_argument("--shapes", type=Path, default=None, help="JSON list of layers")
    parser.add_argument("--random", type=int, default=0, help="so many random layers instead")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--dtypes", default="f32,bf16", help="of f32, bf16, f16")
    parser.add_argument("--formats", default="NXC,NCX")
    parser.add_argument(
        "--peers", default="tuned,native,torch", help="of tuned, native, torch, torch f32, jax"
    )
    parser.add_argument("--seconds", type=float, default=0.7, help="per line of the table, at least")
    parser.add_argument("--quick", action="store_true", help="the built-in layers, briefly")
    parser.add_argument("--only", default="", help="part of the layers' names")
    parser.add_argument(
        "--library",
        action="append",
        default=[],
        help="a libdnnl to compare with the others given; empty: the wheel's",
    )
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    parser.add_argument("--png", type=Path, default=None, help="draw them here")
    parser.add_argument("--markdown", type=Path, default=None, help="append the tables here")
    args = parser.parse_args()
    if args.library:
        if len(args.library) < 2:
            parser.error("--library compares builds: give it twice; for one alone set ONEDNN_GRAPH_LIBRARY")
        compared = compare(args.library, measuring(args))
        print(*compared.lines, sep="\n")
        if args.markdown:
            with args.markdown.open("a", encoding="utf-8") as file:
                file.write(compared.markdown("python benchmarks/wgrad.py --library …"))
        return
    if args.quick:
        args.seconds = 0.15
    if args.random:
        rng = random.Random(args.seed)
        table = [draw(rng) for _ in range(args.random)]
    else:
        table = json.loads(args.shapes.read_text()) if args.shapes and not args.quick else BUILT_IN
    facts = environment()
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    rows: list[dict[str, Any]] = []
    for dtype in args.dtypes.split(","):
        peak, peers = matmul_peak(dtype), args.peers.split(",")
        print(f"{dtype}: matmul peak {peak / 1e9:.0f} GF/s")
        for data_format in args.formats.split(","):
            for layer in map(complete, table):
                if args.only not in layer["name"]:
                    continue
                row = measured(layer, data_format, dtype, peers, args, peak)
                rows.append(row)
                peers = [name for name in peers if name not in row["too slow"]]
                ratios = "  ".join(
                    f"{pair} {r['min']:.2f} ({r['median']:.2f})" for pair, r in row["ratios"].items()
                )
                wrong = f"  WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""
                print(
                    f"{dtype} {data_format} {layer['name']:24} {row['seconds']['ours']['min'] * 1e3:9.3f} ms  "
                    f"{ratios}  {row['chosen']}{wrong}",
                    flush=True,
                )
    for line in summary(rows):
        print(
            f"{line['dtype']} {line['format']} {line['pair']:18} geometric mean {line['geometric mean']:.3f}, "
            f"least {line['least']:.3f} at {line['at']}"
        )
    if args.json:
        args.json.write_text(json.dumps({"environment": facts, "rows": rows}, indent=1))
    if args.markdown:
        options = [
            f"--{k} {v}" for k, v in vars(args).items() if k in ("random", "seed", "dtypes", "formats") and v
        ]
        with args.markdown.open("a", encoding="utf-8") as file:
            file.write(as_markdown(rows, facts, f"python benchmarks/wgrad.py {' '.join(options)}") + "\n")
    if args.png:
        plot(rows, args.png)


if __name__ == "__main__":
    main()
