"""Metrics of what was found among what is there: precision, recall, F1, overlaps; and distances."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
from attrs import field

from ...ops.errors import ArgumentError, ShapeError, nearest
from ...ops.records import frozen
from ...ops.values import format_value, integer
from ..compile.signature import Results
from ..model.logical_tensor import format_shape
from ..runtime.arrays import Array
from .metrics import Accuracy, Metric, Ratios, fed
from .program import Feeds


def _count(value: int | None) -> int | None:
    number = integer(value)
    if value is not None and (number is None or number < 2):
        raise ArgumentError(f"classes must be a number of 2 or more, got {format_value(value)}")
    return number


@frozen
class Confusion:
    """Base of scores by how many were found, missed and invented, of each class.

    Of yes or no, the output has the shape of the labels, which are 0 and 1, and says 1 above the threshold. With
    `classes` it has a number for each class along `axis`, the largest for the class that it says, and the score is the
    mean of those of the classes, without classes that are neither there nor said.

    Attributes:
        output: name of the output.
        labels: name of the input with 0 and 1, or numbers of classes.
        threshold: 0.5 for probabilities, 0 for logits.
        classes: how many; None for yes or no.
        axis: of the classes, counted from the end where negative.
        ignore_index: label of what does not count; None for none.
    """

    output: str
    labels: str
    threshold: float = field(default=0.5, kw_only=True)
    classes: int | None = field(default=None, converter=_count, kw_only=True)
    axis: int = field(default=-1, kw_only=True)
    ignore_index: int | None = field(default=None, kw_only=True)

    @property
    def parts(self) -> int:
        """How many scores the mean is of."""
        return self.classes or 1

    def counts(self, outputs: Results, feeds: Feeds) -> tuple[Array, Array, Array]:
        """How many of each class are there and said, how many are said, and how many are there; of yes or no, of yes.

        Raises:
            ArgumentError: there is no such output, or no such input, or a label is of no class.
            ShapeError: the labels' shape is another one.
        """
        scores, labels = np.asarray(outputs[self.output]), fed(type(self).__name__, feeds, self.labels)
        said = scores > self.threshold if self.classes is None else self._largest(scores)
        if labels.shape != said.shape:
            raise ShapeError(
                f"{type(self).__name__}: labels {self.labels!r} must have shape {format_shape(said.shape)}, got "
                f"{format_shape(labels.shape)}"
            )
        if self.ignore_index is not None:
            counted = labels != self.ignore_index
            said, labels = said[counted], labels[counted]
        size = self.classes or 2
        wrong = labels[(labels < 0) | (labels >= size) | (labels != np.floor(labels))]
        if wrong.size:
            raise ArgumentError(
                f"{type(self).__name__}: labels {self.labels!r} must be integers from 0 to {size - 1}, got "
                f"{wrong.flat[0]}; ignore_index leaves out what does not count"
            )
        there = labels.astype(np.int64).reshape(-1)
        told = said.astype(np.int64).reshape(-1)
        first = 1 if self.classes is None else 0
        both, one, other = (
            np.bincount(x, minlength=size)[first:] for x in (there[there == told], told, there)
        )
        return both, one, other

    def _largest(self, scores: Array) -> Array:
        if not -scores.ndim <= self.axis < scores.ndim or scores.shape[self.axis] != self.classes:
            raise ShapeError(
                f"{type(self).__name__}: output {self.output!r} must have {self.classes} classes along axis "
                f"{self.axis}, got shape {format_shape(scores.shape)}"
            )
        return np.argmax(scores, axis=self.axis)


@frozen
class PrecisionScore(Confusion):
    """The share of what a model says that is there, 0 where it says nothing; see `Confusion`."""

    def __call__(self, outputs: Results, feeds: Feeds) -> Ratios:
        """What is both, and what is said."""
        both, said, there = self.counts(outputs, feeds)
        return Ratios(both, said, said + there)


@frozen
class RecallScore(Confusion):
    """The share of what is there that a model says, 0 where nothing is; see `Confusion`."""

    def __call__(self, outputs: Results, feeds: Feeds) -> Ratios:
        """What is both, and what is there."""
        both, said, there = self.counts(outputs, feeds)
        return Ratios(both, there, said + there)


@frozen
class F1Score(Confusion):
    """The harmonic mean of precision and recall, of several classes the mean of theirs (macro); see `Confusion`."""

    def __call__(self, outputs: Results, feeds: Feeds) -> Ratios:
        """Twice what is both, and what is said or there."""
        both, said, there = self.counts(outputs, feeds)
        return Ratios(2 * both, said + there)


@frozen
class MeanIoU(Confusion):
    """What is both said and there over what is one of them, the mean over classes: of segmentations; see `Confusion`.

    The sums are over all data, as segmentation benchmarks have it, and not over each image.
    """

    def __call__(self, outputs: Results, feeds: Feeds) -> Ratios:
        """What is both, and what is one of them."""
        both, said, there = self.counts(outputs, feeds)
        return Ratios(both, said + there - both)


@frozen
class MeanAbsoluteError:
    """The mean distance of an output from what it should be.

    Attributes:
        output: name of the output.
        targets: name of the input, of the same shape.
    """

    output: str
    targets: str

    def __call__(self, outputs: Results, feeds: Feeds) -> Array:
        """The distance of each element.

        Raises:
            ArgumentError: there is no such output, or no such input.
            ShapeError: the shapes differ.
        """
        found, wanted = np.asarray(outputs[self.output]), fed("MeanAbsoluteError", feeds, self.targets)
        if found.shape != wanted.shape:
            raise ShapeError(
                f"MeanAbsoluteError: targets {self.targets!r} must have the shape of output {self.output!r}, "
                f"{format_shape(found.shape)}, got {format_shape(wanted.shape)}"
            )
        return np.abs(found.astype(np.float64) - wanted.astype(np.float64))


def check_names(
    what: str, metrics: Mapping[str, Metric], outputs: Collection[str], inputs: Collection[str]
) -> None:
    """Sees to it that what metrics of ours go by is there; others are functions, which nobody can ask.

    Args:
        what: which metrics, for errors.
        outputs, inputs: names that the graph has.

    Raises:
        ArgumentError: an output or an input is not there.
    """
    for name, metric in metrics.items():
        if not isinstance(metric, Accuracy | Confusion | MeanAbsoluteError):
            continue
        fed_by = metric.targets if isinstance(metric, MeanAbsoluteError) else metric.labels
        for kind, one, known in (("output", metric.output, outputs), ("input", fed_by, inputs)):
            if one not in known:
                raise ArgumentError(
                    f"{what}: {name!r} reads the {kind} {format_value(one)}, which the graph has not"
                    f"{nearest(one, known)}; its {kind}s are {', '.join(map(repr, known)) or 'none'}"
                    + ("; graph.output(tensor, name=…) makes one" if kind == "output" else "")
                )
