"""What is executed of a partition, step by step: planned, and with times where it was profiled."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ...ops.records import frozen
from ..runtime.executable import ExplainedStep, Explanation
from ..runtime.profiling import EventKind, Recording
from .subjects import PartitionSubject


@frozen(kw_only=True)
class DescribedStep:
    """One primitive, copy or host step of a partition.

    Attributes:
        name: what it does and the implementation that does it, `convolution (brgconv:avx512_core)`.
        kind: see `EventKind`; `prepared` where it runs once for constants.
        op: id of the op that it is done for, or None.
        layout: how its result lies, or empty.
        change: of a copy, from which layout and type to which, or empty.
        seconds: mean time, where it was profiled.
        tensors: with type, shape and layout, where it was profiled.
    """

    name: str
    kind: str
    op: int | None = None
    layout: str = ""
    change: str = ""
    seconds: float | None = None
    tensors: tuple[str, ...] = ()


def layouts_of(ops: Sequence[int], steps: Sequence[DescribedStep]) -> dict[int, str]:
    """How results of a partition's ops lie: that of an op without a step of its own, as that of the last step."""
    told = [(step.op, step.layout) for step in steps if step.layout and step.kind != "prepared"]
    own = {op: layout for op, layout in told if op is not None}
    return {op: own.get(op, told[-1][1] if told else "") for op in ops}


def _planned_steps(explanation: Explanation | None) -> tuple[DescribedStep, ...]:
    """The steps that are known before anything runs: first those that are done once for constants."""
    if explanation is None:
        return ()
    if explanation.steps:
        steps = [
            DescribedStep(
                name=step.name,
                kind=_kind_of(step),
                op=step.op,
                layout=step.layout,
                change=step.change,
            )
            for step in explanation.steps
        ]
        return tuple(sorted(steps, key=lambda step: step.kind != "prepared"))
    host = explanation.backend == "numpy"
    return (
        *[DescribedStep(name=name, kind="prepared") for name in explanation.prepared],
        *[
            DescribedStep(name=name, kind=EventKind.host.value if host else _kind_by_name(name))
            for name in explanation.implementations
        ],
    )


def _kind_of(step: ExplainedStep) -> str:
    if step.prepared:
        return "prepared"
    return EventKind.host.value if step.host else _kind_by_name(step.name)


def _kind_by_name(name: str) -> str:
    """What a step is, by its role and implementation."""
    if name.startswith(("reorder ", "convert ")):
        return EventKind.copy.value
    return EventKind.host.value if name.endswith("(numpy)") else EventKind.primitive.value


def steps_of(
    partition: PartitionSubject, explanation: Explanation | None, profile: Recording | None
) -> tuple[DescribedStep, ...]:
    """The steps of one execution, in order, with their mean times where they were profiled."""
    planned = _planned_steps(explanation)
    lines = () if profile is None else profile.steps_of(partition.id, partition.label)
    if not lines:
        return planned
    known = {(step.op, step.name): step for step in planned}
    timed: list[DescribedStep] = []
    for line in lines:
        name = f"{line.name} ({line.implementation})"
        plan = known.pop((line.op, name), DescribedStep(name=name, kind=line.kind.value, op=line.op))
        timed.append(attrs.evolve(plan, seconds=line.seconds / line.calls, tensors=line.tensors))
    # What is done once for constants is measured only where the profile saw the first call.
    return (*(step for step in known.values() if step.kind == "prepared"), *timed)
