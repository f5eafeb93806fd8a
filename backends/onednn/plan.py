"""A plan: primitives in order, the buffers between them, and what one execution needs of them.

A `Plan` is immutable and shared. A `Frame` is one execution's own memory objects, temporaries and argument
arrays; concurrent executions take a frame each from a pool, so that nothing is allocated after the first.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from ctypes import c_void_p

import numpy as np
from attrs import frozen

from ...graph.arrays import address
from .library import Arg, ExecArg
from .memory import MemoryDesc
from .primitive import NativeEngine, Primitive

ALIGNMENT = 64
"""Temporaries start at a cache line."""
GUARD, GUARD_BYTE = 256, 0xA5
"""Bytes before and after the arena whose change shows a kernel that writes out of bounds."""


@frozen(eq=False)
class Buffer:
    """One tensor of a plan: argument number `argument` of the executable, or a temporary if None."""

    desc: MemoryDesc
    argument: int | None = None


@frozen(eq=False)
class Step:
    """One primitive and the buffers of its arguments, the scratchpad apart; `role` is for `explain`."""

    role: str
    primitive: Primitive
    arguments: tuple[tuple[Arg, Buffer], ...]


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Plan:
    """Steps over buffers.

    Temporaries of a plan share one arena: a temporary lives from the step that writes it to the last one
    that reads it, and a scratchpad for its step alone.
    """

    def __init__(self, engine: NativeEngine, steps: Sequence[Step]) -> None:
        self.engine = engine
        self.steps = tuple(steps)
        self.offsets: dict[Buffer | Step, int] = {}
        self.scratch_bytes = self._place()
        self._frames: deque[Frame] = deque()

    def _place(self) -> int:
        """Gives every temporary and scratchpad an offset in the arena; returns the arena's size."""
        last_use: dict[Buffer, int] = {}
        for number, step in enumerate(self.steps):
            for _, buffer in step.arguments:
                last_use[buffer] = number
        live: list[tuple[int, int, int]] = []  # (offset, end, last step that uses it)
        total = 0

        def place(size: int, until: int) -> int:
            nonlocal total
            offset = 0
            for start, end, _ in sorted(live):
                if offset + size <= start:
                    break
                offset = max(offset, end)
            live.append((offset, offset + size, until))
            total = max(total, offset + size)
            return offset

        for number, step in enumerate(self.steps):
            live[:] = [entry for entry in live if entry[2] >= number]
            for _, buffer in step.arguments:
                if buffer.argument is None and buffer not in self.offsets:
                    self.offsets[buffer] = place(_aligned(buffer.desc.nbytes), last_use[buffer])
            self.offsets[step] = place(_aligned(step.primitive.scratchpad.nbytes), number)
        return total

    @property
    def implementations(self) -> tuple[str, ...]:
        """Each step's role and the library's name of its implementation, in order."""
        return tuple(f"{step.role} ({step.primitive.implementation})" for step in self.steps)

    def take(self) -> Frame:
        """A frame that nobody else uses; give it back with `give`."""
        try:
            return self._frames.pop()
        except IndexError:
            return Frame(self)

    def give(self, frame: Frame) -> None:
        """Returns a frame to the pool."""
        self._frames.append(frame)

    def run(self, addresses: Sequence[int]) -> None:
        """Executes on buffers at these addresses, one per argument. Thread-safe."""
        frame = self.take()
        try:
            frame.point(addresses)
            frame.run()
        finally:
            self.give(frame)


class Frame:
    """Memory objects and argument arrays for one execution at a time of a plan."""

    def __init__(self, plan: Plan) -> None:
        lib = plan.engine.lib
        self._destroy = lib.c.dnnl_memory_destroy
        self._memories: list[int] = []
        self._arena = np.full(plan.scratch_bytes + ALIGNMENT + 2 * GUARD, GUARD_BYTE, np.uint8)
        base = _aligned(address(self._arena) + GUARD)
        self._inside = base - address(self._arena)
        self._plan = plan
        self._set_handle = lib.c.dnnl_memory_set_data_handle
        self._execute = lib.c.dnnl_primitive_execute
        self._stream = plan.engine.stream
        by_buffer: dict[Buffer, int] = {}
        self._pointed: list[tuple[int, int]] = []

        def memory(desc: MemoryDesc, handle: int | None) -> int:
            made = lib.new("dnnl_memory_create", desc.handle, plan.engine.handle, c_void_p(handle))
            self._memories.append(made)
            return made

        self._calls: list[tuple[int, int, ctypes.Array[ExecArg]]] = []
        for step in plan.steps:
            args: list[ExecArg] = []
            for arg, buffer in step.arguments:
                if buffer not in by_buffer:
                    if buffer.argument is None:
                        by_buffer[buffer] = memory(buffer.desc, base + plan.offsets[buffer])
                    else:
                        by_buffer[buffer] = memory(buffer.desc, None)
                        self._pointed.append((buffer.argument, by_buffer[buffer]))
                args.append(ExecArg(arg, by_buffer[buffer]))
            scratchpad = memory(step.primitive.scratchpad, base + plan.offsets[step])
            args.append(ExecArg(Arg.SCRATCHPAD, scratchpad))
            self._calls.append((step.primitive.handle, len(args), (ExecArg * len(args))(*args)))

    def point(self, addresses: Sequence[int]) -> None:
        """Points the arguments at these addresses."""
        set_handle = self._set_handle
        for argument, memory in self._pointed:
            set_handle(memory, addresses[argument])

    def run(self) -> None:
        """Executes every primitive."""
        execute, stream = self._execute, self._stream
        for primitive, count, args in self._calls:
            status = execute(primitive, stream, count, args)
            if status:
                self._plan.engine.lib.check(status, "dnnl_primitive_execute")

    def intact(self) -> bool:
        """Whether the guard zones around the arena are untouched, for the fuzzer and `verify`."""
        before = self._arena[: self._inside]
        after = self._arena[self._inside + self._plan.scratch_bytes :]
        return bool((before == GUARD_BYTE).all() and (after == GUARD_BYTE).all())

    def __del__(self) -> None:
        for memory in self._memories:
            self._destroy(memory)
