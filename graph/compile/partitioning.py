"""How a graph came to its partitions: what the partitioner asked, one after another, and what it was told.

While it works, the partitioner notes no more than who was asked for which ops, and the answer; steps with their texts
are made of that when somebody looks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import field

from ...ops.errors import ArgumentError, ArgumentTypeError, nearest
from ...ops.records import define, frozen
from ...ops.values import counted, format_value
from ..model.op import Op
from ..model.topology import Topology
from ..runtime.cached import cached
from .backend import Pattern

NAMED = 8
"""Ops that a line names."""
TAKEN = ""
"""What is noted where nothing is against a match."""


@frozen(kw_only=True)
class PartitioningStep:
    """One question of the partitioner to a backend, and the answer.

    Attributes:
        backend: who was asked; None where nobody is left to ask.
        pattern: the name of its pattern that matched; empty where none did, for the backend can't be used at all, or
            nobody runs the op.
        ops: that the pattern matched, in topological order; empty for a backend that can't be used.
        partition: id of the partition that they became, or None where they were refused.
        reason: why they were refused; empty where they were not, and where nobody was left to ask.
        ends: of ops that were taken, why the pattern goes no further, or of one op, why none that begins there takes
            more; empty where nothing follows, and where the backend does not tell.
    """

    backend: str | None
    pattern: str
    ops: tuple[Op, ...]
    partition: int | None
    reason: str
    ends: str = ""

    def __str__(self) -> str:
        if self.backend is None:
            return f"nobody takes {_names(self.ops)} → partition {self.partition}, which can't run"
        if not self.pattern:
            return f"{self.backend} can't be asked: {self.reason}"
        who = f"{self.backend}, {self.pattern}:"
        if self.partition is None:
            return f"{who} refused {_names(self.ops)}: {self.reason}"
        ends = f"; {self.ends}" if self.ends else ""
        return f"{who} took {_names(self.ops)} → partition {self.partition}{ends}"


@define(eq=False)
class Decisions:
    """What the partitioner notes as it goes.

    Attributes:
        ops: of the graph, in topological order. outputs: ids of its outputs.
        offers: names of backends and their patterns, in the order in which they are asked.
        unavailable: backends that can't be used → why.
        made: number of the offer, ops of the match, and the reason against them: `TAKEN`, or None where some of them
            were taken before, by whom is found when somebody looks.
    """

    ops: Sequence[Op]
    outputs: Collection[int]
    offers: Sequence[tuple[str, Pattern]]
    unavailable: Mapping[str, str]
    made: list[tuple[int, tuple[Op, ...], str | None]] = field(
        factory=list[tuple[int, tuple[Op, ...], str | None]]
    )


class Partitioning:
    """How a graph came to its partitions, step by step. Print it.

    Attributes:
        policy: `fusion` or `debug`, under which patterns of several ops are not asked.
    """

    def __init__(
        self, policy: str, decisions: Decisions, partitions: Sequence[tuple[int, Sequence[Op]]]
    ) -> None:
        self.policy = policy
        self._decisions = decisions
        self._partitions = partitions

    @property
    def steps(self) -> tuple[PartitioningStep, ...]:
        """What was asked and answered, in order. A pattern that matches nothing at an op is no step."""
        return self._steps

    @cached
    def _steps(self) -> tuple[PartitioningStep, ...]:
        decisions = self._decisions
        topology = Topology(decisions.ops, decisions.outputs)
        number_of = {op.id: number for number, ops in self._partitions for op in ops}
        takers: dict[int, str] = {}
        steps = [
            PartitioningStep(backend=name, pattern="", ops=(), partition=None, reason=reason)
            for name, reason in decisions.unavailable.items()
        ]
        for offer, ops, answer in decisions.made:
            backend, pattern = decisions.offers[offer]
            taken = answer == TAKEN
            if taken:
                takers.update((op.id, f"{pattern.name!r} of {backend}") for op in ops)
            steps.append(
                PartitioningStep(
                    backend=backend,
                    pattern=pattern.name,
                    ops=ops,
                    partition=number_of[ops[0].id] if taken else None,
                    reason=_in_others(ops, takers, number_of) if answer is None else answer,
                    ends=self._end(offer, ops, topology) if taken else "",
                )
            )
        steps += [
            PartitioningStep(backend=None, pattern="", ops=tuple(ops), partition=number, reason="")
            for number, ops in self._partitions
            if ops[0].id not in takers
        ]
        return tuple(steps)

    def _end(self, offer: int, ops: Sequence[Op], topology: Topology) -> str:
        """Why a match goes no further: of a single op, as a pattern of several says that begins there."""
        backend, own = self._decisions.offers[offer]
        beginning = [pattern for name, pattern in self._decisions.offers if name == backend and len(ops) == 1]
        for pattern in (own, *beginning):
            told = None if pattern.ends is None else pattern.ends(ops, topology)
            if told is not None:
                return f"{'it' if pattern is own else repr(pattern.name)} {told}"
        return ""

    @property
    def unmatched(self) -> tuple[tuple[str, str], ...]:
        """Backend and name of each pattern that matched nothing of what was left when its turn came."""
        return self._unmatched

    @cached
    def _unmatched(self) -> tuple[tuple[str, str], ...]:
        matched = {offer for offer, _, _ in self._decisions.made}
        return tuple(
            (backend, pattern.name)
            for number, (backend, pattern) in enumerate(self._decisions.offers)
            if number not in matched
        )

    def about(self, op: Op | str) -> tuple[PartitioningStep, ...]:
        """The steps in which an op was among those that were asked for, in order.

        Args:
            op: an op of the graph, or its name.

        Raises:
            ArgumentTypeError, ArgumentError: neither; no op of the graph has that name.
        """
        if isinstance(op, Op):
            return tuple(step for step in self.steps if op in step.ops)
        if not isinstance(op, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"op must be an op or its name, got {format_value(op)}")
        names = {one.name for _, ops in self._partitions for one in ops if one.name}
        if op not in names:
            raise ArgumentError(f"no op of the graph has the name {format_value(op)}{nearest(op, names)}")
        return tuple(step for step in self.steps if any(one.name == op for one in step.ops))

    def __getstate__(self) -> dict[str, object]:
        """For pickles and copies: what was told, for patterns are functions."""
        known = {"_steps": self.steps, "_unmatched": self.unmatched}
        return {"policy": self.policy, "_partitions": self._partitions, **known}

    def __str__(self) -> str:
        ops = sum(len(ops) for _, ops in self._partitions)
        sizes = f"{counted(ops, 'op')} into {counted(len(self._partitions), 'partition')}"
        lines = [f"{sizes} by policy {self.policy}, in {counted(len(self.steps), 'step')}"]
        width = len(str(len(self.steps)))
        lines += [f"{number:>{width + 2}}  {step}" for number, step in enumerate(self.steps, 1)]
        if self.unmatched:
            backends = dict.fromkeys(backend for backend, _ in self.unmatched)
            found = (
                f"{name} {', '.join(repr(pattern) for one, pattern in self.unmatched if one == name)}"
                for name in backends
            )
            lines.append(f"matched nothing of what was left: {'; '.join(found)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Partitioning({str(self).partition(chr(10))[0]})"


def _names(ops: Sequence[Op]) -> str:
    more = [f"{len(ops) - NAMED} more ops"] if len(ops) > NAMED else []
    return " + ".join([*map(str, ops[:NAMED]), *more])


def _in_others(ops: Sequence[Op], takers: Mapping[int, str], number_of: Mapping[int, int]) -> str:
    """Who had which of the ops before."""
    had: dict[int, list[Op]] = {}
    for op in ops:
        if op.id in takers:
            had.setdefault(number_of[op.id], []).append(op)
    return "; ".join(
        f"{_names(group)} went to partition {number} before, by {takers[group[0].id]}"
        for number, group in had.items()
    )
