"""What `Trainer.fit` tells while it trains, and what listens to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from attrs import Factory

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError, nearest
from ...ops.records import frozen
from ...ops.values import format_value, integer


@frozen(kw_only=True)
class Epoch:
    """What `Trainer.fit` tells of an epoch; as a string, a line about it.

    Attributes:
        number: from 0 on.
        loss: mean over the steps that were not skipped.
        steps: how many there were.
        seconds: how long they took.
        training: means of each metric over the training batches, by name; empty where none was asked for.
        validation: means of the loss and of each metric over the validation data, by name; empty where there is none.
    """

    number: int
    loss: float
    steps: int
    seconds: float
    training: Mapping[str, float] = Factory(dict[str, float])
    validation: Mapping[str, float] = Factory(dict[str, float])

    @property
    def values(self) -> dict[str, float]:
        """All means by name: `loss`, training metrics as they are called, those of validation as `validation loss`."""
        others = {f"validation {name}": value for name, value in self.validation.items()}
        return {"loss": self.loss, **self.training, **others}

    def value(self, name: str) -> float:
        """One of `values`.

        Raises:
            ArgumentError: there is none of that name.
        """
        values = self.values
        if name not in values:
            raise ArgumentError(
                f"epoch {self.number} has no {format_value(name)}{nearest(name, values)}; it has "
                f"{', '.join(map(repr, values))}"
            )
        return values[name]

    def __str__(self) -> str:
        told = ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())
        return f"epoch {self.number}: {told}, {self.steps} steps in {self.seconds:.1f} s"


@frozen(kw_only=True)
class StepDone:
    """What `Trainer.fit` tells of a step; as a string, a line about it.

    Attributes:
        epoch: number of the epoch, from 0.
        batch: number of the batch in it, from 0.
        number: how many steps `fit` has done with this one, over all epochs.
        loss: before the update.
        skipped: whether it changed nothing, since its gradients were not finite.
    """

    epoch: int
    batch: int
    number: int
    loss: float
    skipped: bool

    def __str__(self) -> str:
        told = ", skipped" if self.skipped else ""
        return f"epoch {self.epoch}, batch {self.batch}: loss {self.loss:.4g}{told}"


class Callback:
    """What listens to `Trainer.fit`; derive from it what wants to hear of more than epochs.

    Several go together, each hears of everything, in their order. StopIteration from `__call__` or `step` ends the
    training once all have heard.

    Attributes:
        every: after how many steps each `step` is called; 0 for never.
        leads_only: whether of several processes the first alone has it called, as for what writes files.
        last: whether it hears after those that are not, as for what keeps the state that they leave.
        monitor: the mean of each epoch that it reads, see `Epoch.values`: `fit` asks at its beginning whether there
            will be one. None for none.
    """

    every: int = 0
    leads_only: bool = False
    last: bool = False
    monitor: str | None = None

    def begin(self, told: Sequence[Epoch], resumed: int | None) -> None:
        """Training begins.

        Args:
            told: of the epochs that were done before the file was written from which it goes on.
            resumed: number of the epoch in which it goes on; None where it does not.
        """

    def step(self, done: StepDone) -> None:
        """A step is done."""

    def __call__(self, epoch: Epoch) -> None:
        """An epoch is done."""

    def end(self) -> None:
        """Training has ended, whatever ended it."""


Listener = Callback | Callable[[Epoch], object]
"""What `Trainer.fit` takes as a callback: one that hears of everything, or a function of each epoch."""


class EverySteps(Callback):
    """Calls a function after every so many steps, `EverySteps(100, print)`.

    Args:
        every: how many.
        function: of a `StepDone`.

    Raises:
        ArgumentError: not 1 or more.
    """

    def __init__(self, every: int, function: Callable[[StepDone], object]) -> None:
        self.every = steps(every, "EverySteps")
        self._function = function

    def step(self, done: StepDone) -> None:
        self._function(done)


def steps(value: int, what: str) -> int:
    """A number of 1 or more."""
    number = None if isinstance(value, bool) else integer(value)
    if number is None or number < 1:
        raise ArgumentError(f"{what}: must be a number of 1 or more, got {format_value(value)}")
    return number


class Mode(StrEnum):
    """Which values are better."""

    min = "min"
    max = "max"


class Best:
    """Watches one mean of each epoch.

    Args:
        monitor: its name, see `Epoch.values`.
        mode: whether small or large values are better.
        min_delta: by how much more than that a value must be better than the best one.

    Attributes:
        value: the best one; None before there is one. NaN is never better.
        waited: how many epochs have passed since.
    """

    def __init__(self, monitor: str, mode: Mode | str, min_delta: float = 0.0) -> None:
        self.monitor = monitor
        self.mode = parse_enum(Mode, mode, "mode")
        if isinstance(min_delta, bool) or not isinstance(min_delta, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"min_delta must be a number, got {format_value(min_delta)}")
        if not min_delta >= 0:
            raise ArgumentError(f"min_delta must be 0 or more, got {format_value(min_delta)}")
        self._delta = float(min_delta)
        self.value: float | None = None
        self.waited = 0

    def take(self, epoch: Epoch) -> bool:
        """Looks at an epoch, and says whether it is the best so far.

        Raises:
            ArgumentError: it has no such mean.
        """
        value = epoch.value(self.monitor)
        gain = math.inf if self.value is None else self.value - value
        if self.mode is Mode.max:
            gain = math.inf if self.value is None else -gain
        if gain > self._delta and not math.isnan(value):
            self.value, self.waited = value, 0
            return True
        self.waited += 1
        return False


class Restorable(Protocol):
    """A `Trainer`, for `EarlyStopping`."""

    def snapshot(self) -> Callable[[], None]: ...


class EarlyStopping(Callback):
    """Ends the training when a mean has not got better for some epochs.

    Training that goes on from a file goes on waiting where it was.

    Args:
        monitor: the mean, see `Epoch.values`.
        patience: how many epochs in a row may be no better.
        min_delta: by how much more than that a value must be better than the best one.
        mode: `min` where small values are better, `max` where large ones are.
        restore_best: the trainer, to have it put back to where it was best when the training ends early. A copy of its
            state is kept in memory for that; of a best epoch from before the file that training goes on from, there is
            none, see `Checkpoints.load_best`.

    Attributes:
        best: the best value; None before there is one.
        stopped: whether it has ended the training.

    Raises:
        ArgumentError, ArgumentTypeError: an argument does not fit.
    """

    def __init__(
        self,
        monitor: str = "validation loss",
        *,
        patience: int = 3,
        min_delta: float = 0.0,
        mode: Mode | str = Mode.min,
        restore_best: Restorable | None = None,
    ) -> None:
        self.monitor = monitor
        self._patience = steps(patience, "EarlyStopping: patience")
        self._options: tuple[str, Mode | str, float] = (monitor, mode, min_delta)
        self._best = Best(*self._options)
        self._trainer = restore_best
        self._put_back: Callable[[], None] | None = None
        self.stopped = False

    @property
    def best(self) -> float | None:
        return self._best.value

    def begin(self, told: Sequence[Epoch], resumed: int | None) -> None:
        self._best, self._put_back, self.stopped = Best(*self._options), None, False
        for epoch in told:
            self._best.take(epoch)
        self._stop_if_late()

    def __call__(self, epoch: Epoch) -> None:
        if self._best.take(epoch) and self._trainer is not None:
            self._put_back = self._trainer.snapshot()
        self._stop_if_late()

    def _stop_if_late(self) -> None:
        if self._best.waited >= self._patience:
            self.stopped = True
            raise StopIteration

    def end(self) -> None:
        if self.stopped and self._put_back is not None:  # when all have seen the last epoch as it was
            self._put_back()
        self._put_back = None
