"""How far `Trainer.fit` is, to the step, and as a text in the file from which it goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from attrs import field

from ...ops.errors import GraphFileError
from ...ops.records import define
from ...ops.values import integer
from .callbacks import Epoch
from .metrics import Means


@define(kw_only=True)
class Progress:
    """Where `fit` is.

    Attributes:
        first: number of its first epoch.
        epoch: number of the epoch that it is in, or that comes next.
        batch: how many batches of it are done.
        steps: how many steps are done in all of its epochs.
        seconds: how long those of this epoch took.
        means: over those.
        told: of the epochs that are done.
    """

    first: int
    epoch: int
    batch: int = 0
    steps: int = 0
    seconds: float = 0.0
    means: Means = field(factory=Means)
    told: list[Epoch] = field(factory=list[Epoch])

    def done(self, epoch: Epoch) -> None:
        """An epoch is done, and the next one comes."""
        self.told.append(epoch)
        self.epoch, self.batch, self.seconds, self.means = epoch.number + 1, 0, 0.0, Means()

    @property
    def text(self) -> str:
        """For a file."""
        numbers = {name: getattr(self, name) for name in ("first", "epoch", "batch", "steps", "seconds")}
        told = [
            [e.number, e.loss, e.steps, e.seconds, dict(e.training), dict(e.validation)] for e in self.told
        ]
        return json.dumps({**numbers, "means": self.means.sums, "told": told})


def progress_of(name: str, text: str) -> Progress | None:
    """Where `fit` was, by a file; None where it was over, or had not begun.

    Raises:
        GraphFileError: that part of the file is damaged.
    """
    if not text:
        return None
    try:
        said: Any = json.loads(text)
        told = [
            Epoch(
                number=_count(number),
                loss=float(loss),
                steps=_count(steps),
                seconds=float(seconds),
                training=_numbers(training),
                validation=_numbers(validation),
            )
            for number, loss, steps, seconds, training, validation in said["told"]
        ]
        sums = {key: (float(total), float(count)) for key, (total, count) in said["means"].items()}
        counts = {key: _count(said[key]) for key in ("first", "epoch", "batch", "steps")}
        return Progress(**counts, seconds=float(said["seconds"]), means=Means(sums), told=told)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise GraphFileError(
            f"{name}: what it says of the epochs is damaged ({type(error).__name__}); take another copy"
        ) from error


def _count(value: object) -> int:
    number = integer(value)
    if number is None or number < 0:
        raise ValueError
    return number


def _numbers(values: Any) -> Mapping[str, float]:
    return {str(name): float(value) for name, value in cast("Mapping[object, Any]", values).items()}
