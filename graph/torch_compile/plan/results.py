"""Results of an ATen node: what torch says of them, and whether a translation made just that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...importing.expressions import FLOATS
from ...importing.expressions import cast as cast_value
from ...importing.translation import Translation, Unmapped, Value, dtype_of, shape_of
from ...model.logical_tensor import row_major
from ...runtime.arrays import numpy_type
from ..framework import torch
from ..tensors import DATA_TYPES, channels_last, normal
from .cells import Cell
from .nodes import WITH_STATISTICS, read_results


def in_torchs_type(t: Translation, value: Any, cell: Cell | None) -> Any:
    """Floating-point numbers in the type that torch has for them: statistics of half weights may be half or not."""
    dtype = None if cell is None else DATA_TYPES.get(cell.dtype)
    if value is None or dtype is None or dtype_of(value) == numpy_type(dtype):
        return value
    both = dtype_of(value) in FLOATS and numpy_type(dtype) in FLOATS
    return cast_value(t, value, numpy_type(dtype)) if both else value


def lay_as_kernel(node: Any, shapes: Sequence[Cell | None] | None) -> None:
    """Has the gradient of a batch norm's data lie as torch's kernel has it: row-major or channels last, as nothing
    else; its shape rule has the strides of the data.
    """
    if str(node.target) != "aten.native_batch_norm_backward.default" or not shapes or shapes[0] is None:
        return
    cell = shapes[0]
    usual = [normal(cell.shape, row_major(cell.shape))]
    if len(cell.shape) in (4, 5):
        usual.append(normal(cell.shape, channels_last(cell.shape)))
    if cell.strides not in usual:
        cell.strides, cell.traced = usual[0], None


def check_complete(node: Any, values: Sequence[Value | None], shapes: Sequence[Cell | None]) -> None:
    """Every result that somebody reads must be there, but for those that torch has made already.

    Raises:
        Unmapped: one is not.
    """
    for number in read_results(node):
        cell = shapes[number]
        by_torch = cell is not None and cell.slot is not None
        if not by_torch and (number >= len(values) or values[number] is None):
            raise Unmapped(f"result {number} has no counterpart")


def check_result(value: Value, cell: Cell) -> None:
    """A result must be what torch says.

    Raises:
        Unmapped: it is not.
    """
    have, dtype = shape_of(value), DATA_TYPES.get(cell.dtype)
    if have != cell.shape or dtype is None or dtype_of(value) != numpy_type(dtype):
        raise Unmapped(
            f"it would come out as {dtype_of(value)} {list(have)} instead of {cell.dtype} {list(cell.shape)}"
        )


def widen_statistics(node: Any, shapes: Sequence[Cell | None] | None, cells: Sequence[Cell]) -> None:
    """Has statistics in f32 where weights are, as torch's kernels do; its shape rules have the data's type."""
    if str(node.target).rpartition(".")[0] not in WITH_STATISTICS or shapes is None:
        return
    if any(cell.dtype == torch.float32 for cell in cells):
        for cell in shapes[1:3]:
            if cell is not None:
                cell.dtype = torch.float32
