"""Threads and how they wait: what the process is told, what the machine has, and what of it hurts."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...graph.runtime.threads import cpu_quota
from ...ops.records import frozen

MAPS = Path("/proc/self/maps")
STAT = Path("/proc/stat")
INFO = Path("/proc/cpuinfo")
CPUS = Path("/sys/devices/system/cpu")
RUNTIMES = ("libgomp", "libiomp", "libomp")
ROOM = 0.7
"""CPUs that others may want beyond those that there are, before it counts: something always runs."""
SPINS = 30_000
"""Turns of GNU OpenMP's loop above which waiting threads keep others off; its own default is ten times as many."""
BLOCK_MS = 10
"""Milliseconds above which Intel's OpenMP threads keep others off; its own default is 200."""


@frozen(kw_only=True)
class Machine:
    """What the process has.

    Attributes:
        cpus: of the machine.
        allowed: that the process may run on.
        cores: of those, counting hyperthreads of one core once; None where that is unknown.
        quota: CPUs for which its control group gives time; None without a limit.
        busy: CPUs that others kept busy; None where that is unknown.
        environment: variables that say how threads run.
        f16, bf16: whether there are instructions that compute in these types.
    """

    cpus: int
    allowed: int
    cores: int | None
    quota: float | None
    busy: float | None
    environment: dict[str, str]
    f16: bool = True
    bf16: bool = True

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "cpus": self.cpus,
            "allowed_cpus": self.allowed,
            "cores": self.cores,
            "cpu_quota": self.quota,
            "busy_cpus": self.busy,
            "environment": self.environment,
            "f16": self.f16,
            "bf16": self.bf16,
        }

    @property
    def usable(self) -> int:
        """CPUs that can be kept busy."""
        return max(1, min(self.allowed, int(self.quota) if self.quota else self.allowed))


@frozen(kw_only=True)
class Setting:
    """A setting that hurts.

    Attributes:
        code: for scripts.
        what, why, do: a sentence each.
        severity: `setting`, or `note` for what may not be meant.
    """

    code: str
    what: str
    why: str
    do: str
    severity: str = "setting"


VARIABLES = ("OMP_", "GOMP_", "KMP_", "MKL_NUM", "MKL_DYN", "OPENBLAS_NUM", "ONEDNN_", "DNNL_", "TORCH_NUM")


def machine() -> Machine:
    """Of this process."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    cpus = os.cpu_count() or 1
    return Machine(
        cpus=cpus,
        allowed=len(allowed) if allowed else cpus,
        cores=cores_of(allowed) if allowed else None,
        quota=cpu_quota(),
        busy=busy_cpus(),
        environment={name: v for name, v in sorted(os.environ.items()) if name.startswith(VARIABLES)},
        f16=has_any(("avx512_fp16", "amx_fp16", "asimdhp", "fphp")),
        bf16=has_any(("avx512_bf16", "amx_bf16", "bf16")),
    )


def busy_cpus(seconds: float = 0.3, file: Path = STAT) -> float | None:
    """How many CPUs are busy on average for so long, by whatever runs; None where the system doesn't say."""
    before = _ticks(file)
    time.sleep(seconds)
    after = _ticks(file)
    if before is None or after is None or after[0] <= before[0]:
        return None
    return (os.cpu_count() or 1) * (1 - (after[1] - before[1]) / (after[0] - before[0]))


def _ticks(file: Path) -> tuple[int, int] | None:
    """Ticks of all CPUs since they began, and those of them without work."""
    try:
        numbers = [int(word) for word in file.read_text(encoding="utf-8").splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    return sum(numbers), sum(numbers[3:5])


def has_any(flags: Sequence[str], file: Path = INFO) -> bool:
    """Whether the CPU has one of these; it has where it doesn't say."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    lines = [line for line in text.splitlines() if line.lower().startswith(("flags", "features"))]
    return not lines or not set(flags).isdisjoint(lines[0].split())


def cores_of(cpus: Sequence[int], folder: Path = CPUS) -> int | None:
    """How many cores these CPUs are on; None where the machine doesn't say."""
    found: set[str] = set()
    for cpu in cpus:
        try:
            found.add((folder / f"cpu{cpu}/topology/thread_siblings_list").read_text(encoding="utf-8"))
        except OSError:
            return None
    return len(found)


def openmp_files(maps: Path = MAPS) -> tuple[str, ...]:
    """The OpenMP libraries that the process has, each once."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    paths = {line.split(maxsplit=5)[-1] for line in lines if "/" in line}
    return tuple(sorted(p for p in paths if Path(p).name.startswith(RUNTIMES)))


def settings(found: Machine, sides: Mapping[str, int | None], runtimes: Sequence[str]) -> list[Setting]:
    """What hurts.

    Args:
        found: the machine.
        sides: threads that each side runs on, by what it is called behind `threads run`; None where that is not known.
        runtimes: OpenMP libraries in the peer's process.
    """
    known = {where: number for where, number in sides.items() if number is not None}
    numbers: dict[str, int | None] = {**known}
    if len(set(known.values())) < 2:
        numbers = {"": next(iter(known.values()), None)}
    most = max(known.values(), default=None)
    return [
        *(one for where, number in numbers.items() for one in _too_many(found, number, where)),
        *(one for where, number in numbers.items() for one in _too_few(found, number, where)),
        *_limited(found),
        *_waiting(found.environment),
        *_runtimes(runtimes),
        *_busy(found, most),
    ]


def _threads(number: int, where: str = "") -> str:
    """`3 threads run here`."""
    return f"{number} thread{'s run' if number > 1 else ' runs'}{where and ' '}{where}"


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "").split(",")[0].strip()
    return int(text) if text.isdecimal() else None


def _too_many(found: Machine, threads: int | None, where: str) -> list[Setting]:
    asked = _number(found.environment, "OMP_NUM_THREADS")
    number = threads or asked
    if number is None:
        return []
    if number > found.usable:
        reason = f"the process may use {found.allowed} CPU{'s' if found.allowed > 1 else ''}"
        if found.quota is not None and found.quota < found.allowed:
            reason = f"its control group gives time for {found.quota:g} CPUs"
        name = "OMP_NUM_THREADS" if asked == number else "the number of threads"
        return [
            Setting(
                code="too-many-threads",
                what=f"{_threads(number, where)} where {reason}",
                why="each barrier waits for threads that have no CPU, so that models take several times as long",
                do=f"set {name} to {found.usable}"
                if asked == number
                else f"set OMP_NUM_THREADS={found.usable}",
            )
        ]
    if found.cores is not None and number > found.cores:
        return [
            Setting(
                code="hyperthreads",
                what=f"{_threads(number, where)} on {found.cores} core{'s' if found.cores > 1 else ''}",
                why="two threads of one core share its units of multiplication, and wait for each other",
                do=f"try OMP_NUM_THREADS={found.cores}",
            )
        ]
    return []


def _too_few(found: Machine, threads: int | None, where: str) -> list[Setting]:
    number = threads or _number(found.environment, "OMP_NUM_THREADS")
    most = min(found.usable, found.cores or found.usable)
    if number is None or number >= most:
        return []
    return [
        Setting(
            code="idle-cpus",
            what=f"{_threads(number, where)} where there are {most} cores",
            why="the others have nothing to do, unless other processes are meant to have them",
            do=f"set OMP_NUM_THREADS={most} if this process is to have the machine",
            severity="note",
        )
    ]


def _limited(found: Machine) -> list[Setting]:
    limit, asked = (_number(found.environment, name) for name in ("OMP_THREAD_LIMIT", "OMP_NUM_THREADS"))
    if limit is None or limit >= (asked or found.usable):
        return []
    return [
        Setting(
            code="thread-limit",
            what=f"OMP_THREAD_LIMIT={limit} leaves a kernel fewer threads than the {asked or found.usable} it asks for",
            why="work that was cut for more threads is done by fewer, one share after the other",
            do=f"take OMP_THREAD_LIMIT away, or set OMP_NUM_THREADS={limit} as well",
        )
    ]


def _waiting(environment: Mapping[str, str]) -> list[Setting]:
    found: list[Setting] = []
    told = {
        name: environment.get(name, "").strip()
        for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
    }
    why = "threads that have nothing to do keep their CPUs, and whoever else wants one waits: with another process on "
    why += "the machine a model takes ten times as long"
    if told["OMP_WAIT_POLICY"].lower() == "active" and not told["GOMP_SPINCOUNT"].isdecimal():
        found.append(
            Setting(
                code="active-waiting",
                what="OMP_WAIT_POLICY=active has waiting threads never sleep",
                why=why,
                do="take it away unless nothing else runs on the machine",
            )
        )
    spins = told["GOMP_SPINCOUNT"].lower()
    if spins in ("infinite", "infinity") or (spins.isdecimal() and int(spins) > SPINS):
        found.append(
            Setting(
                code="long-spins",
                what=f"GOMP_SPINCOUNT={told['GOMP_SPINCOUNT']} has waiting threads spin for long",
                why=why,
                do="set GOMP_SPINCOUNT=3000",
            )
        )
    blocks = told["KMP_BLOCKTIME"].lower().removesuffix("ms")
    if blocks == "infinite" or (blocks.isdecimal() and int(blocks) > BLOCK_MS):
        found.append(
            Setting(
                code="long-blocktime",
                what=f"KMP_BLOCKTIME={told['KMP_BLOCKTIME']} has waiting threads spin that many milliseconds",
                why=why,
                do="set KMP_BLOCKTIME=1 where other processes or runtimes want the CPUs",
            )
        )
    if told["OMP_WAIT_POLICY"].lower() == "passive":
        found.append(
            Setting(
                code="passive-waiting",
                what="OMP_WAIT_POLICY=passive has threads sleep after each kernel",
                why="waking them costs some microseconds for each kernel, of which a model has hundreds",
                do="set GOMP_SPINCOUNT=3000 instead, unless the CPUs are shared",
                severity="note",
            )
        )
    return found


def _runtimes(files: Sequence[str]) -> list[Setting]:
    names = sorted({Path(path).name for path in files})
    if len(names) < 2:
        return []
    return [
        Setting(
            code="two-openmps",
            what=f"the process has {len(names)} OpenMP libraries, {', '.join(names)}",
            why="each has threads of its own for all CPUs, and those of one still wait on them when the other works",
            do="have one: install builds that use the same OpenMP, or do the work of one of them in another process",
        )
    ]


def _busy(found: Machine, threads: int | None) -> list[Setting]:
    wanted = threads or found.usable
    are = "threads are" if wanted > 1 else "thread is"
    if found.busy is None or found.busy + min(wanted, found.allowed) < found.cpus + ROOM:
        return []
    return [
        Setting(
            code="busy-machine",
            what=f"others kept {found.busy:.1f} of the {found.cpus} CPUs busy, and {wanted} {are} to run",
            why="a thread without a CPU holds up all others at the next barrier; times here are worth little",
            do="run it again on an idle machine, or give the process CPUs of its own",
        )
    ]
