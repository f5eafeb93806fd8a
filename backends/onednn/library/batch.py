"""Many primitives in one call: a loop of machine code over `dnnl_primitive_execute`.

A call through ctypes costs as much as the smallest primitives take. Where code can't be placed, the primitives are
called one by one.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import c_int, c_int64, c_void_p
from typing import Any

from .loading import load
from .machine_code import ENDBR64, assembled, place

_LOOP = (
    ENDBR64,
    "53",  # push rbx
    "55",  # push rbp
    "41 54",  # push r12
    "48 89 fb",  # mov rbx, rdi
    "48 8d 6f 18",  # lea rbp, [rdi + calls]
    "4c 8b 67 10",  # mov r12, [rdi + count]
    "next:",
    "48 8b 7d 00",  # mov rdi, [rbp + primitive]
    "48 8b 73 08",  # mov rsi, [rbx + stream]
    "48 8b 55 08",  # mov rdx, [rbp + arguments]
    "48 8b 4d 10",  # mov rcx, [rbp + list]
    "ff 13",  # call [rbx + execute]
    "85 c0",  # test eax, eax
    "75 @end",  # jnz end
    "48 83 c5 18",  # add rbp, 24
    "49 ff cc",  # dec r12
    "75 @next",  # jnz next
    "end:",
    "41 5c",  # pop r12
    "5d",  # pop rbp
    "5b",  # pop rbx
    "c3",  # ret
)


class _Call(ctypes.Structure):
    """The arguments of `dnnl_primitive_execute` without the stream; the code knows the places."""

    _fields_ = (("primitive", c_void_p), ("arguments", c_int64), ("list", c_void_p))


@functools.cache
def _loop() -> Callable[[Any], int] | None:
    start = place(assembled(_LOOP))
    return None if start is None else ctypes.CFUNCTYPE(c_int, c_void_p)(start)


@functools.cache
def _table_of(count: int) -> type[ctypes.Structure]:
    """What the code takes: whom to call, the stream, how many calls, the calls."""

    class Table(ctypes.Structure):
        _fields_ = (("execute", c_void_p), ("stream", c_void_p), ("count", c_int64), ("calls", _Call * count))

    return Table


def batch(stream: Any, calls: Sequence[tuple[int, int, Any]]) -> Callable[[], int] | None:
    """A callable that executes primitives in order until one fails, and returns the last one's status.

    Args:
        stream: the library's.
        calls: primitive, number of arguments, and their array, which must outlive the callable.

    Returns:
        None where code can't be placed.
    """
    loop = _loop()
    if loop is None:
        return None
    execute = ctypes.cast(load().c.dnnl_primitive_execute, c_void_p)
    listed = [_Call(primitive, count, ctypes.addressof(arguments)) for primitive, count, arguments in calls]
    table = _table_of(len(calls))(execute, stream, len(calls), (_Call * len(calls))(*listed))
    return functools.partial(loop, ctypes.byref(table))
