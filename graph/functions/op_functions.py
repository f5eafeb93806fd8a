"""One function for each op: arrays in, array out. Made at first use; `op_functions.pyi` has their types."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from ...ops.errors import ArgumentTypeError, PortError
from ...ops.hints import argument_hint
from ...ops.schema import OpNames, OpSchema
from ..core.signatures import EAGER, MARKS, ByName, attribute_names, describe, options
from .eager import run_op


def _function(name: str, schema: OpSchema, names: OpNames) -> FunctionType:
    ports = [names.spell(p.name) for p in schema.inputs]
    by_name = () if any(p.repeat > 1 for p in schema.inputs) else tuple(ports)
    attributes = frozenset(attribute_names(schema, names)).difference(ports)
    extra = options(schema, names, EAGER)

    def call(*inputs: object, **given: Any) -> Any:
        # An input that is not given is None to `run_op`, which says what is missing.
        arrays = [*inputs, *(given.pop(port, None) for port in by_name[len(inputs) :])]
        own = {argument: given.pop(argument) for argument in attributes.intersection(given)}
        for argument in given:
            if argument not in extra:
                raise _refused(argument)
        return run_op(names.kind, arrays, own, **given)

    def _refused(argument: str) -> Exception:
        if argument in by_name:
            return PortError(
                f"{name}: input '{argument}' is given twice, by position and by name; give it once"
            )
        if argument in ports:
            return ArgumentTypeError(f"{name}: '{argument}' is given by position, one or one list of them")
        known = (*ports, *attribute_names(schema, names), *extra)
        return ArgumentTypeError(
            f"{name} has no argument '{argument}'{argument_hint(argument, known)}; it takes {', '.join(known)}"
        )

    return describe(call, name, schema, names, EAGER)


FUNCTIONS = ByName(_function, left_out=MARKS)
"""All of them, those of a user's ops too."""

__all__ = FUNCTIONS.names(built_in=True)  # pyright: ignore[reportUnsupportedDunderAll] -- in the stub they are written out


def __dir__() -> list[str]:
    return FUNCTIONS.names()


def __getattr__(name: str) -> FunctionType:
    function = FUNCTIONS.get(name)
    if function is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'", name=name)
    return function
