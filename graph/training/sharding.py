"""The optimizer's state divided among the ranks: each updates its part of every parameter, and all gather the parts.

A part is one of as many equal pieces of the flat parameter as there are ranks, the last filled up with zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import ml_dtypes
import numpy as np
from attrs import field

from ...ops.data_types import DataType
from ...ops.errors import UnsupportedError
from ...ops.records import define
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter
from .averaging import Layout, in_order
from .buckets import places, shared
from .optimizers import Numbers, Optimizer
from .tracing import BucketTrace, bucket_name

F32 = np.dtype(np.float32)
PART = "training.part."
"""Names of parts in graphs begin so."""
BY_ELEMENT = frozenset(("HostSGD", "HostAdam", "HostUpdate"))
"""Kinds of ops that update each element by itself, but for `trust_ratio`."""


class Ranks(Protocol):
    """What divides a state: an `MpiCommunicator`."""

    @property
    def key(self) -> int: ...

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def bucket_bytes(self) -> int: ...

    @property
    def data_type(self) -> DataType: ...

    def buckets(self, layouts: Sequence[Layout], *, parts: bool = False) -> list[int]:
        """Buckets of these layouts; with parts, each rank gets its part of each mean alone."""
        ...

    def gather(self, own: Array, rows: Array) -> None:
        """Writes what each rank has into a row."""
        ...

    def broadcast(self, arrays: Sequence[Array]) -> None:
        """Writes what rank 0 has into the arrays of all."""
        ...


@runtime_checkable
class DividesState(Protocol):
    """A communicator that may divide the optimizer's state."""

    def shards(
        self, parameters: Mapping[str, Parameter], optimizers: Mapping[str, Optimizer]
    ) -> Shards | None:
        """The parts of this process; None where each keeps all."""
        ...


def part_size(elements: int, ranks: int) -> int:
    """Elements of a part, with what it is filled up with."""
    return -(-elements // ranks)


def into_rows(values: Array, rows: Array) -> None:
    """Writes a tensor into as many rows as there are ranks, one behind the other; what is behind it stays."""
    flat = np.ascontiguousarray(values).reshape(-1)
    full, rest = divmod(flat.size, rows.shape[1]) if rows.shape[1] else (0, 0)
    rows[:full] = flat[: flat.size - rest].reshape(full, -1)
    if rest:
        rows[full, :rest] = flat[flat.size - rest :]


def from_rows(rows: Array, out: Array) -> None:
    """The other way around, into a C-contiguous array."""
    flat = out.reshape(-1)
    full, rest = divmod(flat.size, rows.shape[1]) if rows.shape[1] else (0, 0)
    flat[: flat.size - rest].reshape(full, -1)[...] = rows[:full]
    if rest:
        flat[flat.size - rest :] = rows[full, :rest]


@define
class PartBucket:
    """A bucket whose means are divided: each rank gets its part of each tensor, summed in f32.

    f32 goes by one non-blocking Reduce_scatter; bf16 by Alltoall, with the sums made here in the order of the ranks.

    Args:
        comm: of mpi4py; all ranks start these buckets on it in the same order.
        mpi: the module of mpi4py.
        sizes: elements of each tensor.
        half: whether they are sent in bf16.
    """

    comm: Any
    mpi: Any
    sizes: tuple[int, ...]
    half: bool
    missing: set[int] = field(init=False)
    _at: list[slice] = field(init=False)
    _rows: Array = field(init=False)
    _received: Array = field(init=False)
    _own: Array = field(init=False)
    _request: Any = field(init=False, default=None)
    _trace: BucketTrace = field(init=False)

    def __attrs_post_init__(self) -> None:
        ranks = self.comm.Get_size()
        self.missing = set(range(len(self.sizes)))
        self._at = places([part_size(size, ranks) for size in self.sizes])
        width = self._at[-1].stop
        self._rows = np.zeros((ranks, width), ml_dtypes.bfloat16 if self.half else F32)
        self._received = np.zeros_like(self._rows) if self.half else np.zeros(0, F32)
        self._own = np.zeros(width, F32)
        way = "Alltoall" if self.half else "Reduce_scatter"
        self._trace = BucketTrace(bucket_name(self.sizes, self._rows.itemsize), way)

    def write(self, piece: int, values: Array, share: float = 1.0) -> None:
        self._trace.fills()
        into_rows(shared(values, share, F32), self._rows[:, self._at[piece]])

    def start(self) -> None:
        self._trace.starts()
        if self.half:
            sent, received = self._rows.view(np.uint16), self._received.view(np.uint16)
            self._request = self.comm.Ialltoall(sent, received)
        else:
            self._request = self.comm.Ireduce_scatter_block(self._rows, self._own, self.mpi.SUM)

    def advance(self) -> bool:
        if self._request is not None and self._request.Test():
            self._request = None
            if self.half:
                self._own[...] = 0
                for row in self._received:
                    self._own += row.astype(F32)
            self._trace.lands()
        return True

    @property
    def done(self) -> bool:
        return self._request is None

    def read(self, piece: int, out: Array) -> None:
        np.divide(self._own[self._at[piece]], F32.type(self.comm.Get_size()), out=out)


def parts_of_means(
    graph: Graph, comm: Ranks, loss: LogicalTensor, gradients: Sequence[LogicalTensor | None]
) -> Iterator[LogicalTensor | None]:
    """As `averaging.averaged`, but of each gradient the part of this rank, flat."""
    order, known = in_order(graph)
    tensors = {t.id: known.get(t.id, t) for t in gradients if t is not None}
    unknown = next((t for t in tensors.values() if not t.is_concrete), None)
    if unknown is not None:
        raise UnsupportedError(
            f"the parts of a gradient need all sizes of {unknown}; give the parameter known sizes"
        )
    chain = sorted(tensors.values(), key=lambda t: order.get(t.id, -1))
    filled: list[list[LogicalTensor]] = []
    for tensor in chain:
        if not filled or sum(math.prod(t.dims) for t in filled[-1]) * F32.itemsize >= comm.bucket_bytes:
            filled.append([])
        filled[-1].append(tensor)
    numbers = comm.buckets(
        [(tuple(math.prod(t.dims) for t in b), comm.data_type) for b in filled], parts=True
    )
    wide = DataType.f64 if loss.data_type is DataType.f64 else DataType.f32
    at = {
        t.id: (number, piece) for number, b in zip(numbers, filled, strict=True) for piece, t in enumerate(b)
    }
    [first] = comm.buckets([((1,), wide)])
    # The loss comes first: what depends on constants alone would else be put once and never again.
    token: LogicalTensor = graph.op("HostMeanStart", loss, communicator=comm.key, bucket=first, piece=0)
    for tensor in chain:
        bucket, piece = at[tensor.id]
        token = graph.op("HostMeanStart", tensor, token, communicator=comm.key, bucket=bucket, piece=piece)

    def end(bucket: int, piece: int, shape: Sequence[int], data_type: DataType) -> LogicalTensor:
        return graph.op(
            "HostMeanEnd",
            token,
            output_type=data_type,
            communicator=comm.key,
            bucket=bucket,
            piece=piece,
            shape=list(shape),
        )

    yield end(first, 0, loss.dims, loss.data_type)
    made: dict[int, LogicalTensor] = {}
    for tensor in gradients:
        if tensor is None:
            yield None
            continue
        if tensor.id not in made:
            size = part_size(math.prod(tensors[tensor.id].dims), comm.size)
            made[tensor.id] = end(*at[tensor.id], [size], DataType.f32)
        yield made[tensor.id]


class Shards:
    """The parts of this rank.

    Args:
        comm: of this rank.
        parameters: those that are trained, by name.
        optimizers: by the parameter's name.

    Attributes:
        parts: of the parameters, by name; what is updated.

    Raises:
        UnsupportedError: an optimizer that needs whole parameters.
    """

    def __init__(
        self, comm: Ranks, parameters: Mapping[str, Parameter], optimizers: Mapping[str, Optimizer]
    ) -> None:
        for name, one in optimizers.items():
            _check_by_element(name, one)
        self._comm = comm
        self._wholes = {name: parameters[name] for name in optimizers}
        self.parts = {name: self.part(one.array.size) for name, one in self._wholes.items()}

    def part(self, elements: int) -> Parameter:
        """Zeros in the place of a part of so many elements."""
        return Parameter(np.zeros(part_size(elements, self._comm.size), F32), F32)

    def instead(
        self,
        graph: Graph,
        pairs: Sequence[tuple[LogicalTensor, LogicalTensor]],
        optimizers: Mapping[str, Optimizer],
        states: Mapping[str, Sequence[Parameter]],
    ) -> tuple[
        list[tuple[LogicalTensor, LogicalTensor]], dict[str, Optimizer], dict[str, Sequence[Parameter]]
    ]:
        """Parts in the place of parameters, with the optimizer and the states of each by its name."""
        found: list[tuple[LogicalTensor, LogicalTensor]] = []
        for parameter, gradient in pairs:
            held = self.parts[label(parameter)]
            part = LogicalTensor(
                graph.fresh_id(),
                DataType.f32,
                held.array.shape,
                property_type="variable",
                name=f"{PART}{label(parameter)}",
            )
            found.append((graph.add_parameter(part, held), gradient))
        return (
            found,
            {f"{PART}{name}": one for name, one in optimizers.items()},
            {f"{PART}{name}": one for name, one in states.items()},
        )

    def scale(
        self, graph: Graph, gradients: Sequence[LogicalTensor], clip_norm: float | None
    ) -> tuple[LogicalTensor, LogicalTensor]:
        """As `step` has it for whole gradients: the norm is of the parts of all ranks."""
        unused, own = graph.op("HostGradientScale", *gradients, max_norm=0.0, guard=False, outputs=2)
        graph.drop_output(unused)
        total = graph.op("HostRankSum", graph.op("Square", own), communicator=self._comm.key)
        norm = graph.op("Sqrt", total)
        scale, norm = graph.op("HostGradientScale", norm, max_norm=clip_norm or 0.0, guard=True, outputs=2)
        return scale, norm

    def take(self) -> None:
        """Takes this rank's parts of the parameters as they are."""
        for name, part in self.parts.items():
            self._cut(self._wholes[name].array, part)

    def give(self) -> None:
        """Makes of the parts of all ranks the parameters of all; as many at once as go into a bucket."""
        names: list[str] = []
        for name in [*self.parts, ""]:
            if names and (
                not name or sum(self._wholes[n].array.nbytes for n in names) >= self._comm.bucket_bytes
            ):
                self._gather([(self.parts[n].array, self._wholes[n]) for n in names])
                names = []
            names.append(name)

    def whole(self, shape: Sequence[int], part: Parameter) -> Parameter:
        """What parts of all ranks make together, on all of them."""
        made = Parameter(np.zeros(shape, F32), F32)
        self._gather([(part.array, made)])
        return made

    def spread(self, whole: Parameter | None, name: str, part: Parameter) -> None:
        """Gives each rank its part of a state that rank 0 has as a whole.

        Args:
            whole: None on the other ranks. name: of the parameter that it is of.
        """
        array = np.empty(self.shape(name), F32) if whole is None else whole.array
        self._comm.broadcast([array])
        self._cut(array, part)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a parameter."""
        return self._wholes[name].array.shape

    def _cut(self, whole: Array, part: Parameter) -> None:
        size = part.array.size
        own = whole.reshape(-1)[self._comm.rank * size : (self._comm.rank + 1) * size]
        part.array[: own.size] = own
        part.array[own.size :] = 0
        part.changed()

    def _gather(self, pairs: Sequence[tuple[Array, Parameter]]) -> None:
        at = places([part.size for part, _ in pairs])
        own = np.concatenate([part for part, _ in pairs])
        rows = np.empty((self._comm.size, own.size), F32)
        self._comm.gather(own, rows)
        for place, (_, whole) in zip(at, pairs, strict=True):
            from_rows(rows[:, place], whole.array)
            whole.changed()


def _check_by_element(name: str, optimizer: Optimizer) -> None:
    """Looks whether what an optimizer adds to a graph is of each element by itself."""
    graph = Graph()
    parameter, gradient, *states = (
        graph.input(f"of_{n}", "f32", [2]) for n in range(2 + len(optimizer.states))
    )
    numbers = Numbers(
        graph.input("rate", "f64", []), graph.input("scale", "f64", []), graph.input("step", "s64", [])
    )
    optimizer.add(graph, parameter, gradient, states, numbers)
    for op in graph.ops:
        whole = "trust_ratio" in op.attributes and op.attributes.flag("trust_ratio")
        if whole or (op.kind not in BY_ELEMENT and op.schema.family not in ("eltwise", "binary")):
            raise UnsupportedError(
                f"shard_optimizer takes optimizers that update each element by itself; {type(optimizer).__name__} of "
                f"parameter {name!r} has {op.kind}, which may need whole parameters; train without shard_optimizer"
            )
