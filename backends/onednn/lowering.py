"""Lowering: from the ops of a partition to the steps of a plan.

A `Lowering` knows where each tensor lies, in what layout and type, while ops are turned into primitives one after
another. Layouts flow from primitive to primitive; a copy is made only where the next one asks for it. An op takes
along, as post-ops, what follows it (`fusing.py`), as much of that as the library accepts. What it has no primitive for
is a step on the host, so that a partition always becomes one plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import takewhile

import numpy as np
from attrs import evolve, frozen

from ...graph.arrays import Array, numpy_type
from ...graph.backend import BACKENDS, CompileRequest
from ...graph.logical_tensor import LayoutType, LogicalTensor, PropertyType, as_plain, row_major
from ...graph.op import Op
from ...ops.data_types import DataType
from ...ops.errors import LibraryError
from .assembly import Assembly, Unfit
from .enumerators import Arg, FpmathMode, Query
from .fusing import Link, chain
from .memory import MemoryDesc, OpaqueLayout
from .plan import AnyStep, Buffer, HostArray, HostStep, Plan, Prepared, Step
from .primitive import NativeEngine, PostOp, PrimitiveAttributes, PrimitiveDesc, described, reorder
from .quarantine import REFERENCE

PRIMITIVE_TYPES = (DataType.f32, DataType.bf16, DataType.f16, DataType.s32, DataType.s8, DataType.u8)
"""Types that primitives take."""
HALVES = (DataType.bf16, DataType.f16)
LAZY = ("Dequantize", "TypeCast", "StaticTranspose", "StaticReshape", "Reorder")
"""Ops that are looked through where that is possible; they are lowered when somebody reads their result."""

Lower = Callable[["Lowering", Op, Sequence[Link]], None]
"""From an op, and what it takes along, to steps. Raises Unfit."""


@frozen
class Lowered:
    """How ops of one kind are lowered.

    Attributes:
        lower: the function.
        fuses: whether it takes post-ops along.
        takes: which of them, for an op.
        why_not: the reason that no primitive can do an op, as far as its shapes and types tell, or None.
    """

    lower: Lower
    fuses: bool = False
    takes: Callable[[Op, Link], bool] = lambda op, link: True
    why_not: Callable[[Op], str | None] = lambda op: None


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


class Lowering(Assembly):
    """The plan of one partition in the making.

    Args:
        engine: the library's engine.
        request: what is compiled.
        table: op kind → how it is lowered.
        opaque: layouts of inputs that lie as another partition left them, by tensor id.

    Attributes:
        fused: for each primitive that took others along, its op and theirs.
        hosted: ops that became steps on the host.
        reasons: why something was not done in the first way tried.
    """

    def __init__(
        self,
        engine: NativeEngine,
        request: CompileRequest,
        table: Mapping[str, Lowered],
        opaque: Mapping[int, OpaqueLayout] | None = None,
    ) -> None:
        super().__init__(engine)
        self.request = request
        self.fpmath = FpmathMode[request.fpmath_mode]
        self.fused: list[tuple[Op, ...]] = []
        self.hosted: list[Op] = []
        self.reasons: list[str] = []
        self.through_f32 = False
        self.takes_integers = True
        self.takes_reference = False
        self._table = table
        self._producers = {t.id: op for op in request.ops for t in op.outputs}
        self._users: dict[int, list[Op]] = {}
        for op in request.ops:
            for tensor_id in dict.fromkeys(t.id for t in op.inputs):
                self._users.setdefault(tensor_id, []).append(op)
        self._where: dict[int, Buffer] = {}
        self._done: set[int] = set()
        self._ports: dict[int, Buffer] = {}
        count = len(request.inputs)
        for number, tensor in enumerate((*request.inputs, *request.outputs)):
            layout = (opaque or {}).get(tensor.id)
            buffer = Buffer(layout.desc, number) if layout is not None else self._argument(tensor, number)
            if number < count:
                self._where[tensor.id] = buffer
            else:
                self._ports[tensor.id] = buffer

    # --- tensors -------------------------------------------------------------------------------------

    def _argument(self, tensor: LogicalTensor, number: int) -> Buffer:
        plain = as_plain(tensor)
        if tensor.data_type not in PRIMITIVE_TYPES:  # only steps on the host see it, which don't look at this
            return Buffer(self.desc((max(tensor.nbytes, 1),), (1,), DataType.u8), number)
        shape, strides = (plain.dims, plain.element_strides) if plain.dims else ((1,), (1,))
        return Buffer(self.desc(shape, strides, tensor.data_type), number)

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
        if self.through_f32 and tensor.data_type in HALVES:
            return DataType.f32
        return tensor.data_type

    def read(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """Where the tensor lies, in the order of its own axes and in the type that is computed in.

        Raises:
            Unfit: a type that no primitive takes.
        """
        if tensor.data_type not in PRIMITIVE_TYPES:
            raise Unfit(f"oneDNN's primitives take no {tensor.data_type.value}")
        buffer = self._located(tensor)
        wanted = data_type or self.type_of(tensor)
        if buffer.desc.data_type is wanted:
            return buffer
        shape = buffer.desc.shape
        strides = buffer.desc.strides
        dense = strides is not None and sorted(strides) == sorted(row_major(shape))
        return self.bring(
            _label(tensor),
            buffer,
            self.desc(shape, strides if dense and strides else row_major(shape), wanted),
        )

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
        return self.bring(_label(tensor), buffer, self.desc(shape, row_major(shape), buffer.desc.data_type))

    def dense(self, tensor: LogicalTensor, data_type: DataType | None = None) -> Buffer:
        """The tensor in row-major order, without gaps."""
        buffer = self.read(tensor, data_type)
        shape = buffer.desc.shape
        return self.bring(_label(tensor), buffer, self.desc(shape, row_major(shape), buffer.desc.data_type))

    def aligned(
        self, tensor: LogicalTensor, rank: int, axis: int | None = None, data_type: DataType | None = None
    ) -> Buffer:
        """The tensor with `rank` axes, densely: ones in front, or around a vector that stands at `axis`."""
        buffer = self.dense(tensor, data_type)
        shape, strides = buffer.desc.shape, buffer.desc.strides or ()
        if not tensor.dims:
            shape, strides = (), ()
        if axis is not None and len(shape) == 1:
            shape = tuple(shape[0] if a == axis else 1 for a in range(rank))
            strides = row_major(shape)
        missing = max(rank - len(shape), 0)
        wide = (1,) * missing + tuple(shape)
        if wide == buffer.desc.shape:
            return buffer
        outer = max((d * s for d, s in zip(shape, strides, strict=True)), default=1)
        return self.look(buffer, self.desc(wide, (outer,) * missing + tuple(strides), buffer.desc.data_type))

    def look(self, buffer: Buffer, desc: MemoryDesc) -> Buffer:
        """The same memory under another descriptor."""
        return Buffer(desc, buffer.root.argument, base=buffer)

    def ordered(self, buffer: Buffer, order: Sequence[int]) -> Buffer:
        """The same memory with its axes in another order."""
        if tuple(order) == tuple(range(len(order))):
            return buffer
        return self.look(buffer, buffer.desc.permuted(order))

    def any(self, shape: Sequence[int], data_type: DataType) -> MemoryDesc:
        """A layout that the primitive chooses."""
        return MemoryDesc.any(self.engine.lib, shape, data_type)

    def wanted(self, tensor: LogicalTensor, order: Sequence[int] | None = None) -> MemoryDesc:
        """The descriptor to ask for a result: the user's layout, or any."""
        shape = tensor.dims or (1,)
        axes = tuple(order) if order is not None else tuple(range(len(shape)))
        port = self._ports.get(tensor.id)
        if port is not None and port.desc.data_type is self.type_of(tensor) and not self._may_choose(tensor):
            return port.desc.permuted(axes) if order is not None else port.desc
        return self.any([shape[a] for a in axes], self.type_of(tensor))

    def _may_choose(self, tensor: LogicalTensor) -> bool:
        declared = next((t for t in self.request.outputs if t.id == tensor.id), tensor)
        return declared.layout_type is LayoutType.any

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

    def quantized(self, tensor: LogicalTensor) -> Quantized | None:
        """The integers that a Dequantize of this partition makes the tensor from, or None."""
        op = self.producer(tensor)
        while op is not None and op.kind == "TypeCast" and len(self.users(tensor)) == 1:
            tensor = op.inputs[0]
            op = self.producer(tensor)
        if not self.takes_integers or op is None or op.kind != "Dequantize":
            return None
        zps = op.attributes.get("zps") or (0,)
        source = op.inputs[0]
        if (
            not isinstance(zps, tuple)
            or len(set(zps)) > 1
            or source.data_type not in (DataType.s8, DataType.u8)
        ):
            return None
        scales = op.attributes.reals("scales")
        if op.attributes.string("qtype") == "per_tensor" or len(set(scales)) == 1:
            scales = scales[:1]
        elif len(scales) != tensor.dims[op.attributes.integer("axis")]:
            return None
        axis = op.attributes.integer("axis") % max(len(tensor.dims), 1)
        return Quantized(self._located(source), scales, axis, int(zps[0]))

    def constant(self, values: Array) -> Buffer:
        """A vector that the plan brings along."""
        data_type = DataType.s32 if values.dtype == np.int32 else DataType.f32
        return Buffer(self.desc(values.shape, row_major(values.shape), data_type), constant=values)

    def ones(self, count: int) -> Buffer:
        """A vector of ones."""
        return self.constant(np.ones(count, np.float32))

    # --- primitives ----------------------------------------------------------------------------------

    def attributes(
        self,
        links: Sequence[Link],
        result: LogicalTensor,
        order: Sequence[int] | None = None,
        scales: Mapping[int, tuple[int, Sequence[float]]] | None = None,
        zero_points: Mapping[int, int] | None = None,
    ) -> tuple[PrimitiveAttributes, list[tuple[int, Buffer]]]:
        """Attributes of a primitive that takes `links` along, and the arguments that they need.

        Args:
            links: what follows the op.
            result: the op's own result, to which operands broadcast.
            order: of the primitive's axes, if they are not the tensor's.
            scales: argument → (mask, values). zero_points: argument → value.
        """
        rank = max(len(result.dims), 1)
        post_ops: list[PostOp] = []
        arguments: list[tuple[int, Buffer]] = []
        all_scales, all_points = dict(scales or {}), dict(zero_points or {})
        for link in links:
            if link.quantize is not None:
                all_scales[Arg.DST] = (0, link.quantize.attributes.reals("scales")[:1])
                points = link.quantize.attributes.get("zps") or (0,)
                all_points[Arg.DST] = int(points[0]) if isinstance(points, tuple) else 0
            if link.before is not None:
                post_ops.append(PostOp(link.before.algorithm, link.before.alpha, link.before.beta))
            if link.algorithm is None:
                continue
            operand: Buffer | None = None
            if link.operand is not None:
                operand = self.aligned(link.operand, rank, link.axis)
                if order is not None:
                    operand = self.ordered(operand, order)
                place = Arg.ATTR_MULTIPLE_POST_OP_BASE * (len(post_ops) + 1) | Arg.SRC_1
                arguments.append((place, operand))
            post_ops.append(
                PostOp(link.algorithm, link.alpha, link.beta, None if operand is None else operand.desc)
            )
        for argument, (_, values) in all_scales.items():
            arguments.append((Arg.ATTR_SCALES | argument, self.constant(np.asarray(values, np.float32))))
        points_used = {argument: value for argument, value in all_points.items() if value}
        for argument, value in points_used.items():
            arguments.append((Arg.ATTR_ZERO_POINTS | argument, self.constant(np.asarray([value], np.int32))))
        try:
            made = PrimitiveAttributes(
                self.engine.lib,
                self.fpmath,
                post_ops,
                {argument: mask for argument, (mask, _) in all_scales.items()},
                dict.fromkeys(points_used, 0),
            )
        except LibraryError as error:
            raise Unfit(str(error)) from error
        return made, arguments

    def describe(self, function: str, *arguments: object) -> PrimitiveDesc:
        """A primitive descriptor.

        Raises:
            Unfit: the library has none, or only a reference loop.
        """
        desc = described(self.engine, function, *arguments)
        if desc is None:
            raise Unfit(f"the library has no {function} for these descriptors")
        if desc.implementation.startswith(REFERENCE) and not self.takes_reference:
            raise Unfit(f"the library has a reference loop only for this {function}")
        return desc

    def run(self, role: str, desc: PrimitiveDesc, arguments: Sequence[tuple[int, Buffer]]) -> None:
        """Adds a step."""
        self.steps.append(Step(role, desc, tuple(arguments)))

    def single(
        self,
        role: str,
        desc: PrimitiveDesc,
        arguments: Sequence[tuple[int, Buffer]],
        result: LogicalTensor,
        order: Sequence[int] | None = None,
        output: int = Arg.DST,
        query: Query = Query.dst_md,
    ) -> None:
        """Adds a step of one output, which makes `result`."""
        made = Buffer(desc.memory_desc(query))
        self.run(role, desc, (*arguments, (output, made)))
        self.produce(result, made, order)

    def copy_scaled(
        self,
        what: str,
        source: Buffer,
        target: Buffer,
        scales: Mapping[int, tuple[int, Buffer]],
        zero_points: Mapping[int, Buffer],
    ) -> None:
        """A copy that quantises or dequantises: argument → mask and values."""
        desc = reorder(
            self.engine,
            source.desc,
            target.desc,
            {argument: mask for argument, (mask, _) in scales.items()},
            dict.fromkeys(zero_points, 0),
        )
        if desc is None or desc.implementation.startswith(REFERENCE):
            raise Unfit("the library has no reorder with such scales")
        arguments = [(Arg.SRC, source), (Arg.DST, target)]
        arguments += [(Arg.ATTR_SCALES | argument, values) for argument, (_, values) in scales.items()]
        arguments += [(Arg.ATTR_ZERO_POINTS | argument, values) for argument, values in zero_points.items()]
        self.steps.append(Step(what, desc, tuple(arguments), is_copy=True))

    # --- ops -----------------------------------------------------------------------------------------

    def lower_all(self) -> None:
        """Lowers every op."""
        for op in self.request.ops:
            if op.kind not in LAZY or any(self.is_port(t) for t in op.outputs):
                self.lower(op)

    def lower(self, op: Op) -> None:
        """Lowers one op, with as much of what follows as the library takes along, or as a step on the host."""
        if op.id in self._done:
            return
        how = self._table.get(op.kind)
        if how is None:
            self._host(op)
            return
        links = list(takewhile(partial(how.takes, op), chain(self, op))) if how.fuses else []
        for integers, through_f32 in self._ways(op):
            for count in range(len(links), -1, -1):
                if self._attempt(op, how, links[:count], integers, through_f32):
                    return
        if self.request.forced:  # a slow kernel is better than none
            self.takes_reference = True
            try:
                if any(self._attempt(op, how, (), *way) for way in self._ways(op)):
                    return
            finally:
                self.takes_reference = False
        self._host(op)

    def absorb(self, op: Op, *others: Op) -> None:
        """Says that the primitive of `op` does the others too."""
        self._done.update(other.id for other in others)
        self.fused.append((op, *others))

    def _ways(self, op: Op) -> list[tuple[bool, bool]]:
        """In order of preference: whether Dequantize is looked through, and whether halves become f32."""
        ways = [(False, False)]
        if any(self.quantized(t) is not None for t in op.inputs):
            ways.insert(0, (True, False))
        if any(t.data_type in HALVES for t in (*op.inputs, *op.outputs)):
            ways.append((False, True))
        return ways

    def _attempt(
        self, op: Op, how: Lowered, links: Sequence[Link], integers: bool, through_f32: bool
    ) -> bool:
        state = len(self.steps), dict(self._where), set(self._done), len(self.fused), len(self.hosted)
        before = self.takes_integers, self.through_f32
        self.takes_integers, self.through_f32 = integers, through_f32
        self._done.update(one.id for one in (op, *[o for link in links for o in link.ops]))
        try:
            how.lower(self, op, links)
        except (Unfit, LibraryError) as error:
            self.reasons.append(f"{op}: {error}")
            steps, self._where, self._done, fused, hosted = state
            del self.steps[steps:], self.fused[fused:], self.hosted[hosted:]
            return False
        finally:
            self.takes_integers, self.through_f32 = before
        if links:
            self.fused.append((op, *[one for link in links for one in link.ops]))
        return True

    def _host(self, op: Op) -> None:
        """The op as a step on the host, on plain arrays in the types that it declares."""
        inputs = [self._host_input(t) for t in op.inputs]
        outputs = [self._host_output(t) for t in op.outputs]
        ins = tuple(as_plain(t) for t in op.inputs)
        outs = tuple(as_plain(t) for t in op.outputs)
        executable = BACKENDS.get("numpy").compile(
            evolve(self.request, ops=(op.with_tensors(ins, outs),), inputs=ins, outputs=outs)
        )
        both = (*inputs, *outputs)
        self.steps.append(
            HostStep(
                f"{op.kind}",
                executable.run,
                tuple(enumerate(buffer for buffer, _ in both)),
                tuple(seen for _, seen in both),
                len(inputs),
            )
        )
        self._done.add(op.id)
        self.hosted.append(op)

    def _host_input(self, tensor: LogicalTensor) -> tuple[Buffer, HostArray]:
        if tensor.data_type in PRIMITIVE_TYPES:
            buffer = self.plain(tensor, tensor.data_type)
            return buffer, _seen(tensor, buffer.desc.strides or ())
        buffer = self._located(tensor)
        declared = next((t for t in self.request.inputs if t.id == tensor.id), None)
        strides = declared.element_strides if declared is not None else row_major(tensor.dims)
        return buffer, _seen(tensor, strides)

    def _host_output(self, tensor: LogicalTensor) -> tuple[Buffer, HostArray]:
        port = self._ports.get(tensor.id)
        declared = next((t for t in self.request.outputs if t.id == tensor.id), tensor)
        if port is not None and not self._may_choose(tensor):
            self._where[tensor.id] = port
            return port, _seen(tensor, as_plain(declared).element_strides)
        if tensor.data_type in PRIMITIVE_TYPES:
            buffer = self.temporary(tensor.dims or (1,), tensor.data_type)
        else:
            size = max(math.prod(tensor.dims) * numpy_type(tensor.data_type).itemsize, 1)
            buffer = self.temporary((size,), DataType.u8)
        self._where[tensor.id] = buffer
        return buffer, _seen(tensor, row_major(tensor.dims))

    # --- the end -------------------------------------------------------------------------------------

    def finish(self) -> tuple[OpaqueLayout | None, ...]:
        """Brings every output to the user's array; the layout of each that was free to choose."""
        moved: dict[Buffer, Buffer] = {}
        layouts: list[OpaqueLayout | None] = []
        for tensor in self.request.outputs:
            port = self._ports[tensor.id]
            lies = self._located(tensor)
            layouts.append(None)
            if lies.root is port:
                continue
            free = lies.root.argument is None and lies.root.constant is None and lies.root not in moved
            whole = lies.place == 0 and lies.desc.nbytes == lies.root.desc.nbytes
            if free and whole and self._may_choose(tensor) and lies.desc != port.desc:
                layouts[-1] = OpaqueLayout(lies.desc, port.desc, own_axes=True)
                moved[lies.root] = Buffer(lies.root.desc, port.argument)
            elif free and whole and lies.desc == port.desc:
                moved[lies.root] = Buffer(lies.root.desc, port.argument)
            else:
                self.copy(_label(tensor), lies, port)
        self.steps[:] = [_moved(step, moved) for step in self.steps]
        return tuple(layouts)

    def prepared(self) -> Prepared | None:
        """Takes out of the steps what depends on constant inputs alone: it runs when these change.

        Its results become further arguments of the plan.
        """
        constant = {
            number for number, t in enumerate(self.request.inputs) if t.property_type is PropertyType.constant
        }
        ready: set[Buffer] = set()
        early: list[Step] = []
        for step in self.steps:
            source, target = _copied(step)
            if source is None or target is None or not isinstance(step, Step):
                continue
            is_constant = source.root.argument in constant or source.root in ready
            if is_constant and target.root.argument is None and target.base is None:
                ready.add(target)
                early.append(step)
        if not early:
            return None
        others = [step for step in self.steps if step not in early]
        used = {b.root for step in others for _, b in step.arguments}
        count = len(self.request.inputs) + len(self.request.outputs)
        kept = [buffer for buffer in ready if buffer in used]
        moved = {buffer: Buffer(buffer.desc, count + number) for number, buffer in enumerate(kept)}
        self.steps[:] = [_moved(step, moved) for step in others]
        plan = Plan(self.engine, [_moved(step, moved) for step in early])
        return Prepared(plan, tuple(buffer.desc.nbytes for buffer in kept), tuple(sorted(constant)))


def _copied(step: AnyStep) -> tuple[Buffer | None, Buffer | None]:
    """Source and target of a copy; None where the step is none."""
    if not isinstance(step, Step) or not step.is_copy:
        return None, None
    places = dict(step.arguments)
    return places[Arg.SRC], places[Arg.DST]


def _label(tensor: LogicalTensor) -> str:
    return tensor.name or f"tensor {tensor.id}"


def _seen(tensor: LogicalTensor, strides: Sequence[int]) -> HostArray:
    dtype = numpy_type(tensor.data_type)
    return HostArray(dtype, tensor.dims, tuple(s * dtype.itemsize for s in strides[: len(tensor.dims)]))


def _moved(step: AnyStep, moved: Mapping[Buffer, Buffer]) -> AnyStep:
    """The step with buffers in the place of others, views of them included."""

    def instead(buffer: Buffer) -> Buffer:
        if buffer in moved:
            return moved[buffer]
        if buffer.base is None or buffer.root not in moved:
            return buffer
        base = instead(buffer.base)
        return Buffer(buffer.desc, base.root.argument, base=base, offset=buffer.offset)

    return evolve(step, arguments=tuple((number, instead(buffer)) for number, buffer in step.arguments))
