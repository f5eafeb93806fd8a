"""Gradients averaged over the ranks, by ops that are added to the graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Protocol

from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.records import define, frozen
from ..graph import Graph
from ..model.inference import infer
from ..model.logical_tensor import LogicalTensor
from ..model.topology import topological
from ..runtime.arrays import numpy_type

Layout = tuple[tuple[int, ...], DataType]
"""How many elements each piece of a bucket has, and the type in which they are sent."""


class Buckets(Protocol):
    """What gives out buckets: an `MpiCommunicator`.

    Attributes:
        key: for attributes of ops.
        bucket_bytes: a bucket that has so many is full.
        data_type: in which gradients are sent.
    """

    @property
    def key(self) -> int: ...

    @property
    def bucket_bytes(self) -> int: ...

    @property
    def data_type(self) -> DataType: ...

    def buckets(self, layouts: Sequence[Layout]) -> list[int]:
        """Buckets of these layouts, as numbers."""
        ...


@define
class _Filling:
    """A bucket that is being filled, of numbers that are sent as one type."""

    data_type: DataType
    pieces: list[LogicalTensor] = field(factory=list[LogicalTensor])

    @property
    def nbytes(self) -> int:
        return sum(math.prod(t.dims) for t in self.pieces) * numpy_type(self.data_type).itemsize


@frozen
class _Place:
    """Where a tensor lies: the number of a bucket, and which of its pieces it is."""

    bucket: int
    piece: int


def averaged(
    graph: Graph,
    comm: Buckets,
    loss: LogicalTensor,
    gradients: Sequence[LogicalTensor | None],
) -> Iterator[LogicalTensor | None]:
    """The means over the ranks of a loss and then of its gradients; None where there is none.

    Each gradient is put into its bucket by an op that runs as soon as it is there, and a bucket that is full begins
    its way while the rest of the backward pass runs. The ops that wait stand behind all of them, and each is added
    when its mean is asked for, so that what uses a mean may stand right behind it.

    Args:
        graph: open.
        comm: of this rank; all ranks do the same.
        loss: one number that depends on the inputs of the graph, sent as it is.
        gradients: sent as `comm.data_type`, or f64 where they are; of known shapes.

    Raises:
        UnsupportedError: a gradient whose shape is not known.
        ResourceError: the ranks have different gradients.
    """
    order, known = in_order(graph)
    tensors = {t.id: known.get(t.id, t) for t in (loss, *gradients) if t is not None}
    for tensor in tensors.values():
        if not tensor.is_concrete:
            raise UnsupportedError(
                f"the mean over the ranks needs all sizes of {tensor}, which are not known; give the parameter and the "
                "batch known sizes"
            )
    # The loss comes first: what depends on constants alone, as a gradient may, would else be put once and never again.
    chain = sorted(tensors.values(), key=lambda t: (t.id != loss.id, order.get(t.id, -1)))
    places = _places(comm, chain, loss)
    tokens: list[LogicalTensor] = []
    for tensor in chain:
        place = places[tensor.id]
        token: LogicalTensor = graph.op(
            "HostMeanStart",
            tensor,
            *tokens[-1:],
            communicator=comm.key,
            bucket=place.bucket,
            piece=place.piece,
        )
        tokens.append(token)
    return _ends(
        graph, comm, tokens[-1], [None if t is None else tensors[t.id] for t in (loss, *gradients)], places
    )


def _ends(
    graph: Graph,
    comm: Buckets,
    token: LogicalTensor,
    tensors: Sequence[LogicalTensor | None],
    places: dict[int, _Place],
) -> Iterator[LogicalTensor | None]:
    made: dict[int, LogicalTensor] = {}
    for tensor in tensors:
        if tensor is None:
            yield None
            continue
        if tensor.id not in made:
            place = places[tensor.id]
            made[tensor.id] = graph.op(
                "HostMeanEnd",
                token,
                output_type=tensor.data_type,
                communicator=comm.key,
                bucket=place.bucket,
                piece=place.piece,
                shape=tensor.dims,
            )
        yield made[tensor.id]


def in_order(graph: Graph) -> tuple[dict[int, int], dict[int, LogicalTensor]]:
    """The place in the order of ops at which each tensor is made, and the tensors with their shapes."""
    known, ops = infer(topological(graph.ops), {t.id: t for t in graph.tensors}, {})
    return {t.id: number for number, op in enumerate(ops) for t in op.outputs}, known


def _places(comm: Buckets, chain: Sequence[LogicalTensor], loss: LogicalTensor) -> dict[int, _Place]:
    """Buckets for tensors in the order in which they get ready, and where each lies."""
    full: list[_Filling] = []
    filling: dict[DataType, _Filling] = {}
    for tensor in chain:
        wide = tensor.data_type if tensor.data_type is DataType.f64 else DataType.f32
        sent = wide if tensor.id == loss.id or wide is DataType.f64 else comm.data_type
        bucket = filling.setdefault(sent, _Filling(sent))
        bucket.pieces.append(tensor)
        if bucket.nbytes >= comm.bucket_bytes:  # so that what is small goes along with what is large
            full.append(filling.pop(sent))
    buckets = [*full, *filling.values()]
    numbers = comm.buckets([(tuple(math.prod(t.dims) for t in b.pieces), b.data_type) for b in buckets])
    return {
        t.id: _Place(number, piece)
        for number, bucket in zip(numbers, buckets, strict=True)
        for piece, t in enumerate(bucket.pieces)
    }
