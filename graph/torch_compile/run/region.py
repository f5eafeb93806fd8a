"""A region: ops of an ATen graph that are one graph of oneDNN Graph, compiled, on the memory of torch's tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from attrs import field

from ....ops.errors import UnsupportedError
from ....ops.records import frozen
from ...compile.compiled_partition import CompiledPartition
from ...compile.options import CompileOptions
from ...compile.program import program
from ...compile.record import Placed
from ...graph import Graph
from ...model.logical_tensor import LogicalTensor, evolve_tensor
from ...model.numpy_types import itemsize
from ...runtime import profiling
from ...runtime.arrays import Array, address, numpy_type
from ...runtime.engine import default_engine
from ...runtime.executable import AtAddresses, Executable, Explanation
from ...runtime.tensor import allocate


def array_at(tensor: LogicalTensor, place: int) -> Array:
    """The array of a tensor whose memory is at an address."""
    dtype, size = numpy_type(tensor.data_type), itemsize(tensor.data_type)
    memory: Any = (ctypes.c_char * max(tensor.nbytes, 1)).from_address(place)
    return np.ndarray(tensor.dims, dtype, memory, strides=[s * size for s in tensor.element_strides])


@frozen(eq=False)
class Section:
    """What runs of a region at one go.

    Attributes:
        run: takes addresses of inputs and outputs, and what `prepare` made.
        at_once: the same where nobody records.
        prepare: takes the addresses of the inputs.
        inputs, outputs: places among the region's memory.
        taken: from that memory, the addresses of both.
    """

    run: Callable[[Sequence[int], object], None]
    at_once: Callable[[Sequence[int], object], None]
    prepare: Callable[[Sequence[int]], object]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    taken: Callable[[Sequence[int]], Sequence[int]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        places = (*self.inputs, *self.outputs)

        def several(memory: Sequence[int]) -> Sequence[int]:
            return [memory[place] for place in places]

        object.__setattr__(self, "taken", itemgetter(*places) if len(places) > 1 else several)


class Region:
    """A compiled graph on memory that torch holds.

    Args:
        graph: finalized or not; its inputs have their strides.
        strides: of outputs, by tensor id; row-major where missing.

    Attributes:
        inputs, outputs: in the order in which `run` takes their addresses.
        graph: what it computes.
    """

    def __init__(self, graph: Graph, strides: Mapping[int, tuple[int, ...]], options: CompileOptions) -> None:
        graph.finalize()
        self.graph = graph
        self.engine = default_engine()
        self.inputs = graph.inputs
        self.outputs = tuple(
            evolve_tensor(t, strides=strides[t.id]) if t.id in strides else t for t in graph.outputs
        )
        outputs = {t.id for t in self.outputs}
        parts = program(graph.get_partitions(), outputs, {}, {}, returned=outputs, together=True)
        described = {t.id: t for t in (*self.inputs, *self.outputs)}
        self.compiled = tuple(
            part.compile_with(
                [described.get(t.id, t) for t in part.input_ports],
                [described.get(t.id, t) for t in part.output_ports],
                self.engine,
                options,
            )
            for part in parts
        )
        places = {t.id: number for number, t in enumerate((*self.inputs, *self.outputs))}
        self._between: list[LogicalTensor] = []
        for part in parts:
            for tensor in part.output_ports:
                if tensor.id not in places:
                    places[tensor.id] = len(self.inputs) + len(self.outputs) + len(self._between)
                    self._between.append(tensor)
        held = {i: array for part in parts for i, array in part.constants.items()}
        self._held = [np.ascontiguousarray(array) for array in held.values()]
        self._held_at = [address(array) for array in self._held]
        places |= {number: len(places) + place for place, number in enumerate(held)}
        self._sections = tuple(self._section(one, places) for one in self.compiled)
        self._single = self._sections[0] if len(self._sections) == 1 and not self._between else None
        self._unprepared: tuple[object, ...] | None = None

    @staticmethod
    def _section(compiled: CompiledPartition, places: Mapping[int, int]) -> Section:
        executable = compiled.executable
        if executable is None:
            raise UnsupportedError(
                f"{compiled.partition.ops[0]}: shapes depend on values that are known at execution only"
            )
        inputs = tuple(places[t.id] for t in executable.inputs)
        outputs = tuple(places[t.id] for t in executable.outputs)
        on_memory = isinstance(executable, AtAddresses)
        run = executable.run_at if on_memory else _on_arrays(executable)
        prepare = executable.prepare if on_memory else _nothing
        source = next(iter(compiled.memory_sources()), None)
        watched = profiling.watched(run, compiled.owners, memory=source)
        return Section(watched, run, prepare, inputs, outputs)

    def prepare(self, addresses: Sequence[int]) -> tuple[object, ...]:
        """What is made of the constant inputs as they are now, for `run`: weights in the library's layouts.

        Args:
            addresses: of the inputs; only those of constants are read.
        """
        if self._unprepared is not None:
            return self._unprepared
        memory = [*addresses, *[0] * (len(self.outputs) + len(self._between)), *self._held_at]
        made = tuple(
            section.prepare([memory[place] for place in section.inputs]) for section in self._sections
        )
        if all(one is None for one in made):
            self._unprepared = made
        return made

    def run(self, addresses: Sequence[int], prepared: Sequence[object]) -> None:
        """Computes the outputs. Thread-safe.

        Args:
            addresses: of the inputs and the outputs.
            prepared: what `prepare` made of the same constants.
        """
        single = self._single
        if single is not None:
            memory = addresses if not self._held_at else [*addresses, *self._held_at]
            run = single.run if profiling.recordings else single.at_once
            run(single.taken(memory), prepared[0])
            return
        between = [allocate(t) for t in self._between]  # kept alive until the end
        memory = [*addresses, *map(address, between), *self._held_at]
        for section, ready in zip(self._sections, prepared, strict=True):
            section.run([memory[place] for place in (*section.inputs, *section.outputs)], ready)

    @property
    def record(self) -> tuple[Placed, ...]:
        """Where each of its ops runs, and why."""
        return tuple(
            one for compiled in self.compiled for placed in compiled.record.values() for one in placed
        )

    @property
    def explanations(self) -> tuple[Explanation | None, ...]:
        """What was chosen, section by section."""
        return tuple(one.explanation for one in self.compiled)


def _on_arrays(executable: Executable) -> Callable[[Sequence[int], object], None]:
    def run(addresses: Sequence[int], prepared: object) -> None:
        tensors = (*executable.inputs, *executable.outputs)
        arrays = [array_at(tensor, place) for tensor, place in zip(tensors, addresses, strict=True)]
        count = len(executable.inputs)
        executable.run(arrays[:count], arrays[count:])

    return run


def _nothing(addresses: Sequence[int]) -> None:
    return None
