"""What is looked for in a case: a function for each thing, in one list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from . import slow, wrong
from .examination import Case
from .records import Finding
from .threads import settings

Check = Callable[[Case], Iterable[Finding]]


def surroundings(case: Case) -> Iterator[Finding]:
    """Threads, waiting, OpenMP libraries."""
    sides = {f"in {case.peer.name}": case.peer.threads, "here": case.ours.threads}
    for one in settings(case.machine, sides, case.peer.runtimes):
        if one.code == "idle-cpus" and case.asked:
            continue
        yield Finding(code=one.code, severity=one.severity, what=one.what, why=one.why, do=one.do)


CHECKS: tuple[Check, ...] = (
    wrong.failures,
    wrong.numbers,
    wrong.rules,
    slow.slow_paths,
    slow.loops,
    slow.halves,
    slow.reorders,
    slow.casts,
    slow.unfused,
    slow.overhead,
    slow.hosts,
    slow.gains,
    surroundings,
)
"""All of them. A new one is a function, and a row here."""
ORDER = ("wrong", "setting", "slow", "risk", "note")
"""Of severities: what is wrong first, and of each most gain first."""


def checked(case: Case) -> list[Finding]:
    """What all checks say, in order."""
    found = [finding for check in CHECKS for finding in check(case)]
    return sorted(found, key=lambda one: (ORDER.index(one.severity), -(one.gain or 0.0)))
