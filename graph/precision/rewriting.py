"""What rewriting a graph into another one needs: its ops in order, new ids and names, and what stays as it was."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Generic

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ...ops.registry import REGISTRY
from ...ops.schema import UNKNOWN_DIM
from ...ops.values import format_value
from ..core.building import G, GraphCore, empty_like
from ..model.logical_tensor import MAX_ID, LogicalTensor, PropertyType, evolve_tensor, label
from ..model.op import Op
from ..model.patterns import fits, fitting, near_name, patterns_of, some_of
from ..model.topology import Topology, topological
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter


@frozen
class Kept:
    """What the user wants to stay as it is.

    Attributes:
        ops: ids of ops: those that were named, by name or kind, and those that make a tensor that was named.
        tensors: ids of the tensors that were named.
    """

    ops: frozenset[int]
    tensors: frozenset[int]


def kept(keep: object, ops: Sequence[Op], tensors: Iterable[LogicalTensor]) -> Kept:
    """What names of ops, kinds and tensors, and patterns of them, stand for in a graph.

    Raises:
        ArgumentTypeError: no string, and no collection of strings.
        ArgumentError: one that fits none of these.
    """
    found_ops: set[int] = set()
    found_tensors: set[int] = set()
    by_label: dict[str, set[int]] = {}
    for tensor in tensors:
        by_label.setdefault(label(tensor), set()).add(tensor.id)
    for one in patterns_of("keep", keep, "head.*"):
        same = [op for op in ops if any(fits(name, one) for name in (op.name, op.kind, op.names.kind))]
        named = [number for name in fitting(one, by_label) for number in by_label[name]]
        if not same and not named and one not in REGISTRY:
            kinds = list(dict.fromkeys(op.kind for op in ops))
            names = list(dict.fromkeys([*(op.name for op in ops if op.name), *by_label]))
            raise ArgumentError(
                f"keep has {format_value(one)}, which is no op, kind or tensor of the graph"
                f"{near_name(one, [*by_label, *names, *kinds])}; it has the kinds {some_of(kinds)}, and the names "
                f"{some_of(names)}"
            )
        found_ops.update(op.id for op in same)
        found_tensors.update(named)
    found_ops.update(op.id for op in ops if any(t.id in found_tensors for t in op.outputs))
    return Kept(frozenset(found_ops), frozenset(found_tensors))


def count(tensor: LogicalTensor) -> int | None:
    """How many elements a tensor has; None where that is not known."""
    if tensor.shape is None or UNKNOWN_DIM in tensor.shape:
        return None
    total = 1
    for dim in tensor.shape:
        total *= dim
    return total


class Rewriting(Generic[G]):
    """A graph in the making, from another one that stays as it is.

    Inputs keep their order, and outputs their names and order. What is new has ids and names of its own.

    Attributes:
        source: the old graph. made: the new one, open.
        ops: the old one's ops, in an order in which they can run.
        topology: who feeds whom among them.
        tensors: the old one's tensors by id. arrays: its constants by id.
        parameters: its parameters by id, which the new graph shares. held: the arrays of both, to look at.
        outputs: ids of its outputs. assigned: ids of what it assigns to parameters. wanted: both.
    """

    def __init__(self, source: G) -> None:
        self.source = source
        self.made = empty_like(source)
        self.ops: Sequence[Op] = topological(source.ops)
        self.topology = Topology(self.ops)
        self.tensors = {t.id: t for t in source.tensors}
        self.arrays: dict[int, Array] = dict(source.held_constants)
        self.parameters: dict[int, Parameter] = dict(source.held_parameters)
        self.held = self.arrays | {number: one.array for number, one in self.parameters.items()}
        self.outputs = frozenset(t.id for t in source.outputs)
        self.assigned = frozenset(value.id for _, value in source.assignments)
        self.wanted = self.outputs | self.assigned
        self._names = {t.name for t in source.tensors}
        self._taken = {*self.tensors, *(op.id for op in self.ops)}
        self._next = max(self._taken, default=-1) + 1

    def new_id(self) -> int:
        """An id that nothing has."""
        if self._next > MAX_ID:
            self._next = next(i for i in itertools.count() if i not in self._taken)
        while self._next in self._taken:
            self._next += 1
        self._next += 1
        return self._next - 1

    def beside(self, tensor: LogicalTensor, data_type: DataType, ending: str) -> LogicalTensor:
        """A tensor of the same shape under another id and name."""
        name = f"{label(tensor)}.{ending}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return LogicalTensor(self.new_id(), data_type, tensor.shape, name=name)

    def constant(self, tensor: LogicalTensor, array: Array) -> LogicalTensor:
        """Has the new graph hold a constant."""
        held = evolve_tensor(tensor, property_type=PropertyType.constant, shape=array.shape)
        return self.made.add_constant(held, array)

    def op(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor],
        output: LogicalTensor,
        **attributes: object,
    ) -> LogicalTensor:
        """Adds an op that the old graph has not, and returns what it makes."""
        self.made.add_op(
            Op(self.new_id(), kind, inputs, [output], name=f"{label(output)}.{kind.lower()}", **attributes)
        )
        return output

    def copied(self) -> G:
        """The old graph once more, with the same ids, not finalized."""
        for tensor in self.source.inputs:
            self.made.add_input(tensor)
        for number, array in self.arrays.items():
            self.made.add_constant(self.tensors[number], array)
        for number, parameter in self.parameters.items():
            self.made.add_parameter(self.tensors[number], parameter)
        for op in self.ops:
            self.made.add_op(op)
        self.mark()
        return self.made

    def mark(self) -> None:
        """Marks the outputs, which stand under their old ids, in the old order, and assigns what was assigned."""
        for parameter, value in self.source.assignments:
            self.made.assign(self.made.tensor(parameter.id), self.made.tensor(value.id))
        named = self.source.marked_outputs
        for name, number in named:
            self.made.output(self.made.tensor(number), name=name)
        marked = {number for _, number in named}
        for tensor in self.source.outputs:
            if tensor.id not in marked:
                self.made.output(self.made.tensor(tensor.id))
        keep_outputs(self.made, self.outputs)


def keep_outputs(graph: GraphCore, wanted: Collection[int]) -> None:
    """Has a graph no other outputs than these, by id: results of ops that nobody has read before are none now."""
    for tensor in graph.outputs:
        if tensor.id not in wanted:
            graph.drop_output(tensor)


def frozen_parameters(graph: G, *, share_state: bool = False) -> G:
    """The same graph with parameters as constants of the values that they have now, but for those that it assigns.

    Those, as a cache that grows with each run, stay parameters with their updates.

    Args:
        share_state: whether these are the same in both graphs; else they are copied.
    """
    assigned = {parameter.id for parameter, _ in graph.assignments}
    held = {number: one for number, one in graph.held_parameters.items() if number not in assigned}
    made = empty_like(graph)
    rewriting = Rewriting(graph)
    fixed = {
        number: evolve_tensor(rewriting.tensors[number], property_type=PropertyType.constant)
        for number in held
    }
    for tensor in graph.inputs:
        made.add_input(tensor)
    for number, array in rewriting.arrays.items():
        made.add_constant(rewriting.tensors[number], array)
    for number, parameter in held.items():
        made.add_constant(fixed[number], parameter.array.copy())
    for number, parameter in rewriting.parameters.items():
        if number in assigned:
            made.add_parameter(rewriting.tensors[number], parameter if share_state else parameter.array)
    for op in rewriting.ops:
        made.add_op(op.with_tensors([fixed.get(t.id, t) for t in op.inputs], op.outputs))
    for parameter, value in graph.assignments:
        made.assign(made.tensor(parameter.id), made.tensor(value.id))
    for name, number in graph.marked_outputs:  # these come first
        made.output(made.tensor(number), name=name)
    keep_outputs(made, rewriting.outputs)
    return made
