"""What the names of the library's implementations tell, and what its kernels have in common."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

LANES = 16
"""f32 lanes of AVX-512, to which channels are padded."""
REFERENCE = "ref"
"""How the names of the library's reference loops begin; they run only where a user forces the backend."""


def is_reference(implementation: str) -> bool:
    """Whether an implementation of that name is a reference loop."""
    return implementation.startswith(REFERENCE)


RENAMED_SETS = {
    "avx10_1_512": "avx512_core_fp16",
    "avx10_1_512_amx": "avx512_core_amx",
    "avx10_1_512_amx_fp16": "avx512_core_amx_fp16",
}
"""Instruction sets in names as oneDNN has them since 3.5, and as it had them before."""
RENAMED = RENAMED_SETS | {
    "brg_matmul": "brg",
    "brg_conv_fwd": "brgconv",
    "brg_conv_bwd": "brg_fwd",
    "brg_deconv": "brg_conv",
}
"""These and kernels, alike."""


@functools.cache
def names_of(implementation: str) -> tuple[str, str, str]:
    """Names by which what was found of an implementation may be kept, to hold for versions that call it otherwise.

    Its own, that with the instruction set as before oneDNN 3.5, and that of 3.2.
    """
    return implementation, _renamed(implementation, RENAMED_SETS), _renamed(implementation, RENAMED)


def _renamed(implementation: str, parts: Mapping[str, str]) -> str:
    return re.sub(r"[^:+]+", lambda part: parts.get(part[0], part[0]), implementation)


def earlier_name(implementation: str) -> str:
    """What oneDNN 3.2 calls an implementation."""
    return names_of(implementation)[-1]


def begins(implementation: str, beginning: str) -> bool:
    """Whether an implementation's name begins so, as its version or an earlier one has it."""
    return any(name.startswith(beginning) for name in names_of(implementation))


def is_called(implementation: str, name: str) -> bool:
    """Whether an implementation has the name, here or in oneDNN 3.2, or is of that name for some instruction set."""
    return any(one == name or one.startswith(f"{name}:") for one in names_of(implementation))
