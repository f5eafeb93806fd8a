"""How GNU OpenMP's threads wait for work, which is decided once, where the library is loaded.

Between two kernels, and at barriers within one, its threads look for work in a loop before they sleep. By default they
look some milliseconds, and whoever else wants the CPU then keeps the thread from running for which all others
wait: with another process beside it a model takes ten times as long and more.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from ctypes import c_void_p
from pathlib import Path
from typing import Any

from attrs import frozen

SPIN_COUNT = 3000
"""Turns of the loop; `benchmarks/threads.py` measures what it does."""
CROWDED_COUNT = 1000
"""Turns in GNU OpenMP itself while it has more threads than CPUs."""
SPIN_VARIABLE = "GOMP_SPINCOUNT"
POLICY_VARIABLES = ("OMP_WAIT_POLICY", SPIN_VARIABLE)
MAPS = Path("/proc/self/maps")


@frozen
class Waiting:
    """How threads wait.

    Attributes:
        words: for people.
        needs_crowd: they wait long, unless `crowd` is called.
    """

    words: str
    needs_crowd: bool = False


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
        return f"OpenMP was loaded by others: they look for work {CROWDED_COUNT} times, then sleep, as in a crowd"
    return f"they look for work {SPIN_COUNT} times, then sleep"


@contextmanager
def short_waits() -> Generator[Waiting, None, None]:
    """Sets a short loop for an OpenMP library that is loaded in the block; gives what holds.

    It reads the environment as it is loaded. The variable is gone afterwards, so that child processes and other copies
    of OpenMP are as their user wants them.
    """
    loaded = openmp_is_loaded()
    settled = any(name in os.environ for name in POLICY_VARIABLES)
    how = Waiting(how_threads_wait(os.environ, loaded=loaded), needs_crowd=loaded and not settled)
    if loaded or settled:
        yield how
        return
    os.environ[SPIN_VARIABLE] = str(SPIN_COUNT)
    try:
        yield how
    finally:
        os.environ.pop(SPIN_VARIABLE, None)


def crowd(c: Any) -> None:
    """Has the threads of an OpenMP library that others have loaded wait in a short loop too.

    GNU OpenMP looks for work no more than a thousand times while it has more threads than there were CPUs when it was
    loaded. So one thread here gathers a team of more than that, once, and then sleeps with it for good.

    Args:
        c: a library that is bound to that OpenMP.
    """
    gathered = threading.Event()

    def gather() -> None:
        c.omp_set_dynamic(0)
        c.GOMP_parallel(ctypes.cast(c.omp_get_level, c_void_p), None, c.omp_get_num_procs() + 1, 0)
        gathered.set()
        threading.Event().wait()

    # The team goes where its thread ends; that of a daemon doesn't, and keeps no interpreter from ending.
    thread = threading.Thread(target=gather, name="onednn-crowd", daemon=True)
    with suppress(RuntimeError):  # no thread can be started any more
        thread.start()
        gathered.wait()
