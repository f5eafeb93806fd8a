"""A warning where threads will wait in long loops on a machine that others keep busy, as after `import torch`."""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

from ....graph.runtime.callers import outside
from ....graph.runtime.threads import get_num_threads
from ....ops.errors import BusyMachineWarning
from .waiting import SPIN_COUNT, SPIN_VARIABLE

PRESSURE = Path("/proc/pressure/cpu")
"""Linux says there for how much of the time somebody waited for a CPU."""
MUCH_PRESSURE = 20.0
"""Per cent of the last minute."""
MUCH_LOAD = 1.25
"""Threads of others that run or wait, for each CPU, where the system doesn't say pressure."""
SOME_LOAD = 1.0
"""As many where it does: who waits for whom it doesn't tell, and those who wait may all be of this process."""
MINUTE = 60.0
"""Seconds that the system's numbers are about."""
OURSELVES = Path("/proc/self")

_found: list[str | None] = []
"""What `crowd` has said, once it was asked."""


def crowd(pressure: Path = PRESSURE) -> str | None:
    """What tells that others keep the CPUs busy, in words; None where they don't.

    Some small reads: it is asked once in a process.
    """
    try:
        load, cpus = max(0.0, os.getloadavg()[0] - own_load()), os.cpu_count() or 1
    except (OSError, AttributeError):
        return None
    try:
        some = dict(word.split("=") for word in pressure.read_text("utf-8").splitlines()[0].split()[1:])
        waited = float(some["avg60"])
    except (OSError, ValueError, LookupError):
        return f"the load of others is {load:.1f} on {cpus} CPUs" if load > MUCH_LOAD * cpus else None
    if waited < MUCH_PRESSURE or load < SOME_LOAD:
        return None
    return f"threads waited for a CPU in {waited:.0f} % of the last minute"


def own_load(process: Path = OURSELVES) -> float:
    """About how many threads of this process ran or waited for a CPU in the last minute; 0 where nobody tells.

    Of a process that is older it is the mean since its start. Threads that have ended don't count.
    """
    total = 0
    try:
        # Behind the name, which may have anything in it, `starttime` is the 20th field.
        started = int((process / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")
        for thread in (process / "task").iterdir():
            with suppress(OSError):  # of a thread that has ended meanwhile
                ran, waited, *_ = (thread / "schedstat").read_text("utf-8").split()
                total += int(ran) + int(waited)
    except (OSError, ValueError, LookupError, AttributeError):
        return 0.0
    return total / 1e9 / max(MINUTE, age)


def warn_of_crowd() -> None:
    """Says once that threads spin for long beside other processes, in a process whose OpenMP others have loaded."""
    if _found or get_num_threads() == 1:
        return
    words = crowd()
    _found.append(words)  # before the warning, which may be an error: the next call goes on
    if words is None:
        return
    by = "by torch" if "torch" in sys.modules else "by others"
    warnings.warn(
        f"GNU OpenMP was loaded {by} before oneDNN, so that its threads wait in loops of milliseconds, and the machine "
        f"is busy: {words}; models may take several times as long. Set {SPIN_VARIABLE}={SPIN_COUNT} before Python "
        "starts, or take fewer threads by onednn_graph.set_num_threads",
        BusyMachineWarning,
        stacklevel=outside(),
    )
