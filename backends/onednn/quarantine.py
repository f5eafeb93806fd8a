"""Implementations of the library that are not trusted, each with its condition and what was seen.

The library offers kernels that give wrong numbers or write out of bounds. `barred` is asked for every
implementation before it is chosen; the next implementation, or another lowering, takes its place. New
entries come from `tests/tools/fuzz_kernels.py`, which runs every implementation in a child process.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from ...ops.data_types import DataType
from ...ops.weights_gradient import WeightsGradient


@frozen
class Entry:
    """One rule of the table.

    Attributes:
        implementation: beginning of the library's implementation name.
        condition: in words.
        applies: the condition on problem and primitive data type.
        seen: what happened.
    """

    implementation: str
    condition: str
    applies: Callable[[WeightsGradient, DataType], bool]
    seen: str


TABLE: tuple[Entry, ...] = (
    Entry(
        "ref",
        "always",
        lambda p, dtype: True,
        "a reference loop, 100 to 700 times slower than any other way",
    ),
)


PROVEN = frozenset(
    {
        "jit:avx2",
        "jit:avx512_core",
        "jit_1x1:avx2",
        "jit_1x1:avx512_core",
        "jit_bf16:avx512_core_bf16",
        "jit_bf16_1x1:avx512_core_bf16",
        "jit_dw:avx2",
        "jit_dw:avx512_core",
        "jit_dw:avx512_core_bf16",
        "jit_dw:sse41",
        "x64:gemm:jit",
    }
)
"""Implementations that the fuzzer has covered. Any other is verified on integer data at each compile."""


def is_proven(implementation: str) -> bool:
    """Whether the fuzzer has covered it, so that TABLE tells all that is known to be wrong with it."""
    return implementation in PROVEN


def barred(implementation: str, problem: WeightsGradient, data_type: DataType) -> str | None:
    """Why `implementation` must not run this problem in `data_type`, or None when it may."""
    for entry in TABLE:
        if implementation.startswith(entry.implementation) and entry.applies(problem, data_type):
            return f"{implementation} is barred when {entry.condition}: {entry.seen}"
    return None
