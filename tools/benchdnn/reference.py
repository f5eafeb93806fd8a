"""What a graph should compute: op by op, in f64, with the NumPy kernels.

Two runs are made where rounding matters. The ideal one keeps floating-point tensors in f64 between ops. The other
rounds each of them to its data type, and adds the errors that f32 arithmetic has in long sums and in functions; how
far it ends from the ideal one is how far an implementation may end from it too. Integers, booleans and 8-bit floats
are themselves in both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...backends.numpy.kernels import KERNELS
from ...graph.graph import Graph
from ...graph.model.fpmath import FpmathMode
from ...graph.model.op import Op
from ...graph.runtime.arrays import Array, numpy_type
from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.records import frozen

FLOATING = frozenset({DataType.f16, DataType.bf16, DataType.f32, DataType.f64})
"""Types that the reference keeps in f64."""

EPSILON = {
    DataType.f64: 2.0**-52,
    DataType.f32: 2.0**-23,
    DataType.f16: 2.0**-10,
    DataType.bf16: 2.0**-7,
    DataType.f8_e4m3: 2.0**-3,
    DataType.f8_e5m2: 2.0**-2,
}
"""Distance from 1 to the next number; integers have none."""

PRODUCTS = frozenset(
    {
        "Convolution",
        "ConvolutionBackwardData",
        "ConvolutionBackwardWeights",
        "ConvTranspose",
        "ConvTransposeBackwardData",
        "ConvTransposeBackwardWeights",
        "MatMul",
    }
)
"""Sums of products, of which small integers have exact ones."""
SUMS = PRODUCTS | {"BiasAddBackward", "ReduceSum"}
"""Kinds whose sums are exact if all partial sums are."""
COPIES = frozenset(
    {
        "Concat",
        "End",
        "MaxPool",
        "MaxPoolBackward",
        "Maximum",
        "Minimum",
        "ReduceMax",
        "ReduceMin",
        "Reorder",
        "Select",
        "StaticReshape",
        "StaticTranspose",
        "GenIndex",
        "GreaterEqual",
        "Round",
        "ReLU",
        "Abs",
        "Wildcard",
    }
)
"""Kinds that compute nothing that could be rounded."""
SINGLE = frozenset(
    {
        "Add",
        "Subtract",
        "Multiply",
        "BiasAdd",
        "TypeCast",
        "Quantize",
        "Dequantize",
        "DynamicQuantize",
        "DynamicDequantize",
        "ReLUBackward",
        "AbsBackward",
        "ClampBackward",
        "Clamp",
        "Square",
        "SquaredDifference",
    }
)
"""Kinds with one arithmetic operation an element, exact where the result has a place in its type."""
EXACT = SUMS | COPIES | SINGLE

FPMATH_TYPES = {FpmathMode.bf16: DataType.bf16, FpmathMode.f16: DataType.f16, FpmathMode.any: DataType.bf16}
"""What f32 operands of products may be rounded to; tf32 has no type of its own here."""

F32_DIGITS = 24


@frozen(eq=False)
class Expected:
    """What is expected of one tensor.

    Attributes:
        value: in f64 where the tensor is floating-point, in its own type otherwise.
        spread: how far rounding on the way may move each element; None where nothing was rounded on the way.
        exact: whether every implementation must agree in every bit.
    """

    value: Array
    spread: Array | None
    exact: bool


def held(data_type: DataType) -> np.dtype[Any]:
    """The NumPy type that the reference keeps a tensor of that type in."""
    return np.dtype(np.float64) if data_type in FLOATING else numpy_type(data_type)


def rounded(array: Array, data_type: DataType) -> Array:
    """f64 values rounded to a floating-point type, still as f64; others as they are."""
    if data_type is DataType.f64 or data_type not in FLOATING:
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(numpy_type(data_type)).astype(np.float64)


def evaluate(graph: Graph, inputs: Mapping[int, Array], wanted: Collection[int]) -> dict[int, Array]:
    """The ideal values of some tensors.

    Args:
        graph: finalized, with all shapes known.
        inputs: arrays in the tensors' own types, or f64, by id.
        wanted: ids.

    Raises:
        UnsupportedError: an op without a NumPy kernel.
    """
    return _Run(graph, inputs, wanted).ideal()


def reference(graph: Graph, inputs: Mapping[int, Array], wanted: Collection[int]) -> dict[int, Expected]:
    """What is expected of some tensors; see `evaluate`."""
    run = _Run(graph, inputs, wanted)
    ideal = run.ideal(judge=True)
    spreads: dict[int, Array] = {}
    if len(graph.ops) > 1 and not run.exact.issuperset(wanted):
        spreads = run.spreads(ideal)
    return {i: Expected(ideal[i], spreads.get(i), i in run.exact) for i in wanted}


class _Run:
    """One graph with one set of inputs."""

    def __init__(self, graph: Graph, inputs: Mapping[int, Array], wanted: Collection[int]) -> None:
        self._ops = graph.ops
        given = (*graph.inputs, *graph.constant_tensors, *graph.parameter_tensors)
        self._inputs = {t.id: inputs[t.id].astype(held(t.data_type)) for t in given if t.id in inputs}
        self._wanted = frozenset(wanted)
        self._fpmath = FPMATH_TYPES.get(graph.fpmath_mode)
        self.exact = {t.id for t in given}
        self._needed = self._ancestors()

    def _ancestors(self) -> frozenset[int]:
        """Indices of the ops that something wanted needs."""
        tensors, needed = set(self._wanted), set[int]()
        for index in reversed(range(len(self._ops))):
            op = self._ops[index]
            if any(t.id in tensors for t in op.outputs):
                needed.add(index)
                tensors.update(t.id for t in op.inputs)
        return frozenset(needed)

    def ideal(self, *, judge: bool = False) -> dict[int, Array]:
        """The values of what is wanted; with `judge`, `exact` gets what is exact."""

        def finish(op: Op, ins: Sequence[Array], outs: Sequence[Array]) -> list[Array]:
            # A cast is asked for by the graph; other roundings are what the ideal leaves out.
            kept = [
                rounded(a, t.data_type) if op.kind == "TypeCast" else a
                for a, t in zip(outs, op.outputs, strict=True)
            ]
            if judge and op.kind in EXACT and all(t.id in self.exact for t in op.inputs):
                self.exact |= self._exact_outputs(op, ins, kept)
            return kept

        return self._walk(finish, None)

    def spreads(self, ideal: Mapping[int, Array]) -> dict[int, Array]:
        """By id, how far rounding moves each element of what is wanted and not exact."""
        found: dict[int, Array] = {}
        random = np.random.default_rng(0)

        def finish(op: Op, ins: Sequence[Array], outs: Sequence[Array]) -> list[Array]:
            kept: list[Array] = []
            for array, tensor in zip(outs, op.outputs, strict=True):
                exact = tensor.id in self.exact
                noisy = array if exact else _with_errors(op, array, tensor.data_type, random)
                if tensor.id in self._wanted and not exact:
                    with np.errstate(invalid="ignore"):
                        found[tensor.id] = np.abs(
                            noisy.astype(np.float64) - ideal[tensor.id].astype(np.float64)
                        )
                kept.append(rounded(noisy, tensor.data_type))
            return kept

        self._walk(finish, self._fpmath)
        return found

    def _walk(self, finish: Any, fpmath: DataType | None) -> dict[int, Array]:
        arrays = dict(self._inputs)
        last = {t.id: i for i, op in enumerate(self._ops) if i in self._needed for t in op.inputs}
        for index, op in enumerate(self._ops):
            if index not in self._needed:
                continue
            ins = [arrays[t.id] for t in op.inputs]
            if fpmath is not None and op.kind in PRODUCTS:
                ins = [
                    rounded(a, fpmath) if t.data_type is DataType.f32 else a
                    for a, t in zip(ins, op.inputs, strict=True)
                ]
            outs = finish(op, ins, _executed(op, ins))
            arrays |= {t.id: a for t, a in zip(op.outputs, outs, strict=True)}
            for tensor in op.inputs:
                if last[tensor.id] == index and tensor.id not in self._wanted:
                    arrays.pop(tensor.id, None)
        return {i: arrays[i] for i in self._wanted if i in arrays}

    def _exact_outputs(self, op: Op, ins: Sequence[Array], outs: Sequence[Array]) -> set[int]:
        """Outputs, of exact inputs, in which nothing had to be rounded."""
        if op.kind in SUMS and not _sums_are_exact(op, ins, self._fpmath):
            return set()
        conversions = ("Quantize", "DynamicQuantize", "TypeCast")
        return {
            t.id
            for t, a in zip(op.outputs, outs, strict=True)
            if op.kind in conversions or _representable(a, t.data_type)
        }


def _executed(op: Op, inputs: Sequence[Array]) -> list[Array]:
    kernel = KERNELS.get(op.kind)
    if kernel is None:
        raise UnsupportedError(f"{op}: {op.kind} has no NumPy kernel, which the reference needs")
    outputs = [np.empty(t.dims, held(t.data_type)) for t in op.outputs]
    with np.errstate(all="ignore"):
        kernel(op, tuple(inputs), tuple(outputs))
    return outputs


def _representable(array: Array, data_type: DataType) -> bool:
    if data_type not in FLOATING or data_type is DataType.f64:
        return True
    return bool(np.array_equal(rounded(array, data_type), array, equal_nan=True))


def summands(op: Op) -> int:
    """How many products or numbers each output element of a sum adds up, at most."""
    shapes = [t.dims for t in op.inputs]
    if op.kind == "MatMul":
        a = shapes[0]
        transposed = len(a) > 1 and op.attributes.get("transpose_a")
        return a[len(a) - (2 if transposed else 1)]
    if op.kind in PRODUCTS and op.kind.endswith("BackwardWeights"):
        # The sum goes over the batch and the positions of what the kernel slides to.
        slid = shapes[1] if op.kind == "ConvolutionBackwardWeights" else shapes[0]
        return math.prod(slid) // max(1, _channels(op, slid))
    if op.kind in PRODUCTS:
        return math.prod(shapes[1]) // max(1, _channels(op, op.outputs[0].dims))
    return math.prod(shapes[0]) // max(1, math.prod(op.outputs[0].dims)) if shapes else 1


def _channels(op: Op, shape: Sequence[int]) -> int:
    return shape[1] if op.attributes.get("data_format") == "NCX" else shape[-1]


def _sums_are_exact(op: Op, ins: Sequence[Array], fpmath: DataType | None) -> bool:
    """Whether no partial sum of the op has more digits than f32 has, in whatever order it is made."""
    operands = [a.astype(np.float64) for a in ins[: 2 if op.kind in PRODUCTS else 1]]
    if fpmath is not None and any(not _representable(a, fpmath) for a in operands):
        return False
    largest, unit = 1.0, 1.0
    for array in operands:
        if not np.isfinite(array).all():
            return False
        largest *= float(np.max(np.abs(array), initial=0.0))
        unit *= _unit(array)
    return largest == 0.0 or summands(op) * largest / unit <= 2.0**F32_DIGITS


def _unit(array: Array) -> float:
    """The largest power of two of which all elements are multiples; 1 if all are zero."""
    values = array[array != 0]
    if not values.size:
        return 1.0
    fractions, exponents = np.frexp(values)
    digits = np.ldexp(fractions, 53).astype(np.int64)
    lowest = np.bitwise_and(digits, -digits)
    return float(np.min(np.ldexp(lowest.astype(np.float64), exponents - 53)))


def _with_errors(op: Op, array: Array, data_type: DataType, random: np.random.Generator) -> Array:
    """The array with the errors of f32 arithmetic, as far as it is floating-point."""
    if data_type not in FLOATING or op.kind in COPIES or not array.size:
        return array
    epsilon = EPSILON[DataType.f64 if data_type is DataType.f64 else DataType.f32]
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(array)
        if op.kind in SUMS or op.kind.startswith("Reduce") or "Norm" in op.kind:
            finite = np.where(np.isfinite(array), array, 0.0)
            size = np.maximum(size, math.sqrt(float(np.mean(finite * finite))))
            epsilon *= 1.0 + math.sqrt(_terms(op)) / 2
        errors = random.standard_normal(array.shape, dtype=np.float32) * np.float32(epsilon)
        return np.where(np.isfinite(array), array + errors * size, array)


def _terms(op: Op) -> int:
    if op.kind in SUMS:
        return summands(op)
    ins, outs = op.inputs[0].dims, op.outputs[0].dims
    if op.kind.startswith("Reduce"):
        return math.prod(ins) // max(1, math.prod(outs))
    # A normalization has a mean, if it returns any, as its last output.
    means = math.prod(op.outputs[-1].dims) if len(op.outputs) > 1 else math.prod(ins[:-1])
    return math.prod(ins) // max(1, means)
