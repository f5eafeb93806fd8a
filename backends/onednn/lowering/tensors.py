"""Where the tensors of a partition lie while it is lowered: in what layout and type, and how to get them in another."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from ....graph.model.logical_tensor import LayoutType, LogicalTensor, as_plain, may_overlap, row_major
from ....graph.model.op import Op
from ....graph.runtime.arrays import numpy_type
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.loading import MAX_NDIMS
from ..library.memory import LARGEST_DIM, MemoryDesc, OpaqueLayout, packed
from ..plan.emitter import Emitter
from ..plan.journal import Journal, JournalledDict
from ..plan.layouts import Layouts
from ..plan.steps import Buffer, HostArray
from ..plan.unfit import Unfit
from .as_views import is_move, moved
from .collapse import spread_shape
from .edges import MOST_PASSED, Edges
from .links import Link, OneScale, zero_point_of
from .views import in_order, order_for
from .way import Lies, Way

PRIMITIVE_TYPES = (DataType.f32, DataType.bf16, DataType.f16, DataType.s32, DataType.s8, DataType.u8)
"""Types that primitives take."""
HALVES = (DataType.bf16, DataType.f16)
EIGHT_BITS = (DataType.s8, DataType.u8)


@frozen
class Quantized:
    """A tensor as it was before a Dequantize.

    Attributes:
        buffer: the integers.
        scales: one, or one per channel.
        axis: of the channels.
        zero_point: of all elements.
        narrow: whether they are known to take 7 of their 8 bits.
    """

    buffer: Buffer
    scales: tuple[float, ...]
    axis: int
    zero_point: int
    narrow: bool = False

    @property
    def largest(self) -> int:
        """How far an integer of the type can be from the zero point."""
        least, most = (0, 255) if self.buffer.desc.data_type is DataType.u8 else (-128, 127)
        return max(most - self.zero_point, self.zero_point - least)

    def has(self, scale: OneScale | None) -> bool:
        """Whether this is the scale and the zero point of all its elements."""
        return scale is not None and (self.scales, self.zero_point) == ((scale.scale,), scale.zero_point)

    def rescaling(self, wanted: OneScale) -> tuple[float, float] | None:
        """Factor and summand that make integers of that scale of these, or of their means; None of several scales."""
        scale, *others = self.scales
        if others:
            return None
        factor = scale / wanted.scale
        return factor, wanted.zero_point - factor * self.zero_point


@frozen
class Rectified:
    """A batch normalisation that has done the ReLU behind it, for the gradient of both.

    Attributes:
        op: the normalisation.
        src: its data as the primitive read it.
        signs: where the result is above zero, in the primitive's own order.
        implementation: of the primitive.
    """

    op: Op
    src: Buffer
    signs: Buffer
    implementation: str


class Tensors:
    """The tensors of one partition.

    Args:
        edges: who makes and who reads them.
        layouts: makes descriptors.
        emitter: receives the copies.
        journal: of the attempts.

    Attributes:
        way: in which way the present op is tried.
        make: lowers the op that makes a tensor which lies nowhere yet.
        where: tensor id → where it lies, in the order of its axes.
        ports: the same → the user's array.
        left_opaque: the same → the layout in which an output is left.
        rectified: a ReLU's result → the batch normalisation that made it.
    """

    def __init__(self, edges: Edges, layouts: Layouts, emitter: Emitter, journal: Journal) -> None:
        self.way = Way(integers=True)
        self.make: Callable[[LogicalTensor], None] = _nobody_makes
        self.where: JournalledDict[int, Buffer] = JournalledDict(journal)
        self.ports: dict[int, Buffer] = {}
        self.left_opaque: JournalledDict[int, OpaqueLayout] = JournalledDict(journal)
        self.rectified: JournalledDict[int, Rectified] = JournalledDict(journal)
        self._integers: JournalledDict[int, Quantized] = JournalledDict(journal)
        self._edges = edges
        self._layouts = layouts
        self._emitter = emitter

    # --- reading -------------------------------------------------------------------------------------

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
        buffer = self.located(tensor)
        wanted = data_type or self.type_of(tensor)
        shape, strides = buffer.desc.shape, buffer.desc.strides
        rows = self.way.lies is Lies.dense
        if buffer.desc.data_type is wanted and not rows:
            return buffer
        steps = row_major(shape) if rows or strides is None else packed(shape, strides)
        return self._emitter.bring(label_of(tensor), buffer, self._layouts.desc(shape, steps, wanted))

    def located(self, tensor: LogicalTensor) -> Buffer:
        """Where the tensor lies, which is made now if nobody has done so."""
        if tensor.id not in self.where:
            self.make(tensor)
        return self.where[tensor.id]

    def plain(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """The tensor in a layout of strides."""
        buffer = self.read(tensor, data_type)
        if buffer.desc.strides is not None:
            return buffer
        shape = buffer.desc.shape
        return self._emitter.bring(label_of(tensor), buffer, self._layouts.rows(shape, buffer.desc.data_type))

    def dense(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """The tensor in row-major order, without gaps."""
        buffer = self.read(tensor, data_type)
        shape = buffer.desc.shape
        return self._emitter.bring(label_of(tensor), buffer, self._layouts.rows(shape, buffer.desc.data_type))

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
        return self._layouts.view(buffer, wide)

    def elementwise(self, tensor: LogicalTensor) -> Buffer:
        """The tensor as elementwise primitives are given it: axes in any order, or blocked, but without gaps."""
        return self.without_gaps(tensor, self.read(tensor))

    def without_gaps(self, tensor: LogicalTensor, buffer: Buffer) -> Buffer:
        """The tensor's elements, or the integers behind them, in the order in which they lie, with nothing between."""
        strides, shape = buffer.desc.strides, buffer.desc.shape
        if strides is None:
            return buffer
        dense = self._layouts.desc(shape, packed(shape, strides), buffer.desc.data_type)
        return self._emitter.bring(label_of(tensor), buffer, dense)

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
            return self._emitter.bring(
                label_of(tensor), buffer, self._layouts.desc(shape, strides, buffer.desc.data_type)
            )
        same = buffer.desc.data_type is first.desc.data_type
        return self._emitter.bring(label_of(tensor), buffer, first.desc) if same else buffer

    def images(self, buffer: Buffer, order: Sequence[int]) -> Buffer:
        """The same memory with its axes in another order, N, C and the spatial ones, as kernels for images know it."""
        there = self._layouts.ordered(buffer, order)
        desc = there.desc.canonical(channels_last=True)
        there = there if desc is there.desc else self._layouts.look(there, desc)
        if self.way.lies is Lies.last:
            return self._emitter.bring(
                "images", there, self._layouts.channels_last(desc.shape, desc.data_type)
            )
        if self.way.lies is Lies.first:
            rows = self._layouts.rows(desc.shape, desc.data_type)
            return self._emitter.bring("images", there, rows.canonical(channels_last=True))
        return there

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
        port = self.ports.get(tensor.id)
        if (
            port is not None
            and port.desc.data_type is self.type_of(tensor)
            and self.way.lies is Lies.given
            and not self._edges.may_choose(tensor)
            and not (port.desc.has_gaps and any(link.has_operand for link in links))
        ):
            return port.desc if order is None else port.desc.permuted(axes).canonical(channels_last=True)
        turned = self._edges.turned_later(tensor) if turned_later and order is None else None
        if turned is not None:
            return self._layouts.desc(shape, in_order(shape, turned), self.type_of(tensor))
        return self._layouts.any([shape[a] for a in axes], self.type_of(tensor))

    # --- making --------------------------------------------------------------------------------------

    def target(self, tensor: LogicalTensor) -> Buffer:
        """Where a result goes that must lie in strides: the user's array where its layout is fixed, or a temporary."""
        port = self.ports.get(tensor.id)
        fixed = self.way.lies is Lies.given and not self._edges.may_choose(tensor)
        if port is not None and port.desc.data_type is self.type_of(tensor) and fixed:
            return port
        return self._layouts.temporary(tensor.dims or (1,), self.type_of(tensor))

    def leave_opaque(self, tensor: LogicalTensor, buffer: Buffer, layout: OpaqueLayout) -> None:
        """Says that the output is left in `buffer` in such a layout."""
        self.where[tensor.id] = buffer
        self.left_opaque[tensor.id] = layout

    def produce(self, tensor: LogicalTensor, buffer: Buffer, order: Sequence[int] | None = None) -> None:
        """Says that the tensor lies in `buffer`, whose axes are the tensor's in `order`."""
        if order is not None:
            inverse = sorted(range(len(order)), key=lambda place: order[place])
            buffer = self._layouts.ordered(buffer, inverse)
        self.where[tensor.id] = buffer

    def move(self, op: Op) -> None:
        """Makes the result of an op that moves elements: a view where strides can tell it, else of a copy."""
        source = self.plain(op.inputs[0])
        self.produce(op.outputs[0], self._moved(op, source))

    def _moved(self, op: Op, source: Buffer) -> Buffer:
        view = moved(self._layouts, op, source)
        if view is None:
            shape = source.desc.shape
            order = order_for(shape, source.desc.strides or (), op.outputs[0].dims)
            lies = self._layouts.desc(shape, in_order(shape, order), source.desc.data_type)
            view = moved(self._layouts, op, self._emitter.bring(label_of(op.inputs[0]), source, lies))
        if view is None:
            raise Unfit("a shape that the elements don't have")
        return view

    # --- integers ------------------------------------------------------------------------------------

    def quantized(self, tensor: LogicalTensor) -> Quantized | None:
        """The integers that a Dequantize makes the tensor from, also through ops that move them; None without one."""
        passed: list[Op] = []
        while tensor.id not in self._integers:
            op = self._edges.producer(tensor)
            if not self.way.integers or op is None or len(passed) == MOST_PASSED:
                return None
            if op.kind == "Dequantize":
                if tensor.id in self.where and op.inputs[0].id not in self.where:
                    return None  # its integers were never written
                found = self._dequantized(op)
                if found is None:
                    return None
                self._integers[tensor.id] = found
            elif (op.kind == "TypeCast" and len(self._edges.users(tensor)) == 1) or (
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
        return Quantized(self.located(source), scales, axis, zero_point, self._edges.is_narrow(source))


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


def host_array(tensor: LogicalTensor, strides: Sequence[int]) -> HostArray:
    """How a step on the host sees a tensor that lies so."""
    dtype = numpy_type(tensor.data_type)
    return HostArray(dtype, tensor.dims, tuple(s * dtype.itemsize for s in strides[: len(tensor.dims)]))


def label_of(tensor: LogicalTensor) -> str:
    """A tensor in the names of steps."""
    return tensor.name or f"tensor {tensor.id}"


def _nobody_makes(tensor: LogicalTensor) -> None:
    raise Unfit(f"{tensor} is not computed")
