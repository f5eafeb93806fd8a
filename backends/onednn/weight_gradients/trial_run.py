"""What a plan runs where the candidates of a weight gradient are tried by executions; see `online`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ....graph.compile.trials import Trial, Turn
from ....graph.runtime.arrays import Array, address
from ....graph.runtime.locking import Lock
from ....ops.errors import LibraryError
from ..plan.arena import Arena
from ..plan.frame import Frame
from ..plan.plan import KEPT_FRAMES
from ..plan.steps import Buffer

if TYPE_CHECKING:
    from .candidate import Candidate  # a plan asks whether it runs a trial, and most have none

_prescribed: ContextVar[int | None] = ContextVar("prescribed", default=None)


@contextmanager
def way(number: int) -> Generator[None, None, None]:
    """In the block, every trial goes this way, the last one where it has fewer; nothing is timed."""
    token = _prescribed.set(number)
    try:
        yield
    finally:
        _prescribed.reset(token)


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
