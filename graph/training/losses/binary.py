"""Losses of yes or no, each element by itself."""

from __future__ import annotations

import math

from numpy.typing import ArrayLike

from ....ops.data_types import DataType
from ....ops.errors import ArgumentError, ShapeError
from ....ops.schema import format_shape
from ...gradients.arithmetic import Arithmetic
from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from .checks import check_alike, checked, shape_of, vector
from .reducing import Reduction, finished

LEAST_LOG = -100.0
"""Logarithms of probabilities are at least this, as in torch: −∞ would make a mean of many infinite."""
LEAST_PROBABILITY = 1e-12
"""Slopes are those of this probability below it, as in torch."""


def binary_cross_entropy(
    graph: Graph,
    probabilities: LogicalTensor,
    targets: LogicalTensor,
    *,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of −t · log p − (1 − t) · log(1 − p) over all elements.

    Where a model ends in a sigmoid, `binary_cross_entropy_with_logits` of what comes before it is more precise.

    Args:
        graph: that the tensors belong to.
        probabilities: p, from 0 to 1, of floating-point numbers and known rank; others give NaN. Logarithms are at
            least −100, and slopes at most 1e12.
        targets: t, from 0 to 1, of the same type and shape.
        weights: factors of the losses, of the shape of probabilities or its first axes; the mean is over the number of
            elements all the same. Of the same type.
        reduction: mean, sum, or none for each loss by itself.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "binary_cross_entropy"
    make = checked(what, graph, probabilities=probabilities, targets=targets)
    check_alike(what, ("probabilities", probabilities), targets=targets)
    one = make.number(1, probabilities)
    rest = make.subtract(one, probabilities)
    yes = _log(make, probabilities, make.op("Log", probabilities))
    no = _log(make, rest, make.op("HostLog1p", make.negative(probabilities)))
    both = make.add(make.multiply(yes, targets), make.multiply(no, make.subtract(one, targets)))
    return finished(make, what, make.negative(both), reduction, weights)


def _log(make: Arithmetic, of: LogicalTensor, value: LogicalTensor) -> LogicalTensor:
    """A logarithm, with the slope of one: 1 over what it is of, also where that or the logarithm is bounded."""
    bounded = _moved(make, of, make.op("Maximum", of, make.number(LEAST_PROBABILITY, of)))
    return _moved(make, make.op("Log", bounded), make.op("Maximum", value, make.number(LEAST_LOG, value)))


def _moved(make: Arithmetic, tensor: LogicalTensor, value: LogicalTensor) -> LogicalTensor:
    """Another value with the slopes of a tensor."""
    return make.add(tensor, make.op("HostStopGradient", make.subtract(value, tensor)))


def binary_cross_entropy_with_logits(
    graph: Graph,
    logits: LogicalTensor,
    targets: LogicalTensor,
    *,
    pos_weight: LogicalTensor | ArrayLike | None = None,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of −pos_weight · t · log σ(x) − (1 − t) · log σ(−x) over all elements, σ being the sigmoid.

    Logits of any size give what they should.

    Args:
        graph: that the tensors belong to.
        logits: x, of floating-point numbers and known rank.
        targets: t, from 0 to 1, of the same type and shape.
        pos_weight: factor of what is there, one number, or one for each class, which is the last axis; numbers or a
            tensor of the same type.
        weights: factors of the losses, of the shape of logits or its first axes; the mean is over the number of
            elements all the same. Of the same type.
        reduction: mean, sum, or none for each loss by itself.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "binary_cross_entropy_with_logits"
    make = checked(what, graph, logits=logits, targets=targets)
    check_alike(what, ("logits", logits), targets=targets)
    yes, no = _minus_log_sigmoids(make, logits)
    there = make.op("Multiply", yes, targets, auto_broadcast="none")
    if pos_weight is not None:
        there = make.multiply(there, _factor(make, what, pos_weight, logits))
    losses = make.add(there, make.multiply(no, make.subtract(make.number(1, targets), targets)))
    return finished(make, what, losses, reduction, weights)


def _factor(
    make: Arithmetic, what: str, given: LogicalTensor | ArrayLike, logits: LogicalTensor
) -> LogicalTensor:
    if isinstance(given, int | float) and not isinstance(given, bool):
        if not 0 <= given < math.inf:
            raise ArgumentError(f"{what}: pos_weight must be 0 or more, got {given:g}")
        return make.number(float(given), logits)
    shape = shape_of(logits)
    if not shape:
        raise ShapeError(f"{what}: pos_weight must be one number for logits of shape {format_shape(shape)}")
    return vector(make, what, "pos_weight", given, logits, shape[-1])


def _minus_log_sigmoids(make: Arithmetic, x: LogicalTensor) -> tuple[LogicalTensor, LogicalTensor]:
    """−log σ(x) and −log σ(−x)."""
    yes = make.negative(make.op("SoftPlus", x, beta=-1.0))
    no = make.op("SoftPlus", x, beta=1.0)
    if x.data_type is DataType.f64:
        return yes, no
    # The library's has the slopes to the last digits, and an error of 2e-6 in small values, which may be below 0.
    least = make.op("HostLog1p", make.op("Exp", make.negative(make.op("Abs", x))))
    zero = make.number(0, x)
    return (
        _moved(make, yes, make.add(make.op("Maximum", make.negative(x), zero), least)),
        _moved(make, no, make.add(make.op("Maximum", x, zero), least)),
    )
