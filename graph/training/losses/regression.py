"""Losses between numbers: squares, distances, and what lies between."""

from __future__ import annotations

from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from .checks import check_alike, checked, number_of
from .reducing import Reduction, finished


def mean_squared_error(
    graph: Graph,
    predictions: LogicalTensor,
    targets: LogicalTensor,
    *,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of (predictions − targets)² over all elements.

    Args:
        graph: that the tensors belong to.
        predictions: of floating-point numbers and known rank.
        targets: of the same type and shape.
        weights: factors of the squares, of the shape of predictions or its first axes; the mean is over the number of
            elements all the same. Of the same type.
        reduction: mean, sum, or none for each square by itself.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "mean_squared_error"
    make = checked(what, graph, predictions=predictions, targets=targets)
    check_alike(what, ("predictions", predictions), targets=targets)
    squares = make.op("SquaredDifference", predictions, targets, auto_broadcast="none")
    return finished(make, what, squares, reduction, weights)


def mean_absolute_error(
    graph: Graph,
    predictions: LogicalTensor,
    targets: LogicalTensor,
    *,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of |predictions − targets| over all elements, the loss L1; its slope is 0 where both are equal.

    Args:
        graph, predictions, targets, weights, reduction: see `mean_squared_error`.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "mean_absolute_error"
    make = checked(what, graph, predictions=predictions, targets=targets)
    check_alike(what, ("predictions", predictions), targets=targets)
    apart = make.op("Subtract", predictions, targets, auto_broadcast="none")
    return finished(make, what, make.op("Abs", apart), reduction, weights)


def huber(
    graph: Graph,
    predictions: LogicalTensor,
    targets: LogicalTensor,
    *,
    delta: float = 1.0,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of half the squares of d = predictions − targets up to |d| = delta, and of straight lines beyond.

    These are d² / 2, and delta · (|d| − delta / 2).

    Args:
        graph, predictions, targets, weights, reduction: see `mean_squared_error`.
        delta: above 0.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    delta = number_of("huber", "delta", delta, 0, open_low=True)
    return _huber("huber", graph, predictions, targets, delta, 1.0, weights, reduction)


def smooth_l1(
    graph: Graph,
    predictions: LogicalTensor,
    targets: LogicalTensor,
    *,
    beta: float = 1.0,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of |predictions − targets| with a parabola in the place of the edge: `huber` over beta.

    Args:
        graph, predictions, targets, weights, reduction: see `mean_squared_error`.
        beta: distance up to which it is a parabola, 0 or more; of 0 it is `mean_absolute_error`.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    beta = number_of("smooth_l1", "beta", beta, 0)
    if beta == 0:
        return mean_absolute_error(graph, predictions, targets, weights=weights, reduction=reduction)
    return _huber("smooth_l1", graph, predictions, targets, beta, 1 / beta, weights, reduction)


def _huber(
    what: str,
    graph: Graph,
    predictions: LogicalTensor,
    targets: LogicalTensor,
    delta: float,
    scale: float,
    weights: LogicalTensor | None,
    reduction: Reduction | str,
) -> LogicalTensor:
    make = checked(what, graph, predictions=predictions, targets=targets)
    check_alike(what, ("predictions", predictions), targets=targets)
    apart = make.op("Subtract", predictions, targets, auto_broadcast="none")
    # c · (d − c / 2) with c = d within ±delta is both pieces, and smooth at 0, as |d| is not.
    near = make.op("Clamp", apart, min=-delta, max=delta)
    losses = make.multiply(make.subtract(apart, make.scale(near, 0.5)), make.scale(near, scale))
    return finished(make, what, losses, reduction, weights)
