"""Many primitives in one call: a loop of machine code over `dnnl_primitive_execute`, which sets threads in between.

Before them it points memory objects at the arguments of a call. A call through ctypes costs as much as the smallest
primitives take. Where code can't be placed, the library's functions are called one by one.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_float, c_int, c_int32, c_int64, c_uint64, c_void_p
from struct import Struct
from typing import Any, cast

from ....graph.runtime.machine_code import ENDBR64, assembled, place
from ....ops.records import frozen
from .loading import load

_LOOP = (
    ENDBR64,
    "53",  # push rbx
    "55",  # push rbp
    "41 54",  # push r12
    "41 55",  # push r13
    "48 83 ec 08",  # sub rsp, 8
    "48 89 fb",  # mov rbx, rdi
    "48 83 3b 00",  # cmp qword [rbx + getter], 0
    "74 @ready",  # jz ready
    "ff 13",  # call [rbx + getter]
    "41 89 c5",  # mov r13d, eax
    "8b 7b 10",  # mov edi, [rbx + threads]
    "ff 53 08",  # call [rbx + setter]
    "ready:",
    "4c 8b 63 18",  # mov r12, [rbx + count]
    "48 8b 6b 20",  # mov rbp, [rbx + calls]
    "next:",
    "48 8b 7d 08",  # mov rdi, [rbp + first]
    "48 8b 75 10",  # mov rsi, [rbp + second]
    "48 8b 36",  # mov rsi, [rsi]
    "48 03 75 18",  # add rsi, [rbp + offset]
    "48 8b 55 20",  # mov rdx, [rbp + arguments]
    "48 8b 4d 28",  # mov rcx, [rbp + list]
    "ff 55 00",  # call [rbp + function]
    "23 45 30",  # and eax, [rbp + status]
    "75 @end",  # jnz end
    "48 83 c5 38",  # add rbp, 56
    "49 ff cc",  # dec r12
    "75 @next",  # jnz next
    "end:",
    "48 83 3b 00",  # cmp qword [rbx + getter], 0
    "74 @out",  # jz out
    "89 c5",  # mov ebp, eax
    "44 89 ef",  # mov edi, r13d
    "ff 53 08",  # call [rbx + setter]
    "89 e8",  # mov eax, ebp
    "out:",
    "48 83 c4 08",  # add rsp, 8
    "41 5d",  # pop r13
    "41 5c",  # pop r12
    "5d",  # pop rbp
    "5b",  # pop rbx
    "c3",  # ret
)


ANY_BIT = 0xFFFFFFFF
DOUBT = 1 << 16
"""What the code of a condition returns that does not hold; none of the library's statuses."""
_ABOVE = (
    ENDBR64,
    "48 8b 0f",  # mov rcx, [rdi + count]
    "48 8b 57 08",  # mov rdx, [rdi + stride]
    "f3 0f 10 47 10",  # movss xmm0, [rdi + bound]
    "next:",
    "f3 0f 10 0e",  # movss xmm1, [rsi]
    "0f 2e c8",  # ucomiss xmm1, xmm0
    "76 @doubt",  # jbe doubt, which NaN takes as well
    "48 01 d6",  # add rsi, rdx
    "48 ff c9",  # dec rcx
    "75 @next",  # jnz next
    "31 c0",  # xor eax, eax
    "c3",  # ret
    "doubt:",
    "c7 47 14 01 00 00 00",  # mov dword [rdi + doubtful], 1
    "b8 00 00 01 00",  # mov eax, DOUBT
    "c3",  # ret
)


@functools.cache
def _above() -> int | None:
    return place(assembled(_ABOVE))


class _Above(ctypes.Structure):
    """What the code of a condition takes, beside the address of the first element."""

    _fields_ = (
        ("count", c_int64),
        ("stride", c_int64),
        ("bound", c_float),
        ("doubtful", c_int32),
    )


class _Call(ctypes.Structure):
    """A function with its arguments; the code knows the places.

    The second argument is the word at `second`, and `offset` more. `status` has the bits of what the function returns
    that say that it has failed.
    """

    _fields_ = (
        ("function", c_void_p),
        ("first", c_void_p),
        ("second", c_void_p),
        ("offset", c_int64),
        ("arguments", c_int64),
        ("list", c_void_p),
        ("status", c_int64),
    )


class _Table(ctypes.Structure):
    """What the code takes: calls, and, unless `getter` is null, the functions that tell and set the calling thread's
    number of threads, and the number within.
    """

    _fields_ = (
        ("getter", c_void_p),
        ("setter", c_void_p),
        ("threads", c_int64),
        ("count", c_int64),
        ("calls", c_void_p),
    )


@functools.cache
def _start() -> int | None:
    return place(assembled(_LOOP))


@functools.cache
def _loop(*, holding: bool = False) -> Callable[[Any], int] | None:
    """The code as a function.

    Args:
        holding: whether Python's lock is held meanwhile.
    """
    start = _start()
    kind = PYFUNCTYPE if holding else CFUNCTYPE
    return None if start is None else kind(c_int, c_void_p)(start)


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


@frozen
class Above:
    """Whether elements of f32 are all larger than a bound; NaN is not.

    Attributes:
        place: address of the first one, or where it is in an argument, in bytes.
        count: of them, one at least. stride: bytes from one to the next.
        argument: its number, one of those that the batch points at; None for memory that stays where it is.
    """

    place: int
    count: int
    stride: int
    bound: float
    argument: int | None = None


@frozen
class Look:
    """What is to be done between two primitives, in Python, unless conditions hold, which are looked at without it.

    Attributes:
        conditions: which all hold where there is nothing to do.
        otherwise: what is done where one does not.
    """

    conditions: tuple[Above, ...]
    otherwise: Callable[[], None]


@frozen
class Pointing:
    """A memory object that is pointed at an argument.

    Attributes:
        argument: its number. offset: from its beginning, in bytes. memory: handle of the object.
    """

    argument: int
    offset: int
    memory: int


class Batch:
    """A callable that executes primitives in order until one fails, and returns the last one's status.

    Where a look between them finds that there is something to do, it does that, and goes on behind it. `point` says
    where arguments lie, for the next call and all that follow.

    Args:
        loop: the code.
        stream: the library's.
        executions: in order, with looks between them; their arguments must outlive the batch.
        threads: how many are set before, and behind it where none has failed.
        pointings: of the memory objects of arguments that move.
        alone: whether it sets these threads itself, and puts back what was set before, failed or not.
    """

    def __init__(
        self,
        loop: Callable[[Any], int],
        stream: int,
        executions: Sequence[Execution | Look],
        threads: int,
        pointings: Sequence[Pointing] = (),
        *,
        alone: bool = False,
    ) -> None:
        lib = load()
        self._loop = loop
        self._moving = tuple(dict.fromkeys(one.argument for one in pointings))
        self._pack = Struct(f"{len(self._moving)}Q").pack_into
        self._words = (c_uint64 * (len(self._moving) + 2))(*[0] * len(self._moving), stream, 0)
        start = ctypes.addressof(self._words)
        streams = start + 8 * len(self._moving)
        words: dict[int | None, int] = {
            number: start + 8 * place for place, number in enumerate(self._moving)
        }
        words[None] = streams + 8  # where a zero lies
        calls: list[_Call] = []
        if pointings:
            setter = ctypes.cast(lib.c.dnnl_memory_set_data_handle, c_void_p)
            calls += [
                _Call(setter, one.memory, words[one.argument], one.offset, 0, None, ANY_BIT)
                for one in pointings
            ]
        self._watched: list[_Watched] = []
        for one in _executing(executions, threads, streams, words):
            calls += one.calls if isinstance(one, _Watched) else [one]
            if isinstance(one, _Watched):
                one.behind = len(calls)
                self._watched.append(one)
        self._calls = (_Call * len(calls))(*calls)
        self._set = (lib.runtime.getter, lib.runtime.setter, threads) if alone else (0, 0, threads)
        self._all, self._pointed = self._from(0), self._from(len(pointings))
        self._at_all, self._at_pointed = ctypes.addressof(self._all), ctypes.addressof(self._pointed)
        self._skips = self._pointed.count == 0
        self._now = self._at_pointed

    def point(self, addresses: Sequence[int]) -> None:
        """Has the arguments that move lie at their addresses.

        Args:
            addresses: of all arguments.
        """
        self._pack(self._words, 0, *[addresses[number] for number in self._moving])
        self._now = self._at_all

    def __call__(self) -> int:
        if self._skips and self._now == self._at_pointed:
            return 0
        status = self._loop(self._now)
        while status == DOUBT:
            status = self._seen_to()
        if not status:
            self._now = self._at_pointed
        return status

    def _from(self, number: int) -> _Table:
        """The calls from one on."""
        first = ctypes.addressof(self._calls) + number * ctypes.sizeof(_Call)
        return _Table(*self._set, len(self._calls) - number, first)

    def _seen_to(self) -> int:
        """Does what the look that has stopped the loop is for, and goes on behind it."""
        watched = next(one for one in self._watched if one.is_doubtful())
        watched.otherwise()
        rest = self._from(watched.behind)
        return self._loop(ctypes.addressof(rest)) if rest.count else 0


class _Watched:
    """A look with what its code takes.

    Args:
        code: of the conditions.
        words: argument → where its address lies; a zero lies there for none.

    Attributes:
        otherwise: as of the look. calls: to its conditions. behind: number of the call that comes then.
    """

    def __init__(self, look: Look, code: int, words: Mapping[int | None, int]) -> None:
        made = [_Above(one.count, one.stride, one.bound, 0) for one in look.conditions]
        self._conditions = (_Above * len(made))(*made)
        first = ctypes.addressof(self._conditions)
        self.otherwise = look.otherwise
        self.calls = [
            _Call(
                code, first + number * ctypes.sizeof(_Above), words[one.argument], one.place, 0, None, ANY_BIT
            )
            for number, one in enumerate(look.conditions)
        ]
        self.behind = 0

    def is_doubtful(self) -> bool:
        """Whether one of its conditions did not hold; asked once."""
        found = [one for one in self._conditions if one.doubtful]
        for one in found:
            one.doubtful = 0
        return bool(found)


def _executing(
    executions: Sequence[Execution | Look], threads: int, streams: int, words: Mapping[int | None, int]
) -> Iterator[_Call | _Watched]:
    """Calls that execute primitives, and set the threads of each, and looks between them.

    Args:
        streams: where the stream's handle lies.
        words: argument → where its address lies; a zero lies there for none.
    """
    lib = load()
    execute = ctypes.cast(lib.c.dnnl_primitive_execute, c_void_p)
    now = threads
    for one in executions:
        if isinstance(one, Look):
            yield _Watched(one, cast("int", _above()), words)
            continue
        if one.threads != now:
            yield _Call(lib.runtime.setter, one.threads, streams)
            now = one.threads
        arguments = ctypes.addressof(one.arguments)
        yield _Call(execute, one.primitive, streams, 0, one.count, arguments, ANY_BIT)
    if now != threads:
        yield _Call(lib.runtime.setter, threads, streams)


def batch(
    stream: int,
    executions: Sequence[Execution | Look],
    threads: int,
    pointings: Sequence[Pointing] = (),
    *,
    alone: bool = False,
    holding: bool = False,
) -> Batch | None:
    """A batch, as `Batch` has its arguments; None where code can't be placed.

    Args:
        holding: whether Python's lock is held meanwhile, which costs less than to give it away for microseconds.
    """
    loop = _loop(holding=holding)
    return (
        None
        if loop is None or _above() is None
        else Batch(loop, stream, executions, threads, pointings, alone=alone)
    )
