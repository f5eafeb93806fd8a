"""OpenGraph: a graph whose ops are known once the sizes of its inputs are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, Unpack

from ..ops.data_types import DataType, parse_data_type
from ..ops.errors import GraphError
from .compile.compiled_graph import CompiledGraph
from .compile.compiled_open_graph import CompiledOpenGraph, open_ports
from .compile.options import CompileKeywords, CompileOptions, parse_options
from .compile.signature import Signature
from .core.editing import reshaped_inputs
from .graph import Graph
from .model.logical_tensor import LogicalTensor, format_shape, label
from .runtime.engine import Engine

Maker = Callable[[Mapping[str, tuple[int, ...]]], Graph]
"""From the shapes of all inputs, by name, to the graph for them."""


class OpenGraph(Graph):
    """A model of another framework whose shapes are computed from sizes of its inputs that are left open.

    It is pickled with all that it is made from, the model and its weights.

    Which ops it has depends on these sizes: a reshape's target, how far a mask reaches. `compile` works as ever: the
    first call with inputs of some sizes makes the graph for them. Everything that needs the ops (adding to it, files,
    pictures, partitions, gradients) is for the graph that `with_shapes` makes.

    Args:
        inputs: with -1 for sizes that are left open, and names.
        outputs: name and tensor of each, likewise.
        make: see `Maker`.
    """

    def __init__(
        self,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[tuple[str, LogicalTensor]],
        make: Maker,
    ) -> None:
        super().__init__()
        self._known_outputs = tuple(outputs)
        self._make = make
        self.content.know(inputs)
        self.content.declared = dict.fromkeys(t.id for t in inputs)

    @property
    def outputs(self) -> tuple[LogicalTensor, ...]:
        """What it returns, as far as it is known before the sizes of the inputs are."""
        return tuple(t for _, t in self._known_outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the outputs, by which a compiled graph returns them."""
        return tuple(name for name, _ in self._known_outputs)

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Graph:
        """The graph for inputs of these shapes; an `OpenGraph` again if some are still open.

        Raises:
            UnsupportedError: for these sizes, it has ops that can't be translated.
            ArgumentError, ArgumentTypeError, ShapeError: see `Graph`.
        """
        inputs = reshaped_inputs(self.content, shapes)
        if open_ports(inputs):
            return OpenGraph(inputs, self._known_outputs, self._make)
        return self._make({label(t): t.dims for t in inputs})

    def compile(self, engine: Engine | None = None, **options: Unpack[CompileKeywords]) -> CompiledGraph:
        """Prepares it to be made and compiled for the sizes of each call; see `Graph`."""
        return _prepared(self, parse_options(options), engine)

    def finalize(self) -> None:
        """Not here.

        Raises:
            GraphError: always; the graph that `with_shapes` makes can be finalized.
        """
        self.refuse("finalized")

    def prune(self, outputs: Sequence[LogicalTensor] | None = None) -> None:
        """Not here; see `finalize`."""
        self.refuse("pruned")

    def to_json(self) -> str:
        """Not here; see `finalize`."""
        self.refuse("written to a file")

    def save(self, path: object, *, weights: bool | None = None) -> None:
        """Not here; see `finalize`."""
        self.refuse("written to a file")

    def _check_open(self, what: str) -> None:
        self.refuse(f"built onto with {what}")

    def to(self, data_type: DataType | str, *, keep: Collection[str] = (), ports: bool = True) -> Graph:
        """The same in another number format, made for the sizes of each call; see `Graph`.

        Raises:
            GraphError: with `ports=False`, which changes the inputs; take the graph for some sizes then.
        """
        wanted = parse_data_type(data_type, "data_type")
        if not ports:
            self.refuse("given inputs of another type")
        return OpenGraph(
            self.inputs, self._known_outputs, partial(_converted, self._make, wanted, tuple(keep))
        )

    def for_inference(self, outputs: Sequence[str | LogicalTensor] | None = None) -> Graph:
        """Not here; see `finalize`."""
        self.refuse("taken for inference")

    def check_settled(self, done: str) -> None:
        """Says that something is for the graph of some sizes; see `refuse`."""
        self.refuse(done)

    def refuse(self, done: str) -> NoReturn:
        """Says that something is for the graph of some sizes.

        Args:
            done: what can't be done with it.

        Raises:
            GraphError: always.
        """
        shapes = ", ".join(f"{label(t)!r}: {format_shape(t.shape)}" for t in open_ports(self.inputs))
        raise GraphError(
            f"a graph whose ops depend on sizes that are open, {{{shapes}}}, can't be {done}; take the graph for some "
            "sizes, graph.with_shapes({…})"
        )

    def __copy__(self) -> OpenGraph:
        return OpenGraph(self.inputs, self._known_outputs, self._make)

    def __deepcopy__(self, memo: object) -> OpenGraph:
        return self.__copy__()

    def __reduce__(self) -> tuple[type[OpenGraph], tuple[object, ...]]:
        return OpenGraph, (self.inputs, self._known_outputs, self._make)

    def __str__(self) -> str:
        lines = [f"  input {t}" for t in self.inputs]
        return "\n".join([repr(self), *lines])

    def __repr__(self) -> str:
        return f"OpenGraph({', '.join(self.input_names)} → {', '.join(self.output_names)})"


def _prepared(graph: OpenGraph, options: CompileOptions, engine: Engine | None) -> CompiledOpenGraph:
    def made(shapes: Mapping[str, tuple[int, ...]]) -> CompiledGraph:
        return graph.with_shapes(shapes).compile(compiled.engine, **options.again(), choices=options.choices)

    signature = Signature(graph.inputs, list(zip(graph.output_names, graph.outputs, strict=True)), ())
    compiled = CompiledOpenGraph(signature, engine, made, partial(_prepared_again, graph, options.again()))
    return compiled


def _prepared_again(graph: OpenGraph, options: Mapping[str, Any], engine: Engine | None) -> CompiledOpenGraph:
    return _prepared(graph, CompileOptions(**options), engine)


def _converted(
    make: Maker, data_type: DataType, keep: Collection[str], shapes: Mapping[str, tuple[int, ...]]
) -> Graph:
    """The graph for some shapes in another number format; a function, so that it can be pickled."""
    return make(shapes).to(data_type, keep=keep)
