"""Why ranks that have met can't go on, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LONGEST = 200
"""As many characters of a value are told."""
FROM_BEFORE = 60
"""As many of them stand before the first difference."""
SENT = 1 << 13
"""As many bytes of a value are sent to the others, for the telling."""


class Words(NamedTuple):
    """What a rank has to say.

    Attributes:
        what: where it is.
        value: what it has there, or its beginning.
        digest: of all of that.
        reason: why it has failed, or nothing.
    """

    what: str
    value: str
    digest: str
    reason: str


def explanation(rank: int, words: Sequence[Words]) -> str:
    """What is different on some rank.

    Args:
        rank: of this process.
        words: of each rank.
    """
    mine = words[rank]
    failed = next((n for n, one in enumerate(words) if one.reason), None)
    if failed is not None:
        its = words[failed]
        return f"rank {rank} can't go on from {mine.what}, because rank {failed} has failed in {its.what}: {its.reason}"
    other, its = next((n, one) for n, one in enumerate(words) if one != mine)
    if its.what != mine.what:
        return (
            f"all ranks must do the same, but rank {rank} is at {mine.what} and rank {other} at {its.what}; let all "
            "make the same calls in the same order, and let only the data differ"
        )
    here, there = _from_where_they_differ(mine.value, its.value)
    return (
        f"{mine.what} must be the same on all ranks, but rank {rank} has {here} and rank {other} {there}; make the "
        "same graph and schedules everywhere, and let only the data differ"
    )


def _from_where_they_differ(one: str, other: str) -> tuple[str, str]:
    """Both from shortly before the first difference on, where that is far behind."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    begin = max(same - FROM_BEFORE, 0) if same > 2 * FROM_BEFORE else 0
    before = "…" if begin else ""
    return before + short(one[begin:]), before + short(other[begin:])


def short(text: str) -> str:
    """Its beginning, where it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
