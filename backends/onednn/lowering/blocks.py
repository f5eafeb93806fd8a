"""Attention in blocks of heads, where its scores would take too much memory as a whole.

With two threads that is as fast in f32, and slower in bf16, whose kernels have more to prepare; so it is done for the
memory's sake only. Every head of every image is computed alike, so one plan for a block of heads, run again and again
on other places of the user's arrays, does the same as one for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from attrs import evolve, frozen

from ....graph.compile.backend import CompileRequest
from ....graph.model.logical_tensor import LogicalTensor, evolve_tensor
from ....graph.model.op import Op
from ....graph.runtime.arrays import itemsize
from ....ops.movement import permutation

SCORES_BYTES = 1 << 20
"""What the scores of a block may take in f32, for each thread: about a second-level cache."""
MOST_BYTES = 512 << 20
"""What all scores may take in f32 where the user sets no limit of temporary memory."""
F32_BYTES = 4
RANK = 4
"""Images, heads, rows and columns."""

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


def _on(op: Op, tensors: dict[int, LogicalTensor | None]) -> Op:
    return op.with_tensors([tensors[t.id] or t for t in op.inputs], [tensors[t.id] or t for t in op.outputs])


def _axes(ops: Sequence[Op], images: int, heads: int) -> dict[int, Axes] | None:
    """Where each tensor has images and heads; None where that can't be told."""
    found: dict[int, Axes] = {}

    def note(tensor: LogicalTensor, axes: Axes) -> bool:
        return found.setdefault(tensor.id, axes) == axes

    for op in ops:
        if op.kind in ("StaticReshape", "GenIndex", "Dropout"):
            return None
        for tensor in op.inputs:
            rank = len(tensor.dims)
            missing = RANK - rank
            aligned: Axes = (0, 1) if not missing else (None, 0) if missing == 1 else (None, None)
            if missing < 0 or not note(tensor, found.get(tensor.id, aligned)):
                return None
            for axis, size in zip(found[tensor.id], (images, heads), strict=True):
                if axis is not None and tensor.dims[axis] not in (1, size):
                    return None
        before = found[op.inputs[0].id]
        after: Axes = (0, 1)
        if op.kind == "StaticTranspose":
            order = permutation(op.attributes, len(op.inputs[0].dims))
            if order is None or before[0] is None or before[1] is None:
                return None
            after = order.index(before[0]), order.index(before[1])
        elif op.kind in ("Reorder", "TypeCast", "Quantize", "Dequantize"):
            after = before
        for tensor in op.outputs:
            if not note(tensor, after):
                return None
    return found


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
