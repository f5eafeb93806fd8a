"""Ranges of tensors, observed by running a graph, and the scale and zero point that follow from one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

import numpy as np

from ...ops.data_types import DataType
from ...ops.errors import NAN_GUIDE, ArgumentError, ArgumentTypeError
from ...ops.records import frozen
from ...ops.values import format_value
from ..compile.compiled_graph import CompiledGraph
from ..compile.whole import compile_graph
from ..core.building import GraphCore
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array

BINS = 2048
"""Of a histogram."""
SHRINKING = 64
"""How many ranges the method mse tries, from the whole one down to a part of it."""
LEAST = float(np.finfo(np.float32).tiny)
"""Scales below are no normal numbers; a range so small is none."""
LEVELS: Mapping[DataType, tuple[int, int]] = {DataType.u8: (0, 255), DataType.s8: (-127, 127)}
"""The integers that are used of a type: for signed ones as many below zero as above."""


class Method(StrEnum):
    """How a range follows from what was observed.

    minmax: from the smallest to the largest number. percentile: without the outermost 0.01 % on each side.
    mse: the one of least mean squared error, which cuts off more where a few numbers lie far out.
    """

    minmax = "minmax"
    percentile = "percentile"
    mse = "mse"


PERCENTILE = 1e-4
"""The part of the numbers on each side that the method percentile leaves out."""


@frozen
class Scale:
    """How 8-bit integers stand for numbers: (q − zero_point) · scale.

    Attributes:
        data_type: u8 or s8.
    """

    scale: float
    zero_point: int
    data_type: DataType


def scale_of(low: float, high: float, data_type: DataType) -> Scale:
    """The scale of a range, which is widened to hold zero: u8 from end to end, s8 symmetric around zero."""
    low, high = min(low, 0.0), max(high, 0.0)
    first, last = LEVELS[data_type]
    if data_type is DataType.s8:
        step = max(-low, high) / last
        return Scale(float(np.float32(step)) if step >= LEAST else 1.0, 0, data_type)
    step = float(np.float32((high - low) / (last - first)))
    if step < LEAST:
        return Scale(1.0, 0, data_type)
    return Scale(step, int(np.clip(np.rint(-low / step), first, last)), data_type)


class Observed:
    """What is known of one tensor's numbers: their range, and where it is asked for a histogram of them."""

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf
        self.counts = np.zeros(BINS, np.int64)

    def widen(self, array: Array) -> None:
        """Takes an array's range in."""
        self.low = min(self.low, float(array.min(initial=np.inf)))
        self.high = max(self.high, float(array.max(initial=-np.inf)))

    def count(self, array: Array) -> None:
        """Takes an array into the histogram, once the range is known."""
        if self.high > self.low:
            # In f32 there are not as many numbers between neighbours, and the largest are too far apart.
            self.counts += np.histogram(array.astype(np.float64), BINS, (self.low, self.high))[0]

    def range(self, method: Method, data_type: DataType) -> tuple[float, float]:
        """The range by a method; of nothing, that is of arrays without elements, it is zero."""
        if self.high <= self.low or method is Method.minmax:
            return (0.0, 0.0) if self.high < self.low else (self.low, self.high)
        edges = np.linspace(self.low, self.high, BINS + 1)
        if method is Method.percentile:
            part = np.cumsum(self.counts) / max(self.counts.sum(), 1)
            first, last = np.searchsorted(part, [PERCENTILE, 1 - PERCENTILE])
            return float(edges[first]), float(edges[min(last + 1, BINS)])
        return _least_error((edges[:-1] + edges[1:]) / 2, self.counts, (self.low, self.high), data_type)


def _least_error(
    centres: Array, counts: Array, whole: tuple[float, float], data_type: DataType
) -> tuple[float, float]:
    """The range in whose integers the numbers of a histogram have the least mean squared error."""
    first, last = LEVELS[data_type]
    best, least = whole, np.inf
    for part in np.linspace(1.0, 0.2, SHRINKING):
        low, high = whole[0] * part, whole[1] * part
        found = scale_of(low, high, data_type)
        integers = np.clip(np.rint(centres / found.scale) + found.zero_point, first, last)
        error = float(np.sum(counts * ((integers - found.zero_point) * found.scale - centres) ** 2))
        if error < least:
            best, least = (low, high), error
    return best


def observe(
    graph: GraphCore,
    feeds: object,
    tensors: Sequence[LogicalTensor],
    constants: Sequence[LogicalTensor],
    method: Method,
) -> tuple[dict[int, Observed], dict[int, Array]]:
    """Runs a graph and looks at some of its tensors.

    Args:
        graph: a copy that may be changed, not finalized.
        feeds: see `quantize`.
        tensors: what to look at.
        constants: tensors that depend on constants alone, whose value is wanted.

    Returns:
        What was seen, and the values, by tensor id.

    Raises:
        ArgumentError, ArgumentTypeError: there are no feeds, or one does not fit; a number that is none, or infinite.
    """
    names: dict[int, str] = {}
    for tensor in (*tensors, *constants):
        if tensor.id not in names:
            names[tensor.id] = f"calibration {tensor.id}"
            graph.output(tensor, name=names[tensor.id])
    model = compile_graph(graph)
    seen = {tensor.id: Observed() for tensor in tensors}
    values: dict[int, Array] = {}
    again: list[object] = []
    before = model.state.copy()
    number = -1
    for number, feed in enumerate(_listed(feeds)):
        results = _run(model, feed)
        for tensor in tensors:
            array = results[names[tensor.id]]
            if not np.isfinite(array).all():
                wrong = "NaN" if np.isnan(array).any() else "an infinity"
                raise ArgumentError(
                    f"calibration feed {number} gives {wrong} in tensor {label(tensor)!r}, for which there is no "
                    f"range; leave the feed out, or keep=[{label(tensor)!r}]; {NAN_GUIDE}"
                )
            seen[tensor.id].widen(array)
        if not number:
            values = {tensor.id: np.array(results[names[tensor.id]]) for tensor in constants}
        if method is not Method.minmax:
            again.append(feed)
    if number < 0:
        raise ArgumentError("calibration_feeds must have at least one feed to observe ranges from, got none")
    model.state.update(before)  # what calls assign: else a cache would be read that is fuller than it was
    for feed in again:
        results = _run(model, feed)
        for tensor in tensors:
            seen[tensor.id].count(results[names[tensor.id]])
    return seen, values


def _listed(feeds: object) -> Iterable[object]:
    if isinstance(feeds, Mapping | str | np.ndarray) or not isinstance(feeds, Iterable):
        raise ArgumentTypeError(
            "calibration_feeds must be an iterable of feeds, a mapping from input names to arrays or a tuple of arrays "
            f"each, got {format_value(cast('Any', feeds))}; write [feed]"
        )
    return cast("Iterable[object]", feeds)


def _run(model: CompiledGraph, feed: object) -> Mapping[str, Array]:
    """A call of the graph with a feed: one mapping or array, or several arrays in a tuple or list."""
    if isinstance(feed, tuple | list):
        return model(*cast("Sequence[object]", feed))
    return model(feed)
