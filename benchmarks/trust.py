"""What it costs to compile models of kernels that nobody has proven: cold, warm, beside proven ones, and `verify=True`.

    python benchmarks/trust.py
    python benchmarks/trust.py --models bert_base --rounds 5 --markdown table.md

Every figure is the shortest of some rounds, each in a process of its own. A cold compilation finds no verdicts: it
starts the process that judges kernels, and waits for it. A warm one finds those of the cold one. `verify=True` compares
every kernel in the process that compiles. Set OMP_NUM_THREADS for the number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

from affinity import anywhere
from attrs import frozen
from wgrad import environment

CACHE, VERIFY = "ONEDNN_GRAPH_CACHE", "ONEDNN_GRAPH_VERIFY"
UNPROVEN = Path(__file__).with_name("unproven")
RUNS = 10
WAYS = ("cold", "warm", "proven", "verify")


@frozen
class Line:
    """A model.

    Attributes:
        seconds: way → of compilation; `run` → of an execution.
        cpu_seconds: likewise of CPU time, all threads and that of the judge's process together: what else the machine
            does adds little to it.
    """

    name: str
    seconds: dict[str, float]
    cpu_seconds: dict[str, float]

    @property
    def runs(self) -> float:
        """How many executions `verify=True` takes beside a compilation without, in CPU time."""
        return (self.cpu_seconds["verify"] - self.cpu_seconds["proven"]) / self.cpu_seconds["run"]


def measured(name: str, rounds: int) -> Line:
    """A line; each way is taken so many times."""
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for way in WAYS:
                found = _child(name, way, cache)
                for kept, key, value in [
                    (seconds, way, found["seconds"]),
                    (cpu, way, found["cpu"]),
                    (seconds, "run", found["run"]),
                    (cpu, "run", found["run_cpu"]),
                ]:
                    kept[key] = min(kept.get(key, value), value)
    return Line(name, seconds, cpu)


def _child(name: str, way: str, cache: str) -> dict[str, float]:
    known = os.environ.get("PYTHONPATH", "")
    found = os.pathsep.join([str(UNPROVEN), known]) if way in ("cold", "warm") else known
    verify = "inline" if way == "verify" else "child"
    done = subprocess.run(
        [sys.executable, __file__, "--child", name, way],
        env={**os.environ, "PYTHONPATH": found, CACHE: cache, VERIFY: verify},
        stdout=subprocess.PIPE,
        preexec_fn=anywhere,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def compiled(name: str, way: str) -> dict[str, float]:
    """Seconds of one compilation in this process, and of an execution.

    Raises:
        RuntimeError: it was verified where it should not be, or was not.
    """
    import onednn_graph as og
    import torch
    from models_zoo import recipe
    from onednn_graph.graph.compile.judging import JUDGE

    torch.manual_seed(0)
    plan = recipe(name)
    module, inputs = plan.make().eval(), plan.inputs(1, 0)
    with torch.no_grad():
        graph = og.from_torch(module, tuple(inputs.values()))
    begin, cpu = perf_counter(), _cpu_time()
    model = graph.compile(verify=way == "verify")
    seconds = perf_counter() - begin
    JUDGE.close()  # the time of a process that has ended is told
    cpu = _cpu_time() - cpu
    verified = any(one.verified for one in model.explain().values())
    if verified is not (way in ("cold", "verify")):
        raise RuntimeError(f"{name}, {way}: it was {'' if verified else 'not '}verified")
    arrays = [tensor.numpy() for tensor in inputs.values()]
    feeds = {tensor.name: array for tensor, array in zip(graph.inputs, arrays, strict=False)}
    model(feeds)
    runs = [_timed(lambda: model(feeds)) for _ in range(RUNS)]
    run, run_cpu = (min(times) for times in zip(*runs, strict=True))
    return {"seconds": seconds, "cpu": cpu, "run": run, "run_cpu": run_cpu}


def _cpu_time() -> float:
    """Seconds of this process and of those that it has started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of CPU time."""
    begin, cpu = perf_counter(), process_time()
    call()
    return perf_counter() - begin, process_time() - cpu


def told(line: Line) -> str:
    """A line for readers."""
    times = ", ".join(f"{way} {line.seconds[way]:.2f} s ({line.cpu_seconds[way]:.2f} s CPU)" for way in WAYS)
    run = f"a run {line.seconds['run'] * 1e3:.1f} ms"
    return f"{line.name}: {times}; {run}, verify=True takes {line.runs:.1f} of them in CPU time"


def as_markdown(lines: list[Line]) -> str:
    """The table of one run."""
    facts = ", ".join(f"{name} {value}" for name, value in environment().items())
    text = [
        f"{facts}.",
        "",
        "Seconds, and of CPU time in brackets.",
        "",
        "| model | cold | warm | proven | `verify=True` | run | of runs |",
    ]
    text.append("|---|---|---|---|---|---|---|")
    for line in lines:
        cells = [f"{line.seconds[way]:.3g} ({line.cpu_seconds[way]:.3g})" for way in (*WAYS, "run")]
        text.append(f"| {line.name} | {' | '.join(cells)} | {line.runs:.1f} |")
    return "\n".join([*text, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="What kernels cost that nobody has proven.")
    parser.add_argument("--models", default="resnet50,bert_base")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--markdown", type=Path, default=None, help="append the table here")
    parser.add_argument("--child", nargs=2, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(compiled(*args.child)))
        return
    lines: list[Line] = []
    for name in args.models.split(","):
        lines.append(measured(name, args.rounds))
        print(told(lines[-1]), flush=True)
    if args.markdown:
        with args.markdown.open("a", encoding="utf-8") as file:
            file.write(as_markdown(lines))


if __name__ == "__main__":
    main()
