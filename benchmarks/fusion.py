"""Whole graphs: ours fused beside ours unfused and native oneDNN Graph, interleaved, as ratios.

    pip install '.[bench]'
    python benchmarks/fusion.py --markdown table.md
    python benchmarks/fusion.py --quick --only attention --dtypes bf16
    python benchmarks/fusion.py --files 'graphs/*.json'

Ratios above 1 mean that ours, fused, is faster. Each peer has all its partitions compiled and bound once, and the
tensors between them allocated once; a call runs them in order. Ours passes plain arrays from partition to partition;
native chooses the layouts of what lies between, and computes in place where it offers that. Weights are constant for
all. Results are compared before anything is timed; where they differ, a reference in f64 says who is wrong. A graph
that crashes native oneDNN Graph in a child process, or that it does not support, is timed without it. Set
OMP_NUM_THREADS for the number of threads, and OMP_PROC_BIND=true for less noise.
"""

from __future__ import annotations

import argparse
import glob
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
from attrs import evolve
from fusion_graphs import GRAPHS
from onednn_graph.tools.benchdnn.reference import reference
from onednn_graph.tools.benchdnn.tolerances import compare, rule_for
from onednn_graph.tools.comparisons import (
    Rival,
    difference,
    interleaved,
    native,
    on_shifting_stack,
    ours,
    placed_inputs,
)
from onednn_graph.tools.native_child import run_in_child
from peers import ratio
from wgrad import environment

Array = np.ndarray
FUSED, UNFUSED, NATIVE = "fused", "unfused", "native"
TOLERANCES = {"f32": 1e-4, "bf16": 4e-2, "f16": 5e-3}
"""Largest difference of two peers' results over the largest result; integers may be one step apart."""
SLOWER = 0.95
"""Graphs with a smaller ratio to native are listed at the end."""
REFERENCE_ELEMENTS = 5e7
"""Larger graphs are not computed in f64."""


def theirs(graph: og.Graph, inputs: dict[int, Array]) -> Rival:
    """Native oneDNN Graph on the same inputs, with the kernels that it was seen to run.

    Raises:
        UnsupportedError: it crashes in a child process, or does not support the graph.
    """
    tried = run_in_child(graph)
    if tried.problem:
        raise og.UnsupportedError(tried.problem)
    return evolve(native(graph, inputs, tried.free_layouts), told=tried.kernels)


def relative(first: Array, second: Array) -> float:
    """The largest difference, over the largest finite number of `first` unless they are integers."""
    most = difference(first, second)
    if np.issubdtype(first.dtype, np.integer):
        return most
    numbers = first.astype(np.float64)
    return most / max(float(np.max(np.abs(numbers), where=np.isfinite(numbers), initial=0.0)), 1e-30)


def agree(graph: og.Graph, first: Rival, second: Rival) -> bool:
    """Whether two peers' results are alike, as far as their types, and those between, can tell."""
    types = {t.data_type.value for op in graph.ops for t in (*op.inputs, *op.outputs)}
    tolerance = max(TOLERANCES.get(t, 0.0) for t in types)
    for number, array in first.outputs.items():
        limit = 1.0 if np.issubdtype(array.dtype, np.integer) else tolerance
        if not relative(array, second.outputs[number]) <= limit:
            return False
    return True


def wrong_ones(graph: og.Graph, inputs: dict[int, Array], peers: dict[str, Rival]) -> list[str]:
    """Who differs, and, where the graph is not too large, from what a reference in f64 says."""
    differing = [n for n, peer in peers.items() if not agree(graph, peers[FUSED], peer)]
    if not differing:
        return []
    sizes = {t.id: int(np.prod(t.dims)) for op in graph.ops for t in (*op.inputs, *op.outputs)}
    if sum(sizes.values()) > REFERENCE_ELEMENTS:
        return [f"{FUSED} or {' and '.join(differing)}"]
    try:
        expected = reference(graph, inputs, [t.id for t in graph.outputs])
    except og.OneDNNGraphError as error:
        return [f"{FUSED} or {' and '.join(differing)} (no reference: {error})"]
    wrong: list[str] = []
    for name, peer in peers.items():
        for tensor in graph.outputs:
            rule = rule_for(graph, tensor.id, expected[tensor.id])
            found = compare(tensor.id, tensor.data_type, expected[tensor.id], peer.outputs[tensor.id], rule)
            if not found.ok:
                wrong.append(f"{name} ({found.message})")
    return wrong or [f"nobody, but {FUSED} and {' and '.join(differing)} differ"]


def measured(name: str, dtype: str, graph: og.Graph, seconds: float) -> dict[str, Any]:
    """One line of the table."""
    inputs = placed_inputs(graph)
    kinds = {op.id: op.kind for op in graph.ops}
    notes: list[str] = []
    peers = {FUSED: ours(graph, inputs, "fusion"), UNFUSED: ours(graph, inputs, "debug")}
    try:
        peers[NATIVE] = theirs(graph, inputs)
    except og.UnsupportedError as error:
        notes.append(f"without native: {error}")
    for peer in peers.values():
        peer.call()
    wrong = wrong_ones(graph, inputs, peers)
    calls = [on_shifting_stack(peer.call) for peer in peers.values()]
    times = dict(zip(peers, interleaved(calls, seconds), strict=True))
    row: dict[str, Any] = {
        "graph": name,
        "dtype": dtype,
        "wrong": wrong,
        "notes": notes,
        "kernels": {who: peer.told for who, peer in peers.items()},
        "partitions": {
            who: tuple(tuple(kinds[i] for i in ids) for ids in peer.partitions) for who, peer in peers.items()
        },
        "rounds": len(times[FUSED]),
        "seconds": {who: {"min": min(t), "median": statistics.median(t)} for who, t in times.items()},
        "ratios": {},
    }
    for who in (UNFUSED, NATIVE):
        if who in times:
            least, median = ratio(times[who], times[FUSED])
            row["ratios"][f"{who} ÷ {FUSED}"] = {"min": least, "median": median}
    return row


def graphs(args: argparse.Namespace) -> Iterator[tuple[str, str, og.Graph]]:
    """Name, type and finalized graph, of what was asked for."""
    if args.files:
        for path in sorted(glob.glob(args.files, recursive=True)):
            if args.only not in path:
                continue
            try:
                graph = og.Graph.load(path)
                graph.finalize()
                unknown = [t for op in graph.ops for t in (*op.inputs, *op.outputs) if not t.is_concrete]
                if unknown:
                    raise og.ShapeError(f"{unknown[0]} has sizes that are known only at execution")
            except og.OneDNNGraphError as error:
                print(f"{path} is left out: {error}")
                continue
            yield Path(path).stem, "/".join(dict.fromkeys(t.data_type.value for t in graph.inputs)), graph
        return
    dtypes = args.dtypes.split(",")
    for entry in GRAPHS:
        for dtype in entry.dtypes:
            if dtype in dtypes and args.only in entry.name:
                yield entry.name, dtype, entry.graph(dtype)


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Geometric mean and smallest ratio for each type and pair."""
    lines: list[dict[str, Any]] = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        group = [row for row in rows if row["dtype"] == dtype]
        for pair in dict.fromkeys(pair for row in group for pair in row["ratios"]):
            values = {row["graph"]: row["ratios"][pair]["min"] for row in group if pair in row["ratios"]}
            worst = min(values, key=lambda name: values[name])
            lines.append(
                {
                    "dtype": dtype,
                    "pair": pair,
                    "graphs": len(values),
                    "geometric mean": statistics.geometric_mean(values.values()),
                    "least": values[worst],
                    "at": worst,
                }
            )
    return lines


def _short(kernels: Sequence[str]) -> str:
    return "; ".join(kernels)


def _counts(row: dict[str, Any]) -> str:
    return " / ".join(str(len(row["partitions"].get(who, ()))) or "" for who in (FUSED, UNFUSED, NATIVE))


def as_markdown(rows: Sequence[dict[str, Any]], facts: dict[str, Any], command: str) -> str:
    """The tables of one run."""
    text = [f"## Graphs, {facts['threads']} threads", "", f"`{command}`", ""]
    text += [", ".join(f"{name} {value}" for name, value in facts.items()) + ".", ""]
    text += ["| dtype | ratio | graphs | geometric mean | least | at |", "|---|---|---|---|---|---|"]
    for line in summary(rows):
        text.append(
            f"| {line['dtype']} | {line['pair']} | {line['graphs']} | {line['geometric mean']:.2f} "
            f"| {line['least']:.2f} | {line['at']} |"
        )
    pairs = [f"{who} ÷ {FUSED}" for who in (UNFUSED, NATIVE)]
    text += ["", f"| graph | dtype | ms | {' | '.join(pairs)} | partitions | kernels |"]
    text.append("|" + "---|" * 7)
    for row in rows:
        ratios = [f"{row['ratios'][p]['min']:.2f}" if p in row["ratios"] else "" for p in pairs]
        wrong = f" **wrong: {'; '.join(row['wrong'])}**" if row["wrong"] else ""
        notes = "".join(f" ({note})" for note in row["notes"])
        text.append(
            f"| {row['graph']} | {row['dtype']} | {row['seconds'][FUSED]['min'] * 1e3:.3f} "
            f"| {' | '.join(ratios)} | {_counts(row)} | {_short(row['kernels'][FUSED])}{notes}{wrong} |"
        )
    text += ["", "Partitions: ours fused, unfused, native (0 where it can't run the graph)."]
    return "\n".join([*text, ""])


def show(row: dict[str, Any]) -> None:
    """One line on the terminal, and what is worth knowing below it."""
    ratios = "  ".join(f"{pair} {r['min']:.2f} ({r['median']:.2f})" for pair, r in row["ratios"].items())
    print(
        f"{row['dtype']:5} {row['graph']:32} {row['seconds'][FUSED]['min'] * 1e3:9.3f} ms  {ratios}  "
        f"partitions {_counts(row)}  {_short(row['kernels'][FUSED])}",
        flush=True,
    )
    for note in (*row["notes"], *(f"WRONG: {who}" for who in row["wrong"])):
        print(f"      {note}", flush=True)


def show_slower(rows: Sequence[dict[str, Any]]) -> None:
    """Where native is faster, and with what."""
    pair = f"{NATIVE} ÷ {FUSED}"
    for row in sorted(rows, key=lambda row: row["ratios"].get(pair, {"min": 9.0})["min"]):
        if pair in row["ratios"] and row["ratios"][pair]["min"] < SLOWER:
            print(
                f"slower than native: {row['dtype']} {row['graph']}, {row['ratios'][pair]['min']:.2f} "
                f"(median {row['ratios'][pair]['median']:.2f}), {_short(row['kernels'][FUSED])}"
            )
            print(f"    native: {_short(row['kernels'][NATIVE])}")
            if len(row["partitions"][NATIVE]) != len(row["partitions"][FUSED]):
                print(
                    f"    native's partitions: {' | '.join(' '.join(p) for p in row['partitions'][NATIVE])}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole graphs beside native oneDNN Graph, fused and not.")
    parser.add_argument("--files", default="", help="pattern of graphs in oneDNN Graph's JSON format instead")
    parser.add_argument("--dtypes", default="f32,bf16,int8", help="of f32, bf16, int8")
    parser.add_argument("--seconds", type=float, default=2.0, help="per line of the table, at least")
    parser.add_argument("--quick", action="store_true", help="briefly")
    parser.add_argument("--only", default="", help="part of the graphs' names")
    parser.add_argument("--json", type=Path, default=None, help="write the numbers here")
    parser.add_argument("--markdown", type=Path, default=None, help="append the tables here")
    args = parser.parse_args()
    if args.quick:
        args.seconds = 0.3
    facts = environment()
    facts.pop("torch")
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    rows: list[dict[str, Any]] = []
    for name, dtype, graph in graphs(args):
        try:
            rows.append(measured(name, dtype, graph, args.seconds))
        except og.OneDNNGraphError as error:
            print(f"{dtype} {name} is left out: {error}")
            continue
        show(rows[-1])
    for line in summary(rows):
        print(
            f"{line['dtype']} {line['pair']:17} geometric mean {line['geometric mean']:.3f} of {line['graphs']}, "
            f"least {line['least']:.3f} at {line['at']}"
        )
    show_slower(rows)
    if args.json:
        args.json.write_text(json.dumps({"environment": facts, "rows": rows}, indent=1))
    if args.markdown:
        options = [f"--{k} {v}" for k, v in vars(args).items() if k in ("files", "dtypes", "only") and v]
        with args.markdown.open("a", encoding="utf-8") as file:
            file.write(as_markdown(rows, facts, f"python benchmarks/fusion.py {' '.join(options)}") + "\n")


if __name__ == "__main__":
    main()
