"""What the judge is asked about an executable, and how it finds the answer in its process.

Here `verdict_on` writes the problem; there `serve` makes the same executable of it and verifies it, so that whatever it
does costs this process nothing but the wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, NoReturn, cast

from attrs import evolve

from ...ops.errors import GraphFileError, OneDNNGraphError
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import Array
from ..runtime.executable import Executable, Explanation, InTurns, Tapped, Visit
from ..runtime.threads import get_num_threads, set_num_threads
from ..trust import child
from ..trust.child import Doing
from ..trust.judge import Judge
from ..trust.process import NotAskedError
from ..trust.verdict import Kind, Verdict
from . import problem as problems
from .backend import BACKENDS, Backend, CompileRequest, Elsewhere
from .options import Tune
from .problem import Problem, plan_of
from .verification import UNTRIED, wrong_on_integers

JUDGE = Judge(__name__)
"""The one that this process asks."""
PLAN_SECONDS = 300.0
"""CPU time that making a plan may take each thread."""
RUN_SECONDS = 30.0
"""CPU time that a run may take each thread, beside that for its work."""
TIMES_SLOWER = 1000.0
"""What takes so many times as long as it should has no end."""


def verdict_on(
    request: CompileRequest, backend: Backend, attempt: int, turn: int, explanation: Explanation
) -> Verdict:
    """The verdict on an executable that a backend has made of a request, from a process of its own.

    Args:
        attempt: how many others it has made of it before.
        turn: which of its ways it goes; 0 where it has but one.
        explanation: of the executable, as it goes that way.

    Raises:
        NotAskedError: it has to be verified in this process.
    """
    if explanation.steps and all(step.host for step in explanation.steps):
        raise NotAskedError("NumPy does no harm")
    kind = type(backend)
    if kind.__module__ == "__main__" or "<" in kind.__qualname__:
        raise NotAskedError(f"no other process has the class of the backend '{backend.name}'")
    try:
        text = problems.dumps(problems.problem_of(request, backend.name, attempt, turn, explanation))
    except GraphFileError as error:
        raise NotAskedError(str(error)) from error
    environment: Mapping[str, str] = backend.conditions() if isinstance(backend, Elsewhere) else {}
    question = {
        "problem": text,
        "backend": [kind.__module__, kind.__qualname__],
        "conditions": environment,
        "seconds": RUN_SECONDS,
    }
    return JUDGE.ask(question, environment, str(request.ops[0]))


# --- in the other process ---------------------------------------------------------------------------------


def serve(number: int, parent: int) -> NoReturn:
    """The judge's program; see `child.serve`."""
    child.serve(_answer, number, parent)


def _answer(question: Mapping[str, Any], doing: Doing) -> dict[str, Any]:
    """What comes of a question of `verdict_on`."""
    problem = problems.loads(question["problem"])
    set_num_threads(problem.threads)
    threads = max(
        get_num_threads(), problem.request.options.threads or 1, problem.request.engine.threads or 1
    )
    backend = _backend(problem.backend, *question["backend"])
    doing("making its plan", cpu_seconds=PLAN_SECONDS, threads=threads, running=True)
    if isinstance(backend, Elsewhere) and backend.conditions() != question["conditions"]:
        return {"unable": f"that process has {backend.conditions()} instead of {question['conditions']}"}
    try:
        executable = _made(problem, backend)
    except OneDNNGraphError as error:
        return {"unable": f"that process can't make it: {error}"}
    plan = plan_of(executable.explanation)
    if plan != problem.plan:
        return {"unable": f"that process makes another plan of it, {plan} instead of {problem.plan}"}
    estimate = backend.seconds(problem.request) if isinstance(backend, Elsewhere) else 0.0
    seconds = question["seconds"] + TIMES_SLOWER * estimate
    watched = watched_by(executable, doing, seconds, threads)
    wrong = wrong_on_integers(problem.request, watched, every=problem.request.options.verify)
    if wrong is None:
        return {"kind": Kind.right.value}
    return {"unable": wrong} if wrong.startswith(UNTRIED) else {"kind": Kind.wrong.value, "seen": wrong}


def _backend(name: str, module: str, qualified: str) -> Backend:
    """The backend of that name and class: one that this process has, or a new one."""
    for one in BACKENDS:
        if one.name == name and (type(one).__module__, type(one).__qualname__) == (module, qualified):
            return one
    made: Any = import_module(module)
    for part in qualified.split("."):
        made = getattr(made, part)
    return cast("Backend", made())


def _made(problem: Problem, backend: Backend) -> Executable:
    """The executable that a problem is about."""
    request = problem.request
    if request.options.tune is Tune.measure:  # what decided has been measured, and is remembered
        request = evolve(request, options=evolve(request.options, tune=Tune.cached))
    executable = next(islice(backend.compile(request), problem.attempt, None))
    if isinstance(executable, InTurns):
        return next(islice(executable.turns(), problem.turn, None))
    return executable


def watched_by(executable: Executable, doing: Doing, seconds: float, threads: int) -> Watched:
    """The executable with someone who is told when it runs.

    Args:
        seconds: of CPU time, for each thread in each stretch between two looks at its tensors.
    """
    kind = WatchedTapped if isinstance(executable, Tapped) else Watched
    return kind(executable, partial(doing, cpu_seconds=seconds, threads=threads, running=True), doing)


class Watched:
    """An executable that says when it runs, and has but so much time for that.

    Args:
        begins: says that it runs from now on.
        doing: says that it does not any more.
    """

    def __init__(self, executable: Executable, begins: Callable[[str], None], doing: Doing) -> None:
        self._executable, self._begins, self._doing = executable, begins, doing

    @property
    def inputs(self) -> tuple[LogicalTensor, ...]:
        """See `Executable`."""
        return self._executable.inputs

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """See `Executable`."""
        return self._executable.outputs

    @property
    def explanation(self) -> Explanation:
        """See `Executable`."""
        return self._executable.explanation

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """See `Executable`."""
        return self._executable.bind(inputs, outputs)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """See `Executable`."""
        self._begin()
        self._executable.run(inputs, outputs)
        self._end()

    def _begin(self) -> None:
        self._begins("running it")

    def _end(self) -> None:
        self._doing("comparing what came of it", cpu_seconds=math.inf)


class WatchedTapped(Watched):
    """The same of one that can be looked into. Protocols are told by what a class has, not by what it answers to."""

    def run_tapped(self, inputs: Sequence[Array], outputs: Sequence[Array], visit: Visit) -> bool:
        """See `Tapped`."""

        def look(tensor: LogicalTensor, array: Array, writable: bool) -> Array | None:
            self._end()
            found = visit(tensor, array, writable)
            self._begin()
            return found

        self._begin()
        intact = cast("Tapped", self._executable).run_tapped(inputs, outputs, look)
        self._end()
        return intact
