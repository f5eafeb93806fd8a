"""torch itself, for the modules here: they are imported only where it is."""

from __future__ import annotations

import importlib
from typing import Any

from ..runtime.libraries import library

torch: Any = library("torch", "torch", "onednn_graph.torch")
"""The package `torch`."""
aten: Any = torch.ops.aten
"""Its operators."""
StorageWeakRef: Any = importlib.import_module("torch.multiprocessing.reductions").StorageWeakRef
