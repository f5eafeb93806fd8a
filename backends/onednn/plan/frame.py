"""One execution of a plan: memory objects, temporaries, and the calls in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from ctypes import c_void_p
from functools import partial
from time import perf_counter
from typing import Protocol

import numpy as np

from ....graph.runtime import profiling
from ....graph.runtime.arrays import Array, address
from ....graph.runtime.cached import cached
from ..library.batch import Above, Batch, Execution, Look, Pointing, batch
from ..library.enumerators import Arg
from ..library.memory import MemoryDesc
from ..library.primitive import NativeEngine, Primitive
from ..library.prototypes import ExecArg
from ..library.seats import keep_apart
from ..library.signals import shelter
from .arena import GUARDS, Arena
from .placement import Placement
from .steps import AnyStep, Buffer, HostArray, HostStep, Step, described_argument, event_kind


class Settled(Protocol):
    """Arguments whose memory stays where it is while one object stands for them."""

    @property
    def numbers(self) -> frozenset[int]: ...


class Planned(Protocol):
    """What a frame needs of a plan."""

    @property
    def engine(self) -> NativeEngine: ...

    @property
    def threads(self) -> int: ...

    @property
    def alone(self) -> bool: ...

    @property
    def brief(self) -> bool: ...

    @property
    def steps(self) -> Sequence[AnyStep]: ...

    @property
    def primitives(self) -> Sequence[Primitive]: ...

    @property
    def offsets(self) -> Mapping[Buffer | Step, int]: ...

    @property
    def scratch_bytes(self) -> int: ...

    @property
    def placement(self) -> Placement: ...

    def scratchpad(self, step: Step) -> MemoryDesc: ...


class Frame:
    """Memory objects and argument arrays for one execution at a time of a plan.

    Args:
        arena: memory of its temporaries, `plan.scratch_bytes` of it at least; its own if None.
    """

    def __init__(self, plan: Planned, arena: Arena | None = None) -> None:
        lib = plan.engine.lib
        self._destroy = partial(lib.destroy, "dnnl_memory_destroy")
        self._memories: list[int] = []
        self._arena = GUARDS.arena(plan.scratch_bytes) if arena is None else arena
        base = self._arena.start
        self._plan = plan
        self._set_handle = lib.c.dnnl_memory_set_data_handle
        self._execute = lib.c.dnnl_primitive_execute
        self._stream = plan.engine.stream
        by_buffer: dict[Buffer, int] = {}
        self._pointed: list[Pointing] = []
        self._settled: Settled | None = None

        def memory(desc: MemoryDesc, handle: int | None) -> int:
            made = lib.new("dnnl_memory_create", desc.handle, plan.engine.handle, c_void_p(handle))
            self._memories.append(made)
            return made

        def memory_of(buffer: Buffer) -> int:
            if buffer not in by_buffer:
                root = buffer.root
                if root.constant is not None:
                    by_buffer[buffer] = memory(buffer.desc, address(root.constant) + buffer.place)
                elif root.argument is None:
                    start = plan.offsets[root]
                    by_buffer[buffer] = memory(buffer.desc, base + start + buffer.place)
                    if root.zeroed:
                        self._arena.inside[start:][: root.desc.nbytes] = 0
                else:
                    by_buffer[buffer] = memory(buffer.desc, None)
                    self._pointed.append(Pointing(root.argument, buffer.place, by_buffer[buffer]))
            return by_buffer[buffer]

        self._calls: list[Execution | Callable[[], None]] = []
        self._hosted: list[tuple[int, int, HostArray, list[Array], int, bool]] = []
        self._hosted_at: list[int] = []
        primitives = iter(plan.primitives)
        for step in plan.steps:
            if isinstance(step, HostStep):
                self._calls.append(self._host_call(step))
                continue
            primitive = next(primitives)
            args = [ExecArg(arg, memory_of(buffer)) for arg, buffer in step.arguments]
            scratchpad = memory(plan.scratchpad(step), base + plan.offsets[step])
            args.append(ExecArg(Arg.SCRATCHPAD, scratchpad))
            array = (ExecArg * len(args))(*args)
            self._calls.append(Execution(primitive.handle, len(args), array, step.desc.threads))
        self._moving = tuple(self._pointed)
        self._addresses: Sequence[int] = ()
        self._runs = self._in_batches()

    def _in_batches(self) -> list[Callable[[], int | None]]:
        """The calls with neighbouring primitives in one each; what they return is a status.

        The first points at the arguments that move. Where there is no machine code `point` does.
        """
        plan = self._plan
        self._alone = plan.alone
        self._pointing: Batch | None = None
        runs: list[Callable[[], int | None]] = []
        executions: list[Execution | Look] = []
        for step, call in (*zip(plan.steps, self._calls, strict=True), (None, None)):
            if isinstance(call, Execution):
                executions.append(call)
                continue
            if isinstance(step, HostStep) and call is not None:
                look = self._look(step, call, first=not runs)
                if look is not None:
                    executions.append(look)
                    continue
            first = not runs and bool(self._moving)
            together = self._batch(executions, self._moving if first else ()) if executions or first else None
            if together is None:
                self._alone = self._alone and not executions
                runs += [
                    one.otherwise if isinstance(one, Look) else partial(self._executed, one)
                    for one in executions
                ]
            else:
                self._pointing = together if first else self._pointing
                runs.append(together)
            executions = []
            if call is not None:
                runs.append(call)
        return runs

    def _look(self, step: HostStep, call: Callable[[], None], *, first: bool) -> Look | None:
        """What tells a batch whether a step on the host has something to do; None where nothing can.

        Args:
            first: whether the batch is the one that points at the arguments that move.
        """
        moving = {one.argument for one in self._moving} if first else set[int]()
        conditions: list[Above] = []
        for one in step.unless:
            buffer = step.arguments[one.argument][1]
            argument = buffer.root.argument
            if argument is None:
                place = self.place(buffer, ())
            elif argument in moving:
                place = buffer.place
            else:  # it may lie elsewhere at the next call
                return None
            conditions.append(Above(place, one.count, one.stride, one.bound, argument))
        return Look(tuple(conditions), call) if conditions else None

    def _batch(self, executions: Sequence[Execution | Look], pointings: Sequence[Pointing]) -> Batch | None:
        plan = self._plan
        if not plan.engine.machine_code:
            return None
        return batch(
            *(self._stream, executions, plan.threads, pointings), alone=self._alone, holding=plan.brief
        )

    def _executed(self, one: Execution) -> int:
        """Executes a primitive on its threads; the status."""
        if one.threads == self._plan.threads:
            return self._execute(one.primitive, self._stream, one.count, one.arguments)
        with self._plan.engine.lib.using(one.threads):
            return self._execute(one.primitive, self._stream, one.count, one.arguments)

    def _host_call(self, step: HostStep) -> Callable[[], None]:
        """What runs a step on the host: on arrays over the arena, and over the arguments once they are known."""
        ins: list[Array] = []
        outs: list[Array] = []
        for number, (seen, (_, buffer)) in enumerate(zip(step.arrays, step.arguments, strict=True)):
            root, written = buffer.root, number >= step.inputs
            arrays = outs if written else ins
            if root.argument is not None:
                self._hosted.append((root.argument, buffer.place, seen, arrays, len(arrays), written))
                self._hosted_at.append(-1)
                arrays.append(np.empty(0))
                continue
            if root.constant is not None:
                array = seen.inside(root.constant, address(root.constant) + buffer.place)
            else:
                place = self._arena.start + self._plan.offsets[root] + buffer.place
                array = seen.inside(self._arena.memory, place)
            array.flags.writeable &= written
            arrays.append(array)
        run = step.run
        return lambda: run(ins, outs)

    def point(self, addresses: Sequence[int], settled: Settled | None = None) -> None:
        """Points the arguments at these addresses.

        Args:
            settled: arguments that are where they were at the call before that had the same object.
        """
        self._addresses = addresses
        if settled is not self._settled:
            self._settle(settled)
        for number, (argument, offset, seen, arrays, index, written) in enumerate(self._hosted):
            place = addresses[argument] + offset
            if place != self._hosted_at[number]:  # arrays over what lies where it did are there
                arrays[index] = array = seen.at(place)
                array.flags.writeable = written
                self._hosted_at[number] = place
        if self._pointing is not None:
            self._pointing.point(addresses)
        else:
            self._point_one_by_one(self._moving)

    def _settle(self, settled: Settled | None) -> None:
        """Points what is settled, and leaves it where it is from here on."""
        before, self._settled = self._moving, settled
        numbers = frozenset[int]() if settled is None else settled.numbers
        self._moving = tuple(one for one in self._pointed if one.argument not in numbers)
        self._point_one_by_one([one for one in self._pointed if one.argument in numbers])
        if self._moving != before:
            self._runs = self._in_batches()

    def _point_one_by_one(self, pointings: Sequence[Pointing]) -> None:
        for one in pointings:
            self._set_handle(one.memory, self._addresses[one.argument] + one.offset)

    def run(self) -> None:
        """Executes every primitive, on the plan's number of threads."""
        lib = self._plan.engine.lib
        if profiling.recordings or self._arena.zone:
            with lib.using(self._plan.threads):
                if profiling.recordings:
                    self._profiled_run()
                else:
                    deque(self._one_by_one(), maxlen=0)
            return
        if self._alone:  # batches set that themselves
            shelter(lib.runtime, 1)
            for call in self._runs:
                status = call()
                if status:
                    lib.check(status, "dnnl_primitive_execute")
            return
        held = lib.hold(self._plan.threads)
        try:
            keep_apart(lib.runtime, self._plan.threads)
            for call in self._runs:
                status = call()
                if status:
                    lib.hold(self._plan.threads)  # a batch has left those of the primitive that failed
                    lib.check(status, "dnnl_primitive_execute")
        finally:
            if held is not None:
                lib.runtime.release(held)

    def _profiled_run(self) -> None:
        """The same, and each step is recorded."""
        plan = self._plan
        for (start, end), step, tensors in zip(self._one_by_one(), plan.steps, self._tensors, strict=True):
            if isinstance(step, HostStep) and step.is_op:
                continue
            kind = event_kind(step)
            profiling.record(kind, step.role, step.implementation, tensors, start, end, step.op)

    @cached
    def _tensors(self) -> tuple[tuple[str, ...], ...]:
        """Each step's arguments with type, shape and layout."""
        return tuple(tuple(described_argument(n, b) for n, b in step.arguments) for step in self._plan.steps)

    @cached
    def _dead(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each step, the bytes of the arena that hold nothing of use before it."""
        return self._plan.placement.dead(len(self._plan.steps))

    def timed_run(self) -> list[float]:
        """Executes every primitive; returns the seconds that each took."""
        with self._plan.engine.lib.using(self._plan.threads):
            return [end - start for start, end in self._one_by_one()]

    def _one_by_one(self) -> Iterator[tuple[float, float]]:
        """Executes each step by itself; when it began and ended."""
        if self._pointing is not None and self._addresses:
            self._point_one_by_one(self._moving)
        for number, call in enumerate(self._calls):
            run = partial(self._executed, call) if isinstance(call, Execution) else call
            if self._arena.zone:
                self._arena.poison(self._dead[number])
            start = perf_counter()
            status = run()
            end = perf_counter()
            self._plan.engine.lib.check(status or 0, "dnnl_primitive_execute")
            yield start, end

    def run_by_steps(self) -> Iterator[int]:
        """Executes each step by itself; yields its number once it is done."""
        with self._plan.engine.lib.using(self._plan.threads):
            for number, _ in enumerate(self._one_by_one()):
                yield number

    def place(self, buffer: Buffer, addresses: Sequence[int]) -> int:
        """Where the elements of a buffer begin, with the arguments at these addresses."""
        root = buffer.root
        if root.constant is not None:
            return address(root.constant) + buffer.place
        if root.argument is not None:
            return addresses[root.argument] + buffer.place
        return self._arena.start + self._plan.offsets[root] + buffer.place

    def intact(self) -> bool:
        """Whether the guard zones around the arena are untouched; see `arena.GUARDS`.

        Raises:
            ResourceError: the frame was made while guards were off.
        """
        return self._arena.intact()

    def __del__(self) -> None:
        for memory in self._memories:
            self._destroy(memory)
