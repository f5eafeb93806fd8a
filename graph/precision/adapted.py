"""What is found in a graph: weights that it multiplies by, and the low-rank adapters beside them."""

from __future__ import annotations

from typing import Any

from ...ops.formats import axis_positions
from ...ops.records import frozen
from ..model.logical_tensor import LogicalTensor, label
from ..model.op import Op
from .rewriting import Rewriting

KINDS = ("MatMul", "Convolution")
A, B = "lora_A.weight", "lora_B.weight"
"""Ends of the names of an adapter's parts."""


@frozen
class Use:
    """An op that multiplies by weights which the graph holds.

    Attributes:
        op: the op. place: which of its inputs.
        held: id of the weights.
        way: ops between them, TypeCast and StaticTranspose, from the weights to the op.
    """

    op: Op
    place: int
    held: int
    way: tuple[Op, ...]

    @property
    def turned(self) -> bool:
        """Whether a MatMul takes the weights transposed."""
        return self.op.attributes.flag("transpose_b" if self.place else "transpose_a")

    @property
    def orders(self) -> list[tuple[int, ...]]:
        """How the axes are turned on the way."""
        return [tuple(op.attributes.integers("order")) for op in self.way if op.kind == "StaticTranspose"]


@frozen
class Adapter:
    """An adapter that is found beside weights.

    Attributes:
        use: of the weights.
        result: what is made of both.
        first, second: ids of its parts, A and B.
        scale: what its product is multiplied by.
        gone: ids of the ops that are not needed without it.
    """

    use: Use
    result: LogicalTensor
    first: int
    second: int
    scale: float
    gone: frozenset[int]


def uses_of(r: Rewriting[Any]) -> list[Use]:
    """All MatMuls and Convolutions with weights that the graph holds, in order."""
    found: list[Use] = []
    for op in r.ops:
        if op.kind not in KINDS:
            continue
        for place in (1, 0) if op.kind == "MatMul" else (1,):
            held, way = source_of(r, op.inputs[place])
            if held in r.held and r.tensors[held].shape is not None and len(r.tensors[held].dims) > 1:
                found.append(Use(op, place, held, way))
                break
    return found


def source_of(r: Rewriting[Any], tensor: LogicalTensor) -> tuple[int, tuple[Op, ...]]:
    """Where a tensor comes from, by ops that only turn it or give it another type."""
    way: list[Op] = []
    producer = r.topology.producer(tensor)
    while producer is not None and producer.kind in ("TypeCast", "StaticTranspose"):
        way.insert(0, producer)
        tensor = producer.inputs[0]
        producer = r.topology.producer(tensor)
    return tensor.id, tuple(way)


def outputs_first(op: Op, rank: int) -> list[int]:
    """The axes of a convolution's weights in the order output, input, taps."""
    at = axis_positions(op.attributes.string("weights_format"), rank - 2)
    return [*at["O"], *at["I"], *at["X"]]


def adapters_of(r: Rewriting[Any]) -> list[Adapter]:
    """All that a graph has, as `Graph.adapters` adds them; others have such names too, in other forms."""
    uses = {use.op.outputs[0].id: use for use in uses_of(r)}
    return [one for op in r.ops if (one := _adapter(r, op, uses)) is not None]


def _adapter(r: Rewriting[Any], op: Op, uses: dict[int, Use]) -> Adapter | None:
    """The adapter whose product an op adds, if it does."""
    if op.kind != "Add" or op.inputs[0].id not in uses:
        return None
    use, gone = uses[op.inputs[0].id], {op.id}
    up = _behind_casts(r, op.inputs[1], gone)
    second = _weights(r, up, use, B, gone)
    if up is None or second is None:
        return None
    src = up.inputs[1 - use.place]
    scaled, scale = r.topology.producer(src), 1.0
    held = r.arrays.get(scaled.inputs[1].id) if scaled is not None and scaled.kind == "Multiply" else None
    if scaled is not None and held is not None and held.size == 1:
        gone.add(scaled.id)
        scale = float(held.item())
        scaled = r.topology.producer(scaled.inputs[0])
    first = _weights(r, scaled, use, A, gone)
    if first is None:
        return None
    return Adapter(use, op.outputs[0], first, second, scale, frozenset(gone))


def _behind_casts(r: Rewriting[Any], tensor: LogicalTensor, gone: set[int]) -> Op | None:
    """The op that makes a tensor, but for a cast, which is not needed any more."""
    op = r.topology.producer(tensor)
    if op is not None and op.kind == "TypeCast":
        gone.add(op.id)
        op = r.topology.producer(op.inputs[0])
    return op


def _weights(r: Rewriting[Any], op: Op | None, use: Use, ending: str, gone: set[int]) -> int | None:
    """Id of an adapter's part where an op multiplies by it."""
    if op is None or op.kind != use.op.kind:
        return None
    held, way = source_of(r, op.inputs[use.place])
    if held not in r.held or not label(r.tensors[held]).rstrip("_").endswith(f".{ending}"):
        return None
    gone.update((op.id, *(one.id for one in way)))
    return held
