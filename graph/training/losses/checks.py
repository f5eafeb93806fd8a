"""What losses ask of their arguments, and say where it is not so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat

import numpy as np
from numpy.typing import ArrayLike

from ....ops.errors import ArgumentError, ArgumentTypeError, DataTypeError, ShapeError
from ....ops.schema import UNKNOWN_DIM, format_shape
from ....ops.values import format_value, integer, listed
from ...gradients.arithmetic import Arithmetic, is_float
from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from ...runtime.arrays import numpy_type


def checked(what: str, graph: Graph, **tensors: LogicalTensor) -> Arithmetic:
    """What adds the ops of a loss to a graph, once its tensors are found to be some.

    Args:
        what: the loss, for errors.
        graph: an open one.
        tensors: by the names of the arguments. The first one must be of floating-point numbers and a known rank.

    Raises:
        ArgumentTypeError, DataTypeError, ShapeError: one is not.
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what}: graph must be a Graph, got {format_value(graph)}")
    for name, tensor in tensors.items():
        if not isinstance(tensor, LogicalTensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(
                f"{what}: {name} must be a tensor of the graph, as graph.input(…) makes one, got {format_value(tensor)}"
            )
    name, first = next(iter(tensors.items()))
    if not is_float(first.data_type):
        raise DataTypeError(f"{what}: {name} must be of floating-point numbers, got {first}")
    if first.shape is None:
        raise ShapeError(f"{what}: the number of axes of {name}, {first}, must be known; describe it")
    return Arithmetic(graph)


def shape_of(tensor: LogicalTensor) -> tuple[int, ...]:
    """The shape of a tensor that `checked` was given first."""
    return tensor.shape or ()


def check_alike(what: str, like: tuple[str, LogicalTensor], **others: LogicalTensor) -> None:
    """Checks that tensors have the type and, as far as they are known, the sizes of another one.

    Args:
        what: the loss, for errors.
        like: that one, behind its name.
        others: by name.

    Raises:
        DataTypeError, ShapeError: one has not; nothing is broadcast.
    """
    called, first = like
    for name, other in others.items():
        if other.data_type is not first.data_type:
            raise DataTypeError(
                f"{what}: {name} must be of the type of {called}, {first.data_type.value}, got {other}; make the input "
                "of that type, or cast it"
            )
        if not fits(other.shape, shape_of(first)):
            raise ShapeError(
                f"{what}: {name} must have the shape of {called}, {format_shape(first.shape)}, got "
                f"{format_shape(other.shape)}; reshape one of them"
            )


def fits(have: tuple[int, ...] | None, wanted: Sequence[int]) -> bool:
    """Whether a shape may be another one, as far as both are known."""
    return have is None or (
        len(have) == len(wanted)
        and all(a == b for a, b in zip(have, wanted, strict=True) if UNKNOWN_DIM not in (a, b))
    )


def axis_of(what: str, name: str, tensor: LogicalTensor, axis: object) -> int:
    """An axis counted from the front.

    Raises:
        ArgumentTypeError, ShapeError: it is no integer, or the tensor has no such axis.
    """
    number, shape = integer(axis), shape_of(tensor)
    if number is None:
        raise ArgumentTypeError(f"{what}: axis must be an integer, got {format_value(axis)}")
    if not -len(shape) <= number < len(shape):
        raise ShapeError(
            f"{what}: {name} must have the axis {number} of the classes, got shape {format_shape(shape)}"
        )
    return number % len(shape)


def number_of(
    what: str, name: str, value: object, low: float, high: float = math.inf, *, open_low: bool = False
) -> float:
    """A number between two others, the lower one left out where asked.

    Raises:
        ArgumentTypeError, ArgumentError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, SupportsFloat) or listed(value) is not None:
        raise ArgumentTypeError(f"{what}: {name} must be a number, got {format_value(value)}")
    given = float(value)
    if not (low < given if open_low else low <= given) or not given <= high or math.isinf(given):
        least = f"above {low:g}" if open_low else f"{low:g} or more"
        wanted = least if math.isinf(high) else f"from {low:g} to {high:g}"
        raise ArgumentError(f"{what}: {name} must be {wanted}, got {format_value(value)}")
    return given


def flag_of(what: str, name: str, value: object) -> bool:
    """True or False.

    Raises:
        ArgumentTypeError: it is neither.
    """
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{what}: {name} must be True or False, got {format_value(value)}")
    return value


def vector(
    make: Arithmetic, what: str, name: str, values: LogicalTensor | ArrayLike, like: LogicalTensor, size: int
) -> LogicalTensor:
    """One number for each class, as a tensor of shape [size] and the type of another one.

    Args:
        make: adds to the graph.
        what, name: the loss and the argument, for errors.
        values: a tensor, or numbers that become a constant.
        like: has the type.
        size: how many, -1 where that is not known.

    Raises:
        ArgumentTypeError, DataTypeError, ShapeError: they are others.
    """
    if isinstance(values, LogicalTensor):
        shape = values.shape
        if values.data_type is not like.data_type:
            raise DataTypeError(f"{what}: {name} must be {like.data_type.value}, got {values}")
        tensor = values
    else:
        try:
            array = np.asarray(values, np.float64).astype(numpy_type(like.data_type))
        except (TypeError, ValueError):
            raise ArgumentTypeError(
                f"{what}: {name} must be numbers, or a tensor of the graph, got {format_value(values)}"
            ) from None
        shape = array.shape
        tensor = make.graph.constant(array) if array.ndim == 1 else None
    if tensor is None or not fits(shape, [size]):
        raise ShapeError(
            f"{what}: {name} must have one number for each class, shape {format_shape((size,))}, got "
            f"{format_shape(shape)}"
        )
    return tensor
