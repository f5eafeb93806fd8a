"""Losses of one class out of several."""

from __future__ import annotations

import numpy as np
from attrs import field
from numpy.typing import ArrayLike

from ....ops.data_types import DataType
from ....ops.errors import ArgumentTypeError, DataTypeError, ShapeError
from ....ops.records import define
from ....ops.schema import UNKNOWN_DIM, format_shape
from ....ops.values import format_value, integer
from ...gradients.arithmetic import Arithmetic
from ...graph import Graph
from ...model.logical_tensor import LogicalTensor, label
from ...runtime.arrays import numpy_type
from .checks import axis_of, checked, fits, number_of, shape_of, vector
from .reducing import Reduction, finished, reduction_of

INDICES = (DataType.s32, DataType.s64)


def cross_entropy(
    graph: Graph,
    logits: LogicalTensor,
    labels: LogicalTensor,
    *,
    axis: int = -1,
    label_smoothing: float = 0.0,
    ignore_index: int | None = None,
    class_weights: LogicalTensor | ArrayLike | None = None,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
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
        class_weights: a factor for each class, C numbers or a tensor of the type of logits. With class numbers the mean
            is one by the weights of the labels, as in torch: their sum is what the losses' sum is divided by.
        weights: factors of the losses, of the shape of logits without `axis`, or its first axes; what the mean is
            divided by is the same with them. Of the type of logits.
        reduction: mean, sum, or none for the loss of each label, 0 for those that are ignored.

    Returns:
        One number, of shape [], or one for each label; of the type of logits.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "cross_entropy"
    make = checked(what, graph, logits=logits, labels=labels)
    along = axis_of(what, "logits", logits, axis)
    smoothing = number_of(what, "label_smoothing", label_smoothing, 0, 1)
    _check_ignored(what, ignore_index, labels)
    reduction = reduction_of(what, reduction)
    if labels.data_type not in INDICES and labels.data_type is not logits.data_type:
        raise DataTypeError(
            f"{what}: labels must be s32, s64, or of the type of logits, {logits.data_type.value}, got {labels}"
        )
    logs = _Logs(make, what, make.op("LogSoftmax", logits, axis=along), along, "logits", class_weights)
    if labels.data_type in INDICES:
        return logs.at(labels, ignore_index, smoothing, weights, reduction)
    return logs.shared(labels, smoothing, weights, reduction)


def negative_log_likelihood(
    graph: Graph,
    log_probabilities: LogicalTensor,
    labels: LogicalTensor,
    *,
    axis: int = -1,
    ignore_index: int | None = None,
    class_weights: LogicalTensor | ArrayLike | None = None,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of −log_probabilities at the labels: `cross_entropy` behind a LogSoftmax of your own.

    Args:
        graph: that the tensors belong to.
        log_probabilities: (…, C, …) of floating-point numbers, with the classes along `axis`.
        labels: class numbers, s32 or s64, of the shape of log_probabilities without that axis.
        axis, ignore_index, class_weights, weights, reduction: see `cross_entropy`.

    Returns:
        One number, of shape [], or one for each label; of the type of log_probabilities.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "negative_log_likelihood"
    make = checked(what, graph, log_probabilities=log_probabilities, labels=labels)
    along = axis_of(what, "log_probabilities", log_probabilities, axis)
    _check_ignored(what, ignore_index, labels)
    reduction = reduction_of(what, reduction)
    if labels.data_type not in INDICES:
        raise DataTypeError(f"{what}: labels must be s32 or s64, got {labels}")
    logs = _Logs(make, what, log_probabilities, along, "log_probabilities", class_weights)
    return logs.at(labels, ignore_index, 0.0, weights, reduction)


def _check_ignored(what: str, ignore_index: object, labels: LogicalTensor) -> None:
    if ignore_index is not None and (integer(ignore_index) is None or labels.data_type not in INDICES):
        raise ArgumentTypeError(
            f"{what}: ignore_index must be an integer, and labels s32 or s64, got {format_value(ignore_index)} and "
            f"{labels}"
        )


@define(eq=False)
class _Logs:
    """Logarithms of what classes are given, and what is made of them.

    Attributes:
        make: adds to the graph.
        what: the loss, for errors.
        logs: with the classes along an axis.
        axis: that one, counted from the front.
        called: what the user calls the tensor, for errors.
        given: weights of classes, as the user gave them.
    """

    make: Arithmetic
    what: str
    logs: LogicalTensor
    axis: int
    called: str
    given: LogicalTensor | ArrayLike | None
    by_class: LogicalTensor | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if self.given is not None:
            size = shape_of(self.logs)[self.axis]
            self.by_class = vector(self.make, self.what, "class_weights", self.given, self.logs, size)

    def at(
        self,
        labels: LogicalTensor,
        ignore_index: int | None,
        smoothing: float,
        weights: LogicalTensor | None,
        reduction: Reduction,
    ) -> LogicalTensor:
        """The loss of numbers of classes."""
        make, logs = self.make, self.logs
        places = _with_axis(make, self.what, self.called, labels, shape_of(logs), self.axis)
        ignored: LogicalTensor | None = None
        if ignore_index is not None:
            dtype = numpy_type(places.data_type)
            bounds = np.iinfo(dtype)
            number = int(ignore_index)
            if bounds.min <= number <= bounds.max:  # no label is another one
                ignored = make.op("HostEqual", places, make.graph.constant(np.asarray(number, dtype)))
                places = make.op("HostSelect", ignored, make.graph.constant(np.zeros((), dtype)), places)
        said = f"{self.what}: labels {label(labels)!r}"
        hits = make.op("HostGatherElements", logs, places, axis=self.axis, strict=True, classes_of=said)
        counted: LogicalTensor | None = None
        if self.by_class is not None:
            counted = make.op("HostGather", self.by_class, places, axis=0)
            hits = make.multiply(hits, counted)
        if smoothing:
            hits = self._smoothed(hits, smoothing)
        if ignored is not None:
            zero = make.number(0, hits)
            counted = make.op(
                "HostSelect", ignored, zero, make.number(1, hits) if counted is None else counted
            )
            hits = make.op("HostSelect", ignored, zero, hits)  # 0 · −∞ is not 0
        return self._done(hits, weights, reduction, counted)

    def shared(
        self, labels: LogicalTensor, smoothing: float, weights: LogicalTensor | None, reduction: Reduction
    ) -> LogicalTensor:
        """The loss of shares of classes."""
        make, logs = self.make, self.logs
        shape = shape_of(logs)
        if not fits(labels.shape, shape):
            raise ShapeError(
                f"{self.what}: labels must have the shape of {self.called}, {format_shape(shape)}, got "
                f"{format_shape(labels.shape)}; numbers of classes are integers"
            )
        none = make.op("HostEqual", labels, make.number(0, labels))
        counted = make.choose(none, make.number(0, logs), logs)  # 0 · −∞ is not 0
        both = self._weighted(make.op("Multiply", counted, labels, auto_broadcast="none"))
        hits = make.op("ReduceSum", both, axes=[self.axis], keep_dims=True)
        if smoothing:
            hits = self._smoothed(hits, smoothing)
        return self._done(hits, weights, reduction, None)

    def _smoothed(self, hits: LogicalTensor, smoothing: float) -> LogicalTensor:
        """Less of the labels, and some of all classes."""
        make = self.make
        evenly = make.op("ReduceMean", self._weighted(self.logs), axes=[self.axis], keep_dims=True)
        return make.op(
            "Add",
            make.op("Multiply", hits, make.number(1 - smoothing, hits)),
            make.op("Multiply", evenly, make.number(smoothing, hits)),
        )

    def _weighted(self, tensor: LogicalTensor) -> LogicalTensor:
        """What has the classes along the axis, times their weights."""
        if self.by_class is None:
            return tensor
        after = len(shape_of(self.logs)) - self.axis - 1
        shape = [-1, *[1] * after]
        return self.make.multiply(
            tensor, self.make.op("HostReshape", self.by_class, shape=shape, special_zero=False)
        )

    def _done(
        self,
        hits: LogicalTensor,
        weights: LogicalTensor | None,
        reduction: Reduction,
        counted: LogicalTensor | None,
    ) -> LogicalTensor:
        """The loss of what was found, with one element along the axis."""
        make = self.make
        if weights is not None or reduction is Reduction.none:
            hits = make.op("ReduceSum", hits, axes=[self.axis])
        found = finished(make, self.what, hits, reduction, weights, total=counted)
        return make.op("Multiply", found, make.number(-1, found))


def _with_axis(
    make: Arithmetic, what: str, called: str, labels: LogicalTensor, logits: tuple[int, ...], axis: int
) -> LogicalTensor:
    """Numbers of classes with an axis of one element where the classes are."""
    wanted = (*logits[:axis], *logits[axis + 1 :])
    have = labels.shape
    if not fits(have, wanted):
        raise ShapeError(
            f"{what}: labels must have the shape of {called} without axis {axis}, {format_shape(wanted)}, got "
            f"{format_shape(have)}"
        )
    known = [w if h == UNKNOWN_DIM else h for h, w in zip(have or wanted, wanted, strict=True)]
    shape = [*known[:axis], 1, *known[axis:]]
    if UNKNOWN_DIM in shape:  # what comes before the axis stays as it is, known or not
        shape[:axis] = [0] * axis
    zeros = UNKNOWN_DIM in known and 0 not in known
    if shape.count(UNKNOWN_DIM) <= 1 and (zeros or UNKNOWN_DIM not in known):
        return make.op("HostReshape", labels, shape=shape, special_zero=zeros)
    if have is None:
        raise ShapeError(f"{what}: the number of axes of labels, {labels}, must be known; describe it")
    # Zeros stand for all sizes, so the axis comes behind them first.
    last = make.op("HostReshape", labels, shape=[*[0] * len(known), 1], special_zero=True)
    order = [*range(axis), len(known), *range(axis, len(known))]
    return make.op("HostTranspose", last, order=order)
