"""torch itself, for the modules here: they are imported only where it is."""

from __future__ import annotations

import importlib
from typing import Any

from ..runtime.libraries import library

torch: Any = library("torch", "torch", "onednn_graph.torch")
"""The package `torch`."""
aten: Any = torch.ops.aten
"""Its operators."""


def inner(module: str, name: str) -> Any:
    """What torch has in a module that it does not import by itself."""
    return getattr(importlib.import_module(module), name)
