"""The CPUs of a benchmark's processes.

With OMP_PROC_BIND=true whoever loads OpenMP is bound to one CPU from then on, and a process that it starts would have
that one for all of its threads. So this is imported before torch and the library are, and says so where it is not.
"""

import os
import sys

LOADING = "torch", "onednn_graph"
"""Who loads OpenMP."""

if "OMP_PROC_BIND" in os.environ and (loaded := [name for name in LOADING if name in sys.modules]):
    raise ImportError(f"import affinity before {loaded[0]}, which may have bound this process to one CPU")

CPUS = os.sched_getaffinity(0)
"""Of the benchmark itself when it began."""


def anywhere() -> None:
    """`preexec_fn` of a process that may run wherever the benchmark was allowed to."""
    os.sched_setaffinity(0, CPUS)
