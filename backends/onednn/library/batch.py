"""Many primitives in one call: a loop of machine code over `dnnl_primitive_execute`, which sets threads in between.

A call through ctypes costs as much as the smallest primitives take. Where code can't be placed, the primitives are
called one by one.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import c_int, c_int64, c_void_p
from typing import Any

from attrs import frozen

from .loading import load
from .machine_code import ENDBR64, assembled, place

_LOOP = (
    ENDBR64,
    "53",  # push rbx
    "55",  # push rbp
    "41 54",  # push r12
    "48 89 fb",  # mov rbx, rdi
    "48 8d 6f 10",  # lea rbp, [rdi + calls]
    "4c 8b 67 08",  # mov r12, [rdi + count]
    "next:",
    "48 8b 7d 08",  # mov rdi, [rbp + first]
    "48 8b 33",  # mov rsi, [rbx + stream]
    "48 8b 55 10",  # mov rdx, [rbp + arguments]
    "48 8b 4d 18",  # mov rcx, [rbp + list]
    "ff 55 00",  # call [rbp + function]
    "23 45 20",  # and eax, [rbp + status]
    "75 @end",  # jnz end
    "48 83 c5 28",  # add rbp, 40
    "49 ff cc",  # dec r12
    "75 @next",  # jnz next
    "end:",
    "41 5c",  # pop r12
    "5d",  # pop rbp
    "5b",  # pop rbx
    "c3",  # ret
)


ANY_BIT = 0xFFFFFFFF


class _Call(ctypes.Structure):
    """A function with its arguments, but for the second, which is the stream; the code knows the places.

    `status` has the bits of what it returns that say that it has failed.
    """

    _fields_ = (
        ("function", c_void_p),
        ("first", c_void_p),
        ("arguments", c_int64),
        ("list", c_void_p),
        ("status", c_int64),
    )


@functools.cache
def _loop() -> Callable[[Any], int] | None:
    start = place(assembled(_LOOP))
    return None if start is None else ctypes.CFUNCTYPE(c_int, c_void_p)(start)


@functools.cache
def _table_of(count: int) -> type[ctypes.Structure]:
    """What the code takes: the stream, how many calls, the calls."""

    class Table(ctypes.Structure):
        _fields_ = (("stream", c_void_p), ("count", c_int64), ("calls", _Call * count))

    return Table


@frozen
class Execution:
    """One primitive to execute.

    Attributes:
        primitive: its handle.
        count, arguments: how many arguments there are, and their array.
        threads: how many it runs on.
    """

    primitive: int
    count: int
    arguments: Any
    threads: int


def batch(stream: Any, executions: Sequence[Execution], threads: int) -> Callable[[], int] | None:
    """A callable that executes primitives in order until one fails, and returns the last one's status.

    Args:
        stream: the library's.
        executions: their arguments must outlive the callable.
        threads: how many are set before, and behind it where none has failed.

    Returns:
        None where code can't be placed.
    """
    loop = _loop()
    if loop is None:
        return None
    lib = load()
    execute = ctypes.cast(lib.c.dnnl_primitive_execute, c_void_p)
    calls: list[_Call] = []
    now = threads
    for one in executions:
        if one.threads != now:
            calls.append(_Call(lib.runtime.setter, one.threads))
            now = one.threads
        calls.append(_Call(execute, one.primitive, one.count, ctypes.addressof(one.arguments), ANY_BIT))
    if now != threads:
        calls.append(_Call(lib.runtime.setter, threads))
    table = _table_of(len(calls))(stream, len(calls), (_Call * len(calls))(*calls))
    return functools.partial(loop, ctypes.byref(table))
