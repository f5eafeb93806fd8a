"""Who ran how much of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ...ops.values import counted, format_value, integer
from ..pictures.profile import Profile, profile
from .record import HOST, REFERENCE, Placed, told


@frozen(kw_only=True, eq=False)
class Report:
    """Who ran how much of a graph.

    Attributes:
        partitions: how many there are.
        record: where each op runs, and why.
        seconds: time in partitions by the backend that runs most of each, of one call.
        profile: everything that was measured, of all calls.
    """

    partitions: int
    record: Sequence[Placed]
    seconds: Mapping[str, float]
    profile: Profile

    @property
    def ops(self) -> dict[str, int]:
        """Op counts by backend."""
        return dict(Counter(str(one.backend) for one in self.record))

    @property
    def onednn_share(self) -> float:
        """The share of the partitions' time that oneDNN had, 0 to 1."""
        total = sum(self.seconds.values())
        return self.seconds.get("onednn", 0.0) / total if total else 0.0

    def __str__(self) -> str:
        ops = self.ops
        total = sum(ops.values())
        parts = ", ".join(
            f"{ops[name]} of {total} ops and {self.seconds.get(name, 0.0) * 1e3:.2f} ms on {name}"
            for name in sorted(ops, key=lambda name: name != "onednn")
        )
        head = (
            f"{counted(self.partitions, 'partition')}: {parts}; {self.onednn_share:.0%} of the time on oneDNN"
        )
        elsewhere = [(name, line) for name in (HOST, REFERENCE) for line in told(self.record, name)]
        lines = [f"  on {name}: {line}" for name, line in elsewhere if len(ops) > 1 or name == REFERENCE]
        return "\n".join([head, *lines])


def reported(
    call: Callable[[], None],
    beside: Callable[[], Mapping[str, float]],
    told_of: Callable[[], tuple[int, Sequence[Placed]]],
    repeat: int,
) -> Report:
    """See `CompiledGraph.report`.

    Args:
        call: runs the graph once.
        beside: who ran what is in no partition in the latest call, and how long.
        told_of: how many partitions there are, and where each op runs.
    """
    if integer(repeat) is None or repeat < 1:
        raise ArgumentError(f"repeat must be an integer of at least 1, got {format_value(repeat)}")
    call()
    total = Counter[str]()
    with profile() as prof:
        for _ in range(repeat):
            call()
            total.update(beside())
    for line in prof.partitions:
        total.update({line.implementation: line.seconds})
    seconds = {who: time / repeat for who, time in total.items()}
    partitions, record = told_of()
    return Report(partitions=partitions, record=record, seconds=seconds, profile=prof)
