"""What this installation is and uses, for `onednn-graph info` and for reports of problems."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import onednn_graph

from ..backends.onednn.library import f16c
from ..backends.onednn.library.loading import load
from ..backends.onednn.tuning_cache import cache_folder
from ..graph.runtime.engine import MACHINE_CODE, machine_code_allowed
from ..graph.runtime.environment import environment
from ..graph.runtime.threads import get_num_threads
from ..ops.errors import LibraryError

PACKAGES = ("numpy", "ml_dtypes", "attrs", "onnx", "torch", "netron")


def information() -> dict[str, Any]:
    """Names and values, in the order in which they are shown."""
    allowed = machine_code_allowed()
    data: dict[str, Any] = {
        "onednn-graph": onednn_graph.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpu": cpu_name(),
    }
    try:
        library = load()
    except LibraryError as error:
        data["oneDNN"] = f"not used: {error}"
    else:
        data |= {
            "oneDNN": ".".join(map(str, library.version)),
            "library": str(library.path),
            "instruction set": library.effective_isa,
            "threads": get_num_threads(),
            "waiting threads": library.waiting,
            "machine code": "allowed" if allowed else f"forbidden by {MACHINE_CODE}",
            "f16 conversion": "F16C" if allowed and f16c.load() is not None else "integer operations",
        }
    data["backends"] = {name: reason or "available" for name, reason in onednn_graph.backends().items()}
    folder = cache_folder()
    remembered = len(list(folder.glob("*.json"))) if folder.is_dir() else 0
    data["tuning cache"] = f"{folder} ({remembered} problems)"
    data["environment"] = environment()
    data["packages"] = {name: installed(name) for name in PACKAGES}
    return data


def installed(name: str) -> str:
    """The version of a distribution."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def cpu_name() -> str:
    """The CPU's name, where the system says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()
