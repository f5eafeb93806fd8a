"""int8 graphs from f32 ones: Quantize and Dequantize with scales from observed ranges."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Generic

import numpy as np
from attrs import evolve

from ...ops.data_types import DataType, parse_enum
from ...ops.errors import ArgumentError
from ..core.building import G, finalized
from ..model.logical_tensor import LogicalTensor, PropertyType, evolve_tensor, label
from ..model.op import Op
from ..runtime.arrays import SEVEN_BITS, Array
from .placement import KNOWN, SCALING, IntegerPlacement, Weights, constant_ops, place
from .ranges import LEAST, LEVELS, Method, Observed, Scale, observe, scale_of
from .rates import tell_if_slow
from .rewriting import Rewriting, frozen_parameters, kept

DONE = (DataType.bf16, DataType.f16, DataType.s8, DataType.u8)
"""Types of graphs that are no longer f32."""


def quantize(
    graph: G,
    calibration_feeds: Iterable[object],
    *,
    method: Method | str = Method.minmax,
    keep: Collection[str] = (),
    reduce_range: bool = False,
) -> G:
    """See `Graph.quantize_static`."""
    chosen = parse_enum(Method, method, "method")
    inferred = finalized(frozen_parameters(graph) if graph.parameters else graph)
    rewriting = Rewriting(inferred)
    constants = constant_ops(rewriting.ops, rewriting.arrays)
    placement = place(rewriting, kept(keep, rewriting.ops, rewriting.tensors.values()), constants)
    done = next((t for t in rewriting.tensors.values() if t.data_type in DONE), None)
    if not placement.groups and done is not None:
        raise ArgumentError(
            f"quantize_static found no convolution or matmul in f32, and {done} is {done.data_type.value}; take the "
            "graph as it was before to('bf16') or another quantisation"
        )
    computed = [w.tensor for w in placement.weights.values() if w.tensor.id not in rewriting.arrays]
    looked_at = [
        rewriting.tensors[number]
        for number in placement.groups
        if _known(rewriting, number) is None and _has_numbers(rewriting, placement, number)
    ]
    seen, values = observe(frozen_parameters(inferred), calibration_feeds, looked_at, computed, chosen)
    scales = _scales(rewriting, placement, seen, chosen)
    most = SEVEN_BITS if reduce_range else LEVELS[DataType.s8][1]
    made = _Quantizing(rewriting, placement, scales, {**rewriting.arrays, **values}, keep, most).done()
    if placement.groups and not reduce_range:
        tell_if_slow(DataType.u8)
    return made


def _has_numbers(rewriting: Rewriting[Any], placement: IntegerPlacement, number: int) -> bool:
    """Whether a tensor has numbers that no other one of its group has."""
    producer = rewriting.topology.producer(rewriting.tensors[number])
    return producer is None or producer.id not in placement.moved


def _known(rewriting: Rewriting[Any], number: int) -> tuple[float, float] | None:
    """The range that a tensor has whatever the inputs are."""
    producer = rewriting.topology.producer(rewriting.tensors[number])
    return None if producer is None else KNOWN.get(producer.kind)


def _scales(
    rewriting: Rewriting[Any], placement: IntegerPlacement, seen: Mapping[int, Observed], method: Method
) -> dict[int, Scale]:
    """The scale of each tensor that becomes integers: of the range that all of its group have together."""
    ranges: dict[int, tuple[float, float]] = {}
    roots = {member.root for member in placement.groups.values()}
    types = {root: DataType.s8 if root in placement.signed else DataType.u8 for root in roots}
    for number, member in placement.groups.items():
        found = _known(rewriting, number)
        if found is None and number in seen:
            found = seen[number].range(method, types[member.root])
        if found is not None:
            low, high = (end / member.factor for end in found)
            known = ranges.get(member.root, (low, high))
            ranges[member.root] = min(low, known[0]), max(high, known[1])
    made = {root: scale_of(*ranges[root], types[root]) for root in roots}
    return {
        number: evolve(made[member.root], scale=float(np.float32(made[member.root].scale * member.factor)))
        for number, member in placement.groups.items()
    }


class _Quantizing(Generic[G]):
    """One rewriting to integers."""

    def __init__(
        self,
        rewriting: Rewriting[G],
        placement: IntegerPlacement,
        scales: Mapping[int, Scale],
        arrays: Mapping[int, Array],
        keep: Collection[str],
        most: int,
    ) -> None:
        self._rewriting, self._most = rewriting, most
        self._placement = placement
        self._scales = scales
        self._arrays = arrays
        self._kept = kept(keep, rewriting.ops, rewriting.tensors.values())
        self._stored: dict[int, LogicalTensor] = {}
        self._rounded: dict[int, LogicalTensor] = {}
        self._views = {t.id for op in rewriting.ops if op.id in placement.views for t in op.outputs}
        self._weights: dict[tuple[int, int | None], LogicalTensor] = {}
        self._held: dict[int, LogicalTensor] = {}

    def done(self) -> G:
        r = self._rewriting
        for tensor in r.source.inputs:
            r.made.add_input(tensor)
        needed = self._needed()
        for number in r.arrays:
            if number in r.wanted or not r.topology.readers(r.tensors[number]):
                self._constant(number)
        for number, parameter in r.parameters.items():
            r.made.add_parameter(r.tensors[number], parameter)
        for op in r.ops:
            if op.id not in needed:
                continue
            if self._is_scaled(op):
                continue
            inputs = [self._read(op, index) for index in range(len(op.inputs))]
            r.made.add_op(op.with_tensors(inputs, op.outputs))
        r.mark()
        return r.made

    def _needed(self) -> set[int]:
        """Ids of the ops whose results are still read: not of those that only made weights."""
        r = self._rewriting
        wanted, needed = set(r.wanted), set[int]()
        for op in reversed(r.ops):
            if not op.outputs or any(t.id in wanted for t in op.outputs):
                needed.add(op.id)
                wanted.update(
                    t.id for i, t in enumerate(op.inputs) if (op.id, i) not in self._placement.weights
                )
        return needed

    def _is_scaled(self, op: Op) -> bool:
        """Whether the op changes the scale alone: then its result is a Dequantize of the same integers."""
        if op.kind not in SCALING or op.id not in self._placement.moved:
            return False
        (data,) = (t for t in op.inputs if t.id in self._scales)
        self._stored[op.outputs[0].id] = self._integers(data)
        return True

    def _integers(self, tensor: LogicalTensor) -> LogicalTensor:
        """What a tensor is stored as, which a Quantize makes."""
        if tensor.id not in self._stored:
            scale = self._scales[tensor.id]
            made = self._rewriting.beside(tensor, scale.data_type, scale.data_type.value)
            self._stored[tensor.id] = self._rewriting.op("Quantize", [tensor], made, **_attributes(scale))
        return self._stored[tensor.id]

    def _dequantized(self, tensor: LogicalTensor) -> LogicalTensor:
        """What is read of a tensor that is stored as integers, which a Dequantize makes."""
        if tensor.id not in self._rounded:
            made = self._rewriting.beside(tensor, DataType.f32, "rounded")
            how = _attributes(self._scales[tensor.id])
            self._rounded[tensor.id] = self._rewriting.op("Dequantize", [self._integers(tensor)], made, **how)
        return self._rounded[tensor.id]

    def _read(self, op: Op, index: int) -> LogicalTensor:
        """What an op reads at an input."""
        tensor = op.inputs[index]
        weights = self._placement.weights.get((op.id, index))
        if weights is not None:
            return self._of_constant(weights)
        computes = op.outputs and op.id not in self._kept.ops
        if computes and tensor.id in self._scales and tensor.id not in self._views:
            return self._dequantized(tensor)
        if tensor.id in self._rewriting.arrays:
            return self._constant(tensor.id)
        return tensor

    def _constant(self, number: int) -> LogicalTensor:
        """A constant that stays f32."""
        if number not in self._held:
            self._held[number] = self._rewriting.constant(
                self._rewriting.tensors[number], self._rewriting.arrays[number]
            )
        return self._held[number]

    def _of_constant(self, weights: Weights) -> LogicalTensor:
        """What stands for constant weights: their integers, and a Dequantize."""
        key = weights.tensor.id, weights.axis
        if key not in self._weights:
            r, tensor = self._rewriting, weights.tensor
            integers, scales = rounded_weights(
                self._arrays[tensor.id], weights.axis, label(tensor), self._most
            )
            beside = r.beside(tensor, DataType.s8, "s8")
            held = r.constant(evolve_tensor(beside, property_type=PropertyType.constant), integers)
            how: dict[str, object] = {"scales": [float(s) for s in scales], "zps": [0] * len(scales)}
            if weights.axis is not None:
                how |= {"qtype": "per_channel", "axis": weights.axis}
            self._weights[key] = r.op("Dequantize", [held], r.beside(tensor, DataType.f32, "rounded"), **how)
        return self._weights[key]


def _attributes(scale: Scale) -> dict[str, object]:
    """Those of a Quantize or Dequantize."""
    return {"scales": [scale.scale], "zps": [scale.zero_point]}


def rounded_weights(array: Array, axis: int | None, name: str, most: int) -> tuple[Array, Array]:
    """s8 integers up to `most`, and the scale of each slice along an axis, or of all.

    Raises:
        ArgumentError: a number that is none, or infinite.
    """
    if not np.isfinite(array).all():
        raise ArgumentError(
            f"constant {name!r} has NaN or an infinity, for which there is no range; keep=[{name!r}] leaves it f32"
        )
    others = None if axis is None else tuple(a for a in range(array.ndim) if a != axis)
    largest = np.abs(array).max(axis=others, keepdims=True, initial=0.0)
    steps = (largest / most).astype(np.float32)
    steps[steps < LEAST] = 1.0
    return np.rint(array / steps).astype(np.int8), steps.reshape(-1)
