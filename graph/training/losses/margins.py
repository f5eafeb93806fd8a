"""Losses that want a distance between what fits and what does not, and no more."""

from __future__ import annotations

from ....ops.errors import ShapeError
from ....ops.schema import format_shape
from ...gradients.arithmetic import Arithmetic
from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from .checks import check_alike, checked, fits, number_of, shape_of
from .reducing import Reduction, finished

SMALL = 1e-12
"""Is added to squared lengths before they are divided by, as in torch."""


def hinge(
    graph: Graph,
    predictions: LogicalTensor,
    targets: LogicalTensor,
    *,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of max(0, 1 − targets · predictions) over all elements.

    Args:
        graph: that the tensors belong to.
        predictions: of floating-point numbers and known rank.
        targets: −1 and 1, of the same type and shape.
        weights, reduction: see `mean_squared_error`.

    Returns:
        One number, of shape [], or one for each element.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "hinge"
    make = checked(what, graph, predictions=predictions, targets=targets)
    check_alike(what, ("predictions", predictions), targets=targets)
    product = make.op("Multiply", predictions, targets, auto_broadcast="none")
    losses = make.op("ReLU", make.subtract(make.number(1, product), product))
    return finished(make, what, losses, reduction, weights)


def cosine_embedding(
    graph: Graph,
    first: LogicalTensor,
    second: LogicalTensor,
    targets: LogicalTensor,
    *,
    margin: float = 0.0,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of 1 − c for pairs that belong together, and of max(0, c − margin) for others.

    c is the cosine of the angle between both, along the last axis.

    Args:
        graph: that the tensors belong to.
        first, second: (…, D), of floating-point numbers and known rank.
        targets: 1 where a pair belongs together, −1 where not, of the same type and the shape without the last axis.
        margin: from −1 to 1.
        weights: factors of the losses, of the shape of targets or its first axes.
        reduction: mean, sum, or none for the loss of each pair.

    Returns:
        One number, of shape [], or one for each pair.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "cosine_embedding"
    make = checked(what, graph, first=first, second=second, targets=targets)
    margin = number_of(what, "margin", margin, -1, 1)
    _check_vectors(what, first, second=second)
    wanted = shape_of(first)[:-1]
    if not fits(targets.shape, wanted):
        raise ShapeError(
            f"{what}: targets must have the shape of first without its last axis, {format_shape(wanted)}, got "
            f"{format_shape(targets.shape)}"
        )
    small = make.number(SMALL, first)
    squares = (make.add(_along(make, make.op("Square", one)), small) for one in (first, second))
    lengths = make.op("Sqrt", make.multiply(*squares))
    both = _along(make, make.op("Multiply", first, second, auto_broadcast="none"))
    cosine = make.divide(both, lengths)
    one, zero = make.number(1, cosine), make.number(0, cosine)
    apart = make.op("ReLU", make.subtract(cosine, make.number(margin, cosine)))
    # Neither 1 nor −1 counts nothing, as in torch.
    losses = make.add(
        make.choose(make.op("HostEqual", targets, one), make.subtract(one, cosine), zero),
        make.choose(make.op("HostEqual", targets, make.number(-1, cosine)), apart, zero),
    )
    return finished(make, what, losses, reduction, weights)


def triplet_margin(
    graph: Graph,
    anchor: LogicalTensor,
    positive: LogicalTensor,
    negative: LogicalTensor,
    *,
    margin: float = 1.0,
    eps: float = 1e-6,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean of max(0, |anchor − positive| − |anchor − negative| + margin), of lengths along the last axis.

    Args:
        graph: that the tensors belong to.
        anchor, positive, negative: (…, D), of floating-point numbers and known rank.
        margin: above 0.
        eps: is added to differences, so that lengths of 0 have a slope.
        weights: factors of the losses, of the shape of anchor without its last axis, or its first axes.
        reduction: mean, sum, or none for the loss of each triplet.

    Returns:
        One number, of shape [], or one for each triplet.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "triplet_margin"
    make = checked(what, graph, anchor=anchor, positive=positive, negative=negative)
    margin = number_of(what, "margin", margin, 0, open_low=True)
    small = make.number(number_of(what, "eps", eps, 0, open_low=True), anchor)
    _check_vectors(what, anchor, name="anchor", positive=positive, negative=negative)
    near, far = (
        make.op("Sqrt", _along(make, make.op("Square", make.add(make.subtract(anchor, other), small))))
        for other in (positive, negative)
    )
    losses = make.op("ReLU", make.add(make.subtract(near, far), make.number(margin, near)))
    return finished(make, what, losses, reduction, weights)


def _check_vectors(what: str, first: LogicalTensor, name: str = "first", **others: LogicalTensor) -> None:
    if not shape_of(first):
        raise ShapeError(f"{what}: {name} must have a last axis, that of the vectors, got shape []")
    check_alike(what, (name, first), **others)


def _along(make: Arithmetic, tensor: LogicalTensor) -> LogicalTensor:
    """The sum along the last axis."""
    return make.op("ReduceSum", tensor, axes=[len(shape_of(tensor)) - 1])
