"""Sums over all that lies outside of what stays, as products with ones; the library has reference loops for them."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from ....ops.data_types import DataType
from ..library.enumerators import Arg
from ..plan.choice import matmul
from ..plan.plan import Buffer
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
    if not _follow(stay, shape, strides, 1) or not _follow(gone, shape, strides, apart) or apart < columns:
        return None
    matrix = low.look(src, low.desc((rows, columns), (apart, 1), src.desc.data_type))
    ones = low.bring(
        "ones",
        low.constant(np.ones((1, rows), np.float32)),
        low.desc((1, rows), (rows, 1), src.desc.data_type),
    )
    made = low.temporary((1, columns), data_type)
    desc = matmul(low.engine, ones.desc, matrix.desc, made.desc)
    if desc is None:
        return None
    low.run("sum of rows", desc, [(Arg.SRC, ones), (Arg.WEIGHTS, matrix), (Arg.DST, made)])
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    lies = tuple(columns if axis in axes or shape[axis] == 1 else step for axis, step in enumerate(strides))
    return low.look(made, low.desc(kept, lies, made.desc.data_type))


def _follow(axes: Collection[int], shape: tuple[int, ...], strides: tuple[int, ...], step: int) -> bool:
    """Whether the axes are as one whose elements are `step` apart."""
    for axis in sorted(axes, key=lambda one: strides[one]):
        if strides[axis] != step:
            return False
        step *= shape[axis]
    return True
