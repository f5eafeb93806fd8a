"""Tables of a vocabulary: each module enters its own translations, and one place merges them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from ...ops.errors import SchemaError

T = TypeVar("T", bound=Callable[..., Any])
F = TypeVar("F", bound=Callable[..., Any])


class Entries(dict[str, T], Generic[T]):
    """What one module knows of a vocabulary: op → translation, each op once.

    Args:
        prefix: what the names of all ops begin with.
    """

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._prefix = prefix

    def enter(self, *names: str) -> Callable[[F], F]:
        """Decorator: makes a function the translation of these ops."""

        def entered(function: F) -> F:
            self.add(dict.fromkeys(names, function))
            return function

        return entered

    def add(self, translations: Mapping[str, Any]) -> None:
        """Enters translations by the names of their ops.

        Raises:
            SchemaError: an op has one already.
        """
        self.update(merged(self, {f"{self._prefix}{name}": one for name, one in translations.items()}))


def merged(*tables: Mapping[str, T]) -> dict[str, T]:
    """All entries of several tables.

    Raises:
        SchemaError: an op stands in two of them.
    """
    whole: dict[str, T] = {}
    for table in tables:
        twice = whole.keys() & table.keys()
        if twice:
            raise SchemaError(
                f"{', '.join(sorted(twice))}: translated twice; take one out, or say `replaced`"
            )
        whole |= table
    return whole


def replaced(table: Mapping[str, T], by: Mapping[str, T]) -> dict[str, T]:
    """A table with other translations of some of its ops.

    Raises:
        SchemaError: one of these ops is not in the table.
    """
    strange = by.keys() - table.keys()
    if strange:
        raise SchemaError(f"{', '.join(sorted(strange))}: nothing to replace in the table; say `merged`")
    return {**table, **by}
