"""Words of memory that are looked at again and again: whether they are as they were, told by one call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from ctypes import PYFUNCTYPE, c_int, c_size_t, c_void_p

import numpy as np

from .arrays import Array, address
from .engine import machine_code_allowed
from .machine_code import ENDBR64, assembled, place

_SAME = (
    ENDBR64,
    "next:",
    "48 8b 07",  # mov rax, [rdi + place]
    "8b 00",  # mov eax, [rax]
    "3b 47 08",  # cmp eax, [rdi + value]
    "75 @other",  # jne other
    "48 83 c7 10",  # add rdi, 16
    "48 ff ce",  # dec rsi
    "75 @next",  # jnz next
    "31 c0",  # xor eax, eax
    "c3",  # ret
    "other:",
    "b8 01 00 00 00",  # mov eax, 1
    "c3",  # ret
)
"""From places and values of words, and how many there are, to 0 if each word has its value, else 1."""


@functools.cache
def _same() -> Callable[[int, int], int] | None:
    start = place(assembled(_SAME)) if machine_code_allowed() else None
    return None if start is None else PYFUNCTYPE(c_int, c_void_p, c_size_t)(start)


class Words:
    """Elements of arrays, and what they are now.

    Args:
        arrays: of one axis, with gaps or without. Nobody looks after their memory: whoever asks sees to it that it is
            still there.
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        self._same = _same()
        words = [one for one in arrays if self._same and one.itemsize == 4 and one.size]
        self._others = [one for one in arrays if not any(one is word for word in words)]
        self._were = self._read()
        places = [address(one) + np.arange(one.size) * one.strides[0] for one in words]
        values = [one.view(np.uint32).copy() for one in words]
        joined = [np.concatenate(parts) if parts else np.empty(0) for parts in (places, values)]
        self._table = np.stack([one.astype(np.uint64) for one in joined], axis=1)
        self._count = len(self._table)
        self._at = address(self._table)

    def are(self) -> bool:
        """Whether they are as they were."""
        if self._count and self._same is not None and self._same(self._at, self._count):
            return False
        return not self._others or self._read() == self._were

    def _read(self) -> bytes:
        return b"".join([one.tobytes() for one in self._others])
