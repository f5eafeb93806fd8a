"""How GNU OpenMP's threads wait for work, which is decided once, where OpenMP is loaded.

Between two kernels, and at barriers within one, its threads look for work in a loop before they sleep. By default they
look some milliseconds, and whoever else wants the CPU then keeps the thread from running for which all others
wait: with another process beside it a model takes ten times as long and more.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

SPIN_COUNT = 3000
"""Turns of the loop; `benchmarks/threads.py` measures what it does."""
OPENMPS_OWN = 300000
"""Turns in GNU OpenMP itself where nobody has said anything."""
LOADED_BY_OTHERS = f"OpenMP was loaded by others: they look for work {OPENMPS_OWN} times, then sleep"
SPIN_VARIABLE, POLICY_VARIABLE = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
POLICY_VARIABLES = (POLICY_VARIABLE, SPIN_VARIABLE)
MAPS = Path("/proc/self/maps")


def openmp_is_loaded(maps: Path = MAPS) -> bool:
    """Whether the process has the GNU OpenMP library that oneDNN uses; copies under names of their own don't count."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    return any(line.rpartition("/")[2].startswith("libgomp.so") for line in lines)


def how_threads_wait(environment: Mapping[str, str], *, loaded: bool) -> str:
    """What holds for threads that wait, in words.

    Args:
        environment: of the process.
        loaded: whether somebody has loaded GNU OpenMP before.
    """
    said = [f"{name}={environment[name]}" for name in POLICY_VARIABLES if name in environment]
    if said:
        return f"as {' and '.join(said)} said when OpenMP was loaded"
    if loaded:
        return LOADED_BY_OTHERS
    return f"they look for work {SPIN_COUNT} times, then sleep"


@contextmanager
def short_waits(*, gnu: bool = True) -> Generator[str, None, None]:
    """Sets a short loop for an OpenMP library that is loaded in the block; gives what holds, in words.

    As soon as a second thread of Python has a team, GNU OpenMP has more threads than CPUs, and looks for work a hundred
    times only, so that models take several times as long; but a thousand times where its policy is said to be active.

    One that others have loaded before keeps its own. A team of more threads than there are CPUs would make it wait a
    hundred turns, but then a thread has gone to sleep at nearly every barrier: models took twice as long, and longer
    than with its own way beside busy processes, too.

    Args:
        gnu: whether it is GNU's for certain. To others that policy means that threads never sleep.
    """
    loaded = openmp_is_loaded()
    settled = any(name in os.environ for name in POLICY_VARIABLES)
    how = how_threads_wait(os.environ, loaded=loaded)
    if loaded or settled:
        yield how
        return
    told = {SPIN_VARIABLE: str(SPIN_COUNT), **({POLICY_VARIABLE: "active"} if gnu else {})}
    os.environ.update(told)
    try:
        yield how
    finally:
        for name in told:
            os.environ.pop(name, None)
