"""Attention in blocks of heads, where its scores would take too much memory as a whole.

With two threads that is as fast in f32, and slower in bf16, whose kernels have more to prepare; so it is done for the
memory's sake only. Every head of every image is computed alike, so one plan for a block of heads, run again and again
on other places of the user's arrays, does the same as one for all of them. That holds where each op treats each head by
itself: an op is taken only if the tables here say so of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from attrs import evolve

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LogicalTensor, evolve_tensor
from ....graph.model.numpy_types import itemsize
from ....graph.model.op import Op
from ....ops.formats import axis_positions
from ....ops.movement import permutation
from ....ops.records import frozen
from .links import BINARY, ELTWISE

SCORES_BYTES = 1 << 20
"""What the scores of a block may take in f32, for each thread: about a second-level cache."""
MOST_BYTES = 512 << 20
"""What all scores may take in f32 where the user sets no limit of temporary memory."""
F32_BYTES = 4
RANK = 4
"""Images, heads, rows and columns."""
ELEMENTWISE = frozenset({*ELTWISE, *BINARY, "GreaterEqual", "Reorder", "Select", "TypeCast"})
"""Kinds whose result has an element for each element of their inputs, which broadcast."""
ALONG: Mapping[str, Callable[[Op], int | None]] = {
    "BiasAdd": lambda op: axis_positions(op.attributes.string("data_format"), len(op.inputs[0].dims) - 2)[
        "C"
    ][0],
    "Dequantize": lambda op: _channels(op),
    "DynamicDequantize": lambda op: _channels(op),
    "GenIndex": lambda op: op.attributes.integer("axis"),
    "Quantize": lambda op: _channels(op),
    "SoftMax": lambda op: op.attributes.integer("axis"),
}
"""Kinds whose result depends on a place along one axis at most, and the axis; all others they treat by elements.

Scales of groups have an image and a head for each of the elements', or one for all.
"""

Axes = tuple[int | None, int | None]
"""Where the images and the heads are among a tensor's axes; None where it has no such axis."""


@frozen
class Blocks:
    """A request for one block, and where the blocks lie.

    Attributes:
        request: of one block.
        offsets: for each block, the bytes from the beginning of each argument.
    """

    request: CompileRequest
    offsets: tuple[tuple[int, ...], ...]


def in_blocks(request: CompileRequest, threads: int) -> Blocks | None:
    """The request in blocks of heads; None where it is no attention, or has room as a whole."""
    softmax = [op for op in request.ops if op.kind == "SoftMax"]
    if len(softmax) != 1 or sum(op.kind == "MatMul" for op in request.ops) < 2:
        return None
    scores = softmax[0].inputs[0].dims
    if len(scores) != RANK or softmax[0].attributes.integer("axis") not in (-1, RANK - 1):
        return None
    images, heads = scores[:2]
    each = F32_BYTES * scores[2] * scores[3]
    limit = request.options.scratch_limit
    if images * heads * each <= (MOST_BYTES if limit is None else limit):
        return None
    axes = _axes(request.ops, images, heads)
    if axes is None:
        return None
    fitting = [n for n in range(1, heads + 1) if heads % n == 0 and n * each <= SCORES_BYTES * threads]
    together = max([n for n in fitting if n >= threads] or fitting or [1])
    tensors = {t.id: t for op in request.ops for t in (*op.inputs, *op.outputs)}
    smaller = {i: _sliced(t, axes[i], together) for i, t in tensors.items()}
    if any(one is None for one in smaller.values()):
        return None
    block = evolve(
        request,
        ops=tuple(_on(op, smaller) for op in request.ops),
        inputs=tuple(smaller[t.id] or t for t in request.inputs),
        outputs=tuple(smaller[t.id] or t for t in request.outputs),
    )
    arguments = (*request.inputs, *request.outputs)
    offsets = tuple(
        tuple(_offset(t, axes[t.id], image, head) for t in arguments)
        for image, head in product(range(images), range(0, heads, together))
    )
    return Blocks(block, offsets)


def _channels(op: Op) -> int | None:
    """The axis along which a Quantize or Dequantize has scales."""
    return op.attributes.integer("axis") if op.attributes.string("qtype") == "per_channel" else None


def _on(op: Op, tensors: dict[int, LogicalTensor | None]) -> Op:
    return op.with_tensors([tensors[t.id] or t for t in op.inputs], [tensors[t.id] or t for t in op.outputs])


def _axes(ops: Sequence[Op], images: int, heads: int) -> dict[int, Axes] | None:
    """Where each tensor has images and heads; None where that can't be told, or an op mixes them."""
    found: dict[int, Axes] = {}
    for op in ops:
        for tensor in op.inputs:
            if len(tensor.dims) > RANK:
                return None
            found.setdefault(tensor.id, _aligned(len(tensor.dims)))
        after = _axes_of_result(op, [found[t.id] for t in op.inputs])
        if after is None or len(op.outputs) != 1:
            return None
        found[op.outputs[0].id] = after
        for tensor in (*op.inputs, *op.outputs):
            for axis, size in zip(found[tensor.id], (images, heads), strict=True):
                if axis is not None and tensor.dims[axis] not in (1, size):
                    return None
    return found


def _aligned(rank: int) -> Axes:
    """Where a tensor has images and heads that broadcasts to the scores."""
    image, head = rank - RANK, rank - RANK + 1
    return (None if image < 0 else image, None if head < 0 else head)


def _axes_of_result(op: Op, before: Sequence[Axes]) -> Axes | None:
    """Where an op's result has images and heads; None where it is not known to treat each of them by itself.

    Args:
        op: of any kind.
        before: where its inputs have them.
    """
    rank = len(op.inputs[0].dims)
    if op.kind == "StaticTranspose":
        order, (image, head) = permutation(op.attributes, rank), before[0]
        return (
            None
            if order is None or image is None or head is None
            else (order.index(image), order.index(head))
        )
    if op.kind in ALONG:
        along = ALONG[op.kind](op)
        if along is not None and along % max(rank, 1) in before[0]:
            return None
    elif op.kind == "MatMul":
        matrices = [(t, axes) for t, axes in zip(op.inputs[:2], before, strict=False)]
        if any(len(t.dims) < 2 or {len(t.dims) - 2, len(t.dims) - 1} & {*axes} for t, axes in matrices):
            return None
    elif op.kind not in ELEMENTWISE:
        return None
    return _broadcast(op, before)


def _broadcast(op: Op, before: Sequence[Axes]) -> Axes | None:
    """Where a result has images and heads to which inputs broadcast; None where one has something else there."""
    rank = len(op.outputs[0].dims)
    places = [
        {
            axis - len(t.dims)
            for t, axes in zip(op.inputs, before, strict=True)
            if (axis := axes[which]) is not None
        }
        for which in (0, 1)
    ]
    if any(len(there) > 1 or min(there, default=0) < -rank for there in places):
        return None
    for which, there in enumerate(places):
        for tensor, axes in zip(op.inputs, before, strict=True):
            axis = min(there, default=-rank - 1) + len(tensor.dims)
            if axis >= 0 and axes[which] is None and tensor.dims[axis] != 1:
                return (
                    None  # a turned result lines up with an axis that is not known to be of images or heads
                )
    image, head = (there.pop() + rank if there else None for there in places)
    return image, head


def _sliced(tensor: LogicalTensor, axes: Axes, heads: int) -> LogicalTensor | None:
    """The part of a tensor that belongs to one block, where it lies."""
    image_axis, head_axis = axes
    dims = list(tensor.dims)
    if image_axis is not None:
        dims[image_axis] = 1
    if head_axis is not None and dims[head_axis] > 1:
        dims[head_axis] = heads
    if tensor.layout_type.value != "strided":
        return None
    return evolve_tensor(tensor, shape=tuple(dims), strides=tensor.element_strides)


def _offset(tensor: LogicalTensor, axes: Axes, image: int, head: int) -> int:
    """Bytes from the beginning of a tensor to its part of a block."""
    offset = 0
    for axis, index in zip(axes, (image, head), strict=True):
        if axis is not None and tensor.dims[axis] > 1:
            offset += index * tensor.element_strides[axis]
    return offset * itemsize(tensor.data_type)
