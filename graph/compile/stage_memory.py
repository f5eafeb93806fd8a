"""The memory of a compiled partition, as profiles and pictures are told of it."""

from __future__ import annotations

from collections.abc import Collection

from ...ops.records import frozen
from ..model.logical_tensor import label, type_and_shape
from ..runtime.arguments import Arguments
from ..runtime.arrays import address
from ..runtime.memory import HeldMemory, MemoryPlanning, MemoryStep, PlannedMemory, StageMemory
from .building import Built
from .subgraph import Subgraph


@frozen(eq=False)
class ExecutedMemory:
    """An executable with its arguments, which tells of its memory when it is asked.

    Attributes:
        between: ids of the outputs that are memory of the graph's, and not of whoever calls it.
        open: whether it was compiled for sizes that only a call had.
    """

    subgraph: Subgraph
    arguments: Arguments
    built: Built
    between: Collection[int]
    open: bool

    @property
    def key(self) -> tuple[object, ...]:
        """The arguments, and the plan, which with `tune="online"` is another one after trials."""
        return self.arguments, self._planned()

    def _planned(self) -> PlannedMemory | None:
        executable = self.arguments.executable
        return executable.planned_memory() if isinstance(executable, MemoryPlanning) else None

    def _sizes(self) -> str:
        given = [t for t in self.arguments.executable.inputs if t.id not in self.subgraph.constants]
        return ", ".join(type_and_shape(t.data_type, t.shape) for t in given)

    def stage(self) -> StageMemory:
        """The memory as it is planned now."""
        planned, told, part = self._planned(), self.built.explanation, self.subgraph
        executable = self.arguments.executable
        names = {t.id: label(t) for t in part.input_ports}
        made = self.arguments.made()
        if made is None:
            ready = [HeldMemory(name="made of constants", nbytes=told.prepared_bytes, place=None)]
        else:
            sources = {address(array): names[number] for number, array in part.constants.items()}
            ready = [
                HeldMemory(
                    name=", ".join(sources.get(address(one), "a constant") for one in constant.sources),
                    nbytes=constant.nbytes,
                    place=constant.place,
                )
                for constant in made
            ]
        return StageMemory(
            label=part.label,
            sizes=self._sizes() if self.open else "",
            backend=told.backend,
            ops=tuple(op.id for op in part.ops),
            steps=tuple(MemoryStep(name=op.kind, op=op.id) for op in part.ops)
            if planned is None
            else planned.steps,
            temporaries=() if planned is None else planned.temporaries,
            arena_bytes=None if planned is None else planned.arena_bytes,
            constants=tuple(
                HeldMemory(name=names[number], nbytes=array.nbytes, place=address(array))
                for number, array in part.constants.items()
            ),
            prepared=tuple(one for one in ready if one.nbytes),
            between=tuple(
                HeldMemory(name=label(t), nbytes=t.nbytes, place=None)
                for t in executable.outputs
                if t.id in self.between
            ),
        )
