"""With this folder in PYTHONPATH no kernel is taken for proven, in a process and in all that it starts.

So a library is like one that nobody has swept. `benchmarks/trust.py` measures what that costs; fuzzers that run so find
what verification lets through:

    PYTHONPATH=benchmarks/unproven ONEDNN_GRAPH_VERIFY=child python tests/tools/fuzz_graphs.py --seconds 600
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

PROVEN = "onednn_graph.backends.onednn.proven"


class _Unproven:
    """Has the module's `is_proven` say no, before anybody else has it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name != PROVEN:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            module.is_proven = lambda lib, function, implementation: False

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Unproven())
