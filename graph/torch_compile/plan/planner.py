"""Planning: from an ATen graph and sizes to a program.

Values have levels. On each level torch's calls come first, in the graph's order, and then one region. What a region
makes torch can have on the next level; what torch makes, the region of its own level. So an op goes into the first
region that has all its inputs, and regions are as few as torch's calls between them allow.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, cast

from ....ops.records import frozen
from ..framework import aten, torch
from ..mishaps import Mishaps
from ..options import Options
from ..run.comparing import Differences
from ..run.steps import Program, RegionCall, Slot, Step, TorchCall, slots_of, without_unread
from ..tensors import channels_last, normal
from .at_once import IN_PLACE, written_at_once
from .cells import Cell, NodeResults
from .draft import ProgramDraft
from .handover import whole_graph
from .nodes import (
    has_several,
    is_lasting,
    is_pure,
    is_symbol,
    is_view,
    may_lie_otherwise,
    mutates,
    overlaid,
    strangeness,
)
from .refused import Refused
from .regions import Regions
from .results import lay_as_kernel, widen_statistics
from .slots import Slots
from .special import SPECIAL

LARGEST_FOLDED = 1 << 20
"""Elements up to which what depends on nothing is computed once."""
EFFECTS = "it has effects"
ATTEMPTS = 50
"""Plans that are made anew without what could not be compiled."""


@frozen
class Uses:
    """What is known of a graph's arguments and outputs, by their numbers.

    Attributes:
        steady: arguments that rarely change: weights, in inference.
        saved: outputs that only the backward pass will see, and that may lie as they like.
        passing: outputs whose memory is wanted again at the next step.
        backward: whether arguments are what a forward pass has saved, which may lie in another way than traced.
    """

    steady: frozenset[int]
    saved: frozenset[int]
    passing: frozenset[int]
    backward: bool = False


def planned(
    graph: Any,
    module: Any,
    arguments: Sequence[Any],
    uses: Uses,
    options: Options,
    mishaps: Mishaps,
    differences: Differences,
) -> Program:
    """The program of an ATen graph.

    Args:
        graph: of `torch.fx`.
        module: that holds its constants.
        arguments: of a call: sizes come from them.
        uses: what is known of arguments and outputs.
        options: the user's.
        mishaps: where it is noted what torch has to do because of us.
        differences: where it is noted what is not as torch makes it, if that was asked for.
    """
    refused: dict[str, str] = {}
    while True:
        try:
            planner = Planner(graph, module, arguments, uses, options, refused, mishaps, differences)
            return planner.program()
        except Refused as problem:
            if len(refused) > ATTEMPTS:
                problem.nodes.update({node.name: "too many others failed" for node in graph.nodes})
            refused |= problem.nodes
        except Exception as error:
            mishaps.note(error, (), "planning")
            return whole_graph(graph, module, uses.backward)


class Planner:
    """One attempt at a program, node by node; see `planned`.

    Args:
        refused: nodes that torch has to do, as they could not be compiled → why.
    """

    def __init__(
        self,
        graph: Any,
        module: Any,
        arguments: Sequence[Any],
        uses: Uses,
        options: Options,
        refused: Mapping[str, str],
        mishaps: Mishaps,
        differences: Differences,
    ) -> None:
        self.graph = graph
        self.module = module
        self.arguments = arguments
        self.uses = uses
        self.draft = ProgramDraft(refused, len(arguments))
        self.slots = Slots(self.draft)
        self.regions = Regions(self.slots, options, mishaps, differences)
        self.lasting: set[int] = set()  # slots that users see
        self.writes: list[Any] = []
        self.replaced: set[Any] = set()  # nodes that make what they make in an argument

    def program(self) -> Program:
        """Everything in order."""
        results: list[Any] = []
        placeholders = (node for node in self.graph.nodes if node.op == "placeholder")
        for number, node in enumerate(placeholders):
            self.placeholder(number, node)
        for node in self.graph.nodes:
            if node.op == "get_attr":
                self.attribute(node)
            elif node.op == "call_function":
                self.function(node)
            elif node.op == "output":
                results = self.outputs(node)
        steps = without_unread(self.steps(), slots_of(results))
        return Program(steps, self.draft.count, results, self.draft.fixed)

    # --- where values come from ---

    def placeholder(self, number: int, node: Any) -> None:
        """An argument."""
        given = self.arguments[number]
        meta = node.meta.get("val")
        if isinstance(given, torch.SymInt):  # names how a nested tensor is cut, and is no number
            self.draft.of[node] = Cell(node, (), (), None, slot=number)
            return
        if not isinstance(given, torch.Tensor):
            self.draft.of[node] = given
            if is_symbol(meta) and self.is_settled(meta):
                self.draft.sizes.bind(node.name, [meta], [given])
            return
        if isinstance(meta, torch.Tensor) and len(meta.shape) == len(given.shape):
            # A size that is a number may be wrong: some shape rules of torch are.
            open_sizes = [
                pair
                for pair in zip(meta.shape, given.shape, strict=True)
                if isinstance(pair[0], torch.SymInt) and self.is_settled(pair[0])
            ]
            self.draft.sizes.bind(node.name, [dim for dim, _ in open_sizes], [size for _, size in open_sizes])
        if given.layout is not torch.strided:
            self.draft.of[node] = Cell(node, tuple(given.shape), (), given.dtype, slot=number)
            return
        strides = normal(given.shape, given.stride())
        steady = number in self.uses.steady and not given.is_neg()
        cell = Cell(node, tuple(given.shape), strides, given.dtype, slot=number, steady=steady)
        if self.uses.backward and may_lie_otherwise(node):
            cell.traced = self.draft.strides(meta)
        self.draft.of[node] = cell

    def is_settled(self, size: Any) -> bool:
        """Whether a size is a symbol, to which it gives a number, or made of such that have one.

        What is made of a symbol may come before it, or without it: of a nested tensor's parts their number and one.
        """
        return size.node.expr.is_Symbol or self.draft.sizes.of(size) >= 0

    def attribute(self, node: Any) -> None:
        """A constant of the module, or a graph within it."""
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        self.draft.of[node] = self.constant(node, value) if isinstance(value, torch.Tensor) else value

    def constant(self, node: Any, tensor: Any, index: int | None = None) -> Cell:
        """What is known now."""
        return Cell(
            node,
            tuple(tensor.shape),
            tuple(tensor.stride()),
            tensor.dtype,
            index=index,
            constant=tensor,
        )

    # --- node by node ---

    def function(self, node: Any) -> None:
        """One op: a number, a view, an op of a region, or a call of torch."""
        meta = node.meta.get("val")
        if node.target is operator.getitem:
            parent = self.draft.of[node.args[0]]
            if isinstance(parent, NodeResults):
                self.draft.of[node] = parent.cells[node.args[1]]
                return
        cells = self.draft.cells(node)
        if not isinstance(meta, torch.Tensor | list | tuple):
            number = self.number(node, meta, cells)
            if number is not None:
                self.draft.of[node] = number
                return
        if (held := written_at_once(node)) is not None and self.at_once(node, self.draft.of[held]):
            return
        if node.target is aten._assert_scalar.default and self.slots.plain(node.args[0]) is True:
            return  # sizes are known by now, and stay so for the program
        shapes = self.described(node, meta)
        strange = strangeness(node)
        if strange is not None:
            self.call(node, shapes, cells, strange, pure=is_pure(node))
            return
        widen_statistics(node, shapes, cells)
        lay_as_kernel(node, shapes)
        if shapes is not None and node.name not in self.draft.refused:
            special = SPECIAL.get(str(node.target))
            if special is not None and special(self.regions, node, shapes):
                return
        pure = is_pure(node)
        if shapes is not None and pure:
            if all(cell.constant is not None for cell in cells) and self.folded(node, shapes):
                return
            if self.view(node, shapes, cells):
                return
            reason = self.regions.translated(node, shapes, cells)
            if reason is None:
                return
        else:
            usual = "its sizes are known at execution only" if pure else EFFECTS
            reason = self.draft.refused.get(node.name, usual)
        self.call(node, shapes, cells, reason, pure=pure)

    def number(self, node: Any, meta: Any, cells: Sequence[Cell]) -> Any:
        """What a node that makes a number makes, where that is known."""
        if isinstance(meta, int | float | bool):
            return meta
        if isinstance(meta, torch.SymInt):
            size = self.draft.sizes.of(meta)
            if size >= 0:
                return size
        if not cells and isinstance(meta, torch.SymInt | torch.SymFloat | torch.SymBool):
            values = [self.slots.plain(one) for one in node.args]
            if not any(isinstance(one, Slot) for one in values):
                return node.target(*values)
        return None

    def described(self, node: Any, meta: Any) -> list[Cell | None] | None:
        """A cell for each result; None if sizes are not known or types are none that anybody but torch knows."""
        if "val" not in node.meta and node.users:
            return None  # a call of a higher order, of which torch only says what is taken from its result
        several = isinstance(meta, list | tuple)
        metas: list[Any] = list(cast("Sequence[Any]", meta)) if several else [meta]
        made: list[Cell | None] = []
        for index, one in enumerate(metas):
            if not isinstance(one, torch.Tensor):
                made.append(None)
                if one is not None:
                    return None
                continue
            if one.layout is not torch.strided:
                return None
            shape = tuple(self.draft.sizes.of(size) for size in one.shape)
            strides = self.draft.strides(one)
            if -1 in shape or strides is None:
                return None
            made.append(
                Cell(
                    *(node, shape, normal(shape, strides), one.dtype),
                    index=index if several else None,
                    traced=strides,
                )
            )
        return made

    def folded(self, node: Any, shapes: Sequence[Cell | None]) -> bool:
        """Computes what depends on nothing, unless it is large."""
        if any(cell is not None and math.prod(cell.shape) > LARGEST_FOLDED for cell in shapes):
            return False
        args, named = (self.draft.filled(one, _known) for one in (node.args, list(node.kwargs.values())))
        result = node.target(*args, **dict(zip(node.kwargs, named, strict=True)))
        if isinstance(result, torch.Tensor):
            self.draft.of[node] = self.constant(node, result)
        else:
            several = cast("Sequence[Any]", result)
            self.draft.of[node] = NodeResults(
                tuple(self.constant(node, one, i) for i, one in enumerate(several))
            )
        return True

    def view(self, node: Any, shapes: Sequence[Cell | None], cells: Sequence[Cell]) -> bool:
        """Another look at memory that torch has: made where somebody asks for it."""
        if len(cells) != 1 or not is_view(node.target):
            return False
        base = cells[0]
        if base.home is not None:
            return False
        for cell in shapes:
            if cell is not None:
                cell.base, cell.level, cell.steady, cell.spatial = base, base.level, base.steady, base.spatial
        self.draft.put(node, shapes, has_several(node))
        return True

    # --- torch's part ---

    def at_once(self, node: Any, held: Any) -> bool:
        """Has torch replace elements of an argument where it lies, and not in a copy."""
        (cell,) = self.described(node, node.meta.get("val")) or [None]
        if cell is None or not isinstance(held, Cell) or held.slot is None:
            return False
        if (cell.shape, cell.strides, cell.dtype) != (held.shape, held.strides, held.dtype):
            return False
        cell.level, cell.slot = max(one.level for one in self.draft.cells(node)), held.slot
        args, kwargs = self.slots.arguments(node)
        self.draft.add(
            TorchCall(
                *(str(node.target), IN_PLACE[node.target], args, kwargs, (None,), False, EFFECTS),
                pure=False,
                lasting=True,
            ),
            cell.level,
        )
        self.replaced.add(node)
        self.draft.put(node, [cell], several=False)
        return True

    def call(
        self,
        node: Any,
        shapes: Sequence[Cell | None] | None,
        cells: Sequence[Cell],
        reason: str,
        *,
        pure: bool = True,
    ) -> None:
        """Has torch do an op."""
        if node.target is aten.copy_.default and not node.users and node.args[0].op == "placeholder":
            if node.args[1] not in self.replaced:
                self.writes.append(node)
            return
        level = max((cell.level for cell in cells), default=0)
        if not pure:
            level = self.draft.last_impure = max(level, self.draft.last_impure)
            if mutates(node.target):
                level = self.draft.last_impure = max(level, *self.draft.regions, 0) + 1
        several = has_several(node)
        meta = node.meta.get("val")
        if shapes is None:
            metas: list[Any] = list(meta) if several else [meta]
            made: list[Cell | None] = [
                Cell(node, (), (), getattr(one, "dtype", None), index=i if several else None)
                for i, one in enumerate(metas)
            ]
        else:
            made = list(shapes)
        for cell in made:
            if cell is not None:
                cell.level, cell.slot = level, self.draft.new_slot()
                cell.spatial = any(one.spatial for one in cells) and len(cell.shape) in (4, 5)
        slots = tuple(None if cell is None else cell.slot for cell in made) or (None,)
        args, kwargs = self.slots.arguments(node)
        self.draft.add(
            TorchCall(
                *(str(node.target), node.target, args, kwargs, slots, several, reason),
                pure=pure,
                lasting=is_lasting(node),
            ),
            level,
        )
        self.draft.put(node, made, several)

    # --- the end ---

    def outputs(self, node: Any) -> list[Any]:
        """What the graph returns."""
        listed = node.args[0]
        wanted: list[Any] = (
            list(cast("Sequence[Any]", listed)) if isinstance(listed, list | tuple) else [listed]
        )
        self.draft.overlaid = overlaid(
            one for number, one in enumerate(wanted) if number not in self.uses.saved
        )
        found: list[Any] = []
        fixed: list[int] = []  # places of those whose memory is the program's
        for number, one in enumerate(wanted):
            value = self.draft.of[one] if isinstance(one, torch.fx.Node) else self.draft.size(one)
            if isinstance(value, Cell):
                if self.is_fixed(one):
                    fixed.append(len(found))
                    found.append(self.slots.slot(value))
                    continue
                # Statistics stay as they are: torch's kernels read those without a look at strides.
                data = value.spatial and value.index in (None, 0)
                if number in self.uses.saved and data and self.is_read_at_home_only(value):
                    value.strides = channels_last(value.shape)
                found.append(self.slots.slot(value))
                if number not in self.uses.passing:
                    self.lasting.add(found[-1].number)
            else:
                found.append(value)
        if fixed:  # whoever gets them may write to them
            given = tuple(found[place] for place in fixed)
            made = tuple(self.draft.new_slot() for _ in fixed)
            level = max([*self.draft.calls, 0])
            self.draft.add(TorchCall("clone", _cloned, given, {}, made, several=True), level)
            for place, slot in zip(fixed, made, strict=True):
                found[place] = Slot(slot)
        return found

    def is_fixed(self, node: Any) -> bool:
        """Whether what a node makes is a constant of the program, or looks at the memory of one."""
        value = self.draft.of[node]
        if isinstance(value, Cell) and value.constant is not None:
            return True
        if node.op != "call_function" or not node.args or not isinstance(node.args[0], torch.fx.Node):
            return False
        schema = getattr(node.target, "_schema", None)
        looks = schema is not None and any(one.alias_info is not None for one in schema.returns)
        return (looks or node.target is operator.getitem) and self.is_fixed(node.args[0])

    def is_read_at_home_only(self, cell: Cell) -> bool:
        """Whether nobody but the region that makes it has been promised how it lies."""
        return cell.home is not None and cell.slot is None and cell.values.keys() == {cell.home}

    def steps(self) -> list[Step]:
        """Regions from the last to the first, for they say what those before them hand out; then all in order."""
        writes = [self.write(self.writes)] if self.writes else []
        made: dict[int, RegionCall] = {}
        for level in sorted(self.draft.regions, reverse=True):
            call = self.regions.compiled(level, self.lasting)
            if call is not None:
                made[level] = call
        steps: list[Step] = []
        for level in range(max([*self.draft.calls, *made, 0]) + 1):
            steps += self.draft.calls.get(level, [])
            if level in made:
                steps.append(made[level])
        return [*steps, *writes]

    def write(self, nodes: Sequence[Any]) -> TorchCall:
        """What writes to arguments, one after the other, which is done when everybody has read them."""
        into, given = ([self.slots.plain(node.args[place]) for node in nodes] for place in (0, 1))
        why = f"it writes to {len(nodes)} arguments"
        name, function = "aten.copy_.default", torch._foreach_copy_
        return TorchCall(name, function, (into, given), {}, (None,), False, why, pure=False, lasting=True)


def _known(value: Any) -> Any:
    """A constant, or a number."""
    return value.constant if isinstance(value, Cell) else value


def _cloned(*tensors: Any) -> list[Any]:
    """Tensors that look at new memory as these do at theirs: several at the same where these do."""
    memory: dict[int, Any] = {}
    made: list[Any] = []
    for one in tensors:
        if one.layout is not torch.strided or one.device.type != "cpu" or one.is_neg() or one.is_conj():
            made.append(one.clone())
            continue
        storage = one.untyped_storage()
        if storage._cdata not in memory:
            memory[storage._cdata] = storage.clone()
        how = (one.storage_offset(), one.shape, one.stride())
        made.append(torch.empty(0, dtype=one.dtype).set_(memory[storage._cdata], *how))
    return made
