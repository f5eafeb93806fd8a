"""The program of a graph: neighbouring partitions lowered together, so that layouts and memory are planned over all.

Partitions stay what is claimed and explained. What runs is a sequence of sections: as many partitions, one after
another, as one backend can take into one plan, as steps of which each belongs to one of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attrs import field

from ...ops.records import define
from ..runtime.parameter import Parameter
from .backend import BACKENDS
from .held import early_updates, updates
from .partition import Partition
from .partitioner import Claim, needed_by_others


@define
class _Section:
    """Partitions in order, and the names of the backends that claimed them."""

    parts: list[Partition] = field(factory=list[Partition])
    backends: set[str] = field(factory=set[str])
    made: set[int] = field(factory=set[int])

    def lead(self, more: str | None) -> str | None:
        """The backend that can take all of them and one of `more` into one plan."""
        if more is None:
            return None
        names = self.backends | {more}
        return next((b for b in sorted(names) if names <= set(BACKENDS.get(b).plans_with)), None)

    def takes(self, part: Partition) -> bool:
        """Whether a partition can be added: its shapes must not hang on values that the section makes."""
        return not self.made.intersection(part.shape_operands) and self.lead(part.backend) is not None

    def add(self, part: Partition) -> None:
        """Adds it."""
        self.parts.append(part)
        self.backends.add(str(part.backend))
        self.made.update(t.id for op in part.ops for t in op.outputs)


def program(
    partitions: Sequence[Partition],
    outputs: Collection[int],
    assigned: Mapping[int, int],
    parameters: Mapping[int, Parameter],
    *,
    returned: Collection[int],
    together: bool,
) -> list[Partition]:
    """What runs of a graph, in order: sections, and at last the updates of parameters that are done in their place.

    What others read once it is written there, as what is put into a cache, is done where it stands.

    Args:
        partitions: in an order in which they can run.
        outputs: ids of the graph's outputs and of what is assigned.
        assigned: parameter → value.
        parameters: by tensor id.
        returned: ids of the graph's outputs alone.
        together: whether partitions are joined.
    """
    ops = [op for part in partitions for op in part.ops]
    found = updates(ops, returned, assigned)
    last = [part for part in partitions if all(op.id in found for op in part.ops)]
    first = [part for part in partitions if part not in last]
    joined = sections([*first, *last], outputs, [len(first)]) if together else [*first, *last]
    final = {part.id for part in last}
    early = early_updates(ops, returned, assigned)
    for section in joined:
        if section.parts[0].id in final:
            pairs = {made: number for op in section.ops for made, number in found[op.id].items()}
        else:
            pairs = {t.id: early[t.id] for op in section.ops for t in op.outputs if t.id in early}
        section.in_place.update({made: parameters[number].array for made, number in pairs.items()})
    return joined


def sections(
    partitions: Sequence[Partition], outputs: Collection[int], cuts: Collection[int] = ()
) -> list[Partition]:
    """Partitions joined as far as backends can, in the order in which they are given.

    Args:
        partitions: in an order in which they can run.
        outputs: ids of the graph's outputs and of what is assigned.
        cuts: numbers of partitions that are not joined to what stands before them.
    """
    found: list[_Section] = []
    for number, part in enumerate(partitions):
        if not found or number in cuts or not found[-1].takes(part):
            found.append(_Section())
        found[-1].add(part)
    ops = [tuple(op for part in section.parts for op in part.ops) for section in found]
    needed = needed_by_others(ops, outputs)
    joined: list[Partition] = []
    for section, inside, read in zip(found, ops, needed, strict=True):
        first = section.parts[0]
        if len(section.parts) == 1:
            joined.append(first)
            continue
        lead = section.lead(first.backend)
        claim = Claim(inside, None if lead is None else BACKENDS.get(lead), {})
        joined.append(
            Partition(
                first.id,
                claim,
                read,
                partitioning=first.partitioning,
                fpmath_mode=first.fpmath_mode,
                forced=first.forced,
                constants={i: array for part in section.parts for i, array in part.constants.items()},
                steady={i: one for part in section.parts for i, one in part.steady.items()},
                parts=tuple(section.parts),
            )
        )
    return joined
