"""Training steps of whole models, forward and backward: ours beside torch, as times, ratios, errors and memory.

    pip install '.[bench]'
    python benchmarks/training.py --markdown benchmarks/TRAINING.md
    python benchmarks/training.py --models resnet18 --types f32 --turns 5 --compiled

Weights and data are random and the same for everybody. Each peer has a process of its own, and they take turns; while
one has its turn, the others sleep. bf16 is activations and weights in bf16. Gradients are compared with those of
torch in f32 before anything is timed: the median and the largest error of a parameter, in norm, relative to its
gradient. In deep networks with random weights rounding alone is seen there, so what torch has channels-last, or in
bf16, stands beside ours. Memory is what a process has grown by at the peak. A ratio above 1 means that ours is faster;
it is of medians, to the better of torch's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models_peers import CHANNELS_LAST
from rich.console import Console
from rich.table import Table
from training_models import RECIPES
from training_peers import COMPILED
from wgrad import environment

TURN = 0.3
"""Seconds of one turn; a slow model has one step."""
LIMIT, LEAST = 3.0, 1e-4
"""How many times the median error of torch ours may be; and what it may be at any rate."""


class Peer:
    """A process that makes the steps of one model.

    Attributes:
        found: what `training_peers.load` tells.
        times: of all steps so far, in seconds.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.name = str(job["peer"])
        self.times: list[float] = []
        here = Path(__file__).with_name("training_peers.py")
        command = [sys.executable, "-W", "ignore", str(here), json.dumps(job)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
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


def measured(options: argparse.Namespace, model: str, dtype: str, folder: str) -> list[Peer]:
    """All peers of one model, after their turns."""
    peers: list[Peer] = []
    names = ["ours", "torch", CHANNELS_LAST, *([COMPILED] if options.compiled else [])]
    if len(RECIPES[model].shape) < 3:
        names.remove(CHANNELS_LAST)
    batch = options.batch or RECIPES[model].batch
    for name in names:
        data = f"{folder}/{model}-{batch}.npz"
        job = {"peer": name, "model": model, "dtype": dtype, "batch": batch, "data": data}
        peers.append(Peer({**job, "threads": options.threads}))
    for _ in range(options.turns):
        for peer in peers:
            if "error" not in peer.found:
                peer.turn(options.seconds)
    for peer in peers:
        peer.end()
    return peers


def row(model: str, dtype: str, peers: Sequence[Peer]) -> tuple[list[str], float | None]:
    """A line of the table, and the ratio."""
    mine, *others = peers
    rivals = [peer for peer in others if peer.times]
    texts: list[str] = []
    for peer in peers:
        if not peer.times:
            texts.append(f"{peer.name}: {peer.found['error'][:60]}")
            continue
        error = f"{peer.found['median']:.1e} {peer.found['largest']:.1e}"
        megabytes = peer.found["peak"] / 2**20
        texts.append(
            f"{peer.name} {statistics.median(peer.times) * 1e3:.1f} ms, {megabytes:.0f} MB, off {error}"
        )
    if not mine.times or not rivals:
        return [model, dtype, "", "", "\n".join(texts)], None
    best = min(rivals, key=lambda peer: statistics.median(peer.times))
    ratio = statistics.median(best.times) / statistics.median(mine.times)
    wrong = mine.found["median"] > max(LEAST, LIMIT * max(peer.found["median"] for peer in rivals))
    notes = ["GRADIENTS DIFFER"] if wrong else []
    return [
        model,
        dtype,
        f"{ratio:.2f}",
        f"{mine.found['peak'] / best.found['peak']:.2f}",
        "\n".join([*texts, *notes, *mine.found["notes"]]),
    ], ratio


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
    parser.add_argument("--markdown", type=Path, default=None)
    options = parser.parse_args()
    table = Table(
        "model", "type", "best ÷ ours", "peak ÷ best's", "median step, peak, error", show_lines=True
    )
    ratios: list[float] = []
    console = Console(width=140)
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models.split(","):
            for dtype in options.types.split(","):
                cells, ratio = row(model, dtype, measured(options, model, dtype, folder))
                table.add_row(*cells)
                console.print(*cells[:4], "|", cells[4].replace("\n", "; "), soft_wrap=True)
                ratios += [] if ratio is None else [ratio]
    console.print(table)
    if ratios:
        summary = f"geometric mean {statistics.geometric_mean(ratios):.2f}, least {min(ratios):.2f}"
        console.print(summary)
        if options.markdown is not None:
            with options.markdown.open("w", encoding="utf-8") as file:
                page = Console(file=file, width=140)
                page.print(f"# Training steps\n\n{environment()}\n\n```")
                page.print(table)
                page.print(f"```\n\n{summary}")


if __name__ == "__main__":
    main()
