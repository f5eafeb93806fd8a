"""Fits the cost model of the oneDNN backend to this machine.

    python benchmarks/fit_cost.py --seconds 300 --raw samples.pkl
    python benchmarks/fit_cost.py --fit samples.pkl --out backends/onednn/weight_gradients/cost_data.json
    python benchmarks/fit_cost.py --fit samples.pkl --check other_samples.pkl

The first draws random layers and times every step of every candidate on them. The second solves for the seconds per
unit of work by a robust fit of the logarithm, a kind of primitive at a time, and grows small trees on the rest; the
entry of the samples' instruction set and number of threads is replaced in the file. The third says how far the choice
is from the best on samples of another seed. Run the first with ONEDNN_MAX_CPU_ISA and OMP_NUM_THREADS for others.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import pickle
import random
import re
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import layers
import numpy as np
import onednn_graph as og
from attrs import frozen
from fit_trees import boosted
from onednn_graph.backends.onednn.library.enumerators import CpuIsa, FpmathMode
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.primitive import NativeEngine
from onednn_graph.backends.onednn.lowering.weight_gradient import problem_of
from onednn_graph.backends.onednn.plan.plan import Frame
from onednn_graph.backends.onednn.plan.work import AMOUNTS, TRAITS, Work
from onednn_graph.backends.onednn.weight_gradients.candidate import Candidate
from onednn_graph.backends.onednn.weight_gradients.cost import CostModel, CpuClass, cost_data, measured
from onednn_graph.backends.onednn.weight_gradients.problem import check
from onednn_graph.backends.onednn.weight_gradients.selection import candidates, in_order, scratch_limit
from onednn_graph.backends.onednn.weight_gradients.strategies import STRATEGIES
from onednn_graph.tools.information import cpu_name
from peers import DTYPES, Case
from scipy.optimize import least_squares, nnls

LEAST_ROWS = 6
"""Kinds with fewer measurements are covered by the family's `*`."""
ENOUGH_ROWS = 60
"""Kinds with fewer keep the coefficients that the data file has of them, and get trees on top."""
MOST_ROWS = 3000
"""Of a kind; patches are gathered by many copies."""
CAUTION = 0.5
"""Quantile of the times that the linear part is to foresee."""
LEAST_WEIGHT = 1e-3
ROUNDS, RATE, DEPTH, LEAF = 24, 0.3, 3, 8
"""Trees of a kind, what each takes of the error, how deep they are and how many measurements make a leaf."""
MOST_SHIFT = 0.5
"""By how much, as a logarithm, a kind as a whole is corrected."""
CALL_OVERHEAD = 2e-6
"""Seconds that a step may take longer at most when it is called and timed alone."""
MOST_FLOPS, MOST_ELEMENTS = 2.5e9, 1.0e7
"""Of a layer that is measured."""
Row = tuple[tuple[float, ...], tuple[float, ...], float, float]
"""Amounts, traits, seconds and weight of a step."""


@frozen
class Measured:
    """A candidate: its steps' work, None for those on the host, and their seconds, alone and together."""

    strategy: str
    implementation: str
    works: tuple[Work | None, ...]
    steps: tuple[float, ...]
    together: float
    scratch_bytes: int


@frozen
class Sample:
    """A layer and all of its candidates."""

    dtype: str
    data_format: str
    layer: dict[str, Any]
    found: tuple[Measured, ...]


def timed(
    engine: NativeEngine, layer: dict[str, Any], data_format: str, dtype: str
) -> Iterator[tuple[Candidate, list[float]]]:
    """Every candidate of a layer with the shortest time of each of its steps, and of all together."""
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
        together = _together(frame, len(runs))
        yield candidate, _apart([min(times) for times in zip(*runs, strict=True)], together), together


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


def sampled(seed: int, seconds: float, dtypes: list[str]) -> Iterator[Sample]:
    """Random layers with all that was measured of them, for so long."""
    engine, rng = NativeEngine(), random.Random(seed)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        layer = layers.draw(rng, MOST_FLOPS, MOST_ELEMENTS)
        dtype, data_format = rng.choice(dtypes), rng.choice(["NXC", "NCX"])
        found = tuple(
            Measured(
                c.strategy,
                c.implementation,
                tuple(step.work for step in c.plan.steps),
                tuple(steps),
                together,
                c.plan.scratch_bytes,
            )
            for c, steps, together in timed(engine, layer, data_format, dtype)
        )
        if found:
            yield Sample(dtype, data_format, layer, found)


def solve(amounts: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Non-negative seconds per unit with the least absolute error of the logarithm, and the errors.

    An amount that no row has costs nothing.
    """
    relative = amounts / times[:, None]
    scale = np.maximum(relative.max(axis=0), 1e-30)
    start, _ = nnls(relative / scale, np.ones(len(times)))
    scaled = relative / scale

    def errors(roots: np.ndarray) -> np.ndarray:
        return np.log(scaled @ roots**2 + 1e-12)

    found = least_squares(errors, np.sqrt(start) + 1e-3, loss="soft_l1", f_scale=0.1)
    return np.where(relative.max(axis=0) > 0, found.x**2 / scale, 0.0), -errors(found.x)


def rows_by_kind(samples: Sequence[Sample]) -> dict[tuple[str, str], list[Row]]:
    """Every step that was timed, by family and kind, and once more by its family's `*`.

    A step weighs by its share of its candidate, and a candidate by how near it is to the best: what is never chosen
    need not be foreseen well.
    """
    found: dict[tuple[str, str], list[Row]] = collections.defaultdict(list)
    for sample in samples:
        best = min(one.together for one in sample.found)
        for one in sample.found:
            near = min(1.0, 2 * best / one.together) ** 2
            for work, seconds in zip(one.works, one.steps, strict=True):
                if work is None:
                    continue
                weight = min(1.0, seconds / one.together) * near + LEAST_WEIGHT
                row = (work.amounts, work.traits, seconds, weight)
                found[work.family, work.kind].append(row)
                found[work.family, "*"].append(row)
    return found


def fit(samples: Sequence[Sample], known: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coefficients and corrections: family → kind → seconds per unit, or trees.

    Args:
        known: coefficients from before.
    """
    coefficients: dict[str, Any] = {
        family: {"*": [0.0] * len(AMOUNTS[family]), **known.get(family, {})} for family in AMOUNTS
    }
    corrections: dict[str, Any] = {family: {} for family in AMOUNTS}
    rng = np.random.default_rng(0)
    for (family, kind), members in sorted(rows_by_kind(samples).items()):
        if len(members) < LEAST_ROWS and kind != "*":
            continue
        if len(members) > MOST_ROWS:
            members = [members[i] for i in rng.choice(len(members), MOST_ROWS, replace=False)]
        amounts, traits, times, weights = (np.array(column) for column in zip(*members, strict=True))
        if len(members) >= ENOUGH_ROWS or kind not in known.get(family, {}):
            solution, residuals = solve(amounts, times)
            scaled = solution * np.exp(np.quantile(residuals, CAUTION))
            coefficients[family][kind] = [float(f"{c:.4g}") for c in scaled]
        left = np.log(times / (amounts @ np.array(coefficients[family][kind]) + 1e-12))
        trees: list[Any] = []
        if traits.shape[1] and len(members) >= 2 * LEAF:
            shift = float(f"{np.clip(np.median(left), -MOST_SHIFT, MOST_SHIFT):.3g}")
            trees = [shift, *boosted(traits, left - shift, weights, ROUNDS, RATE, DEPTH, LEAF)]
            corrections[family][kind] = trees
        print(
            f"{family:12} {kind:60} {len(members):5} rows, {len(trees):2} trees, "
            f"median error {np.median(np.abs(left)):.2f}"
        )
    return coefficients, corrections


def regret(model: CostModel, samples: Sequence[Sample]) -> list[tuple[float, str]]:
    """For each sample the time of the default choice over the best candidate's, and what they are."""
    result: list[tuple[float, str]] = []
    for sample in samples:
        problem = problem_of(op_of(sample.layer, sample.data_format, sample.dtype), FpmathMode.strict)
        limit = scratch_limit(problem)
        found = [one for one in sample.found if one.scratch_bytes <= limit]
        found = found or [min(sample.found, key=lambda one: one.scratch_bytes)]
        works = [[work for work in one.works if work is not None] for one in found]
        names, estimates = [one.strategy for one in found], [model.seconds(each) for each in works]
        chosen = found[in_order(problem, names, estimates)[0]]
        best = min(found, key=lambda one: one.together)
        text = (
            f"{sample.dtype} {sample.data_format} {sample.layer['name']}: {chosen.strategy} [{chosen.implementation}]"
            f" for {best.strategy} [{best.implementation}], {best.together * 1e3:.2f} ms"
        )
        result.append((chosen.together / best.together, text))
    return sorted(result, reverse=True)


def op_of(layer: dict[str, Any], data_format: str, dtype: str) -> og.Op:
    """The layer's weight gradient on tensors that lie as they are declared."""
    g, transposed = layer["groups"], "Transpose" in layer["op"]
    channels, rows = layer["in_channels"], layer["out_channels"]

    def dims(many: int, spatial: list[int]) -> tuple[int, ...]:
        n = layer["batch"]
        return (n, many, *spatial) if data_format == "NCX" else (n, *spatial, many)

    weights = (
        (channels, rows // g, *layer["kernel"]) if transposed else (rows, channels // g, *layer["kernel"])
    )
    shapes = (dims(channels, layer["src_spatial"]), dims(rows, layer["dst_spatial"]), weights)
    tensors = [og.LogicalTensor(i, dtype, shape) for i, shape in enumerate(shapes)]
    names = ("strides", "pads_begin", "pads_end", "dilations", "groups")
    return og.Op(
        0,
        layer["op"],
        tensors[:2],
        tensors[2:],
        data_format=data_format,
        weights_format="IOX" if transposed else "OIX",
        weights_shape=weights,
        **{name: layer[name] for name in names},
    )


def write(path: Path, facts: dict[str, Any], fitted: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Puts an entry into its section of the data, in the place of the one of that instruction set and threads."""
    data = json.loads(path.read_text()) if path.exists() else {"classes": {}}
    known = [isa.name for isa in CpuIsa]
    entry = {
        **facts,
        "date": datetime.date.today().isoformat(),
        "package": version("onednn-graph"),
        "amounts": AMOUNTS,
        "traits": TRAITS,
        "coefficients": fitted[0],
        "corrections": fitted[1],
    }
    here = CpuClass.of(entry["isa"]).value
    replaced = (entry["isa"], entry["threads"])
    others = [m for m in data["classes"].get(here, []) if (m["isa"], m["threads"]) != replaced]
    data["classes"][here] = sorted([*others, entry], key=lambda m: (known.index(m["isa"]), m["threads"]))
    text = json.dumps(data, indent=1)
    # Numbers and trees on one line each.
    path.write_text(re.sub(r"\[[-\d\s.,e\[\]+]*\]", lambda m: re.sub(r"\s+", "", m[0]), text) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=300, help="how long to measure")
    parser.add_argument("--seed", type=int, default=1, help="of the layers")
    parser.add_argument("--dtypes", default="f32,bf16", help="of the layers, with commas")
    parser.add_argument("--raw", type=Path, default=None, help="write what was measured here")
    parser.add_argument("--fit", type=Path, nargs="+", default=[], help="fit these, and measure nothing")
    parser.add_argument("--check", type=Path, nargs="+", default=[], help="how good choices are on these")
    parser.add_argument("--out", type=Path, default=None, help="the data file")
    args = parser.parse_args()
    lib = load()
    facts = {
        "isa": lib.effective_isa,
        "threads": lib.threads,
        "cpu": cpu_name(),
        "library": ".".join(map(str, lib.version)),
    }
    if not args.fit and not args.check:
        samples = list(sampled(args.seed, args.seconds, args.dtypes.split(",")))
        print(f"{len(samples)} problems")
        if args.raw:
            args.raw.write_bytes(pickle.dumps((facts, samples)))
        return
    model = cost_data(lib.effective_isa, lib.threads)
    if args.fit:
        facts, samples = gathered(args.fit)
        known = next((m for m in measured() if (m.isa, m.threads) == (facts["isa"], facts["threads"])), None)
        fitted = fit(samples, {} if known is None else known.coefficients)
        model = CostModel(
            isa=facts["isa"], threads=facts["threads"], coefficients=fitted[0], corrections=fitted[1]
        )
        if args.out:
            write(args.out, {**facts, "problems": len(samples)}, fitted)
    found = regret(model, gathered(args.check or args.fit)[1])
    values = [value for value, _ in found]
    print(
        f"{len(values)} problems; chosen ÷ best: geometric mean {statistics.geometric_mean(values):.3f}, "
        f"95 % below {np.quantile(values, 0.95):.2f}, worst {max(values):.2f}"
    )
    for value, text in found[:10]:
        print(f"  {value:.2f} {text}")


def gathered(paths: Sequence[Path]) -> tuple[dict[str, Any], list[Sample]]:
    """What files have together; they are of one machine.

    Raises:
        ValueError: they are not.
    """
    files = [pickle.loads(path.read_bytes()) for path in paths]
    if any(facts != files[0][0] for facts, _ in files):
        raise ValueError(f"samples of several machines: {', '.join(str(facts) for facts, _ in files)}")
    return files[0][0], [sample for _, samples in files for sample in samples]


if __name__ == "__main__":
    main()
