"""The arithmetic that rules are written in: ops of the set, with the casts and the broadcasting that they need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.records import define
from ...ops.registry import REGISTRY
from ...ops.schema import UNKNOWN_DIM, Shape
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import numpy_type


def is_float(data_type: DataType) -> bool:
    """Whether gradients can be of this type."""
    return data_type in (DataType.f32, DataType.bf16, DataType.f16, DataType.f64)


def dims_of(tensor: LogicalTensor) -> tuple[int, ...]:
    """The shape of a tensor, -1 for sizes that are not known.

    Raises:
        UnsupportedError: not even the number of axes is known.
    """
    if tensor.shape is None:
        raise UnsupportedError(
            f"a gradient needs the number of axes of {tensor}, which is not known; describe its shape"
        )
    return tensor.shape


def rank_of(tensor: LogicalTensor) -> int:
    """How many axes a tensor has; see `dims_of`."""
    return len(dims_of(tensor))


def sizes(tensor: LogicalTensor) -> tuple[int, ...]:
    """All sizes of a tensor.

    Raises:
        UnsupportedError: one is not known.
    """
    if not tensor.is_concrete:
        raise UnsupportedError(
            f"a gradient needs all sizes of {tensor}, which are not known; describe it with them"
        )
    return tensor.dims


@define(eq=False)
class Arithmetic:
    """Adds ops to a graph.

    Attributes:
        graph: where the ops go.
    """

    graph: GraphCore
    _numbers: dict[tuple[float, DataType, tuple[int, ...]], LogicalTensor] = field(
        init=False, factory=dict[tuple[float, DataType, tuple[int, ...]], LogicalTensor]
    )
    _values: dict[int, float] = field(init=False, factory=dict[int, float])

    # --- ops of any kind ---

    def ops(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor],
        attributes: Mapping[str, object],
        *,
        outputs: int | None = None,
        wanted: DataType | None = None,
    ) -> tuple[LogicalTensor, ...]:
        """Adds an op and returns all that it makes.

        Args:
            kind: of the op.
            inputs, attributes: of the op.
            outputs: how many; as its attributes say if None.
            wanted: data type of the first output, where the inputs leave it open.
        """
        schema, _ = REGISTRY.resolve(kind)
        first = schema.output_types([t.data_type for t in inputs], 1, wanted)
        options: dict[str, Any] = {"output_type": first[0], "outputs": outputs, **attributes}
        made: LogicalTensor | tuple[LogicalTensor, ...] = self.graph.op(kind, *inputs, **options)
        return (made,) if isinstance(made, LogicalTensor) else made

    def op(
        self, kind: str, *inputs: LogicalTensor, wanted: DataType | None = None, **attributes: object
    ) -> LogicalTensor:
        """Adds an op and returns its first output."""
        return self.ops(kind, inputs, attributes, wanted=wanted)[0]

    # --- element by element, with broadcasting ---

    def number(self, value: float, like: LogicalTensor, shape: tuple[int, ...] = ()) -> LogicalTensor:
        """A constant of the type of `like` whose elements are all the same; products of such numbers are made here."""
        key = (value, like.data_type, shape)
        if key not in self._numbers:
            self._numbers[key] = self.graph.constant(np.full(shape, value, numpy_type(like.data_type)))
            if math.prod(shape) == 1:
                self._values[self._numbers[key].id] = value
        return self._numbers[key]

    def add(self, a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
        """Sum, of the type of `a`; the larger operand comes first, as kernels like it."""
        return self.op("Add", *_larger_first(a, b))

    def subtract(self, a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
        """Difference, of the type of `a`."""
        return self.op("Subtract", a, b)

    def multiply(self, a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
        """Product, of the type of `a`; the larger operand comes first, as kernels like it."""
        first, second = _larger_first(a, b)
        factor = self._values.get(second.id)
        if factor is not None and len(second.dims) <= len(first.shape or ()):
            return self.scale(first, factor)
        return self.op("Multiply", first, second)

    def divide(self, a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
        """Quotient, of the type of `a`."""
        return self.op("Divide", a, b)

    def scale(self, tensor: LogicalTensor, factor: float) -> LogicalTensor:
        """A tensor times a number."""
        if factor == 1:
            return tensor
        if tensor.id in self._values:
            return self.number(self._values[tensor.id] * factor, tensor, tensor.dims)
        return self.op("Multiply", tensor, self.number(factor, tensor))

    def negative(self, tensor: LogicalTensor) -> LogicalTensor:
        """A tensor times −1."""
        return self.scale(tensor, -1)

    def choose(self, condition: LogicalTensor, a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
        """`a` where a condition holds, `b` elsewhere."""
        return self.op("Select", condition, a, b)

    def at_least(self, a: LogicalTensor, b: LogicalTensor) -> LogicalTensor:
        """Whether `a` ≥ `b`."""
        return self.op("GreaterEqual", a, b)

    def cast(self, tensor: LogicalTensor, data_type: DataType) -> LogicalTensor:
        """A tensor in another floating-point type."""
        return tensor if tensor.data_type == data_type else self.op("TypeCast", tensor, wanted=data_type)

    # --- shapes ---

    def reshape(self, tensor: LogicalTensor, shape: Sequence[int], named: LogicalTensor) -> LogicalTensor:
        """A tensor's elements under another shape; a size that is not known is the same one at the same place.

        Args:
            tensor: what is to be reshaped.
            shape: -1 for sizes that are not known.
            named: the tensor that a message names.

        Raises:
            UnsupportedError: more than one size remains to be found.
        """
        if tensor.shape == tuple(shape) and UNKNOWN_DIM not in shape:
            return tensor
        if tensor.id in self._values and all(d == 1 for d in shape):
            return self.number(self._values[tensor.id], tensor, tuple(shape))
        have = dims_of(tensor)
        wanted = list(shape)
        zeros = 0 not in wanted
        if wanted.count(UNKNOWN_DIM) > 1 and zeros:
            for axis, (old, new) in enumerate(zip(have, shape, strict=False)):
                if new == UNKNOWN_DIM == old and list(have[:axis]) == list(shape[:axis]):
                    wanted[axis] = 0
        else:
            zeros = False
        if wanted.count(UNKNOWN_DIM) > 1:
            raise UnsupportedError(
                f"a gradient needs the sizes of {named}, of which more than one is not known; describe it with them"
            )
        return self.op("StaticReshape", tensor, shape=wanted, special_zero=zeros)

    def reshape_like(self, tensor: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
        """A tensor's elements under the shape of another one."""
        return self.reshape(tensor, dims_of(like), like)

    def transpose(self, tensor: LogicalTensor, order: Sequence[int]) -> LogicalTensor:
        """A tensor's axes in another order."""
        if list(order) == list(range(len(order))):
            return tensor
        return self.op("StaticTranspose", tensor, order=list(order))

    def total(self, tensor: LogicalTensor, axes: Sequence[int], *, keep: bool = True) -> LogicalTensor:
        """Sum along axes, which stay with one element."""
        if not axes:
            return tensor
        return self.op("ReduceSum", tensor, axes=list(axes), keep_dims=keep)

    def expand(self, tensor: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
        """A tensor repeated to the shape of another one."""
        if tensor.shape == like.shape and tensor.is_concrete:
            return tensor
        if like.is_concrete:
            return self.op("HostExpand", tensor, shape=list(like.dims))
        return self.op("HostExpandTo", tensor, like)

    def sum_to(
        self,
        tensor: LogicalTensor,
        full: LogicalTensor,
        to: LogicalTensor,
        others: Sequence[Shape] = (),
    ) -> LogicalTensor:
        """The sum that undoes a broadcast.

        Args:
            tensor: gradient of `full`, or what its elements are where they are equal along an axis.
            full: what `to` was broadcast to.
            to: what was broadcast; the gradient by it is what comes out, of fewer elements where they are equal along
                an axis.
            others: shapes of what else was broadcast, which tell where a size that is not known is that of `to`.
        """
        if full.shape == to.shape and full.is_concrete:
            return tensor
        plan = _undone(tensor.shape, full.shape, to.shape, others)
        if plan is None:  # only the arrays will tell
            return self.op("HostSumTo", self.expand(tensor, full), to)
        lead = rank_of(tensor) - rank_of(to)
        axes, repeats = plan
        alone = lead > 0 and axes == tuple(range(lead))
        made = self.scale(self.total(tensor, axes, keep=not alone), repeats)
        return made if alone or lead <= 0 else self.reshape(made, dims_of(made)[lead:], to)


def _larger_first(a: LogicalTensor, b: LogicalTensor) -> tuple[LogicalTensor, LogicalTensor]:
    """Two operands that may be exchanged, by how many elements they have as far as that is known."""
    many = 2**20
    elements = [math.prod(d if d >= 0 else many for d in t.shape or (many,)) for t in (a, b)]
    return (b, a) if elements[1] > elements[0] and a.data_type == b.data_type else (a, b)


def _undone(
    have: Shape, full: Shape, to: Shape, others: Sequence[Shape]
) -> tuple[tuple[int, ...], int] | None:
    """The axes of a gradient that are to be summed, and by how much the sum counts; None where sizes leave it open.

    Args:
        have: shape of the gradient, whose elements may be equal along an axis, and stand there once.
        full: what it is the gradient of.
        to: what was broadcast to `full`.
        others: what else was.
    """
    if have is None or full is None or to is None or any(other is None for other in others):
        return None
    axes: list[int] = []
    repeats = 1
    for back in range(1, len(full) + 1):
        whole = full[-back]
        own = to[-back] if back <= len(to) else 1
        once = back > len(have) or have[-back] == 1
        if own == UNKNOWN_DIM:
            # The size is that of the whole, unless it is 1 and another one made it more.
            if any(other is not None and back <= len(other) and other[-back] != 1 for other in others):
                return None
        elif own == 1 and whole != 1:
            if not once:
                axes.append(len(have) - back)
            elif whole == UNKNOWN_DIM:
                return None
            else:
                repeats *= whole
        elif back > len(to) and back <= len(have) and not once:
            axes.append(len(have) - back)
    return tuple(sorted(axes)), repeats


def count(shape: Sequence[int], axes: Sequence[int]) -> int:
    """How many elements a sum along axes has."""
    return math.prod(shape[axis] for axis in axes)
