"""Environment variables that change what runs here, for reports of problems."""

from __future__ import annotations

import os

_PREFIXES = ("ONEDNN_", "DNNL_", "OMP_", "GOMP_", "KMP_")


def environment() -> dict[str, str]:
    """What the process has of the library's, OpenMP's and our own variables, by name."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIXES)}
