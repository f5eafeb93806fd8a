"""Regions: ops of ours on one level, what they take from torch, and what they are compiled to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from ...aten.schema import bound, translation_of
from ...compile.backend import BACKENDS
from ...importing.recognition.recognise import recognise
from ...importing.results import drop_unread
from ...importing.translation import FAILURES, Translation, Unmapped, Value, reason_of
from ...model.logical_tensor import PropertyType, row_major
from ..framework import torch
from ..mishaps import Mishaps
from ..options import Options
from ..run.comparing import Differences
from ..run.region import Region
from ..run.steps import RegionCall, RegionOutput, Taken, TorchCall
from ..tensors import DATA_TYPES, as_numpy, is_dense
from .cells import Cell
from .draft import Building
from .handover import ByTorch
from .nodes import SPATIAL, has_several, is_view, read_results
from .refused import Refused
from .results import check_complete, check_result, in_torchs_type
from .slots import Slots
from .table import TABLE

LARGEST_ON_HOST = 1 << 14
"""Elements up to which an op that no primitive can do is NumPy's; beyond, torch's kernel does it."""


class Regions:
    """The regions of a program.

    Args:
        slots: where torch finds what they make.
        options: the user's.
        mishaps: where it is noted what torch has to do because of us.
        differences: where it is noted what is not as torch makes it.
    """

    def __init__(self, slots: Slots, options: Options, mishaps: Mishaps, differences: Differences) -> None:
        self.differences = differences
        self.slots = slots
        self.draft = slots.draft
        self.options = options
        self.mishaps = mishaps
        self._onednn = BACKENDS.get("onednn")

    def translated(self, node: Any, shapes: Sequence[Cell | None], cells: Sequence[Cell]) -> str | None:
        """Adds an op to a region, or says why not."""
        if node.name in self.draft.refused:
            return self.draft.refused[node.name]
        translate = translation_of(TABLE, node.target)
        if translate is None:
            return "it has no translation"
        read = read_results(node)
        everything = [*cells, *(c for i, c in enumerate(shapes) if c is not None and i in read)]
        if any(0 in cell.shape for cell in everything):
            return "it has no elements"
        strange = next((cell for cell in cells if cell.dtype not in DATA_TYPES), None)
        if strange is not None:
            return f"its input is {strange.dtype}"
        return self.in_region(node, shapes, cells, lambda t, level: translate(t, *self._bound(node, level)))

    def in_region(
        self,
        node: Any,
        shapes: Sequence[Cell | None],
        cells: Sequence[Cell],
        build: Callable[[Translation, int], Any],
    ) -> str | None:
        """Adds ops to the first region that can have all their inputs, or says why not.

        Args:
            node: that they are done for.
            shapes: its results.
            cells: the inputs.
            build: takes the graph under construction and the level, and returns what is made.
        """
        level = max((cell.home if cell.home is not None else cell.level for cell in cells), default=0)
        region = self.draft.region(level)
        before = len(region.t.graph.ops)
        region.t.label = node.name
        try:
            made = build(region.t, level)
            values: list[Any] = (
                list(cast("Sequence[Any]", made)) if isinstance(made, list | tuple) else [made]
            )
            values = [in_torchs_type(region.t, one, cell) for one, cell in zip(values, shapes, strict=False)]
            check_complete(node, values, shapes)
            self.check(region, node, values, shapes, before)
        except FAILURES as error:
            return reason_of(error)
        except Exception as error:
            self.mishaps.note(error, (node.name,), "translating an op")
            return reason_of(error)
        for op in region.t.graph.ops[before:]:
            region.makers[op.id] = node
        spatial = str(node.target).rpartition(".")[0] in SPATIAL or any(cell.spatial for cell in cells)
        for cell, value in zip(shapes, [*values, *[None] * len(shapes)], strict=False):
            if cell is not None and value is not None:
                cell.home, cell.level = level, level + 1
                cell.values[level] = value
                cell.spatial = spatial and len(cell.shape) in (4, 5)
        there = [c if c is not None and (c.home is not None or c.slot is not None) else None for c in shapes]
        self.draft.put(node, there, has_several(node))
        return None

    def _bound(self, node: Any, level: int) -> list[Any]:
        """Arguments in the order of the op's schema, as translations take them."""

        def value(one: Any) -> Any:
            return self.value(one, level) if isinstance(one, Cell) else one

        given = bound(node.target, node.args, node.kwargs)
        return [self.draft.filled(one, value) for one in given]

    def value(self, cell: Cell, level: int) -> Value:
        """What a tensor is in a region."""
        if level not in cell.values:
            cell.values[level] = self._value(cell, level)
        return cell.values[level]

    def _value(self, cell: Cell, level: int) -> Value:
        region = self.draft.region(level)
        if cell.constant is not None:
            return as_numpy(cell.constant.contiguous())
        if self._is_made_here(cell) and cell.node.name not in self.draft.refused:
            seen = self._seen(cell, level)
            if seen is not None:
                return seen
        if cell.dtype not in DATA_TYPES:
            raise Unmapped(f"its input is {cell.dtype}")
        source = cell if is_dense(cell.shape, cell.strides) else self._dense(cell)
        kind = PropertyType.constant if source.steady else PropertyType.undef
        strides = None if source.strides == row_major(source.shape) else source.strides
        name = region.t.free_name(source.name)
        tensor = region.t.input(
            name, DATA_TYPES[source.dtype], source.shape, strides=strides, property_type=kind
        )
        region.imports[tensor.id] = source
        return tensor

    def _is_made_here(self, cell: Cell) -> bool:
        """Whether a region makes it for itself: a view, what is repeated, and weights in another type.

        Another region would make each of the elements that share a place, as those of `expand` do, and weights at each
        call, which are made once where they are multiplied by.
        """
        if cell.base is not None:
            return True
        repeated = is_view(cell.node.target) and not is_dense(cell.shape, cell.strides)
        return repeated or (cell.home is not None and self._is_steady(cell))

    def _is_steady(self, cell: Cell) -> bool:
        """Whether it is one of the arguments that stay as they are, seen in another way or in another type."""
        if cell.home is None:
            return cell.steady
        copied = str(cell.node.target) == "aten._to_copy.default" or is_view(cell.node.target)
        return copied and all(self._is_steady(one) for one in self.draft.cells(cell.node))

    def _seen(self, cell: Cell, level: int) -> Value | None:
        """A view, as ops of the region on what it is a view of; None where there are none for it."""
        translate = translation_of(TABLE, cell.node.target)
        if translate is None or 0 in cell.shape:
            return None
        region = self.draft.region(level)
        label, region.t.label = region.t.label, cell.node.name
        before = len(region.t.graph.ops)
        try:
            made = translate(region.t, *self._bound(cell.node, level))
            seen = cast("Value", made if cell.index is None else made[cell.index])
            check_result(seen, cell)
            self._check_makers(region, before)
        except FAILURES:
            return None
        finally:
            region.t.label = label
        for op in region.t.graph.ops[before:]:
            region.makers[op.id] = cell.node
        return seen

    def _dense(self, cell: Cell) -> Cell:
        """A copy by torch of what has no place of its own for each element."""
        made = Cell(cell.node, cell.shape, row_major(cell.shape), cell.dtype, level=cell.level, steady=False)
        made.slot = self.draft.new_slot()
        self.draft.add(
            TorchCall(
                "contiguous", _contiguous, (self.slots.slot(cell),), {}, (made.slot,), False, "it overlaps"
            ),
            cell.level,
        )
        return made

    def check(
        self,
        region: Building,
        node: Any,
        values: Sequence[Value],
        shapes: Sequence[Cell | None],
        before: int,
    ) -> None:
        """Results must be what torch says, and made by primitives where they are large.

        Raises:
            Unmapped: they are not.
        """
        read = read_results(node)
        for number, (value, cell) in enumerate(zip(values, shapes, strict=False)):
            if value is None or cell is None or number not in read:  # pyright: ignore[reportUnnecessaryComparison] -- left out
                continue
            check_result(value, cell)
        self._check_makers(region, before)

    def _check_makers(self, region: Building, before: int) -> None:
        """What is large must be made by primitives.

        Raises:
            Unmapped: it is not.
        """
        for op in region.t.graph.ops[before:]:
            largest = max(math.prod(t.shape or ()) for t in (*op.inputs, *op.outputs))
            if largest > LARGEST_ON_HOST:
                reason = self._onednn.why_not((op,))
                if reason is not None:
                    raise Unmapped(reason)

    def compiled(self, level: int, lasting: set[int]) -> RegionCall | None:
        """A region with all that it hands out known.

        Args:
            level: of the region.
            lasting: slots that users see.
        """
        region = self.draft.regions[level]
        if not region.outputs:
            return None
        graph = region.t.graph
        by_id = dict(region.outputs)
        for tensor_id, (_, cell) in by_id.items():
            graph.output(graph.tensor(tensor_id), name=cell.name)
        graph.prune()
        nodes = frozenset(region.makers[op.id].name for op in graph.ops if op.id in region.makers)
        strides = {
            number: cell.strides
            for number, (_, cell) in by_id.items()
            if cell.strides != row_major(cell.shape) and is_dense(cell.shape, cell.strides)
        }
        try:
            recognise(region.t)
            drop_unread(graph)
            compiled = Region(graph, strides, self.options.of_compilation(torch.get_num_threads()))
        except Exception as error:
            if not nodes <= self.draft.refused.keys():  # else it would come again
                self.mishaps.note(error, nodes, "compiling a region")
                raise Refused({name: str(error) for name in nodes}) from error
            raise
        inputs: list[Taken] = []
        for tensor in compiled.inputs:
            cell = region.imports[tensor.id]
            number = self.slots.number(cell)
            # Torch guards the one, and we have made the other.
            checked = cell.steady or self._is_handed_out(cell)
            inputs.append(Taken(number, cell.shape, cell.strides, cell.dtype, checked))
        outputs: list[RegionOutput] = []
        for tensor in compiled.outputs:
            slot, cell = by_id[tensor.id]
            lies = cell.lying if tensor.element_strides == cell.strides else tensor.element_strides
            nbytes = 0 if slot in lasting else tensor.nbytes
            outputs.append(RegionOutput(slot, cell.shape, lies, cell.dtype, nbytes))
        constant = tuple(i for i, t in enumerate(compiled.inputs) if t.property_type is PropertyType.constant)
        by_torch = ByTorch(
            self.draft.of,
            level,
            [region.imports[tensor.id] for tensor in compiled.inputs],
            [by_id[tensor.id][1] for tensor in compiled.outputs],
            self.draft.size,
        )
        names = tuple(by_id[tensor.id][1].name for tensor in compiled.outputs)
        return RegionCall(
            *(compiled, tuple(inputs), tuple(outputs), constant, by_torch, self.mishaps, nodes, names),
            self.differences,
        )

    def _is_handed_out(self, cell: Cell) -> bool:
        """Whether a region has made it, and not torch as a view of what a region has made."""
        made = () if cell.home is None else self.draft.regions[cell.home].outputs.values()
        return any(slot == cell.slot for slot, _ in made)


def _contiguous(tensor: Any) -> Any:
    return tensor.contiguous()
