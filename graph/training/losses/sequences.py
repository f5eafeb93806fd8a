"""Losses of sequences whose labels have no times."""

from __future__ import annotations

from ....ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, ShapeError
from ....ops.schema import UNKNOWN_DIM, format_shape
from ....ops.values import format_value, integer
from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from .checks import checked, flag_of, shape_of
from .classes import INDICES
from .reducing import Reduction, finished, reduction_of


def ctc(
    graph: Graph,
    logits: LogicalTensor,
    labels: LogicalTensor,
    logit_lengths: LogicalTensor,
    label_lengths: LogicalTensor,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds connectionist temporal classification: −log of the probability of labels, spread over time in any way.

    Between labels, and before and behind them, there may be blanks, and a label may go on for some time; between two
    labels that are equal there must be a blank. This is torch's `ctc_loss` with examples first, of logits or of their
    LogSoftmax, which give the same. It runs on NumPy, in f64.

    Args:
        graph: that the tensors belong to.
        logits: [N, T, C] of floating-point numbers: examples, times, classes.
        labels: [N, S], s32 or s64, from 0 to C − 1 and not the blank as far as they count.
        logit_lengths: [N], of the type of labels: how many times count, T at most.
        label_lengths: [N], of the type of labels: how many labels count, S at most.
        blank: the class that stands for no label.
        zero_infinity: whether examples whose labels don't fit into their time count 0, with no gradient. Otherwise
            their loss is ∞, and the gradients are not finite.
        weights: factors of the losses, [N], of the type of logits.
        reduction: mean, in which each loss is divided by the number of its labels first, as in torch; sum; or none for
            the loss of each example.

    Returns:
        One number, of shape [], or one for each example; of the type of logits.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "ctc"
    lengths = {"logit_lengths": logit_lengths, "label_lengths": label_lengths}
    make = checked(what, graph, logits=logits, labels=labels, **lengths)
    wanted = reduction_of(what, reduction)
    shape = shape_of(logits)
    if len(shape) != 3:
        raise ShapeError(
            f"{what}: logits must have shape [N, T, C], examples, times and classes, got {format_shape(shape)}"
        )
    if labels.data_type not in INDICES:
        raise DataTypeError(f"{what}: labels must be s32 or s64, got {labels}")
    for name, tensor, axes in (("labels", labels, "[N, S]"), *((n, t, "[N]") for n, t in lengths.items())):
        if tensor.data_type is not labels.data_type:
            raise DataTypeError(
                f"{what}: {name} must be of the type of labels, {labels.data_type.value}, got {tensor}"
            )
        have = tensor.shape
        if have is not None and (
            len(have) != axes.count(",") + 1
            or (UNKNOWN_DIM not in (have[0], shape[0]) and have[0] != shape[0])
        ):
            raise ShapeError(
                f"{what}: {name} must have shape {axes} for logits of {format_shape(shape)}, got {format_shape(have)}"
            )
    number = integer(blank)
    if number is None:
        raise ArgumentTypeError(f"{what}: blank must be an integer, got {format_value(blank)}")
    if number < 0 or (shape[2] != UNKNOWN_DIM and number >= shape[2]):
        raise ArgumentError(
            f"{what}: blank must be one of the classes, 0 or more and below {shape[2]}, got {number}"
        )
    losses = make.op(
        "HostCTC",
        make.op("LogSoftmax", logits, axis=2),
        labels,
        logit_lengths,
        label_lengths,
        blank=number,
        zero_infinity=flag_of(what, "zero_infinity", zero_infinity),
    )
    if wanted is Reduction.mean:
        counts = make.op("HostCast", label_lengths, wanted=losses.data_type)
        losses = make.divide(losses, make.op("Maximum", counts, make.number(1, losses)))
    return finished(make, what, losses, wanted, weights)
