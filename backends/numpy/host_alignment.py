"""NumPy kernels of the host family, continued: alignments of labels with times, by logarithms in f64.

Source: Graves et al., Connectionist temporal classification (ICML 2006).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np

from ...graph.model.op import Op
from ...ops.errors import ArgumentError
from .host_gather import counting
from .kernels import Array, kernel, store

Pair = tuple[Array, Array]
"""Numbers, and how they change along a direction."""


def _check(op: Op, name: str, values: Array, least: int, most: int) -> None:
    wrong = values[(values < least) | (values > most)]
    if wrong.size:
        raise ArgumentError(f"{op}: '{name}' must be from {least} to {most}, got {wrong.flat[0]}")


def _sum(parts: Sequence[Pair]) -> Pair:
    """Logarithm of a sum of exponentials; where all are −∞, it does not change."""
    top: Array = np.maximum.reduce([value for value, _ in parts])
    base = np.where(np.isneginf(top), 0.0, top)
    shares = [np.exp(value - base) for value, _ in parts]
    whole = np.add.reduce(shares)
    change = np.add.reduce([share * change for share, (_, change) in zip(shares, parts, strict=True)])
    return np.log(whole) + base, np.divide(change, whole, out=np.zeros_like(whole), where=whole > 0)


def _moved(pair: Pair, by: int) -> Pair:
    """States by so many places on, or back where negative; nothing comes in at the end."""
    made = np.full_like(pair[0], -np.inf), np.zeros_like(pair[1])
    for target, values in zip(made, pair, strict=True):
        if by > 0:
            target[:, by:] = values[:, :-by]
        else:
            target[:, :by] = values[:, -by:]
    return made


def _where(condition: Array, pair: Pair) -> Pair:
    return np.where(condition, pair[0], -np.inf), np.where(condition, pair[1], 0.0)


class _Lattice:
    """The states of labels with blanks between them, over time.

    Args:
        op: for errors, and with the blank.
        given: its inputs: src, labels and both lengths.
        along: a direction; none if None.
    """

    def __init__(self, op: Op, given: Sequence[Array], along: Array | None = None) -> None:
        self.src = given[0].astype(np.float64)
        self.along = np.zeros_like(self.src) if along is None else along.astype(np.float64)
        labels, self.times, lengths = (array.astype(np.int64) for array in given[1:])
        self.batch, most, classes = self.src.shape
        _check(op, "src_lengths", self.times, 0, most)
        _check(op, "label_lengths", lengths, 0, labels.shape[1])
        blank = op.attributes.integer("blank")
        counted: Array = counting(labels.shape[1]) < lengths[:, None]
        _check(op, "labels", labels[counted], 0, classes - 1)
        if (labels[counted] == blank).any():
            raise ArgumentError(
                f"{op}: 'labels' must not be the blank, {blank}; give attribute 'blank' a class that no label is"
            )
        self.states = np.full((self.batch, 2 * labels.shape[1] + 1), blank)
        self.states[:, 1::2] = np.where(counted, labels, blank)
        self.skips = np.zeros(
            self.states.shape, bool
        )  # the blank before a label, if the last label is another one
        self.skips[:, 2:] = (self.states[:, 2:] != blank) & (self.states[:, 2:] != self.states[:, :-2])
        place = counting(self.states.shape[1])
        self.begins = place <= 1
        self.ends = (place == 2 * lengths[:, None]) | (place == 2 * lengths[:, None] - 1)
        self.without = np.where(lengths == 0, 0.0, -np.inf)  # of those that have no time

    def at(self, time: int) -> Pair:
        """What each state has at a time."""
        found = (np.take_along_axis(array[:, time], self.states, 1) for array in (self.src, self.along))
        return cast("Pair", tuple(found))

    def forward(self) -> list[Pair]:
        """What leads to each state, at each time, with the state itself."""
        found: list[Pair] = []
        for time in range(self.src.shape[1]):
            here = self.at(time)
            if not found:
                found.append(_where(self.begins, here))
                continue
            last = found[-1]
            value, change = _sum([last, _moved(last, 1), _where(self.skips, _moved(last, 2))])
            found.append((value + here[0], change + here[1]))
        return found

    def whole(self, forward: Sequence[Pair]) -> Pair:
        """Logarithm of the probability of each example."""
        value, change = self.without.copy(), np.zeros(self.batch)
        for time, pair in enumerate(forward):
            last = self.times == time + 1
            if last.any():
                ends = _where(self.ends, pair)
                found = _sum([(ends[0][:, place], ends[1][:, place]) for place in range(ends[0].shape[1])])
                value, change = np.where(last, found[0], value), np.where(last, found[1], change)
        return value, change

    def shares(self, forward: Sequence[Pair]) -> Iterator[tuple[int, Array, Array]]:
        """At each time, the share of the ways that each class has, and how it changes."""
        whole, by_whole = self.whole(forward)
        back = np.full(self.states.shape, -np.inf), np.zeros(self.states.shape)
        skipped = np.zeros_like(self.skips)
        skipped[:, :-2] = self.skips[:, 2:]
        for time in range(len(forward) - 1, -1, -1):
            here = self.at(time)
            value, change = _sum([back, _moved(back, -1), _where(skipped, _moved(back, -2))])
            # What follows a state, with the state itself; after the last time nothing does.
            last = (self.times == time + 1)[:, None]
            value, change = (
                np.where(last, np.where(self.ends, 0.0, -np.inf), value),
                np.where(last, 0.0, change),
            )
            before, by_before = forward[time]
            share = np.exp(before + value - whole[:, None])
            share = np.where((self.times > time)[:, None], share, 0.0)
            # 0 · ∞ where no way leads to a state
            slope = np.where(share == 0, 0.0, share * (by_before + change - by_whole[:, None]))
            yield time, self._by_class(share), self._by_class(slope)
            back = value + here[0], change + here[1]

    def _by_class(self, values: Array) -> Array:
        """The sum over the states of each class."""
        classes = self.src.shape[2]
        places: Array = self.states + classes * counting(self.batch)[:, None]
        found = np.bincount(places.reshape(-1), values.reshape(-1), minlength=self.batch * classes)
        return found.reshape(self.batch, classes)

    def counted(self, op: Op, forward: Sequence[Pair]) -> Array:
        """Which examples have a gradient: with zero_infinity those that have a way."""
        whole = self.whole(forward)[0]
        return cast("Array", (whole > -np.inf) | (not op.attributes.flag("zero_infinity")))


@kernel("HostCTC")
def ctc(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Minus the logarithm of the sum of all ways."""
    with np.errstate(divide="ignore"):
        lattice = _Lattice(op, inputs)
        losses = -lattice.whole(lattice.forward())[0]
    store(outputs[0], np.where(np.isposinf(losses) & op.attributes.flag("zero_infinity"), 0.0, losses))


@kernel("HostCTCBackward")
def ctc_backward(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Minus the share of each class at each time; NaN where there is no way, and it does not count 0."""
    factor, *given = inputs
    with np.errstate(divide="ignore", invalid="ignore"):
        lattice = _Lattice(op, given)
        forward = lattice.forward()
        counted = lattice.counted(op, forward)
        for time, share, _ in lattice.shares(forward):
            found = -share * factor.astype(np.float64)[:, None]
            store(outputs[0][:, time], np.where(counted[:, None], found, 0.0))


@kernel("HostCTCCurvature")
def ctc_curvature(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """How those shares change along a direction."""
    factor, along, *given = inputs
    with np.errstate(divide="ignore", invalid="ignore"):
        lattice = _Lattice(op, given, along)
        forward = lattice.forward()
        counted = lattice.counted(op, forward)
        for time, _, slope in lattice.shares(forward):
            found = -slope * factor.astype(np.float64)[:, None]
            store(outputs[0][:, time], np.where(counted[:, None], found, 0.0))
