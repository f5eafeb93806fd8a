"""F16C: the CPU's own instructions between f16 and f32, which NumPy's wheels and the library leave unused.

For each direction a loop of a hundred bytes of machine code, which the library's own OpenMP team runs: each thread
takes the next run of blocks until none is left. Where the CPU lacks F16C, or code can't be placed, `load` returns None
and `half.py` does with NumPy.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import byref, c_int64, c_uint, c_void_p
from pathlib import Path
from typing import Any

from ....graph.runtime.arrays import Array, address
from ....graph.runtime.machine_code import ENDBR64, assembled, place
from ....ops.errors import LibraryError
from ....ops.records import frozen
from . import loading

BLOCK = 16
"""Elements of a pass through the loop."""
PARALLEL = 1 << 15
"""From so many elements on, a team of threads is worth its start."""
# rdi points to the job, rcx is for blocks left, rax for the first block's place, rsi and rdx for the elements.
_TAKE = (
    ENDBR64,
    "take:",
    "b8 00 01 00 00",  # mov eax, 256
    "f0 48 0f c1 07",  # lock xadd [rdi + next], rax
    "48 8b 4f 08",  # mov rcx, [rdi + blocks]
    "48 29 c1",  # sub rcx, rax
    "7e @end",  # jle end
    "ba 00 01 00 00",  # mov edx, 256
    "48 39 d1",  # cmp rcx, rdx
    "48 0f 4f ca",  # cmovg rcx, rdx
    "48 c1 e0 05",  # shl rax, 5
)
_AGAIN = (
    "75 @next",  # jnz next
    "eb @take",  # jmp take
    "end:",
    "c5 f8 77",  # vzeroupper
    "c3",  # ret
)
_WIDEN_FROM = (
    "48 8b 77 10",  # mov rsi, [rdi + source]
    "48 01 c6",  # add rsi, rax
    "48 8b 57 18",  # mov rdx, [rdi + target]
    "48 8d 14 42",  # lea rdx, [rdx + rax * 2]
)
_WIDEN = (
    "next:",
    "c4 e2 7d 13 06",  # vcvtph2ps ymm0, [rsi]
    "c4 e2 7d 13 4e 10",  # vcvtph2ps ymm1, [rsi + 16]
    "c5 fc 11 02",  # vmovups [rdx], ymm0
    "c5 fc 11 4a 20",  # vmovups [rdx + 32], ymm1
    "48 83 c6 20",  # add rsi, 32
    "48 83 c2 40",  # add rdx, 64
    "48 ff c9",  # dec rcx
)
_NARROW_FROM = (
    "48 8b 77 10",  # mov rsi, [rdi + source]
    "48 8d 34 46",  # lea rsi, [rsi + rax * 2]
    "48 8b 57 18",  # mov rdx, [rdi + target]
    "48 01 c2",  # add rdx, rax
)
_NARROW = (
    "next:",
    "c5 fc 10 06",  # vmovups ymm0, [rsi]
    "c5 fc 10 4e 20",  # vmovups ymm1, [rsi + 32]
    "c4 e3 7d 1d 02 00",  # vcvtps2ph [rdx], ymm0, to nearest even
    "c4 e3 7d 1d 4a 10 00",  # vcvtps2ph [rdx + 16], ymm1, to nearest even
    "48 83 c6 40",  # add rsi, 64
    "48 83 c2 20",  # add rdx, 32
    "48 ff c9",  # dec rcx
)


def _program(begin: tuple[str, ...], loop: tuple[str, ...]) -> bytes:
    """Takes blocks, goes through them, and again until none is left."""
    return assembled((*_TAKE, *begin, *loop, *_AGAIN))


class _Job(ctypes.Structure):
    """What the threads share; the code knows the places."""

    _fields_ = (("next", c_int64), ("blocks", c_int64), ("source", c_void_p), ("target", c_void_p))


@frozen(eq=False)
class F16C:
    """The two loops.

    Attributes:
        widen_at, narrow_at: their addresses.
        parallel: runs code on the OpenMP team.
    """

    widen_at: int
    narrow_at: int
    parallel: Any

    def widen(self, half: Array, single: Array) -> int:
        """f16 to f32, contiguous; returns how many elements were converted: all but a part of a block."""
        return self._run(self.widen_at, half, single)

    def narrow(self, single: Array, half: Array) -> int:
        """f32 to f16, contiguous; returns how many elements were converted: all but a part of a block."""
        return self._run(self.narrow_at, single, half)

    def _run(self, code: int, source: Array, target: Array) -> int:
        blocks = source.size // BLOCK
        threads = loading.load().threads if source.size >= PARALLEL else 1
        job = _Job(0, blocks, address(source), address(target))
        self.parallel(code, byref(job), threads, 0)
        return blocks * BLOCK


@functools.cache
def load() -> F16C | None:
    """The loops, ready to run, or None where they can't be."""
    if not has_f16c():
        return None
    try:
        parallel = loading.load().c.GOMP_parallel
    except (LibraryError, AttributeError):
        return None
    parallel.argtypes = (c_void_p, c_void_p, c_uint, c_uint)
    parallel.restype = None
    widen, narrow = (place(_program(*parts)) for parts in ((_WIDEN_FROM, _WIDEN), (_NARROW_FROM, _NARROW)))
    return None if widen is None or narrow is None else F16C(widen, narrow, parallel)


def has_f16c() -> bool:
    """Whether the CPU has F16C and the system saves the registers that it uses."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return "f16c" in flags and "avx" in flags
