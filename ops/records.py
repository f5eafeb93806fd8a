"""Classes of named values: those of attrs, with comparison, hash and text by functions that all of them share.

attrs writes and compiles these as methods of each class while its module is imported: 30 of the 70 ms that some 170
classes took. Here that is done for `__init__` alone, for the others are seldom called where it counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform, overload

import attrs

C = TypeVar("C")


@overload
@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def frozen(cls: type[C], /) -> type[C]: ...
@overload
@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def frozen(*, eq: bool = True, kw_only: bool = False, slots: bool = True) -> Callable[[type[C]], type[C]]: ...
def frozen(cls: Any = None, /, *, eq: bool = True, **options: Any) -> Any:
    """`attrs.frozen`: equal by class and values and hashed by them, unless `eq` is False."""
    return _decorator(attrs.frozen, cls, eq, _hashed, options)


@overload
@dataclass_transform(field_specifiers=(attrs.field,))
def define(cls: type[C], /) -> type[C]: ...
@overload
@dataclass_transform(field_specifiers=(attrs.field,))
def define(
    *,
    eq: bool = True,
    kw_only: bool = False,
    slots: bool = True,
    getstate_setstate: bool | None = None,
) -> Callable[[type[C]], type[C]]: ...
def define(cls: Any = None, /, *, eq: bool = True, **options: Any) -> Any:
    """`attrs.define`: values may change, so that there is no hash unless `eq` is False."""
    return _decorator(attrs.define, cls, eq, lambda cls, values: None, options)


Values = Callable[[Any], Any]
"""From an object to what its class compares."""


def _decorator(
    made_by: Any,
    cls: Any,
    eq: bool,
    hashed: Callable[[type, Values], Any],
    options: Mapping[str, Any],
) -> Any:
    def decorated(written: type) -> type:
        own = set(vars(written))  # what a class says itself stands
        made: Any = made_by(written, eq=False, repr=False, **options)
        if "__repr__" not in own:
            made.__repr__ = _text
        if eq and "__eq__" not in own:
            names = [one.name for one in attrs.fields(made) if one.eq]
            values: Values = attrgetter(*names) if names else lambda _: ()
            made.__eq__ = _equal(values)
            if "__hash__" not in own:
                made.__hash__ = hashed(made, values)
        return made

    return decorated if cls is None else decorated(cls)


def _equal(values: Values) -> Callable[[Any, object], Any]:
    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equal


def _hashed(cls: type, values: Values) -> Callable[[Any], int]:
    def hashed(self: Any) -> int:
        return hash((cls, values(self)))

    return hashed


@recursive_repr("...")
def _text(self: Any) -> str:
    parts = (f"{one.name}={getattr(self, one.name)!r}" for one in attrs.fields(self.__class__) if one.repr)
    return f"{type(self).__qualname__.rpartition('>.')[2]}({', '.join(parts)})"
