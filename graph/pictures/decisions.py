"""How a graph came to its partitions, as data: what the partitioner asked, one after another, and what it was told."""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.records import frozen
from .subjects import PartitioningSubject, PartitionSubject


@frozen(kw_only=True)
class DescribedDecision:
    """One question of the partitioner, and the answer.

    Attributes:
        backend: who was asked; None where nobody is left to ask.
        pattern: the name of its pattern that matched; empty where none did.
        ops: ids of the ops that it matched; none for a backend that can't be used.
        partition: id of the partition that they became, or None where they were refused.
        reason: why they were refused, or empty.
        ends: why no more was taken, or empty.
    """

    backend: str | None
    pattern: str
    ops: tuple[int, ...]
    partition: int | None
    reason: str
    ends: str


@frozen(kw_only=True)
class DescribedPartitioning:
    """All of them, of a graph or of all graphs of a model.

    Attributes:
        policy: `fusion` or `debug`.
        steps: in order.
        unmatched: backend and name of patterns that matched nothing.
    """

    policy: str
    steps: tuple[DescribedDecision, ...]
    unmatched: tuple[tuple[str, str], ...]


def decisions(partitions: Sequence[PartitionSubject]) -> DescribedPartitioning | None:
    """What led to these partitions; None where there are none."""
    found = {id(one.partitioning): one.partitioning for one in partitions}
    if not found:
        return None
    ways: list[PartitioningSubject] = list(found.values())
    return DescribedPartitioning(
        policy=ways[0].policy,
        steps=tuple(
            DescribedDecision(
                backend=step.backend,
                pattern=step.pattern,
                ops=tuple(op.id for op in step.ops),
                partition=step.partition,
                reason=step.reason,
                ends=step.ends,
            )
            for way in ways
            for step in way.steps
        ),
        unmatched=tuple(one for one in ways[0].unmatched if all(one in way.unmatched for way in ways[1:])),
    )
