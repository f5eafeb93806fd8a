"""Who feeds whom among the ops of a graph."""

from __future__ import annotations

from collections.abc import Collection, Sequence

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
        for op in self.ops:
            for tensor_id in dict.fromkeys(t.id for t in op.inputs):
                if tensor_id in producer:
                    self._consumers[id(producer[tensor_id])].append(op)

    def consumers(self, op: Op) -> tuple[Op, ...]:
        """The ops that read an output of `op`."""
        return tuple(self._consumers[id(op)])

    def producer(self, tensor: LogicalTensor) -> Op | None:
        """The op that makes a tensor; None for an input of the graph."""
        return self._producer.get(tensor.id)

    def readers(self, tensor: LogicalTensor) -> tuple[Op, ...]:
        """The ops that read a tensor."""
        op = self._producer.get(tensor.id)
        candidates = self.ops if op is None else self.consumers(op)
        return tuple(one for one in candidates if any(t.id == tensor.id for t in one.inputs))

    def is_convex(self, ops: Sequence[Op], claims: dict[int, tuple[Op, ...]]) -> bool:
        """Whether no path leaves `ops` and comes back, with every claim taken as one node.

        Looking at claims as nodes matters: two subgraphs can each be convex in the graph and yet wait for
        each other once both are partitions.
        """
        inside = {id(op) for op in ops}
        seen: set[int] = set()
        pending = [c for op in ops for c in self.consumers(op) if id(c) not in inside]
        while pending:
            op = pending.pop()
            if id(op) in inside:
                return False
            if id(op) in seen:
                continue
            together = claims.get(id(op), (op,))
            seen.update(id(member) for member in together)
            pending += [c for member in together for c in self.consumers(member)]
        return True


def needed_ops(ops: Sequence[Op], wanted: Collection[int]) -> list[Op]:
    """The ops that some of these tensors depend on, in order; a part of a split that nobody reads, say, is none.

    Args:
        ops: in any order.
        wanted: ids of tensors.
    """
    producers = {tensor.id: op for op in ops for tensor in op.outputs}
    needed: set[int] = set()
    waiting = list(wanted)
    while waiting:
        op = producers.get(waiting.pop())
        if op is not None and id(op) not in needed:
            needed.add(id(op))
            waiting += [tensor.id for tensor in op.inputs]
    return [op for op in ops if id(op) in needed]


def topological(ops: Sequence[Op]) -> list[Op]:
    """The ops in an order in which they can run, near to the one given.

    Raises:
        GraphError: there is a cycle.
    """
    producers = {tensor.id: op for op in ops for tensor in op.outputs}
    waiting = {id(op): {id(producers[t.id]) for t in op.inputs if t.id in producers} for op in ops}
    consumers: dict[int, list[Op]] = {}
    for op in ops:
        for producer in waiting[id(op)]:
            consumers.setdefault(producer, []).append(op)
    ordered: list[Op] = []
    ready = [op for op in reversed(ops) if not waiting[id(op)]]
    while ready:
        op = ready.pop()
        ordered.append(op)
        for consumer in reversed(consumers.get(id(op), [])):
            waiting[id(consumer)].discard(id(op))
            if not waiting[id(consumer)]:
                ready.append(consumer)
    if len(ordered) < len(ops):
        done = {id(op) for op in ordered}
        stuck = ", ".join(str(op) for op in ops if id(op) not in done)
        raise GraphError(f"the graph has a cycle through or before {stuck}; cut it")
    return ordered
