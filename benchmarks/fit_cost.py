"""Fits the cost model of the oneDNN backend to this machine.

    python benchmarks/fit_cost.py --seconds 300 --raw samples.pkl
    python benchmarks/fit_cost.py --fit samples.pkl --out backends/onednn/weight_gradients/cost_data.bin
    python benchmarks/fit_cost.py --fit samples.pkl --check other_samples.pkl

The first draws random layers and times every step of every candidate on them. The second solves for the seconds per
unit of work by a robust fit of the logarithm, a kind of primitive at a time, and grows small trees on the rest; the
entry of the samples' CPU family, instruction set and number of threads is replaced in the file. The third says how far
the choice is from the best on samples of another seed. Run the first with ONEDNN_MAX_CPU_ISA and OMP_NUM_THREADS for
others.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import pickle
import statistics
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from fit_trees import boosted
from onednn_graph.backends.onednn.library.cpu import cpu_family
from onednn_graph.backends.onednn.library.enumerators import CpuIsa
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.plan.work import AMOUNTS, Work
from onednn_graph.backends.onednn.weight_gradients.cost import CostModel, CpuClass, cost_data, measured
from onednn_graph.backends.onednn.weight_gradients.cost_file import sections, unpacked, written
from onednn_graph.tools.information import cpu_name
from onednn_graph.tools.measuring import LayerLimits, Measured, Sample, best, chosen, sampling
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
ROUNDS, RATE, DEPTH, LEAF = 20, 0.3, 4, 16
"""Trees of a kind, what each takes of the error, how deep they are and how many measurements make a leaf."""
NEAR_THE_BEST = 1.5
"""Candidates that take so many times as long as the best tell what a sample's have in common."""
MOST_SHIFT = 0.5
"""By how much, as a logarithm, a kind as a whole is corrected."""
LIMITS = LayerLimits(flops=2.5e9, elements=1.0e7, seconds=0.02)
Row = tuple[tuple[float, ...], tuple[float, ...], float, float]
"""Amounts, traits, seconds and weight of a step."""


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
        least = min(one.together for one in sample.found)
        for one in sample.found:
            for work, row in _rows(one, min(1.0, 2 * least / one.together) ** 2):
                found[work.family, work.kind].append(row)
                found[work.family, "*"].append(row)
    return found


def _rows(one: Measured, near: float) -> Iterator[tuple[Work, Row]]:
    """A candidate's steps that the cost model is to know."""
    for work, seconds in zip(one.works, one.steps, strict=True):
        if work is not None:
            weight = min(1.0, seconds / one.together) * near + LEAST_WEIGHT
            yield work, (work.amounts, work.traits, seconds, weight)


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


def centred(samples: Sequence[Sample], model: CostModel) -> list[Sample]:
    """The samples without what all good candidates of each take longer than foreseen.

    A choice is made among the candidates of one problem, and whatever the machine did meanwhile was done to all.
    """
    result: list[Sample] = []
    for sample in samples:
        least = min(one.together for one in sample.found)
        longer = statistics.median(
            sum(one.steps) / max(model.seconds(one.known), 1e-9)
            for one in sample.found
            if one.together < NEAR_THE_BEST * least
        )
        found = tuple(
            evolve(one, steps=tuple(t / longer for t in one.steps), together=one.together / longer)
            for one in sample.found
        )
        result.append(evolve(sample, found=found))
    return result


def regret(model: CostModel, samples: Sequence[Sample]) -> list[tuple[float, str]]:
    """For each sample the time of the default choice over the best candidate's, and what they are."""
    result: list[tuple[float, str]] = []
    for sample in samples:
        taken, fastest = chosen(sample, model.seconds), best(sample)
        text = (
            f"{sample.dtype} {sample.data_format} {sample.layer['name']}: {taken.strategy} [{taken.implementation}]"
            f" for {fastest.strategy} [{fastest.implementation}], {fastest.together * 1e3:.2f} ms"
        )
        result.append((taken.together / fastest.together, text))
    return sorted(result, reverse=True)


def write(path: Path, facts: dict[str, Any], model: CostModel) -> None:
    """Puts an entry into the data, in the place of the one of its family, ISA and threads."""
    content = path.read_bytes() if path.exists() else written([])
    here = {**facts, "date": datetime.date.today().isoformat(), "package": version("onednn-graph")}
    entries = [(told, *unpacked(section)) for told, section in sections(content) if _of(told) != _of(here)]
    entries.append((here, model.coefficients, model.corrections))
    path.write_bytes(written(sorted(entries, key=lambda entry: _place(entry[0]))))


def _place(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Where an entry stands: by class, family, instruction set and threads."""
    return CpuClass.of(entry["isa"]).value, entry["family"], CpuIsa[entry["isa"]], entry["threads"]


def _of(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an entry is of."""
    return tuple(entry[name] for name in ("family", "isa", "threads"))


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
        "family": cpu_family(),
        "isa": lib.effective_isa,
        "threads": lib.threads,
        "cpu": cpu_name(),
        "library": ".".join(map(str, lib.version)),
    }
    if not args.fit and not args.check:
        found = list(sampling(args.seconds, args.seed, args.dtypes.split(","), LIMITS))
        print(f"{len(found)} problems")
        if args.raw:
            args.raw.write_bytes(pickle.dumps((facts, found)))
        return
    model = cost_data(lib.effective_isa, lib.threads)
    if args.fit:
        facts, samples = gathered(args.fit)
        known = next((m for m in measured() if (m.family, m.isa, m.threads) == _of(facts)), None)
        coefficients = {} if known is None else known.coefficients

        def fitted_to(some: Sequence[Sample]) -> CostModel:
            found = fit(some, coefficients)
            return CostModel(
                family=facts["family"],
                isa=facts["isa"],
                threads=facts["threads"],
                coefficients=found[0],
                corrections=found[1],
            )

        model = fitted_to(centred(samples, fitted_to(samples)))
        if args.out:
            write(args.out, {**facts, "problems": len(samples)}, model)
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
