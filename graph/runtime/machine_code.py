"""Machine code of our own, for loops that cost more in Python than what they drive.

It is for x86-64 in the System V calling convention, as the library's wheel is, and needs a page of executable memory.
Where the system gives none, and where an engine or the environment forbids it (`graph/runtime/engine.py`), everything
works without it, more slowly.
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


ENDBR64 = "f3 0f 1e fa"
"""Stands wherever code is entered by a pointer: CPUs that track indirect branches allow no other entry."""


def assembled(lines: Iterable[str]) -> bytes:
    """The bytes of a program.

    Args:
        lines: instructions in hexadecimal digits; `name:` for a place; `75 @name` for a short jump to one.

    Raises:
        ValueError: a place that is not there or twice, or farther than a short jump reaches.
    """
    pieces: list[tuple[bytes, str | None]] = []
    places: dict[str, int] = {}
    length = 0
    for line in lines:
        if line.endswith(":"):
            if line[:-1] in places:
                raise ValueError(f"the place {line[:-1]!r} is there twice")
            places[line[:-1]] = length
            continue
        digits, _, target = line.partition("@")
        code = bytes.fromhex(digits)
        length += len(code) + bool(target)
        pieces.append((code, target or None))
    program = b""
    for code, target in pieces:
        program += code
        if target is not None:
            if target not in places:
                raise ValueError(f"there is no place {target!r}")
            distance = places[target] - len(program) - 1  # from the end of the jump
            if not -128 <= distance < 128:
                raise ValueError(f"the place {target!r} is {distance} bytes away, and short jumps reach 127")
            program += distance.to_bytes(1, "little", signed=True)
    return program


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
