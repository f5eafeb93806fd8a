"""A plan whose executions try candidates in turn, and become the plan of those that win."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from ...graph.compile.trials import Choices, Trial
from ...graph.model.logical_tensor import LogicalTensor
from ...graph.runtime.arrays import Array
from ...graph.runtime.executable import Executable, Explanation, OnlineChoice
from ...graph.runtime.locking import Lock
from ...graph.runtime.memory import PlannedMemory
from ...graph.runtime.shared_constants import MadeConstant
from ...ops.records import frozen
from .executable import PlanExecutable
from .library import fork
from .plan.constants import PreparedConstants
from .weight_gradients.trial_run import way


@frozen
class PlanProblem:
    """One problem of a plan.

    Attributes:
        ops: ids of the ops that are this problem.
        taken: name of what they take; None where that is on trial.
        trial: the trial.
    """

    ops: tuple[int, ...]
    taken: str | None
    trial: Trial | None


@frozen(eq=False)
class MadePlan:
    """A plan, and what it was made by.

    Attributes:
        problems: by the text that stands for each.
        version: of the choices, when it was made.
    """

    executable: PlanExecutable
    problems: Mapping[str, PlanProblem]
    version: int


@frozen(eq=False)
class _Ready:
    """What a plan made of the constant inputs."""

    made: MadePlan
    prepared: PreparedConstants | None


class _Held:
    """What callers keep of the constant inputs, whichever plan runs."""

    def __init__(self, ready: _Ready) -> None:
        self.ready = ready


class OnlineExecutable:
    """Runs a plan with trials in it, and once all of them are settled the plan that is made with what has won.

    Args:
        first: the first plan.
        make: makes a plan by what the choices tell now.
    """

    def __init__(self, first: MadePlan, make: Callable[[], MadePlan], choices: Choices) -> None:
        self._make = make
        self._choices = choices
        self._lock = Lock()
        self._now = first
        self._trials = {name: one for name, one in self._now.problems.items() if one.trial is not None}
        self.inputs: tuple[LogicalTensor, ...] = self._now.executable.inputs
        self.outputs: tuple[LogicalTensor, ...] = self._now.executable.outputs

    def _current(self) -> MadePlan:
        """The plan to run: a new one where the choices are other ones than it was made by, and nothing is on trial."""
        now = self._now
        if now.version == self._choices.version:
            return now
        with self._lock:
            now, version = self._now, self._choices.version
            if now.version != version:
                self._now = self._renewed(now, version)
            return self._now

    def _renewed(self, now: MadePlan, version: int) -> MadePlan:
        taken = {name: self._choices.taken(name) for name in now.problems}
        open_ones = not self._choices.fixed and None in taken.values()
        if open_ones or all(one.taken == taken[name] for name, one in now.problems.items()):
            return evolve(now, version=version)
        return fork.run(self._make)

    @property
    def explanation(self) -> Explanation:
        """Of the plan that runs now, with what was tried."""
        return evolve(self._now.executable.explanation, online=tuple(self._told()))

    def _told(self) -> Iterator[OnlineChoice]:
        for name, one in self._trials.items():
            if one.trial is not None:
                told = one.trial.told(one.ops)
                taken = self._now.problems[name].taken
                yield told if taken is None else evolve(told, taken=taken)

    def generate(self) -> None:
        """See `Generated`; of the candidates on trial each makes its code when its turn comes."""
        self._now.executable.generate()

    def settle(self, constants: Sequence[Array | None]) -> None:
        """See `Settling`."""
        self._current().executable.settle(constants)

    def made(self) -> Sequence[MadeConstant] | None:
        """See `Settling`."""
        return self._now.executable.made()

    def planned_memory(self) -> PlannedMemory:
        """See `MemoryPlanning`."""
        return self._now.executable.planned_memory()

    def turns(self) -> Iterable[Executable]:
        """See `InTurns`."""
        trials = [one.trial for one in self._trials.values() if one.trial is not None]
        for number in range(max((len(trial.names) for trial in trials), default=1)):
            yield _OneWay(self, number)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """One execution."""
        self._current().executable.run(inputs, outputs)

    def prepare(self, addresses: Sequence[int]) -> object:
        """What is made of the constant inputs as they are now; `run_at` makes it anew for another plan."""
        made = self._current()
        return _Held(_Ready(made, made.executable.prepare(addresses)))

    def run_at(self, addresses: Sequence[int], prepared: object = None) -> None:
        """One execution on memory at these addresses."""
        made = self._current()
        if not isinstance(prepared, _Held):
            made.executable.run_at(addresses, prepared)
            return
        ready = prepared.ready
        if ready.made.executable is not made.executable:
            ready = _Ready(made, made.executable.prepare(addresses[: len(self.inputs)]))
            prepared.ready = ready
        made.executable.run_at(addresses, ready.prepared)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with the arguments prepared once, and once more for another plan."""
        made = self._current()
        bound = made.executable, made.executable.bind(inputs, outputs)

        def call() -> None:
            nonlocal bound
            made = self._current()
            if made.executable is not bound[0]:
                bound = made.executable, made.executable.bind(inputs, outputs)
            bound[1]()

        return call


@frozen(eq=False)
class _OneWay:
    """An executable of which every trial goes one way."""

    whole: OnlineExecutable
    number: int

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        return self.whole.inputs

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        return self.whole.outputs

    @property
    def explanation(self) -> Explanation:
        return self.whole.explanation

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        with way(self.number):
            self.whole.run(inputs, outputs)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        call = self.whole.bind(inputs, outputs)

        def one_way() -> None:
            with way(self.number):
                call()

        return one_way
