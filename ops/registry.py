"""The registry of ops: open, so that a user's own op is as good as a built-in one."""

from __future__ import annotations

from collections.abc import Iterator

from .errors import SchemaError, UnknownOpError
from .hints import kind_hint
from .schema import OpNames, OpSchema
from .values import format_value

HOST = "host"
"""The family of ops that importers fall back to, which the documented op set does not have."""


class OpRegistry:
    """Schemas by kind and by legacy name.

    What it lists is the op set and a user's ops; those that importers fall back to are apart, in `host`.
    """

    def __init__(self) -> None:
        self._schemas: dict[str, OpSchema] = {}
        self._written: dict[str, str] = {}

    def register(self, schema: OpSchema) -> OpSchema:
        """Adds `schema` under its kind and its aliases, and returns it.

        Raises:
            SchemaError: one of the names is taken.
        """
        for name in (schema.kind, *(alias.kind for alias in schema.aliases)):
            if name in self._written:
                raise SchemaError(
                    f"op kind '{name}' is already registered by {self._written[name]}; choose another name"
                )
        self._schemas[schema.kind] = schema
        for name in (schema.kind, *(alias.kind for alias in schema.aliases)):
            self._written[name] = schema.kind
        return schema

    def unregister(self, kind: str) -> None:
        """Removes a kind and its aliases, for tests and interactive work."""
        del self._schemas[kind]
        self._written = {name: k for name, k in self._written.items() if k != kind}

    def resolve(self, kind: object) -> tuple[OpSchema, OpNames]:
        """The schema of `kind` and the names that this spelling has.

        Raises:
            UnknownOpError: nothing of that name is registered; the message has the nearest name.
        """
        if not isinstance(kind, str) or kind not in self._written:
            of_set = [name for name, own in self._written.items() if self._schemas[own].family != HOST]
            hint = kind_hint(kind, of_set) or kind_hint(kind, self._written)
            raise UnknownOpError(
                f"unknown op kind {format_value(kind)}{hint}; onednn_graph.list_ops() lists the registered kinds"
            )
        schema = self._schemas[self._written[kind]]
        return schema, schema.names(str(kind))

    def __iter__(self) -> Iterator[OpSchema]:
        return iter(schema for schema in self._sorted() if schema.family != HOST)

    def __len__(self) -> int:
        return sum(schema.family != HOST for schema in self._schemas.values())

    @property
    def host(self) -> tuple[OpSchema, ...]:
        """The ops that importers fall back to."""
        return tuple(schema for schema in self._sorted() if schema.family == HOST)

    def _sorted(self) -> list[OpSchema]:
        return sorted(self._schemas.values(), key=lambda schema: schema.kind)

    def __contains__(self, kind: object) -> bool:
        return kind in self._written


REGISTRY = OpRegistry()
"""The one registry that graphs use."""
