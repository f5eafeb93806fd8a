"""Native oneDNN Graph in a process of its own, so that a crash of it is a result and not a loss.

The parent writes the graph into a folder and reads lines from the child's output; the child says which step it is
at, and writes what native computed into the folder.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..backends.onednn.library.loading import load
from ..graph.files import read_graph
from ..graph.graph import Graph
from ..graph.io.serialization import save_graph
from ..graph.runtime.arrays import Array, numpy_type
from ..ops.errors import OneDNNGraphError
from ..ops.records import frozen
from ..ops.values import one_line
from .bench import Timing
from .comparisons import interleaved, native, on_shifting_stack, ours, placed_inputs
from .ending import signal_name

TIME_LIMIT = 300.0
"""Seconds that the child may take beside the time for measuring."""
MOST = 3.0
"""How many times as long as asked for measuring may take, until times are stable."""
TAG = "onednn-graph child: "
GRAPH = "graph.json"
SECOND = "executing natively for the second time"
EXECUTED = "onednn_verbose,exec"


@frozen(kw_only=True)
class NativeRun:
    """How native oneDNN Graph fared.

    Attributes:
        problem: why there are no results, or not all; empty if all went well.
        signal: name of the signal that killed the process, `SIGABRT` say, or empty.
        step: what it was at last.
        partitions: ids of the ops of each of its partitions, in order.
        free_layouts: whether it chose how tensors between partitions lie.
        kernels: the primitives that it executed, in order, as its verbose mode tells.
        outputs: its results by tensor id.
        native, ours: times taken in turns, where they were asked for.
    """

    problem: str = ""
    signal: str = ""
    step: str = ""
    partitions: tuple[tuple[int, ...], ...] = ()
    free_layouts: bool = True
    kernels: tuple[str, ...] = ()
    outputs: dict[int, Array]
    native: Timing | None = None
    ours: Timing | None = None


def run_in_child(
    graph: Graph,
    *,
    seed: int = 0,
    seconds: float = 0.0,
    backend: str | None = None,
    limit: float = TIME_LIMIT,
) -> NativeRun:
    """Runs a graph natively in a child process.

    Args:
        graph: finalized, with all shapes known.
        seed: of the inputs' data; see `placed_inputs`.
        seconds: how long to time native beside ours; 0 for no timing.
        backend: of ours.
        limit: seconds after which the child is killed, beside those for timing.
    """
    task = {"seed": seed, "seconds": seconds, "backend": backend}
    limit += MOST * seconds
    with tempfile.TemporaryDirectory(prefix="onednn-graph-") as name:
        folder = Path(name)
        save_graph(graph, folder / GRAPH, weights=bool(graph.constant_tensors or graph.parameter_tensors))
        command = _command(name, json.dumps(task))
        ended = ""
        try:
            child = subprocess.run(command, capture_output=True, timeout=limit, check=False)
            printed, said, code = child.stdout, child.stderr, child.returncode
        except subprocess.TimeoutExpired as error:
            printed, said, code = error.stdout or b"", error.stderr or b"", 0
            ended = f"it took longer than {limit:g} s and was stopped"
        told = _told(printed.decode(errors="replace").splitlines())
        problem = str(told.get("problem", "")) or ended
        died = ""
        if code < 0:
            died = signal_name(-code)
            problem = f"it crashed: {died}{_last_words(said)}"
        elif code and not problem:
            problem = f"its process ended with exit code {code}{_last_words(said)}"
        step = str(told.get("step", "starting"))
        if problem and "problem" not in told:
            problem += f", while {step}"
        times: dict[str, Any] = told.get("times", {})
        return NativeRun(
            problem=problem,
            signal=died,
            step=step,
            partitions=tuple(tuple(ids) for ids in told.get("partitions", ())),
            free_layouts=bool(told.get("free_layouts", True)),
            kernels=tuple(told["kernels"]),
            outputs=_read(graph, folder),
            native=_timing(times.get("native")),
            ours=_timing(times.get("ours")),
        )


def _command(folder: str, task: str) -> list[str]:
    # -P: what lies in the current folder must not pass for a module.
    return [sys.executable, "-P", "-m", "onednn_graph.tools.native_child", folder, task]


def _told(lines: Iterable[str]) -> dict[str, Any]:
    """What the child has said, the latest of each, and what the library has printed in the second execution."""
    told: dict[str, Any] = {}
    kernels: list[str] = []
    for line in lines:
        if line.startswith(TAG):
            told |= json.loads(line.removeprefix(TAG))
        elif line.startswith(EXECUTED) and told.get("step") == SECOND:
            _, _, _, kind, implementation, *_ = [*line.split(","), "", ""]
            kernels.append(f"{kind} ({implementation})")
    return told | {"kernels": kernels}


def _last_words(said: bytes) -> str:
    """The end of what a process wrote to its standard error."""
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    return f": {' '.join(lines[-2:])}" if lines else ""


def _read(graph: Graph, folder: Path) -> dict[int, Array]:
    arrays: dict[int, Array] = {}
    for tensor in graph.outputs:
        file = folder / f"{tensor.id}.bin"
        if file.exists():
            arrays[tensor.id] = np.frombuffer(file.read_bytes(), numpy_type(tensor.data_type)).reshape(
                tensor.dims
            )
    return arrays


def _timing(times: Sequence[float] | None) -> Timing | None:
    if times is None:
        return None
    least, median, most, runs = times
    return Timing(least=least, median=median, most=most, runs=int(runs))


def timing_of(times: Sequence[float]) -> Timing:
    """The times of several calls as one."""
    return Timing(least=min(times), median=statistics.median(times), most=max(times), runs=len(times))


# --- the child ------------------------------------------------------------------------------------------


def child(folder: Path, task: dict[str, Any], say: Callable[..., None]) -> None:
    """Reads a graph, runs it natively, writes the results, and takes times.

    Args:
        folder: has the graph, and gets the results.
        task: what `run_in_child` wants.
        say: hands facts to the parent.
    """
    say(step="reading the graph")
    graph = read_graph(folder / GRAPH)
    graph.finalize()
    inputs = placed_inputs(graph, task["seed"])
    say(step="partitioning and compiling natively")
    try:
        theirs = native(graph, inputs)
    except OneDNNGraphError as error:
        say(problem=f"it can't run the graph: {one_line(error)}")
        return
    say(partitions=theirs.partitions, free_layouts=theirs.free_layouts)
    say(step="executing natively for the first time")
    theirs.call()
    for number, array in theirs.outputs.items():
        (folder / f"{number}.bin").write_bytes(array.tobytes())
    say(step=SECOND)
    verbose = load().c.dnnl_set_verbose
    verbose(1)
    theirs.call()
    verbose(0)
    if task["seconds"]:
        say(step="compiling ours")
        mine = ours(graph, inputs, backend=task["backend"])
        say(step="taking times")
        calls = [on_shifting_stack(rival.call) for rival in (theirs, mine)]
        timings = map(timing_of, interleaved(calls, task["seconds"], MOST))
        say(
            times={
                who: (timing.least, timing.median, timing.most, timing.runs)
                for who, timing in zip(("native", "ours"), timings, strict=True)
            }
        )
    say(step="finishing")


def _say(**facts: Any) -> None:
    """Prints between what the library prints."""
    load().c.fflush(None)
    print(TAG + json.dumps(facts), flush=True)


def main() -> None:
    """`python -m onednn_graph.tools.native_child FOLDER TASK`."""
    child(Path(sys.argv[1]), json.loads(sys.argv[2]), _say)


if __name__ == "__main__":
    main()
