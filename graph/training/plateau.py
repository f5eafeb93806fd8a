"""A learning rate that falls where a number that is observed gets no better."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import numpy as np

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.values import format_value, integer
from ..runtime.parameter import Parameter
from .hyperparameters import not_negative
from .schedules import WarmUp


class Better(StrEnum):
    """Which of two numbers is better."""

    min = "min"
    max = "max"


class Plateau:
    """A rate that is multiplied by a factor once a number has got no better for a while, as ReduceLROnPlateau of torch.

    It is told the number by `observe`, after each epoch, say, of the mean loss of validation data, and is the only
    schedule that remembers something: files of a `Trainer` whose optimizers have it keep that too. Processes that train
    one model together all observe, and the same number, as `Trainer.validate` gives it to all.

    Args:
        lr: the first rate.
        mode: whether the smaller number is the better one, `min`, or the larger one, `max`.
        factor: by what the rate is multiplied, below 1.
        patience: how many times in a row the number may get no better; the next time the rate falls.
        threshold: by which share of the best number so far, or by how much with `absolute`, it has to be better.
        absolute: `threshold_mode="abs"` in torch.
        cooldown: for how many observations after a fall none counts.
        least: the rate does not fall below this.
        eps: a fall by no more than this is none.

    Raises:
        ArgumentError, ArgumentTypeError: an argument does not fit.
    """

    def __init__(
        self,
        lr: float,
        *,
        mode: Better | str = Better.min,
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        absolute: bool = False,
        cooldown: int = 0,
        least: float = 0.0,
        eps: float = 1e-8,
    ) -> None:
        self.lr, self.least = not_negative(lr, "lr"), not_negative(least, "least")
        self.mode = parse_enum(Better, mode, "mode")
        self.factor, self.threshold = not_negative(factor, "factor"), not_negative(threshold, "threshold")
        if self.factor >= 1:
            raise ArgumentError(f"factor must be below 1, so that the rate falls, got {format_value(factor)}")
        self.patience, self.cooldown = _count(patience, "patience"), _count(cooldown, "cooldown")
        self.absolute, self.eps = bool(absolute), not_negative(eps, "eps")
        worst = np.inf if self.mode is Better.min else -np.inf
        self.memory = Parameter(np.array([self.lr, worst, 0, 0]), np.dtype(np.float64))
        """The rate, the best number, how many in a row were no better, and for how many none counts."""

    @property
    def rate(self) -> float:
        """The rate of now."""
        return float(self.memory.array[0])

    def __call__(self, step: int) -> float:
        return self.rate

    def observe(self, value: float) -> bool:
        """Takes in another number; one that is NaN is no better.

        Returns:
            Whether the rate has fallen.

        Raises:
            ArgumentTypeError: it is none.
        """
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ArgumentTypeError(f"Plateau.observe takes a number, got {format_value(value)}") from None
        rate, best, bad, cooling = self.memory.array.tolist()
        if self._better(number, best):
            best, bad = number, 0
        else:
            bad += 1
        if cooling:
            cooling, bad = cooling - 1, 0
        lower = max(rate * self.factor, self.least)
        falls = bad > self.patience
        if falls:
            cooling, bad = self.cooldown, 0
            falls = rate - lower > self.eps
        self.memory.write(np.array([lower if falls else rate, best, bad, cooling]))
        return falls

    def _better(self, number: float, best: float) -> bool:
        sign = 1 if self.mode is Better.max else -1
        if not np.isfinite(best):
            return sign * number > sign * best
        return sign * number > sign * best + self.threshold * (1 if self.absolute else best)

    def __repr__(self) -> str:
        return f"Plateau({self.lr}, rate={self.rate})"


def plateaus(optimizers: Iterable[object]) -> list[Plateau]:
    """Those by which optimizers go, behind a warm-up too, each once."""
    found: dict[int, Plateau] = {}
    for one in optimizers:
        schedule: object = getattr(one, "lr", None)
        while isinstance(schedule, WarmUp):
            schedule = schedule.then
        if isinstance(schedule, Plateau):
            found[id(schedule)] = schedule
    return list(found.values())


def _count(value: int, what: str) -> int:
    number = None if isinstance(value, bool) else integer(value)
    if number is None:
        raise ArgumentTypeError(f"{what} must be an integer, got {format_value(value)}")
    if number < 0:
        raise ArgumentError(f"{what} must be 0 or more, got {number}")
    return number
