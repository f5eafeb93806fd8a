"""What torch does where something of ours fails: the ops of a region one by one, or a whole graph."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from ..framework import aten, torch
from ..run.steps import Program, Slot, TorchCall
from ..tensors import in_order, is_dense, normal, placed
from .cells import Cell
from .nodes import may_lie_otherwise
from .table import VIEWS


def whole_graph(graph: Any, module: Any, backward: bool) -> Program:
    """A program that is one call of a graph as torch runs it.

    Args:
        graph: of `torch.fx`.
        module: that has it.
        backward: whether its arguments are what a forward pass has saved.
    """
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    count = len(placeholders)
    listed = next(node for node in reversed(graph.nodes) if node.op == "output").args[0]
    several = isinstance(listed, list | tuple)
    results = len(cast("Sequence[Any]", listed)) if several else 1
    made = tuple(range(count, count + results))
    given = tuple(Slot(number) for number in range(count))
    why = "something of ours failed"
    function = partial(_on_saved, module, [_saved_as(one) for one in placeholders]) if backward else module
    call = TorchCall("graph", function, given, {}, made, several, why, pure=False, lasting=True)
    return Program([call], count + results, [Slot(number) for number in made], {})


def _on_saved(module: Any, traced: Sequence[tuple[int, ...] | None], *given: Any) -> Any:
    """A graph as torch runs it, on arguments that lie as it has traced them, but for those that it writes to."""
    return module(*[_as_traced(one, how) for one, how in zip(given, traced, strict=True)])


def _saved_as(node: Any) -> tuple[int, ...] | None:
    """Strides with which an argument was traced, for the sizes it was traced with; None where it stays as it is."""
    if not may_lie_otherwise(node):
        return None
    strides = node.meta["val"].stride()
    found = [one.node.hint if isinstance(one, torch.SymInt) else one for one in strides]
    return None if None in found else tuple(found)


def _as_traced(given: Any, traced: tuple[int, ...] | None) -> Any:
    """An argument with its axes in the order in which they were traced."""
    if traced is None or given.layout is not torch.strided or given.dim() != len(traced):
        return given
    order = sorted(range(len(traced)), key=lambda axis: (-traced[axis], axis))
    return laid_as_traced(given, in_order(given.shape, order))


class ByTorch:
    """The ops of a region, one by one, from what the region takes to what it makes.

    Args:
        of: node → what it is, as planned.
        level: of the region.
        inputs, outputs: of the region.
        size: makes numbers of sizes that are symbols.
    """

    def __init__(
        self,
        of: Mapping[Any, Any],
        level: int,
        inputs: Sequence[Cell],
        outputs: Sequence[Cell],
        size: Callable[[Any], Any],
    ) -> None:
        self._of: Mapping[Any, Any] = of
        self._size = size
        self._steps: list[TorchCall] = []
        self._places: dict[tuple[Any, int | None], Slot] = {
            (cell.node, cell.index): Slot(number) for number, cell in enumerate(inputs)
        }
        self._count = len(inputs)
        for node in self._order([cell.node for cell in outputs], level):
            self._add(node)
        self._given = [(cell.shape, cell.traced) for cell in inputs]
        self._outputs = tuple(self._result(cell.node, cell.index).number for cell in outputs)
        self._laid = tuple((cell.shape, cell.lying, cell.dtype) for cell in outputs)
        self._of = dict[Any, Any]()  # holds a model's nodes and tensors no longer

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """What the region makes of these tensors, lying as it would."""
        taken = [
            one if traced is None or tuple(one.shape) != shape else laid_as_traced(one, traced)
            for one, (shape, traced) in zip(given, self._given, strict=True)
        ]
        slots = [*taken, *[None] * (self._count - len(taken))]
        for step in self._steps:
            step.run(slots)
        return [laid(slots[n], *how) for n, how in zip(self._outputs, self._laid, strict=True)]

    def _order(self, ends: Sequence[Any], level: int) -> list[Any]:
        """The nodes that have to run, in the order of the graph."""
        found: set[Any] = set()
        waiting = list(ends)
        while waiting:
            node = waiting.pop()
            if node in found or self._taken(node) is not None or self._is_leaf(node, level):
                continue
            found.add(node)
            waiting += node.all_input_nodes
        return [node for node in self._of if node in found]

    def _is_leaf(self, node: Any, level: int) -> bool:
        """Whether the region does not make it, nor looks at it in another way."""
        value = self._of[node]
        if node.op != "call_function" or isinstance(value, int | float):
            return True
        return isinstance(value, Cell) and (
            value.constant is not None or (value.home != level and value.base is None)
        )

    def _taken(self, node: Any) -> Slot | None:
        """Where a node's result is, if somebody has put it there."""
        here = self._places.get((node, None))
        if here is None and node.target is operator.getitem:
            here = self._places.get((node.args[0], node.args[1]))
        return here

    def _add(self, node: Any) -> None:
        args = tuple(self._plain(one) for one in node.args)
        kwargs = {name: self._plain(one) for name, one in node.kwargs.items()}
        function = VIEWS.get(str(node.target), node.target)
        if node.target is aten.native_dropout.default:  # its mask was drawn before
            args, function = (args[0], self._places[node, 1], args[1]), _dropped
        elif node.target is aten.as_strided.default:
            function = _as_strided(self._of[node.args[0]])
        self._places[node, None] = self._step(str(node.target), function, args, kwargs)

    def _result(self, node: Any, index: int | None) -> Slot:
        """One result of a node."""
        if (node, index) not in self._places:
            given = (self._places[node, None], index)
            self._places[node, index] = self._step("getitem", operator.getitem, given, {})
        return self._places[node, index]

    def _step(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Slot:
        self._steps.append(TorchCall(name, function, args, kwargs, (self._count,), several=False))
        self._count += 1
        return Slot(self._count - 1)

    def _plain(self, argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            place = self._taken(argument)
            value = self._of[argument]
            if place is None and isinstance(value, Cell):
                place = self._places[argument, None] = self._leaf(value)
            return value if place is None else place
        if isinstance(argument, list | tuple):
            made = [self._plain(one) for one in cast("Sequence[Any]", argument)]
            return made if isinstance(argument, list) else tuple(made)
        return self._size(argument)

    def _leaf(self, cell: Cell) -> Slot:
        """A constant, or zeros for what the region does not read: only the shape of that matters."""
        if cell.constant is not None:
            return self._step("constant", partial(_itself, cell.constant), (), {})
        zeros = partial(torch.zeros, cell.shape, dtype=cell.dtype)
        return self._step("zeros", zeros, (), {})


def laid(tensor: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """A tensor that lies as others have been promised; one of another shape than traced as it is."""
    if tuple(tensor.shape) != shape:
        return tensor
    if tensor.dtype == dtype and normal(shape, tensor.stride()) == normal(shape, strides):
        return tensor
    return placed(tensor, strides, dtype)


def laid_as_traced(tensor: Any, strides: tuple[int, ...]) -> Any:
    """A tensor that lies as torch has traced it: what it has planned after that need not look at strides."""
    if tensor.stride() == strides or not is_dense(tensor.shape, strides):
        return tensor
    if normal(tensor.shape, tensor.stride()) == normal(tensor.shape, strides) and not tensor.is_neg():
        return tensor.as_strided(tensor.shape, strides)
    return placed(tensor, strides, tensor.dtype)


def _itself(tensor: Any) -> Any:
    return tensor


def _dropped(x: Any, ones: Any, p: float) -> Any:
    return (x * ones * (1 / (1 - p)),)


def _as_strided(base: Cell) -> Callable[..., Any]:
    """`as_strided` of a tensor that lies as it was traced."""
    strides = base.strides if base.traced is None else base.traced

    def function(x: Any, *how: Any) -> Any:
        return aten.as_strided.default(laid(x, base.shape, strides, base.dtype), *how)

    return function
