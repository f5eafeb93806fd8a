"""Weights in 8 or 4 bits, in groups with a scale each, before matmuls whose activations stay as they are.

`dynamic.py` has activations become integers, too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Generic

import numpy as np

from ...ops.data_types import DataType, parse_data_type
from ...ops.errors import ArgumentError
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..core.building import G
from ..model.logical_tensor import LogicalTensor, format_shape, label
from ..model.op import Op
from ..runtime.arrays import Array, numpy_type
from .adapters import Use, uses_of
from .ranges import LEAST
from .rewriting import Rewriting, frozen_parameters, kept

RANGES = {DataType.s8: (-128, 127), DataType.u8: (0, 255), DataType.s4: (-8, 7), DataType.u4: (0, 15)}
"""What each type holds. The symmetric ones go as far down as up."""
REAL = (DataType.f32, DataType.bf16, DataType.f16)
"""Types of weights that integers may stand for."""
LEAST_PART = 4
"""A group may be so many times smaller than was asked for where that does not divide the axis."""


@frozen
class Integers:
    """Weights as integers: w ≈ (q − zp) · scale.

    Attributes:
        values: integers, in the shape of the weights.
        scales: one for each group, with an axis for each of the weights'; in their type.
        zps: zero points in the scales' shape; None where all are zero.
        group_shape: elements that share a scale, per axis.
    """

    values: Array
    scales: Array
    zps: Array | None
    group_shape: tuple[int, ...]


def quantize_weights(
    graph: G, data_type: DataType | str, *, group: object = None, keep: Collection[str] = ()
) -> G:
    """See `Graph.quantize_weights`."""
    try:
        wanted = parse_data_type(data_type, "data_type")
    except ArgumentError:  # which lists all types there are
        wanted = None
    if wanted is None or wanted not in RANGES:
        known = ", ".join(one.value for one in RANGES)
        raise ArgumentError(
            f"quantize_weights: data_type must be one of {known}, got {format_value(str(data_type))}"
        )
    size = None if group is None else integer(group)
    if group is not None and (size is None or size < 1):
        raise ArgumentError(
            f"quantize_weights: group must be None or an integer from 1 on, got {format_value(group)}"
        )
    r, uses = products_of(graph, keep, "quantize_weights")
    return _InGroups(r, uses, wanted, size).done()


def products_of(graph: G, keep: Collection[str], method: str) -> tuple[Rewriting[G], dict[int, Use]]:
    """A rewriting in which parameters are constants, and by op the products with constant weights that are meant.

    Args:
        keep: what stays as it is.
        method: who asks, for errors.

    Raises:
        ArgumentError, ArgumentTypeError: an unknown name in `keep`; there is no such product.
    """
    r = Rewriting(frozen_parameters(graph, share_state=True) if graph.parameters else graph)
    left = kept(keep, r.ops, r.tensors.values())
    uses = {
        use.op.id: use
        for use in uses_of(r)
        if _is_meant(r, use) and use.op.id not in left.ops and use.held not in left.tensors
    }
    if not uses:
        more = " but for those that are kept" if keep else ""
        if r.parameters:
            more += "; parameters that the graph assigns stay as they are, take for_inference() of a graph that trains"
        raise ArgumentError(
            f"{method} found no matmul with constant weights as its second factor, of f32, bf16 or f16"
            f"{more}; activations and convolutions become integers by quantize_static(feeds)"
        )
    return r, uses


def _is_meant(r: Rewriting[Any], use: Use) -> bool:
    """Whether it is a product with constant weights that come second."""
    constant = use.held in r.arrays and r.tensors[use.held].data_type in REAL
    return use.op.kind == "MatMul" and use.place == 1 and constant


def group_of(summed: int, wanted: int | None) -> int | None:
    """How many elements share a scale along an axis; None where no size near the wanted one divides it."""
    if wanted is None or wanted >= summed:
        return summed
    sizes = (size for size in range(wanted, 0, -1) if summed % size == 0)
    found = next(sizes)
    return found if found * LEAST_PART >= wanted else None


def integers_of(weights: Array, axis: int, group: int, data_type: DataType, scale_type: DataType) -> Integers:
    """Weights as integers.

    Args:
        weights: finite numbers. axis: along which they are summed. group: how many share a scale; divides the axis.
        data_type: of the integers. scale_type: of the scales, which has the range of f32.
    """
    low, high = RANGES[data_type]
    shape = weights.shape
    groups = (*shape[:axis], shape[axis] // group, group, *shape[axis + 1 :])
    parts = weights.astype(np.float64).reshape(groups)
    if low < 0:
        span = np.abs(parts).max(axis + 1, keepdims=True) / high
        zero = np.zeros_like(span)
    else:
        least = np.minimum(parts.min(axis + 1, keepdims=True), 0)
        span = (np.maximum(parts.max(axis + 1, keepdims=True), 0) - least) / high
        zero = np.rint(-least / np.where(span > 0, span, 1))
    scales = np.where(span > 0, np.maximum(span, LEAST), 1).astype(numpy_type(scale_type))
    real = scales.astype(np.float64)
    made = np.clip(np.rint(parts / real + zero), low, high).reshape(shape).astype(numpy_type(data_type))
    by_group = scales.reshape(*shape[:axis], shape[axis] // group, *shape[axis + 1 :])
    group_shape = tuple(group if one == axis else 1 for one in range(len(shape)))
    points = None if low < 0 else zero.reshape(by_group.shape).astype(numpy_type(data_type))
    return Integers(made, by_group, points, group_shape)


class Quantizing(ABC, Generic[G]):
    """One rewriting, in which products read other weights.

    Args:
        rewriting: from the graph.
        uses: by op, the weights that become integers.
        method: that was called, for errors.
    """

    def __init__(self, rewriting: Rewriting[G], uses: dict[int, Use], method: str) -> None:
        self._rewriting = rewriting
        self._method = method
        self._uses = uses
        self._made: dict[object, LogicalTensor] = {}

    def done(self) -> G:
        """The new graph.

        Raises:
            ArgumentError: NaN or infinities in weights; none could be taken.
        """
        r = self._rewriting
        for tensor in r.source.inputs:
            r.made.add_input(tensor)
        inputs = {op.id: self._inputs(op) for op in r.ops}
        if not self._made:
            held = r.tensors[next(iter(self._uses.values())).held]
            raise ArgumentError(self._none(held))
        needed = self._needed(inputs)
        read = {t.id for op in needed for t in inputs[op.id]} | r.wanted
        for number, array in r.arrays.items():
            if number in read or not r.topology.readers(r.tensors[number]):
                r.made.add_constant(r.tensors[number], array)
        for number, parameter in r.parameters.items():
            r.made.add_parameter(r.tensors[number], parameter)
        for op in needed:
            self._add(op, inputs[op.id])
        r.mark()
        return r.made

    def _needed(self, inputs: dict[int, list[LogicalTensor]]) -> list[Op]:
        """The ops whose results are still read, in order: not those that only turned weights."""
        r, wanted, found = self._rewriting, set(self._rewriting.wanted), list[Op]()
        for op in reversed(r.ops):
            turned = any(op in use.way for use in self._uses.values())
            if not turned or any(t.id in wanted for t in op.outputs):
                found.insert(0, op)
                wanted.update(t.id for t in inputs[op.id])
        return found

    def _inputs(self, op: Op) -> list[LogicalTensor]:
        """What an op reads now."""
        inputs, use = list(op.inputs), self._uses.get(op.id)
        if use is not None:
            inputs[use.place] = self._weights(use) or inputs[use.place]
        return inputs

    def _weights(self, use: Use) -> LogicalTensor | None:
        """What a product reads as its weights; None where they stay as they are."""
        r, tensor = self._rewriting, self._rewriting.tensors[use.held]
        seen = r.arrays[use.held]
        for order in use.orders:
            seen = np.transpose(seen, order)
        axis, read = seen.ndim - (1 if use.turned else 2), use.op.inputs[use.place].data_type
        key = (use.held, tuple(use.orders), axis, read)
        if key in self._made:
            return self._made[key]
        group = self._group_of(use, seen, axis)
        if group is None or seen.size == 0:
            return None
        if not np.isfinite(seen.astype(np.float32)).all():
            raise ArgumentError(
                f"{self._method}: {label(tensor)!r} has NaN or infinities, which integers don't have; name it in keep"
            )
        self._made[key] = self._integers(tensor, seen, axis, group, read)
        return self._made[key]

    def _add(self, op: Op, inputs: Sequence[LogicalTensor]) -> None:
        """Adds an op of the old graph."""
        self._rewriting.made.add_op(op.with_tensors(inputs, op.outputs))

    @abstractmethod
    def _none(self, held: LogicalTensor) -> str:
        """The error where no weights can be taken, of which these are the first."""

    @abstractmethod
    def _group_of(self, use: Use, seen: Array, axis: int) -> int | None:
        """How many weights along the axis that is summed share a scale; None where they stay as they are."""

    @abstractmethod
    def _integers(
        self, tensor: LogicalTensor, seen: Array, axis: int, group: int, read: DataType
    ) -> LogicalTensor:
        """Has the new graph hold weights as integers; what the product reads.

        Args:
            tensor: the weights in the old graph. seen: as the product takes them. axis: that is summed.
            group: how many share a scale. read: the type in which the product reads them.
        """


class _InGroups(Quantizing[G]):
    """Weights behind a DynamicDequantize."""

    def __init__(
        self, rewriting: Rewriting[G], uses: dict[int, Use], data_type: DataType, group: int | None
    ) -> None:
        super().__init__(rewriting, uses, "quantize_weights")
        self._type = data_type
        self._group = group

    def _none(self, held: LogicalTensor) -> str:
        return (
            f"quantize_weights: group {self._group} divides the columns of no weights, as of {label(held)!r} of "
            f"shape {format_shape(held.shape)}, and neither does a size down to a quarter of it; take another "
            "group, or None for one scale a column"
        )

    def _group_of(self, use: Use, seen: Array, axis: int) -> int | None:
        del use
        return group_of(seen.shape[axis], self._group)

    def _integers(
        self, tensor: LogicalTensor, seen: Array, axis: int, group: int, read: DataType
    ) -> LogicalTensor:
        r = self._rewriting
        wide = DataType.f32 if read is DataType.f16 else read  # f16 has too small a range for scales
        found = integers_of(seen, axis, group, self._type, wide)
        given = [
            r.constant(r.beside(tensor, self._type, self._type.value), found.values),
            r.constant(r.beside(tensor, wide, "scales"), found.scales),
        ]
        if found.zps is not None:
            given.append(r.constant(r.beside(tensor, self._type, "zps"), found.zps))

        def result(data_type: DataType, name: str) -> LogicalTensor:
            return LogicalTensor(
                r.new_id(), data_type, seen.shape, name=r.beside(tensor, data_type, name).name
            )

        made = r.op(
            "DynamicDequantize",
            given,
            result(wide, "grouped"),
            qtype="per_group",
            group_shape=list(found.group_shape),
        )
        if wide is not read:
            made = r.op("TypeCast", [made], result(read, "rounded"))
        return made
