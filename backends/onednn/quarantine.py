"""Implementations of the library that are not trusted, each with its condition and what was seen.

The library offers kernels that give wrong numbers or write out of bounds. `barred` is asked for every implementation of
a weight gradient before it is chosen, and `refused` for those of every other primitive; the next implementation, or
another lowering, takes its place. The rules are in `rules/`, by primitive. New entries come from
`tests/tools/fuzz_kernels.py` and `tests/tools/fuzz_primitives.py`, which run every implementation in a child process.
Entries carry versions: what was seen on one holds for all later ones until a sweep proves it gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.convolution_geometry import ConvolutionGeometry
from ...ops.data_types import DataType
from .library.descriptors import Descriptor
from .library.implementations import is_reference
from .library.loading import load
from .rules import convolutions, elementwise, matmul, reorder, windows
from .rules.entry import Case, Entry, What
from .rules.reorder import UNASKED
from .rules.weight_gradients import TABLE

PRIMITIVES: dict[str, tuple[Entry[[Case]], ...]] = {
    **convolutions.RULES,
    **elementwise.RULES,
    **matmul.RULES,
    **reorder.RULES,
    **windows.RULES,
}
"""What made the primitive → what is barred of it, beside the library's reference loops."""


def _loops(implementation: str) -> bool:
    """Whether an implementation, or what it hands its work to, is a reference loop."""
    return any(is_reference(part) for part in implementation.split("+"))


def unaskable(descriptor: Descriptor) -> str | None:
    """Why the library must not be asked for a primitive, or None when it may."""
    return _first(UNASKED.get(descriptor.function, ()), descriptor.function, descriptor)


def refused(case: Case, *, references: bool = False) -> str | None:
    """Why an implementation must not run a primitive that is no weight gradient, or None when it may.

    Args:
        references: whether the library's reference loops may run.
    """
    implementation = case.desc.implementation
    if _loops(implementation):
        return None if references else f"the library has a reference loop only for this {case.desc.function}"
    return _first(PRIMITIVES.get(case.desc.function, ()), implementation, case)


def barred(implementation: str, problem: ConvolutionGeometry, data_type: DataType) -> str | None:
    """Why `implementation` must not run this weight gradient in `data_type`, or None when it may."""
    return _first(TABLE, implementation, problem, data_type)


def _first(
    table: Sequence[Entry[What]], implementation: str, *what: What.args, **also: What.kwargs
) -> str | None:
    version = load().version[:2]
    for entry in table:
        if not entry.holds(version):
            continue
        if implementation.startswith(entry.implementation) and entry.applies(*what, **also):
            return f"{implementation} is barred when {entry.condition}: {entry.seen}"
    return None
