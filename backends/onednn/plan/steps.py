"""The steps of a plan, on the library or on the host, and the buffers between them."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.runtime.arrays import Array, address, numpy_type
from ....graph.runtime.profiling import EventKind
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.enumerators import Arg
from ..library.memory import MemoryDesc
from ..library.primitive import PrimitiveDesc
from .work import Work, reorder_work


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
        memory: Any = (ctypes.c_char * size).from_address(place)
        return np.ndarray(self.shape, self.dtype, memory, strides=self.strides)


@frozen
class Above:
    """Whether some elements of an argument, in f32, are all larger than a bound; NaN is not.

    Attributes:
        argument: its number.
        count: how many, one at least. stride: bytes from one to the next, from the first element on.
    """

    argument: int
    count: int
    stride: int
    bound: float

    @classmethod
    def of(cls, argument: int, buffer: Buffer, bound: float, axis: int | None = None) -> Above | None:
        """Of all elements, or of the first ones along an axis, where these lie at one distance and are a few.

        Args:
            argument: the buffer's number.
        """
        array = HostArray.of(buffer)
        flat = None if array is None or buffer.desc.data_type is not DataType.f32 else array.flat
        if array is None or flat is None:
            return None
        length = 1 if axis is None else array.shape[axis]
        if length == 0 or (axis is not None and length > 1 and array.strides[axis] != flat.strides[0]):
            return None
        count = flat.shape[0] // length
        if not 0 < count <= FEW_LOOKED_AT:
            return None
        return cls(argument, count, length * flat.strides[0], bound)


FEW_LOOKED_AT = 1 << 12
"""Elements that are looked at one by one; of more NumPy sees several at a time, and its beginning costs little."""


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
        updates: numbers of the arguments, outputs all, that it reads before it writes them.
        pure: whether it does nothing but write its outputs, and the same for the same inputs.
        meaning: what it makes of its inputs, in full; None where only the code knows. A copy needs no more words.
        unless: conditions; where there are some, and all hold, it has nothing to do.
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
    meaning: str | None = None
    unless: tuple[Above, ...] = ()


AnyStep = Step | HostStep


@frozen
class Tap:
    """Where a tensor between the steps of a plan can be looked at.

    Attributes:
        tensor: it.
        buffer: its elements, in the order of its own axes.
        step: number of the step behind which they are there.
        writable: whether whoever reads it later reads it there, so that other elements can be put in their place.
    """

    tensor: LogicalTensor
    buffer: Buffer
    step: int
    writable: bool


def instead(buffer: Buffer, moved: Mapping[Buffer, Buffer]) -> Buffer:
    """The buffer that stands for it where some have moved, views of them included."""
    if buffer in moved:
        return moved[buffer]
    if buffer.base is None or buffer.root not in moved:
        return buffer
    base = instead(buffer.base, moved)
    return Buffer(buffer.desc, base.root.argument, base=base, offset=buffer.offset)


def copy_step(what: str, desc: PrimitiveDesc, source: Buffer, target: Buffer) -> Step:
    """A copy between layouts and data types by a primitive that reorders."""
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


def event_kind(step: AnyStep) -> EventKind:
    """As what a profile records a step."""
    if isinstance(step, HostStep):
        return EventKind.copy if step.is_copy else EventKind.host
    return EventKind.copy if step.is_copy else EventKind.primitive


def described_argument(number: int, buffer: Buffer) -> str:
    """An argument's name where it has one, and what it is."""
    desc = buffer.desc
    shape = "x".join(map(str, desc.shape)) or "scalar"
    name = next((f"{arg.name.lower()} " for arg in Arg if arg == number), "")
    return f"{name}{desc.data_type.value} {shape} {desc.describe()}"
