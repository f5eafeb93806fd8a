"""Trying an executable that nobody has proven: by the judge where that can be, else in this process."""

from __future__ import annotations

import logging

from ..runtime.executable import Executable, InTurns
from ..trust.doubts import Doubts
from ..trust.judge import UnfinishedError
from ..trust.process import NotAskedError
from ..trust.settings import Verifying, verifying
from ..trust.verdict import RIGHT, Kind, Verdict
from .backend import Backend, CompileRequest
from .judging import JUDGE, verdict_on
from .verification import UNTRIED, wrong_on_integers

LOGGER = logging.getLogger(__name__)


def wrong_in_some_turn(
    request: CompileRequest, backend: Backend, attempt: int, executable: Executable
) -> str | None:
    """What is wrong with an executable on integers, whichever way it goes, or None."""
    every = executable.turns() if isinstance(executable, InTurns) else (executable,)
    for turn, one in enumerate(every):
        verdict = _judged(request, backend, attempt, turn, one)
        if not verdict.right:
            return verdict.seen if verdict.kind is Kind.wrong else str(verdict)
    return None


def _judged(
    request: CompileRequest, backend: Backend, attempt: int, turn: int, executable: Executable
) -> Verdict:
    """What is found of an executable; what that tells of its kernels is kept."""
    doubts = Doubts.about(executable.explanation, afresh=request.options.verify)
    verdict = _found(request, backend, attempt, turn, executable)
    if verdict.right:
        doubts.found_right()
    elif not verdict.seen.startswith(UNTRIED):
        doubts.found_wrong(verdict.seen, verdict.kind)
    return verdict


def _found(
    request: CompileRequest, backend: Backend, attempt: int, turn: int, executable: Executable
) -> Verdict:
    """What another process finds of an executable, or this one where that can't or must not."""
    if verifying() is not Verifying.inline:
        try:
            return verdict_on(request, backend, attempt, turn, executable.explanation)
        except NotAskedError as error:
            _say_inline(str(error))
        except UnfinishedError as error:
            return Verdict(Kind.wrong, f"{UNTRIED}, for {error}")
    wrong = wrong_on_integers(request, executable, every=request.options.verify)
    return RIGHT if wrong is None else Verdict(Kind.wrong, wrong)


def _say_inline(why: str) -> None:
    """Says that this process verifies: to the user, once, where it is so for all that is compiled."""
    always = JUDGE.impossible
    if always and always not in _said:
        _said.add(always)
        LOGGER.warning("kernels that nobody has proven are verified in this process, for %s", always)
    else:
        LOGGER.debug("verified in this process, for %s", why)


_said: set[str] = set()
