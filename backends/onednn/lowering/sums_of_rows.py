"""Sums as products with ones.

Of what lies outside of what stays, the rows of a matrix, the library has reference loops. Of what lies within, the
numbers of each row, it has a kernel that takes about as long for each row, be it of 32 numbers or of 500: with AVX2 and
later the product takes a sixteenth of its time for rows of 16, a third for 256 and half of it for 512 (with SSE4.1 half
to three quarters), by one thread and by two. What no product tells, as the largest, is for NumPy there: it is found in
0.05 ms in the place of 30 for 65536 rows of 3.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from ....graph.runtime.threads import get_num_threads
from ....ops.data_types import DataType
from ..library.descriptors import MatMul
from ..library.enumerators import Algorithm, Arg, FpmathMode
from ..library.primitive import PostOp
from ..plan.steps import Buffer
from ..plan.unfit import Unfit
from .long_sums import LONGEST, stages
from .lowering import Lowering


def sum_of_rows(low: Lowering, src: Buffer, axes: Collection[int], data_type: DataType) -> Buffer | None:
    """The sum over these axes, of one element then, where it is a sum of the rows of a matrix; None where it is not.

    Such are the gradients of vectors that were added to, or multiplied with, each row. Memory may lie between the rows
    that is none of the tensor's, as where it is a slice of another one.

    Args:
        axes: that are summed. data_type: of the sum.
    """
    shape, strides = src.desc.shape, src.desc.strides
    stay = [axis for axis in range(len(shape)) if axis not in axes and shape[axis] > 1]
    gone = [axis for axis in axes if shape[axis] > 1]
    if strides is None or not stay or not gone or 0 in shape:
        return None
    apart = min(strides[axis] for axis in gone)
    columns, rows = math.prod(shape[axis] for axis in stay), math.prod(shape[axis] for axis in gone)
    if not follow(stay, shape, strides, 1) or not follow(gone, shape, strides, apart) or apart < columns:
        return None
    factors = stages(rows)
    if factors is None:
        return None
    made = src
    for factor in factors:
        rows //= factor
        made = _sums(low, made, (rows, factor, columns), apart, DataType.f32 if rows > 1 else data_type)
        if made is None:
            return None
        apart = columns
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    lies = tuple(columns if axis in axes or shape[axis] == 1 else step for axis, step in enumerate(strides))
    return low.layouts.view(made, kept, lies)


MANY = 128
"""Rows from which on a product sums their numbers in less time."""
FOR_COLUMNS, BEFORE_OTHERS = 512, 1024
"""Rows from which on columns take less time; and where the kernel would take along what follows."""
COLUMNS = 200
"""Numbers of a row, times threads, of which NumPy finds the largest in less time, one after another for all rows."""


def has_many_short_rows(src: Buffer, axes: Collection[int]) -> bool:
    """Whether sums over these axes are of few numbers that lie one behind the other, for many elements that stay."""
    shape, strides = src.desc.shape, src.desc.strides
    if strides is None or 0 in shape or src.desc.data_type not in (DataType.f32, DataType.bf16, DataType.f16):
        return False
    gone, stay = (
        [a for a, d in enumerate(shape) if d > 1 and (a in axes) is within] for within in (True, False)
    )
    length, rows = (math.prod(shape[a] for a in some) for some in (gone, stay))
    if not 1 < length <= LONGEST or rows < MANY or not follow(gone, shape, strides, 1):
        return False
    apart = min(strides[a] for a in stay)
    return apart >= length and follow(stay, shape, strides, apart)


def check_rows(low: Lowering, src: Buffer, axes: Collection[int], *, alone: bool) -> None:
    """Leaves short rows, of which no product tells what is asked, to columns in NumPy.

    Args:
        alone: whether nothing goes along with the reduction.

    Raises:
        Unfit: the library's kernel would take longer by these threads.
    """
    if low.request.forced or not has_many_short_rows(src, axes):
        return
    shape = src.desc.shape
    length = math.prod(shape[a] for a in axes)
    rows = math.prod(shape) // length
    if rows >= (FOR_COLUMNS if alone else BEFORE_OTHERS) and length * get_num_threads() <= COLUMNS:
        raise Unfit(f"{rows} rows of {length} elements, each of which is a call of the library's kernel")


def sum_within_rows(
    low: Lowering, src: Buffer, axes: Collection[int], data_type: DataType, *, mean: bool
) -> Buffer | None:
    """The sums, or the means, of rows as `has_many_short_rows` knows them, with one element along the axes; None where
    the library has no such product.
    """
    shape, strides = src.desc.shape, src.desc.strides or ()
    stay = [a for a, d in enumerate(shape) if d > 1 and a not in axes]
    length, rows = math.prod(shape[a] for a in axes), math.prod(shape[a] for a in stay)
    apart = min(strides[a] for a in stay)
    matrix = low.layouts.desc((rows, length), (apart, 1), src.desc.data_type)
    column = low.layouts.rows((length, 1), src.desc.data_type)
    ones = low.emitter.bring("ones", low.layouts.constant(np.ones((length, 1), np.float32)), column)
    made = low.layouts.temporary((rows, 1), data_type)
    count = low.layouts.constant(np.full((1, 1), length, np.float32))
    means = [PostOp(Algorithm.binary_div, operand=count.desc)] if mean else []
    attributes = low.chooser.attributes(means, fpmath=FpmathMode.strict)
    desc = low.chooser.find(
        MatMul(src=matrix, weights=ones.desc, bias=None, dst=made.desc, attributes=attributes)
    ).desc
    if desc is None:
        return None
    arguments = [(Arg.SRC, low.layouts.look(src, matrix)), (Arg.WEIGHTS, ones), (Arg.DST, made)]
    divisor = [(Arg.ATTR_MULTIPLE_POST_OP_BASE | Arg.SRC_1, count)] if mean else []
    low.emitter.run("sums of rows", desc, [*arguments, *divisor])
    kept = tuple(1 if a in axes else d for a, d in enumerate(shape))
    lies = tuple(s // apart if a in stay else 1 for a, s in enumerate(strides))
    return low.layouts.view(made, kept, lies)


def _sums(
    low: Lowering, src: Buffer, shape: tuple[int, int, int], apart: int, data_type: DataType
) -> Buffer | None:
    """Matrices (many, rows, columns), of rows `apart` elements apart, with their rows added up: (many, 1, columns)."""
    many, rows, columns = shape
    lead = (many,) if many > 1 else ()
    matrix = low.layouts.desc(
        (*lead, rows, columns), (*(rows * apart for _ in lead), apart, 1), src.desc.data_type
    )
    ones = low.emitter.bring(
        "ones",
        low.layouts.constant(np.ones((*(1 for _ in lead), 1, rows), np.float32)),
        low.layouts.desc((*(1 for _ in lead), 1, rows), (*(rows for _ in lead), rows, 1), src.desc.data_type),
    )
    made = low.layouts.temporary((*lead, 1, columns), data_type)
    desc = low.chooser.matmul(ones.desc, matrix, made.desc)
    if desc is None:
        return None
    arguments = [(Arg.SRC, ones), (Arg.WEIGHTS, low.layouts.look(src, matrix)), (Arg.DST, made)]
    low.emitter.run("sum of rows", desc, arguments)
    return made


def follow(axes: Collection[int], shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    """Whether the axes are as one whose elements are `step` apart."""
    for axis in sorted(axes, key=lambda one: strides[one]):
        if strides[axis] != step:
            return False
        step *= shape[axis]
    return True
