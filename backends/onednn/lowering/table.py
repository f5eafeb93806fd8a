"""Every op that has a lowering, by kind, and why one has none."""

from __future__ import annotations

from collections.abc import Mapping

from ....graph.model.op import Op
from ..library.loading import MAX_NDIMS
from . import (
    binary,
    convolution,
    eltwise,
    interpolate,
    matmul,
    movement,
    normalization,
    pooling,
    prelu,
    quantization,
    reduction,
    softmax,
    weight_gradient,
)
from .lowering import Lowered
from .tensors import PRIMITIVE_TYPES

LOWERED: Mapping[str, Lowered] = {
    kind: lowered
    for family in (
        binary, convolution, eltwise, interpolate, matmul, movement, normalization, pooling, prelu,
        quantization, reduction, softmax, weight_gradient,
    )
    for kind, lowered in family.LOWERED.items()
}  # fmt: skip
"""Op kind → how it is lowered."""


def why_not(op: Op) -> str | None:
    """Why no primitive can do the op, as far as its types and known shapes tell, or None."""
    lowered = LOWERED.get(op.kind)
    if lowered is None:
        return f"no lowering of {op.kind}"
    for port, tensor in (
        *zip(op.input_ports, op.inputs, strict=True),
        *zip(op.output_ports, op.outputs, strict=True),
    ):
        if port.shape_operand:
            continue
        if tensor.data_type not in PRIMITIVE_TYPES:
            return f"oneDNN 3.2's primitives take no {tensor.data_type.value}, as '{port.name}' is"
        if tensor.shape is not None and len(tensor.shape) > MAX_NDIMS:
            return f"oneDNN's tensors have at most {MAX_NDIMS} axes, '{port.name}' has {len(tensor.shape)}"
        if tensor.shape is not None and 0 in tensor.shape and not lowered.takes_empty:
            return f"nothing is computed: '{port.name}' has no elements"
    return lowered.why_not(op)
