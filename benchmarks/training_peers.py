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
import onednn_graph as og
import torch
from attrs import evolve
from models_peers import forget_peak, resident, serve
from safetensors import safe_open
from training_models import Problem, loss_of, model, problem

Array = np.ndarray
Call = Callable[[], object]
COMPILED = "torch compiled"
RATE, MOMENTUM = 1e-4, 0.9


def ours(given: Problem, dtype: str, data: str) -> tuple[Call, dict[str, Array], list[str]]:
    """A trainer's step. Parameters stay in f32 where the rest is bf16."""
    made = model(given)
    if given.optimizer == "sgd":
        optimizer, kept, share = og.training.SGD(RATE, momentum=MOMENTUM), "velocity/", 1.0
    else:
        optimizer, kept, share = og.training.AdamW(RATE), "mean/", 0.1
    trainer = og.training.Trainer(made.graph, made.loss, optimizer, precision=dtype)

    def call() -> None:
        trainer.step(made.feeds)

    call()
    file = f"{data}.{dtype}.safetensors"
    trainer.save(file)
    with safe_open(file, framework="numpy") as state:
        # What the optimizer keeps of the very first step is the gradient, but for a factor.
        names = [name for name in state.keys() if name.startswith(kept)]  # noqa: SIM118 -- no mapping
        gradients = {name.removeprefix(kept): state.get_tensor(name) / np.float32(share) for name in names}
    os.unlink(file)
    return call, gradients, []


def _optimizer(given: Problem, module: torch.nn.Module) -> Any:
    """Torch's own, in one pass over memory."""
    parameters = module.parameters()
    if given.optimizer == "sgd":
        return torch.optim.SGD(parameters, RATE, momentum=MOMENTUM, fused=True)
    return torch.optim.AdamW(parameters, RATE, fused=True)


def theirs(
    given: Problem, dtype: str, peer: str, *, autocast: bool = False
) -> tuple[Call, dict[str, Array], list[str]]:
    """Forward, backward and update as torch does them.

    Args:
        autocast: whether parameters stay in f32 where the rest is bf16, as ours do.
    """
    module, x, target = given.module, given.x, given.target
    if dtype == "bf16" and not autocast:
        module, x = module.bfloat16(), x.bfloat16()
    if peer != "torch" and x.ndim == 4:
        module, x = (one.to(memory_format=torch.channels_last) for one in (module, x))
    run: Callable[..., Any] = torch.compile(module) if peer == COMPILED else module
    optimizer = _optimizer(given, module)
    cast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16" and autocast)

    def differentiate() -> float:
        optimizer.zero_grad(set_to_none=True)
        with cast:
            loss = loss_of(run(x), target, given.classes)
        loss.backward()
        return loss.item()

    def call() -> None:
        differentiate()
        optimizer.step()

    differentiate()
    gradients = {
        n: p.grad.detach().float().numpy().copy() for n, p in module.named_parameters() if p.grad is not None
    }
    optimizer.step()
    return call, gradients, []


def reference(given: Problem, data: str) -> dict[str, Array]:
    """The gradients as torch has them in f64, rounded to f32, made once and kept in a file.

    In f32 a ReLU near zero may be on the other side, by chance, and two that agree by chance would judge a third.
    """
    if not os.path.exists(data):
        exact = evolve(given, module=given.module.double(), x=given.x.double(), target=given.target.double())
        np.savez(data, **theirs(exact, "f64", "torch")[1])
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
    """Makes the step, runs it, and compares its gradients with those of torch in f64."""
    torch.set_num_threads(job["threads"])
    expected = reference(problem(job["model"], job["batch"]), job["data"])
    given = problem(job["model"], job["batch"])
    torch.set_grad_enabled(True)
    gc.collect()
    forget_peak()
    before, begin = resident("VmRSS"), time.perf_counter()
    dtype, peer = job["dtype"], job["peer"]
    if peer == "ours":
        call, gradients, notes = ours(given, dtype, job["data"])
    else:
        call, gradients, notes = theirs(given, dtype, peer, autocast=job["autocast"])
    ready = time.perf_counter() - begin
    call()
    peak = resident("VmHWM") - before
    median, largest = away(gradients, expected)
    return call, {"peak": peak, "ready": ready, "median": median, "largest": largest, "notes": notes}


if __name__ == "__main__":
    serve(load)
