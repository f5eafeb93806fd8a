"""One model of timm, one way: beside eager torch and double precision, or eager torch's time."""

from __future__ import annotations

import copy
import gc
import logging
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import onednn_graph as og
import onednn_graph.torch
import timm
import torch
from torch_agreement import Compared, Run, compared, floating, moved, projected

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

SIZES = (64, 96, 128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
BATCHES = (2, 4, 8)
"""The first of these with which eager torch itself is near double precision in training: batches of few have norms that
divide by nearly nothing."""
STEADY = 1e-5, 3e-3
"""As near as that, its outputs, and all of its gradients."""
UNIT = 2.0**-21
"""How far weights are moved for another sample, where one is too far from double precision."""
SAMPLES = 4
LIMIT = 1e-4
"""A distance from double precision that is always good."""
FACTOR, FACTOR_OF_ONE = 2.0, 4.0
"""How much farther than eager torch results may be, and the gradient of one parameter."""


def smallest(models: Sequence[str], most: float) -> str | None:
    """The first of some models that has no more parameters than these."""
    for name in models:
        with torch.device("meta"):
            try:
                model = timm.create_model(name)
            except Exception:  # it looks at its numbers
                model = None
        if model is None:
            model = timm.create_model(name)
        if sum(one.numel() for one in model.parameters()) <= most:
            return name
    return None


def made(name: str) -> tuple[Any, int]:
    """A model with random weights, nothing of which is zero or one, and the least size of images that it takes."""
    failed: Exception | None = None
    for size in SIZES:
        for sized in ({"img_size": size}, {}):
            torch.manual_seed(0)
            try:
                model = timm.create_model(name, **sized)
                settled(model)
                if size < (model.default_cfg.get("min_input_size") or (3, 0, 0))[-1]:
                    break
                if model.default_cfg.get("fixed_input_size") and not sized:
                    size = model.default_cfg["input_size"][-1]
                channels = model.default_cfg["input_size"][0]
                run_once(copy.deepcopy(model), channels, size)
            except Exception as error:
                failed = error
                continue
            return model, size
    raise RuntimeError(f"{name} takes images of no size tried: {failed}") from failed


def run_once(model: Any, channels: int, size: int) -> None:
    """Whether the model takes such images, in training as well, and makes numbers of them."""
    outputs = floating(model.train()(images(channels, size)))
    projected(outputs).backward()
    with torch.no_grad():
        outputs += floating(model.eval()(images(channels, size)))
    if not all(bool(torch.isfinite(one).all()) for one in outputs):
        raise ValueError("not finite")


def images(channels: int, size: int, batch: int = BATCHES[0]) -> Any:
    """A batch."""
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(5))


def settled(model: Any) -> None:
    """Takes what is random out of a model, and gives numbers to weights that begin as constants."""
    for part in model.modules():
        for attribute, value in list(vars(part).items()):
            if attribute.endswith(("drop_prob", "drop_rate", "dropout")) and isinstance(value, float):
                setattr(part, attribute, 0.0)
        if isinstance(part, torch.nn.modules.dropout._DropoutNd):
            part.p = 0.0
        if isinstance(getattr(part, "attn_drop", None), float):
            part.attn_drop = 0.0
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in model.parameters():
            if one.numel() and bool((one == one.flatten()[0]).all()):
                noise = torch.randn(one.shape, generator=draw)
                one.copy_(one * (1 + 0.1 * noise) if one.abs().max() > 0.05 else 0.1 * noise)
        for name, one in model.named_buffers():
            noise = torch.randn(one.shape, generator=draw)
            if name.endswith("running_mean"):
                one.add_(0.1 * noise)
            elif name.endswith("running_var"):
                one.mul_(torch.exp(0.1 * noise))


def run(name: str, way: str, threads: int, seconds: float) -> dict[str, Any]:
    """What becomes of a model one way, as a line."""
    torch.set_num_threads(threads)
    torch._dynamo.config.suppress_errors = False
    begin = time.perf_counter()
    entry: dict[str, Any] = {"model": name, "way": way}
    try:
        model, size = made(name)
        entry |= {"size": size, "parameters": sum(one.numel() for one in model.parameters())}
        entry |= globals()[f"of_{way}"](model, images(model.default_cfg["input_size"][0], size), seconds)
    except og.UnsupportedError as error:
        entry |= {"status": "refused", "detail": str(error)[:1500]}
    except Exception as error:
        entry |= {
            "status": "error",
            "detail": f"{type(error).__name__}: {str(error)[:800]}",
            "trace": traced(error),
        }
    entry["took"] = time.perf_counter() - begin
    gc.collect()
    return entry


def traced(error: BaseException) -> str:
    """The last frames."""
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    return " < ".join(f"{one.filename.rsplit('/', 1)[-1]}:{one.lineno} {one.name}" for one in frames[::-1])


# --- results ---


def of_inference(model: Any, x: Any, seconds: float) -> dict[str, Any]:
    """In evaluation, by torch.compile."""
    return judged(model, x, evaluated)


def of_training(model: Any, x: Any, seconds: float) -> dict[str, Any]:
    """Loss and gradients, by torch.compile."""
    for batch in BATCHES:
        x = images(*x.shape[1:3], batch)
        runs = [trained(copy.deepcopy(model), dtype, x) for dtype in (torch.float64, torch.float32)]
        rows = compared(runs[1], runs[1], runs[0])
        whole = next(row.ours for row in rows if row.name == "all gradients")
        if (
            max(row.ours for row in rows if row.name.startswith("outputs")) <= STEADY[0]
            and whole <= STEADY[1]
        ):
            break
    return judged(model, x, trained) | {"batch": len(x)}


def of_from_torch(model: Any, x: Any, seconds: float) -> dict[str, Any]:
    """In evaluation, by the importer."""
    graph = og.from_torch(model.eval(), (x,))
    compiled = graph.compile()

    def call(given: Any) -> list[Any]:
        return [torch.from_numpy(np.array(one)) for one in compiled(given.numpy()).values()]

    have = Run(evaluated=floating(call(x)))
    exact, single = (evaluated(copy.deepcopy(model), dtype, x) for dtype in (torch.float64, torch.float32))
    rows = compared(have, single, exact)
    hosted = [one.label for one in compiled.partitions if one.backend != "onednn"]
    return summed(rows) | {"hosted": hosted[:20]}


def evaluated(model: Any, dtype: Any, x: Any, call: Any = None) -> Run:
    """What a model makes of images in evaluation."""
    model = model.to(dtype).eval()
    found = Run()
    with torch.no_grad():
        found.evaluated = [one.clone() for one in floating((model if call is None else call)(x.to(dtype)))]
    return found


def trained(model: Any, dtype: Any, x: Any, call: Any = None) -> Run:
    """What a model makes of images in training, and its gradients."""
    model = model.to(dtype).train()
    found = Run()
    leaf = x.detach().to(dtype, copy=True).requires_grad_()
    torch.manual_seed(3)
    outputs = floating((model if call is None else call)(leaf * 1))
    loss = projected(outputs)
    loss.backward()
    found.outputs = [one.detach().clone() for one in outputs]
    found.gradients = {name: one.grad for name, one in model.named_parameters() if one.grad is not None}
    found.gradients["input"] = leaf.grad
    found.buffers = {name: one.clone() for name, one in model.named_buffers() if one.is_floating_point()}
    return found


def judged(model: Any, x: Any, runs: Callable[..., Run]) -> dict[str, Any]:
    """How far from double precision a model compiled by us is, beside eager torch."""
    told: dict[str, Any] = {}

    def beside(base: Any) -> list[Compared]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        exact, single = (runs(copy.deepcopy(base), dtype, x) for dtype in (torch.float64, torch.float32))
        # Eager torch adds up a norm's statistics in double precision, but not channels last, as ours lie.
        last = runs(
            copy.deepcopy(base).to(memory_format=torch.channels_last), torch.float32, channels_last(x)
        )
        mine = copy.deepcopy(base)
        call = torch.compile(mine, backend="onednn_graph", options={"strict": True})
        have = runs(mine, torch.float32, x, call)
        if not told:
            told.update(reported(mine))
        return [
            replace(row, eagers=max(row.eagers, other.eagers))
            for row, other in zip(compared(have, single, exact), compared(have, last, exact), strict=True)
        ]

    rows = beside(model)
    if not all(is_good(row) for row in rows):
        samples = [rows, *(beside(moved(model, sample, UNIT)) for sample in range(SAMPLES))]
        by_name = [{row.name: row for row in sample} for sample in samples]
        rows = [
            Compared(
                name,
                *(
                    median(getattr(one[name], what) for one in by_name)
                    for what in ("ours", "eagers", "apart")
                ),
            )
            for name in by_name[0]
        ]
        told["sampled"] = True
    return summed(rows) | told


def channels_last(x: Any) -> Any:
    """Images that lie so."""
    return x.contiguous(memory_format=torch.channels_last)


def is_good(row: Compared) -> bool:
    """Whether a distance is one of rounding."""
    factor = FACTOR_OF_ONE if row.name.startswith(("gradients ", "buffers ")) else FACTOR
    return row.ours <= LIMIT or row.ours <= factor * row.eagers


def summed(rows: Sequence[Compared]) -> dict[str, Any]:
    """The line of some distances: those of what is wrong most, and of all gradients or outputs."""
    bad = sorted(
        (row for row in rows if not is_good(row)), key=lambda row: -row.ours / max(row.eagers, 1e-12)
    )
    whole = next((row for row in rows if row.name == "all gradients"), rows[0])
    return {
        "status": "wrong" if bad else "ok",
        "ours": whole.ours,
        "eager": whole.eagers,
        "detail": "; ".join(f"{row.name} {row.ours:.1e} for {row.eagers:.1e}" for row in bad[:8]),
        "bad": len(bad),
    }


def reported(model: Any) -> dict[str, Any]:
    """What the report says."""
    report = onednn_graph.torch.report(model)
    steps: dict[str, str] = {}
    for function in report.functions:
        for name, count in function.torch_steps.items():
            steps[f"{function.role} {name} ×{count}"] = function.reasons.get(name, "")
    return {
        "functions": len(report.functions),
        "regions": sum(one.regions for one in report.functions),
        "torch_steps": sum(sum(one.torch_steps.values()) for one in report.functions),
        "handed": sum(sum(one.handed.values()) for one in report.functions),
        "breaks": report.graph_breaks,
        "steps": steps,
        "numpy": [line for one in report.functions for line in one.on_numpy],
        "compile": sum(one.compile_seconds for one in report.functions),
        "report": str(report),
    }


# --- times ---


def of_inference_time(model: Any, x: Any, seconds: float) -> dict[str, Any]:
    """Of a call in evaluation."""
    model.eval()
    mine = copy.deepcopy(model)
    compiled = torch.compile(mine, backend="onednn_graph")

    def calls(call: Any) -> Callable[[], Any]:
        def once() -> None:
            with torch.no_grad():
                call(x)

        return once

    return timed(calls(model), calls(compiled), seconds, mine)


def of_training_time(model: Any, x: Any, seconds: float) -> dict[str, Any]:
    """Of forward and backward pass."""
    model.train()
    mine = copy.deepcopy(model)
    compiled = torch.compile(mine, backend="onednn_graph")

    def calls(call: Any, owner: Any) -> Callable[[], Any]:
        def once() -> None:
            owner.zero_grad(set_to_none=True)
            sum(one.sum() for one in floating(call(x))).backward()

        return once

    return timed(calls(model, model), calls(compiled, mine), seconds, mine)


def timed(eager: Callable[[], Any], ours: Callable[[], Any], seconds: float, model: Any) -> dict[str, Any]:
    """Least times of both, by turns: on one thread its own time, which says something on a busy machine too."""
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    for call in (eager, ours, eager, ours, ours):
        call()
    found: dict[str, list[float]] = {"eager": [], "ours": []}
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(found["ours"]) < 5:
        for name, call in (("eager", eager), ("ours", ours)):
            begin = clock()
            call()
            found[name].append(clock() - begin)
    least = {name: min(times) for name, times in found.items()}
    return {
        "status": "ok",
        "ratio": least["eager"] / least["ours"],
        "median": median(found["eager"]) / median(found["ours"]),
        "ms": {name: 1e3 * one for name, one in least.items()},
        "turns": len(found["ours"]),
        **{name: one for name, one in reported(model).items() if name in ("report", "handed")},
    }
