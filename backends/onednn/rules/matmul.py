"""What is barred of products of matrices."""

from __future__ import annotations

import math

from ....ops.data_types import DataType
from ..library.enumerators import Query
from .conditions import INTEGERS, LOWER, operands
from .entry import Case, Entry


def _result_elsewhere(case: Case) -> bool:
    """Whether a product with a second operand of several elements goes to batches that don't lie as rows do."""
    target = case.layout(Query.dst_md)
    strides, step = target.strides, 1
    if not any(math.prod(operand.shape) > 1 for operand in operands(case)):
        return False
    for axis in reversed(range(len(target.shape))):
        if target.shape[axis] > 1 and strides is not None and strides[axis] != step:
            return True
        step *= target.shape[axis]
    return False


def _batches_apart(case: Case) -> bool:
    """Whether batches along the first of four axes, the second being of one element, share the second matrix."""
    batches, shared = case.layout(Query.dst_md).shape[:-2], case.layout(Query.weights_md).shape[:-2]
    return len(batches) == 2 and batches[0] > 1 and batches[1] == 1 and shared == (1, 1)


def _batches_misjudged(case: Case) -> bool:
    """Whether the batches of a matrix lie evenly as the library tells it, and do not.

    It asks whether the largest stride is the smallest times the number of batches, and goes by that of the last axis.
    """
    batches = case.layout(Query.dst_md).shape[:-2]
    if len(batches) < 2:
        return False
    for what in MATRICES:
        desc = case.layout(what)
        steps, sizes = (desc.strides or ())[: len(batches)], desc.shape[: len(batches)]
        if not steps or max(steps) // min(steps) != math.prod(batches):
            continue
        step = steps[-1]
        for size, stride in zip(reversed(sizes), reversed(steps), strict=True):
            if size > 1 and stride != step:
                return True
            step *= size
    return False


def _stray_ones_of_matrices(case: Case) -> bool:
    """Whether an axis of one element of a matrix has another stride than follows from the others."""
    layouts = [case.layout(what) for what in MATRICES]
    return any(desc.canonical() is not desc for desc in layouts)


def _shared_sum(case: Case) -> bool:
    """Whether threads share the sums of a product of 8-bit integers, as they do where there is little else to share."""
    rows, inner = case.layout(Query.src_md).shape[-2:]
    steps = case.layout(Query.src_md).strides
    columns = case.layout(Query.dst_md).shape[-1]
    return (
        case.layout(Query.src_md).data_type in (DataType.s8, DataType.u8)
        and inner >= 2048
        and (rows == 1 or steps is None or steps[-1] != 1)
        and -(-columns // 64) < case.desc.engine.lib.threads
    )


def _long_sums_of_sixteen(case: Case) -> bool:
    """Whether sums of more than 1024 f32 meet weights in blocks of 16 columns, in AVX2's kernel."""
    weights = case.layout(Query.weights_md)
    return weights.blocks[-1:] == (16,) and weights.shape[-2] > 1024


def _vector_with_gaps(case: Case) -> bool:
    """Whether a matrix of a product has a single row or column whose elements are not adjacent."""
    for desc in map(case.layout, MATRICES):
        if desc.strides is None:
            continue
        (rows, step), (columns, along) = list(zip(desc.shape, desc.strides, strict=True))[-2:]
        if (columns == 1 < rows and step != 1) or (rows == 1 < columns and along != 1):
            return True
    return False


MATRICES = (Query.src_md, Query.weights_md, Query.dst_md)

RULES: dict[str, tuple[Entry[[Case]], ...]] = {
    "matmul": (
        INTEGERS,
        LOWER,
        Entry(
            "brg_matmul:avx512",
            "threads share sums of 2048 or more 8-bit products: src lies by columns or is one row, and the columns are "
            "fewer than 64 for each thread",
            _shared_sum,
            "crashes, with s8 (8, 2048) lying by columns or (1, 2048) by (2048, 64) on two threads, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg_matmul:avx2",
            "more than 1024 products are summed and the weights are in blocks of 16 columns",
            _long_sums_of_sixteen,
            "reads what nobody wrote: all elements wrong in f32 with 9 to 16 columns, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg",
            "an axis of one element of a matrix has another stride than follows from the others",
            _stray_ones_of_matrices,
            "goes by it: most elements wrong in bf16 by (1, 3, 7, 31) of strides (93, 31, 93, 1), seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg",
            "the largest stride of a matrix's batches is the smallest times their number, and they lie unevenly",
            _batches_misjudged,
            "takes them as even: s8 (3, 1, 1000, 32) in another order, bf16 (2, 3, 2, 31) of strides (210, 35, 105, 1)",
            since=(3, 6),
        ),
        Entry(
            "brg",
            "a matrix is one row or column whose elements are not adjacent",
            _vector_with_gaps,
            "takes them as adjacent: all elements wrong in f32 and bf16 for columns (16, 1) of stride 2, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "brg",
            "batches of two axes share the second matrix, and the second axis has one element",
            _batches_apart,
            "takes the rows of all batches as one matrix and the stride of the second axis for that between rows, as "
            "the layout is that of (batch, row, 1, column) too: wrong from the second batch on and written far beyond "
            "the result, s8 (2, 1, 100, 48) by (1, 1, 48, 64) say, seen with 3.6",
            since=(3, 3),
        ),
        Entry(
            "",
            "a second operand has more than one element and the result is not dense rows",
            _result_elsewhere,
            "takes the operand's elements by where the result lies, as if that were row-major: wrong values and "
            "crashes with gaps between batches and with transposed ones, by gemm and brg alike",
        ),
    )
}
"""What made the primitive → what is barred of it."""
