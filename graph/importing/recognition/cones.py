"""Cones: elementwise ops between one tensor and another, with numbers beside them and no reader inside."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ....ops.attributes import AttributeValue
from ....ops.records import frozen
from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from .surroundings import Surroundings

MOST_OPS = 16
"""Of one cone. The longest known spelling, a Mish without overflow, has eleven."""

Operand = int | tuple[float, str]
"""The number of a tensor of the cone, or a constant and its type."""


@frozen
class ConeOp:
    """One op of a cone without its place in the graph.

    Attributes:
        kind, attributes: of the op.
        operands: what it reads.
        made: the number of the tensor that it makes.
        data_type: of that tensor.
    """

    kind: str
    attributes: tuple[tuple[str, AttributeValue], ...]
    operands: tuple[Operand, ...]
    made: int
    data_type: str


@frozen
class Structure:
    """What a cone computes: equal for the equal layers of a model.

    Attributes:
        nodes: from the last op to the first.
        source: the number of the tensor at its beginning.
    """

    nodes: tuple[ConeOp, ...]
    source: int


@frozen(eq=False)
class Cone:
    """A cone of the graph.

    Attributes:
        source: the tensor that it begins with.
        ops: from the last to the first.
        structure: what they compute.
    """

    source: LogicalTensor
    ops: tuple[Op, ...]
    structure: Structure


def cones(end: Op, around: Surroundings, kinds: Collection[str]) -> Iterator[Cone]:
    """The cones of ops of these kinds that end in an op, from the smallest to the largest.

    The tensor that was made last is always the next to be followed back: all its readers are known by then.
    """
    numbers: dict[int, int] = {end.outputs[0].id: 0}
    frontier: dict[int, LogicalTensor] = {end.outputs[0].id: end.outputs[0]}
    ops: list[Op] = []
    nodes: list[ConeOp] = []
    while len(ops) < MOST_OPS:
        made = [op for t in frontier.values() if (op := around.producer(t)) is not None]
        if not made:
            return
        op = max(made, key=lambda one: around.position[one.id])
        tensor = op.outputs[0]
        inside = not ops or around.read_within(tensor, [one.id for one in ops])
        if op.kind not in kinds or len(op.outputs) != 1 or not inside:
            return
        operands = [_operand(t, numbers, around) for t in op.inputs]
        del frontier[tensor.id]
        frontier.update((t.id, t) for t, o in zip(op.inputs, operands, strict=True) if isinstance(o, int))
        ops.append(op)
        nodes.append(
            ConeOp(
                op.kind,
                tuple(op.attributes.items()),
                tuple(operands),
                numbers[tensor.id],
                tensor.data_type.value,
            )
        )
        if len(frontier) == 1:
            (source,) = frontier.values()
            if _fits(source, end.outputs[0], around):
                yield Cone(source, tuple(ops), Structure(tuple(nodes), numbers[source.id]))


def _operand(tensor: LogicalTensor, numbers: dict[int, int], around: Surroundings) -> Operand:
    number = around.scalar(tensor)
    if number is not None:
        return number, tensor.data_type.value
    return numbers.setdefault(tensor.id, len(numbers))


def _fits(source: LogicalTensor, end: LogicalTensor, around: Surroundings) -> bool:
    """Whether one op can make the one out of the other: a number of more axes would give it more."""
    return (
        source.shape is not None
        and source.shape == end.shape
        and source.data_type == end.data_type
        and around.constant(source) is None
    )


def constants_of(structure: Structure) -> Sequence[tuple[float, str]]:
    """The numbers of a cone with their types, those of attributes too."""
    found: list[tuple[float, str]] = []
    for node in structure.nodes:
        found += [operand for operand in node.operands if not isinstance(operand, int)]
        found += [(float(v), node.data_type) for _, v in node.attributes if isinstance(v, float)]
    return found
