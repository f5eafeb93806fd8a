"""Ops partitioned, compiled and executed by native oneDNN Graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from ctypes import byref, c_size_t, c_void_p
from typing import Any

import numpy as np

from ...graph.graph import Graph
from ...graph.model.logical_tensor import LogicalTensor
from ...graph.model.op import Op
from ...graph.runtime.arrays import Array, address
from ...ops.errors import LibraryError, UnsupportedError
from ..onednn.library.loading import loaded_library
from ..onednn.library.primitive import NativeEngine
from .api import POLICY_FUSION, LogicalTensorStruct, call, functions, status_name
from .building import LibraryPartition, created, described, inplace_pairs, memory_bytes, partitioned, pointers
from .limits import why_not, why_not_tensor, why_not_together

ALIGNMENT = 64
"""Of tensors between partitions, in bytes."""


class _Stage:
    """One partition of the library, compiled."""

    def __init__(self, partition: LibraryPartition, compiled: c_void_p) -> None:
        self.compiled = compiled
        self.ops = partition.ops
        self.inputs = partition.inputs
        self.outputs = partition.outputs
        self.inplace = inplace_pairs(compiled)


class NativeGraph:
    """Ops partitioned by native oneDNN Graph, and compiled.

    Args:
        ops: in topological order, with all shapes known.
        inputs, outputs: the tensors that come from outside and go there; they lie as they say.
        engine: made anew if None.
        fpmath_mode: the graph's.
        policy: `POLICY_FUSION` or `POLICY_DEBUG`.
        free_layouts: whether the library chooses how tensors between its partitions lie, as its documents advise;
            row-major otherwise. If None, it chooses unless it fails to compile then.
        constants: whether the library is told which inputs are constant. It prepares them once then, at the first
            execution, and never looks at them again.

    Attributes:
        partitions: the ops of each of the library's partitions, in order of execution.
        free_layouts: as decided.

    Raises:
        UnsupportedError: an op or a partition that 3.2 doesn't support, or that must not reach it.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[LogicalTensor],
        *,
        engine: NativeEngine | None = None,
        fpmath_mode: str = "strict",
        policy: int = POLICY_FUSION,
        free_layouts: bool | None = None,
        constants: bool = False,
    ) -> None:
        for op in ops:
            reason = why_not(op)
            if reason is not None:
                raise UnsupportedError(f"{op}: {reason}")
        for tensor in (*inputs, *outputs):
            reason = why_not_tensor(tensor)
            if reason is not None:
                raise UnsupportedError(reason)
        together = why_not_together(ops)
        if together is not None:
            raise UnsupportedError(together)
        self.engine = NativeEngine() if engine is None else engine
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self._constants = constants
        self._tensors = {t.id: t for op in ops for t in (*op.inputs, *op.outputs)}
        with ExitStack() as stack:
            found = partitioned(
                stack,
                ops,
                {t.id for t in outputs},
                fpmath_mode=fpmath_mode,
                policy=policy,
                constants=constants,
            )
            for one in found:
                if not one.supported:
                    refused = ", ".join(str(ops[place]) for place in one.ops)
                    raise UnsupportedError(f"{loaded_library()} does not support the partition of {refused}")
            ordered = self._ordered(found)
            self.partitions = tuple(tuple(ops[place] for place in one.ops) for one in ordered)
            self.free_layouts = free_layouts is not False
            try:
                self._stages = self._compiled(ordered, stack)
            except UnsupportedError:
                if free_layouts is not None or len(ordered) == 1:
                    raise
                self.free_layouts = False
                self._stages = self._compiled(ordered, stack)
            self._resources = stack.pop_all()
        self._readers = Counter(number for stage in self._stages for number in set(stage.inputs))

    @classmethod
    def of(cls, graph: Graph, *, free_layouts: bool | None = None, constants: bool = False) -> NativeGraph:
        """A whole finalized graph, which takes its constants as inputs; see the class."""
        made = {t.id for op in graph.ops for t in op.outputs}
        read = {t.id: t for op in graph.ops for t in op.inputs}
        return cls(
            graph.ops,
            [t for t in read.values() if t.id not in made],
            graph.outputs,
            fpmath_mode=graph.fpmath_mode.value,
            free_layouts=free_layouts,
            constants=constants,
        )

    def __del__(self) -> None:
        if hasattr(self, "_resources"):
            self._resources.close()

    def _ordered(self, partitions: Sequence[LibraryPartition]) -> list[LibraryPartition]:
        """The partitions in an order in which they can run."""
        known = {t.id for t in self.inputs}
        waiting, ordered = list(partitions), list[LibraryPartition]()
        while waiting:
            ready = next((one for one in waiting if known.issuperset(one.inputs)), None)
            if ready is None:
                raise UnsupportedError(f"the partitions that {loaded_library()} makes wait for each other")
            waiting.remove(ready)
            ordered.append(ready)
            known.update(ready.outputs)
        missing = [t for t in self.outputs if t.id not in known]
        if missing:
            raise UnsupportedError(f"no partition of {loaded_library()} gives out {missing[0]}")
        return ordered

    def _compiled(self, partitions: Sequence[LibraryPartition], stack: ExitStack) -> list[_Stage]:
        self._layouts = {t.id: described(t, constants=self._constants) for t in (*self.inputs, *self.outputs)}
        return [self._compile(one, stack) for one in partitions]

    def _compile(self, partition: LibraryPartition, stack: ExitStack) -> _Stage:
        ins = [self._layouts[number] for number in partition.inputs]
        outs = [self._layouts.get(number) or self._between(number) for number in partition.outputs]
        compiled = created(stack, "compiled_partition", "compiled_partition_create", partition.handle)
        call(
            "partition_compile",
            partition.handle,
            compiled,
            len(ins),
            pointers(ins),
            len(outs),
            pointers(outs),
            self.engine.handle,
        )
        for number in partition.outputs:
            chosen = LogicalTensorStruct()
            call("compiled_partition_query_logical_tensor", compiled, number, byref(chosen))
            self._layouts[number] = chosen
        return _Stage(partition, compiled)

    def _between(self, number: int) -> LogicalTensorStruct:
        tensor = self._tensors[number]
        return described(tensor, layout_any=self.free_layouts and tensor.strides is None)

    def frame(self) -> Frame:
        """What an execution needs beside arrays; for one thread at a time."""
        return Frame(self, self._stages, self._layouts, self._homes())

    def _homes(self) -> dict[int, int]:
        """Tensors that are computed in place: in whose memory each lies."""
        arguments = {t.id for t in (*self.inputs, *self.outputs)}
        homes: dict[int, int] = {}
        for stage in reversed(self._stages):
            taken: set[int] = set()
            for source, target in stage.inplace:
                apart = source in arguments or self._readers[source] > 1 or target in taken or source in homes
                if not apart and memory_bytes(self._layouts[source]) <= memory_bytes(self._layouts[target]):
                    homes[source] = homes.get(target, target)
                    taken.add(target)
        return homes

    def bind(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> Callable[[], None]:
        """A callable that runs the graph on these arrays, by tensor id, which have the tensors' layouts.

        It is one call into the library for each partition; tensors between partitions are allocated here. For one
        thread at a time.
        """
        frame = self.frame()
        arrays = [*(inputs[t.id] for t in self.inputs), *(outputs[t.id] for t in self.outputs)]
        frame.point([address(array) for array in arrays], arrays)
        return frame


class Frame:
    """One set of arguments of a compiled graph: the library's tensors, pointing at arrays."""

    def __init__(
        self,
        graph: NativeGraph,
        stages: Sequence[_Stage],
        layouts: Mapping[int, LogicalTensorStruct],
        homes: Mapping[int, int],
    ) -> None:
        self._graph = graph  # keeps what the handles below are made of
        self._kept: object = None
        order = [t.id for t in (*graph.inputs, *graph.outputs)]
        numbers = dict.fromkeys(number for stage in stages for number in (*stage.inputs, *stage.outputs))
        self._buffers: dict[int, Array] = {}
        self.labels = tuple("+".join(op.kind for op in ops) for ops in graph.partitions)
        execute, stream = functions()["compiled_partition_execute"], c_void_p(graph.engine.stream)
        with ExitStack() as stack:
            handles: dict[int, c_void_p] = {}
            for number in numbers:
                home = homes.get(number, number)
                if home not in order and home not in self._buffers:
                    self._buffers[home] = _aligned(memory_bytes(layouts[home]))
                start = None if home in order else address(self._buffers[home])
                handles[number] = created(
                    stack, "tensor", "tensor_create", byref(layouts[number]), graph.engine.handle, start
                )
            self._moving = tuple(
                tuple(handle for number, handle in handles.items() if homes.get(number, number) == argument)
                for argument in order
            )
            self._steps = tuple(
                (stage.compiled, stream, *_handles(handles, stage.inputs), *_handles(handles, stage.outputs))
                for stage in stages
            )
            self._resources = stack.pop_all()
        self._execute = execute

    def point(self, addresses: Sequence[int], keep: object = None) -> None:
        """Sets where inputs and outputs begin; `keep` lives as long as that holds."""
        for handles, start in zip(self._moving, addresses, strict=True):
            for handle in handles:
                call("tensor_set_data_handle", handle, start)
        self._kept = keep

    def __call__(self) -> None:
        """Runs the partitions in order.

        Raises:
            LibraryError: the library reports a failure.
        """
        execute = self._execute
        for step in self._steps:
            status = execute(*step)
            if status:
                self._fail(status)

    def run_each(self, around: Callable[[str, Callable[[], Any]], int]) -> None:
        """The same, with each call into the library handed to `around`, which makes it, beside the ops' kinds."""
        for label, step in zip(self.labels, self._steps, strict=True):
            status = around(label, lambda step=step: self._execute(*step))
            if status:
                self._fail(status)

    def _fail(self, status: int) -> None:
        raise LibraryError(
            f"native oneDNN Graph failed to execute with '{status_name(status)}'; compile without backend='native'"
        )

    def __del__(self) -> None:
        if hasattr(self, "_resources"):
            self._resources.close()


def _handles(handles: Mapping[int, c_void_p], numbers: Sequence[int]) -> tuple[c_size_t, Any]:
    """How many, and an array of them."""
    return c_size_t(len(numbers)), (c_void_p * len(numbers))(*[handles[number] for number in numbers])


def _aligned(nbytes: int) -> Array:
    """Memory that begins where a line of the cache does."""
    buffer = np.empty(nbytes + ALIGNMENT, np.uint8)
    return buffer[-address(buffer) % ALIGNMENT :][: max(nbytes, 1)]
