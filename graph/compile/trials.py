"""Choices that are made while a program runs, for `tune="online"`.

How it flows: whoever lowers a problem that has several ways asks the `Choices` of the compilation. Where nothing is
known, `Choices` holds a `Trial` of the most likely ways, and the lowered program has a step that does the problem in
the way of the trial's `turn` and tells it how long that took. A trial knows no clock, no kernel and no array: it says
whose turn it is, drops what is clearly slower, and settles. `Choices.version` grows then; the executable that sees it
makes its program anew with what has won, and everything that was on trial is freed with the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import field

from ...ops.records import define, frozen
from ..runtime.executable import OnlineChoice, Tried
from ..runtime.locking import Lock

ROUNDS = 5
"""Timed executions of each way that is not dropped; one before them is not timed, for code is generated in it."""
LEAST_ROUNDS = 3
"""Before these nothing is dropped."""
MOST_ROUNDS = 10
"""Where times vary, on a machine that does other things too, as many as it takes to see the least one twice; but no
more than these."""
AGREE = 1.2
"""Times that differ by no more than this are seen as the same."""
CLEARLY_SLOWER = 1.15
"""What is so many times slower than the fastest is dropped."""
STRANGE = 3.0
"""What seems to be so many times slower has more executions before that: likely candidates are not, and something else
may have been running."""
BUDGET_RUNS = 10
"""A trial may lose the time of so many executions, where that is more than the seconds that it has."""
MOST_BEGUN = 4
"""Executions after which a trial ends in any case, for each that it needs: those at the same time as another are not
timed."""


@frozen
class Turn:
    """One execution of a trial.

    Attributes:
        way: number of the way that it goes.
        timed: whether the trial wants to know its time.
    """

    way: int
    timed: bool


@define(eq=False)
class _Way:
    """What is known of one way.

    Attributes:
        begun: whether its first execution, which is not timed, is over.
        out: why it has no more turns.
    """

    name: str
    begun: bool = False
    seconds: list[float] = field(factory=list[float])
    out: str = ""

    @property
    def runs(self) -> int:
        return self.begun + len(self.seconds)

    @property
    def least(self) -> tuple[float, float]:
        """The two least times."""
        first, second = sorted(self.seconds)[:2]
        return first, second

    @property
    def figure(self) -> float:
        """What ways are compared by, the mean of the two least times: what others do to the machine only adds."""
        least = sorted(self.seconds)[:2]
        return sum(least) / len(least)

    def seen(self, rounds: int) -> bool:
        """Whether it has that many times, and the least one twice or else as many as there may be."""
        if len(self.seconds) < rounds:
            return False
        return self.is_steady or len(self.seconds) >= MOST_ROUNDS

    @property
    def is_steady(self) -> bool:
        """Whether the least time was seen twice."""
        return len(self.seconds) > 1 and self.least[1] <= AGREE * self.least[0]

    def beats(self, other: _Way) -> bool:
        """Whether it is faster beyond what the machine does to times: it was so twice, and both times are alike."""
        return self.is_steady and self.least[1] < other.least[0]


class Trial:
    """Ways to do one problem, which executions take in turn until the fastest is known. Thread-safe.

    What executes while another one does is neither timed nor on trial: it goes the way that leads.

    Args:
        names: of the ways; the first is the one to take where nothing is known.
        budget_seconds: that may be lost on slower ways, beside what is lost in the last execution.
        when_settled: is told each way's time once the trial has come to its end by itself.
    """

    def __init__(
        self,
        names: Sequence[str],
        budget_seconds: float,
        when_settled: Callable[[dict[str, float]], object] = lambda times: None,
    ) -> None:
        self._ways = [_Way(name) for name in names]
        self._budget = budget_seconds
        self._when_settled = when_settled
        self._lock = Lock()
        self._running = 0
        self._alone = True
        self._begun = 0
        self._lost = 0.0
        self._settled = False

    @property
    def settled(self) -> bool:
        """Whether it is over."""
        return self._settled

    @property
    def names(self) -> tuple[str, ...]:
        """Of all ways."""
        return tuple(way.name for way in self._ways)

    @property
    def taken(self) -> str:
        """The way that leads, or has won."""
        return self._ways[self._leader()].name

    @property
    def times(self) -> dict[str, float]:
        """The time of each way that was timed, but for those that only seem to be faster than the one that is taken."""
        taken = self._ways[self._leader()]
        timed = [way for way in self._ways if way.seconds]
        return {way.name: way.figure for way in timed if not taken.seconds or way.figure >= taken.figure}

    def told(self, ops: Sequence[int]) -> OnlineChoice:
        """How it stands, for an explanation.

        Args:
            ops: ids of those that it decides about.
        """
        with self._lock:
            tried = tuple(Tried(way.name, tuple(way.seconds), way.out) for way in self._ways)
            return OnlineChoice(tuple(ops), self.taken, self._settled, tried)

    def begin(self) -> Turn:
        """Whose turn it is. `end` must follow."""
        with self._lock:
            self._running += 1
            self._begun += 1
            self._alone = self._running == 1
            if self._settled or not self._alone:
                return Turn(self._leader(), timed=False)
            open_ways = [number for number, way in enumerate(self._ways) if not way.out]
            return Turn(min(open_ways, key=lambda number: self._ways[number].runs), timed=True)

    def end(self, turn: Turn, seconds: float | None, error: str = "") -> None:
        """An execution is over.

        Args:
            seconds: that it took; None where it came to nothing.
            error: why it came to nothing, if its way can't be gone.
        """
        finished: dict[str, float] | None = None
        with self._lock:
            self._running -= 1
            if self._settled:
                return
            if error and len([way for way in self._ways if not way.out]) > 1:
                self._ways[turn.way].out = error
            elif turn.timed and self._alone and seconds is not None:
                self._take_in(self._ways[turn.way], seconds)
            if self._is_over():
                self._settled = True
                finished = self.times
        if finished:
            self._when_settled(finished)

    def settle(self) -> None:
        """Ends it with what is known; that is not enough to tell others."""
        with self._lock:
            self._settled = True

    def _take_in(self, way: _Way, seconds: float) -> None:
        least = min([seconds, *(one for other in self._ways for one in other.seconds)])
        self._lost += seconds - least
        if not way.begun:
            way.begun = True
            return
        way.seconds.append(seconds)
        for one in self._ways:
            if one.out or not one.seconds:
                continue
            ratio = min(one.seconds) / least
            usual = one is self._ways[0]
            if usual and not any(other.beats(one) for other in self._ways):
                continue  # what would be taken without times goes out for what is faster beyond doubt
            if ratio > CLEARLY_SLOWER and one.seen(ROUNDS if ratio >= STRANGE or usual else LEAST_ROUNDS):
                one.out = f"dropped after {len(one.seconds)} executions"

    def _is_over(self) -> bool:
        left = [way for way in self._ways if not way.out]
        seconds = [one for way in self._ways for one in way.seconds]
        if self._begun >= MOST_BEGUN * (ROUNDS + 1) * len(self._ways):
            return True
        if not seconds:
            return False
        return (
            (len(left) == 1 and bool(left[0].seconds))
            or (all(way.seen(ROUNDS) for way in left) and self._is_sure(left))
            or self._lost > max(self._budget, BUDGET_RUNS * min(seconds))
        )

    def _is_sure(self, left: Sequence[_Way]) -> bool:
        """Whether the first way stays, or went out, or all have been seen more often than that takes."""
        first = self._ways[0]
        return (
            self._leader() == 0 or first not in left or all(len(way.seconds) >= MOST_ROUNDS for way in left)
        )

    def _leader(self) -> int:
        """Number of the fastest way so far, of those that are faster than the first one beyond doubt; else the first.

        Of ways that go on after the first went out, the fastest of those with more than one time.
        """
        going = [number for number, way in enumerate(self._ways) if not way.out]
        usable = [number for number in going if len(self._ways[number].seconds) > 1]
        first = self._ways[0]
        if 0 in going:
            usable = [n for n in usable if 0 in usable and self._ways[n].beats(first)]
        return min(usable, key=lambda number: self._ways[number].figure, default=(going or [0])[0])


class Choices:
    """Which way each problem goes: settled, or on trial. Thread-safe.

    Compilations that are to choose alike share one. A problem is a text that tells everything on which times depend.

    Args:
        settled: problem → name of its way.
        fixed: whether nothing is tried: what is not settled goes the way that is taken without times.
    """

    def __init__(self, settled: Mapping[str, str] | None = None, *, fixed: bool = False) -> None:
        self._lock = Lock()
        self._settled = dict(settled or {})
        self._times: dict[str, Mapping[str, float]] = {}
        self._trials: dict[str, Trial] = {}
        self._fixed = fixed
        self._version = 0

    @property
    def version(self) -> int:
        """Grows when a problem's way is settled, or becomes another."""
        return self._version

    @property
    def fixed(self) -> bool:
        """Whether nothing is tried any more."""
        return self._fixed

    @property
    def settled(self) -> dict[str, str]:
        """Problem → name of its way, for all that are decided."""
        with self._lock:
            return dict(self._settled)

    def taken(self, problem: str) -> str | None:
        """The way that a problem goes; None where that is not decided."""
        return self._settled.get(problem)

    def times(self, problem: str) -> Mapping[str, float]:
        """The times by which a trial here has decided."""
        return self._times.get(problem, {})

    def note(self, problem: str, name: str) -> None:
        """Says that a problem goes a way, if nobody has said so before."""
        with self._lock:
            self._settled.setdefault(problem, name)

    def trial(
        self,
        problem: str,
        names: Sequence[str],
        budget_seconds: float,
        remember: Callable[[dict[str, float]], object] = lambda times: None,
    ) -> Trial:
        """The trial of a problem: the one that goes on, or a new one.

        Args:
            names, budget_seconds: see `Trial`.
            remember: is told the times once it has come to its end by itself.
        """

        def over(times: dict[str, float]) -> None:
            remember(times)
            self._over(problem)

        with self._lock:
            if problem not in self._trials:
                self._trials[problem] = Trial(names, budget_seconds, over)
            return self._trials[problem]

    def _over(self, problem: str) -> None:
        with self._lock:
            trial = self._trials.pop(problem, None)
            if trial is None:
                return
            self._settled[problem], self._times[problem] = trial.taken, trial.times
            self._version += 1

    def settle(self) -> None:
        """Ends all trials with what is known, and begins no more: from here on, programs compute the same bits."""
        with self._lock:
            self._fixed = True
            trials = list(self._trials.items())
        for problem, trial in trials:
            trial.settle()
            self._over(problem)

    def take_over(self, settled: Mapping[str, str]) -> None:
        """Goes the ways that another has settled, and tries nothing any more."""
        with self._lock:
            self._fixed = True
            for trial in self._trials.values():
                trial.settle()
            self._trials.clear()
            self._settled = dict(settled)
            self._version += 1
