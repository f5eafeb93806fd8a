"""A plan: primitives in order, the buffers between them, and what one execution needs of them.

A `Plan` is immutable and shared. A `Frame` is one execution's own memory objects, temporaries and argument
arrays; concurrent executions take a frame each from a pool, so that nothing is allocated after the first.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Sequence

from ....graph.runtime.cached import cached
from ....graph.runtime.locking import Lock
from ....graph.runtime.memory import PlannedMemory
from ..library.descriptors import Descriptor
from ..library.memory import MemoryDesc
from ..library.primitive import NativeEngine, Primitive
from .described_memory import described_memory
from .frame import Frame, Settled
from .placement import Life, place
from .steps import AnyStep, Buffer, Step, in_place, uses
from .team import seconds_of
from .work import Work

BRIEF_SECONDS = 30e-6
"""So long Python's lock is held while primitives run: to give it away and wait for it again, among several threads of
Python, takes longer than that.
"""
KEPT_FRAMES = os.cpu_count() or 1
"""Frames that a plan keeps. More threads than that may run it at once, but then they wait for each other's CPUs."""


class Plan:
    """Steps over buffers.

    Temporaries of a plan share one arena: a temporary lives from the step that writes it to the last one
    that reads it, and a scratchpad for its step alone. Primitives are generated at first use, so that plans
    can be compared without.

    Attributes:
        placement: of the temporaries and scratchpads in it.
        scratch_bytes: size of the arena.
        threads: how many its kernels run on: as many as they were described for, since scratchpads have a part for
            each. A kernel that finds more would write beside them.
        alone: whether that is the calling thread without a team, wherever it stands.
    """

    def __init__(self, engine: NativeEngine, steps: Sequence[AnyStep]) -> None:
        self.engine = engine
        self.threads = engine.lib.threads
        self.alone = self.threads == 1 and engine.lib.runtime.getter != 0
        self.steps = tuple(steps)
        self.implementations = tuple(f"{step.role} ({step.implementation})" for step in self.steps)
        """Each step's role and the library's name of its implementation, in order."""
        self._scratchpads = {step: step.desc.scratchpad for step in self.steps if isinstance(step, Step)}
        lives = self._lives()
        self.placement = place(tuple(lives.values()))
        self.offsets: dict[Buffer | Step, int] = dict(zip(lives, self.placement.offsets, strict=True))
        self.scratch_bytes = self.placement.nbytes
        self._primitives: tuple[Primitive, ...] | None = None
        self._frames: deque[Frame] = deque()
        self._lock = Lock()

    def _lives(self) -> dict[Buffer | Step, Life]:
        """When every temporary and scratchpad needs memory, in the order in which they get it."""
        used, end = uses(self.steps), len(self.steps)
        lives: dict[Buffer | Step, Life] = {
            root: Life(nbytes=root.desc.nbytes, first=-1, last=end) for root in used if root.zeroed
        }
        numbers = {root: number for number, root in enumerate(lives)}
        for number, step in enumerate(self.steps):
            written_over = in_place(step)
            for root in dict.fromkeys(buffer.root for _, buffer in step.arguments):
                if root in lives or root.argument is not None or root.constant is not None:
                    continue
                heir_of = tuple(numbers[b] for made, b in written_over if made is root and b in numbers)
                first, last = used[root]
                numbers[root] = len(lives)
                lives[root] = Life(nbytes=root.desc.nbytes, first=first, last=last, heir_of=heir_of)
            if isinstance(step, Step):
                lives[step] = Life(nbytes=self._scratchpads[step].nbytes, first=number, last=number)
        return lives

    @property
    def brief(self) -> bool:
        """Whether its primitives take no longer, alone, than other threads of Python may be kept waiting."""
        return self.alone and self._seconds < BRIEF_SECONDS

    @cached
    def _seconds(self) -> float:
        """About how long its primitives take; each of a frame's batches asks for it."""
        asked = [step.desc.asked for step in self.steps if isinstance(step, Step)]
        return sum(seconds_of(one) if isinstance(one, Descriptor) else math.inf for one in asked)

    @property
    def works(self) -> list[Work]:
        """What the steps do, as far as the cost model knows them."""
        return [step.work for step in self.steps if step.work is not None]

    @cached
    def memory(self) -> PlannedMemory:
        """What lies where in the arena, and who reads it."""
        return described_memory(self.steps, self.offsets, self.placement)

    def scratchpad(self, step: Step) -> MemoryDesc:
        """What the step's primitive needs beside its arguments."""
        return self._scratchpads[step]

    @property
    def primitives(self) -> tuple[Primitive, ...]:
        """The steps' primitives; their code is generated at the first call.

        Raises:
            LibraryError: the library can't make one.
        """
        if self._primitives is None:
            with self._lock:  # frames hold handles, so that a second set must not replace the first
                if self._primitives is None:
                    with self.engine.lib.using(self.threads):
                        self._primitives = tuple(
                            step.desc.create() for step in self.steps if isinstance(step, Step)
                        )
        return self._primitives

    @property
    def is_ready(self) -> bool:
        """Whether a frame is there for the next execution, if nobody else takes it."""
        return bool(self._frames)

    def take(self) -> Frame:
        """A frame that nobody else uses; give it back with `give`."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self)

    def give(self, frame: Frame) -> None:
        """Returns a frame to the pool; one more than the machine has CPUs for is freed."""
        if len(self._frames) < KEPT_FRAMES:
            self._frames.append(frame)

    def run(self, addresses: Sequence[int], settled: Settled | None = None, *, keep: bool = True) -> None:
        """Executes on buffers at these addresses, one per argument. Thread-safe.

        Args:
            settled: see `Frame.point`.
            keep: whether it will be executed again, so that its memory stays.
        """
        frame = self.take()
        frame.point(addresses, settled)
        frame.run()
        if keep:
            self.give(frame)  # one that Ctrl-C has left half-way may point anywhere, and does not come back
