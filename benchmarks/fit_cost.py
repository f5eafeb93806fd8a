"""Fits the cost model of the oneDNN backend to this machine.

    python benchmarks/fit_cost.py --seconds 300 --out backends/onednn/weight_gradients/cost_data.json

Draws random layers, times every step of every candidate on them, and solves for the seconds per unit of work by
a robust fit of the logarithm, a kind of primitive at a time. The entry of this instruction set and
number of threads is replaced in the file; run it with ONEDNN_MAX_CPU_ISA and OMP_NUM_THREADS for others. `--check`
draws other layers and says how far the model's choice is from the best.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import pickle
import random
import statistics
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import layers
import numpy as np
import onednn_graph as og
from onednn_graph.backends.onednn.library.enumerators import CpuIsa, FpmathMode
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.lowering.weight_gradient import problem_of
from onednn_graph.backends.onednn.plan.plan import Frame
from onednn_graph.backends.onednn.plan.work import AMOUNTS, Work
from onednn_graph.backends.onednn.weight_gradients.candidate import Candidate
from onednn_graph.backends.onednn.weight_gradients.cost import CostModel
from onednn_graph.backends.onednn.weight_gradients.problem import check
from onednn_graph.backends.onednn.weight_gradients.selection import candidates
from onednn_graph.backends.onednn.weight_gradients.strategies import STRATEGIES
from onednn_graph.tools.information import cpu_name
from peers import DTYPES, Case
from scipy.optimize import least_squares, nnls

LEAST_ROWS = 6
"""Kinds with fewer measurements are covered by the family's `*`."""
CAUTION = 0.7
"""Quantile of the times that the model is to foresee."""
CALL_OVERHEAD = 2e-6
"""Seconds that a step may take longer at most when it is called and timed alone."""
AMX_SPEEDUP = 5.0
"""How much faster than AVX-512 in bf16 the matrix units are taken to be where nothing was measured."""


def timed(
    engine: NativeEngine, layer: dict[str, Any], data_format: str, dtype: str
) -> Iterator[tuple[Candidate, list[float]]]:
    """Every candidate of a layer with the shortest time of each of its steps."""
    case = Case(layer, data_format, DTYPES[dtype])
    result = np.empty(case.weights_shape, case.src.dtype)
    arrays = (case.src, case.diff_dst, result)
    tensors = [og.LogicalTensor(i, dtype, a.shape) for i, a in enumerate(arrays)]
    op = og.Op(0, layer["op"], tensors[:2], tensors[2:], **case.attributes)
    problem = problem_of(op, FpmathMode.strict)
    if check(problem) is not None:
        return
    best = float("inf")
    for candidate in candidates(engine, problem, STRATEGIES, []):
        frame = candidate.plan.take()
        frame.point([a.ctypes.data for a in arrays])
        frame.run()
        runs = [frame.timed_run()]
        first = sum(runs[0])
        # What is far behind needs no precision.
        budget = 0.02 if first < 3 * best else 0.0
        end = time.perf_counter() + budget
        while time.perf_counter() < end or (budget and len(runs) < 3):
            runs.append(frame.timed_run())
        best = min(best, min(map(sum, runs)))
        yield (
            candidate,
            _apart([min(times) for times in zip(*runs, strict=True)], _together(frame, len(runs))),
        )


def _together(frame: Frame, runs: int) -> float:
    """The shortest time of a whole plan, whose primitives are called at once."""
    times: list[float] = []
    for _ in range(runs):
        begin = time.perf_counter()
        frame.run()
        times.append(time.perf_counter() - begin)
    return min(times)


def _apart(steps: list[float], together: float) -> list[float]:
    """The steps' times without what it costs to call and time them one by one."""
    overhead = min(max(0.0, (sum(steps) - together) / len(steps)), CALL_OVERHEAD)
    return [max(seconds - overhead, seconds / 4) for seconds in steps]


def solve(amounts: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Non-negative seconds per unit with the least absolute error of the logarithm, and the errors."""
    relative = amounts / times[:, None]
    scale = np.maximum(relative.max(axis=0), 1e-30)
    start, _ = nnls(relative / scale, np.ones(len(times)))
    scaled = relative / scale

    def errors(roots: np.ndarray) -> np.ndarray:
        return np.log(scaled @ roots**2 + 1e-12)

    found = least_squares(errors, np.sqrt(start) + 1e-3, loss="soft_l1", f_scale=0.1)
    return found.x**2 / scale, -errors(found.x)


def fit(rows: list[tuple[Work, float]]) -> dict[str, dict[str, list[float]]]:
    """Family → kind → seconds per unit."""
    by_kind: dict[tuple[str, str], list[tuple[Work, float]]] = collections.defaultdict(list)
    for work, seconds in rows:
        by_kind[work.family, work.kind].append((work, seconds))
        by_kind[work.family, "*"].append((work, seconds))
        if work.family in ("convolution", "matmul") and "bf16" in work.kind:
            by_kind[work.family, "* amx"].append((work, seconds / AMX_SPEEDUP))
    fitted: dict[str, dict[str, list[float]]] = {family: {} for family in AMOUNTS}
    for (family, kind), members in sorted(by_kind.items()):
        if len(members) < LEAST_ROWS and "*" not in kind:
            continue
        solution, residuals = solve(
            np.array([work.amounts for work, _ in members]), np.array([seconds for _, seconds in members])
        )
        # The upper quartile, so that what is hard to foresee is not chosen for an optimistic guess.
        fitted[family][kind] = [float(f"{c:.4g}") for c in solution * np.exp(np.quantile(residuals, CAUTION))]
        print(f"{family:12} {kind:60} {len(members):5} rows, median error {np.median(np.abs(residuals)):.2f}")
    for family in AMOUNTS:
        fitted[family].setdefault("*", [0.0] * len(AMOUNTS[family]))
    return fitted


def regret(model: CostModel, measured: list[list[tuple[Candidate, float]]]) -> list[float]:
    """For each problem the chosen candidate's time over the best one's."""
    result: list[float] = []
    for found in measured:
        chosen = min(found, key=lambda pair: model.seconds(pair[0].plan.works))
        result.append(chosen[1] / min(seconds for _, seconds in found))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--raw", type=Path, default=None)
    parser.add_argument("--dtypes", default="f32,bf16")
    args = parser.parse_args()
    engine = NativeEngine()
    lib = load()
    rng = random.Random(args.seed)
    rows: list[tuple[Work, float]] = []
    measured: list[list[tuple[Candidate, float]]] = []
    names: list[str] = []
    end = time.perf_counter() + args.seconds
    while time.perf_counter() < end:
        layer = layers.draw(rng)
        found: list[tuple[Candidate, float]] = []
        dtype, data_format = rng.choice(args.dtypes.split(",")), rng.choice(["NXC", "NXC", "NCX"])
        for candidate, times in timed(engine, layer, data_format, dtype):
            rows += zip(candidate.plan.works, times, strict=True)
            found.append((candidate, sum(times)))
        if found:
            measured.append(found)
            names.append(f"{dtype} {data_format} {layer['name']}")
    if args.raw:
        with args.raw.open("wb") as file:
            kept = [[(c.strategy, c.plan.works, t) for c, t in f] for f in measured]
            pickle.dump((rows, kept, names), file)
    fitted = fit(rows)
    model = CostModel(isa=lib.effective_isa, threads=lib.threads, coefficients=fitted)
    values = regret(model, measured)
    print(
        f"{len(measured)} problems, {len(rows)} steps; chosen ÷ best: geometric mean "
        f"{statistics.geometric_mean(values):.3f}, 95 % below {np.quantile(values, 0.95):.2f}, worst {max(values):.2f}"
    )
    if args.out is None:
        return
    data = json.loads(args.out.read_text()) if args.out.exists() else {"models": []}
    known = [isa.name for isa in CpuIsa]
    entry = {
        "isa": lib.effective_isa,
        "threads": lib.threads,
        "cpu": cpu_name(),
        "library": ".".join(map(str, lib.version)),
        "date": datetime.date.today().isoformat(),
        "package": version("onednn-graph"),
        "problems": len(measured),
        "seed": args.seed,
        "amounts": AMOUNTS,
        "coefficients": fitted,
        "note": f"kinds with `* amx` are not measured: bf16 kinds divided by {AMX_SPEEDUP}",
    }
    others = [m for m in data["models"] if (m["isa"], m["threads"]) != (entry["isa"], entry["threads"])]
    data["models"] = sorted([*others, entry], key=lambda m: (known.index(m["isa"]), m["threads"]))
    args.out.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
