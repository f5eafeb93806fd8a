"""Recording: how long partitions took, and the primitives and copies in them; `pictures.profile` shows it.

Nothing is measured, and next to nothing lost, while no recording is open. Backends call `record` for what they run.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum
from time import perf_counter
from typing import Protocol, TypeVarTuple

from ...ops.records import frozen
from .locking import Lock
from .memory import MemoryTimeline, StageMemory

Arguments = TypeVarTuple("Arguments")


class EventKind(Enum):
    """What was measured.

    A `partition` holds the others: a `primitive` of a library, a `copy` that only moves or converts elements
    (a reorder), a `host` step by NumPy.

    Beside them stands what a process does with others that train the same model: the `filling` of a bucket with
    gradients, its `exchange`, from when it is full until this process sees that the means are there, and each `wait`.
    """

    partition = "partition"
    primitive = "primitive"
    copy = "copy"
    host = "host"
    filling = "filling"
    exchange = "exchange"
    wait = "wait"


BESIDE = (EventKind.filling, EventKind.exchange, EventKind.wait)
"""Kinds that run beside the steps, or in them, and are no part of a partition's time."""


@frozen(kw_only=True)
class Event:
    """One stretch of time.

    Attributes:
        kind: see `EventKind`.
        name: the ops of a partition, or what the step does in it.
        implementation: the kernel's name; the backend of a partition.
        tensors: the step's tensors with type, shape and layout.
        partition: id of the partition that it belongs to, or None.
        label: that partition's ops.
        start: seconds since the profile was opened.
        seconds: how long it took.
        thread: the thread that called.
        op: id of the op that it was done for, or None.
    """

    kind: EventKind
    name: str
    implementation: str
    tensors: tuple[str, ...]
    partition: int | None
    label: str
    start: float
    seconds: float
    thread: int
    op: int | None = None


@frozen(kw_only=True)
class Line:
    """Equal events together.

    Attributes:
        kind, name, implementation, tensors, partition, label: as in `Event`.
        calls: how many.
        seconds: all together.
        least: the shortest.
        op: id of the op that all of them were done for, or None.
    """

    kind: EventKind
    name: str
    implementation: str
    tensors: tuple[str, ...]
    partition: int | None
    label: str
    calls: int
    seconds: float
    least: float
    op: int | None = None


class MemorySource(Protocol):
    """What knows the memory of something that is executed."""

    @property
    def key(self) -> tuple[object, ...]:
        """Equal as long as its memory is planned alike."""
        ...

    def stage(self) -> StageMemory:
        """The memory as it is planned now."""
        ...


class Recording:
    """What was measured while it was open.

    Attributes:
        events: in the order in which they ended.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.opened = perf_counter()
        self._stages: dict[tuple[object, ...], StageMemory] = {}

    @property
    def memory(self) -> MemoryTimeline:
        """The memory of what was executed, step by step; of each executable once, in order of its first execution."""
        return MemoryTimeline(tuple(self._stages.values()))

    def remember(self, source: MemorySource) -> None:
        """Keeps the memory of what was executed, if it is not there yet."""
        if source.key not in self._stages:
            self._stages[source.key] = source.stage()

    @property
    def seconds(self) -> float:
        """Time in partitions."""
        return sum(event.seconds for event in self.events if event.kind is EventKind.partition)

    @property
    def copy_seconds(self) -> float:
        """Time in reorders and conversions of types."""
        return sum(event.seconds for event in self.events if event.kind is EventKind.copy)

    @property
    def partitions(self) -> tuple[Line, ...]:
        """A line for each partition, in order of their first execution."""
        ordered = sorted(self.events, key=lambda event: event.start)
        return _lines(event for event in ordered if event.kind is EventKind.partition)

    @property
    def steps(self) -> tuple[Line, ...]:
        """A line for each primitive, copy and host step, the most expensive first."""
        own = (EventKind.partition, *BESIDE)
        lines = _lines(event for event in self.events if event.kind not in own)
        return tuple(sorted(lines, key=lambda line: -line.seconds))

    @property
    def exchanges(self) -> tuple[Line, ...]:
        """A line for what was filled, exchanged and waited for with other processes, in order of their first time."""
        return _lines(sorted((e for e in self.events if e.kind in BESIDE), key=lambda event: event.start))

    def steps_of(self, partition: int, label: str) -> tuple[Line, ...]:
        """The steps of one partition, in order of their first execution.

        Args:
            partition, label: as in `Event`; graphs may have partitions of one id.
        """
        steps = [
            event
            for event in self.events
            if (event.partition, event.label) == (partition, label) and event.kind is not EventKind.partition
        ]
        return _lines(sorted(steps, key=lambda event: event.start), by_op=True)

    def partition_seconds(self) -> dict[int, float]:
        """Mean time of an execution, by partition id."""
        totals: dict[int, list[float]] = {}
        for event in self.events:
            if event.kind is EventKind.partition and event.partition is not None:
                totals.setdefault(event.partition, []).append(event.seconds)
        return {number: sum(times) / len(times) for number, times in totals.items()}

    def op_seconds(self) -> dict[int, float]:
        """Mean time of an op's own steps in one execution of its partition, by op id.

        An op that a kernel does along with another has none.
        """
        executions = Counter(event.partition for event in self.events if event.kind is EventKind.partition)
        totals: dict[int, float] = {}
        for event in self.events:
            if event.op is not None and event.kind is not EventKind.partition:
                # What is still running has not been counted yet.
                totals[event.op] = totals.get(event.op, 0.0) + event.seconds / max(
                    1, executions[event.partition]
                )
        return totals


def _lines(events: Iterable[Event], *, by_op: bool = False) -> tuple[Line, ...]:
    groups: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        key = (event.kind, event.name, event.implementation, event.tensors, event.partition, event.label)
        key += (event.op,) if by_op else ()
        groups.setdefault(key, []).append(event)
    return tuple(
        Line(
            kind=first.kind,
            name=first.name,
            implementation=first.implementation,
            tensors=first.tensors,
            partition=first.partition,
            label=first.label,
            calls=len(group),
            seconds=sum(event.seconds for event in group),
            least=min(event.seconds for event in group),
            op=first.op if len({event.op for event in group}) == 1 else None,
        )
        for group in groups.values()
        for first in group[:1]
    )


recordings: tuple[Recording, ...] = ()
"""The open ones. Whoever executes looks here first; it is empty nearly always."""
_lock = Lock()


@frozen
class Owner:
    """A partition, as events name it.

    Attributes:
        id: its number.
        label: its ops.
        backend: who runs it.
        ops: ids of its ops.
    """

    id: int
    label: str
    backend: str
    ops: frozenset[int] = frozenset()


class _Section:
    """Partitions that are being executed together, and the time that each has had."""

    def __init__(self, owners: Sequence[Owner]) -> None:
        self.owners = tuple(owners)
        self.seconds = [0.0] * len(self.owners)
        self.starts: list[float | None] = [None] * len(self.owners)
        self._place = {op: number for number, owner in enumerate(self.owners) for op in owner.ops}

    def of(self, op: int | None, start: float, seconds: float) -> Owner:
        """The owner of an op, which gets the time; what belongs to nobody is the first one's."""
        place = self._place.get(op, 0) if op is not None else 0
        self.seconds[place] += seconds
        if self.starts[place] is None:
            self.starts[place] = start
        return self.owners[place]


_current: ContextVar[_Section | None] = ContextVar("section", default=None)
"""The partitions that are being executed; whoever hands work to another thread hands it on."""


@contextmanager
def recording(into: Recording) -> Generator[None, None, None]:
    """Hands every event of the process to a recording until the block ends, from all threads; recordings nest."""
    global recordings
    with _lock:
        recordings = (*recordings, into)
    try:
        yield
    finally:
        with _lock:
            recordings = tuple(one for one in recordings if one is not into)


def record(
    kind: EventKind,
    name: str,
    implementation: str,
    tensors: tuple[str, ...],
    start: float,
    end: float,
    op: int | None = None,
) -> None:
    """Hands an event to the open recordings.

    Args:
        start, end: readings of `time.perf_counter`.
        op: id of the op that it was done for.
    """
    section = _current.get()
    owner = None if section is None else section.of(op, start, end - start)
    _hand_out(kind, name, implementation, tensors, start, end - start, owner, op)


def record_beside(
    kind: EventKind, name: str, implementation: str, tensors: tuple[str, ...], start: float, end: float
) -> None:
    """Hands an event of `BESIDE` to the open recordings; `record` says the rest."""
    _hand_out(kind, name, implementation, tensors, start, end - start, None)


def _hand_out(
    kind: EventKind,
    name: str,
    implementation: str,
    tensors: tuple[str, ...],
    start: float,
    seconds: float,
    owner: Owner | None,
    op: int | None = None,
) -> None:
    for one in recordings:
        one.events.append(
            Event(
                kind=kind,
                name=name,
                implementation=implementation,
                tensors=tensors,
                partition=None if owner is None else owner.id,
                label="" if owner is None else owner.label,
                start=start - one.opened,
                seconds=seconds,
                thread=threading.get_native_id(),
                op=op,
            )
        )


@contextmanager
def in_partitions(owners: Sequence[Owner], memory: MemorySource | None = None) -> Generator[None, None, None]:
    """Measures the execution of partitions that run together; what is recorded on this thread meanwhile is theirs.

    One alone has all of the time; of several each has that of its steps.

    Args:
        memory: tells of their memory.
    """
    section = _Section(owners)
    before = _current.set(section)
    start = perf_counter()
    try:
        yield
        if len(section.owners) == 1:
            section.starts[0], section.seconds[0] = start, perf_counter() - start
        for owner, first, seconds in zip(section.owners, section.starts, section.seconds, strict=True):
            began = start if first is None else first
            _hand_out(EventKind.partition, owner.label, owner.backend, (), began, seconds, owner)
        if memory is not None:
            for one in recordings:
                one.remember(memory)
    finally:
        _current.reset(before)


def watched(
    call: Callable[[*Arguments], None],
    owners: Callable[[], Sequence[Owner]],
    keep: object = None,
    memory: MemorySource | None = None,
) -> Callable[[*Arguments], None]:
    """The call, measured as an execution of partitions while a recording is open.

    Args:
        owners: tells the partitions, when they are asked for.
        keep: lives as long as what is returned.
        memory: tells of their memory.
    """

    def run(*arguments: *Arguments, keep: object = keep) -> None:
        del keep
        if not recordings:
            call(*arguments)
            return
        with in_partitions(owners(), memory):
            call(*arguments)

    return run
