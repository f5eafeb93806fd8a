"""Implementations of the library that are not trusted, each with its condition and what was seen.

The library offers kernels that give wrong numbers or write out of bounds. `refused` is asked for every implementation
of every primitive before it is chosen, and `unaskable` before the library is asked for any; the next implementation, or
another lowering, takes its place. The rules are in `rules/`, by primitive, in three tables. New ones come from
`tests/tools/fuzz_kernels.py` and `tests/tools/fuzz_primitives.py`, which run every implementation in a child process.
Rules carry versions: what was seen on one holds for all later ones until a sweep proves it gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from .library.descriptors import Descriptor
from .library.loading import load
from .rules import (
    binary,
    convolution,
    deconvolution,
    eltwise,
    group_normalization,
    matmul,
    pooling,
    prelu,
    reorder,
    resampling,
    softmax,
    weight_gradient,
)
from .rules.features import Features
from .rules.rule import Rule, Table

WRONG: Table = {
    **binary.WRONG,
    **convolution.WRONG,
    **deconvolution.WRONG,
    **eltwise.WRONG,
    **matmul.WRONG,
    **pooling.WRONG,
    **prelu.WRONG,
    **reorder.WRONG,
    **resampling.WRONG,
    **softmax.WRONG,
    **weight_gradient.WRONG,
}
"""What gives wrong numbers, writes out of bounds, crashes or never ends."""
SLOW: Table = {**deconvolution.SLOW, **group_normalization.SLOW, **weight_gradient.SLOW}
"""What is right, and takes longer than any other way; beside the library's reference loops, which are slow wherever
they stand."""
IMPRECISE: Table = {
    **convolution.IMPRECISE,
    **deconvolution.IMPRECISE,
    **group_normalization.IMPRECISE,
    **matmul.IMPRECISE,
}
"""What rounds or saturates where another way does not."""
TABLES: Mapping[str, Table] = {"wrong": WRONG, "slow": SLOW, "imprecise": IMPRECISE}
"""All by what is wrong with them."""


def rules_of(function: str) -> tuple[Rule, ...]:
    """All rules about what `function` describes, wrong ones first."""
    return tuple(chain.from_iterable(table.get(function, ()) for table in TABLES.values()))


def unaskable(descriptor: Descriptor) -> str | None:
    """Why the library must not be asked for a primitive, or None when it may."""
    return _first(Features(descriptor), descriptor.function, asked=False)


def refused(features: Features, *, references: bool = False) -> str | None:
    """Why an implementation must not run a primitive, or None when it may.

    Args:
        references: whether the library's reference loops may run.
    """
    if features.is_loop:
        return None if references else f"the library has a reference loop only for this {features.function}"
    return _first(features, features.implementation, asked=True)


def _first(features: Features, what: str, *, asked: bool) -> str | None:
    version = load().version[:2]
    for rule in rules_of(features.function):
        if rule.asked is asked and rule.holds(version) and rule.bars(features):
            return f"{what} is barred when {rule.condition}: {rule.seen}"
    return None
