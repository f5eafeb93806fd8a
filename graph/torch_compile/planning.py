"""Planning: from an ATen graph and sizes to a program.

Values have levels. On each level torch's calls come first, in the graph's order, and then one region. What a region
makes torch can have on the next level; what torch makes, the region of its own level. So an op goes into the first
region that has all its inputs, and regions are as few as torch's calls between them allow.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from attrs import frozen

from ..aten.schema import bound, translation_of
from ..aten.symbols import Sizes
from ..compile.backend import BACKENDS
from ..importing.recognition.recognise import recognise
from ..importing.results import drop_unread
from ..importing.translation import FAILURES, Translation, Unmapped, Value, reason_of
from ..model.logical_tensor import PropertyType, row_major
from .aten_table import TABLE, VIEWS
from .cells import Cell, Part
from .framework import aten, torch
from .handover import ByTorch, whole_graph
from .mishaps import Mishaps
from .nodes import (
    SPATIAL,
    has_several,
    is_pure,
    is_symbol,
    is_view,
    mutates,
    read_results,
    strangeness,
)
from .options import Options
from .refused import Refused
from .region import Region
from .results import check_complete, check_result, lay_as_kernel, typed, widen_statistics
from .special import SPECIAL
from .steps import Made, Program, RegionCall, Slot, Step, Taken, TorchCall, slots_of
from .tensors import DATA_TYPES, as_numpy, channels_last, is_dense, normal

LARGEST_ON_HOST = 1 << 14
"""Elements up to which an op that no primitive can do is NumPy's; beyond, torch's kernel does it."""
LARGEST_FOLDED = 1 << 20
"""Elements up to which what depends on nothing is computed once."""
EFFECTS = "it has effects"
ATTEMPTS = 50
"""Plans that are made anew without what could not be compiled."""


class _Building:
    """A region while it is planned."""

    def __init__(self) -> None:
        self.t = Translation()
        self.imports: dict[int, Cell] = {}
        self.makers: dict[int, Any] = {}  # op id → node
        self.outputs: dict[int, tuple[int, Cell]] = {}  # tensor id → slot, cell


@frozen
class Uses:
    """What is known of a graph's arguments and outputs, by their numbers.

    Attributes:
        steady: arguments that rarely change: weights, in inference.
        saved: outputs that only the backward pass will see, and that may lie as they like.
        passing: outputs whose memory is wanted again at the next step.
    """

    steady: frozenset[int]
    saved: frozenset[int]
    passing: frozenset[int]


def planned(
    graph: Any,
    module: Any,
    arguments: Sequence[Any],
    uses: Uses,
    options: Options,
    mishaps: Mishaps,
) -> Program:
    """The program of an ATen graph.

    Args:
        graph: of `torch.fx`.
        module: that holds its constants.
        arguments: of a call: sizes come from them.
        uses: what is known of arguments and outputs.
        options: the user's.
        mishaps: where it is noted what torch has to do because of us.
    """
    refused: dict[str, str] = {}
    while True:
        try:
            return _Planner(graph, module, arguments, uses, options, refused, mishaps).program()
        except Refused as problem:
            if len(refused) > ATTEMPTS:
                problem.nodes.update({node.name: "too many others failed" for node in graph.nodes})
            refused |= problem.nodes
        except Exception as error:
            mishaps.note(error, (), "planning")
            return whole_graph(graph, module, len(arguments))


class _Planner:
    def __init__(
        self,
        graph: Any,
        module: Any,
        arguments: Sequence[Any],
        uses: Uses,
        options: Options,
        refused: Mapping[str, str],
        mishaps: Mishaps,
    ) -> None:
        self.graph = graph
        self.module = module
        self.arguments = arguments
        self.uses = uses
        self.options = options
        self.refused = refused
        self.mishaps = mishaps
        self.sizes = Sizes({})
        self.of: dict[Any, Any] = {}
        self.calls: dict[int, list[TorchCall]] = {}
        self.regions: dict[int, _Building] = {}
        self.count = len(arguments)
        self.fixed: dict[int, Any] = {}
        self.last_impure = 0
        self.lasting: set[int] = set()  # slots that users see
        self.overlaid: set[Any] = set()  # nodes whose results share memory with another one that users see
        self.writes: list[Any] = []
        self.onednn = BACKENDS.get("onednn")

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
        steps = _without_unread(self.steps(), slots_of(results))
        return Program(steps, self.count, results, self.fixed)

    # --- where values come from ---

    def placeholder(self, number: int, node: Any) -> None:
        """An argument."""
        given = self.arguments[number]
        meta = node.meta.get("val")
        if isinstance(given, torch.SymInt):  # names how a nested tensor is cut, and is no number
            self.of[node] = Cell(node, (), (), None, slot=number)
            return
        if not isinstance(given, torch.Tensor):
            self.of[node] = given
            if is_symbol(meta):
                self.sizes.bind(node.name, [meta], [given])
            return
        if isinstance(meta, torch.Tensor) and len(meta.shape) == len(given.shape):
            # A size that is a number may be wrong: some shape rules of torch are.
            open_sizes = [
                pair
                for pair in zip(meta.shape, given.shape, strict=True)
                if isinstance(pair[0], torch.SymInt)
            ]
            self.sizes.bind(node.name, [dim for dim, _ in open_sizes], [size for _, size in open_sizes])
        if given.layout is not torch.strided:
            self.of[node] = Cell(node, tuple(given.shape), (), given.dtype, slot=number)
            return
        strides = normal(given.shape, given.stride())
        steady = number in self.uses.steady and not given.is_neg()
        self.of[node] = Cell(node, tuple(given.shape), strides, given.dtype, slot=number, steady=steady)

    def attribute(self, node: Any) -> None:
        """A constant of the module, or a graph within it."""
        value = self.module
        for part in node.target.split("."):
            value = getattr(value, part)
        self.of[node] = self.constant(node, value) if isinstance(value, torch.Tensor) else value

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
            parent = self.of[node.args[0]]
            if isinstance(parent, Part):
                self.of[node] = parent.cells[node.args[1]]
                return
        cells = list(self.cells((*node.args, *node.kwargs.values())))
        if not isinstance(meta, torch.Tensor | list | tuple):
            number = self.number(node, meta, cells)
            if number is not None:
                self.of[node] = number
                return
        if node.target is aten._assert_scalar.default and self.plain(node.args[0]) is True:
            return  # sizes are known by now, and stay so for the program
        shapes = self.described(node, meta)
        strange = strangeness(node)
        if strange is not None:
            self.call(node, shapes, cells, strange, pure=is_pure(node))
            return
        widen_statistics(node, shapes, cells)
        lay_as_kernel(node, shapes)
        if shapes is not None and node.name not in self.refused:
            special = SPECIAL.get(str(node.target))
            if special is not None and special(self, node, shapes):
                return
        pure = is_pure(node)
        if shapes is not None and pure:
            if all(cell.constant is not None for cell in cells) and self.folded(node, shapes):
                return
            if self.view(node, shapes, cells):
                return
            reason = self.translated(node, shapes, cells)
            if reason is None:
                return
        else:
            usual = "its sizes are known at execution only" if pure else EFFECTS
            reason = self.refused.get(node.name, usual)
        self.call(node, shapes, cells, reason, pure=pure)

    def cells(self, arguments: Sequence[Any]) -> Iterator[Cell]:
        """The tensors among arguments."""
        for one in arguments:
            if isinstance(one, torch.fx.Node):
                value = self.of[one]
                if isinstance(value, Cell):
                    yield value
                elif isinstance(value, Part):
                    yield from (cell for cell in value.cells if cell is not None)
            elif isinstance(one, list | tuple):
                yield from self.cells(cast("Sequence[Any]", one))
            elif isinstance(one, dict):
                yield from self.cells(list(cast("dict[Any, Any]", one).values()))

    def number(self, node: Any, meta: Any, cells: Sequence[Cell]) -> Any:
        """What a node that makes a number makes, where that is known."""
        if isinstance(meta, int | float | bool):
            return meta
        if isinstance(meta, torch.SymInt):
            size = self.sizes.of(meta)
            if size >= 0:
                return size
        if not cells and isinstance(meta, torch.SymInt | torch.SymFloat | torch.SymBool):
            values = [self.plain(one) for one in node.args]
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
            shape = tuple(self.sizes.of(size) for size in one.shape)
            strides = tuple(self.sizes.of(size) for size in one.stride())
            if -1 in shape or -1 in strides:
                return None
            made.append(
                Cell(node, shape, normal(shape, strides), one.dtype, index=index if several else None)
            )
        return made

    def put(self, node: Any, made: Sequence[Cell | None], several: bool) -> None:
        self.of[node] = Part(tuple(made)) if several else made[0]

    def folded(self, node: Any, shapes: Sequence[Cell | None]) -> bool:
        """Computes what depends on nothing, unless it is large."""
        if any(cell is not None and math.prod(cell.shape) > LARGEST_FOLDED for cell in shapes):
            return False
        args = self.tensors(node.args)
        result = node.target(*args, **{name: self.tensors([one])[0] for name, one in node.kwargs.items()})
        if isinstance(result, torch.Tensor):
            self.of[node] = self.constant(node, result)
        else:
            several = cast("Sequence[Any]", result)
            self.of[node] = Part(tuple(self.constant(node, one, i) for i, one in enumerate(several)))
        return True

    def tensors(self, arguments: Sequence[Any]) -> list[Any]:
        """Arguments that are all constant."""
        found: list[Any] = []
        for one in arguments:
            if isinstance(one, torch.fx.Node):
                value = self.of[one]
                found.append(value.constant if isinstance(value, Cell) else value)
            elif isinstance(one, list | tuple):
                found.append(self.tensors(cast("Sequence[Any]", one)))
            else:
                found.append(self.size(one))
        return found

    def size(self, value: Any) -> Any:
        """A number for a size that is a symbol."""
        return self.sizes.of(value) if isinstance(value, torch.SymInt) else value

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
        self.put(node, shapes, has_several(node))
        return True

    # --- regions ---

    def region(self, level: int) -> _Building:
        return self.regions.setdefault(level, _Building())

    def translated(self, node: Any, shapes: Sequence[Cell | None], cells: Sequence[Cell]) -> str | None:
        """Adds an op to a region, or says why not."""
        if node.name in self.refused:
            return self.refused[node.name]
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
        return self.in_region(node, shapes, cells, lambda t, level: translate(t, *self.bound(node, level)))

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
        region = self.region(level)
        before = len(region.t.graph.ops)
        region.t.label = node.name
        try:
            made = build(region.t, level)
            values: list[Any] = (
                list(cast("Sequence[Any]", made)) if isinstance(made, list | tuple) else [made]
            )
            values = [typed(region.t, one, cell) for one, cell in zip(values, shapes, strict=False)]
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
        self.put(node, there, has_several(node))
        return None

    def bound(self, node: Any, level: int) -> list[Any]:
        """Arguments in the order of the op's schema, as translations take them."""
        return [self.operand(one, level) for one in bound(node.target, node.args, node.kwargs)]

    def operand(self, argument: Any, level: int) -> Any:
        if isinstance(argument, torch.fx.Node):
            value = self.of[argument]
            return self.value(value, level) if isinstance(value, Cell) else value
        if isinstance(argument, list | tuple):
            return [self.operand(one, level) for one in cast("Sequence[Any]", argument)]
        return self.size(argument)

    def value(self, cell: Cell, level: int) -> Value:
        """What a tensor is in a region."""
        if level not in cell.values:
            cell.values[level] = self._value(cell, level)
        return cell.values[level]

    def _value(self, cell: Cell, level: int) -> Value:
        region = self.region(level)
        if cell.constant is not None:
            return as_numpy(cell.constant.contiguous())
        if cell.base is not None and cell.node.name not in self.refused:
            seen = self._seen(cell, level)
            if seen is not None:
                return seen
        if cell.dtype not in DATA_TYPES:
            raise Unmapped(f"its input is {cell.dtype}")
        source = cell if is_dense(cell.shape, cell.strides) else self.dense(cell)
        kind = PropertyType.constant if source.steady else PropertyType.undef
        strides = None if source.strides == row_major(source.shape) else source.strides
        name = region.t.free_name(source.name)
        tensor = region.t.input(
            name, DATA_TYPES[source.dtype], source.shape, strides=strides, property_type=kind
        )
        region.imports[tensor.id] = source
        return tensor

    def _seen(self, cell: Cell, level: int) -> Value | None:
        """A view, as ops of the region on what it is a view of; None where there are none for it."""
        translate = translation_of(TABLE, cell.node.target)
        if translate is None or 0 in cell.shape:
            return None
        region = self.region(level)
        label, region.t.label = region.t.label, cell.node.name
        before = len(region.t.graph.ops)
        try:
            made = translate(region.t, *self.bound(cell.node, level))
            seen = cast("Value", made if cell.index is None else made[cell.index])
            check_result(seen, cell)
            self.check_makers(region, before)
        except FAILURES:
            return None
        finally:
            region.t.label = label
        for op in region.t.graph.ops[before:]:
            region.makers[op.id] = cell.node
        return seen

    def dense(self, cell: Cell) -> Cell:
        """A copy by torch of what has no place of its own for each element."""
        made = Cell(cell.node, cell.shape, row_major(cell.shape), cell.dtype, level=cell.level, steady=False)
        made.slot = self.new_slot()
        self.add(
            TorchCall("contiguous", _contiguous, (self.slot(cell),), {}, (made.slot,), False, "it overlaps"),
            cell.level,
        )
        return made

    def check(
        self,
        region: _Building,
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
        self.check_makers(region, before)

    def check_makers(self, region: _Building, before: int) -> None:
        """What is large must be made by primitives.

        Raises:
            Unmapped: it is not.
        """
        for op in region.t.graph.ops[before:]:
            largest = max(math.prod(t.shape or ()) for t in (*op.inputs, *op.outputs))
            if largest > LARGEST_ON_HOST:
                reason = self.onednn.why_not((op,))
                if reason is not None:
                    raise Unmapped(reason)

    # --- torch's part ---

    def add(self, call: TorchCall, level: int) -> None:
        self.calls.setdefault(level, []).append(call)

    def new_slot(self) -> int:
        self.count += 1
        return self.count - 1

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
            self.writes.append(node)
            return
        level = max((cell.level for cell in cells), default=0)
        if not pure:
            level = self.last_impure = max(level, self.last_impure)
            if mutates(node.target):
                level = self.last_impure = max(level, *self.regions, 0) + 1
        several = has_several(node)
        slots: tuple[int | None, ...]
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
                cell.level, cell.slot = level, self.new_slot()
                cell.spatial = any(one.spatial for one in cells) and len(cell.shape) in (4, 5)
        slots = tuple(None if cell is None else cell.slot for cell in made) or (None,)
        args = tuple(self.plain(one) for one in node.args)
        kwargs = {name: self.plain(one) for name, one in node.kwargs.items()}
        self.add(
            TorchCall(str(node.target), node.target, args, kwargs, slots, several, reason, pure=pure),
            level,
        )
        self.put(node, made, several)

    def plain(self, argument: Any) -> Any:
        """An argument of a call of torch."""
        if isinstance(argument, torch.fx.Node):
            value = self.of[argument]
            return Slot(self.slot_number(value)) if isinstance(value, Cell) else value
        if isinstance(argument, list | tuple):
            made = [self.plain(one) for one in cast("Sequence[Any]", argument)]
            return made if isinstance(argument, list) else tuple(made)
        if isinstance(argument, slice):
            one: Any = argument  # pyright: ignore[reportUnknownVariableType] -- of what, nobody says
            return slice(self.plain(one.start), self.plain(one.stop), self.plain(one.step))
        return self.size(argument)

    def slot(self, cell: Cell) -> Slot:
        return Slot(self.slot_number(cell))

    def slot_number(self, cell: Cell) -> int:
        """Where a tensor is held for torch."""
        if cell.slot is not None:
            return cell.slot
        if cell.constant is not None:
            cell.slot = self.new_slot()
            self.fixed[cell.slot] = cell.constant
        elif cell.home is None or self.is_view_of_made(cell):
            self._by_torch(cell, is_view=True)
        else:
            self._from_region(cell)
        if cell.slot is None:
            raise LookupError(f"{cell.name} is nowhere")
        return cell.slot

    def is_view_of_made(self, cell: Cell) -> bool:
        """Whether something that the same region makes is seen in another way, by all of its elements or by users."""
        if not is_view(cell.node.target):
            return False
        base = self.of[cell.node.args[0]]
        if not isinstance(base, Cell) or base.home != cell.home:
            return False
        whole = cell.index is None and math.prod(base.shape) == math.prod(cell.shape)
        return whole or cell.node in self.overlaid

    def overlaid_by(self, wanted: Sequence[Any]) -> set[Any]:
        """Views on the way to outputs of which several look at one tensor: they must do so for users, too."""
        chains: dict[Any, list[list[Any]]] = {}
        for number, node in enumerate(wanted):
            if isinstance(node, torch.fx.Node) and number not in self.uses.saved:
                root, views = _looked_at(node)
                chains.setdefault(root, []).append(views)
        return {
            view for several in chains.values() if len(several) > 1 for views in several for view in views
        }

    def _by_torch(self, cell: Cell, *, is_view: bool, reason: str = "") -> None:
        """Has torch make what a region could have made: a view, or a copy."""
        node = cell.node
        function = VIEWS.get(str(node.target), node.target) if is_view else node.target
        args = tuple(self.plain(one) for one in node.args)
        kwargs = {name: self.plain(one) for name, one in node.kwargs.items()}
        part = self.of[node] if cell.index is not None else None
        slots: list[int | None] = []
        for one in (cell,) if part is None else cast("Part", part).cells:
            slots.append(None if one is None or one.slot is not None else self.new_slot())
            if one is not None and one.slot is None:
                one.slot = slots[-1]
        several = part is not None
        call = TorchCall(str(node.target), function, args, kwargs, tuple(slots), several, reason, is_view)
        self.add(call, cell.level)

    def _from_region(self, cell: Cell) -> None:
        """Has the region hand out a tensor."""
        home = cast("int", cell.home)
        region = self.region(home)
        region.t.label = cell.name
        tensor = region.t.tensor(cell.values[home])
        if tensor.id in region.imports or tensor.property_type is PropertyType.constant:
            self._by_torch(cell, is_view=False, reason="it only copies")
        elif tensor.id in region.outputs:
            slot, _ = region.outputs[tensor.id]
            cell.slot = self.new_slot()
            same = TorchCall("clone", torch.clone, (Slot(slot),), {}, (cell.slot,), False, "it only copies")
            self.add(same, home + 1)
        else:
            cell.slot = self.new_slot()
            region.outputs[tensor.id] = (cell.slot, cell)

    # --- the end ---

    def outputs(self, node: Any) -> list[Any]:
        """What the graph returns."""
        listed = node.args[0]
        wanted: list[Any] = (
            list(cast("Sequence[Any]", listed)) if isinstance(listed, list | tuple) else [listed]
        )
        self.overlaid = self.overlaid_by(wanted)
        found: list[Any] = []
        for number, one in enumerate(wanted):
            value = self.of[one] if isinstance(one, torch.fx.Node) else self.size(one)
            if isinstance(value, Cell):
                if value.constant is not None:  # whoever gets it may write to it
                    slot = self.new_slot()
                    self.add(TorchCall("clone", torch.clone, (self.slot(value),), {}, (slot,), False), 0)
                    found.append(Slot(slot))
                    continue
                if number in self.uses.saved and value.spatial and self.is_read_at_home_only(value):
                    value.strides = channels_last(value.shape)
                found.append(self.slot(value))
                if number not in self.uses.passing:
                    self.lasting.add(found[-1].number)
            else:
                found.append(value)
        return found

    def is_read_at_home_only(self, cell: Cell) -> bool:
        """Whether nobody but the region that makes it has been promised how it lies."""
        return cell.home is not None and cell.slot is None and cell.values.keys() == {cell.home}

    def is_handed_out(self, cell: Cell) -> bool:
        """Whether a region has made it, and not torch as a view of what a region has made."""
        made = () if cell.home is None else self.regions[cell.home].outputs.values()
        return any(slot == cell.slot for slot, _ in made)

    def steps(self) -> list[Step]:
        """Regions from the last to the first, for they say what those before them hand out; then all in order."""
        writes = [self.write(node) for node in self.writes]
        made: dict[int, RegionCall] = {}
        for level in sorted(self.regions, reverse=True):
            call = self.compiled(level)
            if call is not None:
                made[level] = call
        steps: list[Step] = []
        for level in range(max([*self.calls, *made, 0]) + 1):
            steps += self.calls.get(level, [])
            if level in made:
                steps.append(made[level])
        return [*steps, *writes]

    def write(self, node: Any) -> TorchCall:
        """What writes to an argument, which is done when everybody has read it."""
        args = tuple(self.plain(one) for one in node.args)
        return TorchCall(str(node.target), node.target, args, {}, (None,), False, EFFECTS, pure=False)

    def compiled(self, level: int) -> RegionCall | None:
        """A region with all that it hands out known."""
        region = self.regions[level]
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
            if not nodes <= self.refused.keys():  # else it would come again
                self.mishaps.note(error, nodes, "compiling a region")
                raise Refused({name: str(error) for name in nodes}) from error
            raise
        inputs: list[Taken] = []
        for tensor in compiled.inputs:
            cell = region.imports[tensor.id]
            number = self.slot_number(cell)
            # Torch guards the one, and we have made the other.
            checked = cell.steady or self.is_handed_out(cell)
            inputs.append(Taken(number, cell.shape, cell.strides, cell.dtype, checked))
        outputs: list[Made] = []
        for tensor in compiled.outputs:
            slot, cell = by_id[tensor.id]
            lies = tensor.element_strides
            nbytes = 0 if slot in self.lasting else tensor.nbytes
            outputs.append(Made(slot, cell.shape, lies, cell.dtype, nbytes))
        constant = tuple(i for i, t in enumerate(compiled.inputs) if t.property_type is PropertyType.constant)
        by_torch = ByTorch(
            self.of,
            level,
            [region.imports[tensor.id] for tensor in compiled.inputs],
            [by_id[tensor.id][1] for tensor in compiled.outputs],
            self.size,
        )
        return RegionCall(compiled, tuple(inputs), tuple(outputs), constant, by_torch, self.mishaps, nodes)


def _looked_at(node: Any) -> tuple[Any, list[Any]]:
    """What a node is a view of in the end, and the views on the way there."""
    views: list[Any] = []
    while node.op == "call_function" and (node.target is operator.getitem or is_view(node.target)):
        if is_view(node.target):
            views.append(node)
        node = node.args[0]
    return node, views


def _without_unread(steps: Sequence[Step], wanted: set[int]) -> list[Step]:
    """Without calls of torch whose results nobody reads."""
    kept: list[Step] = []
    needed = set(wanted)
    for step in reversed(steps):
        if isinstance(step, TorchCall) and step.pure and not step.writes & needed:
            continue
        needed |= step.reads
        kept.append(step)
    return kept[::-1]


def _contiguous(tensor: Any) -> Any:
    return tensor.contiguous()
