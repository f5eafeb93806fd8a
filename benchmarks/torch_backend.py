"""`torch.compile(model, backend="onednn_graph")` beside eager torch and inductor: training steps and inference.

    pip install '.[bench]'
    python benchmarks/torch_backend.py --results torch_backend.jsonl --markdown benchmarks/TORCH_BACKEND.md
    python benchmarks/torch_backend.py --models resnet18 --types f32 --what inference --turns 2

Weights and data are random and the same for everybody; the update is SGD with momentum, torch's own. bf16 is torch's
autocast, with parameters in f32. Each peer has a process of its own, each of torch's and ours twice where there are
images, once with them channels-last; they take turns as in `training.py`, and the better format of each counts.
Results, or gradients of the first step, are compared with eager torch in f64, in norm. A ratio above 1 means that ours
is faster, by the medians. `compile` is how much longer our first call takes than that of `aot_eager`, which is torch's
tracing alone. Inductor needs a C++ compiler, and is left out where there is none. With `--results`, each line is kept
as soon as it is there, and what is there already is not measured again.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import affinity  # noqa: F401 -- before torch is loaded
from rich.console import Console
from rich.table import Table
from torch_backend_models import MODELS, has_images, usual_batch
from training import LEAST, LIMIT, SLOW, TURN, Found, Peer, keep, kept
from wgrad import environment

COMPILERS = ("c++", "g++", "clang++")
PEER = "torch_backend_peer.py"


def measured(options: argparse.Namespace, line: dict[str, Any], folder: str) -> list[Found]:
    """All peers of one line, after their turns; `traced` has none."""
    name = "-".join(str(line[one]) for one in ("model", "batch", "what"))
    job = {**line, "data": f"{folder}/{name}.npz"}
    formats = (False, True) if has_images(line["model"]) else (False,)
    names = ["ours", "eager", *(["inductor"] if line["inductor"] else [])]
    jobs = [{**job, "peer": peer, "last": last} for peer in names for last in formats]
    peers = [Peer(one, PEER) for one in [*jobs, {**job, "peer": "traced", "last": False}]]
    running = [peer for peer in peers if "error" not in peer.found and peer.name != "traced"]
    for _ in range(options.turns):
        for peer in running:
            peer.turn(options.seconds)
        least = {name: min([min(p.times) for p in running if p.name == name], default=0.0) for name in names}
        running = [p for p in running if min(p.times) <= SLOW * least[p.name]]
    for peer in peers:
        peer.end()
    lasts = [*[one["last"] for one in jobs], False]
    return [
        {**peer.found, "peer": peer.name, "last": last, "times": peer.times}
        for peer, last in zip(peers, lasts, strict=True)
    ]


def best_of(peers: Sequence[Found], name: str) -> Found | None:
    """A peer in its better memory format."""
    there = [peer for peer in peers if peer["peer"] == name and peer["times"]]
    return min(there, key=lambda peer: statistics.median(peer["times"]), default=None)


def row(line: dict[str, Any], peers: Sequence[Found]) -> tuple[list[str], dict[str, float]]:
    """A line of the table, and the ratios by peer."""
    mine = best_of(peers, "ours")
    ratios: dict[str, float] = {}
    texts = [f"{peer['peer']}: {peer['error'][:80]}" for peer in peers if "error" in peer]
    for name in ("ours", "eager", "inductor"):
        best = best_of(peers, name)
        if best is None:
            continue
        middle, least = (1e3 * of(best["times"]) for of in (statistics.median, min))
        texts.append(
            f"{name} {'channels last ' if best['last'] else ''}{middle:.1f} ms, least {least:.1f}, "
            f"{best['peak'] / 2**20:.0f} MB, off {best['median']:.1e} {best['largest']:.1e}"
        )
        if mine is not None and name != "ours":
            ratios[name] = statistics.median(best["times"]) / statistics.median(mine["times"])
    eager = best_of(peers, "eager")
    if mine is not None and eager is not None and mine["median"] > max(LEAST, LIMIT * eager["median"]):
        texts.append("RESULTS DIFFER" if line["what"] == "inference" else "GRADIENTS DIFFER")
    plain = next((p for p in peers if p["peer"] == "ours" and not p["last"] and "ready" in p), None)
    traced = next((p for p in peers if p["peer"] == "traced" and "ready" in p), None)
    beyond = "" if plain is None or traced is None else f"{plain['ready'] - traced['ready']:.1f} s"
    cells = [line["model"], line["what"], line["dtype"]]
    cells += [f"{ratios[name]:.2f}" if name in ratios else "" for name in ("eager", "inductor")]
    return [*cells, beyond, "\n".join(texts)], ratios


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Our backend of torch.compile beside eager torch and inductor."
    )
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--what", default="training,inference")
    parser.add_argument("--batch", type=int, default=None, help="what is usual for each model if absent")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=TURN, help="of one turn")
    parser.add_argument("--no-inductor", action="store_true", help="also where there is a compiler for it")
    parser.add_argument("--results", type=Path, default=None, help="a file of lines to go on from")
    parser.add_argument("--markdown", type=Path, default=None)
    options = parser.parse_args()
    inductor = not options.no_inductor and any(shutil.which(one) for one in COMPILERS)
    table = Table(
        "model", "what", "type", "eager ÷ ours", "inductor ÷ ours", "compile", "median step, peak, error",
        show_lines=True,
    )  # fmt: skip
    found: dict[tuple[str, str], list[float]] = {}
    cells_of: dict[tuple[str, str, str], list[str]] = {}
    console = Console(width=150)
    done = kept(options.results)
    lines = [
        {
            "model": model, "what": what, "dtype": dtype, "batch": options.batch or usual_batch(model),
            "threads": options.threads, "turns": options.turns, "inductor": inductor,
        }
        for model in options.models.split(",")
        for what in options.what.split(",")
        for dtype in options.types.split(",")
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for line in lines:
            peers = next((one["peers"] for one in done if one["key"] == line), None)
            if peers is None:
                peers = measured(options, line, folder)
                if options.results is not None:
                    done.append({"key": line, "peers": peers})
                    keep(options.results, done)
            cells, ratios = row(line, peers)
            table.add_row(*cells)
            console.print(*cells[:6], "|", cells[6].replace("\n", "; "), soft_wrap=True)
            cells_of[line["model"], line["what"], line["dtype"]] = cells
            for name, ratio in ratios.items():
                found.setdefault((line["what"], name), []).append(ratio)
    console.print(table)
    console.print("\n".join(summary(found)))
    if options.markdown is not None:
        options.markdown.write_text(as_markdown(cells_of, found), encoding="utf-8")


def summary(found: Mapping[tuple[str, str], Sequence[float]]) -> list[str]:
    """A sentence for each thing that is done and each peer.

    Args:
        found: the ratios by these two.
    """
    return [
        f"{what}, {name} ÷ ours: geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}."
        for (what, name), ratios in found.items()
    ]


def as_markdown(
    lines: Mapping[tuple[str, str, str], Sequence[str]], found: Mapping[tuple[str, str], Sequence[float]]
) -> str:
    """A line for each model, of all that is done in all types.

    Args:
        lines: model, what is done and type → the cells of `row`. found: see `summary`.
    """
    heads = list(dict.fromkeys((what, dtype) for _, what, dtype in lines))
    text = [f"| model | {' | '.join(' '.join(head) for head in heads)} |", "|" + "---|" * (1 + len(heads))]
    for model in dict.fromkeys(model for model, _, _ in lines):
        cells = [_cell(lines[model, *head]) if (model, *head) in lines else "" for head in heads]
        text.append(f"| {model} | {' | '.join(cells)} |")
    facts = ", ".join(f"{name} {value}" for name, value in environment().items())
    told = "Eager ÷ ours, then inductor ÷ ours where it is, and how much longer our first call takes than tracing."
    return "\n".join(["# torch.compile", "", f"{facts}.", "", *text, "", told, "", *summary(found), ""])


def _cell(cells: Sequence[str]) -> str:
    wrong = " **differs**" if "DIFFER" in cells[6] else ""
    return ", ".join(cell for cell in cells[3:6] if cell) + wrong


if __name__ == "__main__":
    main()
