"""What is noted while a partition is lowered: which ops are done and by whom, and why something was not."""

from __future__ import annotations

from ....graph.model.op import Op
from ....graph.runtime.executable import Considered
from ..plan.journal import Journal, JournalledDict, JournalledList, JournalledSet


class Notes:
    """The notes of one lowering.

    Args:
        journal: of the attempts, which undoes all but the reasons.

    Attributes:
        reasons: why something was not done in the first way tried; they outlive the attempts that they tell of.
        done: ids of the ops that need not be lowered any more.
        lacking: ids of the ops for which the library had no kernel in some way.
        fused: for each primitive that took others along, its op and theirs.
        hosted: ops that became steps on the host.
        considered: candidates, for the explanation. ways: names of those that were taken.
        decided: for each op that executions choose for, its problem and the name of what it takes; None for what is on
            trial.
    """

    def __init__(self, journal: Journal) -> None:
        self.reasons: list[str] = []
        self.done: JournalledSet[int] = JournalledSet(journal)
        self.lacking: JournalledSet[int] = JournalledSet(journal)
        self.fused: JournalledList[tuple[Op, ...]] = JournalledList(journal)
        self.hosted: JournalledList[Op] = JournalledList(journal)
        self.considered: JournalledList[Considered] = JournalledList(journal)
        self.ways: JournalledList[str] = JournalledList(journal)
        self.decided: JournalledDict[int, tuple[str, str | None]] = JournalledDict(journal)

    def absorb(self, op: Op, *others: Op) -> None:
        """Notes that the primitive of `op` does the others too."""
        self.done.update(other.id for other in others)
        self.fused.append((op, *others))

    def take_along(self, op: Op) -> bool:
        """Whether nobody has done the op yet; the primitive that is being made then does it too."""
        if op.id in self.done:
            return False
        self.done.add(op.id)
        return True

    @property
    def strategy(self) -> str:
        """How the ops are done, in a few words."""
        chains = ["+".join(op.kind for op in ops) for ops in self.fused]
        told = ([f"fused {', '.join(chains)}"] if chains else []) + self.ways[:]
        return ", ".join(told) or "primitives in order"
