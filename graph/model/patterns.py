"""Names of ops, tensors and parameters as users give them: one rule for all arguments that take some.

Each takes a name, a pattern as `fnmatch` has it, or a list of these. What fits nothing is an error that says what is
near, and some that there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import cast

from ...ops.errors import ArgumentError, ArgumentTypeError, near_pattern, nearest
from ...ops.values import format_value

SHOWN = 8
"""How many names an error lists."""


def patterns_of(what: str, given: object, example: str = "*.weight") -> tuple[str, ...]:
    """The patterns that a user gives: one, or several.

    Args:
        what: the argument, for errors.
        given: of the user.
        example: of a pattern, for errors.

    Raises:
        ArgumentTypeError: no text and no collection of texts.
    """
    if isinstance(given, str):
        return (given,)
    told = format_value(given)
    is_list = isinstance(given, Collection) and not isinstance(given, bytes | bytearray)
    several: list[object] = list(cast("Collection[object]", given)) if is_list else [given]
    strange = [one for one in several if not isinstance(one, str)]
    if strange or not is_list:
        raise ArgumentTypeError(
            f"{what} must be a name, a pattern of names such as {example!r}, or a list of them, got "
            f"{format_value(strange[0])}{f' in {told}' if is_list else ''}"
        )
    return tuple(str(one) for one in several)


def fits(name: str, pattern: str) -> bool:
    """Whether a name is that one, or fits it as a pattern. Brackets in names are no trouble to who gives all of one."""
    return name == pattern or fnmatchcase(name, pattern)


def fitting(pattern: str, names: Iterable[str]) -> list[str]:
    """Those of names that fit a pattern."""
    return [name for name in names if fits(name, pattern)]


def unfit(what: str, pattern: str, of: str, names: Collection[str]) -> ArgumentError:
    """The error for a pattern that fits nothing.

    Args:
        what: the argument.
        pattern: in it.
        of: what it fits none of, as `the name of no parameter`.
        names: that there are.
    """
    known = list(names)
    return ArgumentError(
        f"{what} has {format_value(pattern)}, which fits {of}{near_pattern(pattern, known)}; there "
        f"{'are ' if known else 'is '}{some_of(known)}"
    )


def near_name(word: str, names: Collection[str]) -> str:
    """` (did you mean 'x'?)` for the name that is close to a word, or a pattern of a part of one, or nothing."""
    return nearest(word, names) or near_pattern(word, names)


def some_of(names: Sequence[str]) -> str:
    """Some names, in a sentence."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(map(repr, names[:SHOWN])) or "none") + more
