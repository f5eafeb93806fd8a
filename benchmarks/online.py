"""What `tune="online"` gains on random layers: the default choice, what executions have found, and `tune="measure"`.

    python benchmarks/online.py --random 8
    python benchmarks/online.py --random 40 --seed 7 --dtypes bf16 --formats NCX --markdown table.md

Each layer is compiled in the three ways, online and measure with an empty cache each. The online one is executed until
it has settled; then all three take turns, a few milliseconds each, and a ratio is that of the shortest times: above 1
the default choice is the slower one. Set OMP_NUM_THREADS for the number of threads.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
from attrs import frozen
from onednn_graph.graph.runtime.arrays import numpy_type
from onednn_graph.tools.comparisons import interleaved
from onednn_graph.tools.layers import Layer, draw, op_of
from wgrad import environment

MOST_EXECUTIONS = 1000
"""Until a trial is over; they are far fewer."""
WAYS = ("default", "online", "measure")
CACHE = "ONEDNN_GRAPH_CACHE"


@frozen
class Line:
    """A layer.

    Attributes:
        seconds: by way, the shortest.
        taken: by way, the strategy.
        tried: how many candidates were on trial.
        executions: until it was over.
    """

    name: str
    seconds: dict[str, float]
    taken: dict[str, str]
    tried: int
    executions: int

    def gain(self, way: str) -> float:
        """Time of the default choice ÷ that of another."""
        return self.seconds["default"] / self.seconds[way]


@contextmanager
def empty_cache() -> Iterator[None]:
    """In the block, nothing is known of any problem."""
    before = os.environ.get(CACHE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ[CACHE]
            else:
                os.environ[CACHE] = before


def made(op: og.Op, tune: str | None) -> tuple[Callable[[], None], Any]:
    """A bound call, and what was compiled."""
    graph = og.Graph()
    graph.add_op(op)
    graph.finalize()
    compiled = graph.get_partitions()[0].compile(tune=tune)
    rng = np.random.default_rng(0)
    *data, result = (
        rng.integers(-2, 3, tensor.dims).astype(numpy_type(tensor.data_type))
        for tensor in (*op.inputs, *op.outputs)
    )
    return compiled.bind(data, [result]), compiled


def measured(layer: Layer, data_format: str, dtype: str, seconds: float) -> Line:
    """One line of the table."""
    op = op_of(layer, data_format, dtype)
    calls: dict[str, Callable[[], None]] = {}
    compiled: dict[str, Any] = {}
    executions = 0
    for way in WAYS:
        with empty_cache():
            calls[way], compiled[way] = made(op, None if way == "default" else way)
            if way == "online":
                while not settled(compiled[way]) and executions < MOST_EXECUTIONS:
                    calls[way]()
                    executions += 1
                calls[way]()  # makes the plan of what has won
    times = dict(zip(WAYS, interleaved(list(calls.values()), seconds), strict=True))
    online = compiled["online"].explain().only.online
    return Line(
        name=f"{dtype} {data_format} {layer['name']}",
        seconds={way: min(found) for way, found in times.items()},
        taken={way: one.explain().only.strategy for way, one in compiled.items()},
        tried=len(online[0].tried) if online else 1,
        executions=executions,
    )


def settled(compiled: Any) -> bool:
    return all(one.settled for one in compiled.explain().only.online)


def told(line: Line) -> str:
    """For the terminal."""
    others = "; ".join(f"{way} {line.taken[way]}" for way in WAYS if line.taken[way] != line.taken["default"])
    return (
        f"{line.name:70} {line.seconds['default'] * 1e3:8.3f} ms  default ÷ online {line.gain('online'):.2f}, "
        f"÷ measure {line.gain('measure'):.2f}  {line.tried} tried in {line.executions}  {others}"
    )


def summary(lines: list[Line]) -> list[str]:
    """A sentence for each way."""
    texts: list[str] = []
    for way in WAYS[1:]:
        gains = [line.gain(way) for line in lines]
        texts.append(
            f"default ÷ {way}: geometric mean {statistics.geometric_mean(gains):.3f}, least {min(gains):.2f}, "
            f"most {max(gains):.2f}"
        )
    far = max(line.gain("measure") / line.gain("online") for line in lines)
    return [*texts, f"online is {far:.2f} times slower than measure at most"]


def as_markdown(lines: list[Line]) -> str:
    """The table of one run."""
    facts = ", ".join(f"{name} {value}" for name, value in environment().items())
    text = [f"{facts}.", "", "| layer | ms | default ÷ online | default ÷ measure | tried | executions |"]
    text.append("|---|---|---|---|---|---|")
    text += [
        f"| {line.name} | {line.seconds['default'] * 1e3:.3f} | {line.gain('online'):.2f} "
        f"| {line.gain('measure'):.2f} | {line.tried} | {line.executions} |"
        for line in lines
    ]
    return "\n".join([*text, "", *(f"{one}." for one in summary(lines)), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="What choices that are made in use gain.")
    parser.add_argument("--random", type=int, default=8, help="so many layers")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--dtypes", default="f32,bf16", help="each layer has one of them")
    parser.add_argument("--formats", default="NXC,NCX", help="likewise")
    parser.add_argument("--seconds", type=float, default=0.7, help="per line of the table, at least")
    parser.add_argument("--markdown", type=Path, default=None, help="append the table here")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    lines: list[Line] = []
    for _ in range(args.random):
        layer = draw(rng)
        data_format, dtype = (rng.choice(one.split(",")) for one in (args.formats, args.dtypes))
        lines.append(measured(layer, data_format, dtype, args.seconds))
        print(told(lines[-1]), flush=True)
    print(*summary(lines), sep="\n")
    if args.markdown:
        with args.markdown.open("a", encoding="utf-8") as file:
            file.write(as_markdown(lines))


if __name__ == "__main__":
    main()
