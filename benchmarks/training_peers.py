"""One peer of `training.py` in a process of its own: makes a training step, tells how exact it is, and takes turns.

    python training_peers.py '{"peer": "ours", "model": "resnet18", "dtype": "f32", "batch": 8, "threads": 2}'

Talks in lines of JSON as `models_peers.py` does.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from models_peers import CHANNELS_LAST, forget_peak, resident, serve
from onednn_graph.graph.runtime.tensor import allocate
from training_models import Problem, loss_of, problem, step

Array = np.ndarray
Call = Callable[[], object]
COMPILED = "torch compiled"
PEERS = ("ours", "torch", CHANNELS_LAST, COMPILED)


def ours(given: Problem, dtype: str) -> tuple[Call, dict[str, Array], list[str]]:
    """Forward and backward as one program, on arrays that are bound once."""
    made = step(given, dtype)
    model = made.graph.compile()
    # Bound only: a call beside it would have temporaries of its own, which no training loop has.
    arrays = {t.id: allocate(t) for t in model.outputs}
    names = zip(model.output_names, model.outputs, strict=True)
    call = model.bind(made.feeds, {name: arrays[t.id] for name, t in names})
    call()
    gradients = {name: arrays[tensor.id] for name, tensor in made.gradients.items()}
    hosted = [
        name
        for told in model.explain().values()
        if told is not None
        for name in told.implementations
        if "numpy" in name
    ]
    return call, gradients, [f"{len(hosted)} steps on NumPy"] if hosted else []


def theirs(given: Problem, dtype: str, peer: str) -> tuple[Call, dict[str, Array], list[str]]:
    """Forward and backward as torch does them; gradients are made anew at each step, as optimizers have it."""
    module, x, target = given.module, given.x, given.target
    if dtype == "bf16":
        module, x = module.bfloat16(), x.bfloat16()
    if peer != "torch" and x.ndim == 4:
        module, x = (one.to(memory_format=torch.channels_last) for one in (module, x))
    run: Callable[..., Any] = torch.compile(module) if peer == COMPILED else module

    def call() -> None:
        module.zero_grad(set_to_none=True)
        loss_of(run(x), target, given.classes).backward()

    call()
    parameters = module.named_parameters()
    return call, {n: p.grad.detach().float().numpy() for n, p in parameters if p.grad is not None}, []


def reference(given: Problem, data: str) -> dict[str, Array]:
    """The gradients as torch has them in f32, made once and kept in a file."""
    if not os.path.exists(data):
        np.savez(data, **theirs(given, "f32", "torch")[1])
    with np.load(data) as file:
        return {name: file[name] for name in file.files}


def away(gradients: dict[str, Array], expected: dict[str, Array]) -> tuple[float, float]:
    """Median and largest over the parameters of |difference| / |gradient| in norm.

    Gradients that are zero but for rounding, as of a bias before a normalisation, are left out: the norm of each of
    their elements is less than a millionth of the largest one's.
    """
    if set(gradients) != set(expected):
        raise ValueError(f"gradients of other parameters: {sorted(set(gradients) ^ set(expected))}")
    norms = {name: np.linalg.norm(array) / np.sqrt(array.size) for name, array in expected.items()}
    floor = 1e-6 * max(norms.values())
    errors = [
        float(np.linalg.norm(gradients[n].astype(np.float32) - expected[n]) / np.linalg.norm(expected[n]))
        for n in expected
        if norms[n] > floor
    ]
    return float(np.median(errors)), max(errors)


def load(job: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
    """Makes the step, runs it, and compares its gradients with those of torch in f32."""
    torch.set_num_threads(job["threads"])
    expected = reference(problem(job["model"], job["batch"]), job["data"])
    given = problem(job["model"], job["batch"])
    torch.set_grad_enabled(True)
    gc.collect()
    forget_peak()
    before, begin = resident("VmRSS"), time.perf_counter()
    dtype, peer = job["dtype"], job["peer"]
    call, gradients, notes = ours(given, dtype) if peer == "ours" else theirs(given, dtype, peer)
    ready = time.perf_counter() - begin
    call()
    peak = resident("VmHWM") - before
    median, largest = away(gradients, expected)
    return call, {"peak": peak, "ready": ready, "median": median, "largest": largest, "notes": notes}


if __name__ == "__main__":
    serve(load)
