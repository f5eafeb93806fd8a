"""Signals that come while a kernel runs on a stack that is none.

The f32 products `gemm:jit` of oneDNN up to 3.11 point the stack pointer at a small block of the heap, where K is beyond
84. The system puts the state of a thread that a signal interrupts below its stack pointer, some kilobytes, and there
lie other data then: with Ctrl-C, a timer or a profiler results were wrong and processes died at their next `malloc`.
(Source: `mov(rsp, ARG_WS)` in `src/cpu/x64/gemm/f32/jit_avx512_common_gemm_f32.cpp` and `jit_avx_gemm_f32.cpp`.)

So a thread that runs kernels gets a stack for signals, which Python's handlers ask for (`SA_ONSTACK`), and the threads
of its team take none: the system then gives them to others.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import signal
import threading
import weakref
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_void_p
from functools import cache
from typing import Any, Protocol

LINUX = platform.system() == "Linux"
STACK_BYTES = 1 << 18
"""The state of AVX-512 and AMX takes 11 KiB; memory that is not touched is not taken."""
SS_DISABLE = 2
FAULTS = {
    getattr(signal, name)
    for name in ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGABRT", "SIGSYS")
    if hasattr(signal, name)
}
"""What a thread brings on itself, and must hear."""


class Team(Protocol):
    """Whose threads run kernels."""

    def everywhere(self, threads: int, function: Callable[[object], object]) -> None:
        """Calls a function once on each thread of the calling one's team; on none where that is not known."""
        ...


class _Stack(ctypes.Structure):
    """`stack_t`."""

    _fields_ = (("ss_sp", c_void_p), ("ss_flags", c_int), ("ss_size", c_size_t))


class _SignalStack:
    """The calling thread's, until that ends; nothing where it has one, from faulthandler, say."""

    def __init__(self) -> None:
        if _registered().ss_flags & SS_DISABLE:
            self._memory = mmap.mmap(-1, STACK_BYTES)
            start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
            _sigaltstack()(ctypes.byref(_Stack(start, 0, STACK_BYTES)), None)
            weakref.finalize(self, _give_back, start)


class _Sheltered(threading.local):
    """What was done for the calling thread: its stack, and the sizes of teams that take no signals."""

    def __init__(self) -> None:
        self.stack = _SignalStack() if LINUX else None
        self.teams = {1}


@cache
def _sigaltstack() -> Any:
    function = ctypes.CDLL(None).sigaltstack
    function.argtypes = (c_void_p, c_void_p)
    function.restype = c_int
    return function


def _registered() -> _Stack:
    """The calling thread's stack for signals."""
    stack = _Stack()
    _sigaltstack()(None, ctypes.byref(stack))
    return stack


def _give_back(start: int) -> None:
    """Where it is still the calling thread's."""
    if _registered().ss_sp == start:
        _sigaltstack()(ctypes.byref(_Stack(None, SS_DISABLE, 0)), None)


_sheltered = _Sheltered()


def shelter(team: Team, threads: int) -> None:
    """Has signals do no harm to kernels that the calling thread runs on so many threads from here on."""
    if not LINUX or threads in _sheltered.teams:
        return
    _sheltered.teams.add(threads)
    caller = threading.get_ident()

    def take_none(_: object) -> None:
        if threading.get_ident() != caller:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - FAULTS)

    team.everywhere(threads, take_none)
