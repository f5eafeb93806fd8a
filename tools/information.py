"""What this installation is and uses, for `onednn-graph info` and for reports of problems."""

from __future__ import annotations

import platform
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import onednn_graph

from ..backends.onednn.library import f16c
from ..backends.onednn.library.cpu import cpu_name
from ..backends.onednn.library.loading import Library, load
from ..backends.onednn.proven import extrapolated, swept
from ..backends.onednn.weight_gradients.machine import factors_of
from ..graph.compile.backend import BACKENDS, Rated
from ..graph.runtime.cache_folder import cache_folder
from ..graph.runtime.engine import MACHINE_CODE, machine_code_allowed
from ..graph.runtime.environment import environment
from ..graph.runtime.threads import get_num_threads
from ..graph.trust.settings import verifying
from ..graph.trust.store import STORE
from ..ops.errors import LibraryError
from ..ops.values import counted

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
            "named by": library.source,
            "runs on": library.runtime.name,
            "proven": _proven(library),
            "beyond 3.2": ", ".join(sorted(library.capabilities.later)) or "nothing",
            "instruction set": library.effective_isa,
            "threads": get_num_threads(),
            "waiting threads": library.waiting,
            "machine code": "allowed" if allowed else f"forbidden by {MACHINE_CODE}",
            "products": _products(),
            "cost data": _cost_data(library),
            "f16 conversion": "F16C" if allowed and f16c.load() is not None else "integer operations",
        }
    data["backends"] = {name: reason or "available" for name, reason in onednn_graph.list_backends().items()}
    folder = cache_folder()
    remembered = len(list(folder.glob("*.json"))) if folder is not None and folder.is_dir() else 0
    data["tuning cache"] = f"{folder or 'no folder'} ({counted(remembered, 'problem')})"
    data["verdicts"] = _verdicts()
    data["environment"] = environment()
    data["packages"] = {name: installed(name) for name in PACKAGES}
    return data


def _verdicts() -> str:
    """How many there are about kernels, by kind, and where new ones are found."""
    kinds = Counter(one.kind.value for one in STORE.rows().values())
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    return f"{STORE.path or 'in memory'} ({told}); verification: {verifying()}"


def _proven(library: Library) -> str:
    """How much of the library is proven, and what was taken for what."""
    other = extrapolated(library)
    return swept(library).value + (f" (taken: {other})" if other else "")


def _cost_data(library: Library) -> str:
    """By which data weight gradients are chosen where nothing else is known."""
    kinds = len(factors_of(library))
    if not kinds:
        return "of the package; `onednn-graph tune --machine` fits them to this machine"
    return f"fitted to this machine ({counted(kinds, 'kind')} of primitives)"


def _products() -> str:
    """What products of matrices were measured to give in each number format."""
    backend = BACKENDS.get("onednn")
    if not isinstance(backend, Rated):
        return "not measured"
    rates = backend.rates()
    return ", ".join(f"{data_type.value} {rate / 1e9:.0f}" for data_type, rate in rates.items()) + " GF/s"


def installed(name: str) -> str:
    """The version of a distribution."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
