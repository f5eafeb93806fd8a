"""Where the tensors of a partition lie while it is lowered: in what layout and type, and how to get them in another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum

import numpy as np
from attrs import evolve, frozen

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import (
    LayoutType,
    LogicalTensor,
    PropertyType,
    as_plain,
    may_overlap,
    row_major,
)
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array, numpy_type
from ....ops.data_types import DataType
from ....ops.movement import permutation
from ..library.loading import MAX_NDIMS
from ..library.memory import LARGEST_DIM, MemoryDesc, OpaqueLayout, canonical_strides, packed
from ..library.primitive import NativeEngine
from ..plan.assembly import Assembly, Unfit
from ..plan.steps import Buffer, HostArray, HostStep
from .collapse import spread_shape
from .fusing import Link, OneScale, zero_point_of
from .journal import Journal, JournalledDict, JournalledSet
from .moves import is_move, moved
from .views import in_order, order_for

PRIMITIVE_TYPES = (DataType.f32, DataType.bf16, DataType.f16, DataType.s32, DataType.s8, DataType.u8)
"""Types that primitives take."""
HALVES = (DataType.bf16, DataType.f16)
ROW_OF_BYTES = 1 << 20
"""How bytes lie that are more than an axis can have."""
EIGHT_BITS = (DataType.s8, DataType.u8)
MOST_PASSED = 24
"""Ops between a Dequantize and who looks for its integers."""


@frozen
class Quantized:
    """A tensor as it was before a Dequantize.

    Attributes:
        buffer: the integers.
        scales: one, or one per channel.
        axis: of the channels.
        zero_point: of all elements.
    """

    buffer: Buffer
    scales: tuple[float, ...]
    axis: int
    zero_point: int

    @property
    def largest(self) -> int:
        """How far an integer of the type can be from the zero point."""
        least, most = (0, 255) if self.buffer.desc.data_type is DataType.u8 else (-128, 127)
        return max(most - self.zero_point, self.zero_point - least)

    def has(self, scale: OneScale | None) -> bool:
        """Whether this is the scale and the zero point of all its elements."""
        return scale is not None and (self.scales, self.zero_point) == ((scale.scale,), scale.zero_point)


class Lies(Enum):
    """How an op's tensors are given to a primitive.

    `given`: the inputs as they lie, the result as the user wants it. All others leave the result to the library and
    copy it: `result` that alone, `dense` brings the inputs to row-major order, `last` and `first` images to channels
    last and first.
    """

    given = 0
    result = 1
    dense = 2
    last = 3
    first = 4


@frozen(kw_only=True)
class Way:
    """A way to try an op.

    Attributes:
        integers: a Dequantize is looked through.
        through_f32: halves are computed in f32.
        channels_last: images are brought to that layout.
        references: the library's reference loops may run.
        lies: which layouts are tried.
    """

    integers: bool = False
    through_f32: bool = False
    channels_last: bool = False
    references: bool = False
    lies: Lies = Lies.given


class Tensors(Assembly, ABC):
    """The tensors of one partition.

    Args:
        engine: the library's engine.
        request: what is compiled.
        opaque: layouts of inputs that lie as another partition left them, by tensor id.

    Attributes:
        way: in which way the present op is tried.
        reasons: why something was not done in the first way tried.
    """

    def __init__(
        self, engine: NativeEngine, request: CompileRequest, opaque: Mapping[int, OpaqueLayout] | None = None
    ) -> None:
        super().__init__(engine)
        self.request = request
        self.way = Way(integers=True)
        self.reasons: list[str] = []
        self._producers = {t.id: op for op in request.ops for t in op.outputs}
        self._users: dict[int, list[Op]] = {}
        for op in request.ops:
            for tensor_id in dict.fromkeys(t.id for t in op.inputs):
                self._users.setdefault(tensor_id, []).append(op)
        self._declared_inputs = {t.id: t for t in request.inputs}
        self._declared_outputs = {t.id: t for t in request.outputs}
        self._journal = Journal()
        self._where: JournalledDict[int, Buffer] = JournalledDict(self._journal)
        self._done: JournalledSet[int] = JournalledSet(self._journal)
        self._ports: dict[int, Buffer] = {}
        self._left_opaque: JournalledDict[int, OpaqueLayout] = JournalledDict(self._journal)
        self._integers: JournalledDict[int, Quantized] = JournalledDict(self._journal)
        count = len(request.inputs)
        for number, tensor in enumerate((*request.inputs, *request.outputs)):
            layout = (opaque or {}).get(tensor.id)
            buffer = Buffer(layout.desc, number) if layout is not None else self._argument(tensor, number)
            if number < count:
                self._where[tensor.id] = self._apart(tensor, buffer) if repeats(tensor) else buffer
            else:
                self._ports[tensor.id] = buffer

    @abstractmethod
    def lower(self, op: Op) -> None:
        """Makes the op's outputs."""

    def _argument(self, tensor: LogicalTensor, number: int) -> Buffer:
        plain = as_plain(tensor)
        if unknown_to_library(tensor) or repeats(
            tensor
        ):  # only steps on the host see it, which don't look at this
            return Buffer(self.bytes(tensor.nbytes), number)
        shape, strides = (plain.dims, plain.element_strides) if plain.dims else ((1,), (1,))
        return Buffer(self.desc(shape, strides, tensor.data_type), number)

    def desc(self, shape: Sequence[int], strides: Sequence[int], data_type: DataType) -> MemoryDesc:
        """A plain layout, with strides of axes of one element that the library takes."""
        return super().desc(shape, canonical_strides(shape, strides), data_type)

    def bytes(self, count: int) -> MemoryDesc:
        """Memory that only steps on the host look at."""
        rows = -(-count // ROW_OF_BYTES) if count > LARGEST_DIM else 1
        columns = max(count, 1) if rows == 1 else ROW_OF_BYTES
        return self.desc((rows, columns), (columns, 1), DataType.u8)

    def _apart(self, tensor: LogicalTensor, argument: Buffer) -> Buffer:
        """A copy, on the host, in which each element of an input has a place of its own."""
        copy = self.temporary(tensor.dims or (1,), tensor.data_type)
        self.reasons.append(
            f"input {label_of(tensor)!r} has strides {list(tensor.element_strides)}, under which elements share "
            "memory; it is copied first"
        )
        arrays = tuple(
            host_array(tensor, strides) for strides in (tensor.element_strides, row_major(tensor.dims))
        )
        self.steps.append(
            HostStep(f"copy {label_of(tensor)}", _copy, ((0, argument), (1, copy)), arrays, 1, is_copy=True)
        )
        return copy

    def is_port(self, tensor: LogicalTensor) -> bool:
        """Whether somebody outside reads the tensor."""
        return tensor.id in self._ports

    def users(self, tensor: LogicalTensor) -> Sequence[Op]:
        """The ops of the partition that read the tensor."""
        return self._users.get(tensor.id, ())

    def producer(self, tensor: LogicalTensor) -> Op | None:
        """The op of the partition that makes the tensor."""
        return self._producers.get(tensor.id)

    def type_of(self, tensor: LogicalTensor) -> DataType:
        """The type in which the tensor is computed: f32 in the place of halves that the library can't do."""
        if self.way.through_f32 and tensor.data_type in HALVES:
            return DataType.f32
        return tensor.data_type

    def read(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """Where the tensor lies, in the order of its own axes and in the type that is computed in.

        Raises:
            Unfit: a tensor that no primitive takes.
        """
        unknown = unknown_to_library(tensor)
        if unknown is not None:
            raise Unfit(unknown)
        buffer = self._located(tensor)
        wanted = data_type or self.type_of(tensor)
        shape, strides = buffer.desc.shape, buffer.desc.strides
        rows = self.way.lies is Lies.dense
        if buffer.desc.data_type is wanted and not rows:
            return buffer
        steps = row_major(shape) if rows or strides is None else packed(shape, strides)
        return self.bring(label_of(tensor), buffer, self.desc(shape, steps, wanted))

    def _located(self, tensor: LogicalTensor) -> Buffer:
        if tensor.id not in self._where:
            producer = self._producers.get(tensor.id)
            if producer is None or producer.id in self._done:
                raise Unfit(f"{tensor} is not computed")
            self.lower(producer)
        return self._where[tensor.id]

    def plain(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """The tensor in a layout of strides."""
        buffer = self.read(tensor, data_type)
        if buffer.desc.strides is not None:
            return buffer
        shape = buffer.desc.shape
        return self.bring(label_of(tensor), buffer, self.desc(shape, row_major(shape), buffer.desc.data_type))

    def dense(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """The tensor in row-major order, without gaps."""
        buffer = self.read(tensor, data_type)
        shape = buffer.desc.shape
        return self.bring(label_of(tensor), buffer, self.desc(shape, row_major(shape), buffer.desc.data_type))

    def aligned(
        self, tensor: LogicalTensor, rank: int, axis: int | None = None, data_type: DataType | None = None
    ) -> Buffer:
        """The tensor with `rank` axes, densely: ones in front, or around a vector that stands at `axis`."""
        return self.spread(self.dense(tensor, data_type), rank, axis, scalar=not tensor.dims)

    def spread(self, buffer: Buffer, rank: int, axis: int | None, *, scalar: bool = False) -> Buffer:
        """A dense buffer with `rank` axes, as `aligned` says."""
        wide = spread_shape(() if scalar else buffer.desc.shape, rank, axis)
        if wide == buffer.desc.shape:
            return buffer
        return self.look(buffer, self.desc(wide, row_major(wide), buffer.desc.data_type))

    def elementwise(self, tensor: LogicalTensor) -> Buffer:
        """The tensor as elementwise primitives are given it: axes in any order, or blocked, but without gaps."""
        return self.without_gaps(tensor, self.read(tensor))

    def without_gaps(self, tensor: LogicalTensor, buffer: Buffer) -> Buffer:
        """The tensor's elements, or the integers behind them, in the order in which they lie, with nothing between."""
        strides, shape = buffer.desc.strides, buffer.desc.shape
        if strides is None:
            return buffer
        dense = self.desc(shape, packed(shape, strides), buffer.desc.data_type)
        return self.bring(label_of(tensor), buffer, dense)

    def beside(
        self,
        tensor: LogicalTensor,
        first: Buffer,
        axis: int | None = None,
        data_type: DataType | None = None,
    ) -> Buffer:
        """An operand of an elementwise primitive: as `first` lies where it has all elements, else as `aligned` says."""
        shape, strides = first.desc.shape, first.desc.strides
        if spread_shape(tensor.dims, len(shape), axis) != shape:
            return self.aligned(tensor, len(shape), axis, data_type)
        if tensor.dims == shape:
            buffer = self.read(tensor, data_type)
        else:
            buffer = self.aligned(tensor, len(shape), axis, data_type)
        if strides is not None:
            return self.bring(label_of(tensor), buffer, self.desc(shape, strides, buffer.desc.data_type))
        same = buffer.desc.data_type is first.desc.data_type
        return self.bring(label_of(tensor), buffer, first.desc) if same else buffer

    def look(self, buffer: Buffer, desc: MemoryDesc) -> Buffer:
        """The same memory under another descriptor."""
        return Buffer(desc, buffer.root.argument, base=buffer)

    def ordered(self, buffer: Buffer, order: Sequence[int]) -> Buffer:
        """The same memory with its axes in another order."""
        if tuple(order) == tuple(range(len(order))):
            return buffer
        return self.look(buffer, buffer.desc.permuted(order).canonical())

    def images(self, buffer: Buffer, order: Sequence[int]) -> Buffer:
        """The same memory with its axes in another order, N, C and the spatial ones, as kernels for images know it."""
        there = self.ordered(buffer, order)
        desc = there.desc.canonical(channels_last=True)
        there = there if desc is there.desc else self.look(there, desc)
        if self.way.lies is Lies.last:
            return self.bring("images", there, self.channels_last(desc.shape, desc.data_type))
        if self.way.lies is Lies.first:
            rows = self.desc(desc.shape, row_major(desc.shape), desc.data_type)
            return self.bring("images", there, rows.canonical(channels_last=True))
        return there

    def channels_last(self, shape: Sequence[int], data_type: DataType) -> MemoryDesc:
        """Images (N, C, X) with the channels adjacent."""
        strides = in_order(shape, (0, *range(2, len(shape)), 1))
        return self.desc(shape, strides, data_type).canonical(channels_last=True)

    def wanted(
        self,
        tensor: LogicalTensor,
        order: Sequence[int] | None = None,
        links: Sequence[Link] = (),
        *,
        turned_later: bool = False,
    ) -> MemoryDesc:
        """The descriptor to ask for a result: the user's layout, or any.

        Args:
            tensor: the result.
            order: of the primitive's axes, N, C and the spatial ones, if it is a kernel for images.
            links: what goes along; second operands are read from wrong places where the result has gaps.
            turned_later: whether strides are worth asking for under which a transposition that follows is dense.
        """
        shape = tensor.dims or (1,)
        axes = tuple(order) if order is not None else tuple(range(len(shape)))
        port = self._ports.get(tensor.id)
        if (
            port is not None
            and port.desc.data_type is self.type_of(tensor)
            and self.way.lies is Lies.given
            and not self._may_choose(tensor)
            and not (port.desc.has_gaps and any(link.has_operand for link in links))
        ):
            return port.desc if order is None else port.desc.permuted(axes).canonical(channels_last=True)
        turned = self._turned_later(tensor) if turned_later and order is None else None
        if turned is not None:
            return self.desc(shape, in_order(shape, turned), self.type_of(tensor))
        return self.any([shape[a] for a in axes], self.type_of(tensor))

    def _turned_later(self, tensor: LogicalTensor) -> tuple[int, ...] | None:
        """The order of axes in which a reshape reads the tensor after transpositions; None where none does."""
        order = tuple(range(len(tensor.dims)))
        while not self.is_port(tensor) and len(self.users(tensor)) == 1:
            (user,) = self.users(tensor)
            if user.kind == "StaticReshape":
                return order if order != tuple(range(len(order))) else None
            turn = permutation(user.attributes, len(order)) if user.kind == "StaticTranspose" else None
            if turn is None:
                return None
            order = tuple(order[axis] for axis in turn)
            tensor = user.outputs[0]
        return None

    def is_constant(self, tensor: LogicalTensor) -> bool:
        """Whether the tensor is an input whose content does not change, or such an input moved or converted."""
        producer = self.producer(tensor)
        for _ in range(MOST_PASSED):
            if producer is None or not (producer.kind in ("Dequantize", "TypeCast") or is_move(producer)):
                break
            tensor = producer.inputs[0]
            producer = self.producer(tensor)
        declared = self._declared_inputs.get(tensor.id)
        return declared is not None and declared.property_type is PropertyType.constant

    def _may_choose(self, tensor: LogicalTensor) -> bool:
        return self._declared_outputs.get(tensor.id, tensor).layout_type is LayoutType.any

    def target(self, tensor: LogicalTensor) -> Buffer:
        """Where a result goes that must lie in strides: the user's array where its layout is fixed, or a temporary."""
        port = self._ports.get(tensor.id)
        fixed = self.way.lies is Lies.given and not self._may_choose(tensor)
        if port is not None and port.desc.data_type is self.type_of(tensor) and fixed:
            return port
        return self.temporary(tensor.dims or (1,), self.type_of(tensor))

    def may_stay_opaque(self, tensor: LogicalTensor) -> bool:
        """Whether a result may be left in a layout whose axes are not the tensor's: nobody here reads it."""
        return self.is_port(tensor) and self._may_choose(tensor) and not self.users(tensor)

    def leave_opaque(self, tensor: LogicalTensor, buffer: Buffer, layout: OpaqueLayout) -> None:
        """Says that the output is left in `buffer` in such a layout."""
        self._where[tensor.id] = buffer
        self._left_opaque[tensor.id] = layout

    def produce(self, tensor: LogicalTensor, buffer: Buffer, order: Sequence[int] | None = None) -> None:
        """Says that the tensor lies in `buffer`, whose axes are the tensor's in `order`."""
        if order is not None:
            inverse = sorted(range(len(order)), key=lambda place: order[place])
            buffer = self.ordered(buffer, inverse)
        self._where[tensor.id] = buffer

    def sizes(self, op: Op, index: int, name: str) -> tuple[int, ...]:
        """The integers of a shape operand, or of the attribute in its place.

        Raises:
            Unfit: the operand's value is not known.
        """
        if len(op.inputs) <= index:
            return op.attributes.integers(name)
        if op.inputs[index].id not in self.request.values:
            raise Unfit(f"the value of '{name}' is not known")
        return self.request.values[op.inputs[index].id]

    def move(self, op: Op) -> None:
        """Makes the result of an op that moves elements: a view where strides can tell it, else of a copy."""
        source = self.plain(op.inputs[0])
        self.produce(op.outputs[0], self._moved(op, source))

    def _moved(self, op: Op, source: Buffer) -> Buffer:
        view = moved(self, op, source)
        if view is None:
            shape = source.desc.shape
            order = order_for(shape, source.desc.strides or (), op.outputs[0].dims)
            lies = self.desc(shape, in_order(shape, order), source.desc.data_type)
            view = moved(self, op, self.bring(label_of(op.inputs[0]), source, lies))
        if view is None:
            raise Unfit("a shape that the elements don't have")
        return view

    def quantized(self, tensor: LogicalTensor) -> Quantized | None:
        """The integers that a Dequantize makes the tensor from, also through ops that move them; None without one."""
        passed: list[Op] = []
        while tensor.id not in self._integers:
            op = self.producer(tensor)
            if not self.way.integers or op is None or len(passed) == MOST_PASSED:
                return None
            if op.kind == "Dequantize":
                found = self._dequantized(op)
                if found is None:
                    return None
                self._integers[tensor.id] = found
            elif (op.kind == "TypeCast" and len(self.users(tensor)) == 1) or (
                is_move(op) and tensor.dims and op.inputs[0].dims
            ):
                passed.append(op)
                tensor = op.inputs[0]
            else:
                return None
        found = self._integers[tensor.id]
        for op in reversed(passed):
            if op.kind != "TypeCast":
                if len(found.scales) > 1 or found.buffer.desc.strides is None:
                    return None
                found = evolve(found, buffer=self._moved(op, found.buffer), axis=0)
            self._integers[op.outputs[0].id] = found
        return found if self.way.integers else None

    def _dequantized(self, op: Op) -> Quantized | None:
        zero_point = zero_point_of(op)
        source, dims = op.inputs[0], op.outputs[0].dims
        if zero_point is None or source.data_type not in EIGHT_BITS:
            return None
        scales = op.attributes.reals("scales")
        if op.attributes.string("qtype") == "per_tensor" or len(set(scales)) == 1:
            scales = scales[:1]
        elif len(scales) != dims[op.attributes.integer("axis")]:
            return None
        axis = op.attributes.integer("axis") % max(len(dims), 1)
        return Quantized(self._located(source), scales, axis, zero_point)

    def constant(self, values: Array) -> Buffer:
        """A vector that the plan brings along."""
        data_type = DataType.s32 if values.dtype == np.int32 else DataType.f32
        return Buffer(self.desc(values.shape, row_major(values.shape), data_type), constant=values)

    def ones(self, count: int) -> Buffer:
        """A vector of ones."""
        return self.constant(np.ones(count, np.float32))


def unknown_to_library(tensor: LogicalTensor, name: str | None = None) -> str | None:
    """Why no primitive takes a tensor, however it lies, or None.

    Args:
        name: what to call it, if not by its own name.
    """
    told = repr(name or label_of(tensor))
    if tensor.data_type not in PRIMITIVE_TYPES:
        return f"oneDNN's primitives take no {tensor.data_type.value}, as {told} is"
    shape = tensor.shape or ()
    if len(shape) > MAX_NDIMS:
        return f"oneDNN's tensors have at most {MAX_NDIMS} axes, {told} has {len(shape)}"
    if max(shape, default=0) > LARGEST_DIM:
        return f"oneDNN's kernels count in 32 bits, and an axis of {told} has {max(shape)} elements"
    return None


def repeats(tensor: LogicalTensor) -> bool:
    """Whether elements share memory in a way that no layout of the library has, or its kernels misread."""
    if unknown_to_library(tensor) is not None or tensor.layout_type is LayoutType.opaque or 0 in tensor.dims:
        return False
    return may_overlap(tensor.dims, as_plain(tensor).element_strides)


def _copy(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    np.copyto(outputs[0], inputs[0])


def host_array(tensor: LogicalTensor, strides: Sequence[int]) -> HostArray:
    """How a step on the host sees a tensor that lies so."""
    dtype = numpy_type(tensor.data_type)
    return HostArray(dtype, tensor.dims, tuple(s * dtype.itemsize for s in strides[: len(tensor.dims)]))


def label_of(tensor: LogicalTensor) -> str:
    """A tensor in the names of steps."""
    return tensor.name or f"tensor {tensor.id}"
