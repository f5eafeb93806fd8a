"""Every way to compute a random layer's weight gradient, with the time that each of its steps takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..backends.onednn.library.enumerators import FpmathMode
from ..backends.onednn.library.primitive import NativeEngine
from ..backends.onednn.lowering.weight_gradient import problem_of
from ..backends.onednn.plan.work import Work
from ..backends.onednn.weight_gradients.candidate import Candidate
from ..backends.onednn.weight_gradients.problem import Problem, check
from ..backends.onednn.weight_gradients.selection import candidates, in_order, scratch_limit
from ..backends.onednn.weight_gradients.strategies import STRATEGIES
from ..graph.runtime.arrays import Array, address, numpy_type
from ..ops.formats import DATA_FORMATS
from ..ops.records import frozen
from .layers import Layer, draw, op_of

Clock = Callable[[], float]
FAR = 3.0
"""A candidate that took so many times as long as the best, twice, is not run any more."""
LEAST_RUNS, MOST_RUNS = 3, 40
CALL_OVERHEAD = 2e-6
"""Seconds that a step may take longer at most when it is called and timed alone."""


@frozen
class Measured:
    """A candidate.

    Attributes:
        strategy, implementation: what `explain` calls it by.
        works: of its steps, None for what the cost model does not know.
        steps: the seconds that each takes. together: those of all in one run.
        scratch_bytes: memory for temporaries.
    """

    strategy: str
    implementation: str
    works: tuple[Work | None, ...]
    steps: tuple[float, ...]
    together: float
    scratch_bytes: int

    @property
    def known(self) -> list[Work]:
        """What the cost model can tell the time of."""
        return [work for work in self.works if work is not None]


@frozen
class Sample:
    """A layer and all of its candidates."""

    dtype: str
    data_format: str
    layer: Layer
    found: tuple[Measured, ...]

    @property
    def problem(self) -> Problem:
        """What a choice is made for."""
        return problem_of(op_of(self.layer, self.data_format, self.dtype), FpmathMode.strict)


@frozen(kw_only=True)
class LayerLimits:
    """Of what is measured.

    Attributes:
        flops, elements: of a layer at most, see `draw`.
        seconds: that a candidate is run for, on average.
    """

    flops: float
    elements: float
    seconds: float


def sampling(
    seconds: float,
    seed: int,
    dtypes: Sequence[str],
    limits: LayerLimits,
    show: Callable[[float, int], object] = lambda part, count: None,
    clock: Clock = time.perf_counter,
) -> Iterator[Sample]:
    """Random layers with all that was measured of them, for so long.

    Args:
        dtypes: of which each layer has one.
        show: is told the part of the time that is over, and how many layers there are.
    """
    engine, rng, count = NativeEngine(), random.Random(seed), 0
    begin = clock()
    while (passed := clock() - begin) < seconds:
        show(passed / seconds, count)
        layer = draw(rng, limits.flops, limits.elements)
        dtype, data_format = rng.choice(dtypes), rng.choice(DATA_FORMATS)
        sample = sampled(engine, layer, data_format, dtype, limits.seconds, clock)
        if sample.found:
            count += 1
            yield sample


def sampled(
    engine: NativeEngine,
    layer: Layer,
    data_format: str,
    dtype: str,
    seconds: float,
    clock: Clock = time.perf_counter,
) -> Sample:
    """A layer and the times of its candidates, run in turns, for so long each; none where the library can't do it."""
    op = op_of(layer, data_format, dtype)
    problem = problem_of(op, FpmathMode.strict)
    if check(problem) is not None:
        return Sample(dtype, data_format, layer, ())
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, t.dims).astype(numpy_type(t.data_type)) for t in (*op.inputs, *op.outputs)]
    turns = [_Turns(one, arrays) for one in candidates(engine, problem, STRATEGIES, [])]
    end, rounds = clock() + seconds * len(turns), 0
    while rounds < LEAST_RUNS or (rounds < MOST_RUNS and clock() < end):
        near = FAR * min((one.least for one in turns), default=0.0)
        for one in turns:
            if rounds < 2 or one.least <= near:
                one.take(clock)
        rounds += 1
    return Sample(dtype, data_format, layer, tuple(one.measured() for one in turns))


class _Turns:
    """A candidate that takes turns with others: a while in which others need the processor falls on all alike."""

    def __init__(self, candidate: Candidate, arrays: Sequence[Array]) -> None:
        self._candidate, self._frame = candidate, candidate.plan.take()
        self._frame.point([address(array) for array in arrays])
        self._frame.run()
        self._steps: tuple[float, ...] = ()
        self._together = float("inf")

    @property
    def least(self) -> float:
        """The shortest times of all steps, infinite before the first turn."""
        return sum(self._steps) if self._steps else float("inf")

    def take(self, clock: Clock) -> None:
        """Runs it once step by step, and once as a whole, whose primitives are called at once."""
        now = self._frame.timed_run()
        self._steps = tuple(map(min, self._steps, now)) if self._steps else tuple(now)
        begin = clock()
        self._frame.run()
        self._together = min(self._together, clock() - begin)

    def measured(self) -> Measured:
        """What came out."""
        plan = self._candidate.plan
        return Measured(
            self._candidate.strategy,
            self._candidate.implementation,
            tuple(step.work for step in plan.steps),
            tuple(_apart(self._steps, self._together)),
            self._together,
            plan.scratch_bytes,
        )


def _apart(steps: Sequence[float], together: float) -> list[float]:
    """The steps' times without what it costs to call and time them one by one."""
    overhead = min(max(0.0, (sum(steps) - together) / len(steps)), CALL_OVERHEAD)
    return [max(seconds - overhead, seconds / 4) for seconds in steps]


def allowed(sample: Sample) -> list[Measured]:
    """The candidates that the default choice is made among: by the memory that they take."""
    limit = scratch_limit(sample.problem)
    kept = [one for one in sample.found if one.scratch_bytes <= limit]
    return kept or [min(sample.found, key=lambda one: one.scratch_bytes)]


def chosen(sample: Sample, seconds: Callable[[Sequence[Work]], float]) -> Measured:
    """The candidate that the default choice takes by a cost model.

    Args:
        seconds: the model's estimate of steps together.
    """
    found = allowed(sample)
    estimates = [seconds(one.known) for one in found]
    return found[in_order(sample.problem, [one.strategy for one in found], estimates)[0]]


def best(sample: Sample) -> Measured:
    """The fastest of the candidates that the default choice is made among."""
    return min(allowed(sample), key=lambda one: one.together)
