"""Shapes and layouts of a rewritten document, from its inputs to its outputs.

Shapes come from the ops' schemas. Layouts do as in benchdnn: while the inputs are the file's, each tensor lies
in memory as the file says; once a case changes an input, outputs lie as the first input of their op.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from attrs import Factory, evolve

from ...graph.io.serialization import PARTITIONING_ATTRIBUTES, Document, OpRecord, TensorRecord
from ...graph.model.logical_tensor import LayoutType, LogicalTensor, row_major
from ...graph.model.op import Op
from ...ops.attributes import AttributeValue
from ...ops.errors import ArgumentError
from ...ops.records import define
from ...ops.schema import RESERVED, UNKNOWN_DIM, Shape
from ...ops.values import format_value
from .cases import Case, ShapeSetting

RANK_CHANGING = frozenset({"Reorder", "StaticReshape", "StaticTranspose"})
"""Kinds whose output has a layout of its own, and not the first input's."""

Order = tuple[int, ...]
"""Axes of a dense tensor from the slowest to the fastest."""


def order_of(shape: Sequence[int], strides: Sequence[int] | None) -> Order:
    """How a tensor lies in memory: the axes by falling strides; row-major where that is not dense."""
    plain = tuple(range(len(shape)))
    if strides is None or len(strides) != len(shape):
        return plain
    order = tuple(sorted(plain, key=lambda axis: (-strides[axis], -shape[axis], axis)))
    return order if in_order(shape, order) == tuple(strides) else plain


def in_order(shape: Sequence[int], order: Order) -> tuple[int, ...]:
    """Strides of a dense tensor whose axes lie in that order; row-major where the ranks differ."""
    if len(order) != len(shape):
        return row_major(shape)
    permuted = row_major([shape[axis] for axis in order])
    return tuple(permuted[order.index(axis)] for axis in range(len(shape)))


@define
class _Tensor:
    """What is known of a tensor during inference."""

    record: TensorRecord
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def order(self) -> Order:
        return order_of(self.shape, self.strides)


@define
class Inference:
    """Shapes and layouts of a document's tensors, from its inputs to its outputs."""

    document: Document
    case: Case
    batched: frozenset[int]
    tensors: dict[int, _Tensor] = Factory(dict[int, _Tensor])
    relaid: bool = False

    def run(self) -> Document:
        produced = {t.id for op in self.document.ops for t in op.outputs}
        for op in self.document.ops:
            for record in op.inputs:
                if record.id not in produced and record.id not in self.tensors:
                    self.tensors[record.id] = self._input(record)
        document = evolve(self.document, ops=tuple(self._inferred(op) for op in self.document.ops))
        return document.map_tensors(self._described)

    def _described(self, record: TensorRecord) -> TensorRecord:
        tensor = self.tensors[record.id]
        return evolve(record, shape=tensor.shape, strides=tensor.strides, layout_type=LayoutType.strided)

    def _input(self, record: TensorRecord) -> _Tensor:
        setting = self.case.in_shapes.get(record.id, ShapeSetting())
        declared = record.dims
        shape = declared if setting.shape is None else setting.shape
        if shape is None or UNKNOWN_DIM in shape:
            raise ArgumentError(
                f"{self.document.source}: the input {record.id} has the shape {list(record.shape)}; give it sizes "
                f"with --in-shapes={record.id}:…"
            )
        if self.case.mb and record.id in self.batched:
            shape = (self.case.mb, *shape[1:])
        tensor = _Tensor(record, shape, self._strides(record, shape, setting))
        self.relaid |= setting != ShapeSetting()
        return tensor

    def _strides(
        self, record: TensorRecord, shape: tuple[int, ...], setting: ShapeSetting
    ) -> tuple[int, ...]:
        what = f"{self.document.source}: --in-shapes, tensor {record.id}"
        if setting.strides is not None:
            if len(setting.strides) != len(shape):
                raise ArgumentError(f"{what} must have {len(shape)} strides, got {list(setting.strides)}")
            return setting.strides
        if setting.order:
            if len(setting.order) != len(shape):
                raise ArgumentError(
                    f"{what} must have a tag of {len(shape)} letters, got {format_value(setting.order)}"
                )
            return in_order(shape, tuple(ord(letter) - ord("a") for letter in setting.order))
        if setting.shape is not None:
            return row_major(shape)
        written = record.element_strides
        if written is not None and shape == record.dims and len(written) == len(shape):
            return written
        return in_order(shape, order_of(record.dims or (), written))

    def _inferred(self, op: OpRecord) -> OpRecord:
        """The op with the attributes that shapes decide; its outputs become known."""
        op = self._grouped(self._per_channel(self._resampled(self._reshaped(op))))
        ins = [LogicalTensor(t.id, t.data_type, self.tensors[t.id].shape) for t in op.inputs]
        outs = [LogicalTensor(t.id, t.data_type) for t in op.outputs]
        values = {
            name: value
            for name, value in op.values.items()
            if name not in (*PARTITIONING_ATTRIBUTES, *RESERVED, "self")
        }
        built = Op(op.id, op.kind, ins, outs, name=op.name, **values)
        shapes = built.infer_shapes([t.shape for t in ins], [None] * len(outs), {})
        for record, shape in zip(op.outputs, shapes, strict=True):
            self.tensors[record.id] = self._output(op, record, shape)
        return op

    def _output(self, op: OpRecord, record: TensorRecord, inferred: Shape) -> _Tensor:
        setting = self.case.in_shapes.get(record.id, ShapeSetting())
        shape = setting.shape if setting.shape is not None else inferred
        if shape is None or UNKNOWN_DIM in shape:
            shape = record.dims  # what only a value at execution says, the file says too
        if shape is None or UNKNOWN_DIM in shape:
            raise ArgumentError(
                f"{self.document.source}: the shape of tensor {record.id}, an output of {op.kind} (op {op.id}), does "
                f"not follow from the inputs, and the file does not say it; give it with --in-shapes={record.id}:…"
            )
        if setting != ShapeSetting():
            return _Tensor(record, shape, self._strides(record, shape, setting))
        order = order_of(record.dims or (), record.element_strides)
        first = op.inputs[0].id if op.inputs else None
        if self.relaid:
            plain = op.kind in RANK_CHANGING or first is None
            order = tuple(range(len(shape))) if plain else self.tensors[cast("int", first)].order
        return _Tensor(record, shape, in_order(shape, order))

    # --- attributes that shapes decide ---

    def _reshaped(self, op: OpRecord) -> OpRecord:
        """A StaticReshape whose first size was the batch's keeps up with it."""
        shape = op.values.get("shape")
        if op.kind != "StaticReshape" or not isinstance(shape, tuple) or not shape:
            return op
        declared, now = op.inputs[0].dims, self.tensors[op.inputs[0].id].shape
        sizes = cast("tuple[int, ...]", shape)
        fits = math.prod(sizes) == math.prod(now) or min(sizes) < 1
        if fits or not declared or not now or sizes[0] != declared[0] or "shape" in self._given(op):
            return op
        return op.with_attributes({"shape": (now[0], *sizes[1:])})

    def _resampled(self, op: OpRecord) -> OpRecord:
        """An InterpolateBackward resizes to what its gradient has, also where sizes or scales say it roughly."""
        if (
            op.kind != "InterpolateBackward"
            or len(op.inputs) != 2
            or not {"sizes", "scales"} & set(op.attributes)
        ):
            return op
        shape = self.tensors[op.inputs[1].id].shape
        spatial = shape[2:] if op.values.get("data_format") == "NCX" else shape[1:-1]
        return op.with_attributes({"scales": None, "sizes": spatial})

    def _given(self, op: OpRecord) -> Mapping[str, str]:
        return self.case.op_attrs.get(op.id, {})

    def _per_channel(self, op: OpRecord) -> OpRecord:
        """Static scales and zero points, one for each channel that there is now."""
        values = op.values
        if op.kind not in ("Quantize", "Dequantize") or values.get("qtype") != "per_channel":
            return op
        shape = self.tensors[op.inputs[0].id].shape
        if not shape:
            return op
        channels = shape[cast("int", values.get("axis", 1)) % len(shape)]
        scales, zps = values.get("scales"), values.get("zps")
        changes: dict[str, AttributeValue] = {}
        if isinstance(scales, tuple) and scales and len(scales) != channels:
            changes["scales"] = tuple(scales[i % len(scales)] for i in range(channels))
        if isinstance(zps, tuple) and zps and len(zps) != channels:
            changes["zps"] = (*zps[:channels], *(0,) * (channels - len(zps)))
        return op.with_attributes(changes) if changes else op

    def _grouped(self, op: OpRecord) -> OpRecord:
        """Group sizes and the shapes of scales and zero points, each following what the case says of the other."""
        group = op.values.get("group_shape")
        if op.values.get("qtype") != "per_group" or not isinstance(group, tuple):
            return op
        src, scales = (self.tensors[t.id] for t in op.inputs[:2])
        sizes = cast("tuple[int, ...]", group)
        what = f"{self.document.source}: {op.kind} (op {op.id})"
        if len(sizes) == len(src.shape) == len(scales.shape) and all(
            d == g * s for d, g, s in zip(src.shape, sizes, scales.shape, strict=True)
        ):
            return op
        given = [t.id for t in op.inputs[1:] if t.id in self.case.in_shapes]
        if "group_shape" in self._given(op) and not given:
            grouped = _divided(src.shape, sizes, f"{what}: the shape and 'group_shape'")
            for record in op.inputs[1:]:
                tensor = self.tensors[record.id]
                self.tensors[record.id] = _Tensor(record, grouped, in_order(grouped, tensor.order))
            return op
        return op.with_attributes(
            {"group_shape": _divided(src.shape, scales.shape, f"{what}: the shapes of 'src' and 'scales'")}
        )


def _divided(shape: Sequence[int], divisor: Sequence[int], what: str) -> tuple[int, ...]:
    fits = len(shape) == len(divisor) and all(d and s % d == 0 for s, d in zip(shape, divisor, strict=True))
    if not fits:
        raise ArgumentError(
            f"{what} must have as many axes, and sizes of which one divides the other, got {list(shape)} and "
            f"{list(divisor)}"
        )
    return tuple(s // d for s, d in zip(shape, divisor, strict=True))
