"""Our rules about the library's kernels, applied to primitives that another copy of the library has told of."""

from __future__ import annotations

import re

from ...backends.onednn.library.implementations import is_reference
from ...backends.onednn.library.loading import load
from ...backends.onednn.quarantine import TABLES
from ...backends.onednn.rules.features import Features
from ...backends.onednn.rules.rule import Rule
from ...ops.errors import OneDNNGraphError
from ...ops.records import frozen
from .told import described
from .verbose import Primitive


@frozen(eq=False, slots=False, kw_only=True)
class Told(Features):
    """A primitive as another copy of the library says that it ran it.

    Attributes:
        ran: what it has said.
        its_isa, its_threads: of that copy.
    """

    ran: Primitive
    its_isa: str
    its_threads: int

    @property
    def implementation(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The other copy's name of it."""
        return self.ran.implementation

    @property
    def isa(self) -> str:
        """Of the other copy."""
        return self.its_isa

    @property
    def threads(self) -> int:
        """Of the other copy."""
        return self.its_threads


@frozen(kw_only=True)
class Hit:
    """A rule that a primitive falls under.

    Attributes:
        table: `wrong`, `slow` or `imprecise`.
        rule: of ours.
        certain: whether the version is the one for which it is proven.
    """

    table: str
    rule: Rule
    certain: bool

    def told(self, version: tuple[int, ...]) -> str:
        """How much is known of that version."""
        name = ".".join(map(str, version[:2]))
        since = ".".join(map(str, self.rule.since))
        if self.certain:
            return f"known of {since}, which is this version"
        return f"known of {since}; whether {name} still does it is not proven"


def is_loop(implementation: str) -> bool:
    """Whether an implementation, or what it hands its work to, is a reference loop."""
    return any(is_reference(part) for part in re.split(r"[+:]", implementation))


def hits(
    ran: Primitive, version: tuple[int, ...], isa: str = "", threads: int | None = None
) -> tuple[Hit, ...] | None:
    """The rules that a primitive falls under; None where it can't be judged.

    Args:
        ran: as the other copy has told of it.
        version, isa, threads: of that copy; this machine's where they are not known.
    """
    try:
        lib = load()
        descriptor = described(lib, ran)
        if descriptor is None:
            return None
        features = Told(
            descriptor,
            ran=ran,
            its_isa=isa or lib.effective_isa,
            its_threads=threads or lib.threads,
        )
        found: list[Hit] = []
        for table, rules in TABLES.items():
            for rule in rules.get(descriptor.function, ()):
                if rule.holds((version[0], version[1])) and rule.bars(features):
                    found.append(Hit(table=table, rule=rule, certain=version[:2] == rule.since))  # noqa: PERF401
    except (OneDNNGraphError, LookupError, ValueError):  # what this copy of the library can't describe
        return None
    return tuple(found)
