"""From the start of a process to the first result of an ONNX file, beside onnxruntime: time, CPU time, memory.

    OMP_NUM_THREADS=2 python benchmarks/cold_start.py
    python benchmarks/cold_start.py --models bert_base --rounds 9 --markdown table.md

Each figure is the least of some rounds, in which the peers take turns, each in a process of its own: it imports what it
needs, reads the file, prepares it, runs it once, and tells when each of these was done. Memory is the process's at its
peak, as Linux counts it. Byte code of Python lies ready, as it does where packages were installed.
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

from affinity import anywhere
from attrs import frozen
from wgrad import environment

PEERS = ("onednn_graph", "onnxruntime")
SAVED = "onednn_graph, saved"
"""The same from the file that `save_compiled` has written; what it reads, and what it plans, is in `read`."""
STAGES = ("import", "read", "compile", "first result")
CHILD = """
import sys, time
start, cpu = float(sys.argv[3]), time.process_time
told = {}
def done(what):
    told[what] = [time.time() - start, cpu()]
peer, file = sys.argv[1:3]
import numpy as np
feeds = dict(np.load(sys.argv[4]))
if peer == "onednn_graph":
    import onednn_graph as og
    done("import")
    graph = og.from_onnx(file)
    done("read")
    model = graph.compile()
    done("compile")
    model(feeds)
    if len(sys.argv) > 6:
        model.save_compiled(sys.argv[6])
elif peer == "onednn_graph, saved":
    import onednn_graph as og
    done("import")
    model = og.Graph.load_compiled(file)
    done("read")
    done("compile")
    model(feeds)
else:
    import onnxruntime as ort
    done("import")
    done("read")
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(sys.argv[5])
    model = ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    done("compile")
    model.run(None, feeds)
done("first result")
import json
with open("/proc/self/status") as status:  # what getrusage tells of it may be the parent's
    (line,) = [line for line in status if line.startswith("VmHWM:")]
print(json.dumps({"told": told, "memory": int(line.split()[1]) * 1024}))
"""


@frozen
class Line:
    """A model.

    Attributes:
        seconds: peer → stage → from the start of the process until it is done; shortest of the rounds.
        cpu_seconds: likewise of CPU time.
        memory: peer → bytes at the peak, least of the rounds.
    """

    name: str
    seconds: dict[str, dict[str, float]]
    cpu_seconds: dict[str, dict[str, float]]
    memory: dict[str, float]

    def ratio(self, of: Callable[[str], float], ours: str = PEERS[0]) -> float:
        """Ours ÷ onnxruntime's."""
        return of(ours) / of(PEERS[1])


def measured(name: str, rounds: int, threads: int, folder: Path, cache: Path) -> Line:
    """A line."""
    import numpy as np
    from models_zoo import Kept

    kept = Kept(name, 1, folder)
    file, feeds = kept.onnx_path("f32"), folder / f"{name}.feeds.npz"
    np.savez(feeds, **kept.feeds())
    saved = folder / f"{name}.compiled"
    everybody = (*PEERS, SAVED)
    line = Line(name, {peer: {} for peer in everybody}, {peer: {} for peer in everybody}, {})
    _child(PEERS[0], file, feeds, threads, cache, saved)
    for number in range(rounds + 1):
        for peer in everybody:
            told, memory = _child(peer, saved if peer == SAVED else file, feeds, threads, cache)
            if number == 0:
                continue  # writes byte code, and files come into the system's cache
            for kept_times, place in ((line.seconds, 0), (line.cpu_seconds, 1)):
                for stage in STAGES:
                    shortest = kept_times[peer].get(stage, told[stage][place])
                    kept_times[peer][stage] = min(shortest, told[stage][place])
            line.memory[peer] = min(line.memory.get(peer, memory), memory)
    return line


def _child(
    peer: str, file: Path, feeds: Path, threads: int, cache: Path, *saved: Path
) -> tuple[dict[str, list[float]], float]:
    import time

    surroundings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    surroundings |= {"OMP_NUM_THREADS": str(threads), "PYTHONPYCACHEPREFIX": str(cache)}
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            CHILD,
            peer,
            str(file),
            str(time.time()),
            str(feeds),
            str(threads),
            *map(str, saved),
        ],
        env=surroundings,
        stdout=subprocess.PIPE,
        preexec_fn=anywhere,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return found["told"], found["memory"]


def told(line: Line) -> str:
    """A line for readers."""
    parts: list[str] = []
    for peer in (*PEERS, SAVED):
        seconds = ", ".join(f"{stage} {line.seconds[peer][stage]:.2f}" for stage in STAGES)
        cpu = line.cpu_seconds[peer][STAGES[-1]]
        parts.append(f"{peer}: {seconds} s ({cpu:.2f} s of CPU), {line.memory[peer] / 1e6:.0f} MB")
    return f"{line.name}: {'; '.join(parts)}"


def as_markdown(lines: list[Line], command: str) -> str:
    """The table of one run."""
    facts = ", ".join(f"{name} {value}" for name, value in environment().items())
    text = [
        f"`{command}`",
        "",
        f"{facts}.",
        "",
        "Seconds from the start of a process: ours, onnxruntime's. Ratios are ours ÷ onnxruntime's: to the first "
        "result, of time and of CPU time, and of memory at the peak. Saved: from the file of `save_compiled`, "
        "seconds to the first result, memory, and the ratios of both.",
        "",
        "| model | import | read | compiled | first result | ratio | of CPU time | memory, MB | ratio "
        "| saved | ratio | memory, MB | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        pairs = [", ".join(f"{line.seconds[peer][stage]:.2f}" for peer in PEERS) for stage in STAGES]
        memory = ", ".join(f"{line.memory[peer] / 1e6:.0f}" for peer in PEERS)
        ratios = [
            line.ratio(lambda peer, of=of: of[peer][STAGES[-1]]) for of in (line.seconds, line.cpu_seconds)
        ]
        text.append(
            f"| {line.name} | {' | '.join(pairs)} | {ratios[0]:.2f} | {ratios[1]:.2f} | {memory} | "
            f"{line.ratio(line.memory.__getitem__):.2f} | {line.seconds[SAVED][STAGES[-1]]:.2f} | "
            f"{line.ratio(lambda peer: line.seconds[peer][STAGES[-1]], SAVED):.2f} | "  # noqa: B023 -- used at once
            f"{line.memory[SAVED] / 1e6:.0f} | {line.ratio(line.memory.__getitem__, SAVED):.2f} |"
        )
    return "\n".join([*text, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description="From the start of a process to the first result.")
    parser.add_argument("--models", default="mobilenet_v2,resnet50,bert_base")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--folder", type=Path, default=None, help="keep models here, for the next time")
    parser.add_argument("--markdown", type=Path, default=None, help="append the table here")
    args = parser.parse_args()
    threads = int(os.environ.get("OMP_NUM_THREADS", "2"))
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary) / "models"
        for name in args.models.split(","):
            lines.append(measured(name, args.rounds, threads, folder, Path(temporary) / "cache"))
            print(told(lines[-1]), flush=True)
    if args.markdown:
        asked = "" if args.models == parser.get_default("models") else f" --models {args.models}"
        with args.markdown.open("a", encoding="utf-8") as file:
            file.write(as_markdown(lines, f"python benchmarks/cold_start.py{asked}"))


if __name__ == "__main__":
    main()
