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
from ...ops.values import checked_count, format_value

Schedule = Callable[[int], float]
"""From the number of steps that are done to the learning rate of the next one."""


def _rate(value: float, what: str = "lr") -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(f"{what} must be a number, got {format_value(value)}")
    if not math.isfinite(value) or value < 0:
        raise ArgumentError(f"{what} must be a finite number of 0 or more, got {format_value(value)}")
    return float(value)


def _steps(value: int, what: str = "steps") -> int:
    return checked_count(value, what, "steps")


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
    if isinstance(lr, type):
        raise ArgumentTypeError(
            f"lr must be a number or a schedule, as Cosine(0.1, 1000); {lr.__name__} is a class: call it"
        )
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


@frozen
class CosineRestarts:
    """A rate that falls along half a period of the cosine again and again, as CosineAnnealingWarmRestarts of torch.

    Attributes:
        lr: the first rate of each time.
        steps: how many steps the first time takes; `T_0` in torch.
        multiple: how many times as long each time is as the one before; `T_mult` in torch.
        least: the rate that it falls to.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)
    multiple: int = field(default=1, converter=lambda value: _steps(value, "multiple"))
    least: float = field(default=0.0, converter=lambda value: _rate(value, "least"))

    def __call__(self, step: int) -> float:
        done, length = step, self.steps
        if self.multiple == 1:
            done %= length
        while done >= length:
            done, length = done - length, length * self.multiple
        return self.least + (self.lr - self.least) * (1 + math.cos(math.pi * done / length)) / 2


@frozen
class OneCycle:
    """A rate that rises from a small one and falls to a smaller one, as OneCycleLR of torch without its momentum.

    Attributes:
        lr: the highest rate.
        steps: how many steps all takes; the last rate stays then.
        rise: the share of the steps in which it rises; `pct_start` in torch.
        linear: whether it goes evenly and not along a cosine.
        first: by what the highest rate is divided at first; `div_factor` in torch.
        last: by what the first rate is divided at last; `final_div_factor` in torch.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)
    rise: float = field(default=0.3, converter=lambda value: _share(value, "rise"), kw_only=True)
    linear: bool = field(default=False, kw_only=True)
    first: float = field(default=25.0, converter=lambda value: _divisor(value, "first"), kw_only=True)
    last: float = field(default=1e4, converter=lambda value: _divisor(value, "last"), kw_only=True)

    def __call__(self, step: int) -> float:
        begin, top, end = self.lr / self.first, self.rise * self.steps - 1, self.steps - 1
        step = min(step, end)
        if step <= top:
            return self._between(begin, self.lr, step / top if top else 1.0)
        return self._between(self.lr, begin / self.last, (step - top) / (end - top))

    def _between(self, start: float, end: float, done: float) -> float:
        if self.linear:
            return start + (end - start) * done
        return end + (start - end) / 2 * (1 + math.cos(math.pi * done))


@frozen
class Exponential:
    """A rate that is multiplied by a factor after each step, as ExponentialLR of torch.

    Attributes:
        lr: the first rate.
        factor: `gamma` in torch.
    """

    lr: float = field(converter=_rate)
    factor: float = field(converter=lambda value: _rate(value, "factor"))

    def __call__(self, step: int) -> float:
        return self.lr * self.factor**step


@frozen
class Polynomial:
    """A rate that falls to 0 as a power of the steps that are left, as PolynomialLR of torch, and stays there.

    Attributes:
        lr: the first rate.
        steps: after how many it is 0.
        power: 1 for a line.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)
    power: float = field(default=1.0, converter=lambda value: _rate(value, "power"))

    def __call__(self, step: int) -> float:
        return self.lr * (1 - min(step / self.steps, 1.0)) ** self.power


@frozen
class Linear:
    """A rate that goes evenly from one share of it to another, as LinearLR of torch, and stays there.

    Attributes:
        lr: the rate.
        steps: after how many it is at the last share.
        first, last: the shares; `start_factor` and `end_factor` in torch.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)
    first: float = field(default=1 / 3, converter=lambda value: _rate(value, "first"), kw_only=True)
    last: float = field(default=1.0, converter=lambda value: _rate(value, "last"), kw_only=True)

    def __call__(self, step: int) -> float:
        return self.lr * (self.first + (self.last - self.first) * min(step / self.steps, 1.0))


@frozen
class InverseSqrt:
    """A rate that falls with the root of the steps, by which transformers are trained behind a WarmUp of as many steps.

    Attributes:
        lr: the first rate.
        steps: after three times as many it is half of that.
    """

    lr: float = field(converter=_rate)
    steps: int = field(converter=_steps)

    def __call__(self, step: int) -> float:
        return self.lr * math.sqrt(self.steps / (self.steps + step))


def _share(value: float, what: str) -> float:
    number = _rate(value, what)
    if number > 1:
        raise ArgumentError(f"{what} must be at least 0 and at most 1, got {format_value(value)}")
    return number


def _divisor(value: float, what: str) -> float:
    number = _rate(value, what)
    if not number:
        raise ArgumentError(f"{what} must be above 0, for it divides a rate, got 0")
    return number
