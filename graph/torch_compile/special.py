"""Ops of which torch does a part and a region another one: random numbers are torch's, what becomes of them is not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from ..importing.expressions import binary, reshape, transpose
from ..importing.translation import Translation, Value
from .cells import Cell, is_packed, order_of
from .framework import torch
from .refused import Refused
from .steps import Slot, TorchCall
from .tensors import DATA_TYPES, is_dense

RANDOM = "its random numbers are torch's"


class Planner(Protocol):
    """What planning has for the ops here.

    Attributes:
        of: node → what it is.
        last_impure: the level of the latest call that may not change its place among others like it.
    """

    of: dict[Any, Any]
    last_impure: int

    def add(self, call: TorchCall, level: int) -> None:
        """Has torch do something."""
        ...

    def new_slot(self) -> int:
        """A slot that nobody has."""
        ...

    def slot(self, cell: Cell) -> Slot:
        """Where torch finds a tensor."""
        ...

    def value(self, cell: Cell, level: int) -> Value:
        """What a tensor is in a region."""
        ...

    def size(self, value: Any) -> Any:
        """A number for a size that is a symbol."""
        ...

    def in_region(
        self,
        node: Any,
        shapes: Sequence[Cell | None],
        cells: Sequence[Cell],
        build: Callable[[Translation, int], Any],
    ) -> str | None:
        """Adds ops to the first region that can have all their inputs, or says why not."""
        ...


def _drawn(planner: Planner, cell: Cell, ones: float) -> Cell:
    """Has torch fill a tensor with ones, as often as `ones` says, and zeros."""
    cell.level = planner.last_impure
    cell.slot = planner.new_slot()
    make = partial(_bernoulli, cell.shape, cell.strides, cell.dtype, ones)
    planner.add(
        TorchCall("aten.bernoulli", make, (), {}, (cell.slot,), False, RANDOM, pure=False), cell.level
    )
    return cell


def _kept(planner: Planner, mask: Cell, dtype: Any) -> Cell:
    """A mask of truths as ones and zeros."""
    made = Cell(mask.node, mask.shape, mask.strides, dtype, level=mask.level, index=mask.index)
    made.slot = planner.new_slot()
    call = TorchCall("to", _to, (planner.slot(mask), dtype), {}, (made.slot,), False, RANDOM)
    planner.add(call, mask.level)
    return made


def _times(
    planner: Planner, node: Any, results: Sequence[Cell | None], x: Cell, mask: Cell, scale: float
) -> bool:
    """Has a region do what a dropout does with its mask."""
    ones = _kept(planner, mask, x.dtype)

    def build(t: Translation, level: int) -> list[Value]:
        some = t.op("Multiply", planner.value(x, level), planner.value(ones, level))
        return [binary(t, "Multiply", some, scale)]

    return planner.in_region(node, results, [x, ones], build) is None


def _dropout(planner: Planner, node: Any, results: Sequence[Cell | None]) -> bool:
    """`native_dropout`: a mask that torch draws, and a product."""
    given: Any
    p: Any
    train: Any
    given, p, train = [*node.args, None][:3]
    x, mask = planner.of[given], results[1]
    if train is False or p in (0, 1) or mask is None or x.dtype not in DATA_TYPES or 0 in x.shape:
        return False
    if not is_dense(x.shape, x.strides):
        return False
    mask.strides = x.strides
    _drawn(planner, mask, 1 - p)
    if _times(planner, node, results, x, mask, 1 / (1 - p)):
        return True
    raise Refused({node.name: "the product with its mask has no translation"})


def _dropout_backward(planner: Planner, node: Any, results: Sequence[Cell | None]) -> bool:
    gradient, mask = planner.of[node.args[0]], planner.of[node.args[1]]
    if mask.home is not None or gradient.dtype not in DATA_TYPES or 0 in mask.shape:
        return False
    return _times(planner, node, results, gradient, mask, node.args[2])


def _drawn_alone(planner: Planner, node: Any, results: Sequence[Cell | None]) -> bool:
    """`bernoulli` with a number: of its input there is only the shape, so that it need not wait for it."""
    x, cell = planner.of[node.args[0]], results[0]
    if len(node.args) != 2 or node.kwargs or cell is None or not is_dense(x.shape, x.strides):
        return False
    cell.strides = x.strides
    planner.of[node] = _drawn(planner, cell, planner.size(node.args[1]))
    return True


def _as_strided(planner: Planner, node: Any, results: Sequence[Cell | None]) -> bool:
    """`as_strided` where all elements of a dense tensor are seen in another order, or under another shape."""
    x, cell = planner.of[node.args[0]], results[0]
    first = [*node.args[3:], 0][0]
    if cell is None or not isinstance(x, Cell) or x.home is None or planner.size(first) not in (0, None):
        return False
    if math.prod(x.shape) != math.prod(cell.shape) or not (is_packed(x) and is_packed(cell)):
        return False
    order, wanted = order_of(x), order_of(cell)
    back = [wanted.index(axis) for axis in range(len(wanted))]

    def build(t: Translation, level: int) -> Value:
        lying = transpose(t, planner.value(x, level), order)
        return transpose(t, reshape(t, lying, [cell.shape[axis] for axis in wanted]), back)

    return planner.in_region(node, results, [x], build) is None


def _bernoulli(shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, ones: float) -> Any:
    return torch.empty_strided(shape, strides, dtype=dtype).bernoulli_(ones)


def _to(tensor: Any, dtype: Any) -> Any:
    return tensor.to(dtype)


SPECIAL: dict[str, Callable[[Planner, Any, Sequence[Cell | None]], bool]] = {
    "aten.native_dropout.default": _dropout,
    "aten.native_dropout_backward.default": _dropout_backward,
    "aten.bernoulli.p": _drawn_alone,
    "aten.as_strided.default": _as_strided,
}
"""Ops of which torch does a part and a region another one."""
