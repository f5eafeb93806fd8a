"""Whether what a graph computed is what was expected, by benchdnn's criteria.

A tensor of small integers that nothing had to round must agree in every bit. Elsewhere each kind of op has a
threshold, relative to the expected number, that says how precise implementations of it are; the thresholds are
benchdnn's. What rounding on the way to the tensor may do comes from the reference, see `Expected.spread`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...graph.graph import Graph
from ...graph.model.op import Op
from ...graph.runtime.arrays import Array, numpy_type
from ...ops.data_types import DataType
from ...ops.errors import NAN_GUIDE
from ...ops.records import frozen
from .reference import EPSILON, F32_DIGITS, FLOATING, PRODUCTS, Expected

TINY = 1e-5
"""Expected numbers below this are compared by their absolute difference."""
OUTLIERS = 1 / 1024
"""Share of the elements that may miss the threshold, where rounding is random."""
OUTLIER_FACTOR = 16.0
"""How far beyond what is allowed an outlier may be."""
NORM_THRESHOLD = 3e-3
"""How far the whole tensor may be off then: norm of the difference over norm of the expected."""
DEVIATIONS = 8.0
"""How many times the typical spread an element may be off."""

NAN_KINDS = frozenset({"Exp", "Log", "Pow", "Sqrt", "SqrtBackward", "Square"})
"""Kinds whose results may be NaN or infinite for good reason."""
DELICATE = frozenset(
    {
        "Elu",
        "EluBackward",
        "GELU",
        "GELUBackward",
        "HardSwishBackward",
        "Log",
        "Mish",
        "MishBackward",
        "SwishBackward",
        "SoftPlus",
        "SoftPlusBackward",
        "Tanh",
        "TanhBackward",
    }
)
"""Functions that implementations approximate less precisely."""
CANCELLING = DELICATE | {"SigmoidBackward", "Sigmoid", "SqrtBackward", "Reciprocal"}
"""Functions that lose digits in a difference; there the threshold is absolute for results below one."""

TRUSTED_ZEROS = {
    "binary": 65.0,
    "convolution": 90.0,
    "eltwise": 65.0,
    "interpolate": 99.0,
    "matmul": 90.0,
    "normalization": 99.0,
    "pooling": 100.0,
    "prelu": 99.0,
    "quantization": 80.0,
    "reduction": 65.0,
}
"""Percentage of zeros up to which a result says something about the computation, by family; 100 elsewhere."""
FEW = 10
"""Tensors of fewer elements are trusted whatever they hold."""


@frozen(kw_only=True)
class Rule:
    """How a number may differ from the expected one.

    Attributes:
        relative: threshold of the difference over the expected number.
        absolute: threshold of the difference.
        typical: threshold of the difference over the typical size of the tensor's elements.
        steps: by how many of its type's steps an integer may be off.
        nan: whether NaN may be expected.
        zeros: percentage of zeros above which the result is mistrusted.
    """

    relative: float = 0.0
    absolute: float = 0.0
    typical: float = 0.0
    steps: int = 0
    nan: bool = False
    zeros: float = 100.0


@frozen(kw_only=True)
class Comparison:
    """What came out of comparing one tensor.

    Attributes:
        tensor: the tensor's id.
        ok: whether the tensor is right.
        points: how many elements it has.
        wrong: how many of them are off by more than the thresholds; some may be where rounding is random.
        difference: the largest difference.
        relative: the largest difference over the expected number, or over the tensor's typical one if that is larger.
        zeros: percentage of zeros.
        mistrusted: whether there are too many zeros to say anything.
        message: what is wrong, or empty.
    """

    tensor: int
    ok: bool
    points: int
    wrong: int = 0
    difference: float = 0.0
    relative: float = 0.0
    zeros: float = 0.0
    mistrusted: bool = False
    message: str = ""


def threshold(op: Op, position: int, data_type: DataType) -> float:
    """Benchdnn's relative threshold for an output of an op of that type, for inputs that are no nice integers.

    Args:
        op: what produces the tensor.
        position: which output it is.
        data_type: the output's type.
    """
    epsilon = EPSILON.get(data_type, EPSILON[DataType.f32])
    wide = data_type not in EPSILON or data_type in (DataType.f32, DataType.f64)
    backward = op.kind.endswith("Backward")
    match op.schema.family:
        case "eltwise" if wide:
            return 4e-5 if op.kind in DELICATE else 4e-6
        case "softmax" if position == 1:
            return 4e-5
        case "softmax":
            return (
                epsilon
                * (10 if wide else 1)
                * (5 if op.kind.startswith("Log") else 1)
                * (4 if backward else 1)
            )
        case "normalization":
            lost = 2.0 ** max(0, F32_DIGITS - 1 + round(math.log2(epsilon)))
            if position == 0:
                return lost * 6e-7
            # Sums over the batch: benchdnn fills its own so that they are exact, in a graph that is not possible.
            summed = math.prod(op.inputs[0].dims) / max(math.prod(op.outputs[position].dims), 1)
            return lost * 5e-6 * max(1.0, math.sqrt(summed) / 64)
        case "reduction":
            return epsilon * (5 if op.kind in ("ReduceL1", "ReduceL2") else 1)
        case "pooling":
            return epsilon * (10 if op.kind.startswith("Avg") else 1)
        case "interpolate":
            return epsilon * 7
        case "prelu":
            return epsilon * 2
        case _:
            # Sums in f32 of what is no integer, where nothing upstream says how large the summands are.
            return max(epsilon, 1e-5) if op.kind in PRODUCTS else epsilon


def rule_for(graph: Graph, tensor: int, expected: Expected) -> Rule:
    """How the tensor may differ from what is expected, by everything that it is computed from."""
    ops = _upstream(graph, tensor)
    if not ops:  # it is what was given
        return Rule(nan=True)
    producer = ops[0]
    position = next(i for i, t in enumerate(producer.outputs) if t.id == tensor)
    data_type = graph.tensor(tensor).data_type
    low = (DataType.f16, DataType.f8_e4m3, DataType.f8_e5m2)
    nan = any(
        op.kind in NAN_KINDS or any(t.data_type in low for t in (*op.inputs, *op.outputs)) for op in ops
    )
    zeros = TRUSTED_ZEROS.get(producer.schema.family, 100.0)
    if producer.kind in ("ReLUBackward", "ClampBackward") or data_type not in EPSILON:
        zeros = 100.0
    if expected.exact:
        return Rule(nan=nan, zeros=zeros)
    if data_type not in EPSILON:
        return Rule(steps=1, nan=nan, zeros=zeros)
    families = {op.schema.family for op in ops}
    epsilon = EPSILON.get(data_type, EPSILON[DataType.f32])
    relative = max(threshold(producer, position, data_type), epsilon)
    if len(ops) > 1:
        relative = max(relative, _inherited(ops, data_type))
    absolute = relative if any(op.kind in CANCELLING for op in ops) else 0.0
    if "softmax" in families:
        absolute = max(absolute, EPSILON[DataType.f32])
    if "eltwise" in families and len(ops) > 1:
        absolute = max(absolute, epsilon, 2e-5)
        relative = max(relative, 8e-6)
    typical = relative if families & {"normalization", "reduction", "interpolate", "pooling"} else 0.0
    return Rule(
        relative=relative,
        absolute=absolute,
        typical=typical,
        nan=nan,
        zeros=zeros,
    )


def _upstream(graph: Graph, tensor: int) -> list[Op]:
    """The op that produces the tensor, and all that it depends on."""
    producers = {t.id: op for op in graph.ops for t in op.outputs}
    found: dict[int, Op] = {}
    waiting = [tensor]
    while waiting:
        op = producers.get(waiting.pop())
        if op is not None and op.id not in found:
            found[op.id] = op
            waiting += [t.id for t in op.inputs]
    return list(found.values())


def _inherited(ops: Iterable[Op], data_type: DataType) -> float:
    """The coarsest threshold of the ops before, in the types that their outputs have, for a result of that type."""
    thresholds = [
        threshold(op, i, t.data_type)
        for op in ops
        for i, t in enumerate(op.outputs)
        if t.data_type in FLOATING and EPSILON[t.data_type] <= EPSILON.get(data_type, 1.0)
    ]
    return max(thresholds, default=0.0)


def compare(tensor: int, data_type: DataType, expected: Expected, got: Array, rule: Rule) -> Comparison:
    """Compares what was computed with what was expected.

    Args:
        tensor: its id.
        data_type: its type, which the expected numbers are rounded to.
        expected: what the reference says.
        got: the array to judge.
        rule: how it may differ.
    """
    if got.shape != expected.value.shape:
        return Comparison(
            tensor=tensor,
            ok=False,
            points=got.size,
            wrong=got.size,
            message=f"has shape {list(got.shape)}, expected {list(expected.value.shape)}",
        )
    if not got.size:
        return Comparison(tensor=tensor, ok=True, points=0)
    with np.errstate(invalid="ignore", over="ignore"):
        target = expected.value
        if data_type in FLOATING:
            target = target.astype(numpy_type(data_type))
        unequal = np.not_equal(target, got)
        zeros = 100.0 * (1 - np.count_nonzero(got) / got.size)
        mistrusted = zeros > rule.zeros and got.size >= FEW
        if not unequal.any():
            return Comparison(tensor=tensor, ok=True, points=got.size, zeros=zeros, mistrusted=mistrusted)
        found = _Differences(unequal, target, got, expected.spread, rule)
        return Comparison(
            tensor=tensor,
            ok=found.ok,
            points=got.size,
            wrong=int(np.count_nonzero(found.wrong)),
            difference=float(np.max(found.difference)),
            relative=found.relative,
            zeros=zeros,
            mistrusted=mistrusted and found.ok,
            message="" if found.ok else found.message(data_type),
        )


class _Differences:
    """The elements in which two arrays differ, judged."""

    def __init__(self, unequal: Array, target: Array, got: Array, spread: Array | None, rule: Rule) -> None:
        self._unequal = unequal
        self.want = target[unequal].astype(np.float64)
        self.have = got[unequal].astype(np.float64)
        self._typical = _typical(target)
        nan = np.isnan(self.want) & np.isnan(self.have)
        finite = np.isfinite(self.want) & np.isfinite(self.have)
        distance = np.where(finite, np.abs(self.want - self.have), np.inf)
        self.difference = np.where(nan, 0.0, distance)
        self._spread = np.zeros_like(self.want) if spread is None else spread[unequal]
        usual = 0.0 if spread is None else _typical(spread)
        self._allowed = self._allowances(rule, usual)
        self.wrong = ~(self.difference <= self._allowed)
        if not rule.nan:
            self.wrong |= nan
        outliers = (rule.relative > 0 or rule.steps > 0) and self._are_outliers(target.size, usual)
        self.ok = outliers or not bool(self.wrong.any())

    @property
    def relative(self) -> float:
        """The largest difference, over the element's or the tensor's typical size."""
        size = np.maximum(np.abs(self.want), self._typical)
        return float(np.max(self.difference / np.where(size > 0, size, 1.0)))

    def _allowances(self, rule: Rule, usual: float) -> Array:
        """By how much each element may be off."""
        size = np.abs(self.want)
        allowed = np.where(size > TINY, rule.relative * size, rule.relative)
        allowed = np.maximum(allowed, np.where(size < 1.0, rule.absolute, 0.0))
        allowed = np.maximum(allowed, max(rule.typical * self._typical, float(rule.steps)))
        if rule.relative:
            allowed = np.where(size <= TINY, np.maximum(allowed, EPSILON[DataType.f32]), allowed)
        spread = np.where(np.isfinite(self._spread), self._spread, 0.0)
        allowed = allowed + DEVIATIONS * np.maximum(spread, usual)
        return np.where(np.isfinite(allowed), allowed, 0.0)

    def _are_outliers(self, points: int, usual: float) -> bool:
        """Whether what misses the threshold is few enough and near enough to be rounding."""
        count = int(np.count_nonzero(self.wrong))
        jumps = int(np.count_nonzero(self._spread > DEVIATIONS * usual)) if usual else 0
        if count > max(points * OUTLIERS, 4 * jumps):
            return False
        farthest = np.maximum(OUTLIER_FACTOR * self._allowed, 2 * np.max(self._spread))
        if not bool(np.all(self.difference[self.wrong] <= farthest[self.wrong])):
            return False
        norm = self._typical * math.sqrt(points)
        limit = max(NORM_THRESHOLD * norm, 4 * usual * math.sqrt(points))
        return float(np.linalg.norm(self.difference)) <= limit

    def message(self, data_type: DataType) -> str:
        """How many elements are wrong, and the one that is off most."""
        count = int(np.count_nonzero(self.wrong))
        worst = int(np.argmax(np.where(self.wrong, self.difference, -1.0)))
        place = [int(i) for i in np.argwhere(self._unequal)[worst]]
        want, have = float(self.want[worst]), float(self.have[worst])
        more = "" if math.isfinite(want) and math.isfinite(have) else f"; {NAN_GUIDE}"
        return (
            f"{count} of {self._unequal.size} elements of type {data_type.value} differ, the most at {place}: "
            f"expected {want:.9g}, got {have:.9g}{more}"
        )


def _typical(array: Array) -> float:
    """The root of the mean square of what is finite."""
    values = array.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        values = values[finite]
    return math.sqrt(float(np.vdot(values, values)) / values.size) if values.size else 0.0
