"""Weight gradients whose candidates are tried by the executions of a program, for `tune="online"`.

`decided` says for a problem which candidate it goes by what is known, or that there is a trial; the lowering then puts
a `TrialRun` into the plan in the place of a candidate's steps. See `graph/compile/trials.py` for how it flows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ....graph.compile.options import CompileOptions
from ....graph.compile.trials import Trial
from ..library.primitive import NativeEngine
from ..plan.steps import Step
from ..proven import is_proven
from ..tuning_cache import digest, remember, remembered
from .candidate import Candidate
from .problem import Problem
from .tuning import PLAUSIBLE, by_times, key_of

MOST_TRIED = 8
"""Candidates that are tried at most, the best estimates first. On 584 of 585 random layers of which all candidates were
timed, the best of so many is within 3 % of the best of all; the best of six on 582."""
LEAST_SECONDS = 50e-6
"""What is estimated to take less is not tried: clocks and other programs would decide."""


def decided(
    engine: NativeEngine, problem: Problem, found: Sequence[Candidate], options: CompileOptions
) -> tuple[str, list[Candidate], Trial | None]:
    """The problem as a text, its candidates with the one to take first, and the trial where that is not known.

    Args:
        found: best estimate first.
    """
    key, choices = key_of(engine, problem), options.choices
    name = digest(key)
    taken = choices.taken(name)
    if taken is not None:
        timed = by_times(found, choices.times(name) or remembered(key))
        return name, sorted(timed, key=lambda one: one.name != taken), None
    times = {} if choices.fixed else remembered(key)
    known = by_times(found, times)
    likely = [] if times or choices.fixed or problem.free_weights else _likely(found)
    if len(likely) < 2:
        if known:
            choices.note(name, known[0].name)
        return name, known, None
    names = [one.name for one in likely]
    trial = choices.trial(name, names, options.tune_seconds, partial(remember, key))
    return name, list(found), None if trial.settled else trial


def _likely(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that are worth executions, and may be executed as they are; none unless the first is."""
    if not found or found[0].estimated_seconds < LEAST_SECONDS or not _is_proven(found[0]):
        return []
    most = PLAUSIBLE * found[0].estimated_seconds
    return [one for one in found if one.estimated_seconds <= most and _is_proven(one)][:MOST_TRIED]


def _is_proven(candidate: Candidate) -> bool:
    """Whether it may run without having been verified."""
    steps = (step for step in candidate.plan.steps if isinstance(step, Step))
    return all(is_proven(step.desc.engine.lib, step.desc.function, step.implementation) for step in steps)
