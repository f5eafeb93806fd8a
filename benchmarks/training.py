"""Training steps of whole models, forward, backward and update: ours beside torch, as times, ratios, errors and memory.

    pip install '.[bench]'
    python benchmarks/training.py --compiled --results training.jsonl --markdown benchmarks/TRAINING.md
    python benchmarks/training.py --models resnet18 --types f32 --turns 5

Weights and data are random and the same for everybody. The update is SGD with momentum, and AdamW of ConvNeXt and the
encoder; torch has its own, fused. Each peer has a process of its own, and they take turns; while one has its turn, the
others sleep. A peer of torch that needs twice the time of another one has no more turns after its first. bf16 is
activations and weights in bf16; our parameters and their update are in f32 beside that, and so are torch's with
`--autocast`. Gradients of the first step are compared with those of torch in f64 before anything is timed: the median
and the largest error of a parameter, in norm, relative to its gradient. In deep networks with random weights rounding
alone is seen there, so what torch has channels-last, or in bf16, stands beside ours. Memory is what a process has grown
by at the peak. A ratio above 1 means that ours is faster; it is to the better of torch's, of medians and of shortest
times. With `--results`, each line is kept as soon as it is there, and what is there already is not measured again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from affinity import anywhere
from models_peers import CHANNELS_LAST
from rich.console import Console
from rich.table import Table
from training_models import RECIPES
from training_peers import COMPILED
from wgrad import environment

TURN = 0.3
"""Seconds of one turn; a slow model has one step."""
SLOW = 2.0
"""How many times as long as the best of torch's a step may take, so that it is worth more turns."""
LIMIT, LEAST = 3.0, 1e-4
"""How many times the median error of torch ours may be; and what it may be at any rate."""
DIFFER = "GRADIENTS DIFFER"


Found = dict[str, Any]
"""What `training_peers.load` tells of a peer, its name, and the times of its steps in seconds."""


class Peer:
    """A process that makes the steps of one model.

    Args:
        job: what it reads.
        script: what it runs, beside this file.

    Attributes:
        found: what `training_peers.load` tells.
        times: of all steps so far, in seconds.
    """

    def __init__(self, job: dict[str, Any], script: str = "training_peers.py") -> None:
        self.name = str(job["peer"])
        self.times: list[float] = []
        here = Path(__file__).with_name(script)
        command = [sys.executable, "-W", "ignore", str(here), json.dumps(job)]
        alone = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}  # no processes that live on beside the others' turns
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, **alone}, preexec_fn=anywhere,
        )  # fmt: skip
        self.found: dict[str, Any] = self._answer()

    def _answer(self) -> Any:
        line = self._process.stdout.readline() if self._process.stdout else ""
        return json.loads(line) if line else {"error": f"ended with {self._process.wait()}"}

    def turn(self, seconds: float) -> None:
        """Some steps."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{seconds}\n")
            self._process.stdin.flush()
            self.times += self._answer()

    def end(self) -> None:
        """Ends the process."""
        self._process.communicate()


def measured(options: argparse.Namespace, model: str, dtype: str, folder: str) -> list[Found]:
    """All peers of one model, after their turns."""
    names = ["ours", "torch", CHANNELS_LAST, *([COMPILED] if options.compiled else [])]
    if len(RECIPES[model].shape) < 3:
        names.remove(CHANNELS_LAST)
    batch = options.batch or RECIPES[model].batch
    job = {"model": model, "dtype": dtype, "batch": batch, "data": f"{folder}/{model}-{batch}.npz"}
    job |= {"threads": options.threads, "autocast": options.autocast}
    peers = [Peer({**job, "peer": name}) for name in names]
    running = [peer for peer in peers if "error" not in peer.found]
    for _ in range(options.turns):
        for peer in running:
            peer.turn(options.seconds)
        rivals = [min(peer.times) for peer in running if peer.name != "ours"]
        running = [p for p in running if p.name == "ours" or min(p.times) <= SLOW * min(rivals)]
    for peer in peers:
        peer.end()
    return [{**peer.found, "peer": peer.name, "times": peer.times} for peer in peers]


def row(model: str, dtype: str, peers: Sequence[Found]) -> tuple[list[str], float | None]:
    """A line of the table, and the ratio of medians."""
    mine, *others = peers
    rivals = [peer for peer in others if peer["times"]]
    texts: list[str] = []
    for peer in peers:
        if not peer["times"]:
            texts.append(f"{peer['peer']}: {peer['error'][:60]}")
            continue
        middle, least = (1e3 * of(peer["times"]) for of in (statistics.median, min))
        texts.append(
            f"{peer['peer']} {middle:.1f} ms, least {least:.1f}, {peer['peak'] / 2**20:.0f} MB, "
            f"off {peer['median']:.1e} {peer['largest']:.1e}"
        )
    if not mine["times"] or not rivals:
        return [model, dtype, "", "", "", "\n".join(texts)], None
    best = min(rivals, key=lambda peer: statistics.median(peer["times"]))
    ratio = statistics.median(best["times"]) / statistics.median(mine["times"])
    shortest = min(min(peer["times"]) for peer in rivals) / min(mine["times"])
    wrong = mine["median"] > max(LEAST, LIMIT * max(peer["median"] for peer in rivals))
    notes = [DIFFER] if wrong else []
    return [
        model,
        dtype,
        f"{ratio:.2f}",
        f"{shortest:.2f}",
        f"{mine['peak'] / best['peak']:.2f}",
        "\n".join([*texts, *notes]),
    ], ratio


def as_markdown(lines: Sequence[tuple[str, str, Sequence[Found]]]) -> str:
    """A line for each model, of all its types.

    Args:
        lines: model, type and peers.
    """
    types = list(dict.fromkeys(dtype for _, dtype, _ in lines))
    heads = [head for dtype in types for head in (dtype, "of shortest", "ours, best of torch's")]
    table = [f"| model | {' | '.join(heads)} |", "|" + "---|" * (1 + len(heads))]
    ratios: list[float] = []
    for model in dict.fromkeys(model for model, _, _ in lines):
        cells: list[str] = []
        for dtype in types:
            peers = next((peers for name, one, peers in lines if (name, one) == (model, dtype)), [])
            found, ratio = row(model, dtype, peers) if peers else ([""] * 6, None)
            times = {peer["peer"]: statistics.median(peer["times"]) for peer in peers if peer["times"]}
            ours = times.pop("ours", None)
            differ = " **gradients differ**" if DIFFER in found[5] else ""
            told = (
                ""
                if ratio is None or ours is None
                else f"{ours * 1e3:.0f}, {min(times.values()) * 1e3:.0f} ms"
            )
            cells += [found[2] + differ, found[3], told]
            ratios += [] if ratio is None else [ratio]
        table.append(f"| {model} | {' | '.join(cells)} |")
    facts = ", ".join(f"{name} {value}" for name, value in environment().items())
    return "\n".join(["# Training steps", "", f"{facts}.", "", *table, "", summary(ratios), ""])


def summary(ratios: Sequence[float]) -> str:
    """Of all lines."""
    if not ratios:
        return "no line has both"
    return (
        f"Geometric mean of {len(ratios)} {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}."
    )


def key(options: argparse.Namespace, model: str, dtype: str) -> dict[str, Any]:
    """What a line is measured with: another one is measured anew."""
    return {
        "model": model,
        "dtype": dtype,
        "batch": options.batch or RECIPES[model].batch,
        "threads": options.threads,
        "turns": options.turns,
        "compiled": options.compiled,
        "autocast": options.autocast,
    }


def kept(path: Path | None) -> list[dict[str, Any]]:
    """Lines of an earlier run."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def keep(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Writes all lines; whoever is stopped meanwhile has those of before."""
    part = path.with_name(f"{path.name}.part")
    part.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    os.replace(part, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Training steps beside torch.")
    parser.add_argument("--models", default=",".join(RECIPES))
    parser.add_argument("--types", default="f32,bf16")
    parser.add_argument("--batch", type=int, default=None, help="what is usual for each model if absent")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=TURN, help="of one turn")
    parser.add_argument(
        "--compiled", action="store_true", help="torch.compile too, which needs a C++ compiler"
    )
    parser.add_argument(
        "--autocast", action="store_true", help="torch's bf16 is autocast, with parameters in f32"
    )
    parser.add_argument("--results", type=Path, default=None, help="a file of lines to go on from")
    parser.add_argument("--markdown", type=Path, default=None)
    options = parser.parse_args()
    table = Table(
        "model",
        "type",
        "best ÷ ours",
        "of least",
        "peak ÷ best's",
        "median step, peak, error",
        show_lines=True,
    )
    ratios: list[float] = []
    lines: list[tuple[str, str, list[Found]]] = []
    console = Console(width=140)
    done = kept(options.results)
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            for dtype in options.types.split(","):
                wanted = key(options, model, dtype)
                peers = next((line["peers"] for line in done if line["key"] == wanted), None)
                if peers is None:
                    peers = measured(options, model, dtype, folder)
                    if options.results is not None:
                        done.append({"key": wanted, "peers": peers})
                        keep(options.results, done)
                lines.append((model, dtype, peers))
                cells, ratio = row(model, dtype, peers)
                table.add_row(*cells)
                console.print(*cells[:5], "|", cells[5].replace("\n", "; "), soft_wrap=True)
                ratios += [] if ratio is None else [ratio]
    console.print(table)
    console.print(summary(ratios))
    if options.markdown is not None:
        options.markdown.write_text(as_markdown(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
