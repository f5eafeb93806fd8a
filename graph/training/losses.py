"""Losses: one number each, as a mean over the batch."""

from __future__ import annotations

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, ShapeError
from ...ops.schema import UNKNOWN_DIM, format_shape
from ...ops.values import format_value, integer
from ..gradients.arithmetic import Arithmetic, is_float
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor
from ..runtime.arrays import numpy_type

INDICES = (DataType.s32, DataType.s64)


def cross_entropy(
    graph: Graph,
    logits: LogicalTensor,
    labels: LogicalTensor,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
) -> LogicalTensor:
    """Adds the cross-entropy of classes: the mean of −log softmax(logits) at the labels.

    Args:
        graph: that the tensors belong to.
        logits: (…, C, …) of floating-point numbers, with the classes along `axis`.
        labels: class numbers, s32 or s64, of the shape of logits without that axis; or the share of each class, of the
            shape and type of logits.
        axis: of the classes, counted from the end where negative.
        label_smoothing: share of each label that goes to all classes evenly, 0 to 1.
        ignore_index: label of what does not count, -100 in many data sets of text; None for none.

    Returns:
        One number, of shape [] and the type of logits.

    Raises:
        ArgumentError, DataTypeError, ShapeError: an argument does not fit.
    """
    if not is_float(logits.data_type):
        raise DataTypeError(f"cross_entropy: logits must be of floating-point numbers, got {logits}")
    if logits.shape is None or not -len(logits.shape) <= axis < len(logits.shape):
        raise ShapeError(
            f"cross_entropy: logits must have the axis {axis} of the classes, got shape {format_shape(logits.shape)}"
        )
    if not 0 <= label_smoothing <= 1:
        raise ArgumentError(
            f"cross_entropy: label_smoothing must be from 0 to 1, got {format_value(label_smoothing)}"
        )
    number = None if isinstance(ignore_index, bool) else integer(ignore_index)
    if ignore_index is not None and (number is None or labels.data_type not in INDICES):
        raise ArgumentTypeError(
            "cross_entropy: ignore_index must be an integer, and labels s32 or s64, got "
            f"{format_value(ignore_index)} and {labels}"
        )
    make, along = Arithmetic(graph), axis % len(logits.shape)
    ignored: LogicalTensor | None = None
    logs = make.op("LogSoftmax", logits, axis=along)
    if labels.data_type in INDICES:
        places = _with_axis(make, labels, logits.shape, along)
        if ignore_index is not None:
            dtype = numpy_type(places.data_type)
            ignored = make.op("HostEqual", places, graph.constant(np.asarray(ignore_index, dtype)))
            places = make.op("HostSelect", ignored, graph.constant(np.zeros((), dtype)), places)
        hits = make.op("HostGatherElements", logs, places, axis=along, strict=True)
    elif labels.data_type is logits.data_type:
        if labels.shape is not None and len(labels.shape) != len(logits.shape):
            raise ShapeError(
                f"cross_entropy: labels must have the shape of logits, {format_shape(logits.shape)}, got "
                f"{format_shape(labels.shape)}; numbers of classes are integers"
            )
        both = make.op("Multiply", logs, labels, auto_broadcast="none")
        hits = make.op("ReduceSum", both, axes=[along], keep_dims=True)
    else:
        raise DataTypeError(
            f"cross_entropy: labels must be s32, s64, or of the type of logits, {logits.data_type.value}, got {labels}"
        )
    if label_smoothing:
        evenly = make.op("ReduceMean", logs, axes=[along], keep_dims=True)
        hits = make.op(
            "Add",
            make.op("Multiply", hits, make.number(1 - label_smoothing, hits)),
            make.op("Multiply", evenly, make.number(label_smoothing, hits)),
        )
    axes = list(range(len(logits.shape)))
    if ignored is not None:
        counted = make.op("HostSelect", ignored, make.number(0, hits), make.number(1, hits))
        hits = make.op("HostSelect", ignored, make.number(0, hits), hits)  # 0 · −∞ is not 0
        mean = make.op(
            "Divide", make.op("ReduceSum", hits, axes=axes), make.op("ReduceSum", counted, axes=axes)
        )
    else:
        mean = make.op("ReduceMean", hits, axes=axes)
    return make.op("Multiply", mean, make.number(-1, mean))


def _with_axis(make: Arithmetic, labels: LogicalTensor, logits: tuple[int, ...], axis: int) -> LogicalTensor:
    """Numbers of classes with an axis of one element where the classes are."""
    wanted = (*logits[:axis], *logits[axis + 1 :])
    have = labels.shape
    if have is not None and (
        len(have) != len(wanted)
        or any(h != w for h, w in zip(have, wanted, strict=True) if UNKNOWN_DIM not in (h, w))
    ):
        raise ShapeError(
            f"cross_entropy: labels must have the shape of logits without axis {axis}, {format_shape(wanted)}, got "
            f"{format_shape(have)}"
        )
    known = [w if h == UNKNOWN_DIM else h for h, w in zip(have or wanted, wanted, strict=True)]
    shape = [*known[:axis], 1, *known[axis:]]
    if shape.count(UNKNOWN_DIM) > 1:
        raise ShapeError(
            f"cross_entropy: at most one size of labels may be open, got {format_shape(tuple(known))}; describe them"
        )
    return make.op("HostReshape", labels, shape=shape, special_zero=False)


def mean_squared_error(graph: Graph, predictions: LogicalTensor, targets: LogicalTensor) -> LogicalTensor:
    """Adds the mean of (predictions − targets)² over all elements.

    Args:
        graph: that the tensors belong to.
        predictions: of floating-point numbers and known rank.
        targets: of the same type and shape.

    Returns:
        One number, of shape [].

    Raises:
        DataTypeError, ShapeError: an argument does not fit.
    """
    if predictions.shape is None:
        raise ShapeError(
            f"mean_squared_error: the number of axes of {predictions} must be known; describe it"
        )
    if targets.shape is not None and (
        len(targets.shape) != len(predictions.shape)
        or any(
            a != b for a, b in zip(predictions.shape, targets.shape, strict=True) if UNKNOWN_DIM not in (a, b)
        )
    ):
        raise ShapeError(
            f"mean_squared_error: targets must have the shape of predictions, {format_shape(predictions.shape)}, got "
            f"{format_shape(targets.shape)}"
        )
    make = Arithmetic(graph)
    squares = make.op("SquaredDifference", predictions, targets, auto_broadcast="none")
    return make.op("ReduceMean", squares, axes=list(range(len(predictions.shape))))
