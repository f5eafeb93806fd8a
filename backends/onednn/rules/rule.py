"""Rules about implementations of the library: what each says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ....ops.records import frozen
from ..library.implementations import begins
from ..library.loading import Version
from .features import Features


@frozen(kw_only=True)
class Rule:
    """One rule of a table.

    Attributes:
        name: by which its reproducer and the records of sweeps know it; one of its own in its row.
        implementation: beginning of the library's implementation name, or of the kernel's that it hands copies to, as
            that version or an earlier one has it.
        condition: in words.
        applies: the condition.
        seen: what happened.
        since: first version of the library that is known for it. What later versions do wrong is not held against
            those before, where the fuzzers have covered these.
        fixed: first version that is proven to be free of it; None where none is, so that it holds for all that come.
        asked: whether the library may be asked for the primitive, so that an implementation is barred; False where
            describing it does harm, or no implementation is right: then the condition sees no implementation.
    """

    name: str
    implementation: str
    condition: str
    applies: Callable[[Features], bool]
    seen: str
    since: Version = (3, 2)
    fixed: Version | None = None
    asked: bool = True

    def holds(self, version: Version) -> bool:
        """Whether a version of the library does it, as far as anybody knows."""
        return self.since <= version and (self.fixed is None or version < self.fixed)

    def bars(self, features: Features) -> bool:
        """Whether it is about this implementation and its condition holds."""
        names = features.implementation, features.kernel
        return any(begins(name, self.implementation) for name in names) and self.applies(features)


Table: TypeAlias = Mapping[str, tuple[Rule, ...]]
"""What describes the primitive → the rules about its implementations."""
