"""A graph as data: its ops, tensors and partitions, for tables, pictures and JSON."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs

from ...ops.errors import OneDNNGraphError
from ...ops.records import frozen
from ...ops.values import one_line
from ..model.logical_tensor import (
    LayoutType,
    LogicalTensor,
    PropertyType,
    label,
    row_major,
    type_and_shape,
)
from ..model.op import Op
from ..runtime.engine import Engine
from ..runtime.executable import Explanation
from ..runtime.memory import MemoryTimeline
from ..runtime.profiling import Recording
from ..runtime.progress import progressing
from .decisions import DescribedPartitioning, decisions
from .memory import memory_data, memory_of
from .modules import places
from .steps import DescribedStep, layouts_of, steps_of
from .subjects import GraphSubject, ModelSubject, PartitionSubject

PREVIEWED_KERNELS = 64
"""Ops up to which a preview compiles the partitions, for the names of their kernels."""


@frozen(kw_only=True)
class DescribedTensor:
    """One tensor.

    Attributes:
        id, name, data_type: as in `LogicalTensor`; the name is the id where it has none.
        shape: sizes, -1 where unknown; None where the rank is.
        strides: in elements; None for row-major.
        layout: `row-major`, `any` or `opaque`; its axes from the outermost to the innermost, `acdb`, where it is
            dense; or its strides.
        property_type: `undef`, `constant`, …
        producer: id of the op that makes it, or None.
        consumers: ids of the ops that read it.
        role: `input`, `constant` or `parameter` (which the graph holds) or `output` of the graph, or `inner`. What no
            op makes is an input otherwise, also if none reads it.
        text: type and shape, `f32 16x28x28x64`.
    """

    id: int
    name: str
    data_type: str
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    layout: str
    property_type: str
    producer: int | None
    consumers: tuple[int, ...]
    role: str
    text: str


@frozen(kw_only=True)
class DescribedOp:
    """One op.

    Attributes:
        id, kind, name: as in `Op`.
        inputs, outputs: pairs of port name and tensor id.
        attributes: as the op has them.
        partition: id of its partition.
        path: names of the modules around it, from the outermost; see `places`.
        title: its name in there.
        seconds: mean time of its own steps in one execution, where it was profiled; None for what is done with
            another op.
        layout: how its result lies, by the library's name, where that is known.
    """

    id: int
    kind: str
    name: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    attributes: dict[str, Any]
    partition: int | None
    path: tuple[str, ...]
    title: str
    seconds: float | None
    layout: str


@frozen(kw_only=True)
class DescribedPartition:
    """One partition.

    Attributes:
        id: its number.
        ops: ids of its ops.
        label: their kinds.
        backend: who runs it, or None.
        strategy: how, in the backend's words; empty where it is not compiled.
        steps: what is executed.
        scratch_bytes: temporary memory, or None.
        why_not: for the other backends, why they are not the one.
        rejected: kernels that were passed over, a reason each.
        problem: why it can't be compiled as it is, or empty.
        seconds: mean time of an execution, where it was profiled.
    """

    id: int
    ops: tuple[int, ...]
    label: str
    backend: str | None
    strategy: str
    steps: tuple[DescribedStep, ...]
    scratch_bytes: int | None
    why_not: dict[str, str]
    rejected: tuple[str, ...]
    problem: str
    seconds: float | None


@frozen(kw_only=True)
class GraphDescription:
    """A graph and what becomes of it.

    Attributes:
        fpmath_mode: the graph's.
        inputs, outputs: ids of its tensors. Inputs and constants can be outputs too.
        ops: in topological order. tensors: by id. partitions: in order of execution.
        problem: why there are no partitions, or empty.
        partitioning: how the partitioner came to them, step by step; None where there are none.
        memory: of an execution, step by step, where it is known: of what was compiled, or profiled.
    """

    fpmath_mode: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ops: tuple[DescribedOp, ...]
    tensors: tuple[DescribedTensor, ...]
    partitions: tuple[DescribedPartition, ...]
    problem: str = ""
    partitioning: DescribedPartitioning | None = None
    memory: MemoryTimeline | None = None

    def as_data(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers, for JSON."""
        plain = attrs.asdict(attrs.evolve(self, memory=None))
        return plain | {"memory": None if self.memory is None else memory_data(self.memory)}


def describe(
    graph: GraphSubject,
    *,
    policy: str = "fusion",
    backend: str | None = None,
    engine: Engine | None = None,
    profile: Recording | None = None,
    kernels: bool = True,
) -> GraphDescription:
    """Partitions and compiles a graph as it is now, which stays open, and says what came of it.

    A partition that can't be compiled as it is, for a shape that is known only at execution, say, has its reason in
    `problem`.

    Args:
        policy, backend, engine: as for `Graph.compile`.
        profile: of executions of this graph with the same policy and backend; adds times.
        kernels: whether to compile the partitions, which gives the names of their kernels.

    Raises:
        GraphError, ShapeError, UnsupportedError: see `Graph.get_partitions`.
    """
    if not graph.finalized:
        graph = copy.copy(graph)
        graph.finalize()
    partitions = graph.get_partitions(policy, backend=backend)
    return _described_graph(
        fpmath_mode=graph.fpmath_mode.value,
        ops=graph.ops,
        tensors=graph.tensors,
        held={t.id for t in (*graph.constant_tensors, *graph.parameter_tensors)},
        outputs=[t.id for t in graph.outputs],
        partitions=[
            _compiled(partition, engine, profile) if kernels else _described(partition, None, "", profile)
            for partition in progressing(partitions, "compiling partition")
        ],
        partitioning=decisions(partitions),
        profile=profile,
        memory=None if profile is None else memory_of(profile.memory, graph.ops),
    )


def describe_compiled(model: ModelSubject, *, profile: Recording | None = None) -> GraphDescription:
    """A compiled graph with the kernels that were chosen for it.

    Args:
        profile: of its executions; adds times.
    """
    found = model.explain()
    ops = [op for partition in model.partitions for op in partition.ops]
    return _described_graph(
        fpmath_mode=next((partition.fpmath_mode for partition in model.partitions), "strict"),
        ops=ops,
        tensors=[*model.inputs, *model.outputs, *(t for op in ops for t in (*op.inputs, *op.outputs))],
        held={number for partition in model.partitions for number in partition.constants},
        outputs=[t.id for t in model.outputs],
        partitions=[
            _described(
                partition,
                found[partition.id],
                "" if found[partition.id] else "it is compiled at execution, when its shapes are known",
                profile,
            )
            for partition in model.partitions
        ],
        partitioning=decisions(model.partitions),
        profile=profile,
        memory=memory_of(model.memory_timeline if profile is None else profile.memory, ops),
    )


def preview(graph: GraphSubject) -> GraphDescription:
    """What there is to see of a graph that may be incomplete or wrong; leaves it as it is, and raises nothing."""
    try:
        return describe(graph, kernels=len(graph.ops) <= PREVIEWED_KERNELS)
    except Exception as error:  # whatever it is, it is shown beside the ops
        return _described_graph(
            fpmath_mode=graph.fpmath_mode.value,
            ops=graph.ops,
            tensors=graph.tensors,
            held={t.id for t in (*graph.constant_tensors, *graph.parameter_tensors)},
            outputs=[t.id for t in graph.outputs],
            partitions=(),
            problem=str(error) if graph.ops else "",
        )


def _described_graph(
    *,
    fpmath_mode: str,
    ops: Sequence[Op],
    tensors: Sequence[LogicalTensor],
    held: Collection[int],
    outputs: Collection[int],
    partitions: Sequence[DescribedPartition],
    problem: str = "",
    partitioning: DescribedPartitioning | None = None,
    profile: Recording | None = None,
    memory: MemoryTimeline | None = None,
) -> GraphDescription:
    times = {} if profile is None else profile.op_seconds()
    owners = {op: partition for partition in partitions for op in partition.ops}
    layouts = {
        op: layout
        for partition in partitions
        for op, layout in layouts_of(partition.ops, partition.steps).items()
    }
    producers = {t.id: op.id for op in ops for t in op.outputs}
    read = {op.id: {producers[t.id] for t in op.inputs if t.id in producers} for op in ops}
    stands = places({op.id: op.name for op in ops}, read)
    consumers: dict[int, list[int]] = {}
    for op in ops:
        for tensor in op.inputs:
            consumers.setdefault(tensor.id, []).append(op.id)
    known = {tensor.id: tensor for tensor in tensors}

    def role(number: int) -> str:
        if number in producers:
            return "output" if number in outputs else "inner"
        if number not in held:
            return "input"
        return "parameter" if known[number].property_type is PropertyType.variable else "constant"

    def described(tensor: LogicalTensor) -> DescribedTensor:
        producer = producers.get(tensor.id)
        return DescribedTensor(
            id=tensor.id,
            name=label(tensor),
            data_type=tensor.data_type.value,
            shape=tensor.shape,
            strides=tensor.strides,
            layout=_layout(tensor),
            property_type=tensor.property_type.value,
            producer=producer,
            consumers=tuple(dict.fromkeys(consumers.get(tensor.id, ()))),
            role=role(tensor.id),
            text=type_and_shape(tensor.data_type, tensor.shape),
        )

    return GraphDescription(
        fpmath_mode=fpmath_mode,
        inputs=tuple(i for i in consumers if role(i) == "input"),
        outputs=tuple(outputs),
        ops=tuple(
            DescribedOp(
                id=op.id,
                kind=op.kind,
                name=op.name,
                inputs=tuple((p.name, t.id) for p, t in zip(op.input_ports, op.inputs, strict=True)),
                outputs=tuple((p.name, t.id) for p, t in zip(op.output_ports, op.outputs, strict=True)),
                attributes=dict(op.attributes),
                partition=owners[op.id].id if op.id in owners else None,
                path=stands[op.id].path,
                title=stands[op.id].title,
                seconds=_own_seconds(op.id, owners.get(op.id), times),
                layout=layouts.get(op.id, ""),
            )
            for op in ops
        ),
        tensors=tuple(described(known[number]) for number in sorted(known)),
        partitions=tuple(partitions),
        problem=problem,
        partitioning=partitioning,
        memory=memory,
    )


def _own_seconds(op: int, partition: DescribedPartition | None, times: Mapping[int, float]) -> float | None:
    """Of an op's steps; a partition whose steps name no op has its time at its first one."""
    if op in times or partition is None or any(other in times for other in partition.ops):
        return times.get(op)
    return partition.seconds if op == partition.ops[0] else None


def _layout(tensor: LogicalTensor) -> str:
    if tensor.layout_type is not LayoutType.strided:
        return tensor.layout_type.value
    if tensor.strides is None or tensor.shape is None or tensor.strides == row_major(tensor.shape):
        return "row-major"
    strides, shape = tensor.strides, tensor.shape
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    dense = row_major([shape[axis] for axis in order]) == tuple(strides[axis] for axis in order)
    if dense and tensor.is_concrete and len(shape) <= 26:
        return "".join(chr(ord("a") + axis) for axis in order)
    return f"strides {'x'.join(map(str, strides))}"


def _compiled(
    partition: PartitionSubject, engine: Engine | None, profile: Recording | None
) -> DescribedPartition:
    try:
        explanation = partition.compile(engine=engine).explanation
    except OneDNNGraphError as error:
        return _described(partition, None, one_line(error), profile)
    undecided = "its kernels are chosen at execution, when the values of its shape operands are known"
    return _described(partition, explanation, undecided if explanation is None else "", profile)


def _described(
    partition: PartitionSubject, explanation: Explanation | None, problem: str, profile: Recording | None
) -> DescribedPartition:
    return DescribedPartition(
        id=partition.id,
        ops=tuple(op.id for op in partition.ops),
        label=partition.label,
        backend=partition.backend if explanation is None else explanation.backend,
        strategy="" if explanation is None else explanation.strategy,
        steps=steps_of(partition, explanation, profile),
        scratch_bytes=None if explanation is None else explanation.scratch_bytes,
        why_not=dict(partition.why_not),
        rejected=() if explanation is None else explanation.rejected,
        problem=problem,
        seconds=None if profile is None else profile.partition_seconds().get(partition.id),
    )
