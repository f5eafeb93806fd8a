"""A plan on the user's arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from attrs import field

from ...graph.model.logical_tensor import LogicalTensor
from ...graph.runtime.arrays import Array, address
from ...graph.runtime.engine import Engine
from ...graph.runtime.executable import Explanation, Visit
from ...graph.runtime.memory import PlannedMemory
from ...graph.runtime.shared_constants import MadeConstant
from ...ops.records import frozen
from .library import fork
from .plan.arena import Guards
from .plan.constants import ConstantPlan, PreparedConstants
from .plan.frame import Frame
from .plan.plan import Plan
from .plan.steps import Tap
from .plan.tapping import TapWay


@frozen(eq=False)
class PlanExecutable:
    """A plan on arrays.

    Attributes:
        plan: on the inputs and outputs in their order, and on what is prepared.
        prepared: what it takes beside them, made of constant inputs.
        blocks: bytes to add to the arguments' addresses, for each time that the plan runs.
        taps: where to look at tensors between the ops, where that may be asked for.
    """

    plan: Plan
    engine: Engine
    inputs: tuple[LogicalTensor, ...]
    outputs: tuple[LogicalTensor, ...]
    explanation: Explanation = field(repr=False)
    prepared: ConstantPlan | None = None
    blocks: tuple[tuple[int, ...], ...] = ()
    taps: tuple[Tap, ...] = field(default=(), repr=False)

    def _addresses(self, arrays: Sequence[Array]) -> tuple[list[int], PreparedConstants | None]:
        """Addresses of all arguments, and what must live as long as they are used."""
        if self.prepared is None:
            return [address(array) for array in arrays], None
        return self.prepared.ready(arrays)

    def _run_blocks(self, addresses: Sequence[int]) -> None:
        frame = self.plan.take()
        for offsets in self.blocks:
            frame.point([start + offset for start, offset in zip(addresses, offsets, strict=True)])
            frame.run()
        self.plan.give(frame)  # not where it was interrupted half-way: see `Plan.run`

    def generate(self) -> None:
        """See `Generated`: the library offers some kernels whose code it then can't make."""

        def made() -> None:
            _ = self.plan.primitives, None if self.prepared is None else self.prepared.plan.primitives

        fork.run(made)

    def settle(self, constants: Sequence[Array | None]) -> None:
        """See `Settling`."""
        if self.prepared is not None:
            fork.run(self.prepared.prepare, constants, len(self.inputs) + len(self.outputs))

    def made(self) -> Sequence[MadeConstant] | None:
        """See `Settling`."""
        return () if self.prepared is None else self.prepared.made()

    def planned_memory(self) -> PlannedMemory:
        """See `MemoryPlanning`."""
        return self.plan.memory

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """One call into the library for each primitive."""
        arrays = (*inputs, *outputs)
        if self.plan.alone and self.plan.is_ready and not self.blocks:
            self._run(arrays)  # what is generated already runs on any thread
        else:
            fork.run(self._run, arrays)

    def _run(self, arrays: Sequence[Array]) -> None:
        addresses, ready = self._addresses(arrays)
        if self.blocks:
            self._run_blocks(addresses)
        else:
            self.plan.run(addresses, ready)

    def run_tapped(self, inputs: Sequence[Array], outputs: Sequence[Array], visit: Visit) -> bool:
        """See `Tapped`."""
        arrays = (*inputs, *outputs)
        guards = Guards()  # of its own: frames that other threads make meanwhile stay without
        guards.switch_on()
        frame = Frame(self.plan, guards.arena(self.plan.scratch_bytes))
        ways = [TapWay.of(tap, self.plan.engine) for tap in self.taps]
        behind: dict[int, list[TapWay]] = {}
        for way in ways:
            behind.setdefault(way.tap.step, []).append(way)

        def run() -> None:
            addresses, _ready = self._addresses(arrays)
            for offsets in self.blocks or ((0,) * len(addresses),):
                there = [start + offset for start, offset in zip(addresses, offsets, strict=True)]
                frame.point(there)
                for number in frame.run_by_steps():
                    for way in behind.get(number, ()):
                        way.visit(visit, frame.place(way.tap.buffer, there))

        fork.run(run)
        return frame.intact()

    def prepare(self, addresses: Sequence[int]) -> PreparedConstants | None:
        """What is made of the constant inputs as they are now."""
        if self.prepared is None:
            return None
        return fork.run(self.prepared.made_of, [*addresses, *[0] * len(self.outputs)], {}, 0)

    def run_at(self, addresses: Sequence[int], prepared: object = None) -> None:
        """One call into the library for each primitive, on memory at these addresses."""
        ready = cast("PreparedConstants | None", prepared)
        if self.blocks:
            fork.run(self._run_blocks, addresses)
            return
        if ready is not None:
            addresses = [*addresses, *ready.addresses]
        if self.plan.alone and self.plan.is_ready:  # what is generated already runs on any thread
            self.plan.run(addresses, ready)
        else:
            fork.run(self.plan.run, addresses, ready)

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array]) -> Callable[[], None]:
        """The same with addresses, memory objects and arguments prepared."""
        arrays = (*inputs, *outputs)
        # Constants are prepared by primitives.
        addresses, ready = fork.run(self._addresses, arrays)
        engine = self.engine
        if self.blocks:
            run = partial(self._run_blocks, addresses)
        else:
            frame = self.plan.take()  # one that a call has left, if there is one
            frame.point(addresses)
            if self.prepared is not None and self.prepared.version is not None:
                return self._renewing(frame, arrays, ready)
            run = frame.run

        def call(keep_alive: tuple[object, ...] = (arrays, ready)) -> None:
            del keep_alive
            engine.check_open()
            fork.run(run)

        return call

    def _renewing(
        self, frame: Frame, arrays: Sequence[Array], ready: PreparedConstants | None
    ) -> Callable[[], None]:
        """A bound call that makes anew what was made of parameters, once these have changed."""
        latest = ready

        def run() -> None:
            nonlocal latest
            addresses, now = self._addresses(arrays)
            if now is not latest:
                frame.point(addresses)
                latest = now
            frame.run()

        def call() -> None:
            self.engine.check_open()
            fork.run(run)

        return call
