"""BatchNorm by statistics that stay, multiplied into the weights of the convolution or matmul before it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ops.data_types import DataType
from ...ops.formats import axis_positions
from ...ops.records import frozen
from ..core.building import G
from ..model.logical_tensor import LogicalTensor, PropertyType
from ..model.op import Op
from ..runtime.arrays import Array
from .rewriting import Rewriting

KINDS = ("Convolution", "ConvTranspose", "MatMul")


@frozen
class _Fold:
    """A BatchNorm that goes.

    Attributes:
        op: before it. norm: itself.
        weights, bias: of the op with the BatchNorm in them.
    """

    op: Op
    norm: Op
    weights: Array
    bias: Array


def fold_batch_norm(graph: G) -> G:
    """The same graph without the BatchNormInference ops that its weights can take in.

    Those stay whose source something else reads as well, or no convolution or matmul of constant weights in f32 or f64
    has made, or whose channels are not that one's.
    """
    r = Rewriting(graph)
    folds = {fold.op.id: fold for op in r.ops if (fold := _fold(r, op)) is not None}
    gone = {fold.norm.id for fold in folds.values()}
    rewritten: list[Op] = []
    held: dict[int, tuple[LogicalTensor, Array]] = {}
    for op in r.ops:
        fold = folds.get(op.id)
        if op.id in gone:
            continue
        if fold is not None:
            weights = _instead(r, op.inputs[1], fold.weights)
            bias = [*op.inputs[2:], fold.norm.inputs[2]][0]  # under the name of beta where there is none
            own = (weights, _instead(r, bias, fold.bias, weights.data_type))
            held |= {t.id: (t, array) for t, array in zip(own, (fold.weights, fold.bias), strict=True)}
            rewritten.append(op.with_tensors([op.inputs[0], *own], fold.norm.outputs))
        else:
            rewritten.append(op)
    read = {t.id for op in rewritten for t in op.inputs} | r.wanted
    for tensor in graph.inputs:
        r.made.add_input(tensor)
    for number, array in r.arrays.items():
        if number in read and number not in held:
            r.made.add_constant(r.tensors[number], array)
    for number, parameter in r.parameters.items():
        r.made.add_parameter(r.tensors[number], parameter)
    for tensor, array in held.values():
        r.made.add_constant(tensor, array)
    for op in rewritten:
        r.made.add_op(op)
    r.mark()
    return r.made


def _instead(
    r: Rewriting[Any], tensor: LogicalTensor, array: Array, data_type: DataType | None = None
) -> LogicalTensor:
    """The constant that takes a tensor's place: under its id and name where one op alone reads it."""
    own = tensor.data_type if data_type is None else data_type
    number, name = tensor.id, tensor.name
    if len(r.topology.readers(tensor)) > 1 or tensor.id in r.wanted:
        other = r.beside(tensor, own, "folded")
        number, name = other.id, other.name
    return LogicalTensor(number, own, array.shape, property_type=PropertyType.constant, name=name)


def _fold(r: Rewriting[Any], norm: Op) -> _Fold | None:
    """What becomes of an op, where it is a BatchNorm that can go."""
    if norm.kind != "BatchNormInference" or any(t.id not in r.arrays for t in norm.inputs[1:]):
        return None
    src = norm.inputs[0]
    op = r.topology.producer(src)
    if op is None or op.kind not in KINDS or len(r.topology.readers(src)) > 1 or src.id in r.wanted:
        return None
    known = [t for t in op.inputs[1:] if t.id in r.arrays]
    if len(known) != len(op.inputs) - 1 or op.inputs[1].data_type not in (DataType.f32, DataType.f64):
        return None
    gamma, beta, mean, variance = (r.arrays[t.id].astype(np.float64) for t in norm.inputs[1:])
    weights = r.arrays[op.inputs[1].id]
    axis = _outputs(r, op, norm, weights.ndim)
    if axis is None or weights.shape[axis] != gamma.size:
        return None
    scale = gamma / np.sqrt(variance + norm.attributes.real("epsilon"))
    along = [1] * weights.ndim
    along[axis] = scale.size
    before = r.arrays[op.inputs[2].id].astype(np.float64) if len(op.inputs) > 2 else np.zeros(1)
    bias = (before - mean) * scale + beta
    if not np.isfinite(scale).all():
        return None
    return _Fold(
        op,
        norm,
        (weights * scale.reshape(along)).astype(weights.dtype),
        bias.astype(weights.dtype),
    )


def _outputs(r: Rewriting[Any], op: Op, norm: Op, rank: int) -> int | None:
    """The axis of an op's weights that lies along the channels of the BatchNorm; None where there is none."""
    shape = r.tensors[norm.inputs[0].id].shape
    if shape is None:
        return None
    layout = norm.attributes.string("data_format")
    if op.kind == "MatMul":
        channel = axis_positions(layout, len(shape) - 2)["C"][0]
        if channel != len(shape) - 1 or rank < 2:
            return None
        return rank - 2 if op.attributes.flag("transpose_b") else rank - 1
    if layout != op.attributes.string("data_format"):
        return None
    return axis_positions(op.attributes.string("weights_format"), rank - 2)["O"][0]
