"""Products on integers of 8 bits, of weights once and of activations as they come, by the largest of each row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.data_types import DataType
from ..core.building import G
from ..model.logical_tensor import LogicalTensor, evolve_tensor, format_shape, label
from ..model.op import Op
from ..runtime.arrays import Array, numpy_type
from .adapted import Use
from .ranges import LEAST
from .rewriting import Rewriting
from .weights import Quantizing, integers_of, products_of

MOST = 127
"""What the largest of a row and of a column becomes."""
ONE: Mapping[str, Any] = {"qtype": "per_tensor", "scales": [1.0], "zps": [0]}
"""Of activations that are divided by their scales already, which differ from row to row."""


def quantize_dynamic(graph: G, *, keep: Collection[str] = ()) -> G:
    """See `Graph.quantize_dynamic`."""
    r, uses = products_of(graph, keep, "quantize_dynamic")
    return _Dynamic(r, uses).done()


class _Dynamic(Quantizing[G]):
    """Weights behind a Dequantize, and activations behind a Quantize of what they are in their row's scale."""

    def __init__(self, rewriting: Rewriting[G], uses: dict[int, Use]) -> None:
        super().__init__(rewriting, uses, "quantize_dynamic")
        self._rows: dict[int, tuple[LogicalTensor, LogicalTensor]] = {}
        self._numbers: dict[str, LogicalTensor] = {}

    def _none(self, held: LogicalTensor) -> str:
        return (
            f"quantize_dynamic takes weights that are matrices, and activations that are not transposed, and found "
            f"none, as of {label(held)!r} of shape {format_shape(held.shape)}; take quantize_weights"
        )

    def _group_of(self, use: Use, seen: Array, axis: int) -> int | None:
        src = use.op.inputs[0]
        turned = use.op.attributes.flag("transpose_a") and (src.shape is None or len(src.shape) > 1)
        return seen.shape[axis] if seen.ndim == 2 and not turned else None

    def _integers(
        self, tensor: LogicalTensor, seen: Array, axis: int, group: int, read: DataType
    ) -> LogicalTensor:
        del read  # what integers make is f32
        r = self._rewriting
        found = integers_of(seen, axis, group, DataType.s8, DataType.f32)
        held = r.constant(r.beside(tensor, DataType.s8, DataType.s8.value), found.values)
        scales = found.scales.reshape(-1).tolist()
        name = r.beside(tensor, DataType.f32, "columns").name
        return r.op(
            "Dequantize",
            [held],
            LogicalTensor(r.new_id(), DataType.f32, seen.shape, name=name),
            qtype="per_channel",
            axis=1 - axis,
            scales=scales,
            zps=[0] * len(scales),
        )

    def _add(self, op: Op, inputs: Sequence[LogicalTensor]) -> None:
        if [t.id for t in inputs] == [
            t.id for t in op.inputs
        ]:  # its weights stay as they are, or it has none
            super()._add(op, inputs)
            return
        values, scales = self._activations(inputs[0])
        result = op.outputs[0]
        factor = self._op("Dequantize", [values], result, "rows", shape=values.shape, **ONE)
        turned = op.attributes.flag("transpose_b")
        made = self._op("MatMul", [factor, inputs[1]], result, "product", transpose_b=turned)
        steps = [("Multiply", [scales])]
        if len(inputs) > 2:
            bias = inputs[2]
            wide = bias if bias.data_type is DataType.f32 else self._op("TypeCast", [bias], bias, "f32")
            steps.append(("Add", [wide]))
        if result.data_type is not DataType.f32:
            steps.append(("TypeCast", []))
        for kind, others in steps[:-1]:
            made = self._op(kind, [made, *others], result, f"by_{kind.lower()}")
        kind, others = steps[-1]
        self._rewriting.op(kind, [made, *others], result)

    def _activations(self, src: LogicalTensor) -> tuple[LogicalTensor, LogicalTensor]:
        """Integers (…, K), and what they are multiples of, (…, 1); the same for all products that read them."""
        if src.id in self._rows:
            return self._rows[src.id]
        wide = src if src.data_type is DataType.f32 else self._op("TypeCast", [src], src, "f32")
        each = None if src.shape is None else (*src.shape[:-1], 1)
        sizes = self._op("Abs", [wide], src, "sizes")
        largest = self._op("ReduceMax", [sizes], src, "largest", shape=each, axes=[-1], keep_dims=True)
        steps = self._op("Multiply", [largest, self._number("step", 1 / MOST)], src, "steps", shape=each)
        # Added, for the larger of NaN and a number may be the number; what is not tiny stays as it is.
        scales = self._op("Add", [steps, self._number("least_step", LEAST)], src, "scales", shape=each)
        in_steps = self._op("Divide", [wide, scales], src, "in_steps")
        values = self._op("Quantize", [in_steps], src, DataType.s8.value, data_type=DataType.s8, **ONE)
        self._rows[src.id] = values, scales
        return values, scales

    def _op(
        self,
        kind: str,
        inputs: Sequence[LogicalTensor],
        like: LogicalTensor,
        ending: str,
        *,
        data_type: DataType = DataType.f32,
        shape: tuple[int, ...] | None = None,
        **attributes: object,
    ) -> LogicalTensor:
        """Adds an op, whose result is named after a tensor of the old graph, and has its shape where none is given."""
        result = self._rewriting.beside(like, data_type, ending)
        if shape is not None:
            result = evolve_tensor(result, shape=shape)
        return self._rewriting.op(kind, inputs, result, **attributes)

    def _number(self, name: str, value: float) -> LogicalTensor:
        if name not in self._numbers:
            r = self._rewriting
            held = LogicalTensor(r.new_id(), DataType.f32, [], name=f"quantize_dynamic.{name}")
            self._numbers[name] = r.constant(held, np.asarray(value, numpy_type(DataType.f32)))
        return self._numbers[name]
