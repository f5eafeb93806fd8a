"""Which CPU this is."""

from __future__ import annotations

import functools
import platform
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
TELLING = ("vendor_id", "cpu family", "model", "model name", "stepping", "cache size")
"""Fields by which kinds of CPU differ where their names don't, as those of virtual machines."""


@functools.cache
def cpu_name() -> str:
    """The CPU's name, where the system says it."""
    return _fields(CPUINFO).get("model name") or platform.processor()


@functools.cache
def cpu_kind(file: Path = CPUINFO) -> str:
    """What times depend on that are measured on a CPU: CPUs of one kind have the same, machines of other kinds others.

    Args:
        file: where the system describes its CPUs.
    """
    fields = _fields(file)
    told = [fields[name] for name in TELLING if fields.get(name)]
    return ", ".join(told) or f"{platform.machine()} {platform.processor()}".strip()


@functools.cache
def cpu_family(file: Path = CPUINFO) -> str:
    """The vendor and the family, as `AuthenticAMD 25`; CPUs of one family have vector units alike.

    Args:
        file: where the system describes its CPUs.
    """
    fields = _fields(file)
    return " ".join(fields[name] for name in TELLING[:2] if fields.get(name))


def _fields(file: Path) -> dict[str, str]:
    """The fields of the first CPU."""
    try:
        first = file.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
