"""What the numbers of optimizers may be."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value


def share(value: float, what: str) -> float:
    """A number of at least 0 and below 1.

    Raises:
        ArgumentError, ArgumentTypeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what} must be a number, got {format_value(value)}")
    if not 0 <= value < 1:
        raise ArgumentError(f"{what} must be at least 0 and below 1, got {format_value(value)}")
    return float(value)


def not_negative(value: float, what: str) -> float:
    """A finite number of 0 or more.

    Raises:
        ArgumentError, ArgumentTypeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what} must be a number, got {format_value(value)}")
    if not 0 <= value < float("inf"):
        raise ArgumentError(f"{what} must be a finite number of 0 or more, got {format_value(value)}")
    return float(value)


def learning_rate(value: object, schedule: object) -> float:
    """What a schedule has returned for a step: a finite number of 0 or more, of Python or NumPy.

    Raises:
        ArgumentError, ArgumentTypeError: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ArgumentTypeError(
            f"a schedule must return a number for each step, got {format_value(value)} from {schedule}"
        )
    number = float(value)
    if not 0 <= number < float("inf"):
        raise ArgumentError(
            f"a schedule must return a finite number of 0 or more, got {format_value(number)} from {schedule}"
        )
    return number


def epsilon(value: float) -> float:
    """What is added to a root."""
    return not_negative(value, "eps")


def decay(value: float) -> float:
    """A decay of the weights."""
    return not_negative(value, "weight_decay")


def momentum(value: float) -> float:
    """A share of the velocity."""
    return share(value, "momentum")


def bound(instance: object, attribute: Any, value: float | None) -> None:
    """A validator of what gradients are clipped to: above 0, or None.

    Raises:
        ArgumentError, ArgumentTypeError: it is another one.
    """
    if value is not None and not_negative(value, attribute.name) == 0:
        raise ArgumentError(f"{attribute.name} must be above 0, or None for no clipping, got 0")


def shares(values: Sequence[float]) -> tuple[float, float]:
    """Two shares, `betas`.

    Raises:
        ArgumentError, ArgumentTypeError: they are none.
    """
    if not isinstance(values, list | tuple) or len(values) != 2:
        raise ArgumentTypeError(f"betas must be two numbers, got {format_value(values)}")
    return share(values[0], "betas[0]"), share(values[1], "betas[1]")
