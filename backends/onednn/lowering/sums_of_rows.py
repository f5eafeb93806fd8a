"""Sums over all that lies outside of what stays, as products with ones; the library has reference loops for them."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from ....ops.data_types import DataType
from ..library.enumerators import Arg
from ..plan.steps import Buffer
from .long_sums import stages
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
