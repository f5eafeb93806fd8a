"""From a graph to its partitions, to a compiled graph, and to tuned ones: what the methods of `Graph` call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any

from ...ops.data_types import parse_enum
from ...ops.errors import ArgumentError, ArgumentTypeError, GraphError
from ...ops.values import format_value
from ..core.building import GraphCore, content_of, finalized
from ..runtime.collecting import at_rest
from ..runtime.engine import Engine
from ..runtime.progress import show_progress
from .compiled_graph import CompiledGraph
from .held import Held
from .options import CompileOptions, Policy, Tune
from .partition import Partition
from .partitioner import needed_by_others, partition
from .partitioning import Partitioning
from .program import program, sections
from .record import Explanations
from .signature import Signature


def partitions_of(
    graph: GraphCore, policy: Policy | str, *, backend: str | None, numbers: Iterator[int] | None = None
) -> list[Partition]:
    """See `Graph.get_partitions`; they are numbered from 0 on where no numbers are given."""
    return _partitioned(graph, policy, backend, count() if numbers is None else numbers)[0]


def partitioning_of(graph: GraphCore, policy: Policy | str, *, backend: str | None) -> Partitioning:
    """See `Graph.partitioning`."""
    return _partitioned(finalized(graph), policy, backend, count())[1]


def _partitioned(
    graph: GraphCore, policy: Policy | str, backend: str | None, numbers: Iterator[int]
) -> tuple[list[Partition], Partitioning]:
    content = content_of(graph)
    if not graph.finalized:
        raise GraphError("the graph must be finalized before get_partitions; call finalize()")
    chosen = parse_enum(Policy, policy, "policy")
    needed = content.needed
    claims, decisions = partition(content.ops, chosen, backend, needed)
    numbered = [(next(numbers), claim) for claim in claims]
    partitioning = Partitioning(chosen.value, decisions, [(number, claim.ops) for number, claim in numbered])
    read = needed_by_others([claim.ops for claim in claims], needed)
    held = content.held
    steady = {i: one for i, one in content.parameters.items() if i not in content.assigned}
    partitions = [
        Partition(
            number,
            claim,
            ids,
            partitioning=partitioning,
            fpmath_mode=graph.fpmath_mode.value,
            forced=backend is not None,
            constants=held,
            steady=steady,
        )
        for (number, claim), ids in zip(numbered, read, strict=True)
    ]
    return partitions, partitioning


def compile_graph(
    graph: GraphCore,
    engine: Engine | None = None,
    options: CompileOptions | None = None,
    *,
    numbers: Iterator[int] | None = None,
) -> CompiledGraph:
    """See `Graph.compile`; and for `numbers`, `partitions_of`."""
    options = CompileOptions() if options is None else options
    with at_rest():
        graph = finalized(graph)
        content = content_of(graph)
        partitions = partitions_of(graph, options.policy, backend=options.backend, numbers=numbers)
        together = options.policy is Policy.fusion
        joined = program(
            partitions,
            content.needed,
            content.assigned,
            content.parameters,
            returned={t.id for t in content.outputs},
            together=together,
        )
    return CompiledGraph(
        partitions,
        joined,
        Signature(
            content.inputs,
            [(name, content.tensors[i]) for name, i in content.named_outputs()],
            content.ops,
            assigned=content.assigned.values(),
        ),
        Held(content.held, content.parameters, content.assigned),
        engine,
        options,
        partial(_compile_again, graph, options.again()),
        graph,
    )


def _compile_again(graph: GraphCore, options: Mapping[str, Any], engine: Engine | None) -> CompiledGraph:
    return compile_graph(graph, engine, CompileOptions(**options))


def tune_graph(
    graph: GraphCore, budget_seconds: float, *, engine: Engine | None, backend: str | None
) -> Explanations:
    """See `Graph.tune`."""
    if isinstance(budget_seconds, bool) or not isinstance(budget_seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(f"budget_seconds must be a number, got {format_value(budget_seconds)}")
    if not budget_seconds > 0:
        raise ArgumentError(f"budget_seconds must be above 0, got {format_value(budget_seconds)}")
    graph = finalized(graph)
    partitions = partitions_of(graph, Policy.fusion, backend=backend)
    share = budget_seconds / len(partitions)
    found = Explanations()
    for one in sections(partitions, content_of(graph).needed):
        show_progress(f"tuning {one.ops[0]}{f' and {len(one.ops) - 1} more' if one.ops[1:] else ''}")
        ready = all(t.is_concrete for t in one.input_ports) and not one.shape_operands
        found[one.id] = (
            one.compile(engine=engine, tune=Tune.measure, tune_seconds=share).explanation if ready else None
        )
    show_progress(None)
    return found
