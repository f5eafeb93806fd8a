"""The CPUs of a benchmark's processes.

With OMP_PROC_BIND=true whoever loads OpenMP is bound to one CPU from then on, and a process that it starts would have
that one for all of its threads. So this is imported before torch and the library are.
"""

import os

CPUS = os.sched_getaffinity(0)
"""Of the benchmark itself when it began."""


def anywhere() -> None:
    """`preexec_fn` of a process that may run wherever the benchmark was allowed to."""
    os.sched_setaffinity(0, CPUS)
