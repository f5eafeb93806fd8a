"""One peer of `models.py` in a process of its own: loads a model, tells what it computes, and takes turns.

    python models_peers.py '{"peer": "onnxruntime", "model": "resnet50", "dtype": "f32", ...}'

Talks in lines of JSON: first what loading found (`Loaded`), then for each line with a number of seconds the times of
the calls of one turn. Ends with its input.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray
Call = Callable[[], list[Array]]
"""Runs the model as a user would, from arrays to arrays."""
CHANNELS_LAST = "torch channels_last"
PEERS = ("ours", "torch", CHANNELS_LAST, "onnxruntime", "openvino")
NARROW = "int8-7bit"
"""Weights of 8 bits that take 7, whose products no CPU's sums cut off."""
INTEGERS = ("int8", NARROW)
DTYPES = {
    "ours": ("f32", "bf16", *INTEGERS),
    "torch": ("f32", "bf16"),
    CHANNELS_LAST: ("f32", "bf16"),
    "onnxruntime": ("f32", *INTEGERS),
    "openvino": ("f32", "bf16", *INTEGERS),
}
"""What each one can compute on a CPU. Torch's int8 is not that of the ONNX model; onnxruntime has no bf16."""
WARMING = 2
"""Calls of a turn that don't count: threads and caches of a process that has slept wake up."""


def ours(path: str, dtype: str, feeds: dict[str, Array], threads: int) -> tuple[Call, list[str]]:
    """Our compiled model, and what of it is left to NumPy."""
    import onednn_graph as og

    graph = og.from_onnx(path)
    model = (graph.to("bf16") if dtype == "bf16" else graph).compile()
    model(feeds)  # what depends on sizes is chosen now
    partitions = model.partitions
    explained = model.explain()
    elsewhere = Counter[str]()
    for partition in partitions:
        made = explained[partition.id]
        backend = made.backend if made is not None else str(partition.backend)
        if backend == "onednn" and made is not None:  # steps on the host
            backend = "host" if any("numpy" in name for name in made.implementations) else backend
        if backend != "onednn":
            elsewhere.update(op.kind for op in partition.ops)
    notes = [f"{len(partitions)} partitions"]
    if elsewhere:
        notes.append(
            "in partitions with NumPy: " + ", ".join(f"{k} ×{n}" for k, n in elsewhere.most_common())
        )
    return lambda: list(model(feeds).values()), notes


def torch_eager(
    module: str, dtype: str, feeds: dict[str, Array], threads: int, last: bool
) -> tuple[Call, list[str]]:
    """Torch without a compiler.

    Args:
        module: path of the module.
        last: images and weights lie with the channels last.
    """
    import torch
    from models_zoo import in_bf16

    torch.set_num_threads(threads)
    model = torch.load(module, weights_only=False)
    model = in_bf16(model) if dtype == "bf16" else model
    inputs = [torch.from_numpy(array) for array in feeds.values()]
    if last:
        model = model.to(memory_format=torch.channels_last)
        inputs = [t.to(memory_format=torch.channels_last) if t.ndim == 4 else t for t in inputs]

    def call() -> list[Array]:
        with torch.inference_mode():
            made = model(*inputs)
        return [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]

    return call, []


def onnxruntime(path: str, dtype: str, feeds: dict[str, Array], threads: int) -> tuple[Call, list[str]]:
    """Onnxruntime with all its optimisations."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, feeds), []


def openvino(path: str, dtype: str, feeds: dict[str, Array], threads: int) -> tuple[Call, list[str]]:
    """OpenVINO for latency; without a hint it would take bf16 for f32 where the CPU has it."""
    import openvino as ov

    model = ov.Core().compile_model(
        path,
        "CPU",
        {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bf16" else "f32",
        },
    )
    request = model.create_infer_request()
    inputs = [feeds[port.any_name] for port in model.inputs]

    def call() -> list[Array]:
        return list(request.infer(inputs, share_inputs=True).values())

    return call, []


def resident(field: str) -> int:
    """Bytes of this process's memory: VmRSS now, VmHWM at its peak."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no {field}")


def forget_peak() -> None:
    """Has VmHWM begin again at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def load(job: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
    """Loads the model, calls it, and compares.

    Returns:
        what runs it; and bytes that the process grew by at the peak and in the end, seconds until the first result,
        largest difference over the range of the expected result, limit of it, notes.
    """
    with np.load(job["data"]) as file:
        arrays = {name: file[name] for name in file.files}
    feeds = {name.removeprefix("in "): array for name, array in arrays.items() if name.startswith("in ")}
    expected = [array for name, array in arrays.items() if name.startswith("out ")]
    peer, arguments = job["peer"], (job["path"], job["dtype"], feeds, job["threads"])
    _import(peer)
    gc.collect()
    forget_peak()
    before, begin = resident("VmRSS"), time.perf_counter()
    if peer.startswith("torch"):
        call, notes = torch_eager(*arguments, last=peer == CHANNELS_LAST)
    else:
        call, notes = {"ours": ours, "onnxruntime": onnxruntime, "openvino": openvino}[peer](*arguments)
    results = [array.copy() for array in call()]
    ready = time.perf_counter() - begin
    call()
    return call, {
        "peak": resident("VmHWM") - before,
        "resident": resident("VmRSS") - before,
        "ready": ready,
        "difference": furthest(results, expected),
        "limit": float(arrays["limit"]),
        "notes": notes,
    }


def _import(peer: str) -> None:
    """Imports what the peer needs, so that it is not counted as the model's memory."""
    if peer == "ours":
        import onednn_graph
        import onnx

        onednn_graph.Engine("cpu")
        onnx.helper.make_opsetid("", 20)
    elif peer.startswith("torch"):
        import models_zoo

        models_zoo.recipe("unet")
    else:
        __import__(peer)


def relative(result: Array, expected: Array) -> float:
    """The largest difference over the range of what is expected; infinite where shapes differ or a number is none."""
    if result.shape != expected.shape:
        return float("inf")
    apart = np.abs(result.astype(np.float64) - expected.astype(np.float64)).max(initial=0.0)
    span = float(expected.max(initial=-np.inf)) - float(expected.min(initial=np.inf))
    return float(apart / max(span, 1e-30)) if np.isfinite(apart) else float("inf")


def furthest(results: list[Array], expected: list[Array]) -> float:
    """The same over all results of a model."""
    if len(results) != len(expected):
        return float("inf")
    return max(relative(r, e) for r, e in zip(results, expected, strict=True))


def turn(call: Callable[[], object], seconds: float) -> list[float]:
    """Times of calls in a row, at least one, after some that don't count."""
    for _ in range(WARMING):
        call()
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def serve(load: Callable[[dict[str, Any]], tuple[Callable[[], object], dict[str, Any]]]) -> None:
    """Loads what the first argument says; for each number of seconds on a line of the input, the times of calls."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(answer: object) -> None:
        print(json.dumps(answer), file=out, flush=True)

    try:
        call, found = load(json.loads(sys.argv[1]))
    except Exception as error:  # each peer has errors of its own; the parent shows them
        say({"error": f"{type(error).__name__}: {error}"})
        return
    say(found)
    for line in sys.stdin:
        say(turn(call, float(line)))


if __name__ == "__main__":
    serve(load)
