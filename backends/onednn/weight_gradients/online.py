"""Weight gradients whose candidates are tried by the executions of a program, for `tune="online"`.

`decided` says for a problem which candidate it goes by what is known, or that there is a trial; the lowering then puts
a `TrialRun` into the plan in the place of a candidate's steps. See `graph/compile/trials.py` for how it flows.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from time import perf_counter

import numpy as np

from ....graph.compile.options import CompileOptions
from ....graph.compile.trials import Trial, Turn
from ....graph.runtime.arrays import Array, address
from ....graph.runtime.locking import Lock
from ....ops.errors import LibraryError
from ..library.primitive import NativeEngine
from ..plan.arena import Arena
from ..plan.frame import Frame
from ..plan.plan import KEPT_FRAMES
from ..plan.steps import Buffer, Step
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

_prescribed: ContextVar[int | None] = ContextVar("prescribed", default=None)


@contextmanager
def way(number: int) -> Generator[None, None, None]:
    """In the block, every trial goes this way, the last one where it has fewer; nothing is timed."""
    token = _prescribed.set(number)
    try:
        yield
    finally:
        _prescribed.reset(token)


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


class TrialRun:
    """What a plan runs for a problem on trial: one candidate's plan, on memory that the outer plan lends.

    Args:
        candidates: the trial's ways, in its order.
    """

    def __init__(self, trial: Trial, candidates: Sequence[Candidate]) -> None:
        self.trial = trial
        by_name = {one.name: one for one in candidates}
        self._plans = [by_name[name].plan for name in trial.names]
        self._frames: dict[tuple[int, int], Frame] = {}
        self._lock = Lock()

    @property
    def scratch_bytes(self) -> int:
        """Memory that one of the plans needs, whichever it is."""
        return max(plan.scratch_bytes for plan in self._plans)

    def __call__(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Runs the candidate whose turn it is.

        Args:
            inputs: those of the candidates. outputs: likewise, and at last the memory for temporaries.
        """
        places, scratch = [address(array) for array in (*inputs, *outputs[:-1])], outputs[-1]
        prescribed = _prescribed.get()
        if prescribed is not None:
            self._frame(min(prescribed, len(self._plans) - 1), places, scratch).run()
            return
        turn, seconds, error = self.trial.begin(), None, ""
        try:
            seconds = self._timed(turn, places, scratch)
        except LibraryError as problem:
            error = str(problem)
        finally:
            self.trial.end(turn, seconds, error)
        if error:  # another candidate does it, and an error of that one is the user's
            leader = self.trial.names.index(self.trial.taken)
            self._frame(leader, places, scratch).run()

    def _timed(self, turn: Turn, places: Sequence[int], scratch: Array) -> float:
        frame = self._frame(turn.way, places, scratch)
        begin = perf_counter()
        frame.run()
        return perf_counter() - begin

    def _frame(self, number: int, places: Sequence[int], scratch: Array) -> Frame:
        """A frame of a candidate on these arguments. Who has this scratch memory has the frame for himself."""
        plan, start = self._plans[number], address(scratch)
        key = number, start
        frame = self._frames.get(key)
        if frame is None:
            zeroed = any(isinstance(one, Buffer) and one.zeroed for one in plan.offsets)
            lent = Arena(scratch.view(np.uint8), start, plan.scratch_bytes, 0, 0)
            # What has to be zero between executions can't lie where others write.
            made = Frame(plan) if zeroed else Frame(plan, lent)
            frame = made
            with self._lock:  # memory comes and goes, and the oldest is the likeliest to be gone
                while len(self._frames) >= KEPT_FRAMES * len(self._plans):
                    self._frames.pop(next(iter(self._frames)))
                self._frames[key] = made
        frame.point(places)
        return frame
