"""Machine code of our own, for loops that cost more in Python than what they drive.

It is for x86-64 in the System V calling convention, as the library's wheel is, and needs a page of executable memory.
Where the system gives none, everything works without it, more slowly.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from collections.abc import Iterable
from ctypes import c_int, c_size_t, c_void_p

READ_AND_EXECUTE = 1 | 4
"""`PROT_READ | PROT_EXEC` of mprotect."""

_pages: list[mmap.mmap] = []
"""Kept until the process ends: somebody may be running what is in them."""


def assembled(lines: Iterable[str]) -> bytes:
    """The bytes of instructions that are given in hexadecimal digits."""
    return bytes.fromhex("".join(lines))


def distance(count: int) -> bytes:
    """The operand of a short jump over so many bytes."""
    return count.to_bytes(1, "little", signed=True)


def place(code: bytes) -> int | None:
    """Puts code into executable memory, for good; its address, or None where there can't be any."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return None
    try:
        page = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.write(code)
        start = ctypes.addressof(ctypes.c_char.from_buffer(page))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
    except (OSError, AttributeError):
        return None
    protect.argtypes = (c_void_p, c_size_t, c_int)
    if protect(start, len(code), READ_AND_EXECUTE):
        return None
    _pages.append(page)
    return start
