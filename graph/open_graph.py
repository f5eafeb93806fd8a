"""OpenGraph: a template of graphs, whose ops are known once the sizes of their inputs are."""

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
from .compile.whole import compile_graph
from .core.editing import reshaped_inputs
from .graph import Graph
from .model.logical_tensor import LogicalTensor, evolve_tensor, format_shape, label
from .runtime.engine import Engine

Maker = Callable[[Mapping[str, tuple[int, ...]]], "Graph | OpenGraph"]
"""From the shapes of all inputs, by name, to the graph for them."""
TRAINED = ("add_input", "gradients", "input", "parameter", "parameters", "set_parameters")
"""What is asked of a graph that is to be trained."""


class OpenGraph:
    """A model of another framework whose shapes are computed from sizes of its inputs that are left open.

    Which ops it has depends on these sizes: a reshape's target, how far a mask reaches. So it is no graph, but makes
    one for each set of sizes. `compile` works as ever: the first call with inputs of some sizes makes the graph for
    them. Everything that needs the ops (adding to it, files, pictures, partitions, gradients) is for the graph that
    `with_shapes` makes. One that was imported for training is trained by `Trainer`, with the loss as a function.

    It is pickled with all that it is made from, the model and its weights.

    Args:
        inputs: with -1 for sizes that are left open, and names.
        outputs: name and tensor of each, likewise.
        make: see `Maker`.
        example: shapes that there is a graph for, by the names of the inputs; None where none are known.

    Attributes:
        example: as it was given.
        inputs: what a call takes.
        outputs: what it returns, as far as it is known before the sizes of the inputs are.
        input_names, output_names: by which a compiled graph takes and returns them.
    """

    def __init__(
        self,
        inputs: Sequence[LogicalTensor],
        outputs: Sequence[tuple[str, LogicalTensor]],
        make: Maker,
        example: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.example = example
        # Without the graph that they come from: nothing can be added to them.
        self.inputs = tuple(map(evolve_tensor, inputs))
        self.outputs = tuple(evolve_tensor(t) for _, t in outputs)
        self.input_names = tuple(map(label, self.inputs))
        self.output_names = tuple(name for name, _ in outputs)
        self._make = make

    def with_shapes(self, shapes: Mapping[str, Sequence[int]]) -> Graph | OpenGraph:
        """The graph for inputs of these shapes; an `OpenGraph` again if some are still open.

        Args:
            shapes: input name → its shape; -1 leaves a size open, and so does an input that is not named.

        Raises:
            UnsupportedError: for these sizes, it has ops that can't be translated.
            ArgumentError, ArgumentTypeError: an unknown input, or no shape.
            ShapeError: a size that is known here is another one, or an op can't do with these.
        """
        inputs = reshaped_inputs(self.inputs, shapes)
        if open_ports(inputs):
            return OpenGraph(inputs, self._named_outputs, self._make, self.example)
        return self._make({label(t): t.dims for t in inputs})

    def compile(self, engine: Engine | None = None, **options: Unpack[CompileKeywords]) -> CompiledGraph:
        """Prepares it to be made and compiled for the sizes of each call; see `Graph.compile`.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown option, or a value that is none.
        """
        return _prepared(self, parse_options(options), engine)

    def to(self, data_type: DataType | str, *, keep: Collection[str] = (), ports: bool = True) -> OpenGraph:
        """The same in another number format, made for the sizes of each call.

        Args:
            data_type, keep: as for `Graph.to`.
            ports: True; inputs and outputs keep their types.

        Raises:
            ArgumentError, ArgumentTypeError: no data type.
            GraphError: with `ports=False`, which changes the inputs; take the graph for some sizes then.
        """
        wanted = parse_data_type(data_type, "data_type")
        if not ports:
            raise GraphError(f"inputs can't be given another type: {no_graph_yet(self)}")
        make = partial(_converted, self._make, wanted, tuple(keep))
        return OpenGraph(self.inputs, self._named_outputs, make, self.example)

    def no_graph(self) -> str:
        """Why it is no graph, and how to get one, for messages."""
        return _open(self)

    @property
    def _named_outputs(self) -> list[tuple[str, LogicalTensor]]:
        return list(zip(self.output_names, self.outputs, strict=True))

    def __getattr__(self, name: str) -> NoReturn:
        told = f"'{type(self).__name__}' has no attribute '{name}'"
        if name.startswith("_") or not hasattr(Graph, name):
            raise AttributeError(told)
        trained = "; Trainer takes it as it is, with a function that adds the loss" if name in TRAINED else ""
        raise AttributeError(f"{told}: {no_graph_yet(self)}{trained}")

    def __reduce__(self) -> tuple[type[OpenGraph], tuple[object, ...]]:
        return OpenGraph, (self.inputs, self._named_outputs, self._make, self.example)

    def __str__(self) -> str:
        lines = [f"  input {t}" for t in self.inputs]
        return "\n".join([repr(self), *lines])

    def __repr__(self) -> str:
        return f"OpenGraph({', '.join(self.input_names)} → {', '.join(self.output_names)})"


def no_graph_yet(graph: OpenGraph) -> str:
    """Why it is no graph, and how to get one, for messages."""
    return graph.no_graph()


def _open(graph: OpenGraph) -> str:
    shapes = ", ".join(f"{label(t)!r}: {format_shape(t.shape)}" for t in open_ports(graph.inputs))
    return (
        f"its ops depend on sizes that are open, {{{shapes}}}; take the graph for some sizes, "
        "graph.with_shapes({…})"
    )


def _prepared(graph: OpenGraph, options: CompileOptions, engine: Engine | None) -> CompiledOpenGraph:
    def made(shapes: Mapping[str, tuple[int, ...]]) -> CompiledGraph:
        found = graph.with_shapes(shapes)
        if isinstance(found, Graph):
            return compile_graph(found, compiled.engine, options)  # shares what is made of constants
        return found.compile(compiled.engine, **options.again(), choices=options.choices)

    signature = Signature(graph.inputs, list(zip(graph.output_names, graph.outputs, strict=True)), ())
    compiled = CompiledOpenGraph(
        signature, engine, made, partial(_prepared_again, graph, options.again()), options.kept_shapes
    )
    return compiled


def _prepared_again(graph: OpenGraph, options: Mapping[str, Any], engine: Engine | None) -> CompiledOpenGraph:
    return _prepared(graph, CompileOptions(**options), engine)


def _converted(
    make: Maker, data_type: DataType, keep: Collection[str], shapes: Mapping[str, tuple[int, ...]]
) -> Graph | OpenGraph:
    """The graph for some shapes in another number format; a function, so that it can be pickled."""
    return make(shapes).to(data_type, keep=keep)
