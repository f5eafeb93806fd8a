"""How many threads kernels use: what is asked for, and how many CPUs the process may keep busy."""

from __future__ import annotations

import ctypes
import math
import os
from pathlib import Path

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value, integer

MOST_THREADS = 4096
"""More is a mistake, and would take the machine down with it."""
BINDING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY")
"""Variables by which OpenMP's threads are tied to CPUs, the calling one as well."""
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")

_asked: list[int] = []


def checked_threads(value: object, what: str = "threads") -> int | None:
    """A number of threads, or None.

    Raises:
        ArgumentTypeError, ArgumentError: neither None nor a whole number from 1 to 4096.
    """
    if value is None:
        return None
    number = None if isinstance(value, bool) else integer(value)
    if number is None:
        raise ArgumentTypeError(
            f"{what} must be a number of threads or None, got {format_value(value)} of type {type(value).__name__}"
        )
    if not 1 <= number <= MOST_THREADS:
        raise ArgumentError(
            f"{what} must be from 1 to {MOST_THREADS}, got {number}; leave it out for the default"
        )
    return number


def set_num_threads(n: int | None) -> None:
    """Says how many threads everything that is compiled from now on uses, where its compile or engine says nothing.

    Args:
        n: how many; None for the default, which `get_num_threads` tells.

    Raises:
        ArgumentTypeError, ArgumentError: no number from 1 to 4096.
    """
    number = checked_threads(n, "n")
    _asked[:] = [] if number is None else [number]


def asked_threads() -> int | None:
    """What `set_num_threads` was given last."""
    return _asked[0] if _asked else None


def get_num_threads() -> int:
    """How many threads what is compiled now may use, where its compile or engine says nothing.

    What `set_num_threads` was given; else the first number in `OMP_NUM_THREADS`; else the CPUs that the process may
    use.
    """
    return asked_threads() or _from_environment() or usable_cpus()


def _from_environment() -> int | None:
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else None


def usable_cpus() -> int:
    """The CPUs that the process may run on, and no more of them than its control group has time for."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if any(os.environ.get(name) for name in BINDING):
        cpus = _before_binding() or cpus
    quota = cpu_quota()
    return cpus if quota is None else max(1, min(cpus, math.ceil(quota)))


def _before_binding() -> int | None:
    """How many CPUs GNU OpenMP has found, before it tied the calling thread to one; None where it is not loaded."""
    try:
        return int(ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW).omp_get_num_procs())
    except (OSError, AttributeError):
        return None


def cpu_quota(groups: Path = CGROUPS, own: Path = OWN_CGROUP) -> float | None:
    """CPUs for which the control groups of the process give time, 1.5, say; None without a limit.

    Args:
        groups: where the file system of control groups is mounted.
        own: the file that names the group of the process.
    """
    found: list[float] = []
    for folder in _folders(groups, own):
        quota, period = _words(folder / "cpu.max") or (
            *(_words(folder / "cpu.cfs_quota_us") or ["max"]),
            *(_words(folder / "cpu.cfs_period_us") or ["0"]),
        )
        if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
            found.append(int(quota) / int(period))
    return min(found, default=None)


def _folders(groups: Path, own: Path) -> list[Path]:
    """The process's group and all that it is in, of version 2, and of version 1 where that counts CPU time."""
    found: list[Path] = []
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except OSError:
        return [groups]
    for line in lines:
        number, controllers, path = line.split(":", 2)
        root = groups if number == "0" else groups / "cpu" if "cpu" in controllers.split(",") else None
        if root is None:
            continue
        folder = root.joinpath(*[part for part in path.split("/") if part not in ("", "..")])
        found += [folder, *[parent for parent in folder.parents if parent.is_relative_to(root)]]
    return found


def _words(file: Path) -> list[str] | None:
    try:
        words = file.read_text(encoding="utf-8").split()
    except OSError:
        return None
    return words or None
