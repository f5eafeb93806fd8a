"""What buckets do, and what a process waits for, told to the profiles that are open."""

from __future__ import annotations

from time import perf_counter

from attrs import field

from ...ops.records import define
from ..runtime import profiling
from ..runtime.profiling import EventKind


@define
class BucketTrace:
    """The times of a bucket, taken down while a profile is open.

    Args:
        name: of the bucket, for events.
        algorithm: by which the mean is made.
    """

    name: str
    algorithm: str
    _first: float | None = field(init=False, default=None)
    _full: float | None = field(init=False, default=None)

    def fills(self) -> None:
        """A piece is going to be written."""
        if profiling.recordings and self._first is None:
            self._first = perf_counter()

    def starts(self) -> None:
        """It is full, and its exchange begins."""
        first, self._first, self._full = self._first, None, None
        if profiling.recordings:
            self._full = perf_counter()
            if first is not None:
                profiling.record_beside(EventKind.filling, self.name, "", (), first, self._full)

    def lands(self) -> None:
        """The means are there, as far as this process has looked."""
        full, self._full = self._full, None
        if full is not None:
            profiling.record_beside(EventKind.exchange, self.name, self.algorithm, (), full, perf_counter())


def waited(what: str, since: float) -> None:
    """Tells that this process has waited."""
    if profiling.recordings:
        profiling.record_beside(EventKind.wait, what, "", (), since, perf_counter())


def bucket_name(sizes: tuple[int, ...], itemsize: int) -> str:
    """Of a bucket of pieces of so many elements."""
    tensors = "1 tensor" if len(sizes) == 1 else f"{len(sizes)} tensors"
    nbytes = sum(sizes) * itemsize
    return f"{nbytes / 1e6:.3g} MB of {tensors}" if nbytes >= 1e4 else f"{nbytes} bytes of {tensors}"
