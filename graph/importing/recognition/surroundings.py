"""What recognising asks of a graph: who makes a tensor, who reads it, and what constants are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from ...runtime.arrays import Array


class Surroundings:
    """Who feeds whom in an open graph, and its constants.

    Attributes:
        graph: the graph.
        ops: its ops, as the importer added them: each behind those that it reads from.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops = graph.ops
        self.position = {op.id: number for number, op in enumerate(self.ops)}
        self._producers = {t.id: op for op in self.ops for t in op.outputs}
        self._readers: dict[int, list[Op]] = {}
        for op in self.ops:
            for number in dict.fromkeys(t.id for t in op.inputs):
                self._readers.setdefault(number, []).append(op)
        self._constants = graph.held_constants
        self._outputs = {number for _, number in graph.marked_outputs}

    def ops_of(self, ids: Iterable[int]) -> list[Op]:
        """The ops with these ids."""
        return [self.ops[self.position[number]] for number in ids]

    def producer(self, tensor: LogicalTensor) -> Op | None:
        """The op that makes a tensor; None for inputs and constants."""
        return self._producers.get(tensor.id)

    def readers(self, tensor: LogicalTensor) -> Sequence[Op]:
        """The ops that read a tensor."""
        return self._readers.get(tensor.id, ())

    def read_within(self, tensor: LogicalTensor, members: Iterable[int]) -> bool:
        """Whether a tensor is no output of the graph, and no op but these, by their ids, reads it."""
        allowed = frozenset(members)
        return tensor.id not in self._outputs and all(op.id in allowed for op in self.readers(tensor))

    def only_reader(self, tensor: LogicalTensor) -> Op | None:
        """The one op that reads a tensor, which is no output of the graph; None if there is another or none."""
        readers = self.readers(tensor)
        return readers[0] if len(readers) == 1 and tensor.id not in self._outputs else None

    def constant(self, tensor: LogicalTensor) -> Array | None:
        """The content of a constant that the graph holds."""
        return self._constants.get(tensor.id)

    def scalar(self, tensor: LogicalTensor) -> float | None:
        """The number in a constant of one element."""
        array = self._constants.get(tensor.id)
        if array is None or array.size != 1:
            return None
        return float(array.astype(np.float64).reshape(-1)[0])
