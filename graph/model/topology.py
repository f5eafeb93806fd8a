"""Who feeds whom among the ops of a graph."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from itertools import pairwise

from ...ops.errors import GraphError
from .logical_tensor import LogicalTensor
from .op import Op


class Topology:
    """Who feeds whom among ops in topological order.

    Attributes:
        ops: in that order.
        outputs: ids of the tensors that whoever runs the ops wants to have.
    """

    def __init__(self, ops: Sequence[Op], outputs: Collection[int] = ()) -> None:
        self.ops = tuple(ops)
        self.outputs = frozenset(outputs)
        self.position = {id(op): number for number, op in enumerate(self.ops)}
        self._producer = {tensor.id: op for op in self.ops for tensor in op.outputs}
        producer = self._producer
        self._consumers: dict[int, list[Op]] = {id(op): [] for op in self.ops}
        self._readers: dict[int, list[Op]] = {}
        for op in self.ops:
            for tensor_id in dict.fromkeys(t.id for t in op.inputs):
                self._readers.setdefault(tensor_id, []).append(op)
                if tensor_id in producer:
                    self._consumers[id(producer[tensor_id])].append(op)
        acting = [op for op in self.ops if not op.schema.pure]
        self._before = {id(op): before for before, op in pairwise(acting)}
        for before, op in pairwise(acting):
            self._consumers[id(before)].append(op)

    def consumers(self, op: Op) -> tuple[Op, ...]:
        """The ops that read an output of `op`, or must not run before it: those with effects keep their order."""
        return tuple(self._consumers[id(op)])

    def awaited(self, op: Op) -> tuple[Op, ...]:
        """The ops that `op` must not run before: who makes its inputs, and the one before it of those with effects."""
        makers = [self._producer[t.id] for t in op.inputs if t.id in self._producer]
        return (*makers, self._before[id(op)]) if id(op) in self._before else tuple(makers)

    def producer(self, tensor: LogicalTensor) -> Op | None:
        """The op that makes a tensor; None for an input of the graph."""
        return self._producer.get(tensor.id)

    def readers(self, tensor: LogicalTensor) -> tuple[Op, ...]:
        """The ops that read a tensor."""
        return tuple(self._readers.get(tensor.id, ()))


class Contraction:
    """The graph of a topology in which groups of ops become one node each, always without a cycle.

    Every node has a place in an order in which the nodes can run. A path can come back to a group only through nodes
    that stand before the group's last op, so that few have to be looked at.

    Looking at groups as nodes matters: two subgraphs can each be convex in the graph and yet wait for each other once
    both are partitions.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._nodes: list[tuple[Op, ...]] = [(op,) for op in topology.ops]
        self._place = {id(op): number for number, op in enumerate(topology.ops)}

    def contract(self, ops: Sequence[Op]) -> bool:
        """Makes one node of ops that are nodes of their own; does nothing where a path leaves them and comes back.

        Args:
            ops: in topological order.

        Returns:
            Whether it was done.
        """
        places = sorted(self._place[id(op)] for op in ops)
        first, last = places[0], places[-1]
        between = self._reached(ops, last)
        if between is None:
            return False
        if between:
            others = {*range(first, last + 1)}.difference(between, places)
            order = [self._nodes[place] for place in sorted(others)]
            order += [tuple(ops), *[self._nodes[place] for place in sorted(between)]]
        else:  # all that feeds the group stands before its last op, and what it feeds behind
            order = [tuple(ops)]
        for place in range(first, last + 1) if between else places:
            self._nodes[place] = ()
        for place, node in enumerate(order, last + 1 - len(order)):
            self._nodes[place] = node
            self._place.update((id(op), place) for op in node)
        return True

    def way_back(self, ops: Sequence[Op]) -> str:
        """Of ops that can't be contracted, those on a shortest path that leaves them and comes back, for people."""
        inside = {id(op) for op in ops}
        last = max(self._place[id(op)] for op in ops)  # a node behind comes back to none of them
        ways: list[tuple[Op, ...]] = [
            (c,) for op in ops for c in self._topology.consumers(op) if id(c) not in inside
        ]
        seen: set[int] = set()
        for way in ways:  # which grows
            for member in self._nodes[self._place[id(way[-1])]]:
                for consumer in self._topology.consumers(member):
                    if id(consumer) in inside:
                        return ", ".join(map(str, dict.fromkeys((*way, member))))
                    if id(consumer) not in seen and self._place[id(consumer)] <= last:
                        seen.add(id(consumer))
                        ways.append((*way, *([] if member is way[-1] else [member]), consumer))
        return "others"

    def _reached(self, ops: Sequence[Op], last: int) -> set[int] | None:
        """The places before `last` that paths from `ops` reach; None where one comes back."""
        inside = {id(op) for op in ops}
        pending = [c for op in ops for c in self._topology.consumers(op) if id(c) not in inside]
        seen: set[int] = set()
        while pending:
            op = pending.pop()
            place = self._place[id(op)]
            if id(op) in inside:
                return None
            if place > last or place in seen:
                continue
            seen.add(place)
            pending += [c for member in self._nodes[place] for c in self._topology.consumers(member)]
        return seen


def needed_ops(ops: Sequence[Op], wanted: Collection[int], *, with_effects: bool = False) -> list[Op]:
    """The ops that some of these tensors depend on, in order; a part of a split that nobody reads, say, is none.

    Args:
        ops: in any order.
        wanted: ids of tensors.
        with_effects: whether ops that are not pure are needed too, whoever reads what they make.
    """
    producers = {tensor.id: op for op in ops for tensor in op.outputs}
    acting = [op for op in ops if with_effects and not op.schema.pure]
    needed = {id(op) for op in acting}
    waiting = [*wanted, *(tensor.id for op in acting for tensor in op.inputs)]
    while waiting:
        op = producers.get(waiting.pop())
        if op is not None and id(op) not in needed:
            needed.add(id(op))
            waiting += [tensor.id for tensor in op.inputs]
    return [op for op in ops if id(op) in needed]


def topological(ops: Sequence[Op]) -> list[Op]:
    """The ops in an order in which they can run: as given where they can, else each as soon as its turn has come.

    The order in which ops are added means something: in a backward pass the gradient of a weight stands behind the op
    that hands the gradient on, and is done there, before its inputs and its result have to wait for all the others.
    Kinds that are to run soon go before all others that could.

    Raises:
        GraphError: there is a cycle.
    """
    producers = {tensor.id: number for number, op in enumerate(ops) for tensor in op.outputs}
    waiting = [{producers[t.id] for t in op.inputs if t.id in producers} for op in ops]
    consumers: list[list[int]] = [[] for _ in ops]
    for number, needed in enumerate(waiting):
        for producer in needed:
            consumers[producer].append(number)
    ordered: list[Op] = []
    turns = [(not op.schema.soon, number) for number, op in enumerate(ops)]
    ready = [turns[number] for number, needed in enumerate(waiting) if not needed]
    heapq.heapify(ready)
    while ready:
        _, done = heapq.heappop(ready)
        ordered.append(ops[done])
        for consumer in consumers[done]:
            waiting[consumer].discard(done)
            if not waiting[consumer]:
                heapq.heappush(ready, turns[consumer])
    if len(ordered) < len(ops):
        stuck = ", ".join(str(op) for op, needed in zip(ops, waiting, strict=True) if needed)
        raise GraphError(f"the graph has a cycle through or before {stuck}; cut it")
    return ordered
