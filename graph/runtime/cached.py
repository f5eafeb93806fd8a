"""Attributes that are computed when they are first read, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801 -- a decorator, called like `property`
    """A property that is computed at its first use and kept in the object's own `__dict__`.

    `functools.cached_property` of Python 3.11 and older computes under one lock for all objects of the class. A fork
    leaves the child without the thread that holds it, so that whoever reads such a property there waits for ever. Here
    two threads may compute one value twice, and the later one is kept: it must not matter which.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.func = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> cached[T] | T:
        if instance is None:
            return self
        value = self.func(instance)
        instance.__dict__[self._name] = value
        return value
