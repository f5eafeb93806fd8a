"""The memory of an execution as data for pages: steps, and what lies where in the arenas meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..model.op import Op
from ..runtime.memory import MemoryTimeline


def memory_of(timeline: MemoryTimeline, ops: Sequence[Op]) -> MemoryTimeline | None:
    """What of it is of a graph with these ops; None where nothing is. A profile may have seen other graphs, too."""
    kinds = {op.id: op.kind for op in ops}
    mine = tuple(
        stage
        for stage in timeline.stages
        if stage.label == "+".join(kinds.get(number, "") for number in stage.ops)
    )
    return MemoryTimeline(mine) if mine else None


def memory_data(timeline: MemoryTimeline) -> dict[str, Any]:
    """Steps and temporaries of all stages, numbered through, and the sums.

    Each stage has the number of its first step, and the bytes of results that wait for it and later ones.
    """
    start, waiting = 0, 0
    stages: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for number, stage in enumerate(timeline.stages):
        end = start + len(stage.steps)
        stages.append(
            {
                "label": stage.label,
                "sizes": stage.sizes,
                "backend": stage.backend,
                "start": start,
                "end": end,
                "arena": stage.arena_bytes,
                "waiting": waiting,
            }
        )
        blocks += [
            {
                "stage": number,
                "name": one.name,
                "text": one.text,
                "nbytes": one.nbytes,
                "offset": one.offset,
                "first": max(start, start + one.first),
                "last": min(end - 1, start + one.last),
                "writes": [start + step for step in one.writes],
                "reads": [start + step for step in one.reads],
                "scratchpad": one.scratchpad,
            }
            for one in stage.temporaries
        ]
        start, waiting = end, waiting + sum(one.nbytes for one in stage.between)
    peak = timeline.peak
    return {
        "stages": stages,
        "blocks": blocks,
        "steps": [{"name": step.name, "op": step.op} for step in timeline.steps],
        "in_use": list(timeline.in_use),
        "arena": timeline.arena_bytes,
        "constants": timeline.constant_bytes,
        "prepared": timeline.prepared_bytes,
        "between": timeline.between_bytes,
        "peak": None if peak is None else peak.step,
    }
