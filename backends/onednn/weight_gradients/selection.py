"""Which plan runs: every strategy on every implementation that goes with it, in order of its estimated time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from attrs import evolve

from ....graph.compile.options import CompileOptions, Tune
from ....ops.errors import ArgumentError, nearest
from ..library.primitive import NativeEngine
from ..plan.unfit import Unfit
from ..quarantine import refused
from ..rules.features import Features
from . import tuning
from .candidate import Candidate
from .cost import cost_data
from .draft import Draft, Exhausted
from .machine import MachineCost, fitted
from .problem import Problem, lifted
from .strategies import Strategy, usual

LEAST_SCRATCH_LIMIT = 32 << 20
"""Bytes of temporary memory that a kernel may always take: one that the library's own choice takes for small layers
must not be left out."""
DATA_PER_SCRATCH = 2
"""How many times the memory of inputs and output it may take by default, all counted as f32: what half precisions are
converted to has to fit, and the library's own kernels for them take as much."""
F32_BYTES = 4
MARGIN = 1.05
"""By how much an estimate has to be better than that of the usual way to be believed."""
DOUBTED = {"gemm": 1.1}
"""Strategies, by how their names begin, whose estimates are wrong by more than those of others, and by how much another
may be worse to go before them: how well gemm does depends on each size of its matrices."""


def trusted(features: Features) -> str | None:
    """Keeps out what the quarantine bars, the library's reference loops apart, which strategies ask for."""
    return refused(features, references=True)


def anything(features: Features) -> str | None:
    """Keeps nothing out; for the fuzzer."""
    del features
    return None


def candidates(
    engine: NativeEngine,
    problem: Problem,
    strategies: Sequence[Strategy],
    rejected: list[str],
    *,
    trusted_only: bool = True,
) -> Iterator[Candidate]:
    """All plans for the problem, strategy by strategy, the library's preferred implementation first.

    1-D problems are also looked at as 2-D ones of height 1, for which the library has more kernels.

    Args:
        rejected: receives the reason for each strategy that applies and yet came to nothing.
        trusted_only: leave out what the quarantine bars. The fuzzer turns it off.
    """
    admits = trusted if trusted_only else anything
    variants = [("", problem)]
    if problem.gradient.spatial_rank == 1:
        variants.append((" as 2-D", lifted(problem)))
    for (suffix, variant), strategy in product(variants, strategies):
        if strategy.applies(variant) is not None:
            continue
        pick = 0
        while True:
            draft = Draft(engine, variant, pick, admits)
            try:
                strategy.write(draft)
                plan = draft.plan()
            except Unfit as unfit:
                if pick == 0 or not isinstance(unfit, Exhausted):
                    rejected.append(f"{strategy.name}{suffix}: {unfit}")
                break
            yield Candidate(strategy.name + suffix, draft.convolution, draft.compute, plan, (draft.opaque,))
            pick += 1
            if not draft.picks:
                break


def cost_model(engine: NativeEngine) -> MachineCost:
    """The cost model that fits this process best: by the instruction set in effect, and what was measured here."""
    lib = engine.lib
    return fitted(lib, cost_data(lib.effective_isa, lib.threads))


def choose(
    engine: NativeEngine,
    problem: Problem,
    strategies: Sequence[Strategy],
    options: CompileOptions,
    rejected: list[str],
) -> list[Candidate]:
    """The candidates in the order in which they are to be taken: the fastest first, by times or by estimate.

    Args:
        options: the user's; `strategy` leaves only what it names.
        rejected: receives the reason for each strategy or implementation that was passed over.

    Raises:
        ArgumentError: no candidate has the name that the user wants; another backend must not step in then.
    """
    model = cost_model(engine)
    found = [
        evolve(one, estimated_seconds=model.seconds(one.plan.works))
        for one in candidates(engine, problem, strategies, rejected)
    ]
    if options.strategy is not None:
        wanted = [one for one in found if options.strategy in (one.name, one.strategy)]
        if not wanted and found:
            names = tuple(one.name for one in found)
            raise ArgumentError(
                f"strategy must be one that can do this problem, {', '.join(names)}, got '{options.strategy}'"
                f"{nearest(options.strategy, names)}"
            )
        return wanted
    found = _within(problem, found, options, rejected)
    places = in_order(problem, [one.strategy for one in found], [one.estimated_seconds for one in found])
    found = [found[place] for place in places]
    if options.tune in (Tune.cached, Tune.measure):
        found = tuning.tuned(engine, problem, found, options)
    return found


def in_order(problem: Problem, strategies: Sequence[str], estimates: Sequence[float]) -> list[int]:
    """The places of candidates by estimate, but nothing goes before the usual way without a margin.

    Args:
        strategies: the candidates' names. estimates: their seconds.
    """
    order = [strategy.name for strategy in usual(problem) if strategy.name in strategies]
    first = strategies.index(order[0]) if order else -1

    def weighed(place: int) -> float:
        if place == first:
            return estimates[place]
        doubt = next((d for name, d in DOUBTED.items() if strategies[place].startswith(name)), 1.0)
        return estimates[place] * doubt * MARGIN

    return sorted(range(len(strategies)), key=weighed)


def scratch_limit(problem: Problem) -> int:
    """Bytes of temporary memory that a candidate may take by default."""
    data = sum(math.prod(view.shape) for view in (problem.src, problem.dst, problem.weights))
    return max(DATA_PER_SCRATCH * data * F32_BYTES, LEAST_SCRATCH_LIMIT)


def _within(
    problem: Problem, found: list[Candidate], options: CompileOptions, rejected: list[str]
) -> list[Candidate]:
    """The candidates whose temporary memory is below the limit; the least hungry one where none is."""
    limit = options.scratch_limit
    if limit is None:
        limit = scratch_limit(problem)
    kept = [one for one in found if one.plan.scratch_bytes <= limit]
    if not kept and found:
        kept = [min(found, key=lambda one: one.plan.scratch_bytes)]
        rejected.append(
            f"the limit of {limit} bytes of temporary memory, which nothing keeps; what takes least is chosen"
        )
    rejected += [
        f"{one.name}: its {one.plan.scratch_bytes} bytes of temporary memory are above the limit of {limit}"
        for one in found
        if one not in kept
    ]
    return kept
