"""Many losses to one number: weights of examples, sums and means."""

from __future__ import annotations

from enum import StrEnum

from ....ops.data_types import parse_enum
from ....ops.errors import ArgumentTypeError, DataTypeError, ShapeError
from ....ops.schema import UNKNOWN_DIM, format_shape
from ....ops.values import format_value
from ...gradients.arithmetic import Arithmetic
from ...model.logical_tensor import LogicalTensor
from .checks import shape_of


class Reduction(StrEnum):
    """What a loss makes of its numbers."""

    mean = "mean"
    sum = "sum"
    none = "none"


def reduction_of(what: str, reduction: Reduction | str) -> Reduction:
    """The member that it is or spells.

    Raises:
        ArgumentError, ArgumentTypeError: it is none.
    """
    return parse_enum(Reduction, reduction, f"{what}: reduction")


def finished(
    make: Arithmetic,
    what: str,
    losses: LogicalTensor,
    reduction: Reduction | str,
    weights: LogicalTensor | None = None,
    *,
    total: LogicalTensor | None = None,
) -> LogicalTensor:
    """What a loss returns of the numbers that it has found.

    Args:
        make: adds to the graph.
        what: the loss, for errors.
        losses: of a known rank.
        reduction: see `Reduction`.
        weights: are multiplied to the losses; of as many leading axes of theirs as they like.
        total: weights of which a mean is taken, which are in the losses already; of the number of losses if None.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    wanted = reduction_of(what, reduction)
    if weights is not None:
        losses = make.op("Multiply", losses, _spread(make, what, weights, losses), auto_broadcast="none")
    if wanted is Reduction.none:
        return losses
    if wanted is Reduction.sum:
        return summed(make, losses)
    if total is not None:
        # A whole of its own kind, so that several processes may find the mean of what all of them have.
        return make.divide(summed(make, losses), make.op("HostMeanWeight", summed(make, total)))
    axes = _all_axes(losses)
    return make.op("ReduceMean", losses, axes=axes) if axes else losses


def summed(make: Arithmetic, tensor: LogicalTensor) -> LogicalTensor:
    """The sum of all elements, of shape []."""
    axes = _all_axes(tensor)
    return make.op("ReduceSum", tensor, axes=axes) if axes else tensor


def _all_axes(tensor: LogicalTensor) -> list[int]:
    return list(range(len(shape_of(tensor))))


def _spread(make: Arithmetic, what: str, weights: LogicalTensor, losses: LogicalTensor) -> LogicalTensor:
    """Weights of the shape of the losses."""
    if not isinstance(weights, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"{what}: weights must be a tensor of the graph, as graph.input(…) makes one, got {format_value(weights)}"
        )
    if weights.data_type is not losses.data_type:
        raise DataTypeError(f"{what}: weights must be {losses.data_type.value}, got {weights}")
    have, wanted = weights.shape, shape_of(losses)
    if (
        have is None
        or len(have) > len(wanted)
        or any(a not in (1, b) for a, b in zip(have, wanted, strict=False) if UNKNOWN_DIM not in (a, b))
    ):
        raise ShapeError(
            f"{what}: weights must have the first axes of the losses, {format_shape(wanted)}, with their sizes or 1, "
            f"got {format_shape(have)}; give weights of a last axis as shape [1, …]"
        )
    if len(have) < len(wanted):
        # Zeros stand for the sizes that are there, known or not; an op of the host stays f32 beside a loss.
        shape = [0] * len(have) + [1] * (len(wanted) - len(have))
        weights = make.op("HostReshape", weights, shape=shape, special_zero=True)
    if have == wanted and UNKNOWN_DIM not in have:
        return weights
    if len(have) == len(wanted) and 1 not in have:
        return weights
    return make.op("HostExpandTo", weights, losses)
