"""How true training is: ours and torch's in f32 and in bf16, beside torch in f64.

    pip install '.[bench]'
    python benchmarks/training_truth.py --small --optimizers SGD --write docs/pages/guides/training-truth.md

Each network starts from the same weights and sees the same batches, which come round again and again. What rounding
has done to a run is how far its losses and its weights are from those of f64: the norm of the difference, divided by
the norm of the losses, and by that of all that f64 has changed in the weights. In f32 rounding grows from step to step,
so that two runs differ by chance; the gradients of the first step differ by what the kernels do alone. The table has
ours divided by torch's, below 1 where ours is nearer. bf16 is `Trainer(precision="bf16")` and torch's autocast. With
`--each` the gradients of each parameter are shown.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onednn_graph as og
import torch
from attrs import asdict, frozen
from safetensors.numpy import load_file
from truth_models import NETWORKS, SMALL, Recipe

Array = np.ndarray
BEGIN, END = "<!-- written by benchmarks/training_truth.py -->", "<!-- end of what it wrote -->"
STEPS, BATCHES = 30, 4
OPTIMIZERS: Mapping[str, tuple[og.training.Optimizer, Callable[[Any], torch.optim.Optimizer]]] = {
    "SGD": (og.training.SGD(0.002, momentum=0.9), lambda p: torch.optim.SGD(p, 0.002, momentum=0.9)),
    "AdamW": (og.training.AdamW(3e-4), lambda p: torch.optim.AdamW(p, 3e-4)),
}
"""Ours and torch's."""


@frozen
class Run:
    """What came of some steps.

    Attributes:
        losses: before each step.
        gradients: of the first step, by the names of the parameters.
        weights: after the last one.
    """

    losses: list[float]
    gradients: dict[str, Array]
    weights: dict[str, Array]


@frozen
class Distance:
    """From the truth: see above.

    Attributes:
        gradients: the root mean square over the parameters of |difference| / |gradient|.
    """

    losses: float
    weights: float
    gradients: float


def by_torch(
    recipe: Recipe, optimizer: str, steps: int, *, dtype: torch.dtype = torch.float32, narrow: bool = False,
    backend: str | None = None,
) -> Run:  # fmt: skip
    """Torch's own steps.

    Args:
        dtype: of parameters and data.
        narrow: whether autocast makes it bf16.
        backend: of torch.compile.
    """
    module = recipe.module().to(dtype)
    torch.compiler.reset()  # what it knows of the last one
    call: Callable[..., Any] = torch.compile(module, backend=backend) if backend else module
    update = OPTIMIZERS[optimizer][1](module.parameters())
    batches = recipe.batches(BATCHES)
    losses: list[float] = []
    gradients: dict[str, Array] = {}
    for step in range(steps):
        x, target = batches[step % BATCHES]
        x, target = (t.to(dtype) if t.is_floating_point() else t for t in (x, target))
        update.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss = call(x, target)
        loss.backward()
        if step == 0:
            named = module.network.named_parameters()
            gradients = {n: p.grad.double().numpy().copy() for n, p in named if p.grad is not None}
        update.step()
        losses.append(loss.item())
    weights = {n: p.detach().double().numpy().copy() for n, p in module.network.named_parameters()}
    return Run(losses, gradients, weights)


def by_ours(recipe: Recipe, optimizer: str, steps: int, *, precision: str = "f32") -> Run:
    """A trainer's steps."""
    module, batches = recipe.module(), recipe.batches(BATCHES)

    def trainer(method: og.training.Optimizer) -> tuple[og.training.Trainer, tuple[str, ...]]:
        graph = og.from_torch(module, batches[0], training=True)
        made = og.training.Trainer(graph, graph.outputs[0], method, precision=precision, deterministic=True)
        return made, graph.input_names

    probe, names = trainer(og.training.SGD(1e-3, momentum=0.9))  # its velocity is the gradient after one step
    probe.step(dict(zip(names, batches[0], strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        probe.save(Path(folder) / "one")
        state = load_file(Path(folder) / "one")
    prefix = "velocity/network."
    gradients = {
        k.removeprefix(prefix): v.astype(np.float64) for k, v in state.items() if k.startswith(prefix)
    }
    made, names = trainer(OPTIMIZERS[optimizer][0])
    losses = [made.step(dict(zip(names, batches[step % BATCHES], strict=True))) for step in range(steps)]
    module.load_state_dict(made.export_state_dict())
    weights = {n: p.detach().double().numpy().copy() for n, p in module.network.named_parameters()}
    return Run(losses, gradients, weights)


def _norm(arrays: Iterable[Array]) -> float:
    return math.sqrt(sum(float(np.square(array).sum()) for array in arrays))


def of_gradients(run: Run, truth: Run) -> dict[str, float]:
    """|difference| / |gradient| of each parameter.

    Those that are zero but for rounding, as of a bias before a normalisation, are left out: the norm of an element is
    less than a millionth of the largest one's.
    """
    norms = {name: _norm([array]) / math.sqrt(array.size) for name, array in truth.gradients.items()}
    floor = 1e-6 * max(norms.values())
    return {
        name: _norm([run.gradients[name] - array]) / _norm([array])
        for name, array in truth.gradients.items()
        if norms[name] > floor
    }


def distance(run: Run, truth: Run, recipe: Recipe) -> Distance:
    """How far a run is from the truth."""
    losses, true = np.asarray(run.losses), np.asarray(truth.losses)
    start = {n: p.detach().double().numpy() for n, p in recipe.module().network.named_parameters()}
    moved = _norm(truth.weights[name] - array for name, array in start.items())
    away = _norm(run.weights[name] - truth.weights[name] for name in start)
    each = np.asarray([*of_gradients(run, truth).values()])
    return Distance(
        float(np.sqrt(np.mean(np.square(losses / true - 1)))),
        away / moved,
        float(np.sqrt(np.mean(np.square(each)))),
    )


RUNS: Mapping[str, Callable[[Recipe, str, int], Run]] = {
    "torch": by_torch,
    "ours": by_ours,
    "torch.compile": partial(by_torch, backend="onednn_graph"),
    "torch bf16": partial(by_torch, narrow=True),
    "ours bf16": partial(by_ours, precision="bf16"),
    "torch.compile bf16": partial(by_torch, narrow=True, backend="onednn_graph"),
}
"""Who is held against the truth."""


def measured(recipe: Recipe, optimizer: str, steps: int, runs: Iterable[str] = RUNS) -> dict[str, Distance]:
    """The distances of these runs."""
    truth = by_torch(recipe, optimizer, steps, dtype=torch.float64)
    return {name: distance(RUNS[name](recipe, optimizer, steps), truth, recipe) for name in runs}


# --- the table -----------------------------------------------------------------------------------------------


def as_markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """A table for each type: ours divided by torch's.

    Args:
        lines: a network, an optimizer and the distances of each run.
    """
    parts: list[str] = []
    for dtype, suffix in (("f32", ""), ("bf16", " bf16")):
        heads = ["network", "optimizer", "torch's weights off by"]
        heads += [
            f"{who}: {what}"
            for who in ("`Trainer`", "`torch.compile`")
            for what in ("gradients", "losses", "weights")
        ]
        table = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        ratios: list[float] = []
        for line in lines:
            found = line["found"]
            theirs = found[f"torch{suffix}"]
            cells = [line["network"], line["optimizer"], f"{theirs['weights']:.1e}"]
            for who in ("ours", "torch.compile"):
                own = [
                    found[f"{who}{suffix}"][what] / theirs[what]
                    for what in ("gradients", "losses", "weights")
                ]
                ratios += [
                    one for one in own[:1] if who == "ours" and one > 0.005
                ]  # else torch's kernels are wrong
                cells += [f"{ratio:.2f}" if ratio > 0.005 else "–" for ratio in own]
            table.append(f"| {' | '.join(cells)} |")
        parts += [f"In {dtype}:", "", *table, ""]
        mean, most = statistics.geometric_mean(ratios), max(ratios)
        parts += [f"Of the trainer's gradients the geometric mean is {mean:.2f}, the largest {most:.2f}.", ""]
    return "\n".join(parts)


def written(page: str, table: str) -> str:
    """The page with the table between its marks.

    Raises:
        ValueError: it has none.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no '{BEGIN}' with '{END}' behind it")
    return f"{before}{begin}\n\n{table}\n{end}{after}"


def show_each(recipe: Recipe, optimizer: str) -> None:
    """The gradients of each parameter, ours over torch's: which op it is that is off."""
    truth = by_torch(recipe, optimizer, 1, dtype=torch.float64)
    found = {
        name: of_gradients(RUNS[name](recipe, optimizer, 1), truth)
        for name in ("torch", "ours", "torch bf16", "ours bf16")
    }
    for name in found["torch"]:
        cells = [f"{found[run][name]:.1e}" for run in found]
        ratios = [found[f"ours{s}"][name] / max(found[f"torch{s}"][name], 1e-12) for s in ("", " bf16")]
        print(f"{name:40} {' '.join(cells)}  {ratios[0]:8.2f} {ratios[1]:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Training steps beside torch's in f64.")
    parser.add_argument("--networks", default="|".join(NETWORKS), help="with | between them")
    parser.add_argument("--optimizers", default=",".join(OPTIMIZERS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--small", action="store_true", help="the small sizes of the tests")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--each", action="store_true", help="only the first gradients, of each parameter")
    parser.add_argument("--results", type=Path, default=None, help="a file of lines to go on from")
    parser.add_argument("--write", type=Path, default=None, help="a page with marks, where the table goes")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeprecationWarning)
    torch.set_num_threads(options.threads)
    recipes = SMALL if options.small else NETWORKS
    kept: list[dict[str, Any]] = []
    if options.results is not None and options.results.exists():
        kept = [json.loads(line) for line in options.results.read_text(encoding="utf-8").splitlines()]
    lines: list[dict[str, Any]] = []
    for network in options.networks.split("|"):
        for optimizer in options.optimizers.split(","):
            if options.each:
                print(network, optimizer)
                show_each(recipes[network], optimizer)
                continue
            key = {"network": network, "optimizer": optimizer, "steps": options.steps, "small": options.small}
            line = next((one for one in kept if {**one, **key} == one), None)
            if line is None:
                found = measured(recipes[network], optimizer, options.steps)
                line = {**key, "found": {name: asdict(one) for name, one in found.items()}}
                if options.results is not None:
                    with options.results.open("a", encoding="utf-8") as file:
                        print(json.dumps(line), file=file)
            lines.append(line)
            print(
                network,
                optimizer,
                *(f"{n}: {' '.join(f'{v:.1e}' for v in d.values())};" for n, d in line["found"].items()),
                flush=True,
            )
    if options.each:
        return
    print(as_markdown(lines))
    if options.write is not None:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(written(page, as_markdown(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
