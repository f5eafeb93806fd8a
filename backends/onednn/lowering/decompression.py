"""Products by weights that are integers in groups with a scale each, where the library multiplies by them as they are.

Where it doesn't, or has reference loops for it alone, what makes real numbers of them is an op of its own: a step on
the host, once where the weights are constant.

Integers of 4 bits become such of 8, once: with AVX2, products of few rows take two to three times as long on halves of
bytes as on f32 or bytes, which take as long as each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
from attrs import evolve

from ....graph.model.logical_tensor import LogicalTensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import Array, numpy_type
from ....ops.data_types import DataType
from ....ops.records import frozen
from ..library.capabilities import DECOMPRESSION
from ..library.descriptors import MatMul
from ..library.enumerators import FpmathMode
from ..library.loading import LATER_DATA_TYPES, load
from ..library.memory import MemoryDesc
from ..library.primitive import Decompression, Grouping
from ..plan.measured_forms import Form, fastest_form, measures
from ..plan.steps import Buffer, HostArray
from ..plan.unfit import Unfit
from .lowering import Lowering
from .on_host import host_input
from .tensors import EIGHT_BITS, label_of

MODES = {DataType.f32: FpmathMode.strict, DataType.bf16: FpmathMode.bf16, DataType.f16: FpmathMode.f16}
"""Type of the other factor → what the library is allowed to multiply as: not more than that type loses."""
WIDENED = {DataType.s4: DataType.s8, DataType.u4: DataType.u8}
"""Types of zero points that have a byte each here → the type of that byte."""


@frozen(kw_only=True)
class Packed:
    """Weights as a product takes them that decompresses.

    Attributes:
        dequantize: the op that says what they stand for.
        integers: a matrix, the rows of which are summed over.
        scales, points: one for each group of rows and each column, or one for all; no points where all are zero.
        group: how many rows share one.
    """

    dequantize: Op
    integers: Buffer
    scales: Buffer
    points: Buffer | None
    group: int

    def decompression(self, rank: int) -> Decompression:
        """How the product is told, in matrices of so many axes."""
        points = None if self.points is None else self._grouping(self.points, rank)
        return Decompression(self._grouping(self.scales, rank), points)

    def _grouping(self, numbers: Buffer, rank: int) -> Grouping:
        groups, columns = numbers.desc.shape
        mask = (1 << (rank - 1)) * (columns > 1)
        group: tuple[int, ...] = ()
        if groups > 1:
            mask, group = 3 << (rank - 2), (self.group, 1)
        return Grouping(mask, group, numbers.desc.data_type)

    @property
    def told(self) -> str:
        """In words, for an explanation."""
        each = f"groups of {self.group}" if self.scales.desc.shape[0] > 1 else "columns"
        if math.prod(self.scales.desc.shape) == 1:
            each = "one group"
        return f"{self.integers.desc.data_type.value} weights in {each}"


def may_decompress(op: Op) -> bool:
    """Whether an op makes real weights of integers that a product of this library may take as they are."""
    if op.kind != "DynamicDequantize" or DECOMPRESSION not in load().capabilities.later:
        return False
    source = op.inputs[0]
    known = source.data_type in (*EIGHT_BITS, *LATER_DATA_TYPES)
    return known and source.shape is not None and len(source.shape) == 2


def forms_of(low: Lowering, op: Op) -> tuple[Form, ...]:
    """In which forms a product may take its weights as integers, the likely one first; none of other weights."""
    dequantize = _dequantize(low, op)
    if dequantize is None:
        return ()
    four_bits = dequantize.inputs[0].data_type in LATER_DATA_TYPES
    return (Form.bytes, Form.halves) if four_bits and measures(low.request.options) else (Form.bytes,)


def why_not_so(low: Lowering, asked: MatMul, packed: Packed, form: Form) -> str | None:
    """Why another form of the weights is better, where times decide; None where none is, or nothing is known.

    Args:
        asked: the product with its weights in this form.
    """
    options, kind = low.request.options, packed.dequantize.inputs[0].data_type
    if not measures(options):
        return None
    shape, attributes = asked.weights.shape, asked.attributes
    real = low.chooser.attributes(attributes.post_ops, fpmath=attributes.fpmath)
    free = {
        Form.halves: (kind if kind in LATER_DATA_TYPES else None, attributes),
        Form.bytes: (WIDENED.get(kind, kind), attributes),
        Form.real: (asked.src.data_type, real),
    }
    rivals = {
        one: evolve(asked, weights=low.layouts.any(shape, data_type), attributes=own)
        for one, (data_type, own) in free.items()
        if data_type is not None
    }
    best = fastest_form(low.engine, rivals, options) or form
    return None if best is form else f"measured, weights as {best.value} are better here than as {form.value}"


def _dequantize(low: Lowering, op: Op) -> Op | None:
    """What makes the weights of a product of integers, through a cast to the other factor's type."""
    if op.kind != "MatMul":
        return None
    found = low.edges.producer(op.inputs[1])
    if found is not None and found.kind == "TypeCast":
        found = low.edges.producer(found.inputs[0])
    return found if found is not None and may_decompress(found) else None


def packed_weights(low: Lowering, op: Op, *, turned: bool, form: Form) -> Packed:
    """The weights of a product as it takes them.

    Args:
        turned: whether the product reads them transposed.
        form: whether those of 4 bits stay two to a byte.

    Raises:
        Unfit: they are no integers in groups, or such as no product of the library takes.
    """
    dequantize = _dequantize(low, op)
    if dequantize is None:
        raise Unfit("the weights are no integers in groups")
    source = dequantize.inputs[0]
    rows, columns = source.dims[::-1] if turned else source.dims
    if min(rows, columns) < 2:
        raise Unfit("a vector of weights is not decompressed")
    count, _ = _numbers(dequantize, 1, turned)
    return Packed(
        dequantize=dequantize,
        integers=_integers(low, source, turned, halves=form is Form.halves),
        scales=_spread(low, dequantize, 1, turned, columns, DataType.f32),
        points=_points(low, dequantize, turned, columns),
        group=rows // count,
    )


def _numbers(op: Op, place: int, turned: bool) -> tuple[int, int]:
    """Of how many groups of rows and of columns there is a scale or a zero point.

    Args:
        place: of these among the inputs of the op.
    """
    shape, source = op.inputs[place].dims, op.inputs[0].dims
    if op.attributes.string("qtype") != "per_group" or len(shape) != 2:
        along = op.attributes.integer("axis") % 2
        many = math.prod(shape) > 1
        shape = tuple(source[axis] if many and axis == along else 1 for axis in range(2))
    rows, columns = shape[::-1] if turned else shape
    return rows, columns


def _spread(low: Lowering, op: Op, place: int, turned: bool, columns: int, data_type: DataType) -> Buffer:
    """Scales or zero points with one for each column, unless there is one for all weights."""
    groups, given = _numbers(op, place, turned)
    wide = 1 if groups == given == 1 else columns
    source, seen = host_input(low, op.inputs[place])
    target = low.layouts.temporary((groups, wide), data_type)
    run = partial(_write_spread, shape=(groups, given), turned=turned)
    low.emitter.on_host(
        f"{op.input_ports[place].name} of groups", run, (source,), (target,), seen={source: seen}
    )
    return target


def _write_spread(
    inputs: Sequence[Array], outputs: Sequence[Array], *, shape: tuple[int, int], turned: bool
) -> None:
    (given,), (made,) = inputs, outputs
    numbers = given.reshape(shape[::-1]).T if turned else given.reshape(shape)
    made[...] = np.repeat(numbers, made.shape[1] // shape[1], 1).astype(made.dtype)


def _points(low: Lowering, op: Op, turned: bool, columns: int) -> Buffer | None:
    if len(op.inputs) < 3:
        return None
    kind = op.inputs[2].data_type
    return _spread(low, op, 2, turned, columns, WIDENED.get(kind, kind))


def _integers(low: Lowering, source: LogicalTensor, turned: bool, *, halves: bool) -> Buffer:
    """The integers as a matrix whose rows are summed over."""
    if source.data_type in LATER_DATA_TYPES:
        return _in_halves(low, source, turned) if halves else _in_bytes(low, source, turned)
    buffer = low.tensors.plain(source)
    if min(buffer.desc.strides or (0,)) != 1:
        raise Unfit("a matrix whose elements are not adjacent")
    return low.layouts.ordered(buffer, (1, 0)) if turned else buffer


def _in_bytes(low: Lowering, source: LogicalTensor, turned: bool) -> Buffer:
    """Integers of 4 bits with a byte each."""
    shape = source.dims[::-1] if turned else source.dims
    target = low.layouts.temporary(shape, WIDENED[source.data_type])
    given, seen = host_input(low, source)
    run = partial(_write_bytes, turned=turned)
    low.emitter.on_host(f"widen {label_of(source)}", run, (given,), (target,), seen={given: seen})
    return target


def _write_bytes(inputs: Sequence[Array], outputs: Sequence[Array], *, turned: bool) -> None:
    (given,), (made,) = inputs, outputs
    made[...] = (given.T if turned else given).astype(made.dtype)


def _in_halves(low: Lowering, source: LogicalTensor, turned: bool) -> Buffer:
    """Integers of 4 bits in half a byte each, along an axis of whole bytes."""
    rows, columns = source.dims[::-1] if turned else source.dims
    by_rows = columns % 2 == 0
    if not by_rows and rows % 2:
        raise Unfit("rows and columns end within a byte")
    strides = (columns, 1) if by_rows else (1, rows)
    target = Buffer(low.layouts.desc((rows, columns), strides, source.data_type))
    if target.desc.nbytes * 2 != rows * columns:
        raise Unfit("the library counts elements of 4 bits in another way")
    lines, step = (rows, columns // 2) if by_rows else (columns, rows // 2)
    flat = HostArray(np.dtype(np.uint8), (lines, step), (step, 1))
    given, seen = host_input(low, source)
    run = partial(_write_halves, turned=turned == by_rows)
    role = f"pack {label_of(source)}"
    low.emitter.on_host(role, run, (given,), (target,), seen={given: seen, target: flat})
    return target


def _write_halves(inputs: Sequence[Array], outputs: Sequence[Array], *, turned: bool) -> None:
    """Two elements of a row in each byte, the first in the lower half."""
    (given,), (made,) = inputs, outputs
    matrix = (given.T if turned else given).view(np.uint8)
    np.bitwise_and(matrix[:, ::2], 15, out=made)
    made |= matrix[:, 1::2] << 4


def brought(low: Lowering, matrix: Buffer, wanted: MemoryDesc) -> Buffer:
    """The integers in a layout that a product has chosen; in blocks by NumPy, as the library copies them one by one."""
    lies, blocks = wanted.strides, wanted.blocks
    if lies is not None or sorted(wanted.block_axes) != [0, 1] or matrix.desc.strides is None:
        return low.emitter.bring("weights", matrix, wanted)
    sizes = [blocks[wanted.block_axes.index(axis)] for axis in (0, 1)]
    counts = [-(-size // block) for size, block in zip(wanted.shape, sizes, strict=True)]
    inner = [1, 1]
    inner[wanted.block_axes[0]] = blocks[1]
    if wanted.nbytes != math.prod(counts) * math.prod(blocks) * wanted.itemsize:
        return low.emitter.bring("weights", matrix, wanted)
    target, outer = Buffer(wanted), wanted.outer_strides
    shape = (counts[0], sizes[0], counts[1], sizes[1])
    strides = tuple(s * wanted.itemsize for s in (outer[0], inner[0], outer[1], inner[1]))
    seen = HostArray(numpy_type(wanted.data_type), shape, strides)
    low.emitter.on_host("block weights", _write_blocks, (matrix,), (target,), seen={target: seen})
    return target


def _write_blocks(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """A matrix in blocks, with zeros in the rest of the last ones."""
    (given,), (made,) = inputs, outputs
    if given.size == made.size:
        made[...] = given.reshape(made.shape)
        return
    rows, row, columns, column = made.shape
    padded = np.zeros((rows * row, columns * column), given.dtype)
    padded[: given.shape[0], : given.shape[1]] = given
    made[...] = padded.reshape(made.shape)
