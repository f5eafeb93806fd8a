"""Whole models: ours beside torch, onnxruntime and OpenVINO, in turns, as times, ratios, differences and memory.

    pip install '.[bench]'
    python benchmarks/models.py --markdown table.md
    python benchmarks/models.py --models densenet121,swin_t,gpt2 --types f32 --batch 1 --seconds 1

Without --models the eight of `models_zoo.STANDARD`. Besides these there are the others of `models_zoo.RECIPES`, and any
model of torchvision by its name, of detectors the backbone. Weights are random. Everybody but torch reads the same ONNX
files, which are written once into a folder; int8 models have QuantizeLinear and DequantizeLinear, and where the CPU's
sums of 8-bit products are cut off, there are such with weights of 7 bits, too. bf16 is bf16 weights and activations for
ours and torch, and the precision hint for OpenVINO.

Each peer has a process of its own, so that its memory can be told, its crash ends nobody else, and no two runtimes of
OpenMP or pools of threads meet; while one has its turn, the others sleep. A ratio above 1 means that ours is faster;
"best" is the faster of onnxruntime and OpenVINO, of those that are right. Results are compared with the framework's
before anything is timed: the largest difference over the result's range. Memory is what a process has grown by, at the
peak from loading to the second call. With --library ours is a peer once more for each such build of oneDNN.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from affinity import anywhere
from machines import sums_saturate
from models_peers import CHANNELS_LAST, DTYPES, NARROW, PEERS
from models_zoo import STANDARD, Kept
from onednn_graph.tools.information import installed
from platformdirs import user_cache_path
from rich.console import Console
from rich.table import Table
from wgrad import environment

RIVALS = ("onnxruntime", "openvino")
"""Of whom the faster one is the best."""
BEST = "best ÷ ours"
TURN = 0.15
"""Seconds of one turn; a slow model has one call."""
REST = 0.01
"""Seconds between turns, in which threads that spin go to sleep."""
LEAST_TURNS = 3
WIDTH = 180
"""Of tables that go into a file."""


class Failed(Exception):  # noqa: N818 -- a peer's, not ours: a line of the table
    """Why a peer can't run a model."""


class Peer:
    """A process that runs one model.

    Attributes:
        found: what loading found: see `models_peers.load`.
        times: of all turns so far.
    """

    def __init__(self, job: dict[str, Any], limit: float) -> None:
        self.limit = limit
        self.times: list[float] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 -- closed with the process
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                str(Path(__file__).with_name("models_peers.py")),
                json.dumps(job),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "OMP_NUM_THREADS": str(job["threads"]), **job["environment"]},
            preexec_fn=anywhere,
        )
        self.found: dict[str, Any] = self._answer()
        if "error" in self.found:
            self.close()
            raise Failed(self.found["error"])

    def turn(self) -> None:
        """Lets it call the model for a while."""
        asked = cast("IO[bytes]", self._process.stdin)
        with contextlib.suppress(BrokenPipeError):  # its end is found when it should answer
            asked.write(f"{TURN}\n".encode())
            asked.flush()
        self.times += self._answer()

    def _answer(self) -> Any:
        """The next line, as long as the process lives and answers in time."""
        answers = cast("IO[bytes]", self._process.stdout)
        ready, _, _ = select.select([answers], [], [], self.limit)
        line = answers.readline() if ready else b""
        if not ready:
            self.close()
            raise Failed(f"no answer within {self.limit:.0f} s")
        if not line:  # it has ended, or is about to
            ended = self._process.wait()
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip().splitlines()
            raise Failed(f"ended with {ended}: {said[-1] if said else 'nothing on stderr'}")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._errors.close()


def measured(kept: Kept, dtype: str, args: argparse.Namespace) -> dict[str, Any]:
    """One line of the table."""
    row: dict[str, Any] = {
        "model": kept.name,
        "dtype": dtype,
        "batch": kept.batch,
        "seconds": {},
        "ratios": {},
        "difference": {},
        "limit": 0.0,
        "wrong": [],
        "failed": {},
        "notes": [],
        "bytes": {},
        "ready": {},
    }
    try:
        jobs = {
            name: _job(kept, dtype, name, args.threads, args.libraries.get(name))
            for name in (*args.peers, *args.libraries)
            if _takes_part(kept, dtype, name)
        }
    except (
        Exception
    ) as error:  # whatever torch's exporter or the quantizer raise: the other models can be measured
        row["failed"]["everybody"] = f"the model can't be made ({type(error).__name__}: {error})"
        return row
    peers: dict[str, Peer] = {}
    try:
        for name, job in jobs.items():
            try:
                peers[name] = Peer(job, args.limit)
            except Failed as failure:
                row["failed"][name] = str(failure)
                continue
            _note(row, name, peers[name].found)
        _take_turns(peers, args.seconds, row["failed"])
    finally:
        for peer in peers.values():
            peer.close()
    for name, peer in peers.items():
        if name not in row["failed"]:
            row["seconds"][name] = {"min": min(peer.times), "median": statistics.median(peer.times)}
    row["ratios"] = _ratios(row["seconds"], row["wrong"])
    return row


def _takes_part(kept: Kept, dtype: str, peer: str) -> bool:
    """Whether the peer has the type, and the model's inputs another layout if that is what it is there for."""
    return dtype in DTYPES[peer.partition(",")[0]] and (peer != CHANNELS_LAST or kept.has_images)


def _job(kept: Kept, dtype: str, peer: str, threads: int, library: str | None) -> dict[str, Any]:
    """What a peer's process is told; the model's files are made if they are not there.

    Args:
        library: the libdnnl of a peer that is ours on another one.
    """
    made_of = "f32" if dtype == "bf16" else dtype  # who runs bf16 makes it himself
    path = kept.module_path() if peer.startswith("torch") else kept.onnx_path(made_of)
    data = kept.data_path(dtype)
    environment = {} if library is None else {"ONEDNN_GRAPH_LIBRARY": library}
    return {
        "peer": peer.partition(",")[0],
        "dtype": dtype,
        "threads": threads,
        "path": str(path),
        "data": str(data),
        "environment": environment,
    }


def libraries(paths: Sequence[str]) -> dict[str, str]:
    """Peers that are ours on other builds of oneDNN, each by a name with the build's version.

    Raises:
        subprocess.CalledProcessError: a build can't be used.
    """
    asked = "from wgrad import environment; print(environment()['oneDNN'])"
    found: dict[str, str] = {}
    for path in paths:
        done = subprocess.run(
            [sys.executable, "-c", asked],
            env={**os.environ, "ONEDNN_GRAPH_LIBRARY": path},
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found[f"ours, {done.stdout.split()[0]}"] = path
    return found


def _note(row: dict[str, Any], name: str, found: dict[str, Any]) -> None:
    """Writes into the row what loading found."""
    row["difference"][name], row["limit"] = found["difference"], found["limit"]
    row["bytes"][name] = {"peak": found["peak"], "resident": found["resident"]}
    row["ready"][name] = found["ready"]
    row["notes"] += [f"{name}: {note}" for note in found["notes"]]
    if not found["difference"] <= found["limit"]:
        row["wrong"].append(name)


def _take_turns(peers: Mapping[str, Peer], seconds: float, failed: dict[str, str]) -> None:
    """Rounds in which each has its turn, in changing order, for so many seconds each; who fails is left out."""
    rng, order, rounds = random.Random(0), list(peers), 0
    end = time.perf_counter() + seconds * len(order)
    while order and (rounds < LEAST_TURNS or time.perf_counter() < end):
        rounds += 1
        rng.shuffle(order)
        for name in tuple(order):
            time.sleep(REST)
            try:
                peers[name].turn()
            except Failed as failure:
                failed[name] = str(failure)
                order.remove(name)


def _ratios(seconds: dict[str, dict[str, float]], wrong: Sequence[str]) -> dict[str, dict[str, float]]:
    """Each peer's time over ours, by the shortest and by the medians; none beside a wrong result."""
    seconds = {who: times for who, times in seconds.items() if who not in wrong}
    if "ours" not in seconds:
        return {}
    mine = seconds["ours"]
    made = {f"{who} ÷ ours": {k: t[k] / mine[k] for k in mine} for who, t in seconds.items() if who != "ours"}
    rivals = [seconds[who] for who in RIVALS if who in seconds]
    if rivals:
        made[BEST] = {k: min(t[k] for t in rivals) / mine[k] for k in mine}
    return made


def rows(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Line after line."""
    for name in args.models:
        for batch in args.batch:
            for dtype in args.types:
                yield measured(Kept(name, batch, args.folder), dtype, args)


def summary(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each type, batch and pair: geometric mean and smallest ratio, and where that is."""
    found: list[dict[str, Any]] = []
    for key in dict.fromkeys((row["dtype"], row["batch"]) for row in lines):
        group = [row for row in lines if (row["dtype"], row["batch"]) == key]
        for pair in sorted({pair for row in group for pair in row["ratios"]}, key=lambda p: (p != BEST, p)):
            values = {row["model"]: row["ratios"][pair]["min"] for row in group if pair in row["ratios"]}
            worst = min(values, key=lambda name: values[name])
            found.append(
                {
                    "dtype": key[0],
                    "batch": key[1],
                    "pair": pair,
                    "models": len(values),
                    "geometric mean": statistics.geometric_mean(values.values()),
                    "least": values[worst],
                    "at": worst,
                }
            )
    return found


def _cells(row: dict[str, Any], peers: Sequence[str]) -> list[str]:
    """A row of the large table."""
    times = [
        f"{row['seconds'][p]['min'] * 1e3:.2f} ({row['seconds'][p]['median'] * 1e3:.2f})"
        if p in row["seconds"]
        else ("failed" if p in row["failed"] else "")
        for p in peers
    ]
    best = f"{row['ratios'][BEST]['min']:.2f}" if BEST in row["ratios"] else ""
    apart = [
        f"{row['difference'][p]:.0e}" + (" **wrong**" if p in row["wrong"] else "")
        if p in row["difference"]
        else "–"
        for p in peers
    ]
    peak = [f"{row['bytes'][p]['peak'] / 2**20:.0f}" if p in row["bytes"] else "–" for p in peers]
    return [row["model"], row["dtype"], str(row["batch"]), *times, best, " ".join(apart), " ".join(peak)]


def _header(peers: Sequence[str]) -> list[str]:
    return ["model", "type", "batch", *peers, BEST, "difference", "peak MB"]


def _summary_cells(line: dict[str, Any]) -> list[str]:
    mean, least = f"{line['geometric mean']:.2f}", f"{line['least']:.2f}"
    return [line["dtype"], str(line["batch"]), line["pair"], str(line["models"]), mean, least, line["at"]]


SUMMARY_HEADER = ["type", "batch", "ratio", "models", "geometric mean", "least", "at"]


def failures(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Who can't run what, and what is worth knowing of the rest."""
    said: list[str] = []
    for row in lines:
        which = f"{row['model']} {row['dtype']} batch {row['batch']}"
        said += [f"{which}: {who} failed: {why}" for who, why in row["failed"].items()]
        said += [
            f"{which}: {who} is wrong by {row['difference'][who]:.2g}, allowed {row['limit']:.2g}"
            for who in row["wrong"]
        ]
        said += [f"{which}: {note}" for note in row["notes"]]
    return said


def as_markdown(
    lines: Sequence[dict[str, Any]], peers: Sequence[str], facts: dict[str, Any], command: str
) -> str:
    """The tables of one run."""
    text = [f"## Models, {facts['threads']} threads", "", f"`{command}`", ""]
    text += [", ".join(f"{name} {value}" for name, value in facts.items()) + ".", ""]
    for header, cells in (
        (SUMMARY_HEADER, [_summary_cells(line) for line in summary(lines)]),
        (_header(peers), [_cells(row, peers) for row in lines]),
    ):
        text += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
        text += [*(f"| {' | '.join(row)} |" for row in cells), ""]
    text += [f"Milliseconds, shortest (median). Differences and peaks in the order {', '.join(peers)}.", ""]
    return "\n".join([*text, *(f"* {line}" for line in failures(lines)), ""])


def show(lines: Sequence[dict[str, Any]], peers: Sequence[str], console: Console) -> None:
    """The same on the terminal."""
    for header, cells in (
        (_header(peers), [_cells(row, peers) for row in lines]),
        (SUMMARY_HEADER, [_summary_cells(line) for line in summary(lines)]),
    ):
        table = Table(*header)
        for row in cells:
            table.add_row(*row)
        console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description="Whole models beside torch, onnxruntime and OpenVINO.")

    def listed(text: str) -> list[str]:
        return text.split(",")

    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser.add_argument("--models", type=listed, default=list(STANDARD), help="names, with commas")
    types = ["f32", "bf16", "int8", *([NARROW] if sums_saturate() else [])]
    parser.add_argument("--types", type=listed, default=types, help=f"of {', '.join(DTYPES['ours'])}")
    parser.add_argument(
        "--batch", type=numbers, default=[1, 8], help="sizes; 1 for latency, 8 for throughput"
    )
    parser.add_argument("--peers", type=listed, default=list(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument(
        "--library", action="append", default=[], help="a libdnnl, on which ours is one peer more; any number"
    )
    parser.add_argument("--seconds", type=float, default=4.0, help="per peer and line of the table, at least")
    parser.add_argument("--threads", type=int, default=2, help="of each peer")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a peer has to answer")
    parser.add_argument(
        "--folder",
        type=Path,
        default=user_cache_path("onednn-graph") / "models",
        help="where models are kept",
    )
    parser.add_argument(
        "--out", type=Path, default=None, help="write the numbers here, as JSON, after each line"
    )
    parser.add_argument("--markdown", type=Path, default=None, help="append the tables here")
    args = parser.parse_args()
    for option, given, known in (("peers", args.peers, PEERS), ("types", args.types, DTYPES["ours"])):
        for name in given:
            if name not in known:
                parser.error(f"--{option} has {name!r}; there are {', '.join(known)}")
    args.libraries = libraries(args.library)
    facts = {**environment(), "threads": args.threads}
    facts |= {name: installed(name) for name in ("onnxruntime", "openvino", "torchvision", "transformers")}
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    lines: list[dict[str, Any]] = []
    for row in rows(args):
        lines.append(row)
        best = f"  {BEST} {row['ratios'][BEST]['min']:.2f}" if BEST in row["ratios"] else ""
        times = ", ".join(f"{who} {t['min'] * 1e3:.2f}" for who, t in row["seconds"].items())
        print(f"{row['dtype']:5} {row['model']:20} batch {row['batch']}  {times} ms{best}", flush=True)
        for line in failures([row]):
            print(f"      {line}", flush=True)
        if args.out:
            args.out.write_text(json.dumps({"environment": facts, "rows": lines}, indent=1))
    everybody = (*args.peers, *args.libraries)
    show(lines, everybody, console)
    if args.markdown:
        with args.markdown.open("a", encoding="utf-8") as file:
            file.write(
                as_markdown(lines, everybody, facts, f"python benchmarks/models.py {_options(args)}") + "\n"
            )


def _options(args: argparse.Namespace) -> str:
    texts = {k: ",".join(map(str, getattr(args, k))) for k in ("models", "types", "batch", "peers")} | {
        "seconds": f"{args.seconds:g}"
    }
    others = [" --library libdnnl.so"] * len(args.library)  # not where they lie
    return " ".join(f"--{name} '{text}'" for name, text in texts.items()) + "".join(others)


if __name__ == "__main__":
    main()
