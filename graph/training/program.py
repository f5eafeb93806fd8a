"""What runs a step: a compiled graph on arrays that are prepared once, for one set of input shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from ...ops.errors import ArgumentError, ArgumentTypeError, nearest
from ...ops.schema import UNKNOWN_DIM
from ...ops.values import format_value
from ..compile.compiled_graph import CompiledGraph
from ..graph import Graph
from ..model.logical_tensor import LogicalTensor, label
from ..runtime.arrays import Array
from ..runtime.parameter import Parameter
from ..runtime.tensor import allocate, check_array, plain_array

Shapes = tuple[tuple[str, tuple[int, ...]], ...]
PREFIX = "training."
"""Names of what training adds to a graph begin so."""
Feeds = Mapping[str, object]
"""Arrays by the names of inputs."""


def arrays_by_name(graph: Graph, feeds: Feeds) -> dict[str, Array]:
    """What a user feeds to a graph, as arrays by the names of its inputs.

    Raises:
        ArgumentTypeError: no mapping, or something in it is no array.
        ArgumentError: the graph has no such input.
    """
    if not isinstance(feeds, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] -- users' values
        raise ArgumentTypeError(
            f"feeds must be a mapping from names of inputs to arrays, {feeds_like(graph.input_names)}, got a "
            f"{type(feeds).__name__}; name each array, or give batches of tuples as FromTorch(batches, "
            f"{list(graph.input_names)}), and of enumerate(…) what is in it"
        )
    names = graph.input_names
    found: dict[str, Array] = {}
    for key, value in cast("Mapping[object, object]", feeds).items():
        name = label(key) if isinstance(key, LogicalTensor) else key
        if not isinstance(name, str) or name not in names:
            raise ArgumentError(
                f"the graph has no input {format_value(name)}{nearest(name, names)}; it has "
                f"{', '.join(map(repr, names)) or 'none'}"
            )
        found[name] = plain_array(value, f"input {name!r}")
    return found


def feeds_like(names: Sequence[str]) -> str:
    """What feeds look like, for errors."""
    return "{" + ", ".join(f"{name!r}: …" for name in names) + "}"


def batch_size(inputs: Sequence[LogicalTensor], arrays: Mapping[str, Array]) -> int:
    """How many examples a batch has: along the first axis of the first input for which its size is open.

    Where no input has such an axis all batches are alike, and the first input that has an axis is taken; without one it
    is 1. The order is that of the graph's inputs, not that in which arrays are given.
    """
    given = [(t.shape, arrays[label(t)]) for t in inputs if label(t) in arrays]
    lengths = [(shape is None or shape[0] == UNKNOWN_DIM, len(a)) for shape, a in given if a.ndim]
    return next((size for is_open, size in lengths if is_open), lengths[0][1] if lengths else 1)


def add_variable(graph: Graph, name: str, parameter: Parameter) -> LogicalTensor:
    """A tensor of this name that holds an f32 parameter."""
    shape = parameter.array.shape
    tensor = LogicalTensor(graph.fresh_id(), "f32", shape, property_type="variable", name=name)
    return graph.add_parameter(tensor, parameter)


def ids_read(graph: Graph) -> set[int]:
    """Ids of what ops read, and of what is assigned, which may be an input as it is given."""
    return {t.id for op in graph.ops for t in op.inputs} | {value.id for _, value in graph.assignments}


class Program:
    """A compiled graph that is called again and again with arrays of the same shapes.

    Args:
        graph: with known shapes.
        options: as for `Graph.compile`.
    """

    def __init__(self, graph: Graph, options: Mapping[str, Any]) -> None:
        self.model: CompiledGraph = graph.compile(**options)
        self._ports: dict[str, LogicalTensor] = dict(
            zip(self.model.input_names, self.model.inputs, strict=True)
        )
        read = ids_read(graph)
        self._read = {name for name, t in self._ports.items() if t.id in read}
        self._inputs = {
            name: allocate(t if t.id in read else t.with_shape(tuple(max(d, 0) for d in t.shape or ())))
            for name, t in self._ports.items()
        }
        tensors = {
            name: graph.tensor(t.id) for name, t in zip(graph.output_names, _outputs(graph), strict=True)
        }
        self._outputs = {name: allocate(t) for name, t in tensors.items()}
        if self.model.computed_shape_operand is None:
            self._call: Callable[[], object] = self.model.bind(self._inputs, self._outputs)
        else:  # which memory it needs is known as it runs
            self._call = partial(self.model, self._inputs, outputs=self._outputs)

    def take(self, feeds: Feeds, numbers: Mapping[str, float]) -> None:
        """Checks the arrays of the next run, and copies them.

        Raises:
            DataTypeError, ShapeError, ArgumentTypeError: an array that does not fit its input.
        """
        given: dict[str, Array] = {}
        for name, value in feeds.items():
            if name in self._read:
                what = f"input {name!r}"
                array = plain_array(value, what)
                check_array(array, self._ports[name], what)
                given[name] = array
        for name, array in given.items():
            np.copyto(self._inputs[name], array)
        for name, number in numbers.items():
            if name in self._inputs:
                self._inputs[name][...] = number

    def run(self) -> dict[str, Array]:
        """Runs it on what it took, and returns its outputs, which the next run writes over."""
        self._call()
        return self._outputs


def _outputs(graph: Graph) -> list[LogicalTensor]:
    """The tensor of each output name."""
    marked = {name or label(graph.tensor(number)): number for name, number in graph.marked_outputs}
    return [graph.tensor(marked[name]) for name in graph.output_names]
