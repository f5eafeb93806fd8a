"""Metrics: what is told of a model beside its loss, as means over data or quotients of sums; more are in `scores`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import cast

import numpy as np
from attrs import field
from attrs.converters import optional
from numpy.typing import ArrayLike

from ...ops.errors import ArgumentError, ArgumentTypeError, ShapeError
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..compile.signature import Results
from ..model.logical_tensor import format_shape
from ..runtime.arrays import Array
from ..runtime.tensor import plain_array
from .program import Feeds

Metric = Callable[[Results, Feeds], object]
"""From the outputs of a batch, and its feeds, to one number for each example, or to one, or to `Ratios`; see
`Trainer.validate`. A metric that gives `Ratios` has the attribute `parts`, how many they are."""

NO_NUMBERS = "OUScmM"
"""Kinds of NumPy's types that have no mean: objects, texts, complex numbers and times."""


def _numbers(values: ArrayLike) -> Array:
    return np.atleast_1d(np.asarray(values, np.float64))


def _top(value: int) -> int:
    number = integer(value)
    if number is None or number < 1:
        raise ArgumentError(f"top must be a number of classes of 1 or more, got {format_value(value)}")
    return number


@frozen
class Ratios:
    """Sums over a batch, and what they are divided by: both add up over batches and processes.

    The mean of the quotients is told. One whose divisor is 0 is 0, but left out where nothing of it was seen, unless
    that is all of them.

    Attributes:
        sums: `parts` numbers.
        counts: as many, 0 or more.
        seen: as many, above 0 for what there is; counts if None.
    """

    sums: Array = field(converter=_numbers)
    counts: Array = field(converter=_numbers)
    seen: Array | None = field(default=None, converter=optional(_numbers))


@frozen
class Accuracy:
    """The share of labels that a model finds.

    Attributes:
        output: name of the output with a number for each class, the largest for the class that is found.
        labels: name of the input with numbers of classes, of the output's shape without `axis`.
        axis: of the classes, counted from the end where negative.
        top: how many of the largest may have the label among them; it has to be larger than all others but top − 1.
        threshold: of yes or no: above which the output says 1 and not 0; the labels have its shape. 0.5 for
            probabilities, 0 for logits. None for classes.
        ignore_index: label of what does not count; None for none.
    """

    output: str
    labels: str
    axis: int = field(default=-1, kw_only=True)
    top: int = field(default=1, converter=_top, kw_only=True)
    threshold: float | None = field(default=None, kw_only=True)
    ignore_index: int | None = field(default=None, kw_only=True)

    def __call__(self, outputs: Results, feeds: Feeds) -> Array:
        """True where the label is found, and False elsewhere: where its number is NaN, or no class has it (-1, say).

        NaN counts as larger than all numbers.

        Raises:
            ArgumentError: there is no such output, or no such input; one class alone, or fewer than `top`.
            ShapeError: the labels' shape is another one.
        """
        scores, labels = np.asarray(outputs[self.output]), fed("Accuracy", feeds, self.labels)
        found = self._found(scores, labels) if self.threshold is None else self._above(scores, labels)
        return found if self.ignore_index is None else found[labels != self.ignore_index]

    def _above(self, scores: Array, labels: Array) -> Array:
        """Where yes or no is what the labels say."""
        if labels.shape != scores.shape:
            raise ShapeError(
                f"Accuracy: with a threshold labels {self.labels!r} must have the shape of output {self.output!r}, "
                f"{format_shape(scores.shape)}, got {format_shape(labels.shape)}"
            )
        return ((scores > self.threshold) == labels) & ~np.isnan(scores)

    def _found(self, scores: Array, labels: Array) -> Array:
        """Where the class with the largest number is the label's."""
        if not -scores.ndim <= self.axis < scores.ndim:
            raise ShapeError(
                f"Accuracy: output {self.output!r} must have the axis {self.axis} of the classes, got shape "
                f"{format_shape(scores.shape)}"
            )
        moved = np.moveaxis(scores, self.axis, -1)
        if labels.shape != moved.shape[:-1]:
            raise ShapeError(
                f"Accuracy: labels {self.labels!r} must have the shape of output {self.output!r} without axis "
                f"{self.axis}, {format_shape(moved.shape[:-1])}, got {format_shape(labels.shape)}"
            )
        if moved.shape[-1] < max(2, self.top):
            raise ArgumentError(
                f"Accuracy: output {self.output!r} must have 2 classes or more, and the {self.top} of top=, along axis "
                f"{self.axis}, got shape {format_shape(scores.shape)}; give threshold=… for an output of yes or no"
            )
        classes = labels.astype(np.int64)
        known = (classes == labels) & (classes >= 0) & (classes < moved.shape[-1])
        if not known.any():
            return known
        own = np.take_along_axis(moved, np.where(known, classes, 0)[..., None], axis=-1)
        first = np.argmax(moved, axis=-1) == classes
        found = first if self.top == 1 else np.sum(~(moved < own), axis=-1) <= self.top
        return known & found & ~np.isnan(own[..., 0])


def fed(what: str, feeds: Feeds, name: str) -> Array:
    """An input of a batch.

    Raises:
        ArgumentError: there is none of that name.
    """
    if name not in feeds:
        raise ArgumentError(
            f"{what}: there is no input {name!r}; the batch has {', '.join(map(repr, feeds))}"
        )
    value = feeds[name]
    return plain_array(value, f"input {name!r}")


class Means:
    """Sums and counts of values by name, batch after batch.

    Args:
        sums: and counts, to begin with.

    Attributes:
        sums: by name, and counts.
    """

    def __init__(self, sums: Mapping[str, tuple[float, float]] | None = None) -> None:
        self.sums: dict[str, tuple[float, float]] = dict(sums or {})

    def add(self, name: str, value: object, weight: float = 1.0) -> None:
        """Takes some more values in.

        Args:
            name: what they are of.
            value: one number, or an array of them, or `Ratios`.
            weight: how many times each one counts.

        Raises:
            ArgumentTypeError: they are no numbers.
        """
        if isinstance(value, Ratios):
            seen = value.counts if value.seen is None else value.seen
            for part, (more, counted, there) in enumerate(zip(value.sums, value.counts, seen, strict=True)):
                self._take(_part(name, part), float(more) * weight, float(counted) * weight)
                self._take(_seen(name, part), 0.0, float(there) * weight)
            return
        given = np.asarray(value)
        if given.dtype.kind in NO_NUMBERS:
            raise ArgumentTypeError(
                f"metric {name!r} must return a number or an array of numbers, got {format_value(value)}"
            )
        values = given.astype(np.float64)
        self._take(name, float(values.sum()) * weight, values.size * weight)

    def _take(self, key: str, more: float, counted: float) -> None:
        total, count = self.sums.get(key, (0.0, 0.0))
        self.sums[key] = (total + more, count + counted)

    def found(
        self, metrics: Mapping[str, object] | Iterable[str], mean: Callable[[float], float] | None
    ) -> dict[str, float]:
        """The means of these; NaN where nothing was taken in.

        Args:
            metrics: by name; all processes give the same. Of those with `parts` it is the mean of so many quotients.
            mean: of a number over all processes; None for this one alone.
        """

        def both(key: str) -> tuple[float, float]:
            total, count = self.sums.get(key, (0.0, 0.0))
            return (total, count) if mean is None else (mean(total), mean(count))

        found: dict[str, float] = {}
        named: Mapping[str, object] = (
            cast("Mapping[str, object]", metrics) if isinstance(metrics, Mapping) else dict.fromkeys(metrics)
        )
        for name, metric in named.items():
            parts: int | None = getattr(metric, "parts", None)
            if parts is None:
                if _part(name, 0) in self.sums:
                    raise ArgumentError(
                        f"metric {name!r} returns Ratios and must say how many they are, by an attribute 'parts', so "
                        "that processes without data know it, too"
                    )
                total, count = both(name)
                found[name] = total / count if count else math.nan
                continue
            sums = [both(_part(name, part)) for part in range(parts)]
            seen = [both(_seen(name, part))[1] for part in range(parts)]
            quotients = [total / count if count else 0.0 for total, count in sums]
            told = [q for q, there in zip(quotients, seen, strict=True) if there]
            found[name] = sum(told) / len(told) if told else 0.0
        return found


def _part(name: str, part: int) -> str:
    return f"{name}[{part}]"


def _seen(name: str, part: int) -> str:
    return f"{_part(name, part)} seen"
