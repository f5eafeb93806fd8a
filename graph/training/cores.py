"""Cores for the ranks of one machine: each gets its own, so that kernels of one don't wait for those of another."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..runtime.threads import asked_threads, cpu_quota, set_num_threads

TASKS = Path("/proc/self/task")


def share_of(cpus: Collection[int], rank: int, ranks: int) -> tuple[int, ...]:
    """The CPUs of one of several ranks: neighbours, as many for each as can be; all where CPUs are fewer."""
    ordered = sorted(cpus)
    if len(ordered) < ranks:
        return tuple(ordered)
    return tuple(ordered[rank * len(ordered) // ranks : (rank + 1) * len(ordered) // ranks])


def split_cores(comm: Any, mpi: Any) -> None:
    """Gives the process its share of the CPUs and as many threads, unless the user has settled that.

    Nothing is changed where `OMP_NUM_THREADS` is set or `set_num_threads` was called. Where the launcher has given each
    rank its own CPUs already, threads are as many as these.

    Args:
        comm: communicator of mpi4py; every rank of it must call.
        mpi: the module of mpi4py.
    """
    if not hasattr(os, "sched_getaffinity"):
        return
    here = comm.Split_type(mpi.COMM_TYPE_SHARED)
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    free = not os.environ.get("OMP_NUM_THREADS", "").strip() and asked_threads() is None
    everyone: list[tuple[tuple[int, ...], bool]] = here.allgather((cpus, free))
    rank, ranks = here.rank, here.size
    here.Free()
    if ranks == 1 or not all(each for _, each in everyone):
        return
    if all(each == cpus for each, _ in everyone):
        own = share_of(cpus, rank, ranks)
        threads = len(own) if len(cpus) >= ranks else 1
        if own != cpus:
            _move(own)
    else:
        threads = len(cpus)
    quota = cpu_quota()
    set_num_threads(threads if quota is None else max(1, min(threads, int(quota / ranks))))


def _move(cpus: tuple[int, ...]) -> None:
    """Moves every thread of the process, those of NumPy's matrix products too, and all that they will start."""
    for task in [int(folder.name) for folder in TASKS.iterdir()] if TASKS.is_dir() else [0]:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(task, cpus)
