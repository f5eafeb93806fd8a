"""Ops of which torch does a part and a region another one: random numbers are torch's, what becomes of them is not.

And ops that read nothing of an argument but how it lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...importing.expressions import binary, cast, concat, expand, reshape, transpose
from ...importing.translation import Translation, Value
from ...model.logical_tensor import row_major
from ...runtime.arrays import numpy_type
from ..framework import torch
from ..run.steps import TorchCall
from ..tensors import DATA_TYPES, is_dense
from .cells import Cell, is_packed, order_of
from .refused import Refused
from .regions import Regions

RANDOM = "its random numbers are torch's"


def _drawn(regions: Regions, cell: Cell, ones: float) -> Cell:
    """Has torch fill a tensor with ones, as often as `ones` says, and zeros."""
    cell.level = regions.draft.last_impure
    cell.slot = regions.draft.new_slot()
    make = partial(_bernoulli, cell.shape, cell.strides, cell.dtype, ones)
    regions.draft.add(
        TorchCall("aten.bernoulli", make, (), {}, (cell.slot,), False, RANDOM, pure=False), cell.level
    )
    return cell


def _kept(regions: Regions, mask: Cell, dtype: Any) -> Cell:
    """A mask of truths as ones and zeros."""
    made = Cell(mask.node, mask.shape, mask.strides, dtype, level=mask.level, index=mask.index)
    made.slot = regions.draft.new_slot()
    call = TorchCall("to", _to, (regions.slots.slot(mask), dtype), {}, (made.slot,), False, RANDOM)
    regions.draft.add(call, mask.level)
    return made


def _times(
    regions: Regions, node: Any, results: Sequence[Cell | None], x: Cell, mask: Cell, scale: float
) -> bool:
    """Has a region do what a dropout does with its mask."""
    ones = _kept(regions, mask, x.dtype)

    def build(t: Translation, level: int) -> list[Value]:
        some = t.op("Multiply", regions.value(x, level), regions.value(ones, level))
        return [binary(t, "Multiply", some, scale)]

    return regions.in_region(node, results, [x, ones], build) is None


def _dropout(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    """`native_dropout`: a mask that torch draws, and a product."""
    given: Any
    p: Any
    train: Any
    given, p, train = [*node.args, None][:3]
    x, mask = regions.draft.of[given], results[1]
    if train is False or p in (0, 1) or mask is None or x.dtype not in DATA_TYPES or 0 in x.shape:
        return False
    if not is_dense(x.shape, x.strides):
        return False
    mask.strides = x.strides
    _drawn(regions, mask, 1 - p)
    if _times(regions, node, results, x, mask, 1 / (1 - p)):
        return True
    raise Refused({node.name: "the product with its mask has no translation"})


def _dropout_backward(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    gradient, mask = regions.draft.of[node.args[0]], regions.draft.of[node.args[1]]
    if mask.home is not None or gradient.dtype not in DATA_TYPES or 0 in mask.shape:
        return False
    return _times(regions, node, results, gradient, mask, node.args[2])


def _drawn_alone(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    """`bernoulli` with a number: of its input there is only the shape, so that it need not wait for it."""
    x, cell = regions.draft.of[node.args[0]], results[0]
    if len(node.args) != 2 or node.kwargs or cell is None or not is_dense(x.shape, x.strides):
        return False
    cell.strides = x.strides
    regions.draft.of[node] = _drawn(regions, cell, regions.draft.size(node.args[1]))
    return True


def _cat(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    """`cat` of some tensors without elements, as caches begin: of the others."""
    tensors: Any
    axis: Any
    tensors, axis = [*node.args, 0][:2]
    parts: list[Any] = [regions.draft.of[one] for one in tensors]
    some = [one for one in parts if 0 not in one.shape]
    cell = results[0]
    if cell is None or not 0 < len(some) < len(parts) or any(one.dtype != cell.dtype for one in parts):
        return False
    if cell.dtype not in DATA_TYPES:
        return False

    def build(t: Translation, level: int) -> Value:
        return concat(t, [regions.value(one, level) for one in some], axis)

    return regions.in_region(node, results, some, build) is None


def _as_strided(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    """`as_strided` where all elements of a dense tensor are seen in another order, or under another shape."""
    x, cell = regions.draft.of[node.args[0]], results[0]
    first = [*node.args[3:], 0][0]
    if (
        cell is None
        or not isinstance(x, Cell)
        or x.home is None
        or regions.draft.size(first) not in (0, None)
    ):
        return False
    if math.prod(x.shape) != math.prod(cell.shape) or not (is_packed(x) and is_packed(cell)):
        return False
    order, wanted = order_of(x), order_of(cell)
    back = [wanted.index(axis) for axis in range(len(wanted))]

    def build(t: Translation, level: int) -> Value:
        lying = transpose(t, regions.value(x, level), order)
        return transpose(t, reshape(t, lying, [cell.shape[axis] for axis in wanted]), back)

    return regions.in_region(node, results, [x], build) is None


def _copy(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    """`copy`: of what is written to there is only the shape and the type, so that nobody need make it."""
    source, cell = regions.draft.of[node.args[1]], results[0]
    if not isinstance(source, Cell) or source.home is None or cell is None or cell.dtype not in DATA_TYPES:
        return False
    dtype = numpy_type(DATA_TYPES[cell.dtype])

    def build(t: Translation, level: int) -> Value:
        return expand(t, cast(t, regions.value(source, level), dtype), cell.shape)

    return regions.in_region(node, results, [source], build) is None


def _as_strided_scatter(regions: Regions, node: Any, results: Sequence[Cell | None]) -> bool:
    """`as_strided_scatter` that writes to all elements: what was there before nobody reads."""
    x, source, cell = regions.draft.of[node.args[0]], regions.draft.of[node.args[1]], results[0]
    if not isinstance(x, Cell) or not isinstance(source, Cell) or source.home is None or cell is None:
        return False
    size, strides, first = (regions.draft.filled(one, _same) for one in [*node.args[2:], None][:3])
    seen = Cell(node, tuple(size), tuple(strides), x.dtype)
    if first not in (0, None) or x.strides != row_major(x.shape) or source.dtype != x.dtype:
        return False
    if source.shape != seen.shape or math.prod(seen.shape) != math.prod(x.shape) or not is_packed(seen):
        return False

    def build(t: Translation, level: int) -> Value:
        return reshape(t, transpose(t, regions.value(source, level), order_of(seen)), x.shape)

    return regions.in_region(node, results, [source], build) is None


def _same(value: Any) -> Any:
    return value


def _bernoulli(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, ones: float) -> Any:
    return torch.empty_strided(shape, strides, dtype=dtype).bernoulli_(ones)


def _to(tensor: Any, dtype: Any) -> Any:
    return tensor.to(dtype)


SPECIAL: dict[str, Callable[[Regions, Any, Sequence[Cell | None]], bool]] = {
    "aten.native_dropout.default": _dropout,
    "aten.native_dropout_backward.default": _dropout_backward,
    "aten.bernoulli.p": _drawn_alone,
    "aten.as_strided.default": _as_strided,
    "aten.cat.default": _cat,
    "aten.as_strided_scatter.default": _as_strided_scatter,
    "aten.copy.default": _copy,
}
"""Ops of which torch does a part and a region another one."""
