"""Where 8-bit integers go in a graph: the inputs of convolutions and matmuls, and what lies between these.

A quantised tensor is stored as integers and read through a Dequantize, the form in which backends find the ops that can
run on integers. A tensor between an op and what runs along with it as its post-op is none: it is never stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ops.convolution_geometry import convolution_attributes
from ...ops.data_types import DataType
from ...ops.records import frozen
from ..model.logical_tensor import LogicalTensor
from ..model.op import Op
from ..runtime.arrays import Array
from .rewriting import Kept, Rewriting

F32 = DataType.f32
ANCHORS = ("Convolution", "ConvTranspose", "MatMul")
"""What is worth integers."""
MOVES = ("Concat", "MaxPool", "Reorder", "StaticReshape", "StaticTranspose")
"""Ops whose results are numbers of their inputs: all have one scale, and nothing is rounded again."""
SCALING = ("Divide", "Multiply")
"""Ops that change the scale and no integer, where one operand is a positive constant number."""
BINARY = ("Add", "Maximum", "Minimum", "Multiply", "Subtract")
FOLLOWS = ("BatchNormInference", "BiasAdd", *BINARY, "Divide")
"""What can run along with a convolution or matmul, beside functions of one tensor."""
KNOWN: Mapping[str, tuple[float, float]] = {
    "HardSigmoid": (0.0, 1.0),
    "Sigmoid": (0.0, 1.0),
    "SoftMax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
}
"""Ranges that need not be observed."""


@frozen
class Weights:
    """A constant that becomes integers.

    Attributes:
        tensor: the constant.
        axis: along which each slice has a scale of its own; None for one scale.
    """

    tensor: LogicalTensor
    axis: int | None


@frozen
class Member:
    """Where a tensor's scale comes from: tensors of one group have the same integers, or parts of them.

    Attributes:
        root: the tensor that stands for the group.
        factor: the scale over the root's.
    """

    root: int
    factor: float = 1.0


@frozen
class IntegerPlacement:
    """What of a graph becomes integers.

    Attributes:
        groups: activation → the group that it belongs to.
        signed: roots of groups that must be symmetric.
        moved: ids of ops whose result has the integers of their inputs.
        views: those of them that no more than move all elements or take a part; kernels look through them.
        weights: (op, input) → the constant there.
    """

    groups: Mapping[int, Member]
    signed: frozenset[int]
    moved: frozenset[int]
    views: frozenset[int]
    weights: Mapping[tuple[int, int], Weights]


def place(rewriting: Rewriting[Any], keep: Kept, constants: Mapping[int, LogicalTensor]) -> IntegerPlacement:
    """Chooses what becomes integers.

    Args:
        constants: tensors whose value is known before execution.
    """
    return _Placing(rewriting, keep, constants).done()


class _Placing:
    def __init__(self, rewriting: Rewriting[Any], keep: Kept, constants: Mapping[int, LogicalTensor]) -> None:
        self._ops = rewriting.ops
        self._topology = rewriting.topology
        self._outputs = rewriting.wanted
        self._tensors = rewriting.tensors
        self._keep = keep
        self._constants = constants
        self._wanted: set[int] = set()
        self._arrays = rewriting.arrays
        self._same: dict[int, Member] = {}
        self._signed: set[int] = set()
        self._moved: set[int] = set()
        self._weights: dict[tuple[int, int], Weights] = {}
        self._anchors: set[int] = set()

    def done(self) -> IntegerPlacement:
        for op in self._ops:
            if op.kind in ANCHORS and op.id not in self._keep.ops:
                self._anchor(op)
        for op in reversed(self._ops):
            if op.id not in self._keep.ops and op.outputs and op.outputs[0].id in self._wanted:
                self._before(op)
        return IntegerPlacement(
            {number: self._member(number) for number in self._wanted},
            frozenset(self._member(number).root for number in self._signed),
            frozenset(self._moved),
            frozenset(op.id for op in self._ops if op.id in self._moved and _is_view(op)),
            self._weights,
        )

    def _may(self, tensor: LogicalTensor) -> bool:
        """Whether an activation can become integers."""
        return (
            tensor.data_type is F32
            and tensor.id not in self._keep.tensors
            and tensor.id not in self._constants
            and self._known_rank(tensor) != 0
        )

    def _known_rank(self, tensor: LogicalTensor) -> int | None:
        shape = self._tensors[tensor.id].shape
        return None if shape is None else len(shape)

    def _anchor(self, op: Op) -> None:
        """Takes the inputs of a convolution or matmul, if both can become integers."""
        fixed = [t.id in self._constants and t.data_type is F32 for t in op.inputs[:2]]
        kept = any(t.id in self._keep.tensors for t in op.inputs[:2])
        open_ones = [t for t, known in zip(op.inputs, fixed, strict=False) if not known]
        if kept or all(fixed) or not all(map(self._may, open_ones)):
            return
        if op.kind != "MatMul" and (fixed[0] or not fixed[1]):
            return
        if any((self._known_rank(t) or 0) < 2 or self._was_quantized(t) for t in op.inputs[:2]):
            return
        self._anchors.add(op.id)
        for index, tensor in enumerate(op.inputs[:2]):
            if fixed[index]:
                self._weights[op.id, index] = Weights(tensor, self._axis(op, index))
            else:
                self._wanted.add(tensor.id)
                if index == 1:  # kernels have no zero points of weights
                    self._signed.add(tensor.id)

    def _was_quantized(self, tensor: LogicalTensor) -> bool:
        """Whether it comes of integers already."""
        producer = self._topology.producer(tensor)
        return producer is not None and producer.kind in ("Dequantize", "DynamicDequantize")

    def _axis(self, op: Op, index: int) -> int | None:
        """The axis of the output channels of constant weights."""
        if index == 0:
            return None
        rank = self._known_rank(op.inputs[1]) or 0
        if op.kind == "MatMul":
            return rank - 2 if op.attributes.flag("transpose_b") else rank - 1
        attributes = convolution_attributes(op.attributes, rank - 2)
        if op.kind == "ConvTranspose" and attributes.groups > 1:  # the axis counts the channels of one group
            return None
        return attributes.output_axis

    def _before(self, op: Op) -> None:
        """Takes what an op reads whose result becomes integers, so that it runs on integers too."""
        factor = 1.0 if op.kind in MOVES else scaling(op, self._arrays)
        if factor is not None:
            data = [t for t in op.inputs if op.kind in MOVES or t.id not in self._constants]
            fits = op.kind in MOVES or self._only_as_integers(op.outputs[0])
            if fits and all(map(self._may, data)) and self._join(data, op.outputs[0], factor):
                self._moved.add(op.id)
                self._wanted.update(t.id for t in data)
        elif op.kind in BINARY and all(map(self._may, op.inputs)):
            shapes = [self._tensors[t.id].shape for t in op.inputs]
            if self._gated(op) is None and shapes[0] == shapes[1]:  # integers that broadcast are no gain
                along = next((t for t in op.inputs if self._runs_along(t)), None)
                self._wanted.update(t.id for t in op.inputs if along is None or t.id != along.id)

    def _gated(self, op: Op) -> LogicalTensor | None:
        """What a product of a tensor and a function of it alone is made of, as x · sigmoid(x) is of x."""
        if op.kind != "Multiply":
            return None
        for tensor, other in (op.inputs, op.inputs[::-1]):
            gate = self._topology.producer(other)
            if gate is not None and gate.schema.family == "eltwise" and gate.inputs[0].id == tensor.id:
                alone = len(self._topology.readers(tensor)) == 2 and len(self._topology.readers(other)) == 1
                return tensor if alone else None
        return None

    def _runs_along(self, tensor: LogicalTensor) -> bool:
        """Whether the one op that reads it can be a post-op of the convolution or matmul that it comes from."""
        alone = 1
        while tensor.id not in self._wanted and tensor.id not in self._outputs:
            if len(self._topology.readers(tensor)) != alone:
                return False
            op = self._topology.producer(tensor)
            alone = 1
            if op is None or op.id in self._anchors:
                return op is not None
            if op.kind not in FOLLOWS and op.schema.family != "eltwise":
                return False
            moving = [t for t in op.inputs if t.id not in self._constants]
            gated = self._gated(op)
            if gated is None and len(moving) != 1:
                return False
            tensor, alone = (moving[0], 1) if gated is None else (gated, 2)
        return False

    # --- tensors of one scale ------------------------------------------------------------------------

    def _member(self, number: int) -> Member:
        factor = 1.0
        while number in self._same:
            found = self._same[number]
            number, factor = found.root, factor * found.factor
        return Member(number, factor)

    def _join(self, inputs: Sequence[LogicalTensor], output: LogicalTensor, factor: float) -> bool:
        """Gives a tensor the integers of others, with so many times their scale; not where two have others already."""
        made = self._member(output.id)
        wanted: dict[int, float] = {made.root: made.factor / factor}
        for tensor in inputs:
            member = self._member(tensor.id)
            if wanted.setdefault(member.root, member.factor) != member.factor:
                return False
        for root, own in wanted.items():
            if root != made.root:
                self._same[root] = Member(made.root, made.factor / factor / own)
        return True

    def _only_as_integers(self, tensor: LogicalTensor) -> bool:
        """Whether nobody needs the tensor in f32."""
        readers = self._topology.readers(tensor)
        return tensor.id not in self._outputs and all(
            reader.outputs and reader.id not in self._keep.ops for reader in readers
        )


def _is_view(op: Op) -> bool:
    """Whether it moves elements and chooses none; a MaxPool with windows of one element takes a part."""
    if op.kind == "MaxPool":
        attributes = op.attributes
        pads = (*attributes.integers("pads_begin"), *attributes.integers("pads_end"))
        return set(attributes.integers("kernel")) == {1} and max(pads, default=0) == 0
    return op.kind in ("Reorder", "StaticReshape", "StaticTranspose")


def scaling(op: Op, arrays: Mapping[int, Array]) -> float | None:
    """The positive number that an op multiplies all elements by; None where it does another thing, or adds axes."""
    if op.kind not in SCALING:
        return None
    held = [arrays.get(t.id) for t in op.inputs]
    rank = min((len(t.shape or ()) for t in op.inputs if t.id not in arrays), default=0)
    numbers = [float(a.reshape(-1)[0]) for a in held if a is not None and a.size == 1 and a.ndim <= rank]
    if len(numbers) != 1 or all(a is not None for a in held) or not 1e-6 < numbers[0] < 1e6:
        return None
    if held[1] is None:
        return numbers[0] if op.kind == "Multiply" else None
    return numbers[0] if op.kind == "Multiply" else 1 / numbers[0]


def constant_ops(ops: Sequence[Op], arrays: Mapping[int, object]) -> dict[int, LogicalTensor]:
    """Tensors that are constants or depend on constants alone, by id."""
    known = {t.id: t for op in ops for t in op.inputs if t.id in arrays}
    for op in ops:
        if op.inputs and all(t.id in known for t in op.inputs):
            known.update((t.id, t) for t in op.outputs)
    return known
