"""A region: ops of an ATen graph that are one graph of oneDNN Graph, compiled, on the memory of torch's tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from attrs import define, field, frozen

from ...ops.errors import UnsupportedError
from ..compile.compiled_partition import CompiledPartition
from ..compile.options import CompileOptions
from ..compile.program import program
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, evolve_tensor
from ..runtime.arrays import Array, address, itemsize, numpy_type
from ..runtime.engine import default_engine
from ..runtime.executable import AtAddresses, Executable, Explanation
from ..runtime.tensor import allocate

KEPT_WEIGHTS = 64
"""Sets of weights that a region keeps in the library's layouts: layers of one kind share a region."""


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
        prepare: takes the addresses of the inputs.
        inputs, outputs: places among the region's memory.
    """

    run: Callable[[Sequence[int], object], None]
    prepare: Callable[[Sequence[int]], object]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@define(eq=False)
class Weights:
    """What was made of one set of constants, and of which versions of them."""

    versions: tuple[int, ...]
    made: tuple[object, ...] = field(factory=tuple[object, ...])


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
        self.partitions = tuple(graph.get_partitions())
        parts = program(self.partitions, {t.id for t in self.outputs}, {}, {}, together=True)
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
        self._held: dict[int, Array] = {}
        held = {
            t.id: array
            for part in parts
            for t in part.input_ports
            if (array := part.constants.get(t.id)) is not None
        }
        for number, array in held.items():
            places[number] = len(places)
            self._held[places[number]] = np.ascontiguousarray(array)
        self._sections = tuple(self._section(one, places) for one in self.compiled)
        self._constant = tuple(
            number for number, t in enumerate(self.inputs) if t.property_type.value == "constant"
        )
        self._weights: dict[tuple[int, ...], Weights] = {}

    @staticmethod
    def _section(compiled: CompiledPartition, places: Mapping[int, int]) -> Section:
        executable = compiled.executable
        if executable is None:
            raise UnsupportedError(
                f"{compiled.partition.ops[0]}: shapes depend on values that are known at execution only"
            )
        inputs = tuple(places[t.id] for t in executable.inputs)
        outputs = tuple(places[t.id] for t in executable.outputs)
        if isinstance(executable, AtAddresses):
            return Section(executable.run_at, executable.prepare, inputs, outputs)
        return Section(_on_arrays(executable), _nothing, inputs, outputs)

    def run(self, addresses: Sequence[int], versions: tuple[int, ...] | None = None) -> None:
        """Computes the outputs. Thread-safe.

        Args:
            addresses: of the inputs and the outputs.
            versions: of the content of the constant inputs, in order; None where that is not known, so that
                nothing is kept.
        """
        memory = [*addresses]
        between = [allocate(t) for t in self._between]  # kept alive until the end
        memory += [address(array) for array in between]
        memory += [address(array) for array in self._held.values()]
        prepared = self._prepared(memory, versions)
        for section, ready in zip(self._sections, prepared, strict=True):
            places = (*section.inputs, *section.outputs)
            section.run([memory[place] for place in places], ready)

    def _prepared(self, memory: Sequence[int], versions: tuple[int, ...] | None) -> tuple[object, ...]:
        key = tuple(memory[place] for place in self._constant)
        known = self._weights.get(key)
        if known is not None and known.versions == versions:
            return known.made
        made = tuple(
            section.prepare([memory[place] for place in section.inputs]) for section in self._sections
        )
        if versions is not None:
            while len(self._weights) >= KEPT_WEIGHTS:
                self._weights.pop(next(iter(self._weights)), None)
            self._weights[key] = Weights(versions, made)
        return made

    def ops_by_backend(self) -> dict[str, int]:
        """How many ops each backend runs."""
        counts: dict[str, int] = {}
        for compiled in self.compiled:
            told = compiled.explanations_of_parts()
            for part in compiled.partition.parts:
                explained = told.get(part.id)
                name = str(part.backend) if explained is None else explained.backend
                counts[name] = counts.get(name, 0) + len(part.ops)
        return counts

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
