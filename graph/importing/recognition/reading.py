"""Parts of a written formula, read from their results back: squares, roots, reductions, vectors."""

from __future__ import annotations

from ....ops.records import frozen
from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from .surroundings import Surroundings


@frozen(eq=False)
class Written:
    """A formula of the graph that is one op.

    Attributes:
        last: the op that makes its result.
        kind: of the one op.
        source: the tensor that it reads.
        attributes: of the one op.
        members: ids of the ops that it stands for.
        vectors: further inputs, for the last axes of the source; None for one that changes nothing.
        first: where these axes begin.
    """

    last: Op
    kind: str
    source: LogicalTensor
    attributes: dict[str, object]
    members: frozenset[int]
    vectors: tuple[LogicalTensor | None, ...] = ()
    first: int = 0

    def stands_alone(self, around: Surroundings) -> bool:
        """Whether nothing else reads what lies inside, and no number in it gives the result more axes."""
        return self.last.outputs[0].shape == self.source.shape and all(
            around.read_within(tensor, self.members)
            for op in around.ops_of(self.members)
            if op is not self.last
            for tensor in op.outputs
        )


def made_by(around: Surroundings, tensor: LogicalTensor, *kinds: str) -> Op | None:
    """The op that makes a tensor, if it is of one of these kinds."""
    op = around.producer(tensor)
    return op if op is not None and op.kind in kinds else None


def is_power(op: Op, exponent: float) -> bool:
    """Whether an op is x to that power."""
    return op.kind == "Pow" and op.attributes.real("beta") == exponent


def squared(op: Op) -> LogicalTensor | None:
    """The x of what is x²."""
    if op.kind == "Square" or is_power(op, 2.0):
        return op.inputs[0]
    if op.kind == "Multiply" and op.inputs[0].id == op.inputs[1].id:
        return op.inputs[0]
    return None


def reduced_axes(op: Op, kind: str) -> tuple[int, ...] | None:
    """The axes, from the front and in order, of a reduction of that kind that keeps them; None for another op."""
    shape = op.inputs[0].shape if op.inputs else None
    if op.kind != kind or len(op.inputs) != 1 or shape is None or not op.attributes.flag("keep_dims"):
        return None
    return tuple(sorted(axis % len(shape) for axis in op.attributes.integers("axes")))


def other(op: Op, tensor: LogicalTensor) -> LogicalTensor | None:
    """The second operand of an op of two, whichever place the first one has; None where it is the same."""
    left, right = op.inputs
    if left.id == right.id:
        return None
    return right if left.id == tensor.id else left


def is_vector(tensor: LogicalTensor, data: LogicalTensor, first: int) -> bool:
    """Whether a tensor has one element for each of the last axes of `data`, from `first` on, and no more."""
    if tensor.shape is None or data.shape is None or tensor.data_type != data.data_type:
        return False
    wanted = data.shape[first:]
    ahead = len(tensor.shape) - len(wanted)
    return 0 <= ahead <= first and tensor.shape[ahead:] == wanted and set(tensor.shape[:ahead]) <= {1}
