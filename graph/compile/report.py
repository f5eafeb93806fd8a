"""Who ran how much of a graph."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from ..runtime.profiling import Profile


@frozen(kw_only=True, eq=False)
class Report:
    """Who ran how much of a graph.

    Attributes:
        partitions: how many there are.
        ops: op counts by backend.
        seconds: time in partitions by backend, of one call.
        profile: everything that was measured, of all calls.
    """

    partitions: int
    ops: Mapping[str, int]
    seconds: Mapping[str, float]
    profile: Profile

    @property
    def onednn_share(self) -> float:
        """The share of the partitions' time that oneDNN had, 0 to 1."""
        total = sum(self.seconds.values())
        return self.seconds.get("onednn", 0.0) / total if total else 0.0

    def __str__(self) -> str:
        total = sum(self.ops.values())
        parts = ", ".join(
            f"{self.ops[name]} of {total} ops and {self.seconds.get(name, 0.0) * 1e3:.2f} ms on {name}"
            for name in sorted(self.ops, key=lambda name: name != "onednn")
        )
        return f"{self.partitions} partitions: {parts}; {self.onednn_share:.0%} of the time on oneDNN"
