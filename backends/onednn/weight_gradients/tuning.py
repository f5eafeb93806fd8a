"""Choice among a weight gradient's candidates by measurement."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from ....graph.compile.options import CompileOptions, Tune
from ....graph.runtime.arrays import Array, address, numpy_type
from ..library import fork
from ..library.primitive import NativeEngine
from ..plan.frame import Frame
from ..tuning_cache import remember, remembered
from .candidate import Candidate
from .problem import DIFF_DST, DIFF_WEIGHTS, SRC, Problem, View

FORMAT = 1
"""Of the files; raised when older ones mean something else."""
PLAUSIBLE = 3.0
"""Candidates whose estimate is more than so many times the best one's are not measured."""
MOST_MEASURED = 12
"""Nor are more than so many."""
NEAR_THE_BEST = 1.15
"""What is so many times slower after half of the time is out, the best estimate apart."""
LEAST_ROUNDS, LEAST_FINAL_ROUNDS = 3, 8
"""Turns of each in the two halves of the time, however long they take."""
BETTER = 0.97
"""What part of the time of the best estimate another has to take to go before it: two measurements of one kernel differ
by as much, and the user has measured nothing to get something slower than without."""


def key_of(engine: NativeEngine, problem: Problem) -> dict[str, Any]:
    """Everything that times depend on."""
    gradient = attrs.asdict(problem.gradient, filter=lambda field, _: not field.name.endswith("_axes"))
    return {
        **engine.lib.machine,
        "format": FORMAT,
        "gradient": gradient,
        "data_type": problem.data_type.value,
        "strides": [list(view.strides) for view in (problem.src, problem.dst, problem.weights)],
        "fpmath": problem.fpmath.name,
        "free_weights": problem.free_weights,
        "bias": problem.bias is not None,
        "machine_code": engine.machine_code,
    }


def tuned(
    engine: NativeEngine, problem: Problem, found: Sequence[Candidate], options: CompileOptions
) -> list[Candidate]:
    """The candidates by measured time; those that were not measured keep their order behind them.

    Args:
        found: best estimate first.
    """
    key = key_of(engine, problem)
    times = remembered(key)
    if options.tune is Tune.measure and not times and found:
        likely = [one for one in found if one.estimated_seconds <= PLAUSIBLE * found[0].estimated_seconds][
            :MOST_MEASURED
        ]
        times = fork.run(measure, problem, likely, options.tune_seconds)
        remember(key, times)
    return by_times(found, times)


def by_times(found: Sequence[Candidate], times: Mapping[str, float]) -> list[Candidate]:
    """The candidates with their times, the fastest first; those without keep their order behind them.

    Args:
        found: best estimate first, which stays first unless another is faster by more than chance.
    """
    result = [attrs.evolve(one, measured_seconds=times.get(one.name)) for one in found]

    def weighed(one: Candidate) -> tuple[bool, float]:
        default = one is result[0]
        return one.measured_seconds is None, (one.measured_seconds or 0.0) * (BETTER if default else 1.0)

    return sorted(result, key=weighed)


def measure(problem: Problem, found: Sequence[Candidate], seconds: float) -> dict[str, float]:
    """The time of each candidate: the mean of the shortest and the median, over interleaved rounds.

    Their order changes, so that nobody always finds the caches as the same other one has left them.

    Args:
        found: the first of them is measured to the end.
    """
    arrays = [np.zeros(0, np.uint8)] * 3
    playing = (DIFF_DST, SRC) if problem.gradient.exchanged else (SRC, DIFF_DST)
    for argument, view in zip(
        (*playing, DIFF_WEIGHTS), (problem.src, problem.dst, problem.weights), strict=True
    ):
        arrays[argument] = _filled(problem, view, argument)
    bias = [] if problem.bias is None else [_filled(problem, problem.bias, len(arrays))]
    result: dict[str, float] = {}
    frames: list[tuple[str, Frame, list[float]]] = []
    for one in found:
        frame = one.plan.take()
        # dW may be opaque and then larger than the plain one.
        opaque = [
            np.empty(max(layout.desc.nbytes, 1), np.uint8) for layout in one.opaque if layout is not None
        ]
        gradients = [*(opaque or arrays[DIFF_WEIGHTS : DIFF_WEIGHTS + 1]), *bias]
        frame.point([address(a) for a in (*arrays[:DIFF_WEIGHTS], *gradients)])
        arrays += opaque  # kept alive
        frame.run()
        frames.append((one.name, frame, []))
    # Half of the time for all, the other half for those that are near the best.
    rng, default = random.Random(0), frames[0][0] if frames else ""
    for least_rounds in (LEAST_ROUNDS, LEAST_FINAL_ROUNDS):
        end = time.perf_counter() + seconds / 2
        rounds = 0
        while time.perf_counter() < end or rounds < least_rounds:
            rounds += 1
            rng.shuffle(frames)
            for _, frame, times in frames:
                begin = time.perf_counter()
                frame.run()
                times.append(time.perf_counter() - begin)
        found_times = {name: (min(times) + statistics.median(times)) / 2 for name, _, times in frames}
        result |= found_times
        least = min(found_times.values())
        frames = [one for one in frames if one[0] == default or found_times[one[0]] <= NEAR_THE_BEST * least]
    return result


def _filled(problem: Problem, view: View, seed: int) -> Array:
    """Memory for a view, with small integers in it: zeros and denormals would be timed wrongly."""
    size = 1 + sum((dim - 1) * step for dim, step in zip(view.shape, view.strides, strict=True))
    values = np.random.default_rng(seed).integers(-2, 3, size)
    return values.astype(numpy_type(problem.data_type))
