"""Metrics: what is told of a model beside its loss, as means over data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from attrs import field

from ...ops.errors import ArgumentError, ArgumentTypeError, ShapeError
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..compile.signature import Results
from ..model.logical_tensor import format_shape
from ..runtime.arrays import Array
from ..runtime.tensor import plain_array
from .program import Feeds

Metric = Callable[[Results, Feeds], object]
"""From the outputs of a batch, and its feeds, to one number for each example, or to one; see `Trainer.validate`."""

NO_NUMBERS = "OUScmM"
"""Kinds of NumPy's types that have no mean: objects, texts, complex numbers and times."""


def _top(value: int) -> int:
    number = integer(value)
    if number is None or number < 1:
        raise ArgumentError(f"top must be a number of classes of 1 or more, got {format_value(value)}")
    return number


@frozen
class Accuracy:
    """The share of labels that a model finds.

    Attributes:
        output: name of the output with a number for each class, the largest for the class that is found.
        labels: name of the input with numbers of classes, of the output's shape without `axis`.
        axis: of the classes, counted from the end where negative.
        top: how many of the largest may have the label among them; it has to be larger than all others but top − 1.
    """

    output: str
    labels: str
    axis: int = field(default=-1, kw_only=True)
    top: int = field(default=1, converter=_top, kw_only=True)

    def __call__(self, outputs: Results, feeds: Feeds) -> Array:
        """True where the label is found, and False elsewhere: where its number is NaN, or no class has it (-1, say).

        NaN counts as larger than all numbers.

        Raises:
            ArgumentError: there is no such output, or no such input.
            ShapeError: the labels' shape is another one.
        """
        scores, labels = outputs[self.output], _fed(feeds, self.labels)
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
        classes = labels.astype(np.int64)
        known = (classes == labels) & (classes >= 0) & (classes < moved.shape[-1])
        if not known.any():
            return known
        own = np.take_along_axis(moved, np.where(known, classes, 0)[..., None], axis=-1)
        first = np.argmax(moved, axis=-1) == classes
        found = first if self.top == 1 else np.sum(~(moved < own), axis=-1) <= self.top
        return known & found & ~np.isnan(own[..., 0])


def _fed(feeds: Feeds, name: str) -> Array:
    if name not in feeds:
        raise ArgumentError(
            f"Accuracy: there is no input {name!r}; the batch has {', '.join(map(repr, feeds))}"
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
            value: one number, or an array of them.
            weight: how many times each one counts.

        Raises:
            ArgumentTypeError: they are no numbers.
        """
        given = np.asarray(value)
        if given.dtype.kind in NO_NUMBERS:
            raise ArgumentTypeError(
                f"metric {name!r} must return a number or an array of numbers, got {format_value(value)}"
            )
        values = given.astype(np.float64)
        total, count = self.sums.get(name, (0.0, 0.0))
        self.sums[name] = (total + float(values.sum()) * weight, count + values.size * weight)

    def found(self, names: Iterable[str], mean: Callable[[float], float] | None) -> dict[str, float]:
        """The means of these; NaN where nothing was taken in.

        Args:
            names: all processes give the same.
            mean: of a number over all processes; None for this one alone.
        """
        found: dict[str, float] = {}
        for name in names:
            total, count = (
                value if mean is None else mean(value) for value in self.sums.get(name, (0.0, 0.0))
            )
            found[name] = total / count if count else math.nan
        return found


def batch_size(arrays: Iterable[Array]) -> int:
    """The length of the first array that has an axis."""
    return next((len(array) for array in arrays if array.ndim), 1)
