"""Models on a quiet machine, and beside a process that keeps every CPU busy: how much longer they take.

    python benchmarks/threads.py --model resnet50.onnx --model mobilenet_v3_large.onnx --rounds 12
    python benchmarks/threads.py --callers 8

A tiny layer is measured in any case. Each way is a process of its own: ours, ours with GNU OpenMP's own way to
wait, ours in a process that has imported torch before, and onnxruntime where it is installed. They take turns, in quiet
rounds and busy ones, so that whatever else the machine does meets all of them.

With `--callers` so many threads of Python call one model at once, each with inputs of its own, and hold each result
against what a call alone makes of them; the time is then that of a round divided by its calls.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Feeds = Mapping[str, Any]
Call = Callable[[Feeds], Sequence[Any]]

WAYS = ("ours", "ours, waiting as OpenMP does", "ours, torch first", "onnxruntime")
VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_NUM_THREADS")
OPENMPS_OWN = "300000"
"""Turns of GNU OpenMP's loop where nobody has said anything."""
TINY = "tiny layer"
BUSY = "while True: pass"


def child(way: str, model: str, callers: int) -> None:
    """Loads a model; for each number of seconds on a line of the input, the time of a call."""
    if way == WAYS[2]:
        importlib.import_module("torch")
    call = _onnxruntime(model) if way == "onnxruntime" else _ours(model)
    feeds = [_feeds(model, seed, way == "onnxruntime") for seed in range(max(callers, 1))]
    for _ in range(3):
        expected = [call(given) for given in feeds]
    print("ready", flush=True)
    for line in sys.stdin:
        seconds = float(line)
        told = _together(call, feeds, expected, seconds) if callers else _alone(call, feeds[0], seconds)
        print(json.dumps(told), flush=True)


def _alone(call: Call, given: Feeds, seconds: float) -> float:
    """The median time of calls one after another."""
    end, times = time.perf_counter() + seconds, list[float]()
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call(given)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _together(call: Call, feeds: Sequence[Feeds], expected: Sequence[Sequence[Any]], seconds: float) -> float:
    """The time of a round in which a thread for each feeds calls, divided by the calls."""
    counts, wrong = [0] * len(feeds), list[int]()
    start = time.perf_counter()

    def caller(number: int) -> None:
        while time.perf_counter() < start + seconds:
            made = call(feeds[number])
            counts[number] += 1
            if any((one != want).any() for one, want in zip(made, expected[number], strict=True)):
                wrong.append(number)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(len(feeds))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit(f"results are mixed up: of callers {sorted(set(wrong))}")
    return (time.perf_counter() - start) / sum(counts)


def _ours(path: str) -> Call:
    import onednn_graph as og

    if path != TINY:
        model = og.from_onnx(path).compile()
        return lambda given: [*model(given).values()]
    import numpy as np

    graph = og.Graph()
    x = graph.input("x", "f32", [1, 8, 8, 16])
    w = graph.constant(np.ones((3, 3, 16, 16), np.float32), name="w")
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    graph.op("ReLU", graph.op("Convolution", x, w, **window), name="y")
    layer = graph.compile()
    return lambda given: [*layer(given).values()]


def _tiny_model() -> bytes:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, 8, 8]) for name in "xy")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    weights = numpy_helper.from_array(np.ones((16, 16, 3, 3), np.float32), "w")
    graph = helper.make_graph(nodes, "tiny", [x], [y], [weights])
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    ).SerializeToString()


def _feeds(path: str, seed: int, channels_first: bool) -> Feeds:
    import numpy as np

    rng = np.random.default_rng(seed)
    if path == TINY:
        shape = (1, 16, 8, 8) if channels_first else (1, 8, 8, 16)
        return {"x": rng.standard_normal(shape, np.float32)}
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    weights = {one.name for one in graph.initializer}
    return {
        one.name: rng.standard_normal(
            [max(d.dim_value, 1) for d in one.type.tensor_type.shape.dim], np.float32
        )
        for one in graph.input
        if one.name not in weights
    }


def _onnxruntime(path: str) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(
        _tiny_model() if path == TINY else path, options, ["CPUExecutionProvider"]
    )
    return lambda given: session.run(None, given)


class Child:
    """One way in a process of its own."""

    def __init__(self, way: str, model: str, callers: int = 0) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        if way == WAYS[1]:
            environment["GOMP_SPINCOUNT"] = OPENMPS_OWN
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--child", way, "--model", model, "--callers", str(callers)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.ready = self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def turn(self, seconds: float) -> float:
        """The time of a call."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return float(json.loads(self._line()))

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()


def measure(model: str, ways: Sequence[str], rounds: int, seconds: float, callers: int) -> None:
    """Prints a line for each way: quiet and busy milliseconds, and their ratio."""
    children = {way: Child(way, model, callers) for way in ways}
    children = {way: one for way, one in children.items() if one.ready}
    quiet: dict[str, list[float]] = {way: [] for way in children}
    busy: dict[str, list[float]] = {way: [] for way in children}
    try:
        for _ in range(rounds):
            for way, one in children.items():
                quiet[way].append(one.turn(seconds))
            others = [
                subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(len(os.sched_getaffinity(0)))
            ]
            try:
                for way, one in children.items():
                    busy[way].append(one.turn(seconds))
            finally:
                for other in others:
                    other.kill()
                    other.wait()
    finally:
        for one in children.values():
            one.end()
    print(f"{os.path.basename(model)}, {rounds} rounds{f', {callers} callers' if callers else ''}")
    for way in children:
        alone, beside = statistics.median(quiet[way]), statistics.median(busy[way])
        print(
            f"  {way:<30} quiet {alone * 1e3:9.3f} ms (best {min(quiet[way]) * 1e3:.3f}), "
            f"busy {beside * 1e3:9.3f} ms, ratio {beside / alone:6.2f} ({beside / min(quiet[way]):.2f} of the best)",
            flush=True,
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--model", action="append", default=[], help="an ONNX file of one image input or more"
    )
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a turn")
    parser.add_argument(
        "--callers", type=int, default=0, help="threads of Python that call one model at once"
    )
    parser.add_argument("--ways", action="append", choices=WAYS, help="one of them; all without it")
    parser.add_argument("--child", choices=WAYS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.model[0], args.callers)
        return
    for model in [TINY, *args.model]:
        measure(model, args.ways or WAYS, args.rounds, args.seconds, args.callers)


if __name__ == "__main__":
    main()
