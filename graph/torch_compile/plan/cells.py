"""Cells: the tensors of an ATen graph while it is planned."""

from __future__ import annotations

from typing import Any

from attrs import field

from ....ops.records import define, frozen
from ...importing.translation import Value
from ..tensors import normal


@define(eq=False)
class Cell:
    """One tensor of the ATen graph, and where it can be had.

    Attributes:
        node: that makes it. index: which of the node's results it is.
        shape, strides, dtype: torch's, with all sizes known; strides of axes of one element as a dense tensor has them.
        traced: strides as torch has traced them, if its kernels may count on these.
        level: the first one on which torch can have it.
        home: the region that makes it, if one does.
        slot: that holds it as a tensor of torch, if one does.
        constant: the tensor, if it depends on nothing.
        base: what it is a view of, where torch has that before any region.
        steady: whether it rarely changes from call to call.
        spatial: whether it is the data of convolutions, or was made of such.
        values: what it is in each region.
    """

    node: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    level: int = 0
    index: int | None = None
    home: int | None = None
    slot: int | None = None
    constant: Any = None
    base: Cell | None = None
    steady: bool = False
    spatial: bool = False
    traced: tuple[int, ...] | None = None
    values: dict[int, Value] = field(factory=dict[int, Value])

    @property
    def lying(self) -> tuple[int, ...]:
        """The strides that torch is given, of axes of one element as well: kernels of its choose by those."""
        if self.traced is not None and normal(self.shape, self.traced) == self.strides:
            return self.traced
        return self.strides

    @property
    def name(self) -> str:
        """For the region's inputs and outputs."""
        return self.node.name if self.index is None else f"{self.node.name}.{self.index}"


@frozen
class NodeResults:
    """The results of a node with several.

    Attributes:
        cells: of all; None where a result is no tensor.
    """

    cells: tuple[Cell | None, ...]


def order_of(cell: Cell) -> list[int]:
    """Axes from the outermost to the innermost."""
    return sorted(range(len(cell.shape)), key=lambda axis: (-cell.strides[axis], axis))


def is_packed(cell: Cell) -> bool:
    """Whether its elements fill a piece of memory without gaps."""
    reach = 1
    for axis in reversed(order_of(cell)):
        if cell.shape[axis] != 1 and cell.strides[axis] != reach:
            return False
        reach *= cell.shape[axis]
    return 0 not in cell.shape
