"""What the library's Graph API must not be given, or can't do: one rule each, with what would have happened.

That API checks little. A C++ exception in it leaves the C function and aborts the process, and some ops run into memory
that is not theirs. All of this was seen by running ops on 3.2 in child processes (`tests/tools/try_native.py`), and is
taken to hold for later ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain

from ...graph.model.logical_tensor import LogicalTensor, may_overlap, row_major
from ...graph.model.op import Op
from ...ops.data_types import DataType
from ...ops.schema import UNKNOWN_DIM
from ..onednn.library.enumerators import CpuIsa
from ..onednn.library.loading import DATA_TYPES, MAX_NDIMS, OLDEST, load, loaded_library
from .api import KINDS, PROPERTIES, UNKNOWN_ID

NEWER: dict[str, tuple[str, ...]] = {
    "ConvTransposeBackwardWeights": ("output_padding",),
    "DynamicDequantize": ("group_shape",),
    "GELU": ("mode",),
    "GELUBackward": ("mode",),
    "MatMul": ("accumulation_mode",),
}
"""Attributes that 3.2 does not know. Their defaults are what it does, so they are left out then."""
IGNORED: dict[str, tuple[str, ...]] = {"SoftMax": ("mode",)}
"""Others that it does not know, which matter only in rows of nothing but -inf, and are always left out."""

TYPES = frozenset(DATA_TYPES) - {DataType.f64}
"""Types that its ops compute with; of f64 it knows the name."""


def why_not(op: Op) -> str | None:
    """Why the library can't be given an op, as far as the known shapes tell, or None."""
    if op.kind == "End":
        return None  # marks an output, and runs nowhere
    if op.kind not in KINDS:
        return _unknown(f"has no op {op.kind}", f"the op {op.kind}")
    for tensor in (*op.inputs, *op.outputs):
        reason = why_not_tensor(tensor)
        if reason is not None:
            return reason
    return next(filter(None, (rule(op) for rule in _RULES)), None)


def _unknown(lacks: str, what: str) -> str:
    """Why what 3.2 does not know is not given to the library; a later one may know it, but was never tried with it."""
    if load().version[:2] == OLDEST:
        return f"{loaded_library()} {lacks}"
    return f"{loaded_library()} is not given what 3.2 does not know: {what}"


def why_not_together(ops: Sequence[Op]) -> str | None:
    """Why the library can't be given these ops in one graph, though each alone may be fine, or None."""
    vectors = {
        t.id
        for op in ops
        if op.kind == "MatMul" and any(_rank(i) == 1 for i in op.inputs)
        for t in op.outputs
    }
    for op in ops:
        if op.kind == "BiasAdd" and op.inputs[0].id in vectors:
            return f"{op} goes along with a product of a vector, where {loaded_library()} aborts the process"
    return None


def why_not_tensor(tensor: LogicalTensor) -> str | None:
    """Why the library can't be given a tensor, or None."""
    if tensor.id == UNKNOWN_ID:
        return f"{loaded_library()} takes the id of {tensor} for none"
    if tensor.data_type not in TYPES:
        return f"{loaded_library()} computes no {tensor.data_type.value}, the type of {tensor}"
    if tensor.property_type not in PROPERTIES:
        return f"{loaded_library()} has no property type {tensor.property_type.value}, that of {tensor}"
    if tensor.shape is not None and len(tensor.shape) > MAX_NDIMS:
        return f"{tensor} has more than {MAX_NDIMS} axes, the library's limit"
    if tensor.shape is not None and 0 in tensor.shape:
        return f"{tensor} is empty, and some kernels of {loaded_library()} divide by zero then, which ends the process"
    if tensor.strides is not None and tensor.is_concrete and may_overlap(tensor.dims, tensor.strides):
        return f"{tensor} has strides that overlap, which the library refuses"
    return None


def _shape_operands(op: Op) -> str | None:
    for port, tensor in zip(op.input_ports, op.inputs, strict=True):
        if port.shape_operand:
            name = op.names.spell(port.name)
            return f"{loaded_library()} never reads '{name}', {tensor}, as an input; give it as an attribute"
    return None


def _newer_attributes(op: Op) -> str | None:
    specs = {spec.name: spec for spec in op.schema.attributes}
    for name in NEWER.get(op.kind, ()):
        value = op.attributes.get(name)
        if value is not None and value != specs[name].default and any(_listed(value)):
            said = f"{op.names.spell(name)}, which is {value!r}"
            return _unknown(f"does not know {said}", said)
    return None


def _listed(value: object) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (value,)  # pyright: ignore[reportUnknownVariableType] -- a tuple of what an attribute holds


HALVES: dict[DataType, tuple[CpuIsa, ...]] = {
    DataType.f16: (CpuIsa.avx512_core_fp16,),
    DataType.bf16: (CpuIsa.avx512_core, CpuIsa.avx2_vnni_2),
}
"""From which instruction sets on library 3.2 computes in 16 bits."""


def has_arithmetic(data_type: DataType) -> bool:
    """Whether the CPU, and the library's setting for it, has arithmetic in a type."""
    effective = int(load().c.dnnl_get_effective_cpu_isa())
    return data_type not in HALVES or any((effective & isa) == isa for isa in HALVES[data_type])


def _half(op: Op) -> str | None:
    if op.kind in ("Concat", "Reorder", "TypeCast"):
        return None
    half = next((t for t in chain(op.inputs, op.outputs) if not has_arithmetic(t.data_type)), None)
    if half is None:
        return None
    return (
        f"{half} is in {half.data_type.value}, for which {loaded_library()} has no {op.kind} on "
        f"{load().effective_isa}; it aborts the process"
    )


def _normalization(op: Op) -> str | None:
    if op.schema.family != "normalization":
        return None
    for tensor in op.inputs:
        if tensor.strides is not None and tensor.is_concrete and _has_gaps(tensor):
            return f"{tensor} has strides with gaps, and {loaded_library()} writes beyond its own memory then"
    if op.kind in ("LayerNorm", "LayerNormBackward"):
        data = op.inputs[0].shape
        axis = op.attributes.get("begin_norm_axis", -1)
        if data is not None and axis not in (-1, len(data) - 1):
            return (
                f"{loaded_library()} normalizes over the last axis only, begin_norm_axis is {axis}; it writes beyond "
                "memory"
            )
    if op.kind == "LayerNorm" and len(op.inputs) < 3 and op.attributes.get("use_affine", True):
        return (
            f"{loaded_library()} aborts the process where gamma and beta are missing; give use_affine=False"
        )
    return None


def _has_gaps(tensor: LogicalTensor) -> bool:
    """Whether memory between the first and the last element belongs to none."""
    steps = zip(tensor.dims, tensor.element_strides, strict=True)
    return sum((dim - 1) * step for dim, step in steps) + 1 > math.prod(tensor.dims)


def _quantization(op: Op) -> str | None:
    if op.kind == "DynamicQuantize" and len(op.inputs) > 2 and op.attributes.get("qtype") == "per_channel":
        return f"{loaded_library()} aborts the process for zero points per channel"
    return None


def _prelu(op: Op) -> str | None:
    if op.kind != "PReLUBackward" or _rank(op.inputs[1]) in (None, 1):
        return None
    if all(
        t.strides is None or (t.is_concrete and t.strides == row_major(t.dims))
        for t in (*op.inputs, *op.outputs)
    ):
        return None
    return f"{loaded_library()} aborts the process for a slope of more than one axis where strides are not row-major"


def _matmul(op: Op) -> str | None:
    if op.kind == "MatMul" and len(op.inputs) > 2 and any(_rank(t) == 1 for t in op.inputs[:2]):
        return f"{loaded_library()} aborts the process for a vector with a bias"
    return None


def _rank(tensor: LogicalTensor) -> int | None:
    return None if tensor.shape is None else len(tensor.shape)


def _reduction(op: Op) -> str | None:
    source, result = (op.inputs[0], op.outputs[0]) if op.schema.family == "reduction" else (None, None)
    if source is None or result is None or not (source.is_concrete and result.is_concrete):
        return None
    if math.prod(source.dims) == math.prod(result.dims):
        return (
            f"{loaded_library()} aborts the process where there is nothing to reduce, all axes having size 1"
        )
    return None


def _transposed_convolution(op: Op) -> str | None:
    if not op.kind.startswith("ConvTranspose"):
        return None
    if op.kind == "ConvTransposeBackwardData" and any(d > 1 for d in _integers(op, "dilations")):
        return f"{loaded_library()} takes each dilation for one more than it is; it is wrong, or aborts the process"
    groups = op.attributes.get("groups", 1)
    weights = _integers(op, "weights_shape") if op.kind.endswith("Weights") else op.inputs[1].shape
    position, data = (1, op.inputs[0]) if op.kind.endswith("Data") else (0, op.inputs[0])
    shape = data.shape
    if groups == 1 or weights is None or shape is None:
        return None
    channels = shape[1 if op.attributes.get("data_format") == "NCX" else -1]
    first = op.attributes.get("weights_format") == "IOX"
    found = weights[position if first else -1 - position]
    wanted = (found * groups) if position else found
    if UNKNOWN_DIM not in (channels, found) and wanted != channels:
        return (
            f"{loaded_library()} wants weights of {groups} groups as input channels by output channels of one group, "
            f"got {list(weights)} in {op.attributes.get('weights_format')}; it aborts the process"
        )
    return None


def _integers(op: Op, name: str) -> tuple[int, ...]:
    value = op.attributes.get(name)
    return tuple(int(v) for v in value) if isinstance(value, tuple) else ()


_RULES: tuple[Callable[[Op], str | None], ...] = (
    _shape_operands,
    _newer_attributes,
    _half,
    _normalization,
    _quantization,
    _prelu,
    _matmul,
    _reduction,
    _transposed_convolution,
)
