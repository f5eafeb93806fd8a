"""What is said of a name that a public module has not: where it is, or what it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import NoReturn

from onednn_graph.graph.functions.misnamed import hint
from onednn_graph.ops.errors import nearest

MODULES = ("training", "profiling", "errors", "extend")
"""Of `onednn_graph`, with names of their own."""


def unknown(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for it.

    Args:
        module: as it is imported.
        name: that was asked of it.
        known: names that it has.
    """
    told = (
        "" if name.startswith("_") else _hint(module, name, known)
    )  # libraries ask for private names in passing
    return AttributeError(f"module '{module}' has no attribute '{name}'{told}", name=name)


def refusing(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that has these names and no others."""

    def missing(name: str) -> NoReturn:
        raise unknown(module, name, known)

    return missing


def _hint(module: str, name: str, known: Iterable[str]) -> str:
    for other in MODULES:
        its: list[str] = import_module(f"onednn_graph.{other}").__all__
        same = next((one for one in its if one.casefold() == name.casefold()), None)
        if same is not None and module != f"onednn_graph.{other}":
            return f" (did you mean 'onednn_graph.{other}.{same}'?)"
    return hint(name, known) if module == "onednn_graph" else nearest(name, known)
