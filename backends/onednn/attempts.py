"""Which plans are made of a request, one after another, and why the next one where one is refused."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from ...ops.records import frozen
from .plan.chooser import Limits


@frozen
class Attempt:
    """A plan that is to be made.

    Attributes:
        limits: what it must not do.
        why: the reason that it is made, for logs.
    """

    limits: Limits
    why: str


@frozen(kw_only=True)
class Outcome:
    """What came of an attempt.

    Attributes:
        trusted: whether the fuzzers have covered all that it runs.
        fuses: whether a primitive of it takes others along.
        unproven: ids of the ops that run something unproven.
        choices: op id → how many candidates it has.
        wrong: op id and implementation, of those that were found wrong.
    """

    trusted: bool
    fuses: bool
    unproven: frozenset[int]
    choices: Mapping[int, int]
    wrong: frozenset[tuple[int, str]] = frozenset()

    def then(self, later: Outcome) -> Outcome:
        """Of the same attempt made once more, which doubts about the first one are true of too."""
        return evolve(later, trusted=self.trusted and later.trusted, fuses=self.fuses or later.fuses)


WAYS = (
    (Limits(), "the first choice"),
    (Limits(proven_only=True), "proven implementations alone"),
    (Limits(fuses=False), "primitives that take nothing along"),
)
"""From the one that is best to what helps where all others were refused."""


class Attempts:
    """Iterates over the attempts at a request.

    What was found wrong stays out, for the op for which it was, and all others stay as they are. Else first comes each
    choice that some op in doubt has, then proven implementations alone, then primitives that take
    nothing along:

        attempts = Attempts(every=False)
        for attempt in attempts:
            …  # make the plan
            attempts.made(outcome)  # or attempts.impossible()

    It ends where an attempt was told nothing of, and where the ways that are left would change nothing.

    An op is in doubt that runs something unproven, or any op where the user wants all verified. The others keep their
    best choice: what nobody doubts must not get slower for it.

    Args:
        every: whether all ops are in doubt.
    """

    def __init__(self, *, every: bool) -> None:
        self._every = every
        self._way = 0
        self._next: Attempt | None = None
        self._barred: frozenset[tuple[int, str]] = frozenset()
        self._begin(0, "")

    def __iter__(self) -> Attempts:
        return self

    def __next__(self) -> Attempt:
        attempt = self._next
        if attempt is None:
            raise StopIteration
        self._next = None
        return attempt

    def made(self, outcome: Outcome) -> None:
        """Tells what came of the latest attempt, which decides what is tried if that is refused."""
        self.doubted |= not outcome.trusted
        self._fused |= outcome.fuses
        self._in_doubt |= outcome.unproven
        if outcome.wrong - self._barred:
            self._barred |= outcome.wrong
            self._next = self._attempt(f"{len(self._barred)} kernels left out that were found wrong")
            return
        counts = [n for op, n in outcome.choices.items() if self._every or op in self._in_doubt]
        self._choice += 1
        if self._choice < max(counts, default=1):
            self._next = self._attempt(f"candidate {self._choice + 1} of what is in doubt")
        elif self.doubted or self._fused:
            what = "something unproven runs" if self.doubted else "some primitive takes others along"
            self._begin(self._way + 1, f", for {what}")

    def impossible(self) -> bool:
        """Tells that the latest attempt can't be made; whether another one may do."""
        if not WAYS[self._way][0].proven_only:
            return False
        self._begin(self._way + 1, ", for it needs one that is not proven")
        return True

    def _begin(self, way: int, reason: str) -> None:
        """Goes on to another way, if there is one."""
        self._way, self._choice = way, 0
        self._in_doubt: frozenset[int] = frozenset()
        self.doubted = self._fused = False
        """Whether something unproven ran in this way."""
        if way < len(WAYS):
            self._next = self._attempt(WAYS[way][1] + reason)

    def _attempt(self, why: str) -> Attempt:
        choosing = None if self._every else self._in_doubt
        limits = evolve(WAYS[self._way][0], choice=self._choice, choosing=choosing, barred=self._barred)
        return Attempt(limits, why)
