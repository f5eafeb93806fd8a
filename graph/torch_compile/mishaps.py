"""What went wrong of ours in a compiled model, so that torch does it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection

NAMED = 3
"""Ops that a warning names."""


class HandedToTorchWarning(UserWarning):
    """Said once for each compiled graph of which torch does a part because an error of ours came there."""


class Mishaps:
    """The errors of one compiled graph.

    Args:
        strict: whether they are raised.

    Attributes:
        noted: reason → how often.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.noted: Counter[str] = Counter()

    def again(self) -> Mishaps:
        """Those of another graph of the same model, to which what came so far belongs as well."""
        made = Mishaps(strict=self.strict)
        made.noted.update(self.noted)
        return made

    def note(self, error: Exception, ops: Collection[str], what: str) -> None:
        """Counts an error, and warns of the first one.

        Args:
            error: ours.
            ops: names of those that torch does now; none for a whole graph.
            what: failed.

        Raises:
            Exception: the error, where that was asked for.
        """
        if self.strict:
            raise error
        first = not self.noted
        reason = f"{what} failed ({type(error).__name__}: {' '.join(str(error).split())})"
        self.noted[reason] += 1
        if first:
            more = f" and {len(ops) - NAMED} more ops" if len(ops) > NAMED else ""
            names = ", ".join(sorted(ops)[:NAMED]) + more if ops else "all"
            warnings.warn(
                f"torch does {names} of a compiled graph itself, as {reason}; results are torch's, and "
                "options={'strict': True} has the error raised",
                HandedToTorchWarning,
                stacklevel=3,
            )
