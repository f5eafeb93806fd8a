"""Steps over batches, again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import cast

import numpy as np
from attrs import Factory

from ...ops.errors import ArgumentError, ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..runtime.progress import bar
from .program import Feeds

Batches = Iterable[Feeds] | Callable[[int], Iterable[Feeds]]
"""The feeds of each step, gone through once an epoch; or a function from the number of the epoch to them."""


@frozen(kw_only=True)
class Epoch:
    """What `Trainer.fit` tells of an epoch; as a string, a line about it.

    Attributes:
        number: from 0 on.
        loss: mean over the steps that were not skipped.
        steps: how many there were.
        seconds: how long they took.
        validation: means of the loss and of each metric over the validation data, by name; empty where there is none.
    """

    number: int
    loss: float
    steps: int
    seconds: float
    validation: Mapping[str, float] = Factory(dict[str, float])

    def __str__(self) -> str:
        others = {f"validation {n}" if n == "loss" else n: value for n, value in self.validation.items()}
        told = ", ".join(f"{name} {value:.4g}" for name, value in {"loss": self.loss, **others}.items())
        return f"epoch {self.number + 1}: {told}, {self.steps} steps in {self.seconds:.1f} s"


def fitted(
    step: Callable[[Feeds], tuple[float, bool]],
    batches: Batches,
    epochs: int,
    first: int,
    validate: Callable[[int], Mapping[str, float]] | None,
    callbacks: Sequence[Callable[[Epoch], object]],
    *,
    shown: bool,
) -> list[Epoch]:
    """See `Trainer.fit`.

    Args:
        step: the loss of a step, and whether it was done.
        validate: from the number of the epoch to what is found of validation data.
        shown: whether a bar says how far it is.
    """
    count, start = (_count(epochs, "epochs"), _count(first, "first"))
    told: list[Epoch] = []
    for number in range(start, start + count):
        epoch = _epoch(step, batches, number, start + count, validate, shown=shown)
        told.append(epoch)
        try:
            for callback in callbacks:
                callback(epoch)
        except StopIteration:
            break
    return told


def _epoch(
    step: Callable[[Feeds], tuple[float, bool]],
    batches: Batches,
    number: int,
    end: int,
    validate: Callable[[int], Mapping[str, float]] | None,
    *,
    shown: bool,
) -> Epoch:
    losses: list[float] = []
    start, steps = perf_counter(), 0
    feeding = batches_of(batches, number, "batches")
    total = len(feeding) if isinstance(feeding, Sequence) else None
    with bar(f"epoch {number + 1} of {end}", total, shown=shown) as show:
        for feeds in feeding:
            loss, done = step(feeds)
            steps += 1
            if done:
                losses.append(loss)
            show(steps, f"loss {loss:.4g}")
    if not steps:
        raise ArgumentError(
            f"epoch {number} has no batches; give a list, or a function that makes them for each epoch"
        )
    seconds = perf_counter() - start
    return Epoch(
        number=number,
        loss=float(np.mean(losses)) if losses else float("nan"),
        steps=steps,
        seconds=seconds,
        validation={} if validate is None else validate(number),
    )


def batches_of(batches: Batches, number: int, what: str) -> Iterable[Feeds]:
    """The batches of an epoch.

    Raises:
        ArgumentTypeError: they are none, or one alone.
    """
    found = cast("object", batches(number) if callable(batches) else batches)
    if isinstance(found, Mapping) or not isinstance(found, Iterable):
        raise ArgumentTypeError(
            f"{what} must be a sequence of mappings from names to arrays, or a function from the number of the epoch "
            f"to one, got {format_value(cast('object', found))}; write [feeds] for one batch"
        )
    return cast("Iterable[Feeds]", found)


def _count(value: int, what: str) -> int:
    number = integer(value)
    if number is None or isinstance(value, bool):
        raise ArgumentTypeError(f"{what} must be an integer, got {format_value(value)}")
    if number < 0:
        raise ArgumentError(f"{what} must be 0 or more, got {number}")
    return number
