"""Where torch finds tensors: slots, filled by its own calls, by views, and by regions that hand out."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, cast

from ...model.logical_tensor import PropertyType
from ..framework import torch
from ..run.steps import Slot, TorchCall
from ..tensors import is_dense, normal, placed
from .cells import Cell, NodeResults
from .draft import ProgramDraft
from .handover import laid_as_traced
from .nodes import is_view
from .table import VIEWS

SAVED = "torch's kernel counts on another order of axes than it was saved in"


class Slots:
    """The slots of a program.

    Args:
        draft: the program.
    """

    def __init__(self, draft: ProgramDraft) -> None:
        self.draft = draft
        self._laid: dict[int, Slot] = {}  # by the slot of what lies otherwise

    def plain(self, argument: Any) -> Any:
        """An argument of a call of torch."""
        return self.draft.filled(argument, self._slot_or_value)

    def _slot_or_value(self, value: Any) -> Any:
        return self.slot(value) if isinstance(value, Cell) else value

    def arguments(self, node: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """All arguments of a node, for a call of torch, lying as traced: kernels of torch count on that."""

        def value_of(value: Any) -> Any:
            return self._as_traced(value) if isinstance(value, Cell) else value

        args = tuple(self.draft.filled(one, value_of) for one in node.args)
        return args, {name: self.draft.filled(one, value_of) for name, one in node.kwargs.items()}

    def _as_traced(self, cell: Cell) -> Slot:
        """Where a tensor is held that lies as traced: what a forward pass saves may lie channels last instead."""
        slot = self.slot(cell)
        if cell.node.op != "placeholder" or cell.traced is None:
            return slot
        if slot.number not in self._laid:
            made = self._laid[slot.number] = Slot(self.draft.new_slot())
            lay = partial(laid_as_traced, strides=cell.traced)
            call = TorchCall("lay", lay, (slot,), {}, (made.number,), False, SAVED, is_view=True)
            self.draft.add(call, cell.level)
        return self._laid[slot.number]

    def slot(self, cell: Cell) -> Slot:
        """Where a tensor is held for torch."""
        return Slot(self.number(cell))

    def number(self, cell: Cell) -> int:
        """The number of the slot of a tensor."""
        if cell.slot is not None:
            return cell.slot
        if cell.constant is not None:
            cell.slot = self.draft.new_slot()
            self.draft.fixed[cell.slot] = cell.constant
        elif cell.home is None or self.is_view_of_made(cell):
            self._by_torch(cell, is_view=True)
        else:
            self._from_region(cell)
        if cell.slot is None:
            raise LookupError(f"{cell.name} is nowhere")
        return cell.slot

    def is_view_of_made(self, cell: Cell) -> bool:
        """Whether something that the same region makes is seen in another way.

        By all of its elements, by users who may write to both, or by elements that share a place, as those of
        `expand` do: a region would make each of them, and not lying as traced.
        """
        if not is_view(cell.node.target):
            return False
        base = self.draft.of[cell.node.args[0]]
        if not isinstance(base, Cell) or base.home != cell.home:
            return False
        whole = cell.index is None and math.prod(base.shape) == math.prod(cell.shape)
        return whole or cell.node in self.draft.overlaid or not is_dense(cell.shape, cell.strides)

    def _by_torch(self, cell: Cell, *, is_view: bool, reason: str = "") -> None:
        """Has torch make what a region could have made: a view, or a copy."""
        node = cell.node
        function = VIEWS.get(str(node.target), node.target) if is_view else node.target
        args, kwargs = self.arguments(node)
        part = self.draft.of[node] if cell.index is not None else None
        slots: list[int | None] = []
        for one in (cell,) if part is None else cast("NodeResults", part).cells:
            slots.append(None if one is None or one.slot is not None else self.draft.new_slot())
            if one is not None and one.slot is None:
                one.slot = slots[-1]
        several = part is not None
        call = TorchCall(str(node.target), function, args, kwargs, tuple(slots), several, reason, is_view)
        self.draft.add(call, cell.level)

    def _from_region(self, cell: Cell) -> None:
        """Has the region hand out a tensor."""
        home = cast("int", cell.home)
        region = self.draft.region(home)
        region.t.label = cell.name
        tensor = region.t.tensor(cell.values[home])
        if tensor.id in region.imports or tensor.property_type is PropertyType.constant:
            self._by_torch(cell, is_view=False, reason="it only copies")
        elif tensor.id in region.outputs:
            slot, other = region.outputs[tensor.id]
            cell.slot = self.draft.new_slot()
            # The same numbers, though not in the same places: `copy` into what lies otherwise.
            alike = normal(cell.shape, cell.strides) == normal(other.shape, other.strides)
            copy = torch.clone if alike else partial(placed, strides=cell.strides, dtype=cell.dtype)
            same = TorchCall("clone", copy, (Slot(slot),), {}, (cell.slot,), False, "it only copies")
            self.draft.add(same, home + 1)
        else:
            cell.slot = self.draft.new_slot()
            region.outputs[tensor.id] = (cell.slot, cell)
