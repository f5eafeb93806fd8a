"""Which CPU this is."""

from __future__ import annotations

import functools
import platform


@functools.cache
def cpu_name() -> str:
    """The CPU's name, where the system says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()
