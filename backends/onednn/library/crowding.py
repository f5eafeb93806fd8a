"""A warning where threads will wait in long loops on a machine that others keep busy, as after `import torch`."""

from __future__ import annotations

import os
import sys
import warnings
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
"""Threads that run or wait, for each CPU, where the system doesn't say pressure."""

_said: list[str] = []


def crowd(pressure: Path = PRESSURE) -> str | None:
    """What tells that more threads want CPUs than there are, in words; None where all have theirs.

    Two small reads: it is asked once, when the library is loaded.
    """
    try:
        some = dict(word.split("=") for word in pressure.read_text("utf-8").splitlines()[0].split()[1:])
        waited = float(some["avg60"])
    except (OSError, ValueError, LookupError):
        try:
            load, cpus = os.getloadavg()[0], os.cpu_count() or 1
        except (OSError, AttributeError):
            return None
        return f"the load is {load:.1f} on {cpus} CPUs" if load > MUCH_LOAD * cpus else None
    return (
        f"threads waited for a CPU in {waited:.0f} % of the last minute" if waited >= MUCH_PRESSURE else None
    )


def warn_of_crowd() -> None:
    """Says once that threads spin for long beside other processes, in a process whose OpenMP others have loaded."""
    if _said or get_num_threads() == 1:
        return
    words = crowd()
    if words is None:
        return
    _said.append(words)
    by = "by torch" if "torch" in sys.modules else "by others"
    warnings.warn(
        f"GNU OpenMP was loaded {by} before oneDNN, so that its threads wait in loops of milliseconds, and the machine "
        f"is busy: {words}; models may take several times as long. Set {SPIN_VARIABLE}={SPIN_COUNT} before Python "
        "starts, or take fewer threads by onednn_graph.set_num_threads",
        BusyMachineWarning,
        stacklevel=outside(),
    )
