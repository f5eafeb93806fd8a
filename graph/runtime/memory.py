"""The memory of executions, step by step: what backends plan of it, and what stands beside that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from ...ops.records import frozen


@frozen(kw_only=True)
class MemoryStep:
    """One step of an execution, as far as its memory goes.

    Attributes:
        name: what it does, and the implementation that does it.
        op: id of the op that it is done for, or None.
    """

    name: str
    op: int | None


@frozen(kw_only=True)
class Temporary:
    """Bytes of an arena that hold one thing for some steps.

    Attributes:
        name: whose result it is, or whose scratchpad.
        text: type, shape and layout; empty for a scratchpad.
        nbytes: how many it needs.
        offset: its first byte in the arena.
        first, last: numbers of the first and the last step that need it; -1 for what is set before all steps, and one
            more than the last step's for what has to stay until the next execution.
        writes: numbers of the steps that write it.
        reads: numbers of the steps that read it; a scratchpad has none.
        scratchpad: whether it is what a kernel needs beside its arguments.
    """

    name: str
    text: str
    nbytes: int
    offset: int
    first: int
    last: int
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    scratchpad: bool


@frozen(kw_only=True, eq=False)
class PlannedMemory:
    """What a backend plans of one executable's temporaries.

    Attributes:
        steps: in order of execution.
        temporaries: in the order in which they begin.
        arena_bytes: size of the arena in which they lie.
    """

    steps: tuple[MemoryStep, ...]
    temporaries: tuple[Temporary, ...]
    arena_bytes: int


@runtime_checkable
class MemoryPlanning(Protocol):
    """An executable that knows where its temporaries lie before it runs."""

    def planned_memory(self) -> PlannedMemory:
        """The plan; one object as long as it is the same plan."""
        ...


@frozen(kw_only=True)
class HeldMemory:
    """Memory that stays between executions.

    Attributes:
        name: of the tensor.
        nbytes: how much.
        place: its address, by which it is known that stages share it; None for what is not made yet.
    """

    name: str
    nbytes: int
    place: int | None


@frozen(kw_only=True)
class StageMemory:
    """The memory of one executable: of all of a graph, mostly, and of several partitions where it runs in stages.

    Attributes:
        label: kinds of its ops, joined.
        sizes: of what a call gives it, where it was compiled for those of a call; empty otherwise.
        backend: who runs it.
        ops: ids of its ops.
        steps: in order; a backend that does not plan its memory has one for each op.
        temporaries: in the order in which they begin; none where they are not planned.
        arena_bytes: size of the arena, or None where the backend takes memory as it goes.
        constants: what the graph holds and this reads.
        prepared: what was made of constants: weights in the layout of a kernel.
        between: results that stay until the call is over, for further stages.
    """

    label: str
    sizes: str
    backend: str
    ops: tuple[int, ...]
    steps: tuple[MemoryStep, ...]
    temporaries: tuple[Temporary, ...]
    arena_bytes: int | None
    constants: tuple[HeldMemory, ...]
    prepared: tuple[HeldMemory, ...]
    between: tuple[HeldMemory, ...]

    @property
    def in_use(self) -> tuple[int, ...]:
        """For each step, the bytes of the arena that hold something which it or a later step needs.

        What writes over its own input has that memory once.
        """
        held: list[list[tuple[int, int]]] = [[] for _ in self.steps]
        for one in self.temporaries:
            for number in range(max(one.first, 0), min(one.last + 1, len(held))):
                held[number].append((one.offset, one.offset + one.nbytes))
        return tuple(map(_covered, held))


@frozen(kw_only=True)
class MemoryPeak:
    """Where most of the memory is in use.

    Attributes:
        step: number of the step in the whole timeline.
        nbytes: temporaries in use at it, and results that wait for further stages.
        name: the step's.
        op: id of its op, or None.
    """

    step: int
    nbytes: int
    name: str
    op: int | None


@frozen
class MemoryTimeline:
    """The memory of a graph over the steps of an execution.

    Attributes:
        stages: what was executed, in order; a graph of open shapes has one for each that was met.
    """

    stages: tuple[StageMemory, ...]

    @property
    def steps(self) -> tuple[MemoryStep, ...]:
        """Those of all stages."""
        return tuple(step for stage in self.stages for step in stage.steps)

    @property
    def in_use(self) -> tuple[int, ...]:
        """For each step, the temporaries in use in bytes, and the results of former stages that wait for others."""
        waiting = 0
        found: list[int] = []
        for stage in self.stages:
            found += [waiting + one for one in stage.in_use]
            waiting += _sum(stage.between)
        return tuple(found)

    @property
    def peak(self) -> MemoryPeak | None:
        """The first step at which most is in use; None where nothing was executed."""
        used = self.in_use
        if not used:
            return None
        number = used.index(max(used))
        step = self.steps[number]
        return MemoryPeak(step=number, nbytes=used[number], name=step.name, op=step.op)

    @property
    def arena_bytes(self) -> int:
        """Sizes of all arenas, each of which is kept for the next execution."""
        return sum(stage.arena_bytes or 0 for stage in self.stages)

    @property
    def constant_bytes(self) -> int:
        """Constants and parameters of the graph."""
        return _sum(_apart(one for stage in self.stages for one in stage.constants))

    @property
    def prepared_bytes(self) -> int:
        """What was made of constants."""
        return _sum(_apart(one for stage in self.stages for one in stage.prepared))

    @property
    def between_bytes(self) -> int:
        """Results that stages leave to each other."""
        return sum(_sum(stage.between) for stage in self.stages)

    @property
    def memory_bytes(self) -> int:
        """All but the constants themselves: what `CompiledGraph.memory_bytes` tells, if all of it was executed."""
        return self.arena_bytes + self.prepared_bytes + self.between_bytes

    def __str__(self) -> str:
        peak = self.peak
        if peak is None:
            return "nothing was executed"
        lines = [
            f"arena: {self.arena_bytes} bytes",
            f"constants: {self.constant_bytes} bytes, and {self.prepared_bytes} made of them",
        ]
        if self.between_bytes:
            lines.append(f"between stages: {self.between_bytes} bytes")
        unplanned = dict.fromkeys(stage.backend for stage in self.stages if stage.arena_bytes is None)
        lines += [f"{name} takes memory as it goes, which is not counted" for name in unplanned]
        if peak.nbytes:
            lines.append(f"peak: {peak.nbytes} bytes in use at step {peak.step}, {peak.name}")
        return "\n".join(lines)


def _sum(held: Iterable[HeldMemory]) -> int:
    return sum(one.nbytes for one in held)


def _apart(held: Iterable[HeldMemory]) -> Iterator[HeldMemory]:
    """Without what lies where another one does."""
    known: set[int] = set()
    for one in held:
        if one.place is None or one.place not in known:
            yield one
        if one.place is not None:
            known.add(one.place)


def _covered(parts: Sequence[tuple[int, int]]) -> int:
    """Bytes that lie in at least one of the parts."""
    total, end = 0, 0
    for start, stop in sorted(parts):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total
