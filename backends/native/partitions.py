"""What the library's partitioner makes of the ops of a graph, as patterns that the partitioner here asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from weakref import WeakKeyDictionary, WeakSet

from ...graph.model.op import Op
from ...graph.model.topology import Topology
from ...graph.runtime.locking import Lock
from ...ops.errors import UnsupportedError
from ...ops.records import frozen
from ..onednn.library.loading import loaded_library
from .building import partitioned
from .limits import why_not


@frozen(eq=False)
class _Found:
    """The library's partitions of one graph under one policy: by id of their first op, in topological order."""

    groups: Mapping[int, tuple[Op, ...]]


class LibraryPartitions:
    """The library's partitions of the graphs that were asked for, each computed once as long as its topology lives."""

    def __init__(self) -> None:
        self._found: WeakKeyDictionary[Topology, dict[int, _Found]] = WeakKeyDictionary()
        self._left: WeakSet[Op] = WeakSet()
        self._refused: WeakKeyDictionary[Op, str] = WeakKeyDictionary()
        self._lock = Lock()

    def starting_at(self, op: Op, topology: Topology, policy: int) -> tuple[Op, ...] | None:
        """The supported partition whose first op is this one, or None."""
        if op.kind == "End":
            return (op,)
        with self._lock:
            known = self._found.setdefault(topology, {})
            if policy not in known:
                known[policy] = self._partitioned(topology, policy)
            group = known[policy].groups.get(id(op))
            for member in group or ():  # alone, or under the other policy, it may have been left
                self._left.discard(member)
                self._refused.pop(member, None)
            return group

    def why_left(self, ops: Sequence[Op]) -> str | None:
        """Why the library's partitioner, asked before, leaves one of the ops alone; None where it was not asked."""
        for op in ops:
            if op in self._refused:
                return self._refused[op]
            if op in self._left:
                return f"{loaded_library()} leaves {op.kind} unsupported here"
        return None

    def _partitioned(self, topology: Topology, policy: int) -> _Found:
        ops = [op for op in topology.ops if op.kind != "End" and why_not(op) is None]
        given = {id(op) for op in ops}
        kept = {t.id for op in topology.ops if id(op) not in given for t in op.inputs} | set(topology.outputs)
        groups: dict[int, tuple[Op, ...]] = {}
        with ExitStack() as stack:
            try:
                found = partitioned(stack, ops, kept, fpmath_mode="strict", policy=policy)
            except UnsupportedError as error:
                for op in ops:
                    self._refused[op] = f"{loaded_library()} refuses the graph, {error}"
                return _Found({})
            for one in found:
                members = tuple(ops[place] for place in sorted(one.ops))
                if one.supported:
                    groups[id(members[0])] = members
                else:
                    self._left.update(members)
        return _Found(groups)
