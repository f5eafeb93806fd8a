"""Which CPUs the threads of a team have, where there are as many of them as CPUs: one each.

At barriers a thread waits for the others, in a short loop and then asleep. Where no CPU is idle, the system may put who
is woken on the CPU of who wakes it, and then one waits behind the other, whose loop it keeps from its end: beside busy
processes most of the time went there. So the other threads of a team keep off the CPU that the calling thread is on.
That thread itself goes where the system wants it, and then who had that CPU gets another.

A team of fewer threads than CPUs is left to the system, which knows which of the CPUs share a core, and so is every
team where the user has said where threads run.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from .signals import Team

PLACING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")
"""Variables by which users say where threads run."""


class Seats:
    """The CPUs of one thread's team.

    Args:
        workers: the team's other threads, by the system's numbers.
        cpus: that all of them may use, as many as there are threads.
    """

    def __init__(self, workers: Iterable[int], cpus: Iterable[int]) -> None:
        self.caller: int | None = None
        self._cpus = frozenset(cpus)
        self._of: dict[int, int | None] = dict.fromkeys(workers)

    @property
    def of(self) -> Mapping[int, int | None]:
        """The CPU of each worker; None before the first call."""
        return self._of

    def sit(self, cpu: int) -> bool:
        """Has the workers keep off the CPU that the caller is on now.

        Returns:
            Whether the team is still there.
        """
        if cpu not in self._cpus or {*self._cpus} != os.sched_getaffinity(0):
            return True  # somebody has said meanwhile where the caller runs
        free = self._cpus.difference([cpu], self._of.values())
        for worker, place in self._of.items():
            if place is None or place == cpu:
                new, *more = sorted(free)
                try:
                    os.sched_setaffinity(worker, [new])
                except OSError:  # the thread has ended
                    return False
                self._of[worker], free = new, frozenset(more)
        self.caller = cpu
        return True


class _Seated(threading.local):
    """The teams of the calling thread by their sizes; None for those that are left to the system."""

    def __init__(self) -> None:
        self.teams: dict[int, Seats | None] = {}


_seated = _Seated()


@cache
def _current() -> Callable[[], int] | None:
    """Tells the CPU that the calling thread is on; None where teams are left to the system."""
    if not hasattr(os, "sched_setaffinity") or any(name in os.environ for name in PLACING):
        return None
    try:
        function = ctypes.PyDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None
    function.argtypes = ()
    function.restype = ctypes.c_int
    return function


def keep_apart(team: Team, threads: int) -> None:
    """Has the threads of the calling one's team run on other CPUs than it does."""
    current = _current()
    if current is None:
        return
    teams = _seated.teams
    if threads not in teams:
        teams[threads] = _seats(team, threads)
    seats = teams[threads]
    if seats is None:
        return
    cpu = current()
    if cpu != seats.caller and not seats.sit(cpu):
        teams[threads] = None


def _seats(team: Team, threads: int) -> Seats | None:
    cpus = os.sched_getaffinity(0)
    if threads < 2 or len(cpus) != threads:
        return None
    came = list[int]()
    team.everywhere(threads, lambda _: came.append(threading.get_native_id()))
    workers = {*came} - {threading.get_native_id()}
    return Seats(workers, cpus) if len(workers) == threads - 1 else None
