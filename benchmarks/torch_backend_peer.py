"""One peer of `torch_backend.py` in a process of its own: eager torch or a backend of torch.compile, and takes turns.

    python torch_backend_peer.py '{"peer": "ours", "model": "resnet18", "dtype": "f32", "what": "training", …}'

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
from models_peers import forget_peak, resident, serve
from torch_backend_models import loss_of, problem
from training_peers import RATE, away

Array = np.ndarray
BACKENDS = {"ours": "onednn_graph", "inductor": "inductor", "traced": "aot_eager"}
"""Peers that compile. `traced` is what torch's own tracing takes, by a backend that does nothing."""


def prepared(
    job: dict[str, Any], dtype: str, *, last: bool, peer: str
) -> tuple[Callable[[], Any], torch.nn.Module]:
    """A call that makes one step, and the module."""
    module, x, target = problem(job["model"], job["batch"])
    if dtype == "f64":
        module, target = module.double(), target.double()
        x = x.double() if x.is_floating_point() else x
    if last:
        module = module.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    run: Callable[..., Any] = torch.compile(module, backend=BACKENDS[peer]) if peer in BACKENDS else module
    cast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16")
    if job["what"] == "inference":
        module.eval()

        def infer() -> Any:
            with torch.inference_mode(), cast:
                return run(x)

        return infer, module
    optimizer = torch.optim.SGD(module.parameters(), RATE, momentum=0.9, fused=True)

    def train() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with cast:
            loss = loss_of(run(x), target)
        loss.backward()
        optimizer.step()
        return loss

    return train, module


def found(job: dict[str, Any], made: Any, module: torch.nn.Module) -> dict[str, Array]:
    """What is compared: the result, or the gradients."""
    if job["what"] == "inference":
        return {"result": made.float().numpy().copy()}
    return {n: p.grad.float().numpy().copy() for n, p in module.named_parameters() if p.grad is not None}


def reference(job: dict[str, Any]) -> dict[str, Array]:
    """The same by eager torch in f64, rounded to f32, made once and kept in a file.

    In f32 a ReLU near zero may be on the other side, by chance, and two that agree by chance would judge a third.
    """
    if not os.path.exists(job["data"]):
        call, module = prepared(job, "f64", last=False, peer="eager")
        np.savez(job["data"], **found(job, call(), module))
    with np.load(job["data"]) as file:
        return {name: file[name] for name in file.files}


def load(job: dict[str, Any]) -> tuple[Callable[[], Any], dict[str, Any]]:
    """Makes the step, runs it, and compares with eager torch in f64.

    Returns:
        what runs it; and bytes that the process grew by at the peak, seconds of the first call, median and largest
        difference in norm.
    """
    torch.set_num_threads(job["threads"])
    expected = reference(job)
    gc.collect()
    forget_peak()
    before = resident("VmRSS")
    call, module = prepared(job, job["dtype"], last=job["last"], peer=job["peer"])
    begin = time.perf_counter()
    made = call()
    ready = time.perf_counter() - begin
    median, largest = away(found(job, made, module), expected)
    call()
    peak = resident("VmHWM") - before
    return call, {"peak": peak, "ready": ready, "median": median, "largest": largest, "notes": []}


if __name__ == "__main__":
    serve(load)
