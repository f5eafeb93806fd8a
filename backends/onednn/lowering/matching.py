"""How a row of the table in `fusions.py` finds its ops, which become one partition, by what is in the middle of them.

A row has an anchor, what may come before it on its inputs, and what may follow, one after another. The lowering
decides which of them become one primitive; the row only says what belongs together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....graph.model.op import Op
from ....graph.model.topology import Topology
from ....ops.records import frozen
from .decompression import may_decompress
from .links import MOST_LINKS, Link, bias_gradients, swish
from .tensors import unknown_to_library

COMPRESSED = ("MatMul", "TypeCast")
"""Kinds before which weights in groups may be made real: a product, and a cast before it."""
Refusal = Callable[[Op, Link], str | None]
"""Why the primitive of an op does not take along what follows it, or None where it does."""


@frozen(kw_only=True)
class Fusion:
    """An op, what comes before it and what follows.

    Attributes:
        name: of the pattern.
        priority: higher ones claim first; None where no pattern begins at these ops.
        anchor: kinds of the op in the middle, and why its primitive does not take along what follows it; None for those
            that take nothing along.
        before: kinds that may make an input of it, and of what follows, and nothing else.
        then: kinds that may follow, in any number and order.
        last: kinds that may follow at the very end.
    """

    name: str
    priority: float | None
    anchor: Mapping[str, Refusal | None]
    before: frozenset[str] = frozenset()
    then: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()

    def match(self, op: Op, topology: Topology) -> tuple[Op, ...] | None:
        """The ops around the anchor `op`, or None where it stands alone."""
        if op.kind not in self.anchor:
            return None
        found = [op]
        _take_before(found, op, self.before, topology)
        _follow(found, op, self.then, self.before, topology)
        end = _only_reader(_tail(found, op, topology), topology)
        if end is not None and end.kind in self.last:
            found.append(end)
        return tuple(dict.fromkeys(found)) if len(found) > 1 else None

    def ends(self, ops: Sequence[Op], topology: Topology) -> str | None:
        """Why no more is taken behind these ops; None where nothing follows them, or they have no anchor."""
        anchor = next((op for op in ops if op.kind in self.anchor), None)
        if anchor is None:
            return None
        tail = _tail(ops, anchor, topology)
        readers = _readers(tail, topology)
        if not readers or (tail is not anchor and tail.kind in self.last):
            return None
        if len(readers) > 1:
            return f"ends at {tail}, which {len(readers)} ops read"
        if _only_reader(tail, topology) is None:
            return f"ends at {tail}, of which {readers[0]} reads another result than the first"
        if readers[0].kind not in self.then | self.last:
            return f"ends at {tail}, for it takes no {readers[0].kind} along"
        return f"takes {MOST_LINKS} ops along at most" if len(ops) > MOST_LINKS else None


def _readers(op: Op, topology: Topology) -> list[Op]:
    """Who reads results of `op`, once for each that it reads; GenIndex looks at the shape only."""
    return [r for tensor in op.outputs for r in topology.readers(tensor) if r.kind != "GenIndex"]


def _only_reader(op: Op, topology: Topology) -> Op | None:
    """The one op that reads the first output of `op`, and nobody its others."""
    readers = _readers(op, topology)
    if len(readers) != 1 or not any(t.id == op.outputs[0].id for t in readers[0].inputs):
        return None
    return readers[0]


def _tail(found: Sequence[Op], anchor: Op, topology: Topology) -> Op:
    """The last op of the chain that begins at the anchor."""
    members = {id(op) for op in found}
    tail = anchor
    while True:
        readers = [r for t in tail.outputs for r in topology.readers(t) if id(r) in members]
        if not readers:
            return tail
        tail = max(readers, key=lambda op: topology.position[id(op)])


def _take_before(
    found: list[Op], op: Op, kinds: frozenset[str], topology: Topology, most: int = MOST_LINKS
) -> None:
    """Adds the ops that make inputs of `op` alone, and those before them, at most so many one after another.

    One that reads what no primitive takes, as numbers of 4 bits or 8-bit floats, stays outside, for it runs elsewhere.
    """
    for tensor in op.inputs if most else ():
        producer = topology.producer(tensor)
        if producer is None:
            continue
        known = all(unknown_to_library(source) is None for source in producer.inputs)
        taken = (producer.kind in kinds and known) or (op.kind in COMPRESSED and may_decompress(producer))
        if not taken or producer in found:
            continue
        if all(reader is op for reader in topology.readers(tensor)):
            found.append(producer)
            _take_before(found, producer, kinds, topology, most - 1)


def _follow(
    found: list[Op], op: Op, kinds: frozenset[str], before: frozenset[str], topology: Topology
) -> None:
    """Adds the chain of ops that follow `op`, as long as a primitive may take it along."""
    for _ in range(MOST_LINKS):
        if len(op.outputs) != 1:
            return
        gated = swish(op.outputs[0], topology.readers) if {"Sigmoid", "Multiply"} <= kinds else None
        if gated is not None:
            found += gated
            op = gated[1]
            continue
        reader = _only_reader(op, topology)
        if reader is None or reader.kind not in kinds:
            return
        found.append(reader)
        _take_before(found, reader, before, topology)
        op = reader


@frozen(kw_only=True)
class Attention:
    """MatMul, scales and masks, SoftMax, and MatMul: softmax(Q · Kᵀ / scale + mask) · V.

    Attributes:
        name, priority, before, then, last: as of a `Fusion`, whose anchor is the second product.
        scores: kinds between the first product and the softmax.
        masks: kinds that make other inputs of these.
        weights: kinds between the softmax and the second product.
    """

    name: str
    priority: float
    scores: frozenset[str]
    masks: frozenset[str]
    weights: frozenset[str]
    before: frozenset[str]
    then: frozenset[str]
    last: frozenset[str]

    def match(self, op: Op, topology: Topology) -> tuple[Op, ...] | None:
        """The ops from the first matmul to the second."""
        if op.kind != "MatMul":
            return None
        found = [op]
        _take_before(found, op, self.before, topology)
        reached = self._walk(found, op, self.scores, "SoftMax", topology)
        reached = (
            self._walk(found, reached, self.weights, "MatMul", topology) if reached is not None else None
        )
        if reached is None:
            return None
        _take_before(found, reached, self.before, topology)
        _follow(found, reached, self.then, self.before, topology)
        end = _only_reader(_tail(found, reached, topology), topology)
        if end is not None and end.kind in self.last:
            found.append(end)
        return tuple(dict.fromkeys(found))

    def _walk(
        self, found: list[Op], op: Op, kinds: frozenset[str], goal: str, topology: Topology
    ) -> Op | None:
        """Follows the chain through `kinds` to an op of kind `goal`."""
        while True:
            reader = _only_reader(op, topology)
            if reader is None:
                return None
            found.append(reader)
            if reader.kind == goal:
                return reader
            if reader.kind not in kinds:
                return None
            _take_before(found, reader, self.masks, topology)
            op = reader


@frozen
class WithBias:
    """A weight gradient and the gradient of the bias, which sums the same diff_dst.

    Attributes:
        name, priority: as of a `Fusion`.
    """

    name: str
    priority: float

    def match(self, op: Op, topology: Topology) -> tuple[Op, ...] | None:
        """The two, or None where there is no second."""
        beside = next(bias_gradients(op, topology.readers), None)
        return None if beside is None else (op, beside)
