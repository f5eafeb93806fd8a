"""Patterns: which ops become one partition, by what is in the middle of them.

A pattern has an anchor, what may come before it on its inputs, and what may follow, one after another. The lowering
decides which of them become one primitive; the pattern only says what belongs together. Priorities are ordered as in
oneDNN Graph: the longest and most valuable ones claim first.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from ....graph.compile.backend import SINGLE_OP_PRIORITY, Pattern
from ....graph.model.op import Op
from ....graph.model.topology import Topology
from .fusing import BINARY, ELTWISE, MOST_LINKS, swish

FORWARD_ELTWISE = frozenset(ELTWISE)
ARITHMETIC = frozenset(BINARY)
POST_OPS = FORWARD_ELTWISE | ARITHMETIC | {"BiasAdd", "TypeCast", "Reorder"}
CASTS = frozenset({"TypeCast", "Dequantize"})
REDUCTIONS = frozenset(
    {"ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum"}
)
SCORES = ARITHMETIC | FORWARD_ELTWISE | {"Select", "TypeCast"}
"""Between the first matmul of an attention and its softmax: scales, caps and masks."""
MASKS = CASTS | {"GenIndex", "GreaterEqual", "Add", "Subtract"}
"""What makes a mask from the positions of the scores."""
WEIGHTS = frozenset({"TypeCast", "Dropout", "Multiply", "Quantize", "Dequantize"})
"""Between its softmax and the second matmul."""


@frozen(kw_only=True)
class Fusion:
    """A row of the table.

    Attributes:
        name: of the pattern.
        priority: higher ones claim first.
        anchor: kinds of the op in the middle.
        before: kinds that may make an input of it, and of what follows, and nothing else.
        then: kinds that may follow, in any number and order.
        last: kinds that may follow at the very end.
    """

    name: str
    priority: float
    anchor: frozenset[str]
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


def _only_reader(op: Op, topology: Topology) -> Op | None:
    """The one op that reads the first output of `op`, and nobody its others; GenIndex looks at the shape only."""
    readers = [r for tensor in op.outputs for r in topology.readers(tensor) if r.kind != "GenIndex"]
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
    """Adds the ops that make inputs of `op` alone, and those before them, at most so many one after another."""
    for tensor in op.inputs if most else ():
        producer = topology.producer(tensor)
        if producer is None or producer.kind not in kinds or producer in found:
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


@frozen
class Attention:
    """MatMul, scales and masks, SoftMax, and MatMul: softmax(Q · Kᵀ / scale + mask) · V.

    Attributes:
        name, priority: as of a `Fusion`.
    """

    name: str
    priority: float

    def match(self, op: Op, topology: Topology) -> tuple[Op, ...] | None:
        """The ops from the first matmul to the second."""
        if op.kind != "MatMul":
            return None
        found = [op]
        _take_before(found, op, CASTS, topology)
        reached = self._walk(found, op, SCORES, "SoftMax", topology)
        reached = self._walk(found, reached, WEIGHTS, "MatMul", topology) if reached is not None else None
        if reached is None:
            return None
        _take_before(found, reached, CASTS, topology)
        _follow(
            found,
            reached,
            frozenset({"TypeCast", "StaticTranspose", "Reorder", "StaticReshape"}),
            CASTS,
            topology,
        )
        end = _only_reader(_tail(found, reached, topology), topology)
        if end is not None and end.kind == "Quantize":
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
            _take_before(found, reader, MASKS, topology)
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
        if op.kind != "ConvolutionBackwardWeights":
            return None
        data_format = op.attributes["data_format"]
        for reader in topology.readers(op.inputs[1]):
            if reader.kind == "BiasAddBackward" and reader.attributes["data_format"] == data_format:
                return op, reader
        return None


CONVOLUTIONS = frozenset({"Convolution", "ConvTranspose"})
QUANTIZE = frozenset({"Quantize"})

FUSIONS: tuple[Fusion | Attention | WithBias, ...] = (
    Attention("attention", SINGLE_OP_PRIORITY + 20),
    WithBias("weight gradient with bias gradient", SINGLE_OP_PRIORITY + 11),
    Fusion(
        name="convolution with post-ops",
        priority=SINGLE_OP_PRIORITY + 10,
        anchor=CONVOLUTIONS,
        before=CASTS,
        then=POST_OPS | {"BatchNormInference"},
        last=QUANTIZE,
    ),
    Fusion(
        name="matmul with post-ops",
        priority=SINGLE_OP_PRIORITY + 10,
        anchor=frozenset({"MatMul"}),
        before=CASTS,
        then=POST_OPS,
        last=QUANTIZE,
    ),
    Fusion(
        name="normalization with ReLU or casts",
        priority=SINGLE_OP_PRIORITY + 9,
        anchor=frozenset({"BatchNormInference", "LayerNorm", "SoftMax"}),
        before=CASTS,
        then=frozenset({"ReLU", "TypeCast", "Multiply", "Add"}),
        last=QUANTIZE,
    ),
    Fusion(
        name="pooling, reduction or interpolation with post-ops",
        priority=SINGLE_OP_PRIORITY + 8,
        anchor=frozenset({"AvgPool", "MaxPool", "Interpolate"}) | REDUCTIONS,
        before=CASTS,
        then=FORWARD_ELTWISE | ARITHMETIC,
        last=QUANTIZE,
    ),
    Fusion(
        name="quantized movement",
        priority=SINGLE_OP_PRIORITY + 8,
        anchor=frozenset({"Concat", "Reorder"}),
        before=CASTS,
        then=frozenset({"Add"}),
        last=QUANTIZE,
    ),
    Fusion(
        name="gradient through a ReLU",
        priority=SINGLE_OP_PRIORITY + 7,
        anchor=frozenset({"ReLUBackward"}),
        then=frozenset({"BatchNormTrainingBackward"}),
    ),
    Fusion(
        name="binary with post-ops",
        priority=SINGLE_OP_PRIORITY + 6,
        anchor=ARITHMETIC | {"BiasAdd"},
        before=CASTS,
        then=FORWARD_ELTWISE | ARITHMETIC,
        last=QUANTIZE,
    ),
    Fusion(
        name="eltwise with post-ops",
        priority=SINGLE_OP_PRIORITY + 5,
        anchor=FORWARD_ELTWISE,
        before=CASTS,
        then=ARITHMETIC,
        last=QUANTIZE,
    ),
    Fusion(
        name="casts",
        priority=SINGLE_OP_PRIORITY + 1,
        anchor=frozenset({"TypeCast", "Dequantize"}),
        then=frozenset({"TypeCast"}),
        last=QUANTIZE,
    ),
)
"""What is fused, from the first to the last that may claim."""

PATTERNS: tuple[Pattern, ...] = tuple(Pattern(f.name, f.priority, f.match) for f in FUSIONS)
HOSTED = frozenset({"Select", "Dropout", "GenIndex", "GreaterEqual"})
"""Kinds that a pattern may contain without a primitive for them: they are steps on the host."""
