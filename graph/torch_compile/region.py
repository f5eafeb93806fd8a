"""A region: ops of an ATen graph that are one graph of oneDNN Graph, compiled, on the memory of torch's tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np
from attrs import frozen

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
from .tensors import content_of, owner_of

KEPT_WEIGHTS = 64
"""Sets of weights that a region keeps in the library's layouts: layers of one kind share a region."""
SAMPLES = 32
"""Words of a weight that are looked at before each call."""


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


@frozen(eq=False)
class Weights:
    """What was made of one set of constants.

    Attributes:
        content: which one they had then, as far as torch counts changes.
        owners: of their memory; as long as there is a weak reference, no other one has the same address.
        made: what sections have prepared of it.
        samples: some of their elements, where they lie.
        sampled: what those were then.
    """

    content: tuple[int, ...]
    owners: tuple[Any, ...]
    made: tuple[object, ...]
    samples: tuple[Array, ...]
    sampled: bytes


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
        self._lock = Lock()

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

    def run(self, addresses: Sequence[int], constants: Sequence[Any] = ()) -> None:
        """Computes the outputs. Thread-safe.

        Args:
            addresses: of the inputs and the outputs.
            constants: the tensors that are constant inputs, in order.
        """
        memory = [*addresses]
        between = [allocate(t) for t in self._between]  # kept alive until the end
        memory += [address(array) for array in between]
        memory += [address(array) for array in self._held.values()]
        prepared = self._prepared(memory, constants)
        for section, ready in zip(self._sections, prepared, strict=True):
            places = (*section.inputs, *section.outputs)
            section.run([memory[place] for place in places], ready)

    def _prepared(self, memory: Sequence[int], constants: Sequence[Any]) -> tuple[object, ...]:
        key = tuple(memory[place] for place in self._constant)
        content = content_of(constants)
        known = self._weights.get(key)
        if known is not None and known.content == content and _read(known.samples) == known.sampled:
            return known.made
        made = tuple(
            section.prepare([memory[place] for place in section.inputs]) for section in self._sections
        )
        if content is not None:
            owners = tuple(owner_of(tensor) for tensor in constants)
            samples = tuple(_samples(self.inputs[place], memory[place]) for place in self._constant)
            with self._lock:
                for freed in [key for key, one in self._weights.items() if _is_freed(one)]:
                    del self._weights[freed]
                while len(self._weights) >= KEPT_WEIGHTS:
                    del self._weights[next(iter(self._weights))]
                self._weights[key] = Weights(content, owners, made, samples, _read(samples))
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


def _samples(tensor: LogicalTensor, place: int) -> Array:
    """Elements of a dense tensor all over it, where they lie; all of them of a small one.

    They are for what writes to weights and is not counted by torch, `parameter.data.mul_(2)`: to look at all elements
    at each call would take as long as some models.
    """
    memory: Any = (ctypes.c_char * max(tensor.nbytes, 1)).from_address(place)
    words = np.frombuffer(memory, np.uint8 if tensor.nbytes % 4 else np.uint32)
    return words[:: max(len(words) // SAMPLES | 1, 1)] if len(words) > 2 * SAMPLES else words


def _is_freed(weights: Weights) -> bool:
    return any(owner.expired() for owner in weights.owners)


def _read(samples: Sequence[Array]) -> bytes:
    return b"".join([one.tobytes() for one in samples])


def _on_arrays(executable: Executable) -> Callable[[Sequence[int], object], None]:
    def run(addresses: Sequence[int], prepared: object) -> None:
        tensors = (*executable.inputs, *executable.outputs)
        arrays = [array_at(tensor, place) for tensor, place in zip(tensors, addresses, strict=True)]
        count = len(executable.inputs)
        executable.run(arrays[:count], arrays[count:])

    return run


def _nothing(addresses: Sequence[int]) -> None:
    return None
