"""Doubts: which kernels of an executable nobody has proven, and what verdicts say of them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field

from ...ops.records import frozen
from ..runtime.executable import Explanation
from .store import STORE
from .verdict import RIGHT, Kind, Verdict


@frozen
class Doubts:
    """What has to be verified of an executable.

    Attributes:
        open: key → kernel, of those that no verdict is known of.
        nameless: whether a kernel that nobody has proven has no key, so that it has to be verified each time.
        against: which kernel must not run and why; None where no verdict says so.
        accused: id of the op that the kernel belongs to, where that is one.
    """

    open: Mapping[str, str] = field(factory=dict[str, str])
    nameless: bool = False
    against: str | None = None
    accused: int | None = None

    @classmethod
    def about(cls, explanation: Explanation, *, afresh: bool) -> Doubts:
        """What verdicts leave open.

        Args:
            explanation: of the executable.
            afresh: whether only those count by which it would end the process or never end, since the user wants all
                verified.
        """
        steps = [step for step in explanation.steps if not step.proven]
        keys = {step.trust: step.name for step in steps if step.trust}
        known = STORE.known(keys) if keys else {}
        if afresh:
            known = {key: one for key, one in known.items() if one.kind in (Kind.crashed, Kind.endless)}
        bad = next((key for key, verdict in known.items() if not verdict.right), None)
        return cls(
            {key: name for key, name in keys.items() if key not in known},
            any(not step.trust for step in steps),
            None if bad is None else f"{keys[bad]} was verified before and found {known[bad]}",
            None if bad is None else next(step.op for step in steps if step.trust == bad),
        )

    @property
    def settled(self) -> bool:
        """Whether nothing is left to verify, and nothing stands against it."""
        return not self.open and not self.nameless and self.against is None

    def found_right(self) -> None:
        """Keeps that the executable has computed what it should, and with it each kernel that was in doubt."""
        STORE.put({key: Verdict(RIGHT.kind, about=name) for key, name in self.open.items()})

    def found_wrong(self, seen: str, kind: Kind = Kind.wrong) -> None:
        """Keeps that it has not, if there is but one kernel whose fault that can be."""
        if len(self.open) == 1 and not self.nameless:
            ((key, name),) = self.open.items()
            STORE.put({key: Verdict(kind, seen, name)})
