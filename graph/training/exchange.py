"""The buckets of a rank: which there are, what has been put into them, and which are under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from ...ops.data_types import DataType
from ..runtime.arrays import Array
from .averaging import Layout
from .buckets import Bucket

MEAN = "the mean of a bucket"
"""What is waited for, for errors."""


class Wire(Protocol):
    """What moves buckets: an `MpiCommunicator`."""

    def bucket(self, sizes: tuple[int, ...], data_type: DataType, *, parts: bool = False) -> Bucket:
        """A bucket of pieces of so many elements; with parts, each rank gets its part of each mean."""
        ...

    def count(self, what: str) -> None:
        """Counts a call that all ranks make together."""
        ...

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Looks until something is done."""
        ...


class Exchange:
    """Buckets by number, filled and sent in the same order on all ranks."""

    def __init__(self, wire: Wire) -> None:
        self._share = 1.0  # of this rank in means: 1 where all have equally much
        self._wire = wire
        self._buckets: list[Bucket] = []
        self._numbers: dict[tuple[tuple[Layout, ...], bool], list[int]] = {}
        self._flying: deque[Bucket] = deque()
        self._put: set[tuple[int | None, int]] = set()  # since the last meeting

    def begin(self, share: float) -> None:
        """Says that a step begins, and which share this rank has in its means."""
        self._share = share
        self._put.clear()

    def has(self, bucket: int | None, piece: int) -> bool:
        """Whether a tensor has been put since."""
        return (bucket, piece) in self._put

    def numbers(self, layouts: Sequence[Layout], *, parts: bool = False) -> list[int]:
        """The numbers of buckets of these layouts, which are made where nobody has asked for them before."""
        wanted = tuple((tuple(sizes), data_type) for sizes, data_type in layouts), parts
        if wanted not in self._numbers:
            first = len(self._buckets)
            self._buckets += [self._wire.bucket(*layout, parts=parts) for layout in wanted[0]]
            self._numbers[wanted] = list(range(first, len(self._buckets)))
        return self._numbers[wanted]

    def put(self, bucket: int, piece: int, values: Array, share: float | None = None) -> None:
        """Copies a tensor into its place of a bucket; the last one of them starts the exchange."""
        one = self._ready(bucket)
        one.write(piece, values, self._share if share is None else share)
        self._put.add((bucket, piece))
        one.missing.discard(piece)
        if not one.missing:
            one.missing.update(range(len(one.sizes)))
            self._wire.count(MEAN)
            one.start()
            self._flying.append(one)
        self._advance()

    def get(self, bucket: int, piece: int, out: Array) -> None:
        """Waits for a bucket, and copies the mean of one of its tensors."""
        self._ready(bucket).read(piece, out)

    def land(self) -> None:
        """Waits for all that is under way."""
        while self._flying:
            self._wire.until(partial(self._landed, self._flying[0]), MEAN)

    def _ready(self, bucket: int) -> Bucket:
        """A bucket that is not under way; it may be, of a run that was cut short."""
        one = self._buckets[bucket]
        if not one.done:
            self._wire.until(partial(self._landed, one), MEAN)
        return one

    def _landed(self, one: Bucket) -> bool:
        self._advance()
        return one.done

    def _advance(self) -> None:
        """Lets what is under way go on, in the order in which it began."""
        for one in self._flying:
            if not one.advance():
                break
        while self._flying and self._flying[0].done:
            self._flying.popleft()
