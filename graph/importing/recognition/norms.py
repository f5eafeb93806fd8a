"""Layer normalisation written out: (x − mean(x)) / √(mean((x − mean(x))²) + ε) · γ + β."""

from __future__ import annotations

from collections.abc import Iterator

from ...model.logical_tensor import LogicalTensor
from ...model.op import Op
from .reading import Written, is_power, is_vector, made_by, other, reduced_axes, squared
from .surroundings import Surroundings


def layer_norms(around: Surroundings) -> Iterator[Written]:
    """The layer normalisations of a graph, each found by its variance."""
    for op in around.ops:
        found = _Reading(around, op).read() if op.kind == "ReduceMean" else None
        if found is not None and found.stands_alone(around):
            yield found


class _Reading:
    """The way from a variance to the result: everything that is passed is a member."""

    def __init__(self, around: Surroundings, variance: Op) -> None:
        self.around = around
        self.variance = variance
        self.members = {variance.id}
        self.gamma: LogicalTensor | None = None
        self.beta: LogicalTensor | None = None

    def read(self) -> Written | None:
        axes = reduced_axes(self.variance, "ReduceMean")
        x = self._data(axes)
        if x is None or x.shape is None or axes is None or -1 in x.shape[axes[0] :]:
            return None
        self.x, self.axes, self.first = x, axes, axes[0]
        if axes != tuple(range(axes[0], len(x.shape))):
            return None
        epsilon = self._epsilon()
        last = None if epsilon is None else self._normalised(epsilon[0])
        if epsilon is None or last is None:
            return None
        last = self._vector_after(last, "Multiply") or last
        last = self._vector_after(last, "Add") or last
        affine = self.gamma is not None or self.beta is not None
        return Written(
            last=last,
            kind="LayerNorm",
            source=x,
            attributes={
                "begin_norm_axis": self.first,
                "keep_stats": False,
                "epsilon": epsilon[1],
                "use_affine": affine,
            },
            members=frozenset(self.members),
            vectors=(self.gamma, self.beta) if affine else (),
            first=self.first,
        )

    def _data(self, axes: tuple[int, ...] | None) -> LogicalTensor | None:
        """The x of a mean of (x − mean(x))²."""
        square = self.around.producer(self.variance.inputs[0])
        if square is None:
            return None
        self.members.add(square.id)
        if square.kind == "SquaredDifference":
            pairs = (square.inputs, square.inputs[::-1])
            return next((x for x, mean in pairs if self._is_mean(mean, x, axes)), None)
        distance = squared(square)
        return None if distance is None else self._centred(distance, axes)

    def _centred(self, tensor: LogicalTensor, axes: tuple[int, ...] | None) -> LogicalTensor | None:
        """The x of x − mean(x)."""
        op = made_by(self.around, tensor, "Subtract")
        if op is None or not self._is_mean(op.inputs[1], op.inputs[0], axes):
            return None
        self.members.add(op.id)
        return op.inputs[0]

    def _is_mean(self, tensor: LogicalTensor, x: LogicalTensor, axes: tuple[int, ...] | None) -> bool:
        op = made_by(self.around, tensor, "ReduceMean")
        if op is None or axes is None or reduced_axes(op, "ReduceMean") != axes or op.inputs[0].id != x.id:
            return False
        self.members.add(op.id)
        return True

    def _next(self, op: Op) -> Op | None:
        """The one op that reads the result of another."""
        return self.around.only_reader(op.outputs[0])

    def _epsilon(self) -> tuple[Op, float] | None:
        """The sum of the variance and a number."""
        op = self._next(self.variance)
        if op is None or op.kind != "Add":
            return None
        second = other(op, self.variance.outputs[0])
        number = None if second is None else self.around.scalar(second)
        if number is None or number < 0:
            return None
        self.members.add(op.id)
        return op, number

    def _normalised(self, op: Op) -> Op | None:
        """From variance + ε to the quotient of x − mean(x) and its root."""
        root = self._next(op)
        if root is None:
            return None
        self.members.add(root.id)
        if is_power(root, -0.5):
            return self._multiplied(root)
        if root.kind != "Sqrt" and not is_power(root, 0.5):
            return None
        reader = self._next(root)
        if reader is None:
            return None
        self.members.add(reader.id)
        if reader.kind == "Reciprocal":
            return self._multiplied(reader)
        if reader.kind != "Divide" or reader.inputs[1].id != root.outputs[0].id:
            return None
        if self.around.scalar(reader.inputs[0]) == 1:
            return self._multiplied(reader)
        return reader if self._is_numerator(reader.inputs[0]) else None

    def _multiplied(self, inverse: Op) -> Op | None:
        """The product of 1 / root and x − mean(x), γ before it or not."""
        op = self._next(inverse)
        factor = other(op, inverse.outputs[0]) if op is not None and op.kind == "Multiply" else None
        if op is None or factor is None:
            return None
        self.members.add(op.id)
        if self._is_numerator(factor):
            return op
        if self.gamma is None and is_vector(factor, self.x, self.first):
            self.gamma = factor
            return self._multiplied(op)
        return None

    def _is_numerator(self, tensor: LogicalTensor) -> bool:
        """Whether a tensor is x − mean(x), or that times γ."""
        source = self._centred(tensor, self.axes)
        if source is not None:
            return source.id == self.x.id
        op = made_by(self.around, tensor, "Multiply")
        if op is None or self.gamma is not None:
            return False
        for vector, part in (op.inputs, op.inputs[::-1]):
            source = self._centred(part, self.axes) if is_vector(vector, self.x, self.first) else None
            if source is not None and source.id == self.x.id:
                self.members.add(op.id)
                self.gamma = vector
                return True
        return False

    def _vector_after(self, last: Op, kind: str) -> Op | None:
        """A product with γ, or a sum with β, that follows."""
        op = self._next(last)
        vector = other(op, last.outputs[0]) if op is not None and op.kind == kind else None
        if op is None or vector is None or not is_vector(vector, self.x, self.first):
            return None
        if kind == "Multiply":
            if self.gamma is not None:
                return None
            self.gamma = vector
        else:
            self.beta = vector
        self.members.add(op.id)
        return op
