"""Data for a graph's inputs with which its result says something.

What an input holds follows from the op that uses it, looked for through casts, quantization and movement. The
principles are benchdnn's: products get small integers, so few of them in low precision that sums stay exact;
functions get values from every part of their domain; nothing divides by zero, takes the logarithm of a negative
number or overflows; masks, scales and statistics are what their users expect. Unlike benchdnn's, the data of
floating-point products is scaled by powers of two, with which results are about as large as inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np
from attrs import evolve

from ...graph.graph import Graph
from ...graph.model.logical_tensor import LogicalTensor
from ...graph.model.op import Op
from ...graph.runtime.arrays import Array, numpy_type
from ...ops.data_types import DataType
from .families import (
    FAMILIES,
    SCALES,
    VARIANCES,
    WEIGHTS,
    Use,
    Wanted,
    number,
    small,
)
from .reference import FLOATING, PRODUCTS, evaluate, summands

PASSING = frozenset(
    {
        "Dequantize",
        "DynamicDequantize",
        "DynamicQuantize",
        "Quantize",
        "Reorder",
        "StaticReshape",
        "StaticTranspose",
        "TypeCast",
    }
)
"""Kinds that hand their first input on to the op that computes with it."""

PRODUCT_RANGES: dict[DataType, tuple[int, int]] = {
    DataType.u8: (0, 8),
    DataType.s4: (-2, 2),
    DataType.u4: (0, 4),
    DataType.f8_e4m3: (-2, 2),
    DataType.f8_e5m2: (-2, 2),
}
"""Smallest and largest factor of a product, by type; -4 and 4 elsewhere."""
DIGITS = {DataType.bf16: 8, DataType.f16: 11, DataType.f32: 24, DataType.f64: 53}
"""Binary digits of a floating-point number."""
TARGET = 2.0
"""How large floating-point sums of products are, typically."""


def fill(graph: Graph, seed: int = 0, density: float = 1.0) -> dict[int, Array]:
    """Arrays for all inputs of a graph, by tensor id, with its constants and parameters; the same for the same seed.

    Args:
        graph: finalized, with all shapes known.
        seed: any number of 0 or more.
        density: share of the integer factors of products that are not zero; less makes smaller results.

    Raises:
        UnsupportedError: data that follows from other data needs an op without a NumPy kernel.
    """
    filler = _Filler(graph, seed, density)
    arrays = {**graph.held_constants, **{i: one.view for i, one in graph.held_parameters.items()}}
    late: list[LogicalTensor] = []
    for tensor in graph.inputs:
        if not filler.is_read(tensor):
            arrays[tensor.id] = filler.unread(tensor)
        elif filler.follows(tensor) is None:
            arrays[tensor.id] = filler.array(tensor)
        else:
            late.append(tensor)
    for tensor in late:
        source = cast("LogicalTensor", filler.follows(tensor))
        values = evaluate(graph, arrays, [source.id])[source.id]
        arrays[tensor.id] = _converted(_log_sum_exp(values, tensor.dims), tensor.data_type)
    return arrays


def _log_sum_exp(values: Array, shape: Sequence[int]) -> Array:
    """What softmax keeps of each row for its gradient; 0 for a row that is masked out."""
    axes = tuple(a for a, (d, s) in enumerate(zip(values.shape, shape, strict=False)) if d != s)
    peak = np.max(values, axis=axes, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0.0)
    total = np.sum(np.exp(values - peak), axis=axes, keepdims=True)
    return np.where(total > 0, peak + np.log(np.where(total > 0, total, 1.0)), 0.0).reshape(shape)


def _converted(values: Array, data_type: DataType) -> Array:
    """The values in the tensor's own type, those out of its range at its ends."""
    dtype = numpy_type(data_type)
    if data_type is DataType.boolean or data_type in FLOATING or data_type.value.startswith("f8"):
        return values.astype(dtype)
    limits: Any = ml_dtypes.iinfo(dtype) if data_type in (DataType.s4, DataType.u4) else np.iinfo(dtype)
    return np.clip(np.rint(values), int(limits.min), int(limits.max)).astype(dtype)


class _Filler:
    """One graph's inputs."""

    def __init__(self, graph: Graph, seed: int, density: float) -> None:
        self._graph = graph
        self._seed = seed
        self._density = density
        self._producers = {t.id: op for op in graph.ops for t in op.outputs}
        self._users: dict[int, list[Op]] = {}
        for op in graph.ops:
            for tensor in op.inputs:
                self._users.setdefault(tensor.id, []).append(op)

    def is_read(self, tensor: LogicalTensor) -> bool:
        """Whether an op reads it; a graph may take it for nothing, or give it back as it is."""
        return tensor.id in self._users

    def unread(self, tensor: LogicalTensor) -> Array:
        """The data of an input that no op reads."""
        random = np.random.default_rng([self._seed, tensor.id])
        return _converted(random.integers(-4, 5, tensor.dims).astype(np.float64), tensor.data_type)

    def array(self, tensor: LogicalTensor) -> Array:
        """The data of one input that is read."""
        use = self._use(tensor)
        random = np.random.default_rng([self._seed, tensor.id])
        wanted = Wanted(random, tensor.dims, use, self._alone(use.op), self._inner(use))
        direct = self._use(tensor, through=False)
        for values in (
            self._shape_operand(direct),
            self._mask(tensor, direct),
            self._parameter(tensor, evolve(wanted, use=direct)),
        ):
            if values is not None:
                return _converted(values, tensor.data_type)
        return _converted(self._data(wanted, tensor), tensor.data_type)

    def _use(self, tensor: LogicalTensor, *, through: bool = True) -> Use:
        """The first op that computes with the tensor; the first that reads it, where none does."""
        via: list[Op] = []
        current = tensor
        while True:
            users = self._users.get(current.id, [])
            if not users:
                last = via.pop()
                return Use(last, 0, tuple(via))
            op = users[0]
            port = next(i for i, t in enumerate(op.inputs) if t.id == current.id)
            if not through or op.kind not in PASSING or port:
                return Use(op, port, tuple(via))
            via.append(op)
            current = op.outputs[0]

    def _next(self, op: Op) -> Op | None:
        users = self._users.get(op.outputs[0].id, []) if op.outputs else []
        return users[0] if users else None

    def _alone(self, op: Op) -> bool:
        """Whether the graph is about this op: nothing is computed before it or after it."""
        return self._next(op) is None and not any(t.id in self._producers for t in op.inputs)

    # --- what must have certain values ---

    def _shape_operand(self, use: Use) -> Array | None:
        if not use.op.input_ports[use.port].shape_operand:
            return None
        shape, inputs = use.op.outputs[0].dims, use.op.inputs[0].dims
        count = math.prod(use.op.inputs[use.port].dims)
        if use.name == "axes":
            changed = [a for a, d in enumerate(inputs) if len(shape) != len(inputs) or d != shape[a]]
            return np.asarray((changed or [len(inputs) - 1])[-count:], np.float64)
        if count == len(shape):
            return np.asarray(shape, np.float64)
        ncx = use.op.attributes.get("data_format") == "NCX"
        return np.asarray(shape[2:] if ncx else shape[1:-1], np.float64)

    def follows(self, tensor: LogicalTensor) -> LogicalTensor | None:
        """The tensor that the statistics of a softmax, an input of its gradient, must belong to."""
        use = self._use(tensor, through=False)
        after = self._next(use.op)
        if use.op.kind != "Subtract" or use.port != 1 or after is None or after.kind != "Exp":
            return None
        source = use.op.inputs[0]
        fits = (
            source.id in self._producers
            and len(source.dims) == len(tensor.dims)
            and source.dims != tensor.dims
        )
        return source if fits else None

    def _mask(self, tensor: LogicalTensor, use: Use) -> Array | None:
        """Masks of attention: what is added to scores, or selects among them, before softmax."""
        op, shape = use.op, tensor.dims
        others = [t for i, t in enumerate(op.inputs) if i != use.port]
        if tensor.data_type is DataType.s32 and op.kind in ("Add", "Subtract") and math.prod(shape) == 1:
            # Rows are moved by the lengths of keys and queries, so that the last row sees all keys.
            partner = others[0].dims
            if len(partner) > 1 and others[0].id in self._producers:
                return np.full(shape, float(partner[-1 if op.kind == "Add" else -2]))
        after = self._next(op)
        scores = [t for t in others if t.id in self._producers and t.data_type in FLOATING]
        if op.kind not in ("Add", "Select") or not scores or after is None or not self._is_softmax(after):
            return None
        whole_rows = after.attributes.get("mode") == "inf_as_zero"
        if op.kind == "Add" and tensor.data_type in FLOATING and len(shape) > 1:
            return _causal(shape, whole_rows)
        if op.kind == "Select" and use.port == 0:
            return np.full(shape, 1.0 if op.inputs[1].id == scores[0].id else 0.0)
        if op.kind == "Select" and op.inputs[0].id in self._producers:
            rows, columns = (*(1, 1), *op.outputs[0].dims)[-2:]
            hides_rows = rows > columns and not whole_rows
            return np.full(shape, -1e4 if hides_rows else -np.inf)
        return None

    def _is_softmax(self, op: Op) -> bool:
        after = self._next(op)
        return op.kind == "SoftMax" or (op.kind == "Subtract" and after is not None and after.kind == "Exp")

    def _parameter(self, tensor: LogicalTensor, wanted: Wanted) -> Array | None:
        """Inputs that are no data: scales, probabilities, statistics, conditions."""
        family, name = wanted.use.op.schema.family, wanted.use.name
        unsigned = tensor.data_type in (DataType.u8, DataType.u4)
        match (family, name):
            case ("dropout", "seed" | "offset"):
                return wanted.integers(0, 2**31 - 1)
            case ("dropout", "probability"):
                return np.full(tensor.dims, 0.25)
            case ("quantization", "scales"):
                return wanted.choice(SCALES)
            case ("quantization", "zps"):
                return wanted.integers(0 if unsigned else -2, 2)
            case ("normalization", "gamma"):
                return wanted.choice(WEIGHTS)
            case ("normalization", "beta"):
                return wanted.integers(-8, 8) / 8
            case ("normalization", "mean" | "running_mean"):
                return wanted.halves(1)
            case ("normalization", "variance" | "running_variance"):
                # With the op's epsilon, powers of two, whose roots are exact.
                return wanted.choice(VARIANCES) - number(wanted.use.op, "epsilon", 0.0)
            case ("binary", "cond"):
                return wanted.integers(0, 1)
            case _:
                return None

    # --- what the op computes with ---

    def _data(self, wanted: Wanted, tensor: LogicalTensor) -> Array:
        op = wanted.use.op
        if op.kind in PRODUCTS:
            return self._factor(wanted, tensor)
        if op.kind in PASSING:
            return self._passed(wanted, tensor)
        values = FAMILIES.get(op.schema.family, small)(wanted)
        return self._behind(values, tensor, wanted.use)

    def _inner(self, use: Use) -> bool:
        """Whether the op computes with a result of the graph too."""
        return any(t.id in self._producers for i, t in enumerate(use.op.inputs) if i != use.port)

    def _behind(self, values: Array, tensor: LogicalTensor, use: Use) -> Array:
        """What the tensor holds for the op to see such values, or as many steps of the quantization between."""
        if tensor.data_type in FLOATING:
            return values
        return np.clip(np.rint(values), -8, 8) + self._zero_point(use)

    def _zero_point(self, use: Use) -> float:
        zps = next((op.attributes.get("zps") for op in use.via if op.kind == "Dequantize"), None)
        return float(zps[0]) if isinstance(zps, tuple) and zps else 0.0

    def _factor(self, wanted: Wanted, tensor: LogicalTensor) -> Array:
        """Small integers whose sums of products are exact, by powers of two."""
        use, op = wanted.use, wanted.use.op
        if use.port > 1:
            return self._behind(wanted.integers(-4, 4), tensor, use)
        low, high = PRODUCT_RANGES.get(tensor.data_type, (-4, 4))
        values = wanted.integers(low, high)
        if tensor.data_type not in FLOATING:
            zero = self._zero_point(use)
            middle = (low + high) // 2 if zero > high else 0
            return np.where(wanted.uniform() < self._density, values - middle, 0.0) + zero
        quantized = [v for v in use.via if v.kind == "Quantize"]
        if quantized:
            scales = quantized[0].attributes.get("scales")
            return values * (float(scales[0]) if isinstance(scales, tuple) and scales else 1.0)
        terms = summands(op)
        digits = DIGITS.get(op.outputs[0].data_type, 24)
        density = min(1.0, 2.0**digits / 16 / terms)
        weights_gradient = op.kind.endswith("BackwardWeights")
        if use.port == (1 if weights_gradient else 0):
            return np.where(wanted.uniform() < density, values, 0.0)
        if self._sums_to_one(op.inputs[1 - use.port]):
            return values
        usual = math.sqrt(terms * density) * (np.std(np.arange(-4, 5)) ** 2)
        return values * 2.0 ** -round(math.log2(max(1.0, usual / TARGET)))

    def _sums_to_one(self, tensor: LogicalTensor) -> bool:
        """Whether the tensor comes from a softmax, whose products need no scaling."""
        while tensor.id in self._producers:
            op = self._producers[tensor.id]
            if op.kind == "SoftMax":
                return True
            if op.kind not in PASSING | {"Dropout"}:
                return False
            tensor = op.inputs[0]
        return False

    def _passed(self, wanted: Wanted, tensor: LogicalTensor) -> Array:
        """Data that is only cast, moved or quantized: also what saturates and what lies between two steps."""
        use = wanted.use
        if tensor.data_type in (DataType.f8_e4m3, DataType.f8_e5m2):
            return wanted.halves(4)
        if tensor.data_type not in FLOATING:
            return wanted.integers(*_range(tensor.data_type))
        quantize = next((op for op in (*use.via, use.op) if op.kind == "Quantize"), None)
        scales = quantize.attributes.get("scales") if quantize is not None else None
        step = float(scales[0]) if isinstance(scales, tuple) and scales else 1.0
        dynamic = any(op.kind == "DynamicQuantize" for op in (*use.via, use.op))
        if dynamic:
            step = SCALES[1]
        limit = 640 if quantize is not None or dynamic else 64
        return wanted.integers(-limit, limit) * step / 4


_RANGES = {
    DataType.s8: (-128, 127),
    DataType.u8: (0, 255),
    DataType.s4: (-8, 7),
    DataType.u4: (0, 15),
    DataType.boolean: (0, 1),
}


def _range(data_type: DataType) -> tuple[int, int]:
    return _RANGES.get(data_type, (-8, 8))


def _causal(shape: Sequence[int], whole_rows: bool) -> Array:
    """0 where a row may look, -inf where it may not; where softmax allows it, the last row looks nowhere."""
    rows, columns = shape[-2:]
    if rows == 1:
        return np.zeros(shape)
    seen = np.arange(rows)[:, None] >= np.arange(columns)[None, :]
    if whole_rows:
        seen[-1] = False
    return np.broadcast_to(np.where(seen, 0.0, -np.inf), shape)
