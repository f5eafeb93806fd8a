"""Verdict: what was found of a kernel on one problem."""

from __future__ import annotations

from enum import StrEnum

from ...ops.records import frozen


class Kind(StrEnum):
    """What a kernel did: computed what it should, something else, ended its process, or did not end."""

    right = "right"
    wrong = "wrong"
    crashed = "crashed"
    endless = "endless"


@frozen
class Verdict:
    """What was found of a kernel on one problem.

    Attributes:
        kind: see `Kind`.
        seen: what happened, in words; empty for what is right.
        about: which kernel it was, for readers.
    """

    kind: Kind
    seen: str = ""
    about: str = ""

    @property
    def right(self) -> bool:
        """Whether the kernel may run."""
        return self.kind is Kind.right

    def __str__(self) -> str:
        return f"{self.kind}: {self.seen}" if self.seen else self.kind.value


RIGHT = Verdict(Kind.right)
