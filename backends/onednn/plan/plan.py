"""A plan: primitives in order, the buffers between them, and what one execution needs of them.

A `Plan` is immutable and shared. A `Frame` is one execution's own memory objects, temporaries and argument
arrays; concurrent executions take a frame each from a pool, so that nothing is allocated after the first.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_void_p
from functools import partial
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from attrs import frozen

from ....graph.runtime import profiling
from ....graph.runtime.arrays import Array, address, numpy_type
from ....graph.runtime.cached import cached
from ....graph.runtime.locking import Lock
from ....graph.runtime.profiling import EventKind
from ..library.batch import batch
from ..library.enumerators import Arg
from ..library.memory import MemoryDesc
from ..library.primitive import NativeEngine, Primitive, PrimitiveDesc
from ..library.prototypes import ExecArg
from .arena import GUARDS, Arena, aligned
from .choice import reorder
from .placement import FreeBytes
from .work import Work, reorder_work

KEPT_FRAMES = os.cpu_count() or 1
"""Frames that a plan keeps. More threads than that may run it at once, but then they wait for each other's CPUs."""


@frozen(eq=False)
class Buffer:
    """One tensor of a plan.

    Attributes:
        desc: its shape, data type and layout.
        argument: number of the executable's argument that it is; a temporary if None.
        base: the buffer whose memory it looks at in another way; its own if None.
        offset: bytes from the beginning of `base`.
        zeroed: a temporary that is zero where nothing writes to it; it keeps its memory for the whole plan.
        constant: its content, where the plan brings it along: scales, say.
    """

    desc: MemoryDesc
    argument: int | None = None
    base: Buffer | None = None
    offset: int = 0
    zeroed: bool = False
    constant: Array | None = None

    @property
    def root(self) -> Buffer:
        """The buffer that the memory belongs to."""
        return self if self.base is None else self.base.root

    @property
    def place(self) -> int:
        """Bytes from the beginning of `root`."""
        return 0 if self.base is None else self.base.place + self.offset


@frozen(eq=False)
class Step:
    """One primitive of a plan.

    Attributes:
        role: for `explain`.
        desc: what to run.
        arguments: buffers by `DNNL_ARG_*`, the scratchpad apart.
        work: for the cost model, where it knows the step.
        is_copy: whether it only moves or converts elements from SRC to DST.
        op: id of the op that it is done for.
    """

    role: str
    desc: PrimitiveDesc
    arguments: tuple[tuple[int, Buffer], ...]
    work: Work | None = None
    is_copy: bool = False
    op: int | None = None

    @property
    def implementation(self) -> str:
        """The library's name of the kernel."""
        return self.desc.implementation


@frozen
class HostArray:
    """How a step on the host sees a buffer.

    Attributes:
        dtype, shape: the array's.
        strides: in bytes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, buffer: Buffer) -> HostArray | None:
        """A buffer in a plain layout; None for a blocked one."""
        strides = buffer.desc.strides
        if strides is None:
            return None
        dtype = numpy_type(buffer.desc.data_type)
        return cls(dtype, buffer.desc.shape, tuple(s * dtype.itemsize for s in strides))

    @property
    def flat(self) -> HostArray | None:
        """The same elements in the order in which they lie; None where there are gaps between them."""
        step = self.dtype.itemsize
        for stride, dim in sorted(zip(self.strides, self.shape, strict=True)):
            if dim != 1:
                if stride != step:
                    return None
                step *= dim
        return HostArray(self.dtype, (math.prod(self.shape),), (self.dtype.itemsize,))

    def inside(self, memory: Array, place: int) -> Array:
        """The array at an address within other memory, which it keeps alive."""
        return np.ndarray(self.shape, self.dtype, memory, place - address(memory), self.strides)

    def at(self, place: int) -> Array:
        """The array at an address; whoever asks for it keeps the memory alive."""
        size = self.dtype.itemsize + sum(
            (d - 1) * s for d, s in zip(self.shape, self.strides, strict=True) if d
        )
        memory: Any = (ctypes.c_char * max(size, 1)).from_address(place)
        return np.ndarray(self.shape, self.dtype, memory, strides=self.strides)


@frozen(eq=False)
class HostStep:
    """A step that the library has no primitive for, between others that it has.

    Attributes:
        role: for `explain`.
        run: takes the input arrays and the output arrays.
        arguments: buffers, numbered; the outputs come last.
        arrays: how the buffers are seen.
        inputs: how many of them are inputs.
        is_copy: whether it only converts elements.
        implementation: who does it.
        op, work: as of a `Step`.
        is_op: whether it is the NumPy kernel of a whole op, which profiles itself.
        updates: numbers of the outputs that it reads before it writes them.
        pure: whether it does nothing but write its outputs, and the same for the same inputs.
    """

    role: str
    run: Callable[[Sequence[Array], Sequence[Array]], None]
    arguments: tuple[tuple[int, Buffer], ...]
    arrays: tuple[HostArray, ...]
    inputs: int
    is_copy: bool = False
    implementation: str = "numpy"
    op: int | None = None
    is_op: bool = False
    work: Work | None = None
    updates: tuple[int, ...] = ()
    pure: bool = True


AnyStep = Step | HostStep


def copy_step(
    engine: NativeEngine,
    what: str,
    source: Buffer,
    target: Buffer,
    reasons: list[str] | None = None,
    *,
    proven_only: bool = False,
) -> Step | None:
    """A copy between layouts and data types, or None where the library has none that may run.

    Args:
        reasons: receives why implementations were passed over.
        proven_only: whether implementations stay out that no fuzzer has covered.
    """
    desc = reorder(engine, source.desc, target.desc, reasons=reasons, proven_only=proven_only)
    if desc is None:
        return None
    work = reorder_work(desc.implementation, source.desc, target.desc)
    return Step(f"reorder {what}", desc, ((Arg.SRC, source), (Arg.DST, target)), work, is_copy=True)


IN_PLACE = ("binary", "eltwise_forward")
"""Primitives that may write over an input that lies as the result does."""


def in_place(step: AnyStep) -> list[tuple[Buffer, Buffer]]:
    """An elementwise primitive's result, with each input whose memory it can have if nobody needs that any more."""
    if not isinstance(step, Step) or step.desc.function not in IN_PLACE:
        return []
    result = next(buffer for argument, buffer in step.arguments if argument == Arg.DST)
    read = [buffer.root for argument, buffer in step.arguments if argument != Arg.DST]
    return [
        (result.root, buffer.root)
        for argument, buffer in step.arguments
        if argument in (Arg.SRC, Arg.SRC_1)
        and _is_whole(result)
        and _is_whole(buffer)
        and buffer.root.argument is None
        and buffer.desc == result.desc
        and read.count(buffer.root) == 1
    ]


def _is_whole(buffer: Buffer) -> bool:
    """Whether it is all of its memory, and that holds nothing else at any time."""
    root = buffer.root
    whole = buffer.place == 0 and buffer.desc.nbytes == root.desc.nbytes
    return root.constant is None and not root.zeroed and whole


def uses(steps: Sequence[AnyStep]) -> dict[Buffer, tuple[int, int]]:
    """Each buffer with memory of its own, in order, and the numbers of the first and the last step that need it."""
    found: dict[Buffer, tuple[int, int]] = {}
    for number, step in enumerate(steps):
        for _, buffer in step.arguments:
            first, _ = found.get(buffer.root, (number, number))
            found[buffer.root] = first, number
    return found


class Settled(Protocol):
    """Arguments whose memory stays where it is while one object stands for them."""

    @property
    def numbers(self) -> frozenset[int]: ...


class Plan:
    """Steps over buffers.

    Temporaries of a plan share one arena: a temporary lives from the step that writes it to the last one
    that reads it, and a scratchpad for its step alone. Primitives are generated at first use, so that plans
    can be compared without.

    Attributes:
        scratch_bytes: size of the arena.
        threads: how many its kernels run on: as many as they were described for, since scratchpads have a part for
            each. A kernel that finds more would write beside them.
    """

    def __init__(self, engine: NativeEngine, steps: Sequence[AnyStep]) -> None:
        self.engine = engine
        self.threads = engine.lib.threads
        self.steps = tuple(steps)
        self.implementations = tuple(f"{step.role} ({step.implementation})" for step in self.steps)
        """Each step's role and the library's name of its implementation, in order."""
        self.offsets: dict[Buffer | Step, int] = {}
        self._scratchpads = {step: step.desc.scratchpad for step in self.steps if isinstance(step, Step)}
        self.scratch_bytes = self._place()
        self._primitives: tuple[Primitive, ...] | None = None
        self._frames: deque[Frame] = deque()
        self._lock = Lock()

    def _place(self) -> int:
        """Gives every temporary and scratchpad an offset in the arena; returns the arena's size."""
        used = uses(self.steps)
        free = FreeBytes()
        leaving: dict[int, list[tuple[int, int]]] = {}

        def leave(key: Buffer | Step, nbytes: int, until: int) -> None:
            leaving.setdefault(until, []).append((self.offsets[key], aligned(nbytes)))

        def place(key: Buffer | Step, nbytes: int, until: int) -> None:
            self.offsets[key] = free.take(aligned(nbytes))
            leave(key, nbytes, until)

        for buffer in used:
            if buffer.zeroed:
                place(buffer, buffer.desc.nbytes, len(self.steps))
        for number, step in enumerate(self.steps):
            for offset, size in leaving.pop(number - 1, ()):
                free.give(offset, size)
            for root, taken in in_place(step):
                unplaced = root.argument is None and root not in self.offsets
                if unplaced and used[root][0] == used[taken][1] == number:
                    self.offsets[root] = self.offsets[taken]
                    leaving[number].remove((self.offsets[taken], aligned(taken.desc.nbytes)))
                    leave(root, root.desc.nbytes, used[root][1])
            for root in dict.fromkeys(buffer.root for _, buffer in step.arguments):
                if root.argument is None and root.constant is None and root not in self.offsets:
                    place(root, root.desc.nbytes, used[root][1])
            if isinstance(step, Step):
                place(step, self._scratchpads[step].nbytes, number)
        return free.total

    @cached
    def dead(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each step, the bytes of the arena that hold nothing of use before it: beginning and end."""
        placed = [(root, *span) for root, span in uses(self.steps).items() if root in self.offsets]
        found: list[tuple[tuple[int, int], ...]] = []
        for number in range(len(self.steps)):
            held = sorted(
                (self.offsets[root], self.offsets[root] + root.desc.nbytes)
                for root, first, last in placed
                if root.zeroed or first < number <= last
            )
            starts = [0, *itertools.accumulate((end for _, end in held), max)]
            ends = [*(start for start, _ in held), self.scratch_bytes]
            found.append(tuple((a, b) for a, b in zip(starts, ends, strict=True) if a < b))
        return tuple(found)

    @cached
    def tensors(self) -> tuple[tuple[str, ...], ...]:
        """Each step's arguments with type, shape and layout, for profiles."""
        return tuple(tuple(_described(n, buffer) for n, buffer in step.arguments) for step in self.steps)

    @property
    def works(self) -> list[Work]:
        """What the steps do, as far as the cost model knows them."""
        return [step.work for step in self.steps if step.work is not None]

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

    def run(self, addresses: Sequence[int], settled: Settled | None = None) -> None:
        """Executes on buffers at these addresses, one per argument. Thread-safe.

        Args:
            settled: see `Frame.point`.
        """
        frame = self.take()
        try:
            frame.point(addresses, settled)
            frame.run()
        finally:
            self.give(frame)


class Frame:
    """Memory objects and argument arrays for one execution at a time of a plan.

    Args:
        arena: memory of its temporaries, `plan.scratch_bytes` of it at least; its own if None.
    """

    def __init__(self, plan: Plan, arena: Arena | None = None) -> None:
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
        self._pointed: list[tuple[int, int, int]] = []
        self._settled: Settled | None = None
        self._unsettled: list[tuple[int, int, int]] = []

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
                    self._pointed.append((root.argument, buffer.place, by_buffer[buffer]))
            return by_buffer[buffer]

        self._calls: list[tuple[int, int, Any]] = []
        self._hosted: list[tuple[int, int, HostArray, list[Array], int]] = []
        primitives = iter(plan.primitives)
        for step in plan.steps:
            if isinstance(step, HostStep):
                self._calls.append((0, 0, self._host_call(step)))
                continue
            primitive = next(primitives)
            args = [ExecArg(arg, memory_of(buffer)) for arg, buffer in step.arguments]
            scratchpad = memory(plan.scratchpad(step), base + plan.offsets[step])
            args.append(ExecArg(Arg.SCRATCHPAD, scratchpad))
            self._calls.append((primitive.handle, len(args), (ExecArg * len(args))(*args)))
        self._runs = self._in_batches()

    def _in_batches(self) -> list[Callable[[], int | None]]:
        """The calls with neighbouring primitives in one each; what they return is a status."""
        runs: list[Callable[[], int | None]] = []
        for on_host, group in itertools.groupby(self._calls, lambda call: not call[1]):
            calls = list(group)
            one_call = len(calls) > 1 and not on_host and self._plan.engine.machine_code
            together = batch(self._stream, calls) if one_call else None
            if on_host:
                runs += [call for _, _, call in calls]
            elif together is not None:
                runs.append(together)
            else:
                runs += [partial(self._execute, p, self._stream, count, args) for p, count, args in calls]
        return runs

    def _host_call(self, step: HostStep) -> Callable[[], None]:
        """What runs a step on the host: on arrays over the arena, and over the arguments once they are known."""
        ins: list[Array] = []
        outs: list[Array] = []
        for number, (seen, (_, buffer)) in enumerate(zip(step.arrays, step.arguments, strict=True)):
            root = buffer.root
            arrays = ins if number < step.inputs else outs
            if root.argument is not None:
                self._hosted.append((root.argument, buffer.place, seen, arrays, len(arrays)))
                arrays.append(np.empty(0))
            elif root.constant is not None:
                arrays.append(seen.inside(root.constant, address(root.constant) + buffer.place))
            else:
                place = self._arena.start + self._plan.offsets[root] + buffer.place
                arrays.append(seen.inside(self._arena.memory, place))
        run = step.run
        return lambda: run(ins, outs)

    def point(self, addresses: Sequence[int], settled: Settled | None = None) -> None:
        """Points the arguments at these addresses.

        Args:
            settled: arguments that are where they were at the call before that had the same object.
        """
        set_handle, pointed = self._set_handle, self._pointed
        if settled is not None and settled is self._settled:
            pointed = self._unsettled
        else:
            self._settled = settled
            numbers = frozenset[int]() if settled is None else settled.numbers
            self._unsettled = [one for one in pointed if one[0] not in numbers]
        for argument, offset, seen, arrays, index in self._hosted:
            arrays[index] = seen.at(addresses[argument] + offset)
        for argument, offset, memory in pointed:
            set_handle(memory, addresses[argument] + offset)

    def run(self) -> None:
        """Executes every primitive, on the plan's number of threads."""
        lib = self._plan.engine.lib
        runtime = lib.runtime
        held = runtime.hold(self._plan.threads)
        try:
            if profiling.profiles:
                self._profiled_run()
                return
            if self._arena.zone:
                deque(self._one_by_one(), maxlen=0)
                return
            for call in self._runs:
                status = call()
                if status:
                    lib.check(status, "dnnl_primitive_execute")
        finally:
            if held is not None:
                runtime.release(held)

    def _profiled_run(self) -> None:
        """The same, and each step is recorded."""
        plan = self._plan
        for (start, end), step, tensors in zip(self._one_by_one(), plan.steps, plan.tensors, strict=True):
            if isinstance(step, HostStep) and step.is_op:
                continue
            kind = _event_kind(step)
            profiling.record(kind, step.role, step.implementation, tensors, start, end, step.op)

    def timed_run(self) -> list[float]:
        """Executes every primitive; returns the seconds that each took."""
        with self._plan.engine.lib.using(self._plan.threads):
            return [end - start for start, end in self._one_by_one()]

    def _one_by_one(self) -> Iterator[tuple[float, float]]:
        """Executes each step by itself; when it began and ended."""
        for number, (primitive, count, args) in enumerate(self._calls):
            if self._arena.zone:
                self._arena.poison(self._plan.dead[number])
            start = perf_counter()
            status = self._execute(primitive, self._stream, count, args) if count else args()
            end = perf_counter()
            self._plan.engine.lib.check(status or 0, "dnnl_primitive_execute")
            yield start, end

    def intact(self) -> bool:
        """Whether the guard zones around the arena are untouched; see `arena.GUARDS`.

        Raises:
            ResourceError: the frame was made while guards were off.
        """
        return self._arena.intact()

    def __del__(self) -> None:
        for memory in self._memories:
            self._destroy(memory)


def _event_kind(step: AnyStep) -> EventKind:
    if isinstance(step, HostStep):
        return EventKind.copy if step.is_copy else EventKind.host
    return EventKind.copy if step.is_copy else EventKind.primitive


def _described(number: int, buffer: Buffer) -> str:
    """An argument's name where it has one, and what it is."""
    desc = buffer.desc
    shape = "x".join(map(str, desc.shape)) or "scalar"
    name = next((f"{arg.name.lower()} " for arg in Arg if arg == number), "")
    return f"{name}{desc.data_type.value} {shape} {desc.describe()}"
