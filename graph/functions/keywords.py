"""What is said where a public function is called with arguments that it has not, in the place of Python's own words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from enum import Enum
from functools import wraps
from types import FunctionType
from typing import Any, NoReturn, cast

from ...ops.errors import ArgumentTypeError
from ...ops.keywords import keyword_hint
from ...ops.values import format_value

OFTEN = frozenset({"execute"})
"""Methods that are called for each run of a kernel, where a call more shows; they stay as they are."""
_TELLS = "_tells_of_arguments"


def tell_of(namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
    """Has the functions and classes of a public module say which arguments they have, where they are given others.

    Args:
        namespace: of the module; functions in it are replaced.
        names: that are public.
    """
    for name in names:
        namespace[name] = telling(namespace[name])


def telling(public: Any) -> Any:
    """A public function that says so, or a class whose methods do; anything else as it is.

    Python's `f() got an unexpected keyword argument 'lerning_rate'` is no class of ours, and has no way out.
    """
    if isinstance(public, FunctionType):
        return _telling(public)
    if isinstance(public, type) and not issubclass(public, Enum | Exception):
        for one in cast("type[Any]", public).__mro__:
            if one.__module__.startswith("onednn_graph.") and not getattr(one, "_is_protocol", False):
                _tell_of_methods(one)
    return cast("Any", public)


def _tell_of_methods(owner: type[Any]) -> None:
    for name, found in list(vars(owner).items()):
        if (name.startswith("_") and name != "__init__") or name in OFTEN:
            continue
        if isinstance(found, FunctionType):
            setattr(owner, name, _telling(found))
        elif isinstance(found, classmethod | staticmethod):
            method = cast("Any", found)
            if isinstance(method.__func__, FunctionType):
                setattr(owner, name, type(method)(_telling(method.__func__)))


def _telling(function: FunctionType) -> Callable[..., Any]:
    if hasattr(function, _TELLS):
        return function

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            if not _is_of_the_call(function, given, named, error):
                raise
            _refuse(function, given, named, error)

    setattr(call, _TELLS, True)
    return call


def _is_of_the_call(
    function: FunctionType, given: tuple[object, ...], named: Mapping[str, object], error: TypeError
) -> bool:
    """Whether the arguments of a call are wrong, not something within the function."""
    trace = error.__traceback__
    if trace is not None and trace.tb_next is None:
        return True
    if not hasattr(function, "__wrapped__"):
        return False
    try:  # a context manager takes anything, and hands it on
        inspect.signature(function).bind(*given, **named)
    except TypeError:
        return True
    return False


def _refuse(
    function: FunctionType, given: tuple[object, ...], named: Mapping[str, object], error: TypeError
) -> NoReturn:
    """Raises what says which arguments a function has."""
    parameters = [*inspect.signature(function).parameters.values()]
    method = bool(parameters) and parameters[0].name in ("self", "cls")
    own = parameters[1:] if method else parameters
    by_position = [one.name for one in own if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    names = [one.name for one in own if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    what = _name_of(function, given)
    takes = f"it takes {', '.join(names)}" if names else "it takes none"
    unknown = next((name for name in named if name not in names), None)
    if unknown is not None:
        raise ArgumentTypeError(
            f"{what} has no argument {format_value(unknown)}{keyword_hint(unknown, names)}; {takes}"
        ) from None
    values = given[1:] if method else given
    if len(values) > len(by_position):
        alone = [name for name in names if name not in by_position and name not in named]
        first = f", as {alone[0]}={_short(values[len(by_position)])}" if alone else ""
        way = f"; give what follows by name{first}; {takes}" if alone else ""
        known = ", ".join(map(repr, by_position))
        raise ArgumentTypeError(
            f"{what} takes {len(by_position)} argument{'s' * (len(by_position) != 1)} by position"
            f"{f', {known},' if known else ','} got {len(values)}{way}"
        ) from None
    missing = [
        one.name
        for one in own
        if one.default is one.empty
        and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
        and one.name not in named
        and one.name not in by_position[: len(values)]
    ]
    if missing:
        raise ArgumentTypeError(f"{what} wants {' and '.join(map(repr, missing))} too; {takes}") from None
    raise ArgumentTypeError(f"{what}: {error}") from None


def _short(value: object) -> str:
    """A value as it would be written, where that is short."""
    text = format_value(value)
    return text if isinstance(value, str | int | float) and len(text) <= 20 else "…"


def _name_of(function: FunctionType, given: tuple[object, ...]) -> str:
    """What the user calls it: the class for its `__init__`, `Graph.to` for what a base of Graph has."""
    owner, _, name = function.__qualname__.rpartition(".")
    if not owner or "<locals>" in owner:
        return name
    first = given[0] if given else None
    kind = first if isinstance(first, type) else type(first)
    public = kind.__name__ if any(one.__name__ == owner for one in kind.__mro__) else owner
    return public if name == "__init__" else f"{public}.{name}"
