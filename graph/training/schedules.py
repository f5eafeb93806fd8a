"""Learning rates that change with the steps.

A schedule is a function from the number of steps that are done to the learning rate of the next one; those of here are
classes, so that they can be compared, printed and pickled.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import field

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value, integer

Schedule = Callable[[int], float]
"""From the number of steps that are done to the learning rate of the next one."""


def _rate(value: float, what: str = "lr") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what} must be a number, got {format_value(value)}")
    if not math.isfinite(value) or value < 0:
        raise ArgumentError(f"{what} must be a finite number of 0 or more, got {format_value(value)}")
    return float(value)


def _steps(value: int, what: str = "steps") -> int:
    number = integer(value)
    if number is None:
        raise ArgumentTypeError(f"{what} must be a number of steps, got {format_value(value)}")
    if number < 1:
        raise ArgumentError(f"{what} must be 1 or more, got {number}")
    return number


@frozen
class Constant:
    """The same rate at every step.

    Attributes:
        lr: the rate.
    """

    lr: float = field(converter=_rate)

    def __call__(self, step: int) -> float:
        return self.lr


@frozen
class StepDecay:
    """A rate that is multiplied by a factor from time to time.

    Attributes:
        lr: the first rate.
        steps: after how many steps it is multiplied, each time.
        factor: by which.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)
    factor: float = field(default=0.1, converter=lambda value: _rate(value, "factor"))

    def __call__(self, step: int) -> float:
        return self.lr * self.factor ** (step // self.steps)


@frozen
class Cosine:
    """A rate that falls along half a period of the cosine, and stays at its least then.

    Attributes:
        lr: the first rate.
        steps: after how many it is least.
        least: that rate.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)
    least: float = field(default=0.0, converter=lambda value: _rate(value, "least"))

    def __call__(self, step: int) -> float:
        done = min(step / self.steps, 1.0)
        return self.least + (self.lr - self.least) * (1 + math.cos(math.pi * done)) / 2


def schedule(lr: float | Schedule) -> Schedule:
    """A learning rate as a schedule.

    Raises:
        ArgumentTypeError, ArgumentError: neither a function nor a number of 0 or more.
    """
    return lr if callable(lr) else Constant(lr)


@frozen
class WarmUp:
    """A rate that grows evenly from the first step, up to where another schedule begins.

    Attributes:
        then: that schedule, or a rate.
        steps: how many steps it takes to its first rate.
    """

    then: Schedule = field(converter=schedule)
    steps: int = field(converter=_steps)

    def __call__(self, step: int) -> float:
        if step < self.steps:
            return self.then(0) * (step + 1) / self.steps
        return self.then(step - self.steps)
