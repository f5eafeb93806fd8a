"""What a plan tells of its memory: which temporaries lie where in the arena, and who writes and reads them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from ....graph.runtime.memory import MemoryStep, PlannedMemory, Temporary
from .hoisting import flow
from .placement import Placement
from .steps import AnyStep, Buffer, HostStep, Step


def described_memory(
    steps: Sequence[AnyStep], offsets: Mapping[Buffer | Step, int], placement: Placement
) -> PlannedMemory:
    """The record of a plan.

    Args:
        offsets: of temporaries and scratchpads, in the order of the placement's lives.
    """
    writes: defaultdict[Buffer, list[int]] = defaultdict(list)
    reads: defaultdict[Buffer, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        moves = flow(step)
        for buffer in dict.fromkeys(one.root for one in moves.writes):
            writes[buffer].append(number)
        updated = _updated(step)
        for buffer in dict.fromkeys(one.root for one in (*moves.reads, *updated)):
            reads[buffer].append(number)
    numbers = {step: number for number, step in enumerate(steps) if isinstance(step, Step)}

    def told(owner: Buffer | Step) -> tuple[str, str, list[int], list[int]]:
        if isinstance(owner, Step):
            return f"scratchpad of {owner.role}", "", [numbers[owner]], []
        maker = steps[writes[owner][0]].role if writes[owner] else "nothing"
        return f"result of {maker}", _described(owner), writes[owner], reads[owner]

    found: list[Temporary] = []
    for owner, life, offset in zip(offsets, placement.lives, placement.offsets, strict=True):
        if isinstance(owner, Step) and not life.nbytes:
            continue  # most kernels need none
        name, text, written, read = told(owner)
        found.append(
            Temporary(
                name=name,
                text=text,
                nbytes=life.nbytes,
                offset=offset,
                first=life.first,
                last=life.last,
                writes=tuple(written),
                reads=tuple(read),
                scratchpad=isinstance(owner, Step),
            )
        )
    return PlannedMemory(
        steps=tuple(MemoryStep(name=f"{step.role} ({step.implementation})", op=step.op) for step in steps),
        temporaries=tuple(found),
        arena_bytes=placement.nbytes,
    )


def _updated(step: AnyStep) -> list[Buffer]:
    """What a step on the host reads of what it writes."""
    if not isinstance(step, HostStep):
        return []
    return [step.arguments[number][1] for number in step.updates]


def _described(buffer: Buffer) -> str:
    desc = buffer.desc
    shape = "x".join(map(str, desc.shape)) or "scalar"
    return f"{desc.data_type.value} {shape} {desc.describe()}"
