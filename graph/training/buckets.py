"""Buckets: tensors in one buffer whose mean over the ranks is made while the caller does other things.

MPI makes no progress by itself in most of its implementations, so `advance` is called now and then.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Protocol

import ml_dtypes
import numpy as np
from attrs import field

from ...ops.records import define
from ..runtime.arrays import Array
from .tracing import BucketTrace, bucket_name


class Bucket(Protocol):
    """A buffer of pieces.

    Attributes:
        sizes: elements of each piece.
        missing: pieces that have not been written since the last start.
    """

    sizes: tuple[int, ...]
    missing: set[int]

    def write(self, piece: int, values: Array, share: float = 1.0) -> None:
        """Copies a tensor to its place, times the share of this rank in the mean; a rank of no share has nothing."""
        ...

    def start(self) -> None:
        """Begins the exchange."""
        ...

    def advance(self) -> bool:
        """Does what can be done without waiting; whether every call that all ranks make in order has been made."""
        ...

    @property
    def done(self) -> bool:
        """Whether the means are there."""
        ...

    def read(self, piece: int, out: Array) -> None:
        """Copies the mean of a tensor."""
        ...


def places(sizes: Sequence[int]) -> list[slice]:
    """Where pieces of so many elements lie, one behind the other."""
    ends = list(accumulate(sizes, initial=0))
    return [slice(begin, end) for begin, end in pairwise(ends)]


def shared(values: Array, share: float, wide: np.dtype[Any]) -> Array:
    """Values times a share. Without examples there are no values, whatever was computed of none: zeros."""
    if share == 1.0:
        return values
    if share == 0.0:
        return np.zeros_like(values)
    return np.multiply(values, wide.type(share))


@define
class WholeBucket:
    """Sums of f32 or f64 by one non-blocking Allreduce, in the type of the buffer.

    Args:
        comm: of mpi4py; all ranks start their buckets on it in the same order.
        mpi: the module of mpi4py.
        sizes: elements of each piece.
        dtype: of the buffer.
    """

    comm: Any
    mpi: Any
    sizes: tuple[int, ...]
    dtype: np.dtype[Any]
    missing: set[int] = field(init=False)
    _at: list[slice] = field(init=False)
    _buffer: Array = field(init=False)
    _request: Any = field(init=False, default=None)
    _trace: BucketTrace = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.missing = set(range(len(self.sizes)))
        self._at = places(self.sizes)
        self._buffer = np.zeros(sum(self.sizes), self.dtype)
        self._trace = BucketTrace(bucket_name(self.sizes, self.dtype.itemsize), "Allreduce")

    def write(self, piece: int, values: Array, share: float = 1.0) -> None:
        self._trace.fills()
        np.copyto(self._buffer[self._at[piece]].reshape(values.shape), shared(values, share, self.dtype))

    def start(self) -> None:
        self._trace.starts()
        self._request = self.comm.Iallreduce(self.mpi.IN_PLACE, self._buffer, self.mpi.SUM)

    def advance(self) -> bool:
        if self._request is not None and self._request.Test():
            self._request = None
            self._trace.lands()
        return True

    @property
    def done(self) -> bool:
        return self._request is None

    def read(self, piece: int, out: Array) -> None:
        total = self._buffer[self._at[piece]].reshape(out.shape)
        ranks = total.dtype.type(self.comm.size)
        if out.dtype == total.dtype:
            np.divide(total, ranks, out=out)
        else:
            np.copyto(out, (total / ranks).astype(out.dtype))


@define
class HalfBucket:
    """Means in bf16, which are summed in f32: each rank gets its share of all, sums it, and hands its means out.

    MPI has no sum of bf16. One of our own would be called by MPI for every step of its algorithm and would round at
    each, so that errors grow with the ranks. Here a number is rounded when it leaves its rank and once as a mean,
    whatever the number of ranks, sums are made in the order of the ranks, and as many bytes go over the wire as a
    good Allreduce of bf16 needs.

    Args:
        shares: of mpi4py, for the way out.
        means: another one, for the way back: the ways of two buckets may overlap, differently on each rank, and calls
            on one communicator must have one order.
        sizes: elements of each piece.
    """

    shares: Any
    means: Any
    sizes: tuple[int, ...]
    missing: set[int] = field(init=False)
    _at: list[slice] = field(init=False)
    _sent: Array = field(init=False)
    _received: Array = field(init=False)
    _own: Array = field(init=False)
    _request: Any = field(init=False, default=None)
    _trace: BucketTrace = field(init=False)
    _on_the_way_back: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self.missing = set(range(len(self.sizes)))
        self._at = places(self.sizes)
        ranks = self.shares.size
        share = -(-sum(self.sizes) // ranks)
        self._sent = np.zeros((ranks, share), ml_dtypes.bfloat16)
        self._received = np.zeros_like(self._sent)
        self._own = np.zeros(share, ml_dtypes.bfloat16)
        self._trace = BucketTrace(
            bucket_name(self.sizes, np.dtype(ml_dtypes.bfloat16).itemsize), "Alltoall, Allgather"
        )

    def write(self, piece: int, values: Array, share: float = 1.0) -> None:
        self._trace.fills()
        place = self._sent.reshape(-1)[self._at[piece]].reshape(values.shape)
        np.copyto(place, shared(values, share, np.dtype(np.float32)).astype(place.dtype))

    def start(self) -> None:
        self._trace.starts()
        # As integers of 16 bits: to MPI they are bytes.
        sent, received = self._sent.view(np.uint16), self._received.view(np.uint16)
        self._request = self.shares.Ialltoall(sent, received)
        self._on_the_way_back = False

    def advance(self) -> bool:
        if self._request is None:
            return True
        if not self._request.Test():
            return self._on_the_way_back
        if self._on_the_way_back:
            self._request = None
            self._trace.lands()
            return True
        total = self._received[0].astype(np.float32)
        for share in self._received[1:]:
            total += share.astype(np.float32)
        self._own[...] = (total / np.float32(self.shares.size)).astype(ml_dtypes.bfloat16)
        self._request = self.means.Iallgather(self._own.view(np.uint16), self._sent.view(np.uint16))
        self._on_the_way_back = True
        return True

    @property
    def done(self) -> bool:
        return self._request is None

    def read(self, piece: int, out: Array) -> None:
        mean = self._sent.reshape(-1)[self._at[piece]].reshape(out.shape)
        np.copyto(out, mean.astype(out.dtype))
